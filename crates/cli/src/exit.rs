// SPDX-License-Identifier: MIT OR Apache-2.0
//! How the program ends: exit codes, how an error is reported (once, whole, on stderr), and what
//! signals do.
//!
//! The first SIGINT, SIGTERM or SIGHUP lets the trial under way finish and be kept. A later one
//! ends the run at once: the process begins anew as `tardy undo`, which puts back what the run has
//! changed. Signals within a second count as one, because `timeout` and a terminal send the same
//! wish twice.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io::{self, IsTerminal};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, exit};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tardy_lab::guest::GuestError;
use tardy_lab::guest::folder::PASSING;
use tardy_lab::host::ApplyError;
use tardy_lab::plan::PlanError;
use tardy_lab::run::RunError;
use tardy_lab::undo::own_leftovers;
use tardy_spec::{Reason, SpecError};
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
                "It ran, and there is no answer: the numbers are not valid, an expectation could not be judged, or an agent or the disk failed after a finished trial; for `compare`, a condition is `undecided`. No limit is known to be broken.",
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
    } else if let Some(error) = error.downcast_ref::<SpecError>() {
        if error.all().all(|fault| fault.reason == Reason::Machine) { Exit::Cannot } else { Exit::Usage }
    } else if let Some(error) = error.downcast_ref::<StoreError>() {
        match error {
            StoreError::Io { .. } if !error.is_missing() => Exit::Cannot,
            _ => Exit::Usage,
        }
    } else if let Some(error) = error.downcast_ref::<RunError>() {
        match error {
            RunError::Plan(PlanError::Place(_)) => Exit::Cannot,
            RunError::Plan(_) | RunError::Copy(_) => Exit::Usage,
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

const SIGNALS: [i32; 3] = [SIGHUP, SIGINT, SIGTERM];
/// Signals so close to the one before are the same wish.
const ONE_WISH: Duration = Duration::from_secs(1);

/// The folder of this run's guest.
static GUEST: OnceLock<PathBuf> = OnceLock::new();

/// The flag that the first signal sets. Slots and journals lie in `state`.
///
/// # Errors
/// If the signals cannot be caught.
pub fn on_signal(state: PathBuf) -> io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let mut signals = Signals::new(SIGNALS)?;
    let flag = stop.clone();
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        let mut first: Option<Instant> = None;
        for _ in signals.forever() {
            match first {
                None => {
                    first = Some(Instant::now());
                    flag.store(true, Ordering::Relaxed);
                    let what = match GUEST.get() {
                        Some(_) => "the guest is ended, and the trials that it finished are kept",
                        None => "the trial under way is ended and kept, then everything is put back",
                    };
                    eprintln!("tardy: stopping: {what}; a second signal ends the run at once");
                }
                Some(at) if at.elapsed() < ONE_WISH => {}
                Some(_) => at_once(&state),
            }
        }
    })?;
    Ok(stop)
}

/// Prints a message and ends, at the first signal.
///
/// # Errors
/// If the signals cannot be caught.
pub fn end_with(says: &'static str) -> io::Result<()> {
    let mut signals = Signals::new(SIGNALS)?;
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        if signals.forever().next().is_some() {
            eprintln!("tardy: {says}");
            exit(Exit::Interrupted as i32);
        }
    })?;
    Ok(())
}

/// Reports where the files of a guest are, which no journal knows if none could be kept.
pub fn guest_lies_in(folder: PathBuf) {
    // A run has one.
    let _ = GUEST.set(folder);
}

fn files_of_a_guest() -> Option<&'static PathBuf> {
    GUEST.get().filter(|folder| PASSING.iter().any(|name| folder.join(name).exists()))
}

/// Ends the run. To begin anew closes its locks and its agents' orders, as a kill would, and
/// leaves somebody who puts back.
fn at_once(state: &Path) -> ! {
    let left = own_leftovers(state);
    if left.as_ref().is_some_and(Vec::is_empty) {
        match files_of_a_guest() {
            Some(folder) => eprintln!(
                "tardy: ended at once by a second signal; what the guest was given and wrote is left in {}: remove it",
                printable(&folder.display().to_string())
            ),
            None => eprintln!("tardy: ended at once by a second signal; nothing is left behind"),
        }
        exit(Exit::Interrupted as i32);
    }
    eprintln!("tardy: ended at once by a second signal; what this run has changed is put back:");
    let error = Command::new("/proc/self/exe").args(["undo", "--own"]).env("TARDY_STATE", state).exec();
    eprintln!("tardy: that cannot be done ({error}): run `tardy undo`, or these commands by hand:");
    left.iter().flatten().for_each(|command| eprintln!("  {command}"));
    exit(Exit::Interrupted as i32)
}
