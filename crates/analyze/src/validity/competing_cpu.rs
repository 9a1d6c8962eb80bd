// SPDX-License-Identifier: MIT OR Apache-2.0
//! `competing-cpu`: others ran on the CPUs of the measuring threads.

use super::evidence::TICKS_NS;
use super::{Evidence, Rule, rt_bandwidth};
use crate::says;
use std::collections::BTreeSet;
use tardy_model::machine::CpuTimes;
use tardy_model::verdict::{Figure, Level, Verdict};

pub(super) const RULE: Rule = Rule { id: "competing-cpu", judge };

/// From this share on it is worth knowing.
const NOTED: f64 = 0.02;
/// From this share on every fifth packet or more met somebody else.
const SPOILS: f64 = 0.20;
/// So many tasks are named.
const NAMED: usize = 3;
/// If the tasks that are named explain less than this part, the rest is named too.
const MOST: f64 = 0.75;
/// A task below this part of what others ran explains nothing.
const PART: f64 = 0.1;

/// Time that was not idle. The kernel samples busy time at its tick, which falls into step with a cyclic stream and then
/// charges whole ticks to it; idle time it measures. So the lesser of the two counts.
fn busy_ns(times: &CpuTimes, elapsed_ns: i64) -> i64 {
    if elapsed_ns <= 0 {
        return times.busy_ns;
    }
    times.busy_ns.min(elapsed_ns.saturating_sub(times.idle_ns).saturating_sub(times.steal_ns))
}

/// What the measuring threads ran on a CPU, at most: one that moved between CPUs counts on each.
fn ours_ns(evidence: &Evidence<'_>, cpu: u32, elapsed_ns: i64) -> i64 {
    let on_it = evidence.threads().filter(|thread| thread.cpus().contains(&cpu));
    on_it
        .map(|thread| match thread.of.spin_gaps {
            // A spinning receiver ran all the time but for its gaps, before the first packet and after the last too.
            Some(gaps) if thread.end == "rx" => thread.record.run_ns.max(elapsed_ns.saturating_sub(gaps.total_ns)),
            _ => thread.record.run_ns,
        })
        .fold(0, i64::saturating_add)
}

/// Other tasks that ran on a CPU: name and time, the longest first.
fn others(evidence: &Evidence<'_>, cpu: u32) -> Vec<(String, i64)> {
    let ours: BTreeSet<u32> = evidence.threads().map(|thread| thread.record.tid).collect();
    let before = &evidence.record.before.tasks;
    let tasks = evidence.record.after.tasks.iter().filter(|(tid, task)| task.cpu == cpu && !ours.contains(tid));
    let mut tasks: Vec<(String, i64)> = tasks
        .map(|(tid, task)| {
            let began = before.get(tid).filter(|earlier| earlier.name == task.name).map_or(0, |earlier| earlier.run_ns);
            (task.name.clone(), task.run_ns.saturating_sub(began))
        })
        .filter(|(_, ran)| *ran > 0)
        .collect();
    tasks.sort_by_key(|(_, ran)| std::cmp::Reverse(*ran));
    tasks
}

fn judge(evidence: &Evidence<'_>) -> Vec<Verdict> {
    let elapsed_ns = evidence.elapsed_ns();
    let stopped = rt_bandwidth::stopped(evidence);
    let mut verdicts = Vec::new();
    for cpu in evidence.cpus() {
        let Some(times) = evidence.cpu(cpu) else { continue };
        let total = if elapsed_ns > 0 { elapsed_ns } else { times.busy_ns.saturating_add(times.idle_ns) };
        // While the RT limit stops a thread, somebody else has its CPU; `rt-bandwidth` tells that.
        let stops = stopped.iter().filter(|stopped| stopped.thread.cpus().contains(&cpu));
        let stopped_ns = stops.filter_map(|stopped| stopped.thread.of.spin_gaps).map(|gaps| gaps.total_ns).sum::<i64>();
        let ran_ns =
            busy_ns(&times, elapsed_ns).saturating_sub(ours_ns(evidence, cpu, elapsed_ns)).saturating_sub(stopped_ns);
        if ran_ns <= TICKS_NS || total <= 0 {
            continue;
        }
        let share = ran_ns as f64 / total as f64;
        if share < NOTED {
            continue;
        }
        let level = if share >= SPOILS { Level::Invalid } else { Level::Note };
        let mut tasks = others(evidence, cpu);
        tasks.retain(|(_, ran)| *ran as f64 >= ran_ns as f64 * PART);
        tasks.truncate(NAMED);
        // A task that ended in the trial takes its time with it: the rest must not be blamed on those that stayed.
        let known: i64 = tasks.iter().map(|(_, ran)| *ran).fold(0, i64::saturating_add);
        let mut names: Vec<&str> = tasks.iter().map(|(name, _)| name.as_str()).collect();
        if (known as f64) < ran_ns as f64 * MOST {
            names.push("tasks that have ended or interrupts");
        }
        let who = says::list(&names);
        let says = format!("CPU {cpu} also ran {who} for {} of the time", says::share(share));
        verdicts.push(
            Verdict::new(RULE.id, level, says)
                .with("cpu", cpu)
                .with("others_share", share)
                .with("others_ns", ran_ns)
                .with("tasks", Figure::List(tasks.iter().map(|(name, _)| name.as_str().into()).collect()))
                .with("tasks_ns", Figure::List(tasks.iter().map(|(_, ran)| (*ran).into()).collect())),
        );
    }
    verdicts
}
