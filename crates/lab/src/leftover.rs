// SPDX-License-Identifier: MIT OR Apache-2.0
//! Processes that outlived the agent which had started them, known by the mark in their
//! environment: a program of the user's may have started others, left its group or lost its
//! parent, and still has it. Anybody can set such a mark, so it counts only for processes of the
//! user that the agents run as.

use crate::process::Identity;
use std::fs;
use std::time::{Duration, Instant};
use tardy_engine::load::MARK;

/// Ends all that was started by one of these agents and still runs, for at most so long: how many
/// were ended, and those that are left, if any.
pub(crate) fn end(agents: &[Identity], patience: Duration) -> (u32, Vec<Identity>) {
    let until = Instant::now() + patience;
    let mut sent: Vec<Identity> = Vec::new();
    loop {
        // Such a program may be starting others just now: looked for until there are none.
        let left = of(agents);
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
pub(crate) fn of(agents: &[Identity]) -> Vec<Identity> {
    if agents.is_empty() {
        return Vec::new();
    }
    let marks = marks(agents);
    let me = std::process::id();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()).filter(|pid| *pid != me);
    pids.filter(|pid| tardy_host::state::is_marked(*pid, &marks))
        .filter_map(|pid| Identity::of(pid).ok())
        .filter(Identity::is_alive)
        .collect()
}
