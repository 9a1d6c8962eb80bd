// SPDX-License-Identifier: MIT OR Apache-2.0
//! Follows a guest while it runs: reads what it sends as its port's file grows, feeds the sink,
//! and ends a guest that panics, ends or falls silent, with the end of its console.

use super::console::{self, ConsoleEnd, Means};
use super::error::{GuestError, file};
use super::expected::Expected;
use super::folder;
use super::frame::{FrameKind, Frames};
use super::parts::GuestOptions;
use super::qemu;
use super::relay::{self, Heard, Untold};
use crate::coordinator;
use crate::host::qemu::Qemu;
use crate::run::{Ended, Event, RunError, Sink, What};
use std::fs::{self, File};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use tardy_model::manifest::GuestEntry;
use tardy_spec::experiment::Experiment;
use tardy_sys::process;

/// How often we check the port.
const LOOK: Duration = Duration::from_millis(20);
/// A guest that said that it is done has so long to switch itself off.
const FAREWELL: Duration = Duration::from_secs(20);
/// By the wall clock the guest may take this many times the limit in processor time: the machine
/// may be busy, or the guest asleep for ever.
const WALL: u32 = 3;
/// How many bytes we check of the console's end.
const CONSOLE_END: u64 = 64 << 10;
/// So much a guest may write to its console.
const CONSOLE_MIB: u64 = 256;
/// The most bytes that a guest may say in all apart from its trials, and the most in addition to
/// each trial.
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

pub(super) fn console(folder: &Path) -> ConsoleEnd {
    let read = || {
        let mut log = File::open(folder.join(qemu::CONSOLE))?;
        let length = log.metadata()?.len();
        log.seek(SeekFrom::Start(length.saturating_sub(CONSOLE_END)))?;
        let mut bytes = Vec::new();
        log.read_to_end(&mut bytes)?;
        std::io::Result::Ok(bytes)
    };
    console::how_it_ended(&read().unwrap_or_default())
}

/// Where the processors of a guest are that says nothing. All of their registers go into a file; if
/// that fails, the sentence says why.
pub(super) fn processors(qemu: &mut Qemu, folder: &Path) -> String {
    let shown = qemu.registers();
    let write = || {
        let path = folder.canonicalize().map_err(file("find", folder))?.join(qemu::REGISTERS);
        // Never through a link that somebody has put there.
        folder::remove(&path).map_err(file("remove", &path))?;
        let new = File::options().write(true).create_new(true).open(&path);
        new.and_then(|mut new| new.write_all(console::registers(&shown).as_bytes())).map_err(file("write", &path))
    };
    match write() {
        Ok(()) => console::processors(&shown),
        Err(error) => format!("{} (their registers are in no file: {error})", console::processors(&shown)),
    }
}

fn how(ended: process::Ended, console: &ConsoleEnd, memory_mib: u64) -> String {
    match (console.means, ended) {
        (Means::OutOfMemory, _) => format!("ran out of its {memory_mib} MiB of memory"),
        (Means::Panic, _) => "panicked".to_owned(),
        (Means::Nothing, process::Ended::Code(0)) => "switched itself off".to_owned(),
        (Means::Nothing, process::Ended::Code(code)) => format!("ended, QEMU with exit code {code},"),
        (Means::Nothing, process::Ended::Signal(signal)) => format!("ended, QEMU by signal {signal},"),
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

/// What an experiment can bring, in bytes: each trial no more than the memory of the guest that
/// measures it, and what the guest says in addition.
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
    let (expected, heard_at) = (Expected::of(experiment), (Instant::now(), Duration::ZERO));
    let (started, over, failed) = (Instant::now(), None, None);
    let mut followed = Followed { options, memory_mib, expected, entry, started, over, failed, heard_at };
    loop {
        // Before the port is read: what an ended QEMU wrote is all there then.
        let ended = qemu.ended();
        let Some(news) = followed.listen(&mut port, qemu, sink)? else { return Ok(()) };
        if followed.is_over(ended, qemu)? {
            end.failed = followed.failed();
            return Ok(());
        }
        look_at_console(options.folder)?;
        followed.lives(news, qemu)?;
        qemu.wait(LOOK);
    }
}

/// A guest while it is followed.
struct Followed<'a> {
    options: &'a GuestOptions<'a>,
    memory_mib: u64,
    expected: Expected,
    entry: &'a mut GuestEntry,
    started: Instant,
    /// When it said that its run is over.
    over: Option<Instant>,
    /// What made its run fail, in its words, with its exit code.
    failed: Option<(String, u8)>,
    /// When it last said something, and the processor time that QEMU had taken by then.
    heard_at: (Instant, Duration),
}

impl Followed<'_> {
    fn stopped(&self) -> bool {
        self.options.stop.load(Relaxed)
    }

    /// Takes what the guest has written since the last look: whether there was something, or
    /// `None` once a stop is heard. It hears one also while the guest sends without an end, and
    /// looks at the console.
    fn listen(&mut self, port: &mut Port, qemu: &Qemu, sink: &mut dyn Sink) -> Result<Option<bool>, RunError> {
        let mut news = false;
        while !self.stopped() && port.read()? {
            if self.stopped() {
                return Ok(None);
            }
            look_at_console(self.options.folder)?;
            news = true;
            while let Some((kind, bytes)) = port.frames.take().map_err(GuestError::from)? {
                if self.stopped() {
                    return Ok(None);
                }
                self.hear(kind, &bytes, qemu, sink)?;
            }
        }
        Ok((!self.stopped()).then_some(news))
    }

    /// Takes one frame, and notes what has become known of the guest.
    fn hear(&mut self, kind: FrameKind, bytes: &[u8], qemu: &Qemu, sink: &mut dyn Sink) -> Result<(), RunError> {
        match relay::deliver(kind, bytes, &mut self.expected, sink) {
            Ok(Heard::Up { proc_version }) => self.entry.proc_version = Some(proc_version),
            Ok(Heard::Going) if self.entry.boot_cpu_ns.is_none() => {
                self.entry.boot_cpu_ns = Some(qemu.cpu_time().as_nanos() as i64);
                self.entry.boot_ns = Some(self.started.elapsed().as_nanos() as i64);
            }
            Ok(Heard::Told | Heard::Going) => return Ok(()),
            Ok(Heard::Over { failed }) => {
                self.over = Some(Instant::now());
                self.entry.cpu_ns = Some(qemu.cpu_time().as_nanos() as i64);
                self.failed = failed;
            }
            Err(Untold::Nonsense(what)) => return Err(GuestError::Nonsense(what).into()),
            Err(Untold::Sink(error)) => return Err(RunError::Sink(error)),
        }
        sink.event(Event::now(What::Guest { entry: Box::new(self.entry.clone()) }));
        Ok(())
    }

    /// True when the guest has said all and QEMU has ended, or takes too long to.
    fn is_over(&self, ended: Option<process::Ended>, qemu: &mut Qemu) -> Result<bool, RunError> {
        match (self.over, ended) {
            (Some(_), Some(_)) => Ok(true),
            // It has said all; what it still does is of no interest.
            (Some(since), None) => Ok(since.elapsed() > FAREWELL),
            (None, Some(ended)) => {
                let console = console(self.options.folder);
                let what = how(ended, &console, self.memory_mib);
                // What QEMU says takes a moment to come.
                qemu.wait(LOOK);
                Err(GuestError::Broke { what, console, qemu: qemu.said() }.into())
            }
            (None, None) => Ok(false),
        }
    }

    /// Gives up a guest that has computed for too long without a word.
    fn lives(&mut self, news: bool, qemu: &mut Qemu) -> Result<(), RunError> {
        if news {
            self.heard_at = (Instant::now(), qemu.cpu_time());
            return Ok(());
        }
        let (wall, cpu) = (self.heard_at.0.elapsed(), qemu.cpu_time().saturating_sub(self.heard_at.1));
        if cpu > self.options.silence || wall > self.options.silence * WALL {
            let processors = processors(qemu, self.options.folder);
            let console = console(self.options.folder);
            let (wall_s, cpu_s) = (wall.as_secs(), cpu.as_secs());
            return Err(GuestError::Silent { wall_s, cpu_s, processors, console }.into());
        }
        Ok(())
    }

    /// What made the guest's run fail, if it did. That may have been want of memory, and the guest
    /// not know it.
    fn failed(self) -> Option<RunError> {
        let (says, exit) = self.failed?;
        let console = console(self.options.folder);
        let more = match console.means {
            Means::OutOfMemory => format!("; the guest ran out of its {} MiB of memory: {console}", self.memory_mib),
            Means::Panic | Means::Nothing => String::new(),
        };
        Some(GuestError::Inside { says: says + &more, exit }.into())
    }
}
