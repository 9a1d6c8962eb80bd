// SPDX-License-Identifier: MIT OR Apache-2.0
//! The columns of a metric's row and their values, the same in every format; which metric leads,
//! and in which order metrics come.

use crate::figure::{self, Digits, Unit};
use std::str::FromStr;
use tardy_model::expect::QUANTILES;
use tardy_model::point::Metric;
use tardy_model::result::{ABOVE_MINIMUM, CellResult, MetricResult, Quantiles, Results, StreamResult};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Column {
    /// The quantile with this index in [`QUANTILES`].
    Quantile(usize),
    Max,
    AtPacket,
    InTrial,
    Min,
    Mean,
    Stddev,
    /// By how much each of the others may be wrong; where two clocks took stamps.
    Bound,
}

/// The value of a column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value {
    Absent,
    Infinite,
    Ns(i64),
    Mean(f64),
    /// A bound, which is never rounded down.
    Bound(i64),
    /// Number of a packet in its trial, from 0.
    Packet(i64),
    /// Number of a trial in its cell, from 1.
    Trial(u32),
}

impl Column {
    /// All of a metric on one host, in the order of the long tables.
    pub const ALL: [Column; 11] = [
        Column::Quantile(0),
        Column::Quantile(1),
        Column::Quantile(2),
        Column::Quantile(3),
        Column::Quantile(4),
        Column::Max,
        Column::AtPacket,
        Column::InTrial,
        Column::Min,
        Column::Mean,
        Column::Stddev,
    ];

    /// What a row shows where there is little room.
    const FEW: [Column; 4] = [Column::Quantile(0), Column::Quantile(2), Column::Quantile(3), Column::Max];

    /// The columns of the long tables for these metrics.
    pub fn all<'a>(metrics: impl Iterator<Item = &'a MetricResult>) -> Vec<Column> {
        Column::with_bound(&Column::ALL, metrics)
    }

    /// Those of a table with little room.
    pub fn few<'a>(metrics: impl Iterator<Item = &'a MetricResult>) -> Vec<Column> {
        Column::with_bound(&Column::FEW, metrics)
    }

    fn with_bound<'a>(columns: &[Column], mut metrics: impl Iterator<Item = &'a MetricResult>) -> Vec<Column> {
        let bound = metrics.any(|metric| metric.clock_bound_ns.is_some()).then_some(Column::Bound);
        columns.iter().copied().chain(bound).collect()
    }

    /// The place in the order of the long tables.
    pub fn place(self) -> usize {
        Column::ALL.iter().position(|column| *column == self).unwrap_or(Column::ALL.len())
    }

    pub fn title(self) -> &'static str {
        match self {
            Column::Quantile(i) => QUANTILES[i].1,
            Column::Max => "max",
            Column::AtPacket => "at packet",
            Column::InTrial => "in trial",
            Column::Min => "min",
            Column::Mean => "mean",
            Column::Stddev => "stddev",
            Column::Bound => "±",
        }
    }

    /// The title over figures of packets, or of passes of a copy.
    pub fn title_of(self, passes: bool) -> &'static str {
        match self {
            Column::AtPacket if passes => "at pass",
            _ => self.title(),
        }
    }

    pub fn value(self, metric: &MetricResult) -> Value {
        let ns = |v: Option<i64>| v.map_or(Value::Absent, Value::Ns);
        let mean = |v: Option<f64>| v.map_or(Value::Absent, Value::Mean);
        match self {
            Column::Quantile(i) => match metric.figures.quantiles.as_array()[i] {
                None if is_infinite(metric, i) => Value::Infinite,
                got => ns(got),
            },
            Column::Max if metric.is_unbounded() => Value::Infinite,
            Column::Max => ns(metric.figures.max_ns),
            Column::AtPacket => metric.max_seq.map_or(Value::Absent, Value::Packet),
            Column::InTrial => metric.max_trial.map_or(Value::Absent, Value::Trial),
            Column::Min => ns(metric.figures.min_ns),
            Column::Mean => mean(metric.figures.mean_ns),
            Column::Stddev => mean(metric.figures.stddev_ns),
            Column::Bound => metric.clock_bound_ns.map_or(Value::Absent, Value::Bound),
        }
    }

    /// What is there over received packets only; `None` in the columns that are always over
    /// those.
    pub fn received(self, metric: &MetricResult) -> Option<Value> {
        let ns = |ns: Option<i64>| Some(ns.map_or(Value::Absent, Value::Ns));
        match self {
            Column::Quantile(i) => ns(received_only(metric)?.as_array()[i]),
            Column::Max if metric.is_unbounded() => ns(metric.greatest_received_ns()),
            _ => None,
        }
    }
}

/// Quantiles over received packets only, where something never arrived.
pub(crate) fn received_only(metric: &MetricResult) -> Option<&Quantiles> {
    let same = metric.is_unbounded().then_some(&metric.figures.quantiles);
    metric.received_only.as_ref().or(same).filter(|_| metric.count > 0)
}

fn is_infinite(metric: &MetricResult, i: usize) -> bool {
    metric.infinite.iter().any(|name| name == QUANTILES[i].0 || name == QUANTILES[i].1)
}

impl Value {
    /// With these `digits`, grouped if there is a `separator`.
    pub fn show(self, digits: Digits, separator: Option<char>) -> String {
        let group = |number: String| separator.map_or(number.clone(), |s| figure::grouped(&number, s));
        match self {
            Value::Absent => figure::ABSENT.to_owned(),
            Value::Infinite => figure::INFINITE.to_owned(),
            Value::Ns(ns) => group(digits.fixed(ns)),
            Value::Mean(ns) => group(digits.fixed_f64(ns)),
            Value::Bound(ns) => group(digits.at_least(ns)),
            // Ungrouped figures go to documents, where `#4211` would become a link to something
            // else.
            Value::Packet(seq) => format!("{}{}", if separator.is_some() { "#" } else { "" }, group(seq.to_string())),
            Value::Trial(n) => n.to_string(),
        }
    }
}

/// The digits of a metric's row with these columns: those of its table, or more.
pub(crate) fn digits(metric: &MetricResult, columns: &[Column], table: Digits) -> Digits {
    let values = columns.iter().flat_map(|column| [Some(column.value(metric)), column.received(metric)]).flatten();
    table.row(values.filter_map(|value| match value {
        Value::Ns(ns) | Value::Bound(ns) => Some(ns),
        // What is less than half a nanosecond is printed as none.
        Value::Mean(ns) => Some(ns.round() as i64),
        Value::Absent | Value::Infinite | Value::Packet(_) | Value::Trial(_) => None,
    }))
}

/// A stream's metrics in causal order, `delta` last.
pub(crate) fn in_order(stream: &StreamResult) -> Vec<(&str, &MetricResult)> {
    let mut metrics: Vec<_> = stream.metrics.iter().map(|(name, metric)| (name.as_str(), metric)).collect();
    metrics.sort_by_key(|(name, _)| {
        // A name of a later version comes after those that are known; what is above the minimum
        // of a metric, after that metric.
        let known = Metric::from_str(name.strip_suffix(ABOVE_MINIMUM).unwrap_or(name)).ok();
        (known.is_none(), known, name.to_owned())
    });
    metrics
}

/// The metric that leads of a stream where only one is shown ([`Metric::leading`]), of those that
/// were measured.
pub fn lead(stream: &StreamResult) -> Option<&str> {
    let measured: Vec<&str> = in_order(stream).into_iter().filter(|(_, m)| m.count > 0).map(|(name, _)| name).collect();
    let named = stream.lead.as_deref();
    let known: Vec<(Metric, &str)> = measured.iter().filter_map(|name| Some((name.parse().ok()?, *name))).collect();
    // A name of a later version can lead only if the experiment chose it, or nothing else is there.
    let unknown = measured.iter().find(|name| Some(**name) == named && name.parse::<Metric>().is_err());
    if let Some(name) = unknown.or_else(|| measured.first().filter(|_| known.is_empty())) {
        return Some(name);
    }
    let available: Vec<Metric> = known.iter().map(|(metric, _)| *metric).collect();
    let named = named.and_then(|name| name.parse().ok());
    let leading = Metric::leading(named, stream.replies.is_some(), &available)?;
    known.into_iter().find(|(metric, _)| *metric == leading).map(|(_, name)| name)
}

/// Where `rx_kernel` was taken of this stream of this cell, in words, for a metric that is made of
/// it in a run whose streams differ in that: one table must not mix figures of two points. A
/// cell without trials has no such place.
pub(crate) fn point_of(results: &Results, metric: &str, cell: &CellResult, stream: &StreamResult) -> Option<String> {
    let mut all = results.cells.iter().filter(|cell| !cell.trials.is_empty()).flat_map(|cell| cell.streams.values());
    let first = all.next()?.rx_kernel_point();
    let differ = all.any(|stream| stream.rx_kernel_point() != first);
    let made_of_it = Metric::from_str(metric).is_ok_and(Metric::has_rx_kernel);
    (differ && made_of_it && !cell.trials.is_empty()).then(|| stream.rx_kernel_point().replace('-', " "))
}

/// The metric that leads of several streams: of the first one that has any.
pub(crate) fn lead_of<'a>(mut streams: impl Iterator<Item = &'a StreamResult>) -> Option<&'a str> {
    streams.find_map(lead)
}

/// The unit that fits a table of these metrics.
pub(crate) fn unit<'a>(metrics: impl Iterator<Item = (&'a str, &'a MetricResult)>) -> Unit {
    let (mut median, mut greatest) = (None::<i64>, None::<i64>);
    for (name, metric) in metrics {
        let figures = &metric.figures;
        for ns in
            figures.quantiles.as_array().into_iter().chain([metric.greatest_received_ns(), figures.min_ns]).flatten()
        {
            let ns = ns.saturating_abs();
            greatest = Some(greatest.map_or(ns, |g| g.max(ns)));
        }
        // `delta` is about the cycle, whatever the path does: it has no say in the unit.
        if let Some(p50) = figures.quantiles.p50_ns.filter(|_| name != "delta") {
            let p50 = p50.saturating_abs();
            median = Some(median.map_or(p50, |m| m.min(p50)));
        }
    }
    Unit::fitting(median, greatest)
}

/// The unit that fits all cells of a run, whose tables are read side by side, and the digits of
/// each of their rows at least.
pub(crate) fn run_digits(results: &Results) -> Digits {
    let metrics = results.cells.iter().flat_map(|cell| cell.streams.values()).flat_map(|stream| &stream.metrics);
    in_unit(&results.fingerprint, unit(metrics.map(|(name, metric)| (name.as_str(), metric))))
}

/// The digits of a table in this unit; a run in exact time has a fingerprint.
pub(crate) fn in_unit(fingerprint: &Option<String>, unit: Unit) -> Digits {
    if fingerprint.is_some() { Digits::exact(unit) } else { Digits::of(unit) }
}

/// The least share of stamps among the available metrics of a stream, and the name of that metric
/// if the share is not 1.
pub(crate) fn least_coverage(stream: &StreamResult) -> Option<(f64, &str)> {
    in_order(stream)
        .into_iter()
        .filter(|(_, metric)| metric.why.is_none() || metric.count > 0)
        .map(|(name, metric)| (metric.coverage, name))
        .min_by(|a, b| a.0.total_cmp(&b.0))
}

/// A cell's id as a heading: `rx.wait=block` → `rx.wait = block`.
pub(crate) fn title(id: &str) -> String {
    id.replace('=', " = ").replace(',', ", ")
}

/// Within which bound packets were on time or not, ns, where the clocks of two hosts decide it. A
/// reply comes back to the clock that its request left by.
pub(crate) fn bound_of_lateness(stream: &StreamResult) -> Option<i64> {
    if stream.metrics.contains_key("scheduled..reply_receive") {
        return None;
    }
    let arrivals = ["receive", "rx_kernel", "rx_xdp"].map(|point| format!("scheduled..{point}"));
    arrivals.iter().filter_map(|name| stream.metrics.get(name)?.clock_bound_ns).max()
}
