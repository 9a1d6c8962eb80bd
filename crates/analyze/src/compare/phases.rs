// SPDX-License-Identifier: MIT OR Apache-2.0
//! The figures of one stream of both runs: those of the cell side by side, and of exact runs trial
//! by trial. There each trial has a seeded phase of its schedule, the same in both
//! runs; its figure is one deterministic draw. What may be said of B against A rests on the signs
//! of many such differences, for nothing is known of how they are distributed.

use super::bandwidth;
use std::collections::BTreeMap;
use tardy_model::comparison::{Claim, FigureComparison, INFINITE, MetricComparison, PhaseComparison, StreamComparison};
use tardy_model::expect::QUANTILES;
use tardy_model::point::Metric;
use tardy_model::result::{CellResult, Figures, MetricResult, Outcomes, StreamResult, TrialResult};
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
    pub phase_ns: i64,
    /// The trial of A, then the one of B.
    pub trials: [&'a TrialResult; 2],
}

/// A figure of both trials of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drawn {
    pub trial: u32,
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
    let float =
        |ns: i64| if tardy_model::comparison::is_infinite(ns) { f64::INFINITY.copysign(ns as f64) } else { ns as f64 };
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

// The figures side by side.

/// Why a percentile is missing: too few packets lie beyond it.
pub(super) const UNRESOLVED: &str = "not resolved";

/// Compares the stream. `pairs` are trials of the same phase, where both runs are exact; `judged`
/// is false where a run's numbers must not be used.
pub(super) fn stream(
    name: &str,
    [a, b]: [&StreamResult; 2],
    pairs: Option<&[Pair<'_>]>,
    judged: bool,
) -> StreamComparison {
    let of = [counts(&a.outcomes), counts(&b.outcomes)];
    let outcomes = of[0].iter().zip(of[1]).filter(|((_, a), (_, b))| a != b);
    let moved = moved_point(a, b);
    let metric = |(metric, of_a): (&String, &MetricResult)| {
        let of_b = b.metrics.get(metric)?;
        // What is not known here is not taken for safe.
        let touched = metric.parse::<Metric>().map_or(true, Metric::has_rx_kernel);
        let moved = moved.clone().filter(|_| touched);
        Some((metric.clone(), self::metric(name, metric, [of_a, of_b], moved, pairs, judged)))
    };
    StreamComparison {
        outcomes: outcomes.map(|((name, a), (_, b))| ((*name).to_owned(), [*a, b])).collect(),
        metrics: a.metrics.iter().filter_map(metric).collect::<BTreeMap<_, _>>(),
        bandwidth: bandwidth::compared([a, b], judged),
    }
}

/// Why nothing that is made of `rx_kernel` may be compared: a launch time moved it in one of the
/// runs alone.
fn moved_point(a: &StreamResult, b: &StreamResult) -> Option<String> {
    let [of_a, of_b] = [a, b].map(|stream| stream.rx_kernel_point().replace('-', " "));
    (of_a != of_b).then(|| format!("not compared: rx_kernel is taken at {of_a} in A and at {of_b} in B"))
}

fn counts(of: &Outcomes) -> [(&'static str, u64); 8] {
    [
        ("intended", of.intended),
        ("received", of.received),
        ("lost", of.lost),
        ("not_sent", of.not_sent),
        ("early", of.early),
        ("late", of.late),
        ("duplicate", of.duplicate),
        ("reordered", of.reordered),
    ]
}

fn metric(
    stream: &str,
    name: &str,
    [a, b]: [&MetricResult; 2],
    moved: Option<String>,
    pairs: Option<&[Pair<'_>]>,
    judged: bool,
) -> MetricComparison {
    let lacks = |metric: &MetricResult| metric.count == 0;
    let why = match (lacks(a), lacks(b)) {
        _ if a.refused_by.is_some() || b.refused_by.is_some() => Some(refused([a, b])),
        (true, true) => Some("neither run has it".to_owned()),
        (true, false) => Some("A has it not".to_owned()),
        (false, true) => Some("B has it not".to_owned()),
        // Points of one name that others stamp are other points.
        _ if a.source != b.source => Some(format!("stamped by {} in A and by {} in B", a.source, b.source)),
        _ => moved,
    };
    if why.is_some() {
        return MetricComparison { why, ..MetricComparison::default() };
    }
    let (of_a, of_b) = (figures(&a.figures), figures(&b.figures));
    let row = |((of, a_ns), (_, b_ns)): (Named, Named)| {
        let phases = pairs.and_then(|pairs| {
            let both = |pair: &Pair<'_>| {
                // A mean is of the received packets: it must not be compared with one of more
                // packets, or of fewer.
                let missing = pair.trials.map(|trial| trial.streams.get(stream).map(|of| missing(&of.outcomes)));
                if of == "mean" && missing[0] != missing[1] {
                    return None;
                }
                let [a, b] = pair.trials.map(|trial| drawn(trial.streams.get(stream)?.metrics.get(name)?, of));
                Some(Drawn { trial: pair.trials[0].n, phase_ns: pair.phase_ns, figures_ns: [a?, b?] })
            };
            judge(&pairs.iter().filter_map(both).collect::<Vec<_>>(), judged)
        });
        // If exact runs have no two trials to compare, no more is known than if they have too few.
        let claim = match (&phases, pairs) {
            (Some(phases), _) => phases.claim,
            (None, Some(_)) if judged => Claim::TooFew,
            (None, Some(_)) => Claim::NotValid,
            (None, None) => Claim::NotJudged,
        };
        let difference_ns = a_ns.zip(b_ns).map(|(a, b)| b - a);
        let lacks = [(a, a_ns), (b, b_ns)].map(|(metric, ns)| ns.is_none().then(|| absent(metric, of)));
        let paired = pairs.is_some_and(|pairs| !pairs.is_empty());
        let why =
            without(lacks).or_else(|| (paired && phases.is_none()).then(|| format!("{UNRESOLVED} in single trials")));
        FigureComparison { of: of.to_owned(), a_ns, b_ns, difference_ns, claim, phases, why }
    };
    // Also those that neither has: a row that is not there shows nobody why.
    let bounds = [a, b].map(|metric| metric.clock_bound_ns.unwrap_or(0));
    let clock_bounds_ns = (bounds != [0, 0]).then_some(bounds);
    MetricComparison { why: None, figures: of_a.into_iter().zip(of_b).map(row).collect(), clock_bounds_ns }
}

/// Which rule refuses the figures of A, of B, or of both.
fn refused([a, b]: [&MetricResult; 2]) -> String {
    match [a, b].map(|metric| metric.refused_by.as_deref()) {
        [Some(a), Some(b)] if a == b => format!("refused in A and B ({a})"),
        [Some(a), _] => format!("refused in A ({a})"),
        [None, b] => format!("refused in B ({})", b.unwrap_or_default()),
    }
}

/// Packets that never arrived.
fn missing(outcomes: &Outcomes) -> u64 {
    outcomes.lost + outcomes.not_sent
}

/// A figure of a single trial: [`INFINITE`] where a packet that never arrived has its rank.
pub(super) fn drawn(metric: &MetricResult, of: &str) -> Option<i64> {
    match figures(&metric.figures).into_iter().find(|(name, _)| *name == of)?.1 {
        None if is_infinite(metric, of) => Some(INFINITE),
        found => found,
    }
}

fn is_infinite(metric: &MetricResult, of: &str) -> bool {
    named(&metric.infinite, of)
}

/// True if the list has the figure, by its name or its stem.
fn named(names: &[String], of: &str) -> bool {
    let stem = QUANTILES.iter().find(|(_, name, _)| *name == of).map(|(stem, ..)| *stem);
    names.iter().any(|name| name == of || Some(name.as_str()) == stem)
}

/// Why a metric has no such figure.
fn absent(metric: &MetricResult, of: &str) -> &'static str {
    match () {
        () if is_infinite(metric, of) => "falls on a lost packet",
        () if named(&metric.unresolved, of) => UNRESOLVED,
        () => "not available",
    }
}

/// Why A's or B's figure is missing, in words.
fn without(lacks: [Option<&str>; 2]) -> Option<String> {
    Some(match lacks {
        [None, None] => return None,
        [Some(of_a), None] => format!("{of_a} in A"),
        [None, Some(of_b)] => format!("{of_b} in B"),
        [Some(of_a), Some(of_b)] if of_a == of_b => format!("{of_a} in A and B"),
        [Some(of_a), Some(of_b)] => format!("{of_a} in A, {of_b} in B"),
    })
}

/// A figure and its name.
type Named = (&'static str, Option<i64>);

/// Every figure, a mean to the nearest ns.
fn figures(of: &Figures) -> Vec<Named> {
    let quantiles = QUANTILES.iter().zip(of.quantiles.as_array()).map(|((_, name, _), value)| (*name, value));
    let mean = of.mean_ns.filter(|mean| mean.is_finite()).map(|mean| mean.round() as i64);
    quantiles.chain([("max", of.max_ns), ("min", of.min_ns), ("mean", mean)]).collect()
}
