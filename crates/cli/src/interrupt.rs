// SPDX-License-Identifier: MIT OR Apache-2.0
//! SIGINT, SIGTERM and SIGHUP. The first one lets the trial under way be finished and kept. A
//! later one ends the run at once: the process begins anew as `tardy undo`, which puts back what
//! the run has changed. Signals within a second count as one, for `timeout` and a terminal send
//! the same wish twice.

use crate::exit::{Exit, printable};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, exit};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tardy_lab::guest::folder::PASSING;
use tardy_lab::undo::own_leftovers;

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
