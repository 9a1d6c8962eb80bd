// SPDX-License-Identifier: MIT OR Apache-2.0
//! The figures in Prometheus' text exposition format 0.0.4, for node_exporter's textfile
//! collector. Base units: seconds and ratios. Every series has the experiment's name, so that the
//! files of several experiments can lie side by side.
//!
//! A percentile that falls on a lost packet is `+Inf`; one that is not resolved, or a figure that
//! is not available, is `NaN`.

use super::source::{ExportError, Source};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use tardy_model::expect::QUANTILES;
use tardy_model::harmless;
use tardy_model::result::{ExpectationResult, MetricResult, Quantiles, Results, StreamResult};
use tardy_model::verdict::{Level, Verdict};

/// A metric family: its samples stand together, below its help and its type.
struct Family {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    lines: Vec<String>,
}

impl Family {
    fn new(name: &'static str, kind: &'static str, help: &'static str) -> Self {
        Family { name, kind, help, lines: Vec::new() }
    }

    fn add(&mut self, labels: &[(&str, &str)], value: impl Into<String>) {
        self.add_to("", labels, value);
    }

    fn add_to(&mut self, suffix: &str, labels: &[(&str, &str)], value: impl Into<String>) {
        let labels: Vec<String> = labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
        self.lines.push(format!("{}{suffix}{{{}}} {}\n", self.name, labels.join(","), value.into()));
    }

    fn print(&self) -> String {
        if self.lines.is_empty() {
            return String::new();
        }
        format!("# HELP {0} {1}\n# TYPE {0} {2}\n{3}", self.name, self.help, self.kind, self.lines.concat())
    }
}

fn escaped(value: &str) -> String {
    let value = value.replace(|c: char| c != '\n' && harmless::acts(c), " ");
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn truth(value: bool) -> &'static str {
    if value { "1" } else { "0" }
}

/// Whole ns as seconds, without any rounding.
fn seconds(ns: i64) -> String {
    let (minus, size) = (if ns < 0 { "-" } else { "" }, ns.unsigned_abs());
    let fraction = format!(".{:09}", size % 1_000_000_000);
    format!("{minus}{}{}", size / 1_000_000_000, fraction.trim_end_matches('0').trim_end_matches('.'))
}

fn seconds_or_nan(ns: Option<i64>) -> String {
    ns.map_or("NaN".to_owned(), seconds)
}

fn mean_or_nan(ns: Option<f64>) -> String {
    ns.filter(|ns| ns.is_finite()).map_or("NaN".to_owned(), |ns| (ns / 1e9).to_string())
}

pub(super) fn write(source: &Source<'_>, out: &mut dyn Write) -> Result<Vec<String>, ExportError> {
    let (results, manifest) = (source.results, source.manifest);
    let experiment = ("experiment", results.name.as_str());
    let mut info = Family::new("tardy_run_info", "gauge", "What made the run; always 1.");
    let (format, seed) = (results.format.to_string(), manifest.seed.to_string());
    info.add(&[experiment, ("version", &manifest.tardy), ("format", &format), ("seed", &seed)], "1");
    let mut text = info.print();
    if !source.started.is_zero() {
        let mut started = Family::new("tardy_run_start_time_seconds", "gauge", "When the run began, since 1970.");
        started.add(&[experiment], format!("{:.3}", source.started.as_secs_f64()));
        text += &started.print();
    }
    text += &judgements(results);
    text += &packets(results);
    text += &latencies(results);
    out.write_all(text.as_bytes())?;
    Ok(match results.valid {
        true => Vec::new(),
        false => vec!["the run is not valid: tardy_run_valid is 0, and the figures must not be used".to_owned()],
    })
}

fn judgements(results: &Results) -> String {
    let experiment = ("experiment", results.name.as_str());
    let mut valid = Family::new("tardy_run_valid", "gauge", "1 if the run's figures may be used.");
    valid.add(&[experiment], truth(results.valid));
    let mut met = Family::new(
        "tardy_run_expectations_met",
        "gauge",
        "1 if all expectations were met, 0 if one was broken, NaN if there are none or one could not be judged.",
    );
    met.add(&[experiment], results.expectations_met.map_or("NaN", truth));
    let mut cells = Family::new(
        "tardy_cell_valid",
        "gauge",
        "1 if the cell's figures may be used, NaN if the cell is not available.",
    );
    let mut trials = Family::new("tardy_trials", "gauge", "Finished trials.");
    let mut verdicts =
        Family::new("tardy_verdicts", "gauge", "Verdicts that are more than ok; those of the run have no cell.");
    let mut judged = |cell: &str, of: &[Verdict]| {
        let mut counts: BTreeMap<(&str, &str), u32> = BTreeMap::new();
        for verdict in of.iter().filter(|verdict| verdict.level > Level::Ok) {
            *counts.entry((&verdict.id, crate::summary::level(verdict.level))).or_default() += 1;
        }
        for ((id, level), n) in counts {
            verdicts.add(&[experiment, ("cell", cell), ("id", id), ("level", level)], n.to_string());
        }
    };
    for cell in &results.cells {
        let label = ("cell", cell.id.as_str());
        cells.add(&[experiment, label], if cell.not_available.is_some() { "NaN" } else { truth(cell.valid) });
        for valid in [true, false] {
            let n = cell.trials.iter().filter(|trial| trial.valid == valid).count();
            trials.add(&[experiment, label, ("valid", if valid { "true" } else { "false" })], n.to_string());
        }
        judged(&cell.id, &cell.verdicts);
    }
    judged("", &results.verdicts);
    [valid.print(), met.print(), expectations(results), cells.print(), trials.print(), verdicts.print()].concat()
}

/// A limit as a label: seconds, or a count.
fn limit(of: &ExpectationResult) -> String {
    of.limit_ns.map(seconds).or_else(|| of.limit.map(|n| n.to_string())).unwrap_or_default()
}

fn expectations(results: &Results) -> String {
    let mut family = Family::new(
        "tardy_expectation_met",
        "gauge",
        "1 if the limit was kept, NaN if that was not judged. The limit is in seconds, of an outcome in packets.",
    );
    // One that is written twice is one series.
    let mut seen = BTreeSet::new();
    for of in &results.expectations {
        let limit = limit(of);
        if seen.insert((&of.cell, &of.stream, &of.metric, &of.of, limit.clone())) {
            let value = of.met.map_or("NaN", truth);
            let labels = [
                ("experiment", results.name.as_str()),
                ("cell", &of.cell),
                ("stream", &of.stream),
                ("metric", &of.metric),
                ("of", &of.of),
                ("limit", &limit),
            ];
            family.add(&labels, value);
        }
    }
    family.print()
}

fn streams(results: &Results) -> impl Iterator<Item = ([(&str, &str); 3], &StreamResult)> {
    results.cells.iter().flat_map(|cell| {
        cell.streams.iter().map(|(name, stream)| {
            ([("experiment", results.name.as_str()), ("cell", cell.id.as_str()), ("stream", name.as_str())], stream)
        })
    })
}

fn with<'a>(labels: &[(&'a str, &'a str)], more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    labels.iter().chain(more).copied().collect()
}

fn packets(results: &Results) -> String {
    let mut outcomes = Family::new("tardy_packets", "gauge", "Intended packets of the pooled trials by their outcome.");
    let mut flags = Family::new("tardy_packets_flagged", "gauge", "Packets with a flag on top of their outcome.");
    for (labels, stream) in streams(results) {
        let o = stream.outcomes;
        for (name, n) in [("received", o.received), ("lost", o.lost), ("not_sent", o.not_sent)] {
            outcomes.add(&with(&labels, &[("outcome", name)]), n.to_string());
        }
        for (name, n) in [("early", o.early), ("late", o.late), ("duplicate", o.duplicate), ("reordered", o.reordered)]
        {
            flags.add(&with(&labels, &[("flag", name)]), n.to_string());
        }
    }
    outcomes.print() + &flags.print()
}

fn latencies(results: &Results) -> String {
    let mut all = Family::new(
        "tardy_latency_seconds",
        "summary",
        "Time between two points of a packet's way, or (delta) between two arrivals. Quantiles are nearest rank over intended \
         packets, a lost one counting as +Inf; NaN is not resolved. Sum and count are over received packets.",
    );
    let mut received = Family::new("tardy_latency_received_seconds", "summary", "The same over received packets only.");
    let mut least = Family::new("tardy_latency_min_seconds", "gauge", "Least value.");
    let mut greatest = Family::new(
        "tardy_latency_max_seconds",
        "gauge",
        "Greatest value over intended packets, a lost one being +Inf.",
    );
    let mut greatest_received = Family::new(
        "tardy_latency_received_max_seconds",
        "gauge",
        "Greatest value over received packets, where something never arrived.",
    );
    let mut mean = Family::new("tardy_latency_mean_seconds", "gauge", "Mean.");
    let mut stddev = Family::new("tardy_latency_stddev_seconds", "gauge", "Standard deviation, n - 1.");
    let mut coverage =
        Family::new("tardy_latency_coverage_ratio", "gauge", "Share of received packets with both stamps.");
    let mut bound = Family::new(
        "tardy_latency_clock_bound_seconds",
        "gauge",
        "By how much each figure may be wrong, where two clocks took its stamps.",
    );
    let mut negative = Family::new(
        "tardy_latency_negative",
        "gauge",
        "Values below 0: early if the metric counts from scheduled, else a fault of a clock.",
    );
    for (labels, stream) in streams(results) {
        for (name, metric) in crate::column::in_order(stream) {
            let labels = with(&labels, &[("metric", name)]);
            summary(&mut all, &labels, metric, &metric.figures.quantiles, &metric.infinite);
            let only = metric.received_only.as_ref().unwrap_or(&metric.figures.quantiles);
            summary(&mut received, &labels, metric, only, &[]);
            least.add(&labels, seconds_or_nan(metric.figures.min_ns));
            let max = if metric.is_unbounded() { "+Inf".to_owned() } else { seconds_or_nan(metric.figures.max_ns) };
            greatest.add(&labels, max);
            if metric.is_unbounded() {
                greatest_received.add(&labels, seconds_or_nan(metric.greatest_received_ns()));
            }
            mean.add(&labels, mean_or_nan(metric.figures.mean_ns));
            stddev.add(&labels, mean_or_nan(metric.figures.stddev_ns));
            coverage.add(&labels, metric.coverage.to_string());
            if let Some(ns) = metric.clock_bound_ns {
                bound.add(&labels, seconds(ns));
            }
            negative.add(&labels, metric.negative.to_string());
        }
    }
    let families = [all, received, least, greatest, greatest_received, mean, stddev, coverage, bound, negative];
    families.iter().map(Family::print).collect()
}

fn summary(
    family: &mut Family,
    labels: &[(&str, &str)],
    metric: &MetricResult,
    quantiles: &Quantiles,
    infinite: &[String],
) {
    for ((stem, name, q), ns) in QUANTILES.iter().zip(quantiles.as_array()) {
        let never = infinite.iter().any(|known| known == stem || known == name);
        let value = if never { "+Inf".to_owned() } else { seconds_or_nan(ns) };
        family.add(&with(labels, &[("quantile", &q.to_string())]), value);
    }
    let sum = metric.figures.mean_ns.filter(|mean| mean.is_finite()).map_or(0.0, |mean| mean * metric.count as f64);
    family.add_to("_sum", labels, (sum / 1e9).to_string());
    family.add_to("_count", labels, metric.count.to_string());
}
