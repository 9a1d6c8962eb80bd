// SPDX-License-Identifier: MIT OR Apache-2.0
//! Puts back what was changed, from the journal: at the end of a cell, and for runs that were
//! killed.
//!
//! Every inverse may be run twice: what is already gone is no error. So a kill in the middle of an
//! undo only means that the next one begins again.

use crate::command::{Batch, Command};
use crate::host::Away;
use crate::host::runner::{Failure, Runner};
use crate::journal::{self, Journal, JournalError};
use crate::process::{Identity, end_marked};
use crate::returned::{self, Way};
use crate::slot::{self, Hold, Take};
use crate::state::{Folder, StateError};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};
use tardy_model::harmless;
use thiserror::Error;

/// A killed process may take so long to go; so may the last command of a killed run.
const PATIENCE: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Complaints of `ip`, `tc` and a shell (the last) that something is already gone.
const GONE: [&str; 7] = [
    // tc, of a device that has no queue discipline but its own.
    "Cannot delete qdisc with handle of zero",
    "No such file or directory",
    "Cannot find device",
    "No such device",
    "No such process",
    "Directory nonexistent",
    // `ip addr flush dev`, of a device.
    "does not exist",
];

/// Also a name that no namespace was ever given to: `ip netns attach` makes the file first, and
/// where the run whose namespace it is about to name is killed just then, it dies of its complaint
/// before it has removed the file. Nothing was ever in there. A kernel that refuses to move a
/// device says EINVAL too, but not in these words.
fn is_gone(says: &str) -> bool {
    GONE.iter().any(|gone| says.contains(gone))
        || (says.contains("setting the network namespace") && says.contains("Invalid argument"))
}

/// Something could not be put back. The journal keeps what is left for the next `tardy undo`.
#[derive(Debug, Error)]
pub enum UndoError {
    /// The state folder, or one in it, is somebody else's or cannot be read. Nothing of it is run.
    #[error("{source}")]
    Refused {
        /// What is wrong with it.
        source: StateError,
        /// The commands that its journals hold, for a person to look at.
        shown: Vec<String>,
    },
    /// The journal cannot be read. Nothing of it is run.
    #[error("{source}")]
    Unread {
        /// What is wrong with it.
        source: JournalError,
        /// The commands that it holds, as far as they are known.
        shown: Vec<String>,
    },
    /// The journal cannot be written.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// So says another host.
    #[error(transparent)]
    Away(#[from] Away),
    /// Commands that failed, processes that do not end.
    #[error("not put back: {}; run `tardy undo` as root once more, or see to it by hand", list(failed, stuck))]
    Left { failed: Vec<NotUndone>, stuck: Vec<u32> },
    /// Network devices that are nowhere to be found. There is nothing left to be done for them.
    #[error("{}", .0.join(", "))]
    Lost(Vec<String>),
    /// The run that left it is dead, and something else has its slot.
    #[error(
        "the run that had this slot is dead, and the slot is still held by {holder}: wait for the end of that, or end it, then run `tardy undo` again"
    )]
    Busy { holder: String },
}

impl UndoError {
    /// Commands that were not run, because the journal is not to be trusted.
    pub fn shown(&self) -> &[String] {
        match self {
            UndoError::Refused { shown, .. } | UndoError::Unread { shown, .. } => shown,
            _ => &[],
        }
    }
}

/// An inverse that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotUndone {
    pub command: Command,
    /// The program's own words.
    pub says: String,
}

fn list(failed: &[NotUndone], stuck: &[u32]) -> String {
    let failed = failed.iter().map(|it| format!("`{}` ({})", it.command, it.says));
    let stuck = stuck.iter().map(|pid| {
        format!("process {pid} of the run was sent SIGKILL and has not ended, because it waits inside the kernel")
    });
    failed.chain(stuck).collect::<Vec<_>>().join(", ")
}

/// What was put back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PutBack {
    /// Steps whose inverse was run.
    pub steps: u32,
    /// Processes that were still alive and were ended.
    pub agents: u32,
    /// Steps that went with the boot in which they were made.
    pub of_another_boot: u32,
    /// What a person should know of it.
    pub notes: Vec<String>,
    /// Network devices that are nowhere to be found.
    pub lost: Vec<String>,
}

impl PutBack {
    /// The same as another host said it: no word of it breaks out of a line.
    pub(crate) fn of_elsewhere(self) -> PutBack {
        let blanked = |all: Vec<String>| all.iter().map(|text| harmless::blanked(text)).collect();
        PutBack { notes: blanked(self.notes), lost: blanked(self.lost), ..self }
    }

    /// Adds what was put back elsewhere.
    pub(crate) fn add(&mut self, other: PutBack) {
        self.steps += other.steps;
        self.agents += other.agents;
        self.of_another_boot += other.of_another_boot;
        self.notes.extend(other.notes);
        self.lost.extend(other.lost);
    }
}

/// Puts back all that a journal holds and does not keep, last step first, and takes it out. A
/// failure does not keep the rest from being tried, nor does a process that does not end.
pub(crate) fn put_back(journal: &mut Journal, runner: &mut dyn Runner) -> Result<PutBack, UndoError> {
    let mut contents = journal.present();
    let (agents, stuck) = end_agents(&contents.agents);
    let of_another_boot = contents.forget_other_boots();
    let Way { commands, notes, lost, left_alone } = returned::way(&contents.steps, runner);
    let steps = (contents.steps.len() as u32).saturating_sub(left_alone);

    let mut failed: Vec<(u32, NotUndone)> = Vec::new();
    let mut rest = &commands[..];
    for batch in Batch::group(commands.iter().map(|(_, command)| command.clone())) {
        let (now, later) = rest.split_at(batch.commands().len());
        rest = later;
        // A namespace goes with all that is in it, so it must not go while something that was to
        // leave it is still there.
        let is_needed = |name: &str| failed.iter().any(|(_, it)| it.command.names(name));
        let (kept, now_run): (Vec<_>, Vec<_>) =
            now.iter().partition(|(_, command)| command.ends_namespace().is_some_and(is_needed));
        failed.extend(kept.into_iter().map(|(step, command)| {
            (*step, NotUndone { command: command.clone(), says: "kept: something in it was not put back".to_owned() })
        }));
        failed.extend(run(&now_run, runner));
        // A step is done with when its last inverse is. A mark that cannot be written is no reason
        // to stop undoing.
        let mut done: Vec<u32> = now.iter().map(|(step, _)| *step).collect();
        done.dedup();
        done.retain(|step| later.iter().all(|(other, _)| other != step));
        done.retain(|step| failed.iter().all(|(of, _)| of != step));
        if !done.is_empty() {
            let _ = journal.undone(&done);
        }
    }
    let failed: Vec<NotUndone> = failed.into_iter().map(|(_, it)| it).collect();
    if !(failed.is_empty() && stuck.is_empty()) {
        return Err(UndoError::Left { failed, stuck });
    }
    journal.clear()?;
    Ok(PutBack { steps, agents, of_another_boot, notes, lost })
}

/// Runs neighbours that one process can run; those that failed, by step.
fn run(commands: &[&(u32, Command)], runner: &mut dyn Runner) -> Vec<(u32, NotUndone)> {
    let Some(batch) = Batch::group(commands.iter().map(|(_, command)| command.clone())).pop() else {
        return Vec::new();
    };
    let not_undone = |(step, command): &&(u32, Command), says: &str| {
        (*step, NotUndone { command: command.clone(), says: says.to_owned() })
    };
    let failures = match runner.run(&batch.keep_going(true)) {
        Ok(output) => output.failures,
        Err(error) => vec![Failure { at: None, says: error.to_string() }],
    };
    let left = failures.iter().filter(|failure| !is_gone(&failure.says));
    let each = left.flat_map(|failure| match failure.at.and_then(|at| commands.get(at)) {
        Some(command) => vec![not_undone(command, &failure.says)],
        // It is not known how far it came.
        None => commands.iter().map(|command| not_undone(command, &failure.says)).collect(),
    });
    each.collect()
}

/// Ends those that still run, and waits until they are gone: how many were ended, and the numbers
/// of those that did not go.
fn end_agents(agents: &[Identity]) -> (u32, Vec<u32>) {
    let (mut ended, mut stuck) = (0, Vec::new());
    for agent in agents.iter().filter(|agent| agent.is_alive()) {
        let _ = agent.kill();
        if wait_until(|| !agent.is_alive()) { ended += 1 } else { stuck.push(agent.pid) }
    }
    // What the agents had started and that outlived them: a program of a load, or what that had
    // started in turn.
    let (programs, left) = end_marked(agents, PATIENCE);
    stuck.extend(left.iter().map(|program| program.pid));
    (ended + programs, stuck)
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
#[derive(Debug)]
pub struct Leftover {
    pub slot: u16,
    pub steps: u32,
    /// Processes that it had started.
    pub agents: u32,
    /// The commands that would put it back.
    pub commands: Vec<String>,
    /// Why it cannot be put back by this user or this version, if so.
    pub refused: Option<UndoError>,
}

/// What killed runs have left, without what a doctor has changed; changes nothing.
///
/// # Errors
/// If the state folder cannot be read, or is somebody else's.
pub fn leftovers(state: &Path) -> Result<Vec<Leftover>, UndoError> {
    let Some(slots) = slots_of(state)? else { return Ok(Vec::new()) };
    let mut left = Vec::new();
    for slot in slot::numbers(&slots).map_err(|source| refused(source, state))? {
        match contents_of(&slots, slot) {
            Ok(None) => {}
            Ok(Some(contents)) if contents.keeper.is_some() => {}
            Ok(Some(mut contents)) => {
                contents.forget_other_boots();
                let commands = contents.commands().iter().map(ToString::to_string).collect();
                if !contents.is_empty() {
                    let (steps, agents) = (contents.steps.len() as u32, contents.agents.len() as u32);
                    left.push(Leftover { slot, steps, agents, commands, refused: None });
                }
            }
            Err(error) => {
                let commands = error.shown().to_vec();
                left.push(Leftover { slot, steps: 0, agents: 0, commands, refused: Some(error) });
            }
        }
    }
    Ok(left)
}

/// The commands that would put back what this process itself has changed so far; `None` where that
/// cannot be read.
pub fn own_leftovers(state: &Path) -> Option<Vec<String>> {
    let Some(slots) = slot::slots(state).ok()? else { return Some(Vec::new()) };
    let me = std::process::id();
    let mut commands = Vec::new();
    for slot in slot::numbers(&slots).ok()? {
        let Some(dir) = slots.folder(&slot.to_string()).ok()? else { continue };
        if slot::owner(&dir).is_some_and(|owner| owner.pid == me && owner.is_alive()) {
            let own = journal::read_in(&dir).ok()?.commands();
            commands.extend(own.iter().map(ToString::to_string));
        }
    }
    Some(commands)
}

/// What a slot's journal holds; `None` for one of a living run.
fn contents_of(slots: &Folder, slot: u16) -> Result<Option<journal::Contents>, UndoError> {
    let name = slot.to_string();
    let Some(dir) = slots.folder(&name).map_err(|source| refused_slot(source, slots, &name))? else { return Ok(None) };
    if slot::is_live(&dir) {
        return Ok(None);
    }
    journal::read_in(&dir).map(Some).map_err(|source| unread(source, &dir, slots, &name))
}

/// The slots; a state folder that is not to be trusted is refused with all that its journals hold.
fn slots_of(state: &Path) -> Result<Option<Folder>, UndoError> {
    slot::slots(state).map_err(|source| refused(source, state))
}

fn refused(source: StateError, state: &Path) -> UndoError {
    let shown = slot::slots_to_look_at(state).filter(|_| !source.is_denied()).map_or_else(Vec::new, |slots| {
        let numbers = slot::numbers(&slots).unwrap_or_default();
        let dirs = numbers.iter().filter_map(|slot| slots.folder(&slot.to_string()).ok()?);
        dirs.flat_map(|dir| journal::shown(&dir)).collect()
    });
    UndoError::Refused { source, shown }
}

fn refused_slot(source: StateError, slots: &Folder, name: &str) -> UndoError {
    let dir = Folder::to_look_at(&slots.path().join(name)).filter(|_| !source.is_denied());
    UndoError::Refused { source, shown: dir.map_or_else(Vec::new, |dir| journal::shown(&dir)) }
}

fn unread(source: JournalError, dir: &Folder, slots: &Folder, name: &str) -> UndoError {
    match source {
        JournalError::State(source) => refused_slot(source, slots, name),
        source => UndoError::Unread { source, shown: journal::shown(dir) },
    }
}

#[derive(Debug, Default)]
pub struct UndoReport {
    /// Slots that were put back.
    pub undone: Vec<(u16, PutBack)>,
    /// Slots of runs that are alive, left alone.
    pub live: u32,
    /// Slots that could not be put back wholly.
    pub failed: Vec<(u16, UndoError)>,
}

/// Hears of each slot when it is done.
pub type Hear<'a> = dyn FnMut(u16, Result<&PutBack, &UndoError>) + 'a;

/// Puts back what every killed run left behind, and leaves runs that are alive alone. May be run
/// at any time and again.
///
/// # Errors
/// If the state folder cannot be read, or is somebody else's. The report holds what fails for one
/// slot.
pub fn undo_all(state: &Path, runner: &mut dyn Runner, hear: &mut Hear<'_>) -> Result<UndoReport, UndoError> {
    undo_those(state, runner, hear, None)
}

/// Puts back what this process left behind before it began anew by `exec`, and nothing else.
///
/// # Errors
/// As [`undo_all`].
pub fn undo_own(state: &Path, runner: &mut dyn Runner, hear: &mut Hear<'_>) -> Result<UndoReport, UndoError> {
    undo_those(state, runner, hear, Some(std::process::id()))
}

fn undo_those(
    state: &Path,
    runner: &mut dyn Runner,
    hear: &mut Hear<'_>,
    only_of: Option<u32>,
) -> Result<UndoReport, UndoError> {
    let mut done = UndoReport::default();
    let Some(slots) = slots_of(state)?.map(Arc::new) else { return Ok(done) };
    for slot in slot::numbers(&slots).map_err(|source| refused(source, state))? {
        let put = match take(&slots, slot, only_of) {
            Ok(Taken::Not) => continue,
            Ok(Taken::Live) => {
                done.live += 1;
                continue;
            }
            Ok(Taken::Got(hold)) => undo_one(hold, &slots, runner),
            Err(error) => Err(error),
        };
        match put {
            Ok(None) => {}
            Ok(Some(put)) => {
                hear(slot, Ok(&put));
                done.undone.push((slot, put));
            }
            Err(error) => {
                hear(slot, Err(&error));
                done.failed.push((slot, error));
            }
        }
    }
    Ok(done)
}

fn undo_one(hold: Hold, slots: &Folder, runner: &mut dyn Runner) -> Result<Option<PutBack>, UndoError> {
    let hold = Arc::new(hold);
    let name = hold.number.to_string();
    let journal = Journal::open(&hold.dir, hold.clone()).map_err(|source| unread(source, &hold.dir, slots, &name));
    let mut journal = journal?;
    let nothing = journal.contents().is_empty();
    put_back(&mut journal, runner).map(|put| (!nothing).then_some(put))
}

enum Taken {
    Got(Hold),
    /// A living run has it.
    Live,
    /// It is none of those asked for, or there is nothing in it.
    Not,
}

/// Takes a slot that no living run has. If the owner is dead and the lock is still held, its last
/// command is just ending.
fn take(slots: &Arc<Folder>, slot: u16, only_of: Option<u32>) -> Result<Taken, UndoError> {
    let name = slot.to_string();
    let refused = |source| refused_slot(source, slots, &name);
    let Some(dir) = slots.folder(&name).map_err(refused)? else { return Ok(Taken::Not) };
    let owner = slot::owner(&dir);
    let is_own = only_of.is_some() && owner.as_ref().is_some_and(|owner| Some(owner.pid) == only_of);
    if only_of.is_some() && !is_own {
        return Ok(Taken::Not);
    }
    let mut busy = match Hold::take(slots, slot).map_err(refused)? {
        Take::Got(hold) => return Ok(Taken::Got(hold)),
        Take::Busy(busy) => busy,
    };
    if !is_own && slot::is_live(&dir) {
        return Ok(Taken::Live);
    }
    if journal::read_in(&dir).is_ok_and(|contents| contents.is_empty()) {
        return Ok(Taken::Not);
    }
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        sleep(LOOK_EVERY);
        busy = match Hold::take(slots, slot).map_err(refused)? {
            Take::Got(hold) => return Ok(Taken::Got(hold)),
            Take::Busy(busy) => busy,
        };
    }
    Err(UndoError::Busy { holder: busy.holder() })
}
