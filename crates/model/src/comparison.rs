// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a comparison of two runs reports: what differed in the machine and in what was asked, and
//! what differs in the numbers.

use crate::validity::Validity;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Two runs, the first called A, the second B. Every difference is B less A.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Version of this form; that of the run folder.
    pub format: u32,
    pub a: Compared,
    pub b: Compared,
    /// True if both names lead to one folder: nothing can differ then, and that nothing does is no
    /// finding.
    #[serde(default)]
    pub one_folder: bool,
    /// True if both ran in exact virtual time and their fingerprints are equal; null where one of
    /// them is not exact, or finished no trial.
    pub identical: Option<bool>,
    /// Facts that were looked at.
    pub facts: u64,
    /// Those that differ, by group and name.
    pub differences: Vec<Difference>,
    /// Cells in the order of the first run, then those of the second alone.
    pub cells: Vec<CellComparison>,
    /// What came of each condition that was given, for each cell and stream that it is about.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<ConditionResult>,
}

/// What came of a condition on the difference of two runs, in one cell and stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConditionResult {
    /// The condition, as it was given.
    pub condition: String,
    /// Cell id; null where no cell could be looked at.
    pub cell: Option<String>,
    /// Stream; null where none could be looked at.
    pub stream: Option<String>,
    pub decision: Decision,
    /// Why, in one sentence.
    pub says: String,
    /// Of exact runs: phases in which the difference is beyond the limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beyond: Option<u32>,
    /// Of exact runs: phases in which the figure is known of both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phases: Option<u32>,
}

/// What comes of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Decision {
    /// The difference is beyond the limit.
    Met,
    NotMet,
    /// Nothing is claimed of such a difference: a run is noisy, or has too few trials.
    Undecided,
    /// A number must not be used, is missing, or is of another point.
    NoData,
}

impl Decision {
    /// In words. The sentence after it gives the reason when nothing can be concluded.
    pub const fn says(self) -> &'static str {
        match self {
            Decision::Met => "met",
            Decision::NotMet => "not met",
            Decision::Undecided | Decision::NoData => "undecided",
        }
    }
}

/// One of the two runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Compared {
    /// Its folder, as it was named.
    pub run: String,
    /// The experiment's `name`, as its file has it.
    pub name: String,
    /// When it began, UTC, RFC 3339.
    pub started_utc: String,
    /// May its numbers be used?
    pub valid: bool,
    /// Of a run in exact virtual time.
    pub fingerprint: Option<String>,
    /// Trials that were finished, of all cells.
    #[serde(default)]
    pub trials: u32,
    /// `killed`, `interrupted` or `failed`, if it did not come to its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<String>,
    /// What its experiment set of the rules of validity.
    #[serde(default, skip_serializing_if = "Validity::is_empty")]
    pub validity: Validity,
}

/// Where a fact belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Group {
    /// The machine and its settings.
    Machine,
    Kernel,
    /// The guest that it ran in.
    Guest,
    /// tardy and the programs that it ran.
    Programs,
    /// Queue disciplines as they were read back, by station and place.
    Qdisc,
    /// Keys of the experiment.
    Experiment,
}

impl Group {
    /// The name in files and tables.
    pub const fn name(self) -> &'static str {
        match self {
            Group::Machine => "machine",
            Group::Kernel => "kernel",
            Group::Guest => "guest",
            Group::Programs => "programs",
            Group::Qdisc => "qdisc",
            Group::Experiment => "experiment",
        }
    }
}

/// A fact that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    pub group: Group,
    pub key: String,
    /// What it is in A; null if A does not have it.
    pub a: Option<String>,
    /// The same in B.
    pub b: Option<String>,
}

/// One cell of both runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CellComparison {
    pub id: String,
    /// May its numbers be used, in A? Null if A has no such cell.
    pub a_valid: Option<bool>,
    /// The same in B.
    pub b_valid: Option<bool>,
    /// Why the cell is not available in A, if it is not: the machine could not set up a cell of an
    /// optional case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub a_not_available: Option<String>,
    /// The same in B.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub b_not_available: Option<String>,
    /// As in [`Comparison::identical`], of this cell alone.
    pub identical: Option<bool>,
    /// Trials whose phase and validity let them be compared with each other; only of exact runs.
    pub pairs: u32,
    /// Streams that both have. Empty where the cell is identical.
    pub streams: BTreeMap<String, StreamComparison>,
}

/// One stream of both.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StreamComparison {
    /// Counts of outcomes and flags that differ: A's and B's.
    pub outcomes: BTreeMap<String, [u64; 2]>,
    /// Metrics that both have.
    pub metrics: BTreeMap<String, MetricComparison>,
    /// What the threads of a copy had together, over the wall time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<BandwidthComparison>,
}

/// The bandwidth of a copy over the wall time in both, judged over the trials that count: unlike a
/// time, it is one figure of each.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BandwidthComparison {
    /// The median of A's trials, bytes a second.
    pub a_bytes_s: f64,
    /// The same of B.
    pub b_bytes_s: f64,
    /// B less A, as a share of A's.
    pub difference_share: f64,
    /// Of each trial of A, bytes a second.
    pub a_trials_bytes_s: Vec<f64>,
    /// The same of B.
    pub b_trials_bytes_s: Vec<f64>,
    /// Higher or lower if each trial of B is beyond each of A, and by chance alone that would come
    /// in fewer than one of 20 comparisons.
    pub claim: Claim,
}

/// One metric of both.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MetricComparison {
    /// Why its figures are not compared, if they are not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Figures, in the order of the results.
    pub figures: Vec<FigureComparison>,
    /// By how much each of A's figures may be wrong, and each of B's, ns, because the clocks of two
    /// hosts took the stamps; left out where those of one host did in both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_bounds_ns: Option<[i64; 2]>,
}

/// One figure of both.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FigureComparison {
    /// `p50`, `p99.9`, `mean`, `max`, `min`.
    pub of: String,
    /// Of the cell in A; null if it is not available.
    pub a_ns: Option<i64>,
    /// The same in B.
    pub b_ns: Option<i64>,
    /// B less A; null if either is.
    pub difference_ns: Option<i64>,
    /// What may be concluded about the difference; `not-judged` unless both runs are exact.
    pub claim: Claim,
    /// Trial by trial, of exact runs; null for noisy ones, whose differences are not judged.
    pub phases: Option<PhaseComparison>,
    /// Why A's or B's is null, or why there are no phases though both runs have trials of the same
    /// phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// A figure of single trials with the same phase of the schedule, one after the other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PhaseComparison {
    /// The trials' numbers, in order; each list below has one value for each of them.
    pub trials: Vec<u32>,
    /// The phase of the schedule that each has, the same in both runs.
    pub phases_ns: Vec<i64>,
    /// The figure in A; [`INFINITE`] (in the file null) where a packet never arrived.
    #[serde(with = "or_infinite")]
    pub a_ns: Vec<i64>,
    /// The same in B.
    #[serde(with = "or_infinite")]
    pub b_ns: Vec<i64>,
    /// B less A for each phase; [`INFINITE`] or its negative (in the file null) where one of them
    /// is, and 0 where both are.
    #[serde(with = "or_infinite")]
    pub differences_ns: Vec<i64>,
    /// Phases in which B's is higher.
    pub higher: u32,
    /// Phases in which it is lower.
    pub lower: u32,
    /// Phases in which both are equal.
    pub equal: u32,
    /// The median of the differences; infinite (in the file null) where it falls on a difference
    /// that is.
    #[serde(deserialize_with = "or_infinite::float")]
    pub median_ns: f64,
    /// The least and the greatest value that the true median may have; an infinite one is null in
    /// the file, and both are null below 6 phases.
    #[serde(with = "or_infinite::interval")]
    pub interval_ns: Option<[i64; 2]>,
    /// How sure that is, 0 to 1; at least 0.95.
    pub confidence: Option<f64>,
    /// What may be concluded.
    pub claim: Claim,
}

/// What may be concluded about B compared with A.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Claim {
    /// B's is higher: the interval lies above 0.
    Higher,
    /// B's is lower: the interval lies below 0.
    Lower,
    /// The interval holds 0.
    None,
    /// There are too few phases to say anything.
    TooFew,
    /// A run's numbers must not be used.
    NotValid,
    /// At least one of the runs is noisy: nothing is concluded.
    NotJudged,
}

/// Stands for a figure that is infinite, because a packet that never arrived has its rank: higher
/// than any other.
pub const INFINITE: i64 = i64::MAX;

/// True if it is an infinite figure, or for a difference from one.
pub const fn is_infinite(ns: i64) -> bool {
    ns == INFINITE || ns == -INFINITE
}

/// Infinite figures are null in the file.
mod or_infinite {
    use super::{INFINITE, is_infinite};
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    fn out(ns: i64) -> Option<i64> {
        (!is_infinite(ns)).then_some(ns)
    }

    pub fn serialize<S: Serializer>(list: &[i64], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(list.iter().map(|ns| out(*ns)))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<i64>, D::Error> {
        let list = Vec::<Option<i64>>::deserialize(from)?;
        Ok(list.into_iter().map(|ns| ns.unwrap_or(INFINITE)).collect())
    }

    pub fn float<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
        Ok(Option::<f64>::deserialize(from)?.unwrap_or(f64::INFINITY))
    }

    pub mod interval {
        use super::{Deserialize, Deserializer, INFINITE, Serialize, Serializer, out};

        pub fn serialize<S: Serializer>(ends: &Option<[i64; 2]>, to: S) -> Result<S::Ok, S::Error> {
            ends.map(|ends| ends.map(out)).serialize(to)
        }

        pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<[i64; 2]>, D::Error> {
            let ends = Option::<[Option<i64>; 2]>::deserialize(from)?;
            Ok(ends.map(|[low, high]| [low.unwrap_or(-INFINITE), high.unwrap_or(INFINITE)]))
        }
    }
}
