// SPDX-License-Identifier: MIT OR Apache-2.0
//! A cell from its trials, for a live run as well as for a run folder.
//!
//! Each trial is judged alone. What spoilt a trial decides what becomes of it
//! ([`crate::validity::Spoils`]): one that was measured badly is left out where a strict majority
//! is sound, with a warning that names it; one in which the path failed stays in the pool, and its
//! cell is invalid, for losing the worst must not improve a figure. So the cell is valid if no
//! trial's path failed and every trial, or a strict majority, was measured well. What is certain
//! of the packets is kept of every finished trial, in the pool or not ([`Certain`]).

mod gates;
mod pool;

pub(crate) use pool::most_were_measured_well;
pub use pool::{counted, pooled};

use crate::arrival::delta_of;
use crate::clusters::INFINITE;
use crate::copying::{self, CopyPass};
use crate::distribution::{HintPass, StreamDigest, StreamPass, Wanted};
use crate::expectations::{self, Clocks, Crossing};
use crate::gates::GatePass;
use crate::loads::{self, Loads};
use crate::outcomes::Certain;
use crate::own_trace::{self, CellTrace};
use crate::placement::Placements;
use crate::repeats::{self, TrialBlocks};
use crate::validity::shared_cpu::waited_share;
use crate::validity::stamps::{self, CLOCK_BOUND};
use crate::validity::{is_valid, judge_trial, path_failed, was_measured_well};
use gates::Classes;
use pool::{Finished, Pool, counts, stream_result};
use std::borrow::Borrow;
use std::collections::BTreeMap;
use tardy_model::expect::{Count, Expectation, Limit};
use tardy_model::histogram::Histogram;
use tardy_model::point::{Metric, Point};
use tardy_model::result::{CellResult, ExpectationResult, MetricResult, Quantiles, TrialResult};
use tardy_model::sample::Batch;
use tardy_model::stream::UNDER_TEST;
use tardy_model::time::Nanos;
use tardy_model::trial::{StreamRecord, TrialRecord};
use tardy_model::validity::Validity;
use tardy_model::verdict::{Level, Verdict};

/// The rule that leaves a trial without figures.
const NO_GATES: &str = "no-gates";

/// A cell whose trials are being added.
#[derive(Debug)]
pub struct CellAnalysis {
    id: String,
    axes: BTreeMap<String, String>,
    /// The stream that the experiment names first, if it is known.
    first: Option<String>,
    /// What the experiment set of the rules.
    validity: Validity,
    /// By stream: asked for or expected.
    metrics: BTreeMap<String, Vec<Metric>>,
    /// By stream: metrics that get figures and that the experiment does not ask for.
    added: BTreeMap<String, Vec<Metric>>,
    /// By stream: after which time a packet is late, if it is known.
    deadlines: BTreeMap<String, Nanos>,
    /// What decides whether its packets were early or late, where that is between two hosts.
    crossing: BTreeMap<String, Crossing>,
    /// By stream: the metric that leads, where the experiment says which.
    leads: BTreeMap<String, Metric>,
    expectations: Vec<Expectation>,
    trials: Vec<TrialResult>,
    /// By stream: what became of the packets of every finished trial.
    certain: BTreeMap<String, Certain>,
    pool: Pool,
    /// True once the pool holds a trial that counts; it then takes no others.
    pool_counts: bool,
    /// Those of the pool that were measured well, once it holds one that was not: limits that they
    /// break stay broken.
    well_measured: Option<Pool>,
    placements: Placements,
    loads: Loads,
    classes: Classes,
    /// It ran in exact time, in which tardy alone can run next to the measurement.
    exact: bool,
    /// Why no figure may be given.
    without_figures: Option<String>,
    lead: Option<(String, Metric)>,
    blocks: Vec<TrialBlocks>,
    own_trace: CellTrace,
}

/// One trial whose rows are being added.
#[derive(Debug)]
pub struct TrialPass<'a> {
    record: &'a TrialRecord,
    streams: BTreeMap<String, StreamPass>,
    /// Of streams whose rows are the passes of a copy.
    copies: BTreeMap<String, CopyPass>,
    own_trace: own_trace::OwnTracePass,
}

#[derive(Clone, Debug)]
pub struct TrialAnswer {
    pub result: TrialResult,
    /// By stream and metric: what was received, for the trial's histogram file.
    pub histograms: BTreeMap<(String, Metric), Histogram>,
}

#[derive(Clone, Debug)]
pub struct CellAnswer {
    pub result: CellResult,
    /// Each of the cell's expectations, as the figures and the counts say, whether the cell is
    /// valid or not.
    pub expectations: Vec<ExpectationResult>,
    /// By stream and metric, pooled as the figures are.
    pub histograms: BTreeMap<(String, Metric), Histogram>,
    /// What the whole run is searched by for traces of tardy itself.
    pub own_trace: CellTrace,
}

impl TrialPass<'_> {
    /// Adds the next rows of a stream; each stream's batches come in the order of `seq`. Rows of a
    /// stream that the record does not name are ignored.
    pub fn push(&mut self, stream: &str, batch: &Batch) {
        match (self.copies.get_mut(stream), self.streams.get_mut(stream)) {
            // They come to the stream once they can be in the order of time.
            (Some(copy), _) => copy.push(batch),
            (None, Some(pass)) => pass.push(batch),
            (None, None) => {}
        }
        self.own_trace.push(stream, batch);
    }
}

impl CellAnalysis {
    /// A cell without trials. `asked` are the metrics that each stream asks for; those that only
    /// an expectation names are added.
    pub fn new(
        id: impl Into<String>,
        axes: BTreeMap<String, String>,
        asked: BTreeMap<String, Vec<Metric>>,
        expectations: Vec<Expectation>,
    ) -> Self {
        let mut metrics = asked;
        for expectation in &expectations {
            if let Limit::Metric { metric, .. } = expectation.limit {
                let asked = metrics.entry(expectation.stream.clone()).or_default();
                if !asked.contains(&metric) {
                    asked.push(metric);
                }
            }
        }
        CellAnalysis {
            id: id.into(),
            axes,
            first: None,
            validity: Validity::default(),
            metrics,
            added: BTreeMap::new(),
            deadlines: BTreeMap::new(),
            crossing: BTreeMap::new(),
            leads: BTreeMap::new(),
            expectations,
            trials: Vec::new(),
            certain: BTreeMap::new(),
            pool: Pool::default(),
            pool_counts: false,
            well_measured: None,
            placements: Placements::default(),
            loads: Loads::default(),
            classes: Classes::default(),
            exact: false,
            without_figures: None,
            lead: None,
            blocks: Vec::new(),
            own_trace: CellTrace::default(),
        }
    }

    /// Tells which stream the experiment names first: it is the one under test, unless one is
    /// called `ctl`.
    pub fn first(mut self, stream: Option<&str>) -> Self {
        self.first = stream.map(str::to_owned);
        self
    }

    /// Adds metrics that the experiment does not ask for. They get figures, and change neither the
    /// metric that leads nor the tests for traces of tardy.
    pub fn adding(mut self, more: BTreeMap<String, Vec<Metric>>) -> Self {
        for (stream, mut metrics) in more {
            let asked = self.metrics.get(&stream).map_or(&[][..], Vec::as_slice);
            metrics.retain(|metric| !asked.contains(metric));
            self.added.insert(stream, metrics);
        }
        self
    }

    /// Sets the metric that leads of each stream, for the streams whose metric the experiment
    /// names.
    pub fn leads(mut self, leads: BTreeMap<String, Metric>) -> Self {
        self.leads = leads;
        self
    }

    /// Tells after which time a packet of each stream is late.
    pub fn deadlines(mut self, deadlines: BTreeMap<String, Nanos>) -> Self {
        self.deadlines = deadlines;
        self
    }

    /// Tells what the experiment set of the rules of validity.
    pub fn validity(mut self, set: &Validity) -> Self {
        self.validity = set.clone();
        self
    }

    /// Tells that the trials run in exact time. No stranger's process runs there, so nobody else
    /// can have broken a limit.
    pub fn exact(&mut self) {
        self.exact = true;
    }

    /// Begins a trial: push its rows into the pass, then give it to [`CellAnalysis::end`].
    pub fn begin<'a>(&mut self, record: &'a TrialRecord) -> TrialPass<'a> {
        if self.lead.is_none() {
            self.lead = self.find_lead(record);
        }
        let pass = |(stream, of): (&String, &StreamRecord)| {
            let lead = self.lead.as_ref().filter(|(lead, _)| lead == stream).map(|(_, metric)| *metric);
            let wanted = Wanted {
                metrics: self.wanted(stream, of),
                delta_of: Some(delta_of(of)),
                points: of.sources.keys().copied().collect(),
                blocks_of: lead.map(|metric| (metric, u64::from(of.intended))),
                gates: GatePass::new(of),
                hints: HintPass::new(record.n, of),
            };
            (stream.clone(), StreamPass::new(record.n, &wanted))
        };
        let metrics = |stream: &str| self.metrics.get(stream).map_or(&[][..], Vec::as_slice);
        let own_trace = own_trace::OwnTracePass::new(record, metrics);
        let copies =
            record.streams.iter().filter_map(|(stream, of)| Some((stream.clone(), CopyPass::new(of.copy.as_ref()?))));
        TrialPass { record, streams: record.streams.iter().map(pass).collect(), copies: copies.collect(), own_trace }
    }

    /// The metric that a limit on `late` is about: by its figures one sees how late, and which
    /// packet. A closed loop has no schedule.
    fn late_metric(&self, stream: &str, of: &StreamRecord) -> Option<Metric> {
        let is_limit = |expectation: &&Expectation| {
            expectation.stream == stream && matches!(expectation.limit, Limit::Count { count: Count::Late, .. })
        };
        let has_schedule = of.reply.is_none() || of.cycle_ns > 0;
        self.expectations.iter().find(is_limit).filter(|_| has_schedule)?;
        Some(expectations::lateness(of))
    }

    /// The metrics of a stream that get figures.
    fn wanted(&self, stream: &str, of: &StreamRecord) -> Vec<Metric> {
        let all = [&self.metrics, &self.added].into_iter().filter_map(|of| of.get(stream)).flatten().copied();
        let mut all: Vec<Metric> = all.collect();
        all.extend(self.late_metric(stream, of).filter(|metric| !all.contains(metric)));
        all
    }

    /// Ends a trial: judges it and takes it into the cell.
    pub fn end(&mut self, pass: TrialPass<'_>) -> TrialAnswer {
        let TrialPass { record, mut streams, mut copies, own_trace } = pass;
        for (stream, copy) in &copies {
            let Some(pass) = streams.get_mut(stream) else { continue };
            copy.in_time().for_each(|batch| pass.push(&batch));
        }
        let digests: BTreeMap<String, StreamDigest> =
            streams.into_iter().map(|(stream, pass)| (stream, pass.finish())).collect();
        let (mut results, mut histograms) = (BTreeMap::new(), BTreeMap::new());
        for (stream, digest) in &digests {
            let Some(of) = record.streams.get(stream) else { continue };
            let (mut result, found) = stream_result(digest, of, delta_of(of));
            result.lead = self.leads.get(stream).map(Metric::to_string);
            result.copy = copies.remove(stream).zip(of.copy.as_ref()).and_then(|(pass, record)| pass.finish(record));
            results.insert(stream.clone(), result);
            histograms.extend(found.into_iter().map(|(metric, histogram)| ((stream.clone(), metric), histogram)));
        }
        let coverage = digests.iter().map(|(stream, digest)| (stream.clone(), digest.coverage.clone())).collect();
        let verdicts = judge_trial(record, &results, &coverage, &self.validity, self.exact);
        if let Some(why) = verdicts.iter().find(|verdict| verdict.id == NO_GATES) {
            // No figure of what was not measured.
            self.without_figures.get_or_insert_with(|| why.says.clone());
            for result in results.values_mut() {
                result.metrics.values_mut().for_each(|metric| *metric = MetricResult::absent(&why.says));
            }
            histograms.clear();
        }
        for (stream, result) in &mut results {
            let Some((digest, of)) = digests.get(stream).zip(record.streams.get(stream)) else { continue };
            let above = |metric| pool::above_minimum(metric, digest, of);
            for metric in stamps::refuse(stream, result, &self.validity, true, above) {
                histograms.remove(&(stream.clone(), metric));
            }
        }
        let valid = is_valid(&verdicts);
        let loads = loads::of_trial(&record.loads);
        let result = TrialResult { n: record.n, valid, streams: results, loads, verdicts };
        for (stream, of) in &record.streams {
            let Some(digest) = digests.get(stream) else { continue };
            self.certain.entry(stream.clone()).or_default().add(record, of, &digest.outcomes);
            self.crossing.entry(stream.clone()).or_default().add(of);
        }
        self.take(record, &result, digests, own_trace);
        self.trials.push(result.clone());
        TrialAnswer { result, histograms }
    }

    /// One whole trial from `(stream, batch)` pairs; each stream's batches come in the order of
    /// `seq`.
    pub fn trial<S: AsRef<str>, B: Borrow<Batch>>(
        &mut self,
        record: &TrialRecord,
        batches: impl IntoIterator<Item = (S, B)>,
    ) -> TrialAnswer {
        let mut pass = self.begin(record);
        for (stream, batch) in batches {
            pass.push(stream.as_ref(), batch.borrow());
        }
        self.end(pass)
    }

    /// Pools a judged trial.
    fn take(
        &mut self,
        record: &TrialRecord,
        result: &TrialResult,
        digests: BTreeMap<String, StreamDigest>,
        own_trace: own_trace::OwnTracePass,
    ) {
        let counts = counts(result);
        if counts && !self.pool_counts {
            // The first trial that counts drives out those that stood in.
            self.pool = Pool::default();
            self.placements = Placements::default();
            self.loads = Loads::default();
            self.classes = Classes::default();
            self.own_trace = CellTrace::default();
            self.pool_counts = true;
        }
        if counts != self.pool_counts {
            return;
        }
        let well = was_measured_well(&result.verdicts);
        if counts && !well && self.well_measured.is_none() {
            self.well_measured = Some(self.pool.clone());
        }
        self.placements.add(record);
        self.loads.add(&record.loads);
        self.classes.add(&record.shapers);
        self.own_trace.add(record, own_trace.finish(record));
        for (stream, digest) in digests {
            let Some(of) = record.streams.get(&stream) else { continue };
            let mut digest = digest;
            if let (true, Some(blocks)) = (result.valid, digest.blocks.take()) {
                let lead = self
                    .lead
                    .as_ref()
                    .and_then(|(lead, metric)| result.streams.get(lead)?.metrics.get(&metric.to_string()));
                let figure = |name: &str, of: fn(&Quantiles) -> Option<i64>| {
                    let is_infinite = lead?.infinite.iter().any(|infinite| infinite == name);
                    of(&lead?.figures.quantiles).or(is_infinite.then_some(INFINITE))
                };
                self.blocks.push(TrialBlocks {
                    n: result.n,
                    blocks,
                    p50_ns: figure("p50", |of| of.p50_ns),
                    p99_ns: figure("p99", |of| of.p99_ns),
                });
            }
            if let (Some(pool), true) = (&mut self.well_measured, well) {
                pool.add(stream.clone(), digest.clone(), of, delta_of(of));
            }
            self.pool.add(stream, digest, of, delta_of(of));
        }
    }

    /// The metric whose repeatability is judged, of the stream under test: the one that leads
    /// ([`Metric::leading`]), of those whose points were stamped.
    fn find_lead(&self, record: &TrialRecord) -> Option<(String, Metric)> {
        let known = |name: &&str| record.streams.contains_key(*name);
        let stream = Some(UNDER_TEST).filter(known).or(self.first.as_deref().filter(known));
        let stream = stream.or_else(|| record.streams.keys().next().map(String::as_str))?;
        let of = record.streams.get(stream)?;
        let has = |point: &Point| *point == Point::Scheduled || of.sources.contains_key(point);
        let can = |metric: &Metric| match metric {
            Metric::Delta => has(&delta_of(of)),
            metric => metric.points().iter().all(has),
        };
        let mut asked = self.metrics.get(stream)?.clone();
        asked.extend(self.late_metric(stream, of).filter(|metric| !asked.contains(metric)));
        let available: Vec<Metric> = asked.into_iter().filter(can).collect();
        let leading = Metric::leading(self.leads.get(stream).copied(), of.reply.is_some(), &available);
        leading.map(|metric| (stream.to_owned(), metric))
    }

    pub fn finish(mut self) -> CellAnswer {
        let finished = self.trials.len();
        let counting = self.trials.iter().filter(|trial| counts(trial)).count();
        let majority = counting * 2 > finished;
        let Finished { mut streams, mut histograms, withheld, refused } = self.pool.finish(&self.validity);
        let path_failed = self.trials.iter().any(|trial| path_failed(&trial.verdicts));
        let valid = majority && !path_failed && is_valid(&refused);
        let mut verdicts = Vec::new();
        if let Some((stream, metric)) = &self.lead {
            self.blocks.sort_by_key(|trial| trial.n);
            let found = streams.get(stream).and_then(|of| of.metrics.get(&metric.to_string()));
            verdicts.push(match found.and_then(|found| found.refused_by.as_deref()) {
                Some(rule) => repeats::refused(stream, *metric, rule),
                None => repeats::judge(stream, *metric, &self.blocks),
            });
        }
        self.trials.sort_by_key(|trial| trial.n);
        verdicts.extend(pool::of_cell(&self.trials, majority));
        // A trial's own figures may be refused, and the cell's not.
        let spoilt = |verdict: &Verdict| verdict.level == Level::Invalid && refused.is_empty();
        verdicts.retain(|verdict| verdict.id != CLOCK_BOUND.id || spoilt(verdict));
        verdicts.extend(refused);
        if let Some(why) = &self.without_figures {
            let metrics = streams.values_mut().flat_map(|stream| stream.metrics.values_mut());
            metrics.for_each(|metric| *metric = MetricResult::absent(why));
            histograms.clear();
        }
        for (stream, metrics) in self.metrics.iter().chain(&self.added) {
            // A stream that no trial recorded still shows that it was asked for.
            let result = streams.entry(stream.clone()).or_default();
            for metric in metrics {
                result
                    .metrics
                    .entry(metric.to_string())
                    .or_insert_with(|| MetricResult::absent("no trial was finished"));
            }
            result.lead = self.leads.get(stream).map(Metric::to_string);
            result.copy = copying::of_cell(stream, pool::in_figures(&self.trials));
        }
        let of_gates = streams.iter().filter_map(|(name, stream)| gates::verdict(name, stream.gates.as_ref()?));
        verdicts.extend(of_gates);
        let classes = self.classes.finish(&streams);
        let limits = |streams, histograms, withheld| {
            let mut judged = expectations::judge(&self.id, &self.expectations, streams, &self.certain);
            for (result, expectation) in judged.iter_mut().zip(&self.expectations) {
                expectations::decide_unresolved(result, expectation, streams, histograms);
            }
            let limit = self.validity.share(CLOCK_BOUND.id);
            let clocks = Clocks { crossing: &self.crossing, deadlines: &self.deadlines, streams, withheld, limit };
            judged.iter_mut().zip(&self.expectations).for_each(|(result, of)| clocks.decide(result, of));
            judged.iter_mut().for_each(|result| expectations::explain_late(result, streams, &self.deadlines));
            for (result, expectation) in judged.iter_mut().zip(&self.expectations).filter(|_| !self.exact) {
                let others = waited_share(&result.stream, self.trials.iter().filter(|trial| counts(trial)));
                expectations::leave_open(result, expectation, streams, others);
            }
            judged
        };
        let expectations = match self.well_measured.filter(|_| most_were_measured_well(&self.trials)) {
            Some(pool) if self.without_figures.is_none() => {
                let finished = pool.finish(&self.validity);
                limits(&finished.streams, &finished.histograms, &finished.withheld)
            }
            _ => limits(&streams, &histograms, &withheld),
        };
        let mut result = CellResult {
            id: self.id,
            axes: self.axes,
            valid,
            not_available: None,
            machines: None,
            fingerprint: None,
            streams,
            loads: self.loads.finish(),
            placement: Vec::new(),
            softirq: Vec::new(),
            xdp: Vec::new(),
            cpus: Vec::new(),
            classes,
            trials: self.trials,
            verdicts,
        };
        self.placements.finish(&mut result);
        CellAnswer { result, expectations, histograms, own_trace: self.own_trace }
    }
}
