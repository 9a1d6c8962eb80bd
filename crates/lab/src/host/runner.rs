// SPDX-License-Identifier: MIT OR Apache-2.0
//! The one place that starts the programs of a plan. A narrow trait, so that everything above it
//! can be tried without a machine.

use crate::command::{Batch, Command, OURSELVES, Process};
use crate::slot::Slot;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{self, Child, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use thiserror::Error;

pub trait Runner {
    /// Runs one batch to its end. A command that fails is no error here: the output names it.
    ///
    /// # Errors
    /// If the program could not be started or not be spoken to.
    fn run(&mut self, batch: &Batch) -> Result<BatchOutput, CommandError>;
}

impl<R: Runner + ?Sized> Runner for &mut R {
    fn run(&mut self, batch: &Batch) -> Result<BatchOutput, CommandError> {
        (**self).run(batch)
    }
}

/// What a batch said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BatchOutput {
    pub stdout: String,
    /// Commands that failed, in order.
    pub failures: Vec<Failure>,
}

/// A command of a batch that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Its index in the batch; `None` where the process ended and did not say at which: any of
    /// them may have been done.
    pub at: Option<usize>,
    /// The program's own words.
    pub says: String,
}

/// A program could not be run.
#[derive(Debug, Error)]
pub enum CommandError {
    /// It is not there.
    #[error("program `{program}` is not installed: {fix}")]
    NotInstalled { program: String, fix: String },
    /// It is there and cannot be started, or was cut off.
    #[error("cannot run `{command}`: {source}")]
    Process {
        /// The first command of the batch.
        command: String,
        source: io::Error,
    },
    /// It did not end.
    #[error(
        "`{command}` did not end within {seconds} s and was sent SIGKILL: something holds the kernel's network settings (see `dmesg`); \
         when that is over, `tardy undo` puts back what is left"
    )]
    TimedOut {
        /// The first command of the batch.
        command: String,
        seconds: u64,
    },
}

/// A batch that was run, for the log.
#[derive(Debug)]
pub struct BatchLog<'a> {
    pub commands: &'a [Command],
    /// From before the process was started until it had ended.
    pub took: Duration,
    pub failures: &'a [Failure],
}

/// A command that takes longer hangs. Some drivers take seconds to set a queue discipline.
const LIMIT: Duration = Duration::from_secs(60);
/// A process that was sent SIGKILL ends within this time, or waits inside the kernel.
const ENDING: Duration = Duration::from_secs(1);

/// The real runner: child processes.
pub struct Processes<'a> {
    report: Box<dyn FnMut(&BatchLog<'_>) + 'a>,
    hold: Option<File>,
    limit: Duration,
}

impl<'a> Processes<'a> {
    /// A runner that calls `report` for every batch.
    pub fn new(report: impl FnMut(&BatchLog<'_>) + 'a) -> Self {
        Processes { report: Box::new(report), hold: None, limit: LIMIT }
    }

    /// With another limit for each process than a minute.
    #[must_use]
    pub fn within(self, limit: Duration) -> Self {
        Processes { limit, ..self }
    }

    /// Keeps `slot` locked as long as a child lives, even if this process is killed: else an
    /// orphan could still be building while `undo` believes the run dead and tears down.
    ///
    /// # Errors
    /// If the lock's file descriptor cannot be duplicated.
    pub fn holding(mut self, slot: &Slot) -> io::Result<Self> {
        self.hold = Some(slot.lock()?);
        Ok(self)
    }

    /// Runs it; `None` if it did not end in time.
    fn child(&self, process: &Process, reads: bool) -> io::Result<Option<process::Output>> {
        // This very binary, also where it is not in PATH or was replaced meanwhile.
        let program = if process.argv[0] == OURSELVES { "/proc/self/exe" } else { &process.argv[0] };
        let mut command = process::Command::new(program);
        command.args(&process.argv[1..]).env("LC_ALL", "C").stderr(Stdio::piped());
        // Ctrl-C at the terminal goes to the whole foreground group: it must end the run, not a
        // command half-way.
        command.process_group(0);
        command.stdin(if process.stdin.is_some() { Stdio::piped() } else { Stdio::null() });
        command.stdout(match &self.hold {
            // Commands that change something print nothing: their standard output is free to carry
            // the lock.
            Some(lock) if !reads => Stdio::from(lock.try_clone()?),
            _ => Stdio::piped(),
        });
        let until = Instant::now() + self.limit;
        let mut child = command.spawn()?;
        if let (Some(mut pipe), Some(text)) = (child.stdin.take(), process.stdin.clone()) {
            // By a thread, as the child may block on a full stderr before it has read all. One
            // that stops at a bad line closes the pipe: its complaint says more than the broken
            // pipe.
            std::thread::spawn(move || pipe.write_all(text.as_bytes()));
        }
        // By threads, as each pipe may be full while the other one is read, and neither may keep
        // this process for ever.
        let (stdout, stderr) = (child.stdout.take().map(drained), child.stderr.take().map(drained));
        let status = ended(&mut child, until)?;
        let mut all = [Vec::new(), Vec::new()];
        for (into, from) in all.iter_mut().zip([stdout, stderr]) {
            let left = until.saturating_duration_since(Instant::now()).max(ENDING);
            match from.map(|from| from.recv_timeout(left)) {
                Some(Ok(bytes)) => *into = bytes,
                // Something that it started has the pipe open still.
                Some(Err(_)) => break,
                None => {}
            }
        }
        let [stdout, stderr] = all;
        Ok(status.map(|status| process::Output { status, stdout, stderr }))
    }
}

/// All that comes out of a pipe, once it is closed.
fn drained(mut pipe: impl Read + Send + 'static) -> mpsc::Receiver<Vec<u8>> {
    let (all, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = pipe.read_to_end(&mut bytes);
        let _ = all.send(bytes);
    });
    receiver
}

/// Waits for its end; `None` if the time was up, and then it was sent SIGKILL.
fn ended(child: &mut Child, until: Instant) -> io::Result<Option<ExitStatus>> {
    if waited(child, until)? {
        return child.wait().map(Some);
    }
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    if group.is_none_or(|group| kill_process_group(group, Signal::KILL).is_err()) {
        let _ = child.kill();
    }
    if waited(child, Instant::now() + ENDING)? {
        child.wait()?;
    }
    Ok(None)
}

/// True once it has ended.
fn waited(child: &Child, until: Instant) -> io::Result<bool> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| io::Error::other("a child without a number"))?;
    let it = pidfd_open(pid, PidfdFlags::empty())?;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let limit = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        match poll(&mut [PollFd::new(&it, PollFlags::IN)], Some(&limit)) {
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
            Ok(0) if Instant::now() < until => {}
            Ok(ready) => return Ok(ready > 0),
        }
    }
}

impl Runner for Processes<'_> {
    fn run(&mut self, batch: &Batch) -> Result<BatchOutput, CommandError> {
        let process = batch.process();
        let Some(program) = process.argv.first() else {
            return Ok(BatchOutput::default());
        };
        let started = Instant::now();
        let reads = batch.is_asking() || batch.commands().iter().any(reads);
        let done = self.child(&process, reads).map_err(|source| {
            if source.kind() == io::ErrorKind::NotFound {
                CommandError::NotInstalled { program: program.clone(), fix: install(program) }
            } else {
                CommandError::Process { command: batch.commands()[0].to_string(), source }
            }
        })?;
        let (failures, stdout) = match &done {
            None => {
                let says = format!("it did not end within {} s", self.limit.as_secs());
                (vec![Failure { at: None, says }], Vec::new())
            }
            Some(done) if done.status.success() => (Vec::new(), done.stdout.clone()),
            Some(done) => {
                let is_lone = process.stdin.is_none();
                (failures(&String::from_utf8_lossy(&done.stderr), done.status, is_lone), done.stdout.clone())
            }
        };
        (self.report)(&BatchLog { commands: batch.commands(), took: started.elapsed(), failures: &failures });
        if done.is_none() {
            let (command, seconds) = (batch.commands()[0].to_string(), self.limit.as_secs());
            return Err(CommandError::TimedOut { command, seconds });
        }
        Ok(BatchOutput { stdout: String::from_utf8_lossy(&stdout).into_owned(), failures })
    }
}

/// True for a command whose output is wanted.
fn reads(command: &Command) -> bool {
    command.argv().iter().any(|word| word == "show" || word == "--json")
}

fn install(program: &str) -> String {
    match program {
        "ip" | "tc" => "apt install iproute2".to_owned(),
        "sh" => "apt install dash".to_owned(),
        other => format!("apt install {other}"),
    }
}

/// Iproute2's own code for a batch of which a line failed.
const A_LINE_FAILED: i32 = 1;

/// Splits what `ip -batch` and `tc -batch` write on stderr: each failed line is followed by
/// `Command failed -:N`, N from 1. A lone command names no line, and needs none. Neither does a
/// process that was killed, or that ends by another code than that of a failed line: iproute2 ends
/// at once, without a line's number, at some mistakes.
pub fn failures(stderr: &str, status: ExitStatus, is_lone: bool) -> Vec<Failure> {
    let mut failures = Vec::new();
    let mut says: Vec<&str> = Vec::new();
    for line in stderr.lines().map(str::trim).filter(|line| !line.is_empty()) {
        match line.strip_prefix("Command failed -:").and_then(|number| number.parse::<usize>().ok()) {
            Some(number) => {
                failures.push(Failure { at: Some(number.saturating_sub(1)), says: says.join("; ") });
                says.clear();
            }
            None => says.push(line),
        }
    }
    let was_killed = status.code().is_none();
    let is_cut = was_killed || (!is_lone && status.code() != Some(A_LINE_FAILED));
    if failures.is_empty() || is_cut {
        let status = status.to_string();
        if says.is_empty() || was_killed {
            says.push(&status);
        }
        failures.push(Failure { at: (is_lone && !was_killed).then_some(0), says: says.join("; ") });
    }
    failures
}
