// SPDX-License-Identifier: MIT OR Apache-2.0
//! `clock-step`: CLOCK_REALTIME was set during the trial. MONOTONIC is slewed with it but never
//! set, so that the difference of the two moves only in a step.

use super::{Evidence, Rule, Spoils};
use crate::says;
use tardy_model::time::ClockReading;
use tardy_model::verdict::{Level, Verdict};

pub(super) const RULE: Rule = Rule { id: "clock-step", spoils: Spoils::Measuring, judge };

/// What rounding and the order of reads within a bracket may make up beside the brackets
/// themselves, ns.
const SLACK_NS: i64 = 1_000;

fn judge(evidence: &Evidence<'_>) -> Vec<Verdict> {
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
    let verdict = Verdict::new(RULE.id, Level::Invalid, says);
    vec![verdict.with("at", at).with("step_ns", step_ns).with("allowed_ns", allowed_ns)]
}
