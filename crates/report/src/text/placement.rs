// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where a cell's threads ran, where its packets were taken in and what the CPUs did: few columns,
//! below the cell.

use super::page::{Ink, Page, columns};
use crate::figure::{self, SPACE};
use crate::summary;
use tardy_model::result::{CellResult, CpuPlacement, Placement, SoftirqPlacement};

const GAP: &str = "  ";
/// The first column is as wide as the longest name, but not wider.
const NAME: usize = 24;

pub(super) fn draw(cell: &CellResult, page: &mut Page) {
    if cell.placement.is_empty() {
        return;
    }
    page.blank();
    let rows = cell.placement.iter().map(thread).chain(cell.softirq.iter().map(softirq));
    table(["thread", "CPU", "ran on", "moved", "waited", "policy"], rows.collect(), page);
    let work = cell.cpus.iter().map(|cpu| {
        let count = |n| figure::count(n, SPACE);
        let name = format!("CPU {}", summary::cpu(cpu));
        [name, count(cpu.packets), count(cpu.net_rx), count(cpu.net_tx), count(cpu.interrupts), others(cpu)]
    });
    let work: Vec<_> = work.filter(|row| row[1..5].iter().any(|count| count != "0") || !row[5].is_empty()).collect();
    if !work.is_empty() {
        let has_others = work.iter().any(|row| !row[5].is_empty());
        let others = if has_others { "others" } else { "" };
        table(["did", "packets", "NET_RX", "NET_TX", "interrupts", others], work, page);
    }
}

/// What the columns mean that no other table has, once below all cells.
pub(super) fn legend(cells: &[CellResult], page: &mut Page) {
    let ran = |cell: &&CellResult| !cell.placement.is_empty() && !cell.trials.is_empty() && !cell.streams.is_empty();
    if cells.iter().any(|cell| ran(&cell)) {
        page.blank();
        let says = "waited: ready to run while others had the CPU · did: what each CPU did while the trials ran";
        page.labelled(2, "", 0, says, Ink::Dim);
    }
}

/// Below this part of the time others are not named: a fiftieth is what a desktop's services take.
const TOLD: f64 = 0.02;

/// Who used the CPU apart from tardy and its loads; empty if they took little.
fn others(cpu: &CpuPlacement) -> String {
    let took = cpu.others_ns.filter(|ns| cpu.elapsed_ns > 0 && *ns as f64 >= cpu.elapsed_ns as f64 * TOLD);
    let Some(ns) = took else { return String::new() };
    let who = summary::users(cpu);
    let who = if who.is_empty() { String::new() } else { format!(": {}", who.join(", ")) };
    format!("{}{who}", summary::share_of(Some(ns), cpu.elapsed_ns))
}

fn list(cpus: &[u32]) -> String {
    match cpus {
        [] => figure::ABSENT.to_owned(),
        cpus => cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(","),
    }
}

fn thread(placement: &Placement) -> [String; 6] {
    let absent = || figure::ABSENT.to_owned();
    let mut policy = placement.policy_granted.clone();
    if placement.policy_granted != placement.policy_asked {
        policy += &format!(", not {}", placement.policy_asked);
    }
    if !placement.memory_locked {
        policy += ", unlocked";
    }
    [
        placement.thread.clone(),
        placement.cpu_asked.clone(),
        list(&placement.cpus_seen),
        placement.migrations.map_or_else(absent, |n| figure::count(n, SPACE)),
        placement.wait_ns.map_or_else(absent, figure::about),
        policy,
    ]
}

/// What the table shows of a station's softirq in place of a policy.
fn softirq(softirq: &SoftirqPlacement) -> [String; 6] {
    let by = match (softirq.by.as_str(), softirq.napi_switches) {
        ("napi", Some(switches)) => format!("NAPI threads, {} switches", figure::count(switches, SPACE)),
        ("napi", None) => "NAPI threads".to_owned(),
        ("irq", _) => "its interrupts".to_owned(),
        (other, _) => other.to_uppercase(),
    };
    let none = String::new;
    [format!("{} softirq", softirq.station), softirq.cpu_asked.clone(), list(&softirq.cpus_seen), none(), none(), by]
}

/// A row's first and last text begin at their left edge, figures end at their right one.
fn table(head: [&str; 6], rows: Vec<[String; 6]>, page: &mut Page) {
    let head = head.map(str::to_owned);
    let mut widths = [0; 6];
    for row in rows.iter().chain([&head]) {
        for (width, text) in widths.iter_mut().zip(row) {
            *width = (*width).max(columns(text));
        }
    }
    widths[0] = widths[0].clamp(10, NAME);
    // What is left of a line; a long policy is whole in the other formats.
    let room =
        page.width().saturating_sub(widths[..5].iter().map(|width| width + GAP.len()).sum::<usize>() + GAP.len());
    for row in [&head].into_iter().chain(&rows) {
        let figures = row.iter().zip(widths).skip(1).take(4).map(|(text, width)| format!("{text:>width$}"));
        let figures: Vec<String> = figures.collect();
        let (name, last) = (cut(&row[0], widths[0]), cut(&row[5], room));
        page.line(&format!("{GAP}{name:<width$}{GAP}{}{GAP}{last}", figures.join(GAP), width = widths[0]));
    }
}

/// The text within `width` columns.
fn cut(text: &str, width: usize) -> String {
    if columns(text) <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}
