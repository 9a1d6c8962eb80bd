// SPDX-License-Identifier: MIT OR Apache-2.0
//! Exit codes, and how an error is reported: once, whole, on stderr.

use std::io::IsTerminal;
use tardy_lab::guest::GuestError;
use tardy_lab::host::ApplyError;
use tardy_lab::plan::PlanError;
use tardy_lab::run::RunError;
use tardy_spec::SpecError;
use tardy_store::StoreError;

/// The contract's exit codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Exit {
    /// Ran, valid, expectations met or none.
    Good = 0,
    /// An expectation was broken, or a condition on two runs is met.
    Unmet = 1,
    /// Usage, experiment file, unreadable or newer run folder.
    Usage = 2,
    /// This machine cannot do it.
    Cannot = 3,
    /// Ran, but the numbers are not valid, an expectation could not be judged, or an agent or the
    /// disk failed after a finished trial.
    Invalid = 4,
    /// A fault in tardy itself.
    Internal = 5,
    /// A signal ended it; what was measured is written.
    Interrupted = 130,
}

impl Exit {
    pub const ALL: [Exit; 7] =
        [Exit::Good, Exit::Unmet, Exit::Usage, Exit::Cannot, Exit::Invalid, Exit::Internal, Exit::Interrupted];

    /// What it means, for help texts and pages; in a few words for the first.
    pub const fn says(self) -> (&'static str, &'static str) {
        match self {
            Exit::Good => {
                ("good", "It was done. After a run: the numbers are valid, and expectations are met or there are none.")
            }
            Exit::Unmet => (
                "a limit broken",
                "It ran, and an expectation was broken: a figure of valid numbers is over its limit, or more packets were lost, not sent, doubled or reordered than allowed, which is counted whatever the validity. Of `compare`: a condition of `--fail-if` is met. Outweighs 4.",
            ),
            Exit::Usage => (
                "wrong usage",
                "The command line or the experiment file is wrong, or a run folder is damaged or newer than this version.",
            ),
            Exit::Cannot => (
                "machine cannot",
                "This machine cannot do it (the message says what is missing), or it failed before the first finished trial.",
            ),
            Exit::Invalid => (
                "not valid",
                "It ran, and there is no answer: the numbers are not valid, an expectation could not be judged, or an agent or the disk failed after a finished trial; for `compare`, a condition is `not told`. No limit is known to be broken.",
            ),
            Exit::Internal => ("own fault", "A fault in tardy itself."),
            Exit::Interrupted => ("interrupted", "A signal ended it; what was measured is written."),
        }
    }
}

/// An error with the exit code that goes with it.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    pub exit: Exit,
    message: String,
}

impl Failure {
    /// An error of this code.
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Failure { exit, message: message.into() }
    }
}

/// Which code an error has.
pub fn code_of(error: &anyhow::Error) -> Exit {
    if let Some(failure) = error.downcast_ref::<Failure>() {
        failure.exit
    } else if error.is::<SpecError>() {
        Exit::Usage
    } else if let Some(error) = error.downcast_ref::<StoreError>() {
        match error {
            StoreError::Io { .. } => Exit::Cannot,
            _ => Exit::Usage,
        }
    } else if let Some(error) = error.downcast_ref::<RunError>() {
        match error {
            RunError::Plan(PlanError::Place(_)) => Exit::Cannot,
            RunError::Plan(_) => Exit::Usage,
            RunError::Apply(ApplyError::ReadBack { .. }) => Exit::Internal,
            RunError::Guest(GuestError::Inside { exit, .. }) => {
                Exit::ALL.into_iter().find(|known| *known as u8 == *exit).unwrap_or(Exit::Internal)
            }
            _ => Exit::Cannot,
        }
    } else {
        Exit::Internal
    }
}

/// A text that moves no terminal's cursor and sets no colour: a path, a name or another program's
/// words may hold anything. Lines stay lines.
pub fn printable(text: &str) -> String {
    tardy_model::harmless::spelled(text)
}

/// Errors that are drawn in their lines.
const MOST_PICTURES: usize = 10;

/// Reports the error and returns its code. For an experiment all that is wrong is reported, and
/// counted if it is more than one thing.
pub fn tell(error: &anyhow::Error) -> Exit {
    match error.downcast_ref::<SpecError>() {
        Some(spec) if std::io::stderr().is_terminal() => {
            for (n, fault) in spec.all().enumerate() {
                // A picture shows the whole line, and nobody looks at a hundred of them.
                if n >= MOST_PICTURES || !fault.can_be_drawn() {
                    eprintln!("tardy: {}", fault.one_line());
                    continue;
                }
                let mut picture = String::new();
                let drawn = miette::GraphicalReportHandler::new().render_report(&mut picture, fault);
                eprintln!("{}", if drawn.is_ok() { picture.trim_end() } else { "the experiment cannot be read" });
            }
            spec.count().into_iter().for_each(|count| eprintln!("tardy: {count}"));
        }
        Some(spec) => spec.lines().iter().for_each(|line| eprintln!("tardy: {line}")),
        None => eprintln!("tardy: {}", printable(&format!("{error:#}"))),
    }
    code_of(error)
}
