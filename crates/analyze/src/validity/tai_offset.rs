// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tai-offset`: the kernel's TAI − UTC offset was changed during the trial, so that CLOCK_TAI
//! jumped, or CLOCK_REALTIME at a leap second.

use super::{Evidence, Rule, Spoils};
use tardy_model::time::ClockReading;
use tardy_model::verdict::{Level, Verdict};

pub(super) const RULE: Rule = Rule { id: "tai-offset", spoils: Spoils::Measuring, judge };

/// The offset changes by whole seconds.
const HALF_A_SECOND_NS: i64 = 500_000_000;

fn judge(evidence: &Evidence<'_>) -> Vec<Verdict> {
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
        Verdict::new(RULE.id, Level::Invalid, says)
            .with("at", at)
            .with("before_s", i64::from(before.tai_offset_s))
            .with("after_s", i64::from(after.tai_offset_s)),
    ]
}
