// SPDX-License-Identifier: MIT OR Apache-2.0
//! Carries a plan out: journal first, then the command. Whatever happens, what was begun is put back.

use crate::command::{Batch, Command};
use crate::inverse::Inverse;
use crate::journal::{Journal, JournalError};
use crate::plan::Plan;
use crate::runner::{CommandError, Failure, Runner};
use crate::step::Step;
use crate::undo::{self, PutBack, UndoError};
use tardy_model::json::Json;
use tardy_model::manifest::ReadBack;
use thiserror::Error;

/// A plan could not be carried out. Everything that had been done is put back, but where [`ApplyError::NotUndone`] says
/// otherwise.
#[derive(Debug, Error)]
pub enum ApplyError {
    /// A program is missing or could not be run.
    #[error(transparent)]
    Run(#[from] CommandError),
    /// The journal cannot be written: nothing is done that could not be undone.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// Not allowed.
    #[error("`{command}`: {says}: needs root (CAP_NET_ADMIN and CAP_SYS_ADMIN); run it with sudo")]
    NeedsRoot {
        /// The command.
        command: Command,
        /// The program's own words.
        says: String,
    },
    /// A command failed.
    #[error("`{command}` ({why}): {says}: {}", mend(says))]
    Failed {
        /// The command.
        command: Command,
        /// What it was for.
        why: &'static str,
        /// The program's own words.
        says: String,
    },
    /// The program that ran commands was ended in the middle of them.
    #[error("the program ended at `{command}` ({why}){more}: {says}: what it may have done is put back; try again")]
    Died {
        /// The first command that it ran.
        command: Command,
        /// What that was for.
        why: &'static str,
        /// How it ended.
        says: String,
        /// The commands beside the first one.
        more: String,
    },
    /// What was read back is not what such a command prints.
    #[error("`{command}` printed something else than JSON ({source}): iproute2 4.17 or later is needed")]
    ReadBack {
        /// The command.
        command: Command,
        /// What the reader said.
        source: serde_json::Error,
    },
    /// Undoing failed as well.
    #[error("{cause}; then {undo}")]
    NotUndone {
        /// What failed first.
        cause: Box<ApplyError>,
        /// What failed after it.
        undo: UndoError,
    },
}

/// What can be done about a complaint.
fn mend(says: &str) -> &'static str {
    if says.contains("File exists") {
        "something of that name is there already: `tardy undo`, or delete it, and try again"
    } else if says.contains("exec of \"ethtool\" failed") {
        "program `ethtool` is needed here: apt install ethtool"
    } else if says.contains("RX class rule") {
        "this device cannot sort what arrives by VLAN priority; leave out path.pcp_queues, or take another device"
    } else if says.contains("qdisc kind is unknown") {
        "this kernel has no such queue discipline: built without it, or its module is not loaded (`modprobe sch_NAME`); a guest's \
         kernel has it (`--in guest:exact`)"
    } else if says.contains("not supported") || says.contains("Unknown device type") {
        "this kernel was built without it; `tardy plan` prints all commands, to try by hand"
    } else {
        "`tardy plan` prints all commands, to try by hand"
    }
}

fn needs_root(says: &str) -> bool {
    says.contains("Operation not permitted") || says.contains("Permission denied")
}

fn failed(command: &Command, why: &'static str, failure: &Failure) -> ApplyError {
    let (command, says) = (command.clone(), failure.says.clone());
    if needs_root(&says) { ApplyError::NeedsRoot { command, says } } else { ApplyError::Failed { command, why, says } }
}

fn died(batch: &Batch, why: &'static str, failure: &Failure) -> ApplyError {
    let more = match batch.commands() {
        [_] => String::new(),
        [.., last] => format!(", or at one of the commands after it up to `{last}`: it did not say at which"),
        [] => String::new(),
    };
    if needs_root(&failure.says) {
        return ApplyError::NeedsRoot { command: batch.commands()[0].clone(), says: failure.says.clone() };
    }
    ApplyError::Died { command: batch.commands()[0].clone(), why, says: failure.says.clone(), more }
}

/// A plan that stands. Dropping it puts everything back as well as it goes; [`Applied::undo`] also says whether it went.
pub struct Applied<'r> {
    journal: Journal,
    runner: &'r mut dyn Runner,
    standing: bool,
}

/// Carries out `plan`. Each inverse is in `journal`, on disk, before its step begins.
///
/// # Errors
/// If a step fails: then those before it are undone.
pub fn apply<'r>(plan: &Plan, journal: Journal, runner: &'r mut dyn Runner) -> Result<Applied<'r>, ApplyError> {
    let mut applied = Applied { journal, runner, standing: true };
    match applied.build(&plan.steps) {
        Ok(()) => Ok(applied),
        Err(cause) => match applied.put_back() {
            Ok(_) => Err(cause),
            Err(undo) => Err(ApplyError::NotUndone { cause: Box::new(cause), undo }),
        },
    }
}

impl Applied<'_> {
    /// Notes a process that was started for this plan, so that `undo` can end it.
    ///
    /// # Errors
    /// If there is no such process or the journal cannot be written.
    pub fn agent(&mut self, pid: u32) -> Result<(), JournalError> {
        self.journal.agent(pid)
    }

    /// For further commands while the plan stands.
    pub fn runner(&mut self) -> &mut dyn Runner {
        self.runner
    }

    /// Asks the kernel what it has made of the plan.
    ///
    /// # Errors
    /// If a command fails or prints no JSON.
    pub fn read_back(&mut self, plan: &Plan) -> Result<Vec<ReadBack>, ApplyError> {
        let mut read = Vec::with_capacity(plan.read_back.len());
        for batch in Batch::group(plan.read_back.iter().cloned()) {
            let output = self.runner.run(&batch)?;
            if let Some(failure) = output.failures.first() {
                let command = batch.commands().get(failure.at.unwrap_or(0)).unwrap_or(&batch.commands()[0]);
                return Err(failed(command, "reading back", failure));
            }
            // One document for each command, one after the other.
            let mut documents = serde_json::Deserializer::from_str(&output.stdout).into_iter::<Json>();
            for command in batch.commands() {
                // A command that finds nothing may print nothing.
                let says = documents.next().unwrap_or(Ok(Json::default()));
                let says = says.map_err(|source| ApplyError::ReadBack { command: command.clone(), source })?;
                read.push(ReadBack { cell: None, command: command.to_string(), says });
            }
        }
        Ok(read)
    }

    /// Puts everything back.
    ///
    /// # Errors
    /// If something could not be put back; it stays in the journal.
    pub fn undo(mut self) -> Result<PutBack, UndoError> {
        self.put_back()
    }

    fn put_back(&mut self) -> Result<PutBack, UndoError> {
        // Set first: a drop after a failure would only fail again.
        self.standing = false;
        undo::put_back(&mut self.journal, self.runner)
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
                    // The process died, and it is not known at which command: any of them may have been done, so all the inverses
                    // stay. They may be run for what never came to be.
                    return Err(died(&batch, steps[of[ran]].why, failure));
                };
                let step = &steps[of[at]];
                if step.tolerates.iter().any(|text| failure.says.contains(text)) {
                    continue;
                }
                // Nothing has come of a step whose first command failed, nor of those after it. Their inverses must not
                // run: what goes by these names is another's.
                if !keep_going {
                    let is_first = at == 0 || of[at - 1] != of[at];
                    let untouched = of[at] + usize::from(!is_first);
                    let _ = self.journal.undone(&numbers[untouched - begun..]);
                }
                return Err(failed(&batch.commands()[at - ran], step.why, failure));
            }
            (ran, begun) = (last + 1, begins.end);
        }
        Ok(())
    }
}

impl Drop for Applied<'_> {
    fn drop(&mut self) {
        if self.standing {
            let _ = self.put_back();
        }
    }
}
