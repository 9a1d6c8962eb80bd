// SPDX-License-Identifier: MIT OR Apache-2.0
//! May a trial's numbers be used at all? Each rule looks at the measured evidence and says nothing when all is well.
//!
//! A rule is a file here and a line in [`RULES`]. A trial is valid if no verdict is [`Level::Invalid`].

mod causality;
mod clock_step;
mod competing_cpu;
mod coverage;
mod evidence;
mod failed;
mod foreign;
mod interrupted;
mod late_stamps;
mod loss;
mod other_runs;
mod pm_qos;
mod policy;
mod queue_overflow;
mod rate;
mod recorder;
mod rt_bandwidth;
mod send_errors;
mod steal;
mod tai_offset;
mod warmup;

use crate::coverage::CoverageByBurst;
pub use evidence::Evidence;
use std::collections::BTreeMap;
use tardy_model::result::StreamResult;
use tardy_model::trial::TrialRecord;
use tardy_model::verdict::{Level, Verdict};

/// A rule: its id, which its verdicts bear, and how it judges.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// The verdicts' id; stable.
    pub id: &'static str,
    /// Judges a trial.
    pub judge: fn(&Evidence<'_>) -> Vec<Verdict>,
}

/// All rules, in the order in which their verdicts are told: the gravest causes first.
pub const RULES: [Rule; 20] = [
    failed::RULE,
    interrupted::RULE,
    tai_offset::RULE,
    clock_step::RULE,
    causality::RULE,
    policy::RULE,
    rate::RULE,
    send_errors::RULE,
    loss::RULE,
    recorder::RULE,
    queue_overflow::RULE,
    late_stamps::RULE,
    coverage::RULE,
    warmup::RULE,
    rt_bandwidth::RULE,
    steal::RULE,
    competing_cpu::RULE,
    other_runs::RULE,
    pm_qos::RULE,
    foreign::RULE,
];

/// Judges one trial by every rule.
pub fn judge_trial(
    record: &TrialRecord,
    results: &BTreeMap<String, StreamResult>,
    coverage: &BTreeMap<String, CoverageByBurst>,
) -> Vec<Verdict> {
    let evidence = Evidence { record, results, coverage };
    RULES.iter().flat_map(|rule| (rule.judge)(&evidence)).collect()
}

/// True if no verdict forbids the numbers.
pub fn is_valid(verdicts: &[Verdict]) -> bool {
    verdicts.iter().all(|verdict| verdict.level < Level::Invalid)
}
