// SPDX-License-Identifier: MIT OR Apache-2.0
//! A process that cannot be mistaken for a later one with the same number; and processes that
//! outlived the agent which had started them, known by the mark in their environment. A program of
//! the user's may have started others, left its group or lost its parent, and still has the mark.
//! Anybody can set it, so it counts only for processes of the user that the agents run as.

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};
use std::io;
use std::time::{Duration, Instant};
use tardy_engine::load::MARK;
use tardy_sys::proc::{self, Stat, boot_id};

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

/// Ends all that was started by one of these agents and still runs, for at most so long: how many
/// were ended, and those that are left, if any.
pub(crate) fn end_marked(agents: &[Identity], patience: Duration) -> (u32, Vec<Identity>) {
    let until = Instant::now() + patience;
    let mut sent: Vec<Identity> = Vec::new();
    loop {
        // Such a program may be starting others just now: looked for until there are none.
        let left = marked(agents);
        if left.is_empty() || Instant::now() > until {
            return ((sent.len() - sent.iter().filter(|program| left.contains(program)).count()) as u32, left);
        }
        for program in left {
            let _ = program.kill();
            if !sent.contains(&program) {
                sent.push(program);
            }
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// What programs that these agents started have in their environment.
pub(crate) fn marks(agents: &[Identity]) -> Vec<Vec<u8>> {
    agents.iter().map(|agent| format!("{MARK}={}:{}", agent.pid, agent.start).into_bytes()).collect()
}

/// Those that run now and were started by one of these agents, in no order.
fn marked(agents: &[Identity]) -> Vec<Identity> {
    if agents.is_empty() {
        return Vec::new();
    }
    let marks = marks(agents);
    let me = std::process::id();
    let pids = proc::processes().into_iter().filter(|pid| *pid != me);
    pids.filter(|pid| tardy_host::state::is_marked(*pid, &marks))
        .filter_map(|pid| Identity::of(pid).ok())
        .filter(Identity::is_alive)
        .collect()
}
