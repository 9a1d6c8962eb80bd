// SPDX-License-Identifier: MIT OR Apache-2.0
//! Figures of one stream of both runs: those of the cell side by side, and of exact runs trial by
//! trial.

use super::phases::{self, Drawn, Pair};
use std::collections::BTreeMap;
use tardy_model::comparison::{Claim, FigureComparison, INFINITE, MetricComparison, StreamComparison};
use tardy_model::expect::QUANTILES;
use tardy_model::point::Metric;
use tardy_model::result::{Figures, MetricResult, Outcomes, StreamResult};

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
        (true, true) => Some("neither run has it".to_owned()),
        (true, false) => Some("A has it not".to_owned()),
        (false, true) => Some("B has it not".to_owned()),
        // Points of one name that others stamp are other points.
        _ if a.source != b.source => Some(format!("stamped by {} in A and by {} in B", a.source, b.source)),
        _ => moved,
    };
    if why.is_some() {
        return MetricComparison { why, figures: Vec::new() };
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
            phases::judge(&pairs.iter().filter_map(both).collect::<Vec<_>>(), judged)
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
    // Also those that neither has: a row that is not there tells nobody why.
    MetricComparison { why: None, figures: of_a.into_iter().zip(of_b).map(row).collect() }
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
