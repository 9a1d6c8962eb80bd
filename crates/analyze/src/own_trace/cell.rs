// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is kept of the trials of a cell, by every comparison.

use super::edge::EdgePool;
use super::intervals::{self, Intervals};
use super::pass::{OfStream, OwnTraceStream};
use super::residues::{self, ResiduePool};
use super::{Difference, Place};
use std::collections::BTreeMap;
use std::sync::Arc;
use tardy_model::point::Metric;
use tardy_model::sample::Batch;
use tardy_model::trial::{StreamRecord, TrialRecord};

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
                    residues: residues::MODULI.iter().map(|modulus| ResiduePool::new(*modulus)).collect(),
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
