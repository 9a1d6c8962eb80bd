// SPDX-License-Identifier: MIT OR Apache-2.0
//! All rules, and what they come to in a trial.

use super::evidence::{Evidence, Of};
use super::{Rule, SPOILS, Spoils};
use super::{
    advance, after_silence, causality, clock_step, competing_cpu, coverage, failed, foreign, interrupted, late_stamps,
    late_start, launch_drops, launch_ignored, load, loss, moved_point, narrow_windows, no_gates, other_runs, pm_qos,
    policy, queue_overflow, rate, receiver_broke, recorder, recorder_delay, rt_bandwidth, send_errors, shaper,
    shared_cpu, softirq, steal, tai_offset, vlan_pcp, vlan_tags, warmup,
};
use crate::coverage::CoverageByBurst;
use std::collections::BTreeMap;
use tardy_model::result::StreamResult;
use tardy_model::trial::TrialRecord;
use tardy_model::validity::Validity;
use tardy_model::verdict::{Figure, Level, Verdict};

/// All rules, in the order in which their verdicts are told: the gravest causes first.
pub const RULES: [Rule; 36] = [
    failed::RULE,
    late_start::RULE,
    receiver_broke::RULE,
    interrupted::RULE,
    tai_offset::RULE,
    clock_step::RULE,
    causality::RULE,
    policy::RULE,
    shaper::RULE,
    no_gates::RULE,
    load::RULE,
    softirq::RULE,
    rate::RULE,
    send_errors::RULE,
    launch_drops::RULE,
    loss::RULE,
    after_silence::RULE,
    vlan_tags::RULE,
    vlan_pcp::RULE,
    recorder::RULE,
    recorder_delay::RULE,
    queue_overflow::RULE,
    late_stamps::RULE,
    coverage::RULE,
    warmup::RULE,
    advance::RULE,
    narrow_windows::RULE,
    rt_bandwidth::RULE,
    steal::RULE,
    competing_cpu::RULE,
    shared_cpu::RULE,
    other_runs::RULE,
    pm_qos::RULE,
    launch_ignored::RULE,
    moved_point::RULE,
    foreign::RULE,
];

/// Judges one trial by every rule, as `settings` have it.
pub fn judge_trial(
    record: &TrialRecord,
    results: &BTreeMap<String, StreamResult>,
    coverage: &BTreeMap<String, CoverageByBurst>,
    settings: &Validity,
) -> Vec<Verdict> {
    let by = |rule: &Rule, settings: &Validity| {
        (rule.judge)(&Evidence { record, results, coverage, settings, of: Of::Trial })
    };
    RULES.iter().flat_map(|rule| settings.weigh(rule.id, |settings| by(rule, settings))).collect()
}

/// True if no verdict forbids the numbers.
pub fn is_valid(verdicts: &[Verdict]) -> bool {
    verdicts.iter().all(|verdict| verdict.level < Level::Invalid)
}

/// True if the path or the load made the trial invalid, whatever else did too: it must not be left
/// out.
pub fn path_failed(verdicts: &[Verdict]) -> bool {
    verdicts.iter().any(|verdict| verdict.level >= Level::Invalid && is_by_path(verdict))
}

/// True if the path or the load did all that is invalid here: the measuring was sound.
pub fn was_measured_well(verdicts: &[Verdict]) -> bool {
    verdicts.iter().all(|verdict| verdict.level < Level::Invalid || is_by_path(verdict))
}

fn is_by_path(verdict: &Verdict) -> bool {
    match RULES.iter().find(|rule| rule.id == verdict.id).map(|rule| rule.spoils) {
        Some(Spoils::Path) => true,
        Some(Spoils::Told) => verdict.evidence.get(SPOILS) == Some(&Figure::from("path")),
        Some(Spoils::Measuring) | None => false,
    }
}
