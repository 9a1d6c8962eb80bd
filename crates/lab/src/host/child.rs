// SPDX-License-Identifier: MIT OR Apache-2.0
//! A program of this machine that speaks on its standard input and output. It is found before
//! anything runs it.

use crate::command::Command;
use crate::connection::{Carrier, Connection};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process_group};
use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{self, Child, ChildStdin, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tardy_sys::process::{SYSTEM_PATH, ends_with_us};

/// Looks a program up as `execvp` does: a name with a slash is a path, another one is looked for
/// in PATH.
pub(crate) fn find(program: &str) -> Result<PathBuf, String> {
    let runs =
        |path: &Path| path.metadata().is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0);
    if program.contains('/') {
        let path = PathBuf::from(program);
        return match runs(&path) {
            true => Ok(path),
            false if path.exists() => Err("is there and is no program: `chmod +x` it, or write its right path".into()),
            false => Err("does not exist: write its right path".into()),
        };
    }
    // A guest's first process has no PATH.
    let places = std::env::var_os("PATH").unwrap_or_else(|| SYSTEM_PATH.into());
    std::env::split_paths(&places)
        .map(|folder| folder.join(program))
        .find(|path| runs(path))
        .ok_or_else(|| "is not installed, or not in PATH: install it, or write its path".into())
}

/// How many of the last lines that it wrote on stderr we keep.
const LAST_LINES: usize = 12;
/// A longer line is kept as several, bytes.
const LONGEST_LINE: u64 = 4096;
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// What it wrote on its way out is there within this time after its end.
const LAST_WORDS: Duration = Duration::from_millis(200);
/// A program that is asked to end has this time.
const PASSING_ON: Duration = Duration::from_millis(100);

/// Starts `program` with the arguments of `command`. In lists of processes it has the name of
/// `command`.
///
/// # Errors
/// If it cannot be started.
pub fn start(program: &Path, command: &Command) -> io::Result<Connection> {
    start_by(process::Command::new(program), command)
}

/// The same of a program that waits for a network and not for this process, as ssh's client does:
/// the kernel ends it when the thread that starts it ends, however that ends.
///
/// # Errors
/// If it cannot be started.
pub fn start_with_us(program: &Path, command: &Command) -> io::Result<Connection> {
    let mut process = process::Command::new(program);
    ends_with_us(&mut process);
    start_by(process, command)
}

fn start_by(mut process: process::Command, command: &Command) -> io::Result<Connection> {
    process.arg0(command.program()).args(command.argv().iter().skip(1));
    process.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // Ctrl-C in the terminal is for the coordinator, which ends what it started in good order.
    process.process_group(0);
    let mut child = process.spawn()?;
    let (Some(to), Some(from), Some(stderr)) = (child.stdin.take(), child.stdout.take(), child.stderr.take()) else {
        return Err(io::Error::other("no pipes"));
    };
    let lines = Arc::new(Mutex::new(VecDeque::new()));
    let heard = listen(stderr, lines.clone());
    let carrier = Box::new(Process { child, lines, heard });
    Ok(Connection { from: Box::new(from), to: Box::new(Input(to)), carrier })
}

/// A program that takes nothing for this time will not take any more.
const TAKING: Duration = Duration::from_secs(20);
/// A pipe that takes anything takes this much at once (PIPE_BUF, pipe(7)).
const PIPE_BUF: usize = 4_096;

/// The standard input of a program. One that does not read costs an error, and no wait without end.
struct Input(ChildStdin);

impl Write for Input {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let limit = Timespec { tv_sec: TAKING.as_secs() as i64, tv_nsec: 0 };
        if poll(&mut [PollFd::new(&self.0, PollFlags::OUT)], Some(&limit))? == 0 {
            let says = format!("it read nothing for {} s", TAKING.as_secs());
            return Err(io::Error::new(io::ErrorKind::TimedOut, says));
        }
        self.0.write(&bytes[..bytes.len().min(PIPE_BUF)])
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

struct Process {
    child: Child,
    lines: Arc<Mutex<VecDeque<String>>>,
    /// True once nobody can write to its stderr any more, and all of it was read.
    heard: Arc<AtomicBool>,
}

impl Process {
    /// What it wrote on its way out is read by a thread of its own. Another process may have its
    /// stderr too, and live on.
    fn hear_the_last_words(&self) {
        let until = Instant::now() + LAST_WORDS;
        while !self.heard.load(Relaxed) && Instant::now() < until {
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

impl Carrier for Process {
    fn pid(&self) -> Option<u32> {
        Some(self.child.id())
    }

    fn ended(&mut self, limit: Duration) -> Option<String> {
        let until = Instant::now() + limit;
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => {
                    self.hear_the_last_words();
                    return Some(format!("with {status}"));
                }
                Ok(None) if Instant::now() < until => std::thread::sleep(LOOK_EVERY),
                _ => return None,
            }
        }
    }

    fn kill(&mut self) {
        let group = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let (Ok(None), Some(group)) = (self.child.try_wait(), group) else { return };
        // Whoever is in between, as sudo is, can pass this on, and SIGKILL not.
        let _ = kill_process_group(group, Signal::TERM);
        if self.ended(PASSING_ON).is_none() {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }

    fn last_words(&self) -> Vec<String> {
        self.lines.lock().map(|lines| lines.iter().cloned().collect()).unwrap_or_default()
    }
}

/// Reads to the end, and says by a flag when it is there.
fn listen(from: impl Read + Send + 'static, lines: Arc<Mutex<VecDeque<String>>>) -> Arc<AtomicBool> {
    let heard = Arc::new(AtomicBool::new(false));
    let at_end = heard.clone();
    std::thread::spawn(move || {
        let mut from = BufReader::new(from);
        loop {
            // Whatever it writes, it is read to its end: a closed pipe would end the program.
            let mut line = Vec::new();
            match from.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => return at_end.store(true, Relaxed),
                Ok(_) => {}
            }
            if let Ok(mut lines) = lines.lock() {
                if lines.len() == LAST_LINES {
                    lines.pop_front();
                }
                lines.push_back(String::from_utf8_lossy(&line).trim_end().to_owned());
            }
        }
    });
    heard
}
