// SPDX-License-Identifier: MIT OR Apache-2.0
//! CSV: one row per cell, stream and metric, quoted by RFC 4180, lines ended by LF as other tools
//! of this system expect. Times are whole nanoseconds, means decimal; what is not available is
//! empty, and `infinite` names the percentiles that are empty because packets were lost. Two more
//! columns, `clock_bound_ns` and `refused_by`, where two clocks took stamps.

use crate::column::in_order;
use crate::picture::{Options, Picture, ReportError};
use tardy_model::expect::QUANTILES;
use tardy_model::harmless;
use tardy_model::result::{CellResult, MetricResult, StreamResult};

pub(crate) fn make(picture: &Picture<'_>, _: &Options) -> Result<String, ReportError> {
    let all = picture.results.cells.iter().flat_map(|cell| cell.streams.values());
    // Only where there are bounds, so that the lines of a run on one host are as they were.
    let bounds = all.flat_map(|stream| stream.metrics.values()).any(|metric| metric.clock_bound_ns.is_some());
    let mut out = line(&head(bounds));
    for cell in &picture.results.cells {
        for (name, stream) in &cell.streams {
            let metrics = in_order(stream);
            // A stream without metrics still has outcomes.
            if metrics.is_empty() {
                out += &line(&row(cell, name, stream, ("", &MetricResult::default()), bounds));
            }
            for (metric, result) in metrics {
                out += &line(&row(cell, name, stream, (metric, result), bounds));
            }
        }
    }
    Ok(out)
}

fn head(bounds: bool) -> Vec<String> {
    let mut head: Vec<String> = [
        "cell",
        "cell_valid",
        "stream",
        "intended",
        "received",
        "lost",
        "not_sent",
        "early",
        "late",
        "duplicate",
        "reordered",
        "metric",
        "clock",
        "source",
        "coverage",
        "count",
        "percentiles",
        "min_ns",
        "mean_ns",
        "stddev_ns",
        "max_ns",
        "max_seq",
        "max_trial",
    ]
    .map(str::to_owned)
    .to_vec();
    head.extend(QUANTILES.iter().map(|(stem, ..)| format!("{stem}_ns")));
    head.extend(QUANTILES.iter().map(|(stem, ..)| format!("received_only_{stem}_ns")));
    head.extend(["infinite", "unresolved", "negative", "why", "received_only_max_ns"].map(str::to_owned));
    head.extend(["clock_bound_ns", "refused_by"].map(str::to_owned).into_iter().filter(|_| bounds));
    head
}

fn row(
    cell: &CellResult,
    stream: &str,
    result: &StreamResult,
    (metric, of): (&str, &MetricResult),
    bounds: bool,
) -> Vec<String> {
    fn or_empty<T: ToString>(value: Option<T>) -> String {
        value.map_or(String::new(), |value| value.to_string())
    }
    let o = result.outcomes;
    let mut row = vec![cell.id.clone(), cell.valid.to_string(), stream.to_owned()];
    row.extend(
        [o.intended, o.received, o.lost, o.not_sent, o.early, o.late, o.duplicate, o.reordered].map(|n| n.to_string()),
    );
    row.extend([metric.to_owned(), of.clock.clone(), of.source.clone()]);
    row.extend([of.coverage.to_string(), of.count.to_string(), of.percentiles.clone()]);
    row.extend([
        or_empty(of.figures.min_ns),
        or_empty(of.figures.mean_ns.filter(|v| v.is_finite())),
        or_empty(of.figures.stddev_ns.filter(|v| v.is_finite())),
        or_empty(of.figures.max_ns),
        or_empty(of.max_seq),
        or_empty(of.max_trial),
    ]);
    row.extend(of.figures.quantiles.as_array().map(or_empty));
    row.extend(of.received_only.clone().unwrap_or_default().as_array().map(or_empty));
    row.extend([of.infinite.join(" "), of.unresolved.join(" "), of.negative.to_string(), or_empty(of.why.clone())]);
    row.push(or_empty(of.received_only_max_ns));
    if bounds {
        row.extend([or_empty(of.clock_bound_ns), or_empty(of.refused_by.clone())]);
    }
    row
}

fn line(fields: &[String]) -> String {
    fields.iter().map(|field| quoted(field)).collect::<Vec<_>>().join(",") + "\n"
}

/// A field as RFC 4180 wants it. Names and reasons are a file's: what would move a terminal's
/// cursor becomes a blank; lines stay lines.
pub(crate) fn quoted(field: &str) -> String {
    let field = field.replace(|c: char| c != '\n' && harmless::acts(c), " ");
    match field.contains(['"', ',', '\n']) {
        true => format!("\"{}\"", field.replace('"', "\"\"")),
        false => field,
    }
}
