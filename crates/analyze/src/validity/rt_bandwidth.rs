// SPDX-License-Identifier: MIT OR Apache-2.0
//! `rt-bandwidth`: the kernel stopped a spinning realtime thread for its share of each period, so
//! that packets waited for the limit and not for the path. The share is that of
//! `sched_rt_runtime_us`, or what the kernel's fair server (Linux 6.12 and later) gives the other
//! threads whatever the limit says: 50 ms in each second.

use super::{Evidence, Rule, Spoils, Thread, TrialHost, copies};
use crate::says;
use tardy_model::machine::RtLimit;
use tardy_model::trial::SpinGaps;
use tardy_model::verdict::{Level, Verdict};

pub(super) const RULE: Rule = Rule { id: "rt-bandwidth", spoils: Spoils::Measuring, judge };

/// A gap of at least this part of the stop that the limit makes is one of its stops.
const PART_OF_STOP: f64 = 0.5;
/// The thread's share is near the limit if it was stopped for at least this part of what the limit
/// takes.
const PART_OF_LIMIT: f64 = 0.5;
/// The fair server stops a thread for 50 ms (`fair_server/runtime` in debugfs), give or take what
/// runs before and after: a gap so long is one of its stops, ns.
const FAIR_STOP_NS: std::ops::RangeInclusive<i64> = 30_000_000..=60_000_000;
/// Its period is a second (`fair_server/period`): there must be at least one such stop in this
/// time, ns.
const FAIR_STOP_EACH_NS: i64 = 2_000_000_000;

/// Whose stops they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Limit(RtLimit),
    FairServer,
    /// The default limit takes as much as the fair server does, and the gaps fit both.
    Either(RtLimit),
}

impl By {
    /// As in the evidence.
    const fn name(self) -> &'static str {
        match self {
            By::Limit(_) => "RT limit",
            By::FairServer => "fair server",
            By::Either(_) => "RT limit or fair server",
        }
    }

    /// What helps against it.
    const fn help(self) -> &'static str {
        match self {
            By::Limit(_) => "lift the limit (sysctl kernel.sched_rt_runtime_us=-1)",
            By::FairServer | By::Either(_) => "keep all other tasks off its CPU (docs/how-to/isolation.md)",
        }
    }
}

/// A thread that was stopped.
pub(super) struct Stopped<'a> {
    pub thread: Thread<'a>,
    pub gaps: SpinGaps,
    by: By,
    run_share: f64,
}

/// How long the thread's stream took, ns: its schedule, or, without one, from its first packet to
/// its last.
fn took_ns(thread: &Thread<'_>) -> i64 {
    match thread.of.intended_span_ns {
        0 => thread.of.sent_span_ns.unwrap_or(0),
        scheduled => scheduled,
    }
}

/// Of the time in which the thread wanted to run, the part in which it did.
fn run_share(thread: &Thread<'_>, gaps: &SpinGaps) -> f64 {
    // Where the kernel does not say, it ran but for its gaps.
    let ran = thread.record.run_ns.unwrap_or_else(|| took_ns(thread).saturating_sub(gaps.total_ns));
    let wanted = ran.saturating_add(gaps.total_ns);
    if wanted <= 0 { 1.0 } else { ran as f64 / wanted as f64 }
}

/// True if the gaps are the stops that the limit makes.
fn by_limit(limit: RtLimit, gaps: &SpinGaps, run_share: f64) -> bool {
    let stop_ns = limit.period_ns.saturating_sub(limit.runtime_ns);
    if limit.period_ns <= 0 || stop_ns <= 0 {
        return false;
    }
    let taken = stop_ns as f64 / limit.period_ns as f64;
    let is_stop = gaps.over_1ms > 0 && gaps.longest_ns as f64 >= stop_ns as f64 * PART_OF_STOP;
    is_stop && 1.0 - run_share >= taken * PART_OF_LIMIT
}

/// True if the gaps are those that the fair server makes in a trial that took so long. The gaps'
/// sum must allow for that many stops: many short gaps and a long one are something else.
fn by_fair_server(gaps: &SpinGaps, trial_ns: i64) -> bool {
    let needed = (trial_ns / FAIR_STOP_EACH_NS).max(1);
    FAIR_STOP_NS.contains(&gaps.longest_ns)
        && i64::from(gaps.over_1ms) >= needed
        && gaps.total_ns >= needed.saturating_mul(*FAIR_STOP_NS.start())
}

/// The limit of a host; `None` if it has none, or nobody read it.
fn limit_of(evidence: &Evidence<'_>, host: TrialHost<'_>) -> Option<RtLimit> {
    evidence.states(host)?[0].rt_limit
}

/// The threads of a host that were stopped: those that spin see it in their own loops.
pub(super) fn stopped<'a>(evidence: &Evidence<'a>, host: TrialHost<'_>) -> Vec<Stopped<'a>> {
    let limit = limit_of(evidence, host);
    let is_realtime = |policy: &str| policy.starts_with("fifo") || policy.starts_with("rr");
    evidence
        .threads_on(host)
        .filter(|thread| is_realtime(&thread.record.policy_granted))
        .filter_map(|thread| {
            let gaps = thread.gaps()?;
            let run_share = run_share(&thread, &gaps);
            let fits = limit.filter(|limit| by_limit(*limit, &gaps, run_share));
            let by = match (fits, by_fair_server(&gaps, took_ns(&thread))) {
                (Some(limit), true) => By::Either(limit),
                (Some(limit), false) => By::Limit(limit),
                (None, true) => By::FairServer,
                (None, false) => return None,
            };
            Some(Stopped { thread, gaps, by, run_share })
        })
        .collect()
}

fn judge(evidence: &Evidence<'_>) -> Vec<Verdict> {
    evidence.each_host(on_host).into_iter().chain(copies::stopped(evidence)).collect()
}

fn on_host(evidence: &Evidence<'_>, host: TrialHost<'_>) -> Vec<Verdict> {
    let known = limit_of(evidence, host);
    let may_run = |limit: RtLimit| {
        format!("realtime threads may run {} in each {}", says::time(limit.runtime_ns), says::time(limit.period_ns))
    };
    let verdict = |stopped: Stopped<'_>| {
        let Stopped { thread, gaps, by, run_share } = stopped;
        let why = match (by, known) {
            (By::Limit(limit), _) => may_run(limit),
            (By::Either(limit), _) => format!(
                "{} (sched_rt_runtime_us), and the kernel's fair server (Linux 6.12 and later) gives the other threads 50 ms in each \
                 second whatever that says",
                may_run(limit)
            ),
            (By::FairServer, None) => {
                "no RT limit is known, so these are the stops of the kernel's fair server (Linux \
                                       6.12 and later), which gives the other threads 50 ms in each second"
                    .to_owned()
            }
            (By::FairServer, Some(limit)) => format!(
                "these gaps do not fit the RT limit ({}), and fit the kernel's fair server (Linux 6.12 and later), which gives \
                 the other threads 50 ms in each second",
                may_run(limit)
            ),
        };
        let says = format!(
            "{}, which spins as {}, was stopped for up to {} ({} over 1 ms): {why}; let it sleep (rx.wait, tx.spin) or give it policy \
             other, or {}",
            thread.name(),
            thread.record.policy_granted,
            says::time(gaps.longest_ns),
            says::count(gaps.over_1ms.into(), "gap", "gaps"),
            by.help(),
        );
        let verdict = Verdict::new(RULE.id, Level::Invalid, says)
            .with("thread", thread.name())
            .with("by", by.name())
            .with("gaps_over_1ms", gaps.over_1ms)
            .with("longest_gap_ns", gaps.longest_ns)
            .with("stopped_ns", gaps.total_ns)
            .with("run_share", run_share);
        match known {
            Some(limit) => verdict.with("limit_period_ns", limit.period_ns).with("limit_runtime_ns", limit.runtime_ns),
            None => verdict,
        }
    };
    stopped(evidence, host).into_iter().map(verdict).collect()
}
