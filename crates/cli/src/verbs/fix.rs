// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tardy doctor --fix --apply`: makes the changes that fix what spoils figures. Each is noted in a
//! journal before it is made, so that `tardy undo` takes all of them back.

use crate::exit::{self, Exit, Failure, printable};
use crate::verbs::count;
use anyhow::{Context, Result};
use tardy_doctor::{Check, Diagnosis, FixCommand, Verdict, problems};
use tardy_lab::fixes::{FixError, Fixes, Made};
use tardy_lab::host::runner::Processes;

/// Refuses what could not change this machine.
///
/// # Errors
/// With another host, or without root.
pub fn may_apply(host: Option<&str>) -> Result<()> {
    if let Some(host) = host {
        let why = format!(
            "--apply changes the machine that it is called on: log in to `{0}` and call `tardy doctor --fix --apply` there, or see \
             what it would do with `tardy doctor --host {0} --fix`",
            printable(host)
        );
        return Err(Failure::new(Exit::Usage, why).into());
    }
    if !tardy_sys::process::is_root() {
        let why = format!(
            "--apply changes settings of the whole machine, which needs root: {}; nothing is changed",
            tardy_sys::process::how_to_be_root()
        );
        return Err(Failure::new(Exit::Cannot, why).into());
    }
    Ok(())
}

/// The changes that fix what spoils figures, each once: two CPUs may ask for the same.
fn wanted(found: &Diagnosis) -> Vec<(&Check, &FixCommand)> {
    let mut wanted: Vec<(&Check, &FixCommand)> = Vec::new();
    for check in found.checks.iter().filter(|check| check.verdict == Verdict::Spoils) {
        for command in check.fix.iter().flat_map(|fix| &fix.commands) {
            if !wanted.iter().any(|(_, of)| of.change.is_of_the_same(&command.change)) {
                wanted.push((check, command));
            }
        }
    }
    wanted
}

/// Makes the changes, and shows what spoils figures all the same.
///
/// # Errors
/// If none of them could be made.
pub fn apply(found: &Diagnosis, again: impl FnOnce() -> Result<Diagnosis>) -> Result<Exit> {
    let wanted = wanted(found);
    if wanted.is_empty() {
        super::print(&format!("No command fixes what spoils figures here; nothing is changed\n{}", left(found)))?;
        return Ok(if found.fine { Exit::Good } else { Exit::Unmet });
    }
    exit::end_with("what was changed so far stays, and is noted: `tardy undo` takes it back")
        .context("signal handlers")?;
    let state = super::state();
    let cannot = |error: FixError| Failure::new(Exit::Cannot, format!("nothing is changed: {error}"));
    let mut fixes = Fixes::begin(&state, |slot| Processes::new(|_| {}).holding(slot)).map_err(cannot)?;
    let (mut made, mut already, mut last) = (0, 0, None);
    for (check, FixCommand { does, change, .. }) in &wanted {
        if last.replace(&check.fact) != Some(&check.fact) {
            super::print(&format!("{}: {}\n", check.id, one_line(&check.fact)))?;
        }
        let says = match fixes.make(change) {
            Ok(Made::Changed(change)) => {
                made += 1;
                format!("  {does}\n    back: {}\n", change.line_back())
            }
            Ok(Made::Already) => {
                already += 1;
                format!("  {does}\n    it is so by now\n")
            }
            Err(why) => format!("  {does}\n    NOT DONE: {why}\n"),
        };
        super::print(&printable_lines(&says))?;
    }
    let slot = fixes.slot();
    drop(fixes);
    if made + already == 0 {
        let none = format!("none of {} could be made; nothing is changed", count(wanted.len(), "change"));
        return Err(Failure::new(Exit::Cannot, none).into());
    }
    let now = again()?;
    let noted = match made {
        0 => String::new(),
        made => format!("{} made, noted in slot {slot}: `tardy undo` takes all of it back\n", count(made, "change")),
    };
    super::print(&format!("\n{noted}{}", left(&now)))?;
    Ok(if now.fine { Exit::Good } else { Exit::Unmet })
}

/// What spoils figures still, in lines.
fn left(found: &Diagnosis) -> String {
    let lines = problems(&found.checks);
    if lines.is_empty() {
        return "FINE     nothing would spoil figures\n".to_owned();
    }
    let lines: String = lines.iter().map(|line| format!("SPOILS   {}\n", one_line(line))).collect();
    format!("{lines}         `tardy doctor` has what helps\n")
}

fn one_line(text: &str) -> String {
    printable(text).replace('\n', " ")
}

fn printable_lines(text: &str) -> String {
    text.lines().map(|line| printable(line) + "\n").collect()
}
