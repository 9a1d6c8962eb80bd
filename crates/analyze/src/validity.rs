// SPDX-License-Identifier: MIT OR Apache-2.0
//! May a trial's numbers be used at all? Each rule looks at the measured evidence and says nothing
//! when all is well.
//!
//! A rule is a constant in a file here and a line in [`RULES`]. Small rules of one subject share a
//! file. A trial is valid if no verdict is
//! [`Level::Invalid`](tardy_model::verdict::Level::Invalid). What made it invalid decides whether
//! it may be left out of its cell: [`Spoils`].

mod broken;
mod clocks;
pub(crate) mod competing_cpu;
pub(crate) mod cpu_use;
mod cpus;
mod evidence;
mod launching;
mod load;
mod packets;
mod rt_bandwidth;
mod rules;
mod shared_cpu;
mod stamps;
mod starved_load;
mod xdp;

pub use evidence::Evidence;
pub use rules::{RULES, is_valid, judge_trial, path_failed, was_measured_well};

use tardy_model::verdict::Verdict;

/// What a rule's [`Level::Invalid`](tardy_model::verdict::Level::Invalid) says of the trial.
/// Losing the worst must not improve a figure, so a trial is left out for how it was measured,
/// never for what was found in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spoils {
    /// The measuring is spoilt: clocks, stamps, the recorder, the threads' policy or CPU time.
    /// What the trial found is not the path's doing, so it may be left out where a strict majority
    /// of the trials is sound.
    Measuring,
    /// The path or the load did it: packets were lost or refused, or the rate was not kept. That
    /// is the finding itself: the trial stays in the pool, and the cell is invalid.
    Path,
    /// The one or the other, which each verdict says in its evidence: [`SPOILS`] is `measuring` or
    /// `path`.
    Told,
}

/// The figure by which a verdict of a rule that is [`Spoils::Told`] says what it spoils.
const SPOILS: &str = "spoils";

/// A rule: its id, which its verdicts have, and how it judges.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// The verdicts' id; stable.
    pub id: &'static str,
    /// What its invalidating verdicts say of the trial. Without meaning for a rule that only notes
    /// or warns.
    pub spoils: Spoils,
    pub judge: fn(&Evidence<'_>) -> Vec<Verdict>,
}
