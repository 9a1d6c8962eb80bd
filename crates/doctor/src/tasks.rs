// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which tasks may run on CPUs that are to be left alone: users' own, and the kernel's.

use crate::check::{Area, Check, Fix, list};
use crate::numa::{near, node_of};
use crate::seen::{Seen, SeenTask, count};
use std::collections::BTreeMap;
use tardy_host::change::{Change, ThreadChange};

const AREA: Area = Area::Isolation;
/// Names that a list of tasks has, before the rest is only counted.
const SHOWN: usize = 6;
/// Who sees all tasks.
pub(crate) const SHOWN_TO: &str = "look as root, outside of containers, without hidepid on /proc";

/// Names of tasks, each with how many there are of it.
pub(crate) fn names(tasks: &[&SeenTask]) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for task in tasks {
        *counts.entry(&task.name).or_default() += 1;
    }
    let shown =
        |(name, count): (&&str, &usize)| if *count > 1 { format!("{name} ({count})") } else { (*name).to_owned() };
    let mut text = counts.iter().take(SHOWN).map(shown).collect::<Vec<_>>().join(", ");
    if counts.len() > SHOWN {
        text += &format!(" and {} more", counts.len() - SHOWN);
    }
    text
}

/// Where something is to go, in words.
pub(crate) fn place(others: &[u32]) -> String {
    match others.is_empty() {
        true => "a CPU that is not to be left alone; here there is none".to_owned(),
        false => format!("CPU {}", list(others)),
    }
}

/// The same with the commands that move some of these tasks, if there is a place for them.
pub(crate) fn moved(mut fix: Fix, tasks: &[&SeenTask], others: &[u32]) -> Fix {
    for task in tasks.iter().filter(|task| !task.is_fixed && !others.is_empty()) {
        let SeenTask { tid, started_ticks, .. } = **task;
        let (set, was) = (list(others), list(&task.allowed));
        fix = fix.change(Change::Thread(ThreadChange { tid, started_ticks, set, was }));
    }
    fix
}

/// User tasks that may run on a CPU.
pub(crate) fn of_users(seen: &Seen, cpus: &[u32], cpu: u32) -> Check {
    const ID: &str = "tasks";
    if !seen.shows_kernel() {
        let fact = format!("which tasks may run on CPU {cpu} is not known: not all are shown");
        return Check::unknown(ID, AREA, fact, SHOWN_TO).on(cpu);
    }
    let there: Vec<&SeenTask> = seen.tasks.iter().filter(|task| !task.is_kernel && seen.runs_on(task, cpu)).collect();
    if there.is_empty() {
        return Check::fine(ID, AREA, format!("no user task is put on CPU {cpu}")).on(cpu);
    }
    let (others, near) = near(seen, cpus, node_of(seen, cpu));
    let fact = format!("{} may run on CPU {cpu}: {}{near}", count(there.len(), "user task"), names(&there));
    let costs = "each runs for up to a time slice, some milliseconds, before an ordinary measuring thread does";
    let fix = Fix::by(format!("put them on {}", place(&others)));
    // Many of them are no matter of single commands.
    let fix = if there.len() <= SHOWN { moved(fix, &there, &others) } else { fix };
    Check::spoils(ID, AREA, fact, costs, fix).on(cpu)
}

/// The kernel's own threads on a CPU: those that stay whatever one does, and others.
pub(crate) fn of_kernel(seen: &Seen, cpus: &[u32], cpu: u32) -> Check {
    const ID: &str = "kernel-threads";
    if !seen.shows_kernel() {
        let fact = format!("which threads of the kernel may run on CPU {cpu} is not known: none is shown");
        return Check::unknown(ID, AREA, fact, SHOWN_TO).on(cpu);
    }
    let there = seen.tasks.iter().filter(|task| task.is_kernel && task.allowed.contains(&cpu));
    let (fixed, free): (Vec<&SeenTask>, Vec<&SeenTask>) =
        there.partition(|task| task.is_fixed && task.allowed == [cpu]);
    let stay = match fixed.is_empty() {
        true => String::new(),
        false => {
            format!("; {} of the kernel's own threads belong to it and cannot be moved: {}", fixed.len(), names(&fixed))
        }
    };
    if free.is_empty() {
        let fact = format!("no thread of the kernel that could run elsewhere may run on CPU {cpu}{stay}");
        return Check::fine(ID, AREA, fact).on(cpu);
    }
    let (others, near) = near(seen, cpus, node_of(seen, cpu));
    let fact = format!(
        "{} of the kernel may run on CPU {cpu}, and could elsewhere: {}{stay}{near}",
        count(free.len(), "thread"),
        names(&free)
    );
    let fix = moved(Fix::by("isolcpus keeps new ones away; move those that are there"), &free, &others);
    Check::note(ID, AREA, fact, "each runs for some µs at a time, and writing out memory for longer", fix).on(cpu)
}
