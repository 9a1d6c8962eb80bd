// SPDX-License-Identifier: MIT OR Apache-2.0
//! May a trial's numbers be used at all? Each rule looks at the measured evidence and says nothing when all is well.
//!
//! A rule is a file here and a line in [`RULES`]. A trial is valid if no verdict is [`Level::Invalid`]. What made it invalid
//! decides whether it may be left out of its cell: [`Spoils`].

mod advance;
mod after_silence;
mod causality;
mod clock_step;
pub(crate) mod competing_cpu;
mod coverage;
pub(crate) mod cpu_use;
mod evidence;
mod failed;
mod foreign;
mod interrupted;
mod late_stamps;
mod late_start;
mod launch_drops;
mod launch_ignored;
mod load;
mod loss;
mod moved_point;
mod narrow_windows;
mod no_gates;
mod other_runs;
mod pm_qos;
mod policy;
mod queue_overflow;
mod rate;
mod receiver_broke;
mod recorder;
mod recorder_delay;
mod rt_bandwidth;
mod send_errors;
mod shaper;
mod shared_cpu;
mod softirq;
mod steal;
mod tai_offset;
mod vlan_pcp;
mod vlan_tags;
mod warmup;

use crate::coverage::CoverageByBurst;
pub use evidence::{Evidence, Of};
use std::collections::BTreeMap;
use tardy_model::result::StreamResult;
use tardy_model::trial::TrialRecord;
use tardy_model::validity::Validity;
use tardy_model::verdict::{Figure, Level, Verdict};

/// What a rule's [`Level::Invalid`] says of the trial. Losing the worst must not improve a figure, so a trial is left out for
/// how it was measured, never for what was found in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spoils {
    /// The measuring is spoilt: clocks, stamps, the recorder, the threads' policy or CPU time. What the trial found is not the
    /// path's doing, so it may be left out where a strict majority of the trials is sound.
    Measuring,
    /// The path or the load did it: packets were lost or refused, or the rate was not kept. That is the finding itself: the
    /// trial stays in the pool, and the cell is invalid.
    Path,
    /// The one or the other, which each verdict says in its evidence: [`SPOILS`] is `measuring` or `path`.
    Told,
}

/// The figure by which a verdict of a rule that is [`Spoils::Told`] says what it spoils.
const SPOILS: &str = "spoils";

/// A rule: its id, which its verdicts bear, and how it judges.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// The verdicts' id; stable.
    pub id: &'static str,
    /// What its invalidating verdicts say of the trial. Without meaning for a rule that only notes or warns.
    pub spoils: Spoils,
    /// Judges a trial.
    pub judge: fn(&Evidence<'_>) -> Vec<Verdict>,
}

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

/// True if the path or the load made the trial invalid, whatever else did too: it must not be left out.
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
