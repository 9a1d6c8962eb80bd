// SPDX-License-Identifier: MIT OR Apache-2.0
//! What was done to this machine for one set-up: journal first, then the command. Whatever
//! happens, what was begun is put back.

use super::error::{ApplyError, died, failed};
use super::runner::{CommandError, Runner};
use crate::command::{Batch, Command};
use crate::journal::{Journal, JournalError};
use crate::process::Identity;
use crate::step::{Inverse, Step};
use crate::undo::{self, PutBack, UndoError};
use tardy_model::harmless::Json;
use tardy_model::manifest::ReadBack;

/// What was done for one set-up. Dropping it puts everything back as well as it goes;
/// [`Applied::put_back`] also says whether it went.
pub struct Applied<R: Runner> {
    journal: Journal,
    runner: R,
    /// Something may be there that is to be put back.
    is_changed: bool,
}

/// Carries out steps on this machine. The journal is a slot's, and open as long as what is given
/// lives.
///
/// # Errors
/// If one fails; then those before it are put back.
pub fn applied<R: Runner>(steps: &[Step], journal: Journal, runner: R) -> Result<Applied<R>, ApplyError> {
    let mut applied = Applied { journal, runner, is_changed: false };
    applied.also(steps)?;
    Ok(applied)
}

impl<R: Runner> Applied<R> {
    /// Carries out more steps.
    ///
    /// # Errors
    /// If one fails; then everything is put back that is not kept, also what was done before this
    /// call.
    pub fn also(&mut self, steps: &[Step]) -> Result<(), ApplyError> {
        self.is_changed = true;
        self.build(steps).map_err(|cause| match self.put_back() {
            Ok(_) => cause,
            Err(undo) => ApplyError::NotUndone { cause: Box::new(cause), undo },
        })
    }

    /// Notes a process that was started for the set-up: whoever puts back ends it first.
    ///
    /// # Errors
    /// If there is no such process, or the journal cannot be written. The caller then ends the
    /// process itself.
    pub fn note_process(&mut self, pid: u32) -> Result<(), JournalError> {
        self.journal.agent(pid)
    }

    /// The processes that were noted.
    pub fn processes(&self) -> &[Identity] {
        &self.journal.contents().agents
    }

    /// Runs commands that change nothing and print JSON, and gives an answer for each.
    ///
    /// # Errors
    /// If a command fails or prints something else. Nothing is put back for it.
    pub fn read_back(&mut self, commands: &[Command]) -> Result<Vec<ReadBack>, ApplyError> {
        let mut read = Vec::with_capacity(commands.len());
        for batch in Batch::group(commands.iter().cloned()) {
            let batch = batch.asking();
            let output = self.runner.run(&batch)?;
            if let Some(failure) = output.failures.first() {
                let command = batch.commands().get(failure.at.unwrap_or(0)).unwrap_or(&batch.commands()[0]);
                return Err(failed(command, &"reading back".into(), failure));
            }
            // One document for each command, one after the other.
            let mut documents = serde_json::Deserializer::from_str(&output.stdout).into_iter::<Json>();
            for command in batch.commands() {
                // A command that finds nothing may print nothing.
                let says = documents.next().unwrap_or(Ok(Json::default()));
                let says = says.map_err(|source| ApplyError::ReadBack { command: command.clone(), source })?;
                read.push(ReadBack { cell: None, qdiscs_of: None, command: command.to_string(), says });
            }
        }
        Ok(read)
    }

    /// Ends the noted processes and runs all inverses, the last one first.
    ///
    /// # Errors
    /// If something could not be put back. It stays in the journal.
    pub fn put_back(&mut self) -> Result<PutBack, UndoError> {
        // Set first: a drop after a failure would only fail again.
        self.is_changed = false;
        undo::put_back(&mut self.journal, &mut self.runner)
    }

    /// What was done so far stays until [`Applied::put_back_all`].
    pub fn keep(&mut self) {
        self.journal.keep();
    }

    /// True if something is kept.
    pub fn keeps(&self) -> bool {
        self.journal.keeps()
    }

    /// Puts back also what was kept.
    ///
    /// # Errors
    /// As [`Applied::put_back`].
    pub fn put_back_all(&mut self) -> Result<PutBack, UndoError> {
        self.journal.keep_nothing();
        self.put_back()
    }

    fn build(&mut self, steps: &[Step]) -> Result<(), ApplyError> {
        // Which step each command is of.
        let of: Vec<usize> = steps.iter().enumerate().flat_map(|(i, step)| vec![i; step.does.len()]).collect();
        let (mut ran, mut begun) = (0, 0);
        for batch in Batch::group(steps.iter().flat_map(|step| step.does.iter().cloned())) {
            let last = ran + batch.commands().len() - 1;
            let keep_going = steps[of[ran]..=of[last]].iter().any(|step| !step.tolerates.is_empty());
            let begins = begun..of[last] + 1;
            let inverses: Vec<&[Inverse]> = steps[begins.clone()].iter().map(|step| &step.undoes[..]).collect();
            let numbers = self.journal.will_do(&inverses)?;
            let batch = batch.keep_going(keep_going);
            let output = self.runner.run(&batch).inspect_err(|error| {
                if matches!(error, CommandError::NotInstalled { .. }) {
                    let _ = self.journal.undone(&numbers);
                }
            })?;
            for failure in &output.failures {
                let Some(at) = failure.at.map(|at| (ran + at).min(last)) else {
                    // The process died, and it is not known at which command: any of them may have
                    // been done, so all the inverses stay. They may be run for what never came to
                    // be.
                    return Err(died(&batch, &steps[of[ran]].why, failure));
                };
                let step = &steps[of[at]];
                if step.tolerates.iter().any(|text| failure.says.contains(&**text)) {
                    continue;
                }
                // Nothing has come of a step whose first command failed, nor of those after it.
                // Their inverses must not run: what goes by these names is another's.
                if !keep_going {
                    let is_first = at == 0 || of[at - 1] != of[at];
                    let untouched = of[at] + usize::from(!is_first);
                    let _ = self.journal.undone(&numbers[untouched - begun..]);
                }
                return Err(failed(&batch.commands()[at - ran], &step.why, failure));
            }
            (ran, begun) = (last + 1, begins.end);
        }
        Ok(())
    }
}

impl<R: Runner> Drop for Applied<R> {
    fn drop(&mut self) {
        if self.is_changed || self.keeps() {
            let _ = self.put_back_all();
        }
    }
}
