// SPDX-License-Identifier: MIT OR Apache-2.0
//! Exact runs, trial by trial. Each trial has a seeded phase of its schedule, the same in both
//! runs; its figure is one deterministic draw. What may be said of B against A rests on the signs
//! of many such differences, for nothing is known of how they are distributed.

use std::collections::BTreeMap;
use tardy_model::comparison::{Claim, INFINITE, PhaseComparison, is_infinite};
use tardy_model::result::{CellResult, TrialResult};
use tardy_model::trial::TrialRecord;

/// Fewer phases than this give no claim.
pub const LEAST: usize = 20;
/// How sure an interval has to be.
const SURE: f64 = 0.95;

/// Phases of streams, ns, by cell, trial and stream.
#[derive(Clone, Debug, Default)]
pub struct Phases(BTreeMap<(String, u32, String), i64>);

impl Phases {
    /// Adds those of a trial's streams.
    pub fn add(&mut self, trial: &TrialRecord) {
        for (stream, record) in &trial.streams {
            // Older runs noted the first stream's alone.
            self.note(&trial.cell, trial.n, stream, record.phase_ns.unwrap_or(trial.phase_ns));
        }
    }

    /// Adds that of one stream.
    pub fn note(&mut self, cell: &str, trial: u32, stream: &str, phase_ns: i64) {
        self.0.insert((cell.to_owned(), trial, stream.to_owned()), phase_ns);
    }

    fn of(&self, cell: &str, n: u32, stream: &str) -> Option<i64> {
        self.0.get(&(cell.to_owned(), n, stream.to_owned())).copied()
    }
}

/// A trial of A and the one of B that has its number, in which the stream has the same phase.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pair<'a> {
    /// The phase, ns.
    pub phase_ns: i64,
    /// A's and B's.
    pub trials: [&'a TrialResult; 2],
}

/// A figure of both trials of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drawn {
    pub trial: u32,
    /// Their phase, ns.
    pub phase_ns: i64,
    /// A's and B's, ns; [`INFINITE`] where a packet that never arrived has the figure's rank.
    pub figures_ns: [i64; 2],
}

/// Trials of one cell that can be compared: valid ones in which the stream has the same phase.
pub(super) fn pairs<'a>(stream: &str, [(a, in_a), (b, in_b)]: [(&Phases, &'a CellResult); 2]) -> Vec<Pair<'a>> {
    let phase = |phases: &Phases, n: u32| phases.of(&in_a.id, n, stream);
    let other = |trial: &'a TrialResult| {
        let beside = in_b.trials.iter().find(|other| other.n == trial.n)?;
        let phase_ns = phase(a, trial.n).filter(|of_a| phase(b, trial.n) == Some(*of_a))?;
        (trial.valid && beside.valid).then_some(Pair { phase_ns, trials: [trial, beside] })
    };
    in_a.trials.iter().filter_map(other).collect()
}

/// What the differences say; `None` if there are none.
pub fn judge(drawn: &[Drawn], valid: bool) -> Option<PhaseComparison> {
    let differences_ns: Vec<i64> = drawn.iter().map(|Drawn { figures_ns: [a, b], .. }| difference(*a, *b)).collect();
    let mut sorted = differences_ns.clone();
    sorted.sort_unstable();
    let n = sorted.len();
    let float = |ns: i64| if is_infinite(ns) { f64::INFINITY.copysign(ns as f64) } else { ns as f64 };
    let [low, high] = [*sorted.get((n.checked_sub(1)?) / 2)?, *sorted.get(n / 2)?];
    // Between the two infinities lies nothing in particular.
    let median_ns = if low == -INFINITE && high == INFINITE { 0.0 } else { (float(low) + float(high)) / 2.0 };
    let (rank, confidence) = rank(n).map_or((None, None), |(rank, sure)| (Some(rank), Some(sure)));
    let interval_ns = rank.map(|rank| [sorted[rank - 1], sorted[n - rank]]);
    let claim = match interval_ns {
        _ if !valid => Claim::NotValid,
        _ if n < LEAST => Claim::TooFew,
        Some([low, _]) if low > 0 => Claim::Higher,
        Some([_, high]) if high < 0 => Claim::Lower,
        _ => Claim::None,
    };
    let count = |holds: fn(&i64) -> bool| differences_ns.iter().filter(|difference| holds(difference)).count() as u32;
    Some(PhaseComparison {
        higher: count(|d| *d > 0),
        lower: count(|d| *d < 0),
        equal: count(|d| *d == 0),
        trials: drawn.iter().map(|of| of.trial).collect(),
        phases_ns: drawn.iter().map(|of| of.phase_ns).collect(),
        a_ns: drawn.iter().map(|of| of.figures_ns[0]).collect(),
        b_ns: drawn.iter().map(|of| of.figures_ns[1]).collect(),
        differences_ns,
        median_ns,
        interval_ns,
        confidence,
        claim,
    })
}

/// B less A, where a packet that never arrived is later than any other.
fn difference(a: i64, b: i64) -> i64 {
    match (a, b) {
        (INFINITE, INFINITE) => 0,
        (_, INFINITE) => INFINITE,
        (INFINITE, _) => -INFINITE,
        (a, b) => b.saturating_sub(a),
    }
}

/// The greatest rank k for which the kth least and the kth greatest of `n` values enclose the
/// median of what they are drawn from with [`SURE`] probability or more, and that probability, 1 −
/// 2·P(B ≤ k − 1) with B binomial of n and ½ (W. J. Conover, Practical Nonparametric Statistics,
/// section 3.2). `None` if there is no such rank.
pub fn rank(n: usize) -> Option<(usize, f64)> {
    // The logarithm of P(B = i), from the one before it: the first of them is too small for a
    // number of many values.
    let mut chance = n as f64 * 0.5f64.ln();
    let (mut below, mut found) = (0.0, None);
    for k in 1..=n / 2 {
        below += chance.exp();
        let sure = 1.0 - 2.0 * below;
        if sure < SURE {
            break;
        }
        found = Some((k, sure));
        chance += ((n - k + 1) as f64 / k as f64).ln();
    }
    found
}
