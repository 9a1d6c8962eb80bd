// SPDX-License-Identifier: MIT OR Apache-2.0
//! Changes of this machine that are to stay when their process ends, as the doctor's fixes are.
//! Each is noted before it is made, in the journal of one slot, which `tardy undo` puts back like
//! that of a killed run. What a setting was is what it was before the first of them.

use crate::command::Batch;
use crate::host::runner::Runner;
use crate::journal::{Journal, JournalError, KeptBy};
use crate::slot::{self, ClaimError, Held, Slot, other_runs};
use crate::state::StateError;
use crate::step::{Action, Inverse};
use crate::undo::{UndoError, leftovers};
use std::io;
use std::path::Path;
use tardy_host::change::{Change, Now};
use thiserror::Error;

/// What a process holds that makes such changes.
const NAME: &str = "doctor";

/// Why no change can be made.
#[derive(Debug, Error)]
pub enum FixError {
    #[error("another `tardy doctor --fix --apply` or `tardy undo` is at work ({holder}): wait for its end")]
    Taken { holder: String },
    #[error("{runs} of tardy at work now would measure the change: wait for the end, or end it")]
    Running { runs: String },
    /// What is set now may not be what was there before.
    #[error("a killed run (slot {slot}) has not put back what it changed: run `tardy undo` first")]
    Left { slot: u16 },
    #[error(transparent)]
    State(#[from] StateError),
    #[error(transparent)]
    Claim(#[from] ClaimError),
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error(transparent)]
    Undo(#[from] UndoError),
    #[error("cannot keep the slot: {0}")]
    Hold(#[from] io::Error),
}

/// What came of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Made {
    /// It is made. The value has what was there before the first change of the same setting.
    Changed(Change),
    /// It was so already.
    Already,
}

/// Makes changes, as long as it lives. They stay behind it.
#[derive(Debug)]
pub struct Fixes<R> {
    journal: Journal,
    runner: R,
    slot: u16,
    _held: Held,
}

impl<R: Runner> Fixes<R> {
    /// Takes the slot of earlier changes, or a free one. `runner` makes what runs the commands.
    ///
    /// # Errors
    /// If somebody else makes changes or measures, or a killed run has left some.
    pub fn begin(state: &Path, runner: impl FnOnce(&Slot) -> io::Result<R>) -> Result<Fixes<R>, FixError> {
        let taken = || FixError::Taken { holder: slot::holder(NAME) };
        let held = Held::take(NAME)?.ok_or_else(taken)?;
        match other_runs(state) {
            0 => {}
            1 => return Err(FixError::Running { runs: "a run".to_owned() }),
            runs => return Err(FixError::Running { runs: format!("{runs} runs") }),
        }
        if let Some(left) = leftovers(state)?.into_iter().next() {
            return Err(left.refused.map_or(FixError::Left { slot: left.slot }, FixError::Undo));
        }
        let slot = Slot::kept(state)?.map_or_else(|| Slot::claim(state), Ok)?;
        let mut journal = slot.journal()?;
        // What an earlier boot's was set to went with it.
        let mut earlier = journal.contents().clone();
        if earlier.forget_other_boots() > 0 && earlier.is_empty() {
            journal.clear()?;
        }
        if journal.contents().keeper.is_none() {
            journal.kept_by(KeptBy::Doctor)?;
        }
        Ok(Fixes { journal, runner: runner(&slot)?, slot: slot.number(), _held: held })
    }

    pub fn slot(&self) -> u16 {
        self.slot
    }

    /// Makes a change, and reads back whether the kernel took it.
    ///
    /// # Errors
    /// In words, if it could not be made. Then it is as it was, or the journal has it.
    pub fn make(&mut self, change: &Change) -> Result<Made, String> {
        if let Some(why) = change.fault() {
            return Err(why);
        }
        let before = match change.now() {
            Now::Is(before) => before,
            Now::Gone => return Err(format!("there is no more of it: {}", change.names())),
            Now::Unknown => {
                return Err(format!("what it is now is not shown, so it could not be put back: {}", change.names()));
            }
        };
        if change.is_same(&before, change.set()) {
            return Ok(Made::Already);
        }
        let inverses = self.journal.contents().steps.iter().flat_map(|(_, undo)| undo);
        let first = inverses.filter_map(|inverse| inverse.action.change()).find(|of| of.is_of_the_same(change));
        let change = change.clone().from(first.map_or_else(|| before.clone(), |of| of.was().to_owned()));
        let inverse = Inverse::here(Action::of(change.clone()));
        let steps = self.journal.will_do(&[&[inverse]]).map_err(|error| error.to_string())?;
        let said = self.set(&change, change.set());
        match change.now() {
            Now::Is(now) if change.is_same(&now, change.set()) => return Ok(Made::Changed(change)),
            Now::Is(now) if !change.is_same(&now, &before) => {
                // Half of it would be taken for somebody else's later.
                let _ = self.set(&change, &before);
                let is_back = matches!(change.now(), Now::Is(now) if change.is_same(&now, &before));
                if !is_back {
                    return Err(format!("{} is {now} now, and was {before}: see to it by hand", change.names()));
                }
            }
            Now::Unknown => return Err(format!("whether it was made is not shown: {}", change.names())),
            Now::Is(_) | Now::Gone => {}
        }
        // A mark that cannot be written does no harm: nothing is put back that is as it was.
        let _ = self.journal.undone(&steps);
        Err(said.err().unwrap_or_else(|| format!("the kernel does not take it: {}", change.names())))
    }

    fn set(&mut self, change: &Change, value: &str) -> Result<(), String> {
        for command in Inverse::here(Action::of(change.clone().from(value.to_owned()))).commands() {
            let output = self.runner.run(&Batch::one(command)).map_err(|error| error.to_string())?;
            if let Some(failure) = output.failures.first() {
                return Err(failure.says.clone());
            }
        }
        Ok(())
    }
}
