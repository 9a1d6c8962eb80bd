// SPDX-License-Identifier: MIT OR Apache-2.0
//! `starved-load`: a background load that is to do as much as it can waited most of its time for a
//! CPU that measuring threads had. Figures with it and without it are then the same, and do not
//! show what such a load does.

use super::cpu_use::ran_ns;
use super::evidence::Thread;
use super::{Evidence, Rule, Spoils};
use crate::host::{TrialCpu, TrialHost};
use crate::says;
use std::collections::BTreeSet;
use tardy_model::load::{LoadRecord, SideRecord};
use tardy_model::verdict::{Figure, Level, Verdict};

pub(super) const RULE: Rule = Rule { id: "starved-load", spoils: Spoils::Measuring, judge };

/// A load is starved if it waited for this part of its time or more.
const STARVED: f64 = 0.5;
/// Measuring threads are the reason if they ran for this part of that wait or more.
const EXPLAINED: f64 = 0.5;

/// A side of an instance that waited.
struct Wait<'a> {
    role: &'static str,
    share: f64,
    wait_ns: i64,
    /// The measuring threads on its CPUs, and what they ran.
    threads: Vec<(Thread<'a>, i64)>,
}

fn judge(evidence: &Evidence<'_>) -> Vec<Verdict> {
    if evidence.broke_off() {
        return Vec::new();
    }
    evidence.record.loads.iter().filter_map(|(name, record)| of_load(evidence, name, record)).collect()
}

fn of_load(evidence: &Evidence<'_>, name: &str, record: &LoadRecord) -> Option<Verdict> {
    let asked = record.kind.asked();
    if asked.bit_s.is_some() || asked.duty.is_some() {
        // Whether it reached what it was asked for, the rule `load` says.
        return None;
    }
    let sides = record.instances.iter().flat_map(|instance| instance.sides());
    let host = |role: &str| match role {
        "from" => TrialHost::called(record.hosts.from.as_deref()),
        _ => TrialHost::called(record.hosts.to.as_deref()),
    };
    let waits = sides.filter_map(|(role, side)| waited(evidence, host(role), role, side));
    let worst = waits.max_by(|a, b| a.share.total_cmp(&b.share))?;
    let Wait { role, share, wait_ns, threads } = worst;
    let cpus: BTreeSet<TrialCpu<'_>> = threads.iter().flat_map(|(thread, _)| thread.cpus()).collect();
    let names: Vec<String> =
        threads.iter().map(|(thread, _)| format!("{} ({})", thread.name(), thread.record.policy_granted)).collect();
    let says = format!(
        "load {name} ({}) waited at `{role}` for {} of its time for a CPU that {} had: it disturbed less than it could; give it or \
         them another CPU, or the threads policy other",
        record.kind.name(),
        says::share(share),
        says::list(&names),
    );
    let list = |items: Vec<Figure>| Figure::List(items);
    Some(
        Verdict::new(RULE.id, Level::Warning, says)
            .with("load", name)
            .with("kind", record.kind.name())
            .with("side", role)
            .with("wait_ns", wait_ns)
            .with("wait_share", share)
            .with("cpus", list(cpus.into_iter().map(|at| Figure::from(at.cpu)).collect()))
            .with("threads", list(names.into_iter().map(Figure::from).collect()))
            .with("threads_ns", list(threads.iter().map(|(_, ran)| Figure::from(*ran)).collect())),
    )
}

/// `None` if it did not wait for long, or not for measuring threads.
fn waited<'a>(evidence: &Evidence<'a>, host: TrialHost<'_>, role: &'static str, side: &SideRecord) -> Option<Wait<'a>> {
    let wait_ns = side.thread.wait_ns?;
    let worked_ns = side.ended_ns.saturating_sub(side.began_ns?);
    let share = wait_ns as f64 / worked_ns.max(1) as f64;
    if worked_ns <= 0 || share < STARVED {
        return None;
    }
    let is_on_its_cpu = |thread: &Thread<'_>| thread.cpus().iter().any(|at| side.thread.cpus_seen.contains(&at.cpu));
    let [before, after] = evidence.states(host)?;
    let elapsed_ns = after.clocks.monotonic_ns.saturating_sub(before.clocks.monotonic_ns);
    let on_it = evidence.threads_on(host).filter(is_on_its_cpu);
    let threads: Vec<(Thread<'a>, i64)> =
        on_it.filter_map(|thread| Some((thread, ran_ns(&thread, elapsed_ns)?))).collect();
    let ran = threads.iter().map(|(_, ran)| *ran).fold(0, i64::saturating_add);
    let share = share.min(1.0);
    (ran as f64 >= wait_ns as f64 * EXPLAINED).then_some(Wait { role, share, wait_ns, threads })
}
