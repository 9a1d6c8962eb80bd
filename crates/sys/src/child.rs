// SPDX-License-Identifier: MIT OR Apache-2.0
//! A user's program as a child: it has its own process group, its output through one pipe, killed
//! by the kernel when the thread that started it ends.

use crate::error::{SysError, check};
use crate::tcp::wait_for;
use std::fs::File;
use std::io::{self, Read};
use std::mem;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{self, Stdio};
use std::time::{Duration, Instant};

/// A killed program is gone within this time, unless it is stuck in the kernel.
const LEAVING: Duration = Duration::from_secs(1);
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// By itself, with this code.
    Code(i32),
    Signal(i32),
}

/// A running program. Dropping it kills its group.
#[derive(Debug)]
pub struct Child {
    child: process::Child,
    output: Option<File>,
}

impl Child {
    /// Starts `program` with `args`. Of this process's environment it gets PATH and LANG, and also
    /// `marks`: the rest of it, such as a user's key, is none of its business. It inherits the
    /// calling thread's CPU, policy and network namespace, and dies with that thread.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(program: &str, args: &[String], marks: &[(&str, &str)]) -> io::Result<Child> {
        let mut command = process::Command::new(program);
        let kept = ["PATH", "LANG"].into_iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
        command.args(args).env_clear().envs(kept).envs(marks.iter().copied());
        Child::spawn(command)
    }

    /// Starts a program in a folder, with this process's environment.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start_in(folder: &Path, program: &str, args: &[String]) -> io::Result<Child> {
        let mut command = process::Command::new(program);
        command.current_dir(folder).args(args);
        Child::spawn(command)
    }

    fn spawn(mut command: process::Command) -> io::Result<Child> {
        let (output, into) = io::pipe()?;
        command.process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::from(into.try_clone()?)).stderr(Stdio::from(into));
        let parent = process::id();
        // SAFETY: between fork and exec only async-signal-safe calls are made: prctl and getppid.
        unsafe {
            command.pre_exec(move || {
                if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) < 0 {
                    return Err(io::Error::last_os_error());
                }
                // The parent may have died before the call above.
                if libc::getppid() as u32 != parent {
                    return Err(io::Error::from_raw_os_error(libc::ESRCH));
                }
                Ok(())
            });
        }
        let child = command.spawn()?;
        let output = File::from(OwnedFd::from(output));
        Ok(Child { child, output: Some(output) })
    }

    /// Its process id, which is its group's too.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits up to `limit` for output: its bytes, 0 if the time is up, `None` once nobody can
    /// write any more.
    pub fn read(&mut self, into: &mut [u8], limit: Duration) -> io::Result<Option<usize>> {
        let Some(output) = &mut self.output else { return Ok(None) };
        if !wait_for(output.as_raw_fd(), libc::POLLIN, limit)? {
            return Ok(Some(0));
        }
        match output.read(into) {
            Ok(0) => {
                self.output = None;
                Ok(None)
            }
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(Some(0)),
            Err(error) => Err(error),
        }
    }

    /// How it ended; `None` while it runs. It stays a zombie until this is dropped: as long as it
    /// does, its number, which is its group's, is nobody else's.
    pub fn ended(&self) -> Option<Ended> {
        // SAFETY: siginfo_t is plain data; all zero is what the kernel leaves there if nothing has
        // ended.
        let mut info: libc::siginfo_t = unsafe { mem::zeroed() };
        let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        // SAFETY: `info` is valid and writable for the call.
        let result = unsafe { libc::waitid(libc::P_PID, self.pid(), &mut info, flags) };
        // SAFETY: the kernel filled `info` as for a child's end, or left it zero.
        let (pid, status) = unsafe { (info.si_pid(), info.si_status()) };
        if result < 0 || pid == 0 {
            return None;
        }
        Some(if info.si_code == libc::CLD_EXITED { Ended::Code(status) } else { Ended::Signal(status) })
    }

    /// Sends a signal to its whole group. The group is the child's until this is dropped, so no
    /// other process gets the signal.
    ///
    /// # Errors
    /// The kernel's; a group that is gone is none.
    pub fn signal(&self, signal: i32) -> Result<(), SysError> {
        let pid = i32::try_from(self.pid()).unwrap_or(0);
        if pid <= 1 {
            return Ok(());
        }
        // SAFETY: takes numbers only; the group is that of our own child.
        let result = unsafe { libc::kill(-pid, signal) };
        match check(i64::from(result), "kill", || format!("process group {pid}")) {
            Err(error) if error.errno() != libc::ESRCH => Err(error),
            _ => Ok(()),
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // Also those of the group that outlive its leader.
        let _ = self.signal(libc::SIGKILL);
        // One that is stuck in the kernel must not stop its parent too: it stays a zombie until
        // that ends.
        let until = Instant::now() + LEAVING;
        while let Ok(None) = self.child.try_wait()
            && Instant::now() < until
        {
            std::thread::sleep(LOOK_EVERY);
        }
    }
}
