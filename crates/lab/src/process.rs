// SPDX-License-Identifier: MIT OR Apache-2.0
//! A process that cannot be mistaken for a later one with the same number.

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};
use std::io;
use tardy_sys::proc::{Stat, boot_id};

/// A process: its number is used again after it, its number with its start is not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    pub pid: u32,
    /// When it started: clock ticks since boot, field 22 of `/proc/PID/stat` (proc(5)).
    pub start: u64,
    /// Which boot (`/proc/sys/kernel/random/boot_id`): a state folder may outlive one.
    pub boot: String,
}

impl Identity {
    /// That of a living process.
    ///
    /// # Errors
    /// If there is none of that number.
    pub fn of(pid: u32) -> io::Result<Identity> {
        Ok(Identity { pid, start: Stat::of(pid)?.started_ticks, boot: boot_id()? })
    }

    /// True while it runs. One that has ended and was not waited for by its parent does not.
    pub fn is_alive(&self) -> bool {
        Stat::of(self.pid).is_ok_and(|stat| stat.started_ticks == self.start && !matches!(stat.state, 'Z' | 'X'))
            && boot_id().is_ok_and(|boot| boot == self.boot)
    }

    /// Sends SIGKILL to it, and never to a later process with its number: what is opened first and
    /// known by its start then is the one that is meant.
    ///
    /// # Errors
    /// The system's reason; that it has ended is none.
    pub(crate) fn kill(&self) -> io::Result<()> {
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| io::Error::other(format!("{} is no process number", self.pid)))?;
        match pidfd_open(pid, PidfdFlags::empty()) {
            Err(rustix::io::Errno::SRCH) => Ok(()),
            Err(errno) => Err(errno.into()),
            Ok(_) if !self.is_alive() => Ok(()),
            Ok(it) => match pidfd_send_signal(it, Signal::KILL) {
                Err(errno) if errno != rustix::io::Errno::SRCH => Err(errno.into()),
                _ => Ok(()),
            },
        }
    }
}
