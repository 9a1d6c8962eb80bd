// SPDX-License-Identifier: MIT OR Apache-2.0
//! The process that runs a guest's machine: QEMU. It dies with tardy, which alone can reach its
//! monitor: that is a socket without a name.

use crate::command::Command;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};
use tardy_sys::proc::Stat;
use tardy_sys::process::{Child, Ended, GIVEN};

/// The program, as Debian calls it.
pub const PROGRAM: &str = "qemu-system-x86_64";
/// What QEMU's own system call filter refuses from its start on: system calls that are no longer
/// used, to take other rights, to start programs, to change how it is scheduled. What runs in a
/// guest is foreign code, and so may its kernel be.
pub(crate) const SANDBOX: &str = "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny";
/// What is kept of what it says, bytes.
const SAID: usize = 16 << 10;
/// QEMU says within this time whether it can have the filter.
const ANSWER: Duration = Duration::from_secs(10);

/// What a QEMU says of its version.
///
/// # Errors
/// If it cannot be started.
pub fn version(program: &Path) -> io::Result<String> {
    let output = std::process::Command::new(program).arg("--version").output()?;
    Ok(String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or_default().trim().to_owned())
}

/// Whether QEMU's system call filter works here: QEMU may be built without it, and a container may
/// forbid it. It is started without a machine and asked to end.
///
/// # Errors
/// If it cannot be started.
pub fn has_sandbox() -> io::Result<bool> {
    let mut command = std::process::Command::new(PROGRAM);
    command.args([
        "-sandbox",
        SANDBOX,
        "-M",
        "none",
        "-nodefaults",
        "-no-user-config",
        "-display",
        "none",
        "-qmp",
        "stdio",
    ]);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn()?;
    // One that has ended already does not read it.
    let _ = child
        .stdin
        .take()
        .map(|mut stdin| stdin.write_all(b"{\"execute\":\"qmp_capabilities\"}{\"execute\":\"quit\"}\n"));
    let until = Instant::now() + ANSWER;
    loop {
        match child.try_wait()? {
            Some(status) => return Ok(status.success()),
            None if Instant::now() < until => std::thread::sleep(Duration::from_millis(5)),
            None => {
                child.kill()?;
                child.wait()?;
                return Ok(false);
            }
        }
    }
}

/// How long QEMU may take to show the registers, and how long it is quiet when it has.
const SHOWS: Duration = Duration::from_secs(2);
const QUIET: Duration = Duration::from_millis(300);
/// Each processor's registers begin with this.
const PROCESSOR: &[u8] = b"CPU#";
/// The most that is read of what it shows.
const SHOWN: usize = 256 << 10;

/// The monitor of a QEMU. Whoever asks must be the only one who does just then.
pub struct Monitor(UnixStream);

impl Monitor {
    /// What the registers of the guest's processors hold, as the monitor prints them; empty if QEMU
    /// does not answer.
    pub fn registers(&self) -> String {
        let mut shown = Vec::new();
        // What comes before an error, or before the time is up, is worth reading as well.
        let _ = self.show_registers(&mut shown);
        String::from_utf8_lossy(&shown).into_owned()
    }

    fn show_registers(&self, shown: &mut Vec<u8>) -> io::Result<()> {
        let (until, mut monitor) = (Instant::now() + SHOWS, &self.0);
        monitor.set_write_timeout(Some(SHOWS))?;
        monitor.write_all(b"info registers -a\n")?;
        let mut piece = [0; 4_096];
        while Instant::now() < until && shown.len() < SHOWN {
            let left = until.saturating_duration_since(Instant::now());
            // The monitor's greeting has waited since the start, and says nothing of processors.
            let answers = shown.windows(PROCESSOR.len()).any(|some| some == PROCESSOR);
            let limit = if answers { left.min(QUIET) } else { left };
            monitor.set_read_timeout(Some(limit.max(Duration::from_millis(1))))?;
            match monitor.read(&mut piece) {
                Ok(0) => return Ok(()),
                Ok(bytes) => shown.extend_from_slice(&piece[..bytes]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// A running QEMU. Dropped, it is killed; killed with tardy too, by the kernel.
pub struct Qemu {
    child: Child,
    said: Vec<u8>,
    monitor: Monitor,
}

impl Qemu {
    /// Starts it in a folder. The thread that calls must live as long as the guest.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(folder: &Path, program: &str, arguments: &[String]) -> io::Result<Qemu> {
        let (monitor, given) = UnixStream::pair()?;
        let with = [
            "-chardev".to_owned(),
            format!("socket,id=monitor,fd={GIVEN}"),
            "-mon".to_owned(),
            "chardev=monitor,mode=readline".to_owned(),
        ];
        let arguments = [arguments, &with].concat();
        let child = Child::start_in(folder, program, &arguments, given.as_fd())?;
        Ok(Qemu { child, said: Vec::new(), monitor: Monitor(monitor) })
    }

    /// Starts it in a folder by a command that ends by becoming QEMU. The same holds for the thread
    /// that calls.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start_by(folder: &Path, command: &Command) -> io::Result<Qemu> {
        let [program, arguments @ ..] = command.argv() else { return Err(io::ErrorKind::InvalidInput.into()) };
        Qemu::start(folder, program, arguments)
    }

    /// What the registers of the guest's processors hold, as the monitor prints them; empty if QEMU
    /// does not answer.
    pub fn registers(&self) -> String {
        self.monitor.registers()
    }

    /// Its monitor, for another thread than the one that listens to it.
    ///
    /// # Errors
    /// If there is no room for an open file.
    pub fn monitor(&self) -> io::Result<Monitor> {
        self.monitor.0.try_clone().map(Monitor)
    }

    pub fn pid(&self) -> u32 {
        self.child.pid()
    }

    /// Waits a while, and takes in what QEMU itself says meanwhile.
    pub fn wait(&mut self, limit: Duration) {
        let until = Instant::now() + limit;
        let mut piece = [0; 4_096];
        while let Some(left) = until.checked_duration_since(Instant::now()) {
            match self.child.read(&mut piece, left) {
                Ok(Some(0)) => {}
                Ok(Some(bytes)) => {
                    self.said.extend_from_slice(&piece[..bytes]);
                    // The end says why it ended.
                    let more = self.said.len().saturating_sub(SAID);
                    self.said.drain(..more);
                }
                // It has closed its output: it is ending.
                Ok(None) | Err(_) => return std::thread::sleep(left.min(Duration::from_millis(2))),
            }
        }
    }

    /// How it ended, if it has.
    pub fn ended(&self) -> Option<Ended> {
        self.child.ended()
    }

    /// What it said, in one line.
    pub fn said(&self) -> String {
        String::from_utf8_lossy(&self.said).trim().lines().collect::<Vec<_>>().join(" / ")
    }

    /// Processor time that it has used, in user mode and in the kernel.
    pub fn cpu_time(&self) -> Duration {
        Stat::of(self.pid()).map(|stat| stat.cpu_time()).unwrap_or_default()
    }
}
