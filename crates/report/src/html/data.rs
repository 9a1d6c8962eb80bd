// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the page's script draws from, as JSON: bins and envelopes, never samples, so that its size
//! does not grow with the run's packets.
//!
//! For figures over time it says where buckets begin, what loads moved, and how many values lie
//! where.

use super::budget::share;
use crate::column::{in_order, lead_of, point_of, title};
use crate::figure;
use crate::picture::{Facts, Picture};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use tardy_analyze::cell::counted;
use tardy_analyze::envelope::{Grid, Line, Shape, Trace, bins};
use tardy_model::expect::QUANTILES;
use tardy_model::gates::Window;
use tardy_model::load::Series;
use tardy_model::point::Metric;
use tardy_model::result::{ABOVE_MINIMUM, CellResult, MetricResult, Quantiles, StreamResult, TrialResult};
use tardy_model::validity::CLOCK_BOUND;

/// Bins of all pooled distributions together, of all trials' together, and the most and least of
/// one.
const POOLED: (usize, usize, usize) = (24_000, 480, 24);
const OF_TRIALS: (usize, usize, usize) = (16_000, 64, 8);

/// The data, safe inside a script element.
pub(super) fn json(picture: &Picture<'_>) -> String {
    let cells = &picture.results.cells;
    let metrics = |stream: &StreamResult| stream.metrics.keys().filter(|name| !name.ends_with(ABOVE_MINIMUM)).count();
    let pooled: usize = cells.iter().flat_map(|cell| cell.streams.values()).map(metrics).sum();
    let trials = cells.iter().flat_map(|cell| &cell.trials);
    let single: usize = trials.flat_map(|trial| trial.streams.values()).map(metrics).sum();
    let (stretches, slices) = (stretches(cells), super::copies::slices(picture.traces));
    let maker = Maker { picture, pooled: share(POOLED, pooled), single: share(OF_TRIALS, single), stretches, slices };
    let cells: Vec<Value> = cells.iter().map(|cell| maker.cell(cell)).collect();
    let mut all = json!({ "lead": leading(picture), "cells": cells, "noun": picture.noun() });
    if let Some(sizes) = super::copies::sizes(picture) {
        all["sizes"] = sizes;
    }
    let text = all.to_string();
    // No `<` at all: neither an end tag nor a comment can begin in it.
    text.replace('<', "\\u003c")
}

/// Departures by phase, a row for each traffic class; `None` where nothing decides when packets
/// leave.
pub(super) fn gates(facts: &Facts, cell: &CellResult) -> Option<Value> {
    let streams = facts.in_order(&cell.streams);
    let judged = || {
        streams
            .iter()
            .filter_map(|(name, stream)| Some((*name, stream.gates.as_ref().filter(|gates| gates.judged > 0)?)))
    };
    let (_, first) = judged().next()?;
    let pairs = |windows: &[Window]| -> Vec<Value> { windows.iter().map(|w| json!([w.open_ns, w.close_ns])).collect() };
    let sum = |counts: Vec<&Vec<u64>>| {
        let length = counts.iter().map(|counts| counts.len()).max()?;
        Some((0..length).map(|i| counts.iter().filter_map(|counts| counts.get(i)).sum()).collect::<Vec<u64>>())
    };
    let of_class = |class: u8| {
        let counts = judged().filter(|(_, gates)| gates.class == Some(class)).map(|(_, gates)| &gates.phases.counts);
        sum(counts.collect())
    };
    let rows: Vec<Value> = match first.gate_cycle_ns {
        Some(_) => cell
            .classes
            .iter()
            .filter_map(|class| {
                let number = class.class.filter(|_| !class.windows.is_empty())?;
                Some(json!({
                    "title": format!("class {number}"), "windows": pairs(&class.windows), "counts": of_class(number),
                }))
            })
            .collect(),
        None => judged()
            .map(|(name, gates)| {
                let class = gates.class.map_or_else(String::new, |class| format!(", class {class}"));
                json!({
                    "title": format!("{name}{class}"), "windows": pairs(&gates.windows), "counts": gates.phases.counts,
                })
            })
            .collect(),
    };
    let (cycle, shift) = (first.phases.cycle_ns, first.release_before_ns);
    Some(json!({ "cycle": cycle, "of": first.phases.cycle, "shift": shift, "rows": rows }))
}

/// True if there is something to draw of a metric of a stream: times in hints have figures, and no
/// histogram.
pub(super) fn is_drawn(picture: &Picture<'_>, cell: &CellResult, stream: &str, metric: &str) -> bool {
    !(picture.bars)(&cell.id, stream, metric).is_empty()
}

/// The metrics that have pictures, in the order of the tables, each once.
pub(super) fn drawn<'a>(picture: &Picture<'a>) -> Vec<&'a str> {
    let cells: &'a [CellResult] = &picture.results.cells;
    let mut names: Vec<&str> = Vec::new();
    for cell in cells {
        for (stream, result) in picture.facts.in_order(&cell.streams) {
            for (name, _) in in_order(result) {
                if !names.contains(&name) && is_drawn(picture, cell, stream, name) {
                    names.push(name);
                }
            }
        }
    }
    names
}

/// The metric that the pictures show first: of the stream that leads, in the first cell that has
/// it. Where that one has no pictures, the first that has.
pub(super) fn leading<'a>(picture: &Picture<'a>) -> Option<&'a str> {
    let cells: &'a [CellResult] = &picture.results.cells;
    let of_first = cells.iter().filter_map(|cell| Some(picture.facts.in_order(&cell.streams).first()?.1));
    let of_any = cells.iter().flat_map(|cell| picture.facts.in_order(&cell.streams)).map(|(_, stream)| stream);
    let drawn = drawn(picture);
    lead_of(of_first.chain(of_any)).filter(|name| drawn.contains(name)).or_else(|| drawn.first().copied())
}

struct Maker<'a> {
    picture: &'a Picture<'a>,
    pooled: usize,
    single: usize,
    stretches: usize,
    slices: usize,
}

impl Maker<'_> {
    fn cell(&self, cell: &CellResult) -> Value {
        let streams = self.picture.facts.in_order(&cell.streams);
        let streams = streams.into_iter().map(|(name, stream)| self.stream(cell, name, stream));
        let loads = cell.trials.iter().map(|trial| (trial.n.to_string(), loads(trial, self.stretches).into()));
        let loads: Map<String, Value> = loads.filter(|(_, loads)| loads != &json!([])).collect();
        let streams: Vec<Value> = streams.collect();
        let mut value = json!({ "title": title(&cell.id), "valid": cell.valid, "streams": streams, "loads": loads });
        if let Some(gates) = gates(self.picture.facts, cell) {
            value["gates"] = gates;
        }
        value
    }

    fn stream(&self, cell: &CellResult, name: &str, stream: &StreamResult) -> Value {
        let missing = stream.outcomes.lost + stream.outcomes.not_sent;
        let metrics: Map<String, Value> = in_order(stream)
            .into_iter()
            .map(|(metric, result)| (metric.to_owned(), self.metric(cell, name, metric, result, missing)))
            .collect();
        let counted = counted(&cell.trials);
        let traces = of_stream(self.picture.traces, cell, name);
        let hot = hot(&traces);
        let trials = cell.trials.iter().filter_map(|trial| {
            let trace = traces.iter().find(|trace| trace.n == trial.n)?;
            Some(self.trial((stream, trial), trace, counted.contains(&trial.n), &hot))
        });
        let Stages { stages, undivided, .. } = stages_of(self.picture, cell, name);
        let stages = stages.iter().filter_map(|Stage { name, shape, share }| {
            Some(json!({
                "name": name, "mean": shape.mean_ns()?, "min": shape.min_ns, "max": shape.max_ns,
                "p50": shape.quantile_ns(0.5)?, "p99": shape.quantile_ns(0.99)?, "share": share,
            }))
        });
        json!({
            "undivided": undivided.map(|Undivided { names, share }| json!({ "names": names, "share": share })),
            "name": name,
            "cycle": traces.first().map_or(0, |trace| trace.cycle_ns),
            "metrics": metrics,
            "trials": trials.collect::<Vec<_>>(),
            "stages": stages.collect::<Vec<_>>(),
        })
    }

    fn metric(&self, cell: &CellResult, stream: &str, name: &str, metric: &MetricResult, missing: u64) -> Value {
        let bars = (self.picture.bars)(&cell.id, stream, name);
        let limits = self.picture.results.expectations.iter();
        let limits = limits.filter(|e| e.cell == cell.id && e.stream == stream && e.metric == name);
        let limits: Vec<Value> = limits.filter_map(|e| Some(json!([e.of, e.limit_ns?, e.met]))).collect();
        let of = cell.streams.get(stream);
        json!({
            "at": of.and_then(|stream| point_of(self.picture.results, name, cell, stream)),
            "count": if bars.is_empty() { 0 } else { metric.count },
            "inf": missing,
            "q": quantiles(&metric.figures.quantiles, &metric.infinite),
            "min": metric.figures.min_ns.unwrap_or(0),
            "max": metric.greatest_received_ns().unwrap_or(0),
            "why": metric.why,
            "limits": limits,
            "bins": flat(&bins(&bars, self.pooled)),
        })
    }

    /// A trial, as a part of its cell's stream: what is refused there is not drawn here.
    fn trial(
        &self,
        (cell, trial): (&StreamResult, &TrialResult),
        trace: &Trace,
        counted: bool,
        hot: &[Metric],
    ) -> Value {
        let results = trial.streams.get(&trace.stream);
        let is_refused = |metric: &Metric| {
            let found = cell.metrics.get(&metric.to_string());
            found.is_some_and(|found| found.refused_by.is_some())
        };
        let lines = trace.metrics.iter().filter(|(metric, line)| line.shape.count > 0 && !is_refused(metric));
        let metrics = lines.map(|(metric, line)| {
            let name = metric.to_string();
            let result = results.and_then(|stream| stream.metrics.get(&name));
            let mut of = json!({
                "count": line.shape.count,
                "inf": 0,
                "q": result.map_or_else(|| json!([]), |result| quantiles(&result.figures.quantiles, &result.infinite)),
                "min": line.shape.min_ns,
                "max": line.shape.max_ns,
                "limits": [],
                "bins": flat(&line.shape.bins(self.single)),
                "envelope": envelope(line, trace.packets_each),
            });
            if hot.contains(metric) {
                of["heat"] = heat(&line.grid);
            }
            (name, of)
        });
        let copy = trace.copy.as_ref().map(|copy| super::copies::timeline(copy, self.slices));
        let missing: Vec<u64> = trace.missing.iter().flat_map(|(at, count)| [u64::from(*at), *count]).collect();
        json!({
            "n": trial.n, "counted": counted, "packets": trace.packets, "each": trace.packets_each,
            "starts": starts(trace), "end": trace.end_ns, "missing": missing, "metrics": metrics.collect::<Map<_, _>>(),
            "copy": copy,
        })
    }
}

/// A stream's traces, by trial.
pub(super) fn of_stream<'a>(traces: &'a [Trace], cell: &CellResult, stream: &str) -> Vec<&'a Trace> {
    let mut found: Vec<&Trace> =
        traces.iter().filter(|trace| trace.cell == cell.id && trace.stream == stream).collect();
    found.sort_by_key(|trace| trace.n);
    found
}

/// The metrics that have enough values, over a stream's traces, for a heat map.
pub(super) fn hot(traces: &[&Trace]) -> Vec<Metric> {
    let mut counts: BTreeMap<Metric, u64> = BTreeMap::new();
    let lines = traces.iter().flat_map(|trace| &trace.metrics);
    lines.for_each(|(metric, line)| *counts.entry(*metric).or_default() += line.shape.count);
    counts.into_iter().filter(|(_, count)| *count >= HEAT_FROM).map(|(metric, _)| metric).collect()
}

/// The stages over the trials that the cell's figures are of.
pub(super) struct Stages {
    /// In causal order. One between the clocks of two hosts whose bound is too large is not here.
    pub stages: Vec<Stage>,
    /// The stages between two hosts together, where one of them is not given: their sum in a round
    /// trip is known, and not how much of it each is.
    pub undivided: Option<Undivided>,
    /// Words about those between the clocks of two hosts.
    pub by_clocks: String,
}

pub(super) struct Stage {
    pub name: String,
    pub shape: Shape,
    /// Its part of the whole way's mean, if that is known.
    pub share: Option<f64>,
}

pub(super) struct Undivided {
    pub names: Vec<String>,
    /// Of the whole way's mean.
    pub share: f64,
}

impl Stages {
    /// True if no stage is left out, so that the means add up.
    pub fn are_all(&self) -> bool {
        self.undivided.is_none() && self.stages.iter().all(|stage| stage.share.is_some())
    }
}

pub(super) fn stages_of(picture: &Picture<'_>, cell: &CellResult, stream: &str) -> Stages {
    let counted = counted(&cell.trials);
    let (mut pooled, mut bound_ns) = (BTreeMap::new(), 0);
    for trace in of_stream(picture.traces, cell, stream).into_iter().filter(|trace| counted.contains(&trace.n)) {
        bound_ns = bound_ns.max(trace.clock_bound_ns);
        for (stage, shape) in &trace.stages {
            pooled.entry(*stage).or_insert_with(Shape::default).merge(shape);
        }
    }
    let limit = picture.results.validity.share(CLOCK_BOUND);
    let is_between = |stage: &Metric| bound_ns > 0 && stage.crosses_stations();
    let is_refused = |(stage, shape): &(&Metric, &Shape)| {
        let middle = shape.quantile_ns(0.5).map_or(0, i64::unsigned_abs);
        is_between(stage) && bound_ns as f64 > limit * middle as f64
    };
    let refused: BTreeSet<Metric> = pooled.iter().filter(is_refused).map(|(stage, _)| *stage).collect();
    let mean = |shape: &Shape| shape.mean_ns().unwrap_or(0.0);
    let whole: f64 = pooled.values().map(mean).sum();
    let between: Vec<(&Metric, &Shape)> = pooled.iter().filter(|(stage, _)| is_between(stage)).collect();
    // There and back, what one clock is ahead of the other cancels: the whole is known.
    let is_known = whole > 0.0 && (refused.is_empty() || between.len().is_multiple_of(2));
    let undivided = (is_known && !refused.is_empty()).then(|| Undivided {
        names: between.iter().map(|(stage, _)| stage.to_string()).collect(),
        share: between.iter().map(|(_, shape)| mean(shape)).sum::<f64>() / whole,
    });
    let (mut stages, mut by_clocks) = (Vec::new(), String::new());
    let bound = figure::exact(bound_ns);
    for (stage, shape) in &pooled {
        if refused.contains(stage) {
            by_clocks += &format!("; {stage} is left out: ± {bound} is too much of it ({CLOCK_BOUND})");
            continue;
        }
        if is_between(stage) {
            by_clocks += &format!("; {stage} ± {bound}: {}", figure::TWO_CLOCKS);
        }
        let share = (is_known && (refused.is_empty() || !is_between(stage))).then(|| mean(shape) / whole);
        stages.push(Stage { name: stage.to_string(), shape: shape.clone(), share });
    }
    Stages { stages, undivided, by_clocks }
}

/// Values, `"inf"` where the rank falls on a packet that never arrived, null where there is none.
fn quantiles(quantiles: &Quantiles, infinite: &[String]) -> Value {
    let each = QUANTILES.iter().zip(quantiles.as_array()).map(|((stem, name, _), value)| match value {
        Some(ns) => json!(ns),
        None if infinite.iter().any(|other| other == stem || other == name) => json!("inf"),
        None => Value::Null,
    });
    each.collect()
}

/// Triples: gap from the last bin's end, width, count.
fn flat(bins: &[(i64, i64, u64)]) -> Vec<i64> {
    let mut at = 0i64;
    let mut out = Vec::with_capacity(bins.len() * 3);
    for (low, high, count) in bins {
        let end = high.saturating_add(1);
        out.extend([low.saturating_sub(at), end.saturating_sub(*low), i64::try_from(*count).unwrap_or(i64::MAX)]);
        at = end;
    }
    out
}

/// Fours: least, median − least, greatest − median (−1: nothing there), packet of the greatest −
/// first packet of the bucket, negative where that packet was overtaken.
fn envelope(line: &Line, packets_each: u64) -> Vec<i64> {
    let each = i64::try_from(packets_each).unwrap_or(i64::MAX);
    let four = |(i, bucket): (usize, &Option<tardy_analyze::envelope::Bucket>)| match bucket {
        Some(b) => [
            b.min_ns,
            b.p50_ns.saturating_sub(b.min_ns),
            b.max_ns.saturating_sub(b.p50_ns),
            b.max_seq.saturating_sub((i as i64).saturating_mul(each)),
        ],
        None => [0, 0, -1, 0],
    };
    line.buckets.iter().enumerate().flat_map(four).collect()
}

/// The least number of values of a stream, in all its trials together, for which there is a heat
/// map.
pub(super) const HEAT_FROM: u64 = 20_000;
/// Stretches of all loads in all trials together, and the most and least of one.
const STRETCHES: (usize, usize, usize) = (20_000, 400, 10);

/// How many stretches each load may have in each of these cells' trials.
pub(super) fn stretches(cells: &[CellResult]) -> usize {
    let trials = cells.iter().flat_map(|cell| &cell.trials);
    share(STRETCHES, trials.map(|trial| timed(trial).count()).sum())
}

/// The loads of a trial of which it is known what they moved when.
fn timed(trial: &TrialResult) -> impl Iterator<Item = (&String, &str, &Series)> {
    let some = |series: &&Series| series.every_ns > 0 && series.bytes.iter().any(|bytes| *bytes > 0);
    trial
        .loads
        .iter()
        .filter_map(move |(name, load)| Some((name, load.kind.as_str(), load.series.as_ref().filter(some)?)))
}

/// What a trial's loads moved: bytes in equal stretches, at most `most` of each load.
pub(super) fn loads(trial: &TrialResult, most: usize) -> Vec<Value> {
    let each = |(name, kind, series): (&String, &str, &Series)| {
        let join = series.bytes.len().div_ceil(most.max(1)).max(1);
        let sum = |part: &[u64]| part.iter().fold(0u64, |sum, bytes| sum.saturating_add(*bytes));
        let bytes: Vec<u64> = series.bytes.chunks(join).map(sum).collect();
        let every = series.every_ns.saturating_mul(i64::try_from(join).unwrap_or(i64::MAX));
        // What a load copies in memory is no traffic.
        json!({ "name": name, "copies": kind == "memory", "first": series.first_ns, "every": every, "bytes": bytes })
    };
    timed(trial).map(each).collect()
}

/// The gaps between the beginnings of a trace's buckets, ns; null where each begins by its
/// packets' schedule.
pub(super) fn starts(trace: &Trace) -> Value {
    let each = i64::try_from(trace.packets_each).unwrap_or(i64::MAX).saturating_mul(trace.cycle_ns);
    let as_scheduled = |(i, start): (usize, &i64)| *start == (i as i64).saturating_mul(each);
    if trace.cycle_ns > 0 && trace.starts_ns.iter().enumerate().all(as_scheduled) {
        return Value::Null;
    }
    let mut at = 0;
    trace.starts_ns.iter().map(|start| start - std::mem::replace(&mut at, *start)).collect()
}

/// A column's length; its rows as pairs of the gap from the last one's end and the height; then
/// for each column how many of its rows hold something, and for each of these the gap from the
/// last one's number and the count.
pub(super) fn heat(grid: &Grid) -> Value {
    let mut at = 0i64;
    let mut rows = Vec::new();
    for (low, high) in grid.rows() {
        let end = high.saturating_add(1);
        rows.extend([low.saturating_sub(at), end.saturating_sub(low)]);
        at = end;
    }
    let mut spots = Vec::new();
    for column in grid.columns() {
        spots.push(column.len() as u64);
        let mut next = 0;
        for (row, count) in column {
            spots.extend([(row - next) as u64, count]);
            next = row + 1;
        }
    }
    json!({ "every": grid.every_ns, "rows": rows, "spots": spots })
}
