// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is kept of one trial's rows as they pass by, and of the trials of a cell, by every
//! comparison: what lies at a trial's two ends, next to recorded work and, of a ping-pong, at each
//! place of a batch. The rows between are not examined, so a long trial costs no more than a short
//! one.

use super::edge::{EdgePool, OfTrial};
use super::intervals::{Intervals, value};
use super::residues::ResiduePool;
use super::{Difference, Place, edge, intervals, residues};
use crate::arrival::delta_of;
use std::collections::BTreeMap;
use std::sync::Arc;
use tardy_model::point::{Metric, Point};
use tardy_model::sample::{Batch, MaybeNanos, Outcome};
use tardy_model::trial::{StreamRecord, TrialRecord};

/// A stretch of rows from `from` up to `to`, in columns.
#[derive(Debug)]
struct Stretch {
    from: i64,
    to: i64,
    /// By metric, one value for each number from `from` on; what is missing or never came is
    /// absent.
    columns: Vec<Vec<MaybeNanos>>,
    /// Arrivals: stamp, receive, number.
    arrivals: Vec<(i64, i64, i64)>,
    /// True if a packet came without the stamp that `delta` is of, and what came next has no
    /// `delta` either.
    unstamped: bool,
    /// True if its first row was received, and its last.
    ends: [bool; 2],
}

impl Stretch {
    fn new(from: i64, to: i64, metrics: usize) -> Self {
        let from = from.max(0);
        Stretch {
            from,
            to,
            columns: vec![Vec::new(); metrics],
            arrivals: Vec::new(),
            unstamped: false,
            ends: [false; 2],
        }
    }

    fn push(&mut self, batch: &Batch, metrics: &[Metric], delta_of: Point) {
        let outside = |seq: i64| seq < self.from || seq >= self.to;
        if batch.seq.last().is_none_or(|last| *last < self.from) || batch.seq.first().is_none_or(|f| *f >= self.to) {
            return;
        }
        for row in 0..batch.len() {
            if outside(batch.seq[row]) {
                continue;
            }
            // A request may have come whose reply did not: it is between two others.
            if metrics.contains(&Metric::Delta) && batch.has_arrived(row, delta_of) {
                let stamp = |point| batch.offset(row, point).map(|offset| batch.scheduled_ns[row].wrapping_add(offset));
                match stamp(delta_of) {
                    // As many as numbers, whatever a damaged file holds.
                    Some(ns) if self.arrivals.len() as i64 <= self.to - self.from => {
                        self.arrivals.push((ns, stamp(Point::Receive).unwrap_or(i64::MAX), batch.seq[row]));
                    }
                    _ => self.unstamped = true,
                }
            }
            if batch.outcome[row] != Outcome::Received {
                continue;
            }
            let at = (batch.seq[row] - self.from) as usize;
            self.ends[0] |= at == 0;
            self.ends[1] |= batch.seq[row] == self.to - 1;
            for (column, metric) in self.columns.iter_mut().zip(metrics) {
                if column.len() <= at {
                    column.resize(at + 1, MaybeNanos::NONE);
                }
                column[at] = value(batch, row, *metric);
            }
        }
    }

    /// `delta` in the order of arrival, with the packets' numbers; the first arrival of the
    /// stretch has none.
    fn deltas(&mut self) -> Vec<(i64, MaybeNanos)> {
        if self.unstamped {
            return Vec::new();
        }
        self.arrivals.sort_unstable();
        let pairs = self.arrivals.windows(2);
        pairs.map(|pair| (pair[1].2, MaybeNanos::some(pair[1].0.wrapping_sub(pair[0].0)))).collect()
    }
}

/// A stream of one trial under way.
#[derive(Debug)]
pub struct OwnTraceStream {
    metrics: Vec<Metric>,
    delta_of: Point,
    head: Stretch,
    tail: Stretch,
    /// Of a closed loop.
    body: Option<Stretch>,
    intervals: Option<intervals::Pass>,
    in_flight: u32,
}

/// A stream of one trial.
#[derive(Debug)]
pub struct OfStream {
    /// Its metrics, in one order.
    pub metrics: Vec<Metric>,
    /// First and last packet, by metric.
    pub edges: Vec<[Option<OfTrial>; 2]>,
    /// By metric, the values of packets 0 and on; none but of a closed loop.
    pub body: Vec<Vec<MaybeNanos>>,
    pub intervals: Intervals,
    /// Recorded work by its reason, of all streams of the trial.
    pub reasons: BTreeMap<String, u64>,
    /// Round trips in flight of a closed loop.
    pub in_flight: u32,
}

impl OwnTraceStream {
    /// For one stream of a trial in which threads worked so for tardy.
    pub fn new(works: &Arc<intervals::Works>, of: &StreamRecord, metrics: &[Metric]) -> Self {
        let closed_loop = of.cycle_ns == 0 && of.reply.is_some();
        let (intended, rows) = (i64::from(of.intended), edge::ROWS as i64);
        // Such a receiver sleeps on purpose while packets wait: by when it came to them nothing of
        // tardy is seen.
        let by_design = |metric: &Metric| of.is_triggered() && metric.points().contains(&Point::Receive);
        let metrics: Vec<Metric> = metrics.iter().copied().filter(|metric| !by_design(metric)).collect();
        let metrics = &metrics[..];
        OwnTraceStream {
            metrics: metrics.to_vec(),
            delta_of: delta_of(of),
            head: Stretch::new(0, rows.min(intended), metrics.len()),
            tail: Stretch::new(intended - rows, intended, metrics.len()),
            body: closed_loop.then(|| Stretch::new(0, (residues::ROWS as i64).min(intended), metrics.len())),
            intervals: intervals::Pass::new(works, metrics, closed_loop),
            in_flight: of.reply.as_ref().map_or(1, |reply| reply.in_flight.max(1)),
        }
    }

    /// Adds the next rows, in the order of `seq`.
    pub fn push(&mut self, batch: &Batch) {
        for stretch in [Some(&mut self.head), Some(&mut self.tail), self.body.as_mut()].into_iter().flatten() {
            stretch.push(batch, &self.metrics, self.delta_of);
        }
        if let Some(intervals) = &mut self.intervals {
            intervals.push(batch);
        }
    }

    /// What is kept of it.
    pub fn finish(mut self, record: &TrialRecord) -> OfStream {
        let mut edges = Vec::with_capacity(self.metrics.len());
        let (mut first, mut last) = (self.head.deltas(), self.tail.deltas());
        // Of a packet that was lost nothing can be said, nor does another take its place.
        if !self.head.ends[0] {
            first.clear();
        }
        if !self.tail.ends[1] {
            last.clear();
        }
        for (at, metric) in self.metrics.iter().enumerate() {
            let (mut from_first, mut from_last) = if *metric == Metric::Delta {
                let values = |of: &[(i64, MaybeNanos)]| of.iter().map(|(_, value)| *value).collect::<Vec<_>>();
                (values(&first), values(&last))
            } else {
                let (head, mut tail) =
                    (std::mem::take(&mut self.head.columns[at]), std::mem::take(&mut self.tail.columns[at]));
                tail.resize((self.tail.to - self.tail.from).max(0) as usize, MaybeNanos::NONE);
                (head, tail)
            };
            from_first.truncate(edge::ROWS);
            from_last.reverse();
            from_last.truncate(edge::ROWS);
            edges.push([OfTrial::new(&from_first), OfTrial::new(&from_last)]);
        }
        let mut body = Vec::new();
        if let Some(mut stretch) = self.body {
            if let Some(at) = self.metrics.iter().position(|metric| *metric == Metric::Delta) {
                for (seq, value) in stretch.deltas() {
                    if let Some(place) = stretch.columns[at].get_mut((seq - stretch.from) as usize) {
                        *place = value;
                    }
                }
            }
            body = stretch.columns;
        }
        let mut reasons = BTreeMap::new();
        for work in record.streams.values().flat_map(|of| &of.own_work) {
            *reasons.entry(format!("{:?}", work.reason).to_lowercase()).or_insert(0) += 1;
        }
        let between: usize = record.streams.values().flat_map(|of| &of.own_between).map(|of| of.spans.len()).sum();
        if between > 0 {
            reasons.insert("between".to_owned(), between as u64);
        }
        OfStream {
            metrics: self.metrics,
            edges,
            body,
            intervals: self.intervals.map(intervals::Pass::finish).unwrap_or_default(),
            reasons,
            in_flight: self.in_flight,
        }
    }
}

/// A cell's metric by every comparison.
#[derive(Clone, Debug)]
struct MetricTrace {
    edges: [EdgePool; 2],
    residues: Vec<ResiduePool>,
}

/// A cell's stream by every comparison.
#[derive(Clone, Debug, Default)]
pub(super) struct StreamTrace {
    metrics: Vec<Metric>,
    by_metric: Vec<MetricTrace>,
    pub(super) intervals: Intervals,
    pub(super) reasons: BTreeMap<String, u64>,
    pub(super) left_out: u64,
    pub(super) in_flight: u32,
}

/// What the trials of a cell are judged by.
#[derive(Clone, Debug, Default)]
pub struct CellTrace {
    pub(super) streams: BTreeMap<String, StreamTrace>,
}

/// One trial whose rows are being added.
#[derive(Debug)]
pub(crate) struct OwnTracePass {
    streams: BTreeMap<String, OwnTraceStream>,
}

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
        // A copying thread does nothing for tardy between its passes but to note the time, and its
        // first pass finds colder caches than the others.
        let streams = record.streams.iter().filter(|(_, of)| of.copy.is_none());
        OwnTracePass { streams: streams.map(pass).collect() }
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
                let pool = |modulus: &(usize, usize)| ResiduePool::new(*modulus, of.in_flight);
                let fresh = || MetricTrace {
                    edges: Default::default(),
                    residues: residues::MODULI.iter().filter_map(pool).collect(),
                };
                all.in_flight = of.in_flight;
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
