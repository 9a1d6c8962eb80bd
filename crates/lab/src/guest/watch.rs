// SPDX-License-Identifier: MIT OR Apache-2.0
//! Follows a guest while it runs: reads what it sends as its port's file grows, tells the sink, and ends a guest that panics, ends
//! or falls silent, with the end of its console.

use super::console::{self, ConsoleEnd, Means};
use super::expected::Expected;
use super::folder;
use super::frame::Frames;
use super::qemu;
use super::relay::{self, Heard, Untold};
use super::{GuestError, GuestOptions, file};
use crate::coordinator;
use crate::host::qemu::Qemu;
use crate::run::{Ended, Event, RunError, Sink, What};
use std::fs::{self, File};
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use tardy_model::manifest::GuestEntry;
use tardy_spec::experiment::Experiment;
use tardy_sys::child;

/// How often the port is looked at.
const LOOK: Duration = Duration::from_millis(20);
/// A guest that said that it is done has so long to switch itself off.
const FAREWELL: Duration = Duration::from_secs(20);
/// The clock on the wall may take so many times as long as the limit in processor time: the machine may be busy, or the guest
/// asleep for ever.
const WALL: u32 = 3;
/// So much of the console's end is looked at.
const CONSOLE_END: u64 = 64 << 10;
/// So much a guest may write to its console.
const CONSOLE_MIB: u64 = 256;
/// So many bytes a guest may say in all beside its trials, and so many beside each of them.
const SAID: u64 = 64 << 20;
const SAID_A_TRIAL: u64 = 16 << 20;
/// So much is read at once.
const PIECE: usize = 1 << 20;

/// The growing file of a port.
struct Port {
    path: std::path::PathBuf,
    file: Option<File>,
    frames: Frames,
    piece: Vec<u8>,
}

impl Port {
    /// Reads what is new; true if there was something.
    fn read(&mut self) -> Result<bool, GuestError> {
        if self.file.is_none() {
            match File::open(&self.path) {
                Ok(file) => self.file = Some(file),
                // QEMU has not made it yet.
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
                Err(error) => return Err(file("open", &self.path)(error)),
            }
        }
        let Some(open) = &mut self.file else { return Ok(false) };
        let bytes = open.read(&mut self.piece).map_err(|error| file("read", &self.path)(error))?;
        self.frames.push(&self.piece[..bytes]);
        Ok(bytes > 0)
    }
}

fn console(folder: &Path) -> ConsoleEnd {
    let read = || {
        let mut log = File::open(folder.join(qemu::CONSOLE))?;
        let length = log.metadata()?.len();
        log.seek(SeekFrom::Start(length.saturating_sub(CONSOLE_END)))?;
        let mut bytes = Vec::new();
        log.read_to_end(&mut bytes)?;
        std::io::Result::Ok(bytes)
    };
    console::end(&read().unwrap_or_default())
}

fn how(ended: child::Ended, console: &ConsoleEnd, memory_mib: u64) -> String {
    match (console.means, ended) {
        (Means::OutOfMemory, _) => format!("ran out of its {memory_mib} MiB of memory"),
        (Means::Panic, _) => "panicked".to_owned(),
        (Means::Nothing, child::Ended::Code(0)) => "switched itself off".to_owned(),
        (Means::Nothing, child::Ended::Code(code)) => format!("ended, QEMU with exit code {code},"),
        (Means::Nothing, child::Ended::Signal(signal)) => format!("ended, QEMU by signal {signal},"),
    }
}

/// Refuses a guest that writes to its console without an end.
fn look_at_console(folder: &Path) -> Result<(), GuestError> {
    let written = fs::metadata(folder.join(qemu::CONSOLE)).map_or(0, |console| console.len());
    match written > CONSOLE_MIB << 20 {
        true => Err(GuestError::Talks { mib: CONSOLE_MIB, console: console(folder) }),
        false => Ok(()),
    }
}

/// What an experiment can bring, in bytes: each trial no more than the memory that it is measured in, and what is said beside.
pub fn most_bytes(experiment: &Experiment) -> u64 {
    let trials = u64::from(experiment.trials);
    let of_cells = experiment.cells.iter().map(|cell| coordinator::memory(&cell.setup).saturating_add(SAID_A_TRIAL));
    of_cells.fold(SAID, |sum, of_trial| sum.saturating_add(of_trial.saturating_mul(trials)))
}

/// Follows the guest to its end. Whatever comes of it, QEMU is ended by whoever drops it.
pub(super) fn follow(
    qemu: &mut Qemu,
    options: &GuestOptions<'_>,
    memory_mib: u64,
    experiment: &Experiment,
    entry: &mut GuestEntry,
    end: &mut Ended,
    sink: &mut dyn Sink,
) -> Result<(), RunError> {
    let path = options.folder.join(folder::PORT);
    let frames = Frames::of_guest(memory_mib << 20).at_most(most_bytes(experiment));
    let mut port = Port { path, file: None, frames, piece: vec![0; PIECE] };
    let mut expected = Expected::of(experiment);
    let started = Instant::now();
    let mut over: Option<Instant> = None;
    let mut failed = None;
    let mut heard_at = (Instant::now(), Duration::ZERO);
    loop {
        if options.stop.load(Relaxed) {
            return Ok(());
        }
        // Before the port is read: what an ended QEMU wrote is all there then.
        let ended = qemu.ended();
        let mut news = false;
        // Also while it sends without an end: a stop is heard, and the console is looked at.
        while port.read()? {
            if options.stop.load(Relaxed) {
                return Ok(());
            }
            look_at_console(options.folder)?;
            news = true;
            while let Some((kind, bytes)) = port.frames.take().map_err(GuestError::from)? {
                if options.stop.load(Relaxed) {
                    return Ok(());
                }
                match relay::deliver(kind, &bytes, &mut expected, sink) {
                    Ok(Heard::Up { proc_version }) => {
                        entry.proc_version = Some(proc_version);
                        sink.event(Event::now(What::Guest { entry: Box::new(entry.clone()) }));
                    }
                    Ok(Heard::Going) if entry.boot_cpu_ns.is_none() => {
                        entry.boot_cpu_ns = Some(qemu.cpu_time().as_nanos() as i64);
                        entry.boot_ns = Some(started.elapsed().as_nanos() as i64);
                        sink.event(Event::now(What::Guest { entry: Box::new(entry.clone()) }));
                    }
                    Ok(Heard::Told | Heard::Going) => {}
                    Ok(Heard::Over { failed: says }) => {
                        over = Some(Instant::now());
                        entry.cpu_ns = Some(qemu.cpu_time().as_nanos() as i64);
                        sink.event(Event::now(What::Guest { entry: Box::new(entry.clone()) }));
                        failed = says;
                    }
                    Err(Untold::Nonsense(what)) => return Err(GuestError::Nonsense(what).into()),
                    Err(Untold::Sink(error)) => return Err(RunError::Sink(error)),
                }
            }
        }
        match (over, ended) {
            (Some(_), Some(_)) => break,
            // It has said all; what it still does is of no interest.
            (Some(since), None) if since.elapsed() > FAREWELL => break,
            (None, Some(ended)) => {
                let console = console(options.folder);
                let what = how(ended, &console, memory_mib);
                // What QEMU says takes a moment to come.
                qemu.wait(LOOK);
                return Err(GuestError::Broke { what, console, qemu: qemu.said() }.into());
            }
            _ => {}
        }
        look_at_console(options.folder)?;
        if news {
            heard_at = (Instant::now(), qemu.cpu_time());
        } else {
            let (wall, cpu) = (heard_at.0.elapsed(), qemu.cpu_time().saturating_sub(heard_at.1));
            if cpu > options.silence || wall > options.silence * WALL {
                let console = console(options.folder);
                return Err(GuestError::Silent { wall_s: wall.as_secs(), cpu_s: cpu.as_secs(), console }.into());
            }
        }
        qemu.wait(LOOK);
    }
    end.failed = failed.map(|(says, exit)| {
        // What failed inside may have failed for want of memory, and not know it.
        let console = console(options.folder);
        let more = match console.means {
            Means::OutOfMemory => format!("; the guest ran out of its {memory_mib} MiB of memory: {console}"),
            Means::Panic | Means::Nothing => String::new(),
        };
        GuestError::Inside { says: says + &more, exit }.into()
    });
    Ok(())
}
