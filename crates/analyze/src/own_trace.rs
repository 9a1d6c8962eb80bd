// SPDX-License-Identifier: MIT OR Apache-2.0
//! Does tardy show in its own figures? The path does not know which packet of a trial is the first or the last, nor how many stamps
//! tardy takes at a time, nor when: where figures depend on that, it is tardy that they show.
//!
//! Three comparisons, each with a test that holds for values that are skewed and hang together: [`edge`], [`intervals`],
//! [`residues`]. Formulas, limits and their sources stand in `docs/method/own-trace.md`.

pub mod chance;
mod edge;
mod intervals;
mod pass;
mod residues;
mod told;

use intervals::Intervals;
use pass::{OfStream, OwnTraceStream};
use std::collections::BTreeMap;
use std::sync::Arc;
use tardy_model::machine::RulerRecord;
use tardy_model::point::Metric;
use tardy_model::result::{CellResult, MetricResult};
use tardy_model::sample::Batch;
use tardy_model::trial::{StreamRecord, TrialRecord};
use tardy_model::verdict::Verdict;

/// The verdict's id.
pub const ID: &str = "own-trace";
/// The chance that a run without any trace of tardy is told to have one.
pub const MOST_P: f64 = 0.001;
/// A difference up to this share of the metric's median is no trace.
pub const LEAST_SHARE: f64 = 0.05;
/// Of each n-th round trip a difference up to n times this is no trace of tardy. The kernel fills and empties its caches of packet heads
/// by sixteen and by sixty-four, and the round trip at which it does so takes longer, whoever makes it: in a C loop each 16th takes up
/// to 0.9 µs longer (`bench caches`). To fetch the stamps of n packets takes more: each is a message to be received, which takes
/// 200 ns or more on the fastest machine that was measured.
pub const CACHES_NS: i64 = 150;
/// Comparisons of which values are kept, for a cell's metric.
const KEPT: usize = 4096;

/// What a test found, whether it is a trace or not.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Difference {
    /// The chance of so much if these packets are like all others, of this test alone.
    pub p_value: f64,
    /// How much longer the affected packets take, the median over all comparisons, ns.
    pub difference_ns: i64,
    /// Their median, ns.
    pub affected_ns: i64,
    /// The median of those they are compared with, ns.
    pub others_ns: i64,
    /// Affected packets.
    pub packets: u64,
    /// Independent comparisons that the test rests on.
    pub comparisons: u64,
    /// The least value of an affected packet, where single ones are looked at.
    pub least_ns: i64,
    /// The greatest.
    pub greatest_ns: i64,
    /// Modulus and remainder.
    pub class: Option<(u64, u64)>,
    /// A modulus of which one remainder alone makes this difference: that is the batch that it comes from.
    pub from_each: Option<u64>,
}

/// Which packets are compared with the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// The first packet of each trial.
    First,
    /// The last packet of each trial.
    Last,
    /// Those under way while a measuring thread worked for tardy.
    Interval,
    /// The same, where that work had a cause outside tardy.
    Forced,
    /// Each n-th round trip.
    Residue,
}

/// A cell's metric by every comparison.
#[derive(Clone, Debug)]
struct MetricTrace {
    edges: [edge::EdgePool; 2],
    residues: Vec<residues::ResiduePool>,
}

/// A cell's stream by every comparison.
#[derive(Clone, Debug, Default)]
struct StreamTrace {
    metrics: Vec<Metric>,
    by_metric: Vec<MetricTrace>,
    intervals: Intervals,
    reasons: BTreeMap<String, u64>,
    left_out: u64,
}

/// What the trials of a cell are judged by.
#[derive(Clone, Debug, Default)]
pub struct CellTrace {
    streams: BTreeMap<String, StreamTrace>,
}

/// One trial whose rows are being added.
#[derive(Debug)]
pub(crate) struct OwnTracePass {
    streams: BTreeMap<String, OwnTraceStream>,
}

/// One trial.
#[derive(Debug)]
pub(crate) struct TrialTrace {
    streams: BTreeMap<String, OfStream>,
}

impl OwnTracePass {
    /// For a trial; `metrics` are those that its results have, by stream.
    pub(crate) fn new<'a>(record: &TrialRecord, metrics: impl Fn(&str) -> &'a [Metric]) -> Self {
        let works = Arc::new(intervals::Works::new(record));
        let pass =
            |(stream, of): (&String, &StreamRecord)| (stream.clone(), OwnTraceStream::new(&works, of, metrics(stream)));
        OwnTracePass { streams: record.streams.iter().map(pass).collect() }
    }

    /// Adds the next rows of a stream.
    pub(crate) fn push(&mut self, stream: &str, batch: &Batch) {
        if let Some(pass) = self.streams.get_mut(stream) {
            pass.push(batch);
        }
    }

    /// What is kept of the trial.
    pub(crate) fn finish(self, record: &TrialRecord) -> TrialTrace {
        TrialTrace { streams: self.streams.into_iter().map(|(name, pass)| (name, pass.finish(record))).collect() }
    }
}

impl CellTrace {
    /// Every test that could be made, by stream and metric.
    pub fn tests(&self) -> impl Iterator<Item = (&str, Metric, Place, Difference)> {
        self.streams.iter().flat_map(|(stream, of)| {
            let by_metric = of.metrics.iter().enumerate();
            let tests = by_metric.flat_map(|(at, metric)| of.tests(at).into_iter().map(|found| (*metric, found)));
            tests.map(|(metric, (place, found))| (stream.as_str(), metric, place, found))
        })
    }

    /// Adds a trial that the cell's figures are of.
    pub(crate) fn add(&mut self, record: &TrialRecord, trial: TrialTrace) {
        for (name, of) in trial.streams {
            let all = self.streams.entry(name.clone()).or_default();
            if all.metrics.is_empty() {
                let fresh = || MetricTrace {
                    edges: Default::default(),
                    residues: residues::MODULI.iter().map(|modulus| residues::ResiduePool::new(*modulus)).collect(),
                };
                all.by_metric = of.metrics.iter().map(|_| fresh()).collect();
                all.metrics = of.metrics;
            }
            for (metric, edges) in all.by_metric.iter_mut().zip(&of.edges) {
                for (pool, edge) in metric.edges.iter_mut().zip(edges) {
                    edge.iter().for_each(|edge| pool.add(edge));
                }
            }
            for (metric, values) in all.by_metric.iter_mut().zip(&of.body) {
                metric.residues.iter_mut().for_each(|pool| pool.add(values));
            }
            all.intervals.add(&of.intervals);
            for (reason, count) in of.reasons {
                *all.reasons.entry(reason).or_insert(0) += count;
            }
            all.left_out += record.streams.get(&name).map_or(0, |of| of.own_work_left_out);
        }
    }
}

impl StreamTrace {
    /// Every test of a metric that could be made.
    fn tests(&self, at: usize) -> Vec<(Place, Difference)> {
        let Some(metric) = self.by_metric.get(at) else { return Vec::new() };
        let [first, last] = &metric.edges;
        let edges = [(Place::First, first.test()), (Place::Last, last.test())];
        let [own, forced] = self.intervals.affected;
        let beside = |of: usize, packets: u64| self.intervals.metrics.get(at).and_then(|pools| pools[of].test(packets));
        let intervals = [(Place::Interval, beside(0, own)), (Place::Forced, beside(1, forced))];
        let finer = metric.residues.iter().skip(1).map(Some).chain([None]);
        let residues = metric.residues.iter().zip(finer).map(|(pool, finer)| (Place::Residue, pool.test(finer)));
        edges.into_iter().chain(intervals).chain(residues).filter_map(|(place, found)| Some((place, found?))).collect()
    }
}

/// A trace of tardy in one metric of one cell.
#[derive(Debug)]
struct Trace<'a> {
    cell: &'a str,
    stream: &'a str,
    metric: Metric,
    place: Place,
    found: Difference,
    /// The chance for the whole run: of any of its tests to show as much.
    p_value: f64,
    /// Printed figures that it moves.
    spoils: Vec<&'static str>,
    of: &'a StreamTrace,
}

/// The finest difference that the ruler can tell, of one stamp, ns: what reading the clock takes on the slowest CPU in use, and no
/// less than a clock's step of 1 ns.
pub fn stamp_ns(ruler: &[RulerRecord]) -> i64 {
    ruler.iter().map(|record| record.stamp_ns).max().unwrap_or(0).max(1)
}

/// Judges a run by its cells. `stamp_ns` is the cost of a stamp: see [`stamp_ns`].
pub fn judge<'a>(cells: impl IntoIterator<Item = (&'a CellResult, &'a CellTrace)>, stamp_ns: i64) -> Vec<Verdict> {
    let mut made = Vec::new();
    for (cell, trace) in cells {
        for (stream, metric, place, found) in trace.tests() {
            let result = cell.streams.get(stream).and_then(|stream| stream.metrics.get(&metric.to_string()));
            // Where no figure is given there is nothing to spoil.
            if let Some((result, of)) = result.filter(|result| result.count > 0).zip(trace.streams.get(stream)) {
                made.push((cell, stream, of, metric, result, place, found));
            }
        }
    }
    let tests = made.len() as u64;
    let mut traces: Vec<Trace<'_>> = Vec::new();
    for (cell, stream, of, metric, result, place, found) in made {
        // Bonferroni 1936: of so many tests one may be wrong.
        let p_value = (found.p_value * tests as f64).min(1.0);
        let middle = result.figures.quantiles.p50_ns.unwrap_or(found.others_ns).unsigned_abs() as f64;
        let stamps = metric.points().len().max(2) as i64;
        let least = (stamps * stamp_ns) as f64;
        let batch = found.from_each.or(found.class.map(|(n, _)| n)).unwrap_or(0);
        let by_kernel = batch as i64 * CACHES_NS;
        let difference = found.difference_ns.unsigned_abs() as f64;
        if p_value >= MOST_P || difference <= least.max(by_kernel as f64).max(middle * LEAST_SHARE) {
            continue;
        }
        let spoils = spoils(&found, place, result, least);
        let trace = Trace { cell: &cell.id, stream, metric, place, found, p_value, spoils, of };
        // What differs by eight differs by 16 and 64 too: the smallest modulus tells it, unless a greater one tells more.
        let known = traces.iter_mut().find(|known| {
            place == Place::Residue
                && (known.cell, known.stream, known.metric, known.place) == (&cell.id, stream, metric, place)
        });
        match known {
            None => traces.push(trace),
            Some(known) if difference > 1.25 * known.found.difference_ns.unsigned_abs() as f64 => *known = trace,
            Some(_) => {}
        }
    }
    told::verdicts(traces, tests, stamp_ns)
}

/// The printed figures that so many packets, so much longer, move.
fn spoils(found: &Difference, place: Place, result: &MetricResult, least_ns: f64) -> Vec<&'static str> {
    let figures = &result.figures;
    let share = (found.packets as f64 / result.count.max(1) as f64).min(1.0);
    let share = found.class.map_or(share, |(modulus, _)| 1.0 / modulus as f64);
    let longer = found.difference_ns > 0;
    let matters = |moved: f64, of: f64| moved.abs() > least_ns.max(of.abs() * LEAST_SHARE);
    let q = &figures.quantiles;
    let mut spoils = Vec::new();
    let printed = [
        ("p50", 0.5, q.p50_ns),
        ("p90", 0.9, q.p90_ns),
        ("p99", 0.99, q.p99_ns),
        ("p99.9", 0.999, q.p99_9_ns),
        ("p99.99", 0.9999, q.p99_99_ns),
    ];
    for (name, quantile, value) in printed {
        // What lies beyond it can be affected packets alone.
        let reached = if longer { 1.0 - quantile < share } else { quantile < share };
        if value.is_some() && reached {
            spoils.push(name);
        }
    }
    let shift = share * found.difference_ns as f64;
    if figures.mean_ns.is_some_and(|mean| matters(shift, mean)) {
        spoils.push("mean");
    }
    if let Some(stddev) = figures.stddev_ns {
        let apart = found.difference_ns as f64;
        let without = (stddev * stddev - share * (1.0 - share) * apart * apart).max(0.0).sqrt();
        if matters(stddev - without, stddev) {
            spoils.push("stddev");
        }
    }
    // Of a class, which may be an eighth of all packets, the extreme ones need not be tardy's doing.
    if place != Place::Residue {
        if longer && result.greatest_received_ns().is_some_and(|max| found.greatest_ns >= max) {
            spoils.push("max");
        }
        if !longer && figures.min_ns.is_some_and(|min| found.least_ns <= min) {
            spoils.push("min");
        }
    }
    spoils
}
