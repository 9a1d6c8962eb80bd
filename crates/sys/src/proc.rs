// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `/proc` reports about a process or a thread in one line: `/proc/PID/stat`
//! (proc_pid_stat(5)).

use std::fs;
use std::io;

/// One line of `stat`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// `comm`, field 2.
    pub name: String,
    /// Field 3: `R` runs, `S` sleeps, `Z` has ended and was not waited for.
    pub state: char,
    /// Time in user mode and in the kernel, fields 14 and 15, in clock ticks.
    pub ran_ticks: [u64; 2],
    /// When it started, field 22, in clock ticks since boot.
    pub started_ticks: u64,
    /// The CPU that it ran on last, field 39.
    pub cpu: u32,
    /// The scheduling policy, field 41: 0 for SCHED_OTHER (sched(7)).
    pub policy: u32,
}

/// Policies that come before all ordinary ones: SCHED_FIFO, SCHED_RR and SCHED_DEADLINE.
const BEFORE_ORDINARY: [u32; 3] = [1, 2, 6];

impl Stat {
    /// The line of a process.
    ///
    /// # Errors
    /// If there is none of that number, or the line cannot be read.
    pub fn of(pid: u32) -> io::Result<Stat> {
        Stat::read(&format!("/proc/{pid}/stat"))
    }

    /// That of a thread of this process.
    ///
    /// # Errors
    /// As of a process.
    pub fn of_own_thread(tid: u32) -> io::Result<Stat> {
        Stat::read(&format!("/proc/self/task/{tid}/stat"))
    }

    /// True if it comes before every task of an ordinary policy.
    pub fn is_realtime(&self) -> bool {
        BEFORE_ORDINARY.contains(&self.policy)
    }

    fn read(file: &str) -> io::Result<Stat> {
        let line = fs::read_to_string(file)?;
        Stat::parse(&line)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, format!("{file} reads `{}`", line.trim_end())))
    }

    /// Reads a line; `None` if it is none. The name may hold blanks and brackets, so that fields
    /// are counted from the last bracket on.
    pub fn parse(line: &str) -> Option<Stat> {
        let (before, rest) = line.rsplit_once(')')?;
        let (_, name) = before.split_once('(')?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        // The first of them is field 3.
        let field = |number: usize| fields.get(number - 3).copied();
        Some(Stat {
            name: name.to_owned(),
            state: field(3)?.chars().next()?,
            ran_ticks: [field(14)?.parse().ok()?, field(15)?.parse().ok()?],
            started_ticks: field(22)?.parse().ok()?,
            cpu: field(39)?.parse().ok()?,
            policy: field(41)?.parse().ok()?,
        })
    }
}
