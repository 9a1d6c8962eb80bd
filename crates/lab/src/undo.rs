// SPDX-License-Identifier: MIT OR Apache-2.0
//! Puts back what was changed, from the journal: at the end of a cell, and for runs that were killed.
//!
//! Every inverse may be run twice: what is already gone is no error. So a kill in the middle of an undo only means that the
//! next one begins again.

use crate::command::{Batch, Command};
use crate::journal::{self, Journal, JournalError};
use crate::leftover;
use crate::names::{self, Hold};
use crate::process::Identity;
use crate::runner::{Failure, RunError, Runner};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};
use thiserror::Error;

/// A killed process may take so long to go; so may the last command of a killed run.
const PATIENCE: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Complaints of `ip`, `tc`, `kill` and a shell (the last) that something is already gone.
const GONE: [&str; 6] = [
    // tc, of a device that has no queue discipline but its own.
    "Cannot delete qdisc with handle of zero",
    "No such file or directory",
    "Cannot find device",
    "No such device",
    "No such process",
    "Directory nonexistent",
];

/// Also a name that no namespace was ever given to: `ip netns attach` makes the file first, and where the run whose
/// namespace it is about to name is killed just then, it dies of its complaint before it has removed the file. Nothing was
/// ever in there. A kernel that refuses to move a device says EINVAL too, but not in these words.
fn is_gone(says: &str) -> bool {
    GONE.iter().any(|gone| says.contains(gone))
        || (says.contains("setting the network namespace") && says.contains("Invalid argument"))
}

/// Something could not be put back. What is left stands in the journal, for the next `tardy undo`.
#[derive(Debug, Error)]
pub enum UndoError {
    /// The state folder.
    #[error("cannot look for leftovers in {}: {source}", path.display())]
    State {
        /// Which.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The journal.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// A program.
    #[error("cannot undo: {0}")]
    Run(#[from] RunError),
    /// Commands that failed.
    #[error("not put back: {}; run `tardy undo` as root once more, or these commands by hand", list(.0))]
    Failed(Vec<NotUndone>),
    /// A process that does not go.
    #[error(
        "process {pid} of a killed run was sent SIGKILL and has not ended: it waits inside the kernel; `tardy undo` again later"
    )]
    Stuck {
        /// Its number.
        pid: u32,
    },
}

/// An inverse that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotUndone {
    /// The command.
    pub command: Command,
    /// The program's own words.
    pub says: String,
}

fn list(failed: &[NotUndone]) -> String {
    failed.iter().map(|it| format!("`{}` ({})", it.command, it.says)).collect::<Vec<_>>().join(", ")
}

/// What was put back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PutBack {
    /// Steps whose inverse was run.
    pub steps: u32,
    /// Processes that were still alive and were ended.
    pub agents: u32,
}

/// Puts back all that a journal holds, last step first, and empties it. A failure does not keep the rest from being tried.
pub(crate) fn put_back(journal: &mut Journal, runner: &mut dyn Runner) -> Result<PutBack, UndoError> {
    let agents = end_agents(&journal.contents().agents, runner)?;
    let begun = journal.contents().steps.clone();
    let commands: Vec<(u32, Command)> =
        begun.iter().rev().flat_map(|(step, undo)| undo.iter().map(|command| (*step, command.clone()))).collect();

    let mut failed: Vec<(u32, NotUndone)> = Vec::new();
    let mut rest = &commands[..];
    for batch in Batch::group(commands.iter().map(|(_, command)| command.clone())) {
        let (now, later) = rest.split_at(batch.commands().len());
        rest = later;
        // A namespace goes with all that is in it, so it must not go while something that was to leave it is still there.
        let is_needed = |name: &str| failed.iter().any(|(_, it)| it.command.names(name));
        let (kept, now_run): (Vec<_>, Vec<_>) =
            now.iter().partition(|(_, command)| command.ends_namespace().is_some_and(is_needed));
        failed.extend(kept.into_iter().map(|(step, command)| {
            (*step, NotUndone { command: command.clone(), says: "kept: something in it was not put back".to_owned() })
        }));
        if let Some(batch) = Batch::group(now_run.iter().map(|(_, command)| command.clone())).pop() {
            let output = runner.run(&batch.keep_going(true))?;
            let left = output.failures.iter().filter(|failure| !is_gone(&failure.says));
            failed.extend(left.map(|failure: &Failure| {
                let (step, command) = now_run.get(failure.index).unwrap_or(&now_run[0]);
                (*step, NotUndone { command: command.clone(), says: failure.says.clone() })
            }));
        }
        // A step is done with when its last inverse is. A mark that cannot be written is no reason to stop undoing.
        let mut done: Vec<u32> = now.iter().map(|(step, _)| *step).collect();
        done.dedup();
        done.retain(|step| later.first().is_none_or(|(next, _)| next != step));
        done.retain(|step| failed.iter().all(|(of, _)| of != step));
        if !done.is_empty() {
            let _ = journal.undone(&done);
        }
    }
    let failed: Vec<NotUndone> = failed.into_iter().map(|(_, it)| it).collect();
    if !failed.is_empty() {
        return Err(UndoError::Failed(failed));
    }
    journal.clear()?;
    Ok(PutBack { steps: begun.len() as u32, agents })
}

/// Ends those that still run, and waits until they are gone.
fn end_agents(agents: &[Identity], runner: &mut dyn Runner) -> Result<u32, UndoError> {
    let mut ended = 0;
    for agent in agents.iter().filter(|agent| agent.is_alive()) {
        // The shell's own `kill`: the program is not on every machine.
        let kill = Command::new("sh", &["-c", &format!("kill -KILL {}", agent.pid)]);
        let output = runner.run(&Batch::one(kill.clone()))?;
        if let Some(failure) = output.failures.first().filter(|_| agent.is_alive()) {
            return Err(UndoError::Failed(vec![NotUndone { command: kill, says: failure.says.clone() }]));
        }
        if !wait_until(|| !agent.is_alive()) {
            return Err(UndoError::Stuck { pid: agent.pid });
        }
        ended += 1;
    }
    Ok(ended + end_programs(agents, runner)?)
}

/// Ends what the agents had started and that outlived them: a program of a load, or what that had started in turn.
fn end_programs(agents: &[Identity], runner: &mut dyn Runner) -> Result<u32, UndoError> {
    let mut ended = 0;
    let until = Instant::now() + PATIENCE;
    loop {
        // Such a program may be starting others just now: looked for until there are none.
        let left = leftover::of(agents);
        let Some(first) = left.first() else { return Ok(ended) };
        if Instant::now() > until {
            return Err(UndoError::Stuck { pid: first.pid });
        }
        for program in &left {
            let kill = Command::new("sh", &["-c", &format!("kill -KILL {}", program.pid)]);
            runner.run(&Batch::one(kill))?;
            ended += 1;
        }
        wait_until(|| left.iter().all(|program| !program.is_alive()));
    }
}

fn wait_until(mut holds: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        if Instant::now() > end {
            return false;
        }
        sleep(LOOK_EVERY);
    }
    true
}

/// What a killed run left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leftover {
    /// Its slot.
    pub slot: u16,
    /// Steps to undo.
    pub steps: u32,
    /// Processes that it had started.
    pub agents: u32,
}

/// What killed runs have left; changes nothing.
///
/// # Errors
/// If the state folder or a journal cannot be read.
pub fn leftovers(state: &Path) -> Result<Vec<Leftover>, UndoError> {
    let numbers = names::numbers(state).map_err(|source| UndoError::State { path: state.to_owned(), source })?;
    let mut left = Vec::new();
    for slot in numbers {
        let dir = names::slots(state).join(slot.to_string());
        if names::is_live(&dir) {
            continue;
        }
        let contents = journal::read(&dir.join("journal.jsonl"))?;
        if !contents.is_empty() {
            left.push(Leftover { slot, steps: contents.steps.len() as u32, agents: contents.agents.len() as u32 });
        }
    }
    Ok(left)
}

/// What [`undo_all`] did.
#[derive(Debug, Default)]
pub struct UndoReport {
    /// Slots that were put back.
    pub undone: Vec<(u16, PutBack)>,
    /// Slots of runs that are alive, left alone.
    pub live: u32,
    /// Slots that could not be put back wholly.
    pub failed: Vec<(u16, UndoError)>,
}

/// Puts back what every killed run left behind, and leaves runs that are alive alone. May be run at any time and again.
/// `report` hears of each slot when it is done.
///
/// # Errors
/// If the state folder cannot be read. What fails for one slot stands in the report.
pub fn undo_all(
    state: &Path,
    runner: &mut dyn Runner,
    report: &mut dyn FnMut(u16, Result<PutBack, &UndoError>),
) -> Result<UndoReport, UndoError> {
    let failed = |source| UndoError::State { path: state.to_owned(), source };
    let mut done = UndoReport::default();
    for slot in names::numbers(state).map_err(failed)? {
        let Some(hold) = take(state, slot).map_err(failed)? else {
            done.live += 1;
            continue;
        };
        let put = Journal::open(Arc::new(hold)).map_err(UndoError::from).and_then(|mut journal| {
            let nothing = journal.contents().is_empty();
            put_back(&mut journal, runner).map(|put| (!nothing).then_some(put))
        });
        match put {
            Ok(None) => {}
            Ok(Some(put)) => {
                report(slot, Ok(put));
                done.undone.push((slot, put));
            }
            Err(error) => {
                report(slot, Err(&error));
                done.failed.push((slot, error));
            }
        }
    }
    Ok(done)
}

/// Takes a slot that no living run has. If the owner is dead and the lock is still held, its last command is just ending.
fn take(state: &Path, slot: u16) -> io::Result<Option<Hold>> {
    let slots = names::slots(state);
    let dir = slots.join(slot.to_string());
    let mut hold = Hold::take(&slots, slot)?;
    if hold.is_none() && names::owner(&dir).is_some_and(|owner| !owner.is_alive()) {
        let mut error = None;
        wait_until(|| match Hold::take(&slots, slot) {
            Ok(None) => false,
            Ok(taken) => {
                hold = taken;
                true
            }
            Err(source) => {
                error = Some(source);
                true
            }
        });
        if let Some(error) = error {
            return Err(error);
        }
    }
    Ok(hold)
}
