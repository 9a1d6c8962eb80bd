// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rules about clocks: whether one jumped during a trial, and whether stamps contradict each other.

use super::{Evidence, Rule, Spoils};
use crate::says;
use tardy_model::point::{Metric, Point};
use tardy_model::time::ClockReading;
use tardy_model::verdict::{Level, Verdict};

/// `tai-offset`: the kernel's TAI − UTC offset was changed during the trial, so that CLOCK_TAI
/// jumped, or CLOCK_REALTIME at a leap second.
pub(super) const TAI_OFFSET: Rule = Rule { id: "tai-offset", spoils: Spoils::Measuring, judge: tai_offset };

/// The offset changes by whole seconds.
const HALF_A_SECOND_NS: i64 = 500_000_000;

fn tai_offset(evidence: &Evidence<'_>) -> Vec<Verdict> {
    let changed = evidence.clocks().find(|(_, [before, after])| before.tai_offset_s != after.tai_offset_s);
    let Some((at, [before, after])) = changed else { return Vec::new() };
    // MONOTONIC jumps never: it shows which of the two did.
    let tai = |reading: ClockReading| reading.tai_ns.saturating_sub(reading.monotonic_ns);
    let jumped = if tai(after).saturating_sub(tai(before)).saturating_abs() > HALF_A_SECOND_NS {
        "CLOCK_TAI, the schedule's clock, jumped"
    } else {
        "CLOCK_REALTIME, the clock of the kernel's stamps, jumped, as it does at a leap second"
    };
    let says = format!(
        "the kernel's TAI offset went from {} s to {} s during the trial: {jumped}",
        before.tai_offset_s, after.tai_offset_s
    );
    vec![
        Verdict::new(TAI_OFFSET.id, Level::Invalid, says)
            .with("at", at)
            .with("before_s", i64::from(before.tai_offset_s))
            .with("after_s", i64::from(after.tai_offset_s)),
    ]
}

/// `clock-step`: CLOCK_REALTIME was set during the trial. MONOTONIC is slewed with it but never
/// set, so that the difference of the two moves only in a step.
pub(super) const CLOCK_STEP: Rule = Rule { id: "clock-step", spoils: Spoils::Measuring, judge: clock_step };

/// What rounding and the order of reads within a bracket may add to the brackets themselves, ns.
const SLACK_NS: i64 = 1_000;

fn clock_step(evidence: &Evidence<'_>) -> Vec<Verdict> {
    let step = |(at, [before, after]): (String, [ClockReading; 2])| {
        let difference = |r: &ClockReading| r.realtime_ns.saturating_sub(r.monotonic_ns);
        let step = difference(&after).saturating_sub(difference(&before));
        // Both clocks were read somewhere in a bracket, which is twice as wide as its bound.
        let brackets = before.bound_ns.saturating_add(after.bound_ns).saturating_mul(2);
        let allowed = brackets.saturating_add(SLACK_NS);
        (step.saturating_abs() > allowed).then_some((at, step, allowed))
    };
    let steps = evidence.clocks().filter_map(step);
    let Some((at, step_ns, allowed_ns)) = steps.max_by_key(|(_, step, _)| step.saturating_abs()) else {
        return Vec::new();
    };
    let says = format!(
        "CLOCK_REALTIME was set by {} during the trial: kernel stamps before and after do not fit together",
        says::time(step_ns)
    );
    let verdict = Verdict::new(CLOCK_STEP.id, Level::Invalid, says);
    vec![verdict.with("at", at).with("step_ns", step_ns).with("allowed_ns", allowed_ns)]
}

impl Evidence<'_> {
    /// True if a clock jumped during the trial, as `clock-step` or `tai-offset` reports: spans
    /// and pairs across the jump are no evidence of anything else.
    pub(super) fn clock_jumped(&self) -> bool {
        [TAI_OFFSET, CLOCK_STEP].iter().any(|rule| !(rule.judge)(self).is_empty())
    }
}

/// `causality`: a later point was stamped before an earlier one by more than the clocks' bounds: a
/// fault of a clock. What counts from `scheduled` may be early and is not checked.
pub(super) const CAUSALITY: Rule = Rule { id: "causality", spoils: Spoils::Measuring, judge: causality };

fn causality(evidence: &Evidence<'_>) -> Vec<Verdict> {
    if evidence.clock_jumped() {
        return Vec::new();
    }
    let mut verdicts = Vec::new();
    for (stream, result) in evidence.results {
        let Some(record) = evidence.record.streams.get(stream) else { continue };
        let both_ns = record.tx_conversion.bound_ns.saturating_add(record.rx_conversion.bound_ns);
        // The worst pair speaks for all that one clock spoilt.
        let worst = result
            .metrics
            .iter()
            .filter_map(|(name, metric)| {
                let pair = name.parse::<Metric>().ok().filter(|pair| pair.is_causal())?;
                // The device's clock is in question only where its stamp is.
                let of_device = if pair.points().contains(&Point::TxHw) { record.tx_hw_bound_ns } else { 0 };
                // The clocks of two hosts are in question only where a pair has an end on each.
                let of_hosts = if pair.crosses_stations() { record.offsets.bound_ns() } else { 0 };
                let bound_ns = both_ns.saturating_add(of_device).saturating_add(of_hosts);
                Some((metric.figures.min_ns?, name, metric.negative, bound_ns))
            })
            .filter(|(min_ns, _, _, bound_ns)| *min_ns < bound_ns.saturating_neg())
            .min();
        let Some((min_ns, metric, negative, bound_ns)) = worst else { continue };
        let says = format!(
            "{stream}: {metric} is negative in {}, down to {}, which the clocks' bound of {} does not explain",
            says::count(negative, "packet", "packets"),
            says::time(min_ns),
            says::time(bound_ns)
        );
        verdicts.push(
            Verdict::new(CAUSALITY.id, Level::Invalid, says)
                .with("stream", stream.as_str())
                .with("metric", metric.as_str())
                .with("negative", negative)
                .with("min_ns", min_ns)
                .with("bound_ns", bound_ns),
        );
    }
    verdicts
}
