// SPDX-License-Identifier: MIT OR Apache-2.0
//! `rt-bandwidth`: the kernel stopped a spinning realtime thread for its share of each period, so that packets waited for the
//! limit and not for the path.

use super::{Evidence, Rule, evidence::Thread};
use crate::says;
use tardy_model::machine::RtLimit;
use tardy_model::trial::SpinGaps;
use tardy_model::verdict::{Level, Verdict};

pub(super) const RULE: Rule = Rule { id: "rt-bandwidth", judge };

/// A gap of at least this part of the stop that the limit makes is one of its stops.
const PART_OF_STOP: f64 = 0.5;
/// The thread's share is near the limit if it was stopped for at least this part of what the limit takes.
const PART_OF_LIMIT: f64 = 0.5;

/// A thread that the limit stopped.
pub(super) struct Stopped<'a> {
    pub thread: Thread<'a>,
    gaps: SpinGaps,
    limit: RtLimit,
    run_share: f64,
}

/// Of the time in which the thread wanted to run, the part in which it did.
fn run_share(thread: &Thread<'_>, gaps: &SpinGaps) -> f64 {
    let ran = if thread.record.run_ns > 0 {
        thread.record.run_ns
    } else {
        thread.of.intended_span_ns.saturating_sub(gaps.total_ns)
    };
    let wanted = ran.saturating_add(gaps.total_ns);
    if wanted <= 0 { 1.0 } else { ran as f64 / wanted as f64 }
}

/// The threads that the limit stopped. Only receivers spin and see gaps.
pub(super) fn stopped<'a>(evidence: &Evidence<'a>) -> Vec<Stopped<'a>> {
    let Some(limit) = evidence.record.before.rt_limit else { return Vec::new() };
    let stop_ns = limit.period_ns.saturating_sub(limit.runtime_ns);
    if limit.period_ns <= 0 || stop_ns <= 0 {
        return Vec::new();
    }
    let taken = stop_ns as f64 / limit.period_ns as f64;
    let is_realtime = |policy: &str| policy.starts_with("fifo") || policy.starts_with("rr");
    evidence
        .threads()
        .filter(|thread| thread.end == "rx" && is_realtime(&thread.record.policy_granted))
        .filter_map(|thread| {
            let gaps = thread.of.spin_gaps?;
            let run_share = run_share(&thread, &gaps);
            let is_stop = gaps.over_1ms > 0 && gaps.longest_ns as f64 >= stop_ns as f64 * PART_OF_STOP;
            (is_stop && 1.0 - run_share >= taken * PART_OF_LIMIT).then_some(Stopped { thread, gaps, limit, run_share })
        })
        .collect()
}

fn judge(evidence: &Evidence<'_>) -> Vec<Verdict> {
    let told = |stopped: Stopped<'_>| {
        let Stopped { thread, gaps, limit, run_share } = stopped;
        let says = format!(
            "{}, which spins as {}, was stopped {} for up to {}: realtime threads may run {} in each {}",
            thread.name(),
            thread.record.policy_granted,
            says::count(gaps.over_1ms.into(), "time", "times"),
            says::time(gaps.longest_ns),
            says::time(limit.runtime_ns),
            says::time(limit.period_ns)
        );
        Verdict::new(RULE.id, Level::Invalid, says)
            .with("thread", thread.name())
            .with("gaps_over_1ms", gaps.over_1ms)
            .with("longest_gap_ns", gaps.longest_ns)
            .with("stopped_ns", gaps.total_ns)
            .with("run_share", run_share)
            .with("limit_period_ns", limit.period_ns)
            .with("limit_runtime_ns", limit.runtime_ns)
    };
    stopped(evidence).into_iter().map(told).collect()
}
