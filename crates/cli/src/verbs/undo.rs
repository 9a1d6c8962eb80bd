// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tardy undo`: puts back what killed runs left behind; runs that are alive are left alone.

use crate::args::Undo;
use crate::exit::{self, Exit, Failure, printable};
use crate::verbs::count;
use anyhow::{Context, Result};
use std::cell::Cell;
use std::io::{IsTerminal, Write, stderr, stdin};
use std::path::Path;
use tardy_engine::copy::contention;
use tardy_lab::command::{Command, OURSELVES};
use tardy_lab::host::runner::Processes;
use tardy_lab::host::ssh::{Ssh, SshError};
use tardy_lab::identity;
use tardy_lab::undo::{Leftover, PutBack, UndoError, UndoReport, leftovers, undo_all, undo_own};
use tardy_spec::experiment::Remote;

pub fn call(args: &Undo) -> Result<Exit> {
    if let Some(host) = &args.host {
        return elsewhere(host, args.sudo);
    }
    exit::end_with("what is not put back yet stays noted: run `tardy undo` again").context("signal handlers")?;
    let exit = put_back(&super::state(), args.own)?;
    // A second signal ended the run that this process was.
    Ok(if args.own { Exit::Interrupted } else { exit })
}

/// Has this program do it on another machine: there it is the same as here.
fn elsewhere(host: &str, sudo: bool) -> Result<Exit> {
    let cannot = |error: SshError| Failure::new(Exit::Cannot, error.to_string());
    if !Remote::is_called(host) {
        let why = format!("--host: \"{}\" cannot be a machine that is reached over ssh", printable(host));
        return Err(Failure::new(Exit::Usage, why).into());
    }
    let remote = Remote { ssh: host.to_owned(), sudo };
    let ssh = Ssh::reach(&remote, Path::new(identity::SELF)).map_err(cannot)?;
    let (said, code) = ssh.runs(&Command::new(OURSELVES, &["undo"])).map_err(cannot)?;
    for line in said {
        eprintln!("{host}: {}", one_line(&line));
    }
    match code {
        0 => Ok(Exit::Good),
        _ => Err(Failure::new(Exit::Cannot, format!("not all could be put back on `{host}`")).into()),
    }
}

fn put_back(state: &Path, only_own: bool) -> Result<Exit> {
    // Of one slot: what is counted is what is listed.
    let listed = Cell::new(0);
    let mut runner = Processes::new(|batch| {
        for command in batch.commands {
            eprintln!("  {}", one_line(&command.to_string()));
        }
        listed.set(listed.get() + batch.commands.len());
        // Most of it is something that was gone already, and no fault; it is reported all the same.
        for failure in batch.failures {
            let command = &batch.commands[failure.at.unwrap_or(0).min(batch.commands.len() - 1)];
            eprintln!("  # {}: {}", one_line(&command.to_string()), one_line(&failure.says));
        }
    });
    let mut hear = |slot: u16, put_back: Result<&PutBack, &UndoError>| match put_back {
        Ok(put_back) => tell(slot, put_back, listed.take()),
        Err(error) => {
            listed.set(0);
            eprintln!("slot {slot}: {}", one_line(&error.to_string()));
            show(error.shown().iter());
        }
    };
    if !only_own {
        for folder in contention::remove_of_killed() {
            eprintln!("  rmdir {}", folder.display());
        }
    }
    let undo = if only_own { undo_own } else { undo_all };
    let report = undo(state, &mut runner, &mut hear).map_err(|error| {
        show(error.shown().iter());
        Failure::new(Exit::Cannot, format!("{error}{}", needs_root()))
    })?;
    finish(&report)
}

fn tell(slot: u16, put_back: &PutBack, commands: usize) {
    for note in put_back.notes.iter().chain(&put_back.lost) {
        eprintln!("slot {slot}: {}", one_line(note));
    }
    if put_back.of_another_boot > 0 {
        let changes = count(put_back.of_another_boot as usize, "change");
        eprintln!("slot {slot}: {changes} went with the boot in which they were made: nothing to put back of them");
    }
    let (changes, agents) = (count(put_back.steps as usize, "change"), count(put_back.agents as usize, "agent"));
    eprintln!("slot {slot}: {changes} put back, {agents} ended, by {}", count(commands, "command"));
}

fn finish(report: &UndoReport) -> Result<Exit> {
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

/// Shows commands that are not run.
fn show<'a>(commands: impl ExactSizeIterator<Item = &'a String>) {
    if commands.len() > 0 {
        eprintln!("the content of its journals, none of it run:");
    }
    for command in commands {
        eprintln!("  {}", one_line(command));
    }
}

/// A journal's words must not pass for one of tardy's own lines.
fn one_line(text: &str) -> String {
    printable(&text.replace('\n', " "))
}

fn needs_root() -> String {
    if tardy_sys::process::may_build() {
        return String::new();
    }
    format!(": this needs root's CAP_NET_ADMIN and CAP_SYS_ADMIN: {}", tardy_sys::process::how_to_be_root())
}

/// Reports what killed runs left, and on a terminal shows how it is put back and offers to do it. A
/// new run does not need it: names never clash.
pub fn offer(state: &Path) -> Result<()> {
    let left = match leftovers(state) {
        Ok(left) => left,
        Err(error) => {
            eprintln!("tardy: {}", one_line(&error.to_string()));
            show(error.shown().iter());
            return Ok(());
        }
    };
    let (refused, left): (Vec<Leftover>, Vec<Leftover>) = left.into_iter().partition(|left| left.refused.is_some());
    for (slot, error) in refused.iter().filter_map(|left| Some((left.slot, left.refused.as_ref()?))) {
        eprintln!("tardy: slot {slot}: {}", one_line(&error.to_string()));
    }
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
    eprintln!(", by these commands:");
    for command in left.iter().flat_map(|left| &left.commands) {
        eprintln!("  {}", one_line(command));
    }
    eprint!("Do it now? [y/N] ");
    stderr().flush()?;
    let mut answer = String::new();
    stdin().read_line(&mut answer)?;
    if answer.trim().eq_ignore_ascii_case("y") {
        put_back(state, false)?;
    }
    Ok(())
}
