// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the page's pictures over time are drawn from: where buckets begin, what loads moved, how
//! many values lie where.

use serde_json::{Value, json};
use tardy_analyze::envelope::{Grid, Trace};
use tardy_model::load::Series;
use tardy_model::result::{CellResult, TrialResult};

/// From so many values of a stream on, those of all its trials together, there is a heat map.
pub(super) const HEAT_FROM: u64 = 20_000;
/// Stretches of all loads in all trials together, and the most and least of one.
const STRETCHES: (usize, usize, usize) = (20_000, 400, 10);

/// How many stretches each load may have in each of these cells' trials.
pub(super) fn stretches(cells: &[CellResult]) -> usize {
    let trials = cells.iter().flat_map(|cell| &cell.trials);
    super::share::share(STRETCHES, trials.map(|trial| timed(trial).count()).sum())
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
