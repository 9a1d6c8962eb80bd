// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tardy undo`: puts back what killed runs left behind; runs that are alive are left alone.

use crate::exit::{Exit, Failure};
use crate::verbs::count;
use anyhow::Result;
use std::cell::Cell;
use std::io::{IsTerminal, Write, stderr, stdin};
use std::path::Path;
use tardy_lab::runner::Processes;
use tardy_lab::undo::{leftovers, undo_all};

/// Puts back everything.
pub fn call() -> Result<Exit> {
    put_back(&super::state())
}

fn put_back(state: &Path) -> Result<Exit> {
    // Of one slot: what is counted is what is listed.
    let listed = Cell::new(0);
    let mut runner = Processes::new(|batch| {
        for command in batch.commands {
            eprintln!("  {command}");
        }
        listed.set(listed.get() + batch.commands.len());
        // Most of it is something that was gone already, and no fault; what it was is told all the same.
        for failure in batch.failures {
            eprintln!("  # {}: {}", batch.commands.get(failure.index).unwrap_or(&batch.commands[0]), failure.says);
        }
    });
    let report = undo_all(state, &mut runner, &mut |slot, put_back| match put_back {
        Ok(put_back) => {
            let (changes, agents) =
                (count(put_back.steps as usize, "change"), count(put_back.agents as usize, "agent"));
            eprintln!("slot {slot}: {changes} put back, {agents} ended, by {}", count(listed.take(), "command"));
        }
        Err(error) => {
            listed.set(0);
            eprintln!("slot {slot}: {error}");
        }
    })
    .map_err(|error| Failure::new(Exit::Cannot, format!("{error}{}", needs_root())))?;
    if !report.failed.is_empty() {
        let slots = report.failed.iter().map(|(slot, error)| format!("slot {slot}: {error}")).collect::<Vec<_>>();
        return Err(Failure::new(
            Exit::Cannot,
            format!("not all could be put back: {}{}", slots.join("; "), needs_root()),
        )
        .into());
    }
    if report.undone.is_empty() {
        let alive = match report.live {
            0 => String::new(),
            live => format!(" by killed runs; {} alive and left alone", count(live as usize, "run")),
        };
        eprintln!("nothing is left behind{alive}");
    }
    Ok(Exit::Good)
}

fn needs_root() -> &'static str {
    if tardy_sys::process::may_build() { "" } else { ": this needs root; run it with sudo" }
}

/// Tells what killed runs left, and on a terminal offers to put it back. A new run does not need it: names never clash.
pub fn offer(state: &Path) -> Result<()> {
    let left = match leftovers(state) {
        Ok(left) => left,
        Err(error) => {
            eprintln!("tardy: {error}");
            return Ok(());
        }
    };
    if left.is_empty() {
        return Ok(());
    }
    let steps: u32 = left.iter().map(|left| left.steps).sum();
    let (runs, changes) = (count(left.len(), "killed run"), count(steps as usize, "change"));
    eprint!("{runs} left {changes} behind; `tardy undo` puts them back");
    if !(stdin().is_terminal() && stderr().is_terminal()) {
        eprintln!();
        return Ok(());
    }
    eprint!(". Do it now? [y/N] ");
    stderr().flush()?;
    let mut answer = String::new();
    stdin().read_line(&mut answer)?;
    if answer.trim().eq_ignore_ascii_case("y") {
        put_back(state)?;
    }
    Ok(())
}
