// SPDX-License-Identifier: MIT OR Apache-2.0
//! `competing-cpu`: others ran on the CPUs of the measuring threads.

use super::evidence::TICKS_NS;
use super::{Evidence, Rule, Spoils, load, rt_bandwidth};
use crate::says;
use std::collections::{BTreeMap, BTreeSet};
use tardy_model::machine::{CpuTimes, TaskTime};
use tardy_model::verdict::{Figure, Level, Verdict};

pub(super) const RULE: Rule = Rule { id: "competing-cpu", spoils: Spoils::Measuring, judge };

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

/// What the measuring threads ran on a CPU, at most: one that moved between CPUs counts on each. `None` if that is not known of
/// one of them: then nobody can tell what the others ran.
fn ours_ns(evidence: &Evidence<'_>, cpu: u32, elapsed_ns: i64) -> Option<i64> {
    let on_it = evidence.threads().filter(|thread| thread.cpus().contains(&cpu));
    on_it
        .map(|thread| match thread.gaps() {
            // A spinning receiver ran all the time but for its gaps, before the first packet and after the last too.
            Some(gaps) if thread.end == "rx" => {
                let spun = elapsed_ns.saturating_sub(gaps.total_ns);
                Some(thread.record.run_ns.map_or(spun, |ran| ran.max(spun)))
            }
            _ => thread.record.run_ns,
        })
        .try_fold(0i64, |sum, ran| Some(sum.saturating_add(ran?)))
}

/// Other tasks that ran on a CPU: name and time in the trial, the longest first; those of one name together. A task is the same
/// by thread id and start, for kernel workers change their names. One that is not in the first reading is new, or had run for
/// less than a tick then, so counting it from 0 is wrong by 10 ms at most. No task ran longer than the time that passed.
fn others(evidence: &Evidence<'_>, cpu: u32, elapsed_ns: i64) -> Vec<(String, i64)> {
    let ours: BTreeSet<u32> = evidence.threads().map(|thread| thread.record.tid).collect();
    let before = &evidence.record.before.tasks;
    let expected = load::expected(evidence);
    let strange = |tid: u32, task: &TaskTime| expected.as_ref().is_none_or(|expected| !expected.holds(tid, task));
    let tasks = evidence.record.after.tasks.iter().filter(|(tid, task)| task.cpu == cpu && !ours.contains(tid));
    let tasks = tasks.filter(|(tid, task)| strange(**tid, task));
    let mut by_name: BTreeMap<&str, i64> = BTreeMap::new();
    for (tid, task) in tasks {
        let began = before.get(tid).filter(|earlier| earlier.start == task.start).map_or(0, |earlier| earlier.run_ns);
        let ran = task.run_ns.saturating_sub(began).clamp(0, elapsed_ns.max(0));
        let sum = by_name.entry(&task.name).or_default();
        *sum = sum.saturating_add(ran).min(elapsed_ns.max(0));
    }
    let mut tasks: Vec<(String, i64)> =
        by_name.into_iter().filter(|(_, ran)| *ran > 0).map(|(name, ran)| (name.to_owned(), ran)).collect();
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
        // While the kernel stops a realtime thread, somebody else has its CPU; `rt-bandwidth` tells that.
        let stops = stopped.iter().filter(|stopped| stopped.thread.cpus().contains(&cpu));
        let stopped_ns = stops.map(|stopped| stopped.gaps.total_ns).fold(0, i64::saturating_add);
        let Some(ours_ns) = ours_ns(evidence, cpu, elapsed_ns) else { continue };
        let mut ran_ns = busy_ns(&times, elapsed_ns).saturating_sub(ours_ns).saturating_sub(stopped_ns);
        if load::expected(evidence).is_some() {
            // A load's own time and that of the interrupts it causes are what was asked for: only tasks that can be named count.
            let named = others(evidence, cpu, total).iter().map(|(_, ran)| *ran).fold(0, i64::saturating_add);
            ran_ns = ran_ns.min(named);
        }
        if ran_ns <= TICKS_NS || total <= 0 {
            continue;
        }
        let share = ran_ns as f64 / total as f64;
        if share < NOTED {
            continue;
        }
        let level = if share >= SPOILS { Level::Invalid } else { Level::Note };
        let mut tasks = others(evidence, cpu, total);
        tasks.retain(|(_, ran)| *ran as f64 >= ran_ns as f64 * PART);
        tasks.truncate(NAMED);
        // A task that ended in the trial takes its time with it: the rest must not be blamed on those that stayed.
        let known: i64 = tasks.iter().map(|(_, ran)| *ran).fold(0, i64::saturating_add);
        // A task may have run elsewhere too: here it ran no longer than all others together.
        let mut who: Vec<(&str, i64)> = tasks.iter().map(|(name, ran)| (name.as_str(), (*ran).min(ran_ns))).collect();
        if (known as f64) < ran_ns as f64 * MOST {
            who.push(("tasks that have ended or interrupts", ran_ns.saturating_sub(known)));
        }
        let says = match who.as_slice() {
            [(one, _)] => format!("CPU {cpu} also ran {one} for {} of the time", says::share(share)),
            // Some of that was elsewhere, and how much of each is not known.
            several if known > ran_ns => {
                let names: Vec<&str> = several.iter().map(|(name, _)| *name).collect();
                let (share, names) = (says::share(share), names.join(", "));
                format!("CPU {cpu} also ran others for {share} of the time: {names}, which ran elsewhere too")
            }
            several => {
                let each = |(name, ran): &(&str, i64)| format!("{name} {}", says::share(*ran as f64 / total as f64));
                let each: Vec<String> = several.iter().map(each).collect();
                format!("CPU {cpu} also ran others for {} of the time: {}", says::share(share), each.join(", "))
            }
        };
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
