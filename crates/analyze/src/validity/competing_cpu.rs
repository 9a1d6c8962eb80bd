// SPDX-License-Identifier: MIT OR Apache-2.0
//! `competing-cpu`: others ran on the CPUs of the measuring threads. That they were there is worth
//! a note; how much it weighs follows from how long the threads waited for them.

use super::cpu_use::{self, CpuUse, Harm};
use super::evidence::TICKS_NS;
use super::{Evidence, Rule, Spoils};
use crate::host::TrialHost;
use crate::says;
use std::collections::BTreeMap;
use tardy_model::result::CpuUser;
use tardy_model::verdict::{Figure, Level, Verdict};

pub(super) const RULE: Rule = Rule { id: ID, spoils: Spoils::Measuring, judge };
pub(crate) const ID: &str = "competing-cpu";

/// From this share of a CPU on others are worth knowing: a fiftieth is what a desktop's services
/// take.
const NOTED: f64 = 0.02;
/// From this part of the limit on it is a warning. With the default limit that is 1 % of the time,
/// and p99.
const WARNS: f64 = 0.1;
/// The sentence names at most this many tasks.
const NAMED: usize = 3;
/// If the tasks that are named explain less than this part, the rest is named too.
const MOST: f64 = 0.75;
/// A task below this part of what others ran explains nothing.
const PART: f64 = 0.1;

/// The tasks that explain most of what others ran.
fn named(used: &CpuUse) -> Vec<&CpuUser> {
    let explains = |user: &&CpuUser| user.run_ns as f64 >= used.others_ns as f64 * PART;
    used.users.iter().filter(explains).take(NAMED).collect()
}

fn name(user: &CpuUser) -> String {
    match user.ended {
        0 => user.name.clone(),
        ended => format!("{} ({ended} of them ended)", user.name),
    }
}

/// Who ran, each with its share of the time.
fn who(cpu: u32, used: &CpuUse) -> String {
    let share = |ns: i64| says::share(ns as f64 / used.elapsed_ns as f64);
    let users = named(used);
    // A task may have run elsewhere too: here it ran no longer than all others together.
    let mut who: Vec<(String, i64)> = users.iter().map(|user| (name(user), user.run_ns.min(used.others_ns))).collect();
    // The rest must not be blamed on those that are known.
    let known = users.iter().map(|user| user.run_ns).fold(0, i64::saturating_add);
    if (known as f64) < used.others_ns as f64 * MOST {
        let rest = if used.ended_known { "unnamed work" } else { "tasks that have ended" };
        who.push((rest.to_owned(), used.others_ns.saturating_sub(known)));
    }
    let all = share(used.others_ns);
    match who.as_slice() {
        [(one, _)] => format!("CPU {cpu} also ran {one} for {all} of the time"),
        // Some of that was elsewhere, and how much of each is not known.
        several if known > used.others_ns => {
            let names: Vec<&str> = several.iter().map(|(name, _)| name.as_str()).collect();
            format!("CPU {cpu} also ran others for {all} of the time: {}, which ran elsewhere too", names.join(", "))
        }
        several => {
            let each: Vec<String> = several.iter().map(|(name, ran)| format!("{name} {}", share(*ran))).collect();
            format!("CPU {cpu} also ran others for {all} of the time: {}", each.join(", "))
        }
    }
}

/// What that did to the thread that waited longest.
fn harmed(harm: &Harm<'_>, used: &CpuUse) -> String {
    let share = |ns: i64| says::share(ns as f64 / used.elapsed_ns as f64);
    let (name, policy) = (harm.thread.name(), &harm.thread.record.policy_granted);
    match harm.thread.record.wait_ns {
        Some(waited) => {
            // It is a limit from above: what else it waited for is not known.
            let theirs = match harm.waited_ns {
                0 => "none of it because of them".to_owned(),
                ns if share(ns) == share(waited) => "possibly all of it because of them".to_owned(),
                ns => format!("up to {} because of them", share(ns)),
            };
            format!("{name} ({policy}) waited for a CPU for {} of the time, {theirs}", share(waited))
        }
        None => format!("how long {name} ({policy}) waited for them is not known"),
    }
}

fn judge(evidence: &Evidence<'_>) -> Vec<Verdict> {
    evidence.each_host(on_host)
}

fn on_host(evidence: &Evidence<'_>, host: TrialHost<'_>) -> Vec<Verdict> {
    let limit = evidence.settings.share(ID);
    let mut found: Vec<(i64, Verdict)> = Vec::new();
    for at in evidence.cpus(host) {
        let Some(used) = cpu_use::of(evidence, at) else { continue };
        if used.others_ns <= TICKS_NS || used.elapsed_ns <= 0 {
            continue;
        }
        let share = |ns: i64| ns as f64 / used.elapsed_ns as f64;
        let Some(harm) = cpu_use::worst(evidence, at, &used) else { continue };
        // Where the wait is not known, it may have been as long as others ran, and also none.
        let noted = share(used.others_ns) >= NOTED;
        let level = match share(harm.waited_ns) {
            waited if waited >= limit => Level::Invalid,
            waited if waited >= limit * WARNS && (noted || harm.thread.record.wait_ns.is_some()) => Level::Warning,
            _ if noted => Level::Note,
            _ => continue,
        };
        let says = format!("{}; {}", who(at.cpu, &used), harmed(&harm, &used));
        let users = named(&used);
        let list = |of: fn(&CpuUser) -> Figure| Figure::List(users.iter().map(|user| of(user)).collect());
        let mut verdict = Verdict::new(ID, level, says)
            .with("cpu", at.cpu)
            .with("others_share", share(used.others_ns))
            .with("others_ns", used.others_ns)
            .with("irq_ns", used.irq_ns)
            .with("softirq_ns", used.softirq_ns)
            .with("tasks", list(|user| user.name.as_str().into()))
            .with("tasks_ns", list(|user| user.run_ns.into()))
            .with("tasks_ended", list(|user| user.ended.into()))
            .with("thread", harm.thread.name())
            .with("policy", harm.thread.record.policy_granted.as_str())
            .with("own_ns", harm.own_ns)
            .with("waited_for_others_ns", harm.waited_ns)
            .with("waited_share", share(harm.waited_ns))
            .with("limit_share", limit);
        if let Some(waited) = harm.thread.record.wait_ns {
            verdict = verdict.with("wait_ns", waited);
        }
        found.push((harm.waited_ns, verdict));
    }
    // The worst first.
    found.sort_by_key(|(waited_ns, _)| std::cmp::Reverse(*waited_ns));
    found.into_iter().map(|(_, verdict)| verdict).collect()
}

/// The evidence of several trials on one CPU, in that of the worst: all the tasks that were named
/// in any, with the time that they ran in all, and between which shares others ran. `others` are
/// the numbers of the other trials.
pub(crate) fn gather(worst: &mut Verdict, all: &[&Verdict], others: &[u32]) {
    let share = |verdict: &&Verdict| match verdict.evidence.get("others_share") {
        Some(Figure::Float(share)) => *share,
        _ => 0.0,
    };
    let (least, most) =
        (all.iter().map(share).fold(f64::INFINITY, f64::min), all.iter().map(share).fold(0.0, f64::max));
    let mut tasks: BTreeMap<&str, i64> = BTreeMap::new();
    for verdict in all {
        let (Some(Figure::List(names)), Some(Figure::List(times))) =
            (verdict.evidence.get("tasks"), verdict.evidence.get("tasks_ns"))
        else {
            continue;
        };
        for (name, time) in names.iter().zip(times) {
            if let (Figure::Text(name), Figure::Int(ns)) = (name, time) {
                let sum = tasks.entry(name).or_default();
                *sum = sum.saturating_add(*ns);
            }
        }
    }
    let mut tasks: Vec<(&str, i64)> = tasks.into_iter().collect();
    tasks.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    let is_told = |name: &str| match worst.evidence.get("tasks") {
        Some(Figure::List(told)) => told.contains(&Figure::from(name)),
        _ => false,
    };
    let more: Vec<&str> = tasks.iter().map(|(name, _)| *name).filter(|name| !is_told(name)).collect();
    if !others.is_empty() {
        let also = if more.is_empty() { String::new() } else { format!(", {} among them", says::list(&more)) };
        let (least, most, trials) = (says::share(least), says::share(most), says::trials(others));
        worst.says = format!(
            "{}; others ran there in {trials} too{also}, over all these trials for {least} to {most} of the time",
            worst.says
        );
    }
    worst.evidence.insert("others_share_least".into(), least.into());
    worst.evidence.insert("others_share_most".into(), most.into());
    worst.evidence.insert("tasks".into(), Figure::List(tasks.iter().map(|(name, _)| (*name).into()).collect()));
    worst.evidence.insert("tasks_ns".into(), Figure::List(tasks.iter().map(|(_, ns)| (*ns).into()).collect()));
    // It is of one trial alone.
    worst.evidence.remove("tasks_ended");
}
