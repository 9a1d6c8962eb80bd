// SPDX-License-Identifier: MIT OR Apache-2.0
//! Judges a run by what its cells hold of every comparison.

use super::cell::CellTrace;
use super::told::{self, FoundTrace};
use super::{CACHES_NS, Difference, LEAST_SHARE, MOST_P, Place};
use tardy_model::machine::RulerRecord;
use tardy_model::result::{CellResult, MetricResult};
use tardy_model::verdict::Verdict;

/// The finest difference that the ruler can tell, of one stamp, ns: what reading the clock takes
/// on the slowest CPU in use, and no less than a clock's step of 1 ns.
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
    let mut traces: Vec<FoundTrace<'_>> = Vec::new();
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
        let trace = FoundTrace { cell: &cell.id, stream, metric, place, found, p_value, spoils, of };
        // What differs by eight differs by 16 and 64 too: the smallest modulus tells it, unless a
        // greater one tells more.
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
    // Of a class, which may be an eighth of all packets, the extreme ones need not be tardy's
    // doing.
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
