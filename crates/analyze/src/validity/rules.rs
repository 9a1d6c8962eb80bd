// SPDX-License-Identifier: MIT OR Apache-2.0
//! All rules, and what they come to in a trial.

use super::{
    Evidence, Rule, SPOILS, Spoils, broken, copies, cpus, flows, launching, load, packets, rt_bandwidth, shared_cpu,
    stamps, steered,
};
use crate::outcomes::CoverageByBurst;
use std::collections::BTreeMap;
use tardy_model::result::StreamResult;
use tardy_model::trial::TrialRecord;
use tardy_model::validity::Validity;
use tardy_model::verdict::{Figure, Level, Verdict};

/// All rules, in the order in which their verdicts are reported: the most severe causes first.
pub const RULES: [Rule; 59] = [
    broken::FAILED,
    broken::LATE_START,
    broken::RECEIVER_BROKE,
    broken::INTERRUPTED,
    broken::ADDED_TAG,
    broken::PROGRAM_DROPS,
    broken::GROUP_LOST,
    broken::LONG_LOST,
    broken::CHECKSUM_LOST,
    stamps::TAI_OFFSET,
    stamps::CLOCK_STEP,
    stamps::CLOCKS_DISAGREE,
    steered::CLOCK_BEND,
    stamps::CAUSALITY,
    stamps::CLOCK_BOUND,
    cpus::POLICY,
    launching::SHAPER,
    launching::NO_GATES,
    load::RULE,
    shared_cpu::STARVED_LOAD,
    cpus::SOFTIRQ,
    packets::CORE,
    packets::RATE,
    packets::SEND_ERRORS,
    launching::LAUNCH_DROPS,
    packets::LOSS,
    packets::AFTER_SILENCE,
    packets::VLAN_TAGS,
    packets::VLAN_PCP,
    stamps::RECORDER,
    stamps::RECORDER_DELAY,
    stamps::QUEUE_OVERFLOW,
    broken::NO_METADATA,
    stamps::LATE_STAMPS,
    stamps::COVERAGE,
    stamps::WARMUP,
    launching::ADVANCE,
    launching::NARROW_WINDOWS,
    rt_bandwidth::RULE,
    copies::STARVED_COPY,
    copies::ADDED_UP,
    cpus::STEAL,
    shared_cpu::COMPETING_CPU,
    shared_cpu::SHARED_CPU,
    cpus::OTHER_RUNS,
    cpus::PM_QOS,
    cpus::BPF_JIT,
    launching::LAUNCH_IGNORED,
    launching::MOVED_POINT,
    flows::RULE,
    broken::PRINTK,
    broken::DEVICE_NUMBER,
    broken::GENERIC_XDP,
    broken::PROGRAMS,
    broken::OTHER_ROUTE,
    broken::ROUTERS,
    stamps::CLOCK_SOURCE,
    packets::XDP_MODE,
    packets::FOREIGN,
];

/// Judges one trial by every rule, as `settings` have it; `exact` is true of one in exact time.
pub fn judge_trial(
    record: &TrialRecord,
    results: &BTreeMap<String, StreamResult>,
    coverage: &BTreeMap<String, CoverageByBurst>,
    settings: &Validity,
    exact: bool,
) -> Vec<Verdict> {
    let by = |rule: &Rule, settings: &Validity| (rule.judge)(&Evidence { record, results, coverage, settings, exact });
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
