// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table, and the page it is written into.

use crate::Bench;
use crate::row::{self, Better, Bound, Met, Row, Verdict};
use anyhow::{Context, Result, bail};
use std::fmt::Write;
use std::path::Path;
use std::process::Command;

/// The lines around the generated part of the page.
const MARKS: [&str; 2] = ["<!-- made by `make bench`: begin -->\n", "<!-- made by `make bench`: end -->\n"];

fn figure(value: Option<f64>, unit: &str) -> String {
    match value {
        None => "–".to_owned(),
        Some(value) if value >= 100.0 => format!("{value:.0} {unit}"),
        Some(value) if value >= 10.0 => format!("{value:.1} {unit}"),
        Some(value) => format!("{value:.2} {unit}"),
    }
}

fn bound(row: &Row) -> String {
    let limit = match row.bound {
        Bound::RatioAtMost(most) => format!("≤ {most}×"),
        Bound::RatioAtLeast(least) => format!("≥ {least}×"),
        Bound::AtMost(most) => format!("≤ {most} {}", row.unit),
        Bound::None => return String::new(),
    };
    match row.met() {
        Some(Met::Yes) => format!("{limit} ✓"),
        Some(Met::Perhaps) => format!("{limit} within the spread"),
        Some(Met::No) => format!("**{limit} ✗**"),
        None => format!("{limit} ?"),
    }
}

/// The spread of an earlier run, and where today's pairs lie. A row without a peer is
/// held by its own figures, so it says their unit. A row that is not compared has none.
fn earlier(row: &Row) -> String {
    if row.better == Better::Uncompared {
        return String::new();
    }
    let unit = if row.peers().is_none() { format!(" {}", row.unit) } else { String::new() };
    let spread = row.earlier.map(|earlier| format!("{earlier}{unit}"));
    let verdict = row.verdict().map(|verdict| match verdict {
        Verdict::Worse => format!("**{verdict}**"),
        _ => verdict.to_string(),
    });
    spread.into_iter().chain(verdict).collect::<Vec<_>>().join(": ")
}

/// A row in Markdown.
fn line(row: &Row) -> String {
    let ratio = row.ratio().map_or_else(String::new, |ratio| ratio.to_string());
    let (peer, theirs) = match row.peers() {
        Some(value) => (row.peer.as_str(), figure(Some(value), row.unit)),
        None => ("", String::new()),
    };
    let (ours, pairs) = (figure(row.ours(), row.unit), row.pairs.len());
    let (bound, earlier) = (bound(row), earlier(row));
    format!("| {} | {ours} | {peer} | {theirs} | {ratio} | {pairs} | {bound} | {earlier} |", row.what)
}

/// What distinguishes a row from the others: what was measured, and what it is compared with.
fn key(line: &str) -> Option<(&str, &str)> {
    let mut cells = line.strip_prefix("| ")?.split(" | ");
    let what = cells.next()?;
    Some((what, cells.nth(1)?))
}

/// The table in Markdown, then the commands.
pub fn table(rows: &[Row]) -> String {
    let mut text = String::from(
        "| what | tardy | compared with | its figure | ratio (least–greatest) | pairs | bound | earlier |\n\
         | --- | ---: | --- | ---: | ---: | ---: | --- | --- |\n",
    );
    for row in rows {
        let _ = writeln!(text, "{}", line(row));
    }
    text += "\nMedians; a ratio is tardy's figure over the other's within a pair. The commands:\n\n```sh\n";
    commands(rows).iter().for_each(|command| text += &format!("{command}\n"));
    text + "```\n"
}

/// How the rows were made, each command once.
fn commands(rows: &[Row]) -> Vec<String> {
    let mut commands: Vec<String> = Vec::new();
    for command in rows.iter().flat_map(|row| [&row.command, &row.peer_command]) {
        if !command.is_empty() && !commands.contains(command) {
            commands.push(command.clone());
        }
    }
    commands
}

/// This machine: pairs of another one are not compared with it.
pub fn here() -> Result<String> {
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").context("/proc/sys/kernel/osrelease")?;
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let cpus = std::thread::available_parallelism()?;
    Ok(format!("{cpus} CPUs ({}), Linux {}", row::processor(&info), kernel.trim()))
}

/// What was measured, and on which machine.
pub fn machine(bench: &Bench) -> Result<String> {
    let version = Command::new(&bench.tardy).arg("--version").output().context("tardy --version")?;
    let text = format!("{} on {}.", String::from_utf8_lossy(&version.stdout), here()?);
    Ok(row::filled(&text) + "\n")
}

/// Puts rows that were measured anew in the place of those of a page. One that is new there goes
/// behind the one before it, the first one behind the last of the page; a new command goes behind
/// the others.
pub fn renew(page: &Path, rows: &[Row], names: &[String]) -> Result<()> {
    let text = std::fs::read_to_string(page).with_context(|| format!("{} cannot be read", page.display()))?;
    let mut text = row::with_anew(&text, &here()?, names);
    let missing = || format!("{} has no table: measure all of it first, naming no comparison", page.display());
    let mut before: Option<String> = None;
    for row in rows {
        let new = line(row);
        let old = text.lines().find(|old| key(old).is_some() && key(old) == key(&new)).map(str::to_owned);
        text = match (old, before) {
            (Some(old), _) => text.replacen(&old, &new, 1),
            (None, Some(before)) => text.replacen(&before, &format!("{before}\n{new}"), 1),
            (None, None) => {
                let (own, after) = text.split_once(MARKS[1]).with_context(missing)?;
                let last = own.lines().rfind(|line| key(line).is_some()).with_context(missing)?;
                let own = own.replacen(last, &format!("{last}\n{new}"), 1);
                format!("{own}{}{after}", MARKS[1])
            }
        };
        before = Some(new);
    }
    for command in commands(rows) {
        let (own, after) = text.split_once(MARKS[1]).with_context(missing)?;
        let (above, list) = own.rsplit_once("```sh\n").with_context(missing)?;
        if !list.lines().any(|line| line == command) {
            let list = list.replacen("```\n", &format!("{command}\n```\n"), 1);
            text = format!("{above}```sh\n{list}{}{after}", MARKS[1]);
        }
    }
    std::fs::write(page, text).with_context(|| format!("{} cannot be written", page.display()))
}

/// Writes machine and table between the marks of a page.
pub fn write(page: &Path, table: &str, machine: &str) -> Result<()> {
    let text = std::fs::read_to_string(page).with_context(|| format!("{} cannot be read", page.display()))?;
    let [begin, end] = MARKS;
    let Some((before, after)) =
        text.split_once(begin).and_then(|(before, rest)| Some((before, rest.split_once(end)?.1)))
    else {
        bail!("{} has not the marks {begin:?} and {end:?}", page.display());
    };
    std::fs::write(page, format!("{before}{begin}\n{machine}\n{table}\n{end}{after}"))
        .with_context(|| format!("{} cannot be written", page.display()))
}
