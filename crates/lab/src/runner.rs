// SPDX-License-Identifier: MIT OR Apache-2.0
//! The one place that starts programs. A narrow trait, so that everything above it can be tried without a machine.

use crate::command::{Batch, Command, OURSELVES, Process};
use crate::names::Slot;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::{self, Stdio};
use std::time::{Duration, Instant};
use thiserror::Error;

/// Runs batches.
pub trait Runner {
    /// Runs one batch to its end. A command that fails is no error here: it stands in the output.
    ///
    /// # Errors
    /// If the program could not be started or not be spoken to.
    fn run(&mut self, batch: &Batch) -> Result<Output, RunError>;
}

/// What a batch said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Output {
    /// Standard output.
    pub stdout: String,
    /// Commands that failed, in order.
    pub failures: Vec<Failure>,
}

/// A command of a batch that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Its index in the batch; 0 if the process failed before it read the first one.
    pub index: usize,
    /// The program's own words.
    pub says: String,
}

/// A program could not be run.
#[derive(Debug, Error)]
pub enum RunError {
    /// It is not there.
    #[error("program `{program}` is not installed: {mend}")]
    NotInstalled {
        /// Its name.
        program: String,
        /// What to do.
        mend: String,
    },
    /// It is there and cannot be started, or was cut off.
    #[error("cannot run `{command}`: {source}")]
    Process {
        /// The first command of the batch.
        command: String,
        /// The system's reason.
        source: io::Error,
    },
}

/// A batch that was run, for the log.
#[derive(Debug)]
pub struct Ran<'a> {
    /// Its commands.
    pub commands: &'a [Command],
    /// From before the process was started until it had ended.
    pub took: Duration,
    /// Those that failed.
    pub failures: &'a [Failure],
}

/// The real runner: child processes.
pub struct Processes<'a> {
    report: Box<dyn FnMut(&Ran<'_>) + 'a>,
    hold: Option<File>,
}

impl<'a> Processes<'a> {
    /// A runner that tells `report` of every batch.
    pub fn new(report: impl FnMut(&Ran<'_>) + 'a) -> Self {
        Processes { report: Box::new(report), hold: None }
    }

    /// Keeps `slot` locked as long as a child lives, even if this process is killed: else an orphan could still be building
    /// while `undo` believes the run dead and tears down.
    ///
    /// # Errors
    /// If the lock's file descriptor cannot be duplicated.
    pub fn holding(mut self, slot: &Slot) -> io::Result<Self> {
        self.hold = Some(slot.lock()?);
        Ok(self)
    }

    fn child(&self, process: &Process, reads: bool) -> io::Result<process::Output> {
        // This very binary, also where it is not in PATH or was replaced meanwhile.
        let program = if process.argv[0] == OURSELVES { "/proc/self/exe" } else { &process.argv[0] };
        let mut command = process::Command::new(program);
        command.args(&process.argv[1..]).env("LC_ALL", "C").stderr(Stdio::piped());
        // Ctrl-C at the terminal goes to the whole foreground group: it must end the run, not a command half-way.
        command.process_group(0);
        command.stdin(if process.stdin.is_some() { Stdio::piped() } else { Stdio::null() });
        command.stdout(match &self.hold {
            // Commands that change something print nothing: their standard output is free to carry the lock.
            Some(lock) if !reads => Stdio::from(lock.try_clone()?),
            _ => Stdio::piped(),
        });
        let mut child = command.spawn()?;
        let stdin = child.stdin.take();
        std::thread::scope(|scope| {
            if let (Some(mut pipe), Some(text)) = (stdin, &process.stdin) {
                // By a thread, as the child may block on a full stderr before it has read all. One that stops at a bad
                // line closes the pipe: its complaint says more than the broken pipe.
                scope.spawn(move || pipe.write_all(text.as_bytes()));
            }
            child.wait_with_output()
        })
    }
}

impl Runner for Processes<'_> {
    fn run(&mut self, batch: &Batch) -> Result<Output, RunError> {
        let process = batch.process();
        let Some(program) = process.argv.first() else {
            return Ok(Output::default());
        };
        let started = Instant::now();
        let done = self.child(&process, batch.commands().iter().any(reads)).map_err(|source| {
            if source.kind() == io::ErrorKind::NotFound {
                RunError::NotInstalled { program: program.clone(), mend: install(program) }
            } else {
                RunError::Process { command: batch.commands()[0].to_string(), source }
            }
        })?;
        let stderr = String::from_utf8_lossy(&done.stderr);
        let failures = if done.status.success() { Vec::new() } else { failures(&stderr, &done.status.to_string()) };
        (self.report)(&Ran { commands: batch.commands(), took: started.elapsed(), failures: &failures });
        Ok(Output { stdout: String::from_utf8_lossy(&done.stdout).into_owned(), failures })
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

/// Splits what `ip -batch` and `tc -batch` write on stderr: each failed line is followed by `Command failed -:N`, N from 1.
/// A lone command, or a process that failed before its first line, names no line.
pub fn failures(stderr: &str, status: &str) -> Vec<Failure> {
    let mut failures = Vec::new();
    let mut says: Vec<&str> = Vec::new();
    for line in stderr.lines().map(str::trim).filter(|line| !line.is_empty()) {
        match line.strip_prefix("Command failed -:").and_then(|number| number.parse::<usize>().ok()) {
            Some(number) => {
                failures.push(Failure { index: number.saturating_sub(1), says: says.join("; ") });
                says.clear();
            }
            None => says.push(line),
        }
    }
    if failures.is_empty() {
        failures.push(Failure { index: 0, says: if says.is_empty() { status.to_owned() } else { says.join("; ") } });
    }
    failures
}
