// SPDX-License-Identifier: MIT OR Apache-2.0
//! Judges a run by what its cells hold of every comparison, and says what it found: one verdict for
//! each stream and kind of place, with the figures of the clearest metric.

use super::cell::{CellTrace, StreamTrace};
use super::residues::ResiduePool;
use super::{CACHES_NS, Difference, ID, LEAST_SHARE, MOST_P, Place};
use crate::says;
use std::collections::BTreeMap;
use tardy_model::machine::RulerRecord;
use tardy_model::point::Metric;
use tardy_model::result::{CellResult, MetricResult};
use tardy_model::verdict::{Figure, Level, Verdict};

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
        // Bonferroni 1936: among this many tests one may be wrong.
        let p_value = (found.p_value * tests as f64).min(1.0);
        let middle = result.figures.quantiles.p50_ns.unwrap_or(found.others_ns).unsigned_abs() as f64;
        let stamps = metric.points().len().max(2) as i64;
        let least = (stamps * stamp_ns) as f64;
        let batch = found.from_each.or(batch_of(&found)).unwrap_or(0);
        let by_kernel = batch as i64 * CACHES_NS;
        let difference = found.difference_ns.unsigned_abs() as f64;
        if p_value >= MOST_P || difference <= least.max(by_kernel as f64).max(middle * LEAST_SHARE) {
            continue;
        }
        let spoils = spoils(&found, place, result, least);
        let trace = FoundTrace { cell: &cell.id, stream, metric, place, found, p_value, spoils, of };
        // What differs by eight differs by 16 and 64 too: the smallest modulus shows it, unless a
        // greater one shows more, or makes the difference alone.
        let known = traces.iter_mut().find(|known| {
            place == Place::Residue
                && (known.cell, known.stream, known.metric, known.place) == (&cell.id, stream, metric, place)
        });
        match known {
            None => traces.push(trace),
            Some(known)
                if difference > 1.25 * known.found.difference_ns.unsigned_abs() as f64
                    || known.found.from_each.is_some() && known.found.from_each == batch_of(&trace.found) =>
            {
                *known = trace;
            }
            Some(_) => {}
        }
    }
    verdicts(traces, tests, stamp_ns)
}

/// The modulus by which a class of packets was found.
fn batch_of(found: &Difference) -> Option<u64> {
    found.class.map(|(modulus, _)| modulus)
}

/// The printed figures that change if `found.packets` packets take longer by the difference found.
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
        let reached = if longer { 1.0 - quantile <= share } else { quantile <= share };
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

/// A trace of tardy in one metric of one cell.
#[derive(Debug)]
pub(super) struct FoundTrace<'a> {
    pub(super) cell: &'a str,
    pub(super) stream: &'a str,
    pub(super) metric: Metric,
    pub(super) place: Place,
    pub(super) found: Difference,
    /// The chance for the whole run: of any of its tests to show as much.
    pub(super) p_value: f64,
    /// Printed figures that it moves.
    pub(super) spoils: Vec<&'static str>,
    pub(super) of: &'a StreamTrace,
}

/// The verdicts, the most severe first.
pub(super) fn verdicts(traces: Vec<FoundTrace<'_>>, tests: u64, stamp_ns: i64) -> Vec<Verdict> {
    let mut groups: BTreeMap<(&str, Place), Vec<FoundTrace<'_>>> = BTreeMap::new();
    for trace in traces {
        groups.entry((trace.stream, trace.place)).or_default().push(trace);
    }
    let mut verdicts: Vec<Verdict> = groups.values().filter_map(|group| of_group(group, tests, stamp_ns)).collect();
    verdicts.sort_by_key(|verdict| std::cmp::Reverse(verdict.level));
    verdicts
}

/// The trace that a group is reported by: the one that moves the most figures, and of several the
/// one that differs most.
fn greatest<'g, 'a>(group: &'g [FoundTrace<'a>]) -> Option<&'g FoundTrace<'a>> {
    let ratio = |trace: &FoundTrace<'_>| {
        let others = trace.found.others_ns.unsigned_abs().max(1);
        trace.found.difference_ns.unsigned_abs() as f64 / others as f64
    };
    let worth = |trace: &FoundTrace<'_>| (trace.spoils.len(), ratio(trace));
    group.iter().max_by(|a, b| {
        let ((a, a_ratio), (b, b_ratio)) = (worth(a), worth(b));
        a.cmp(&b).then(a_ratio.total_cmp(&b_ratio))
    })
}

fn of_group(group: &[FoundTrace<'_>], tests: u64, stamp_ns: i64) -> Option<Verdict> {
    let speaks = greatest(group)?;
    let named = |of: &dyn Fn(&FoundTrace<'_>) -> Vec<String>| {
        let mut names: Vec<String> = Vec::new();
        for name in group.iter().flat_map(of) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    };
    let metrics = named(&|trace| vec![trace.metric.to_string()]);
    let cells = named(&|trace| vec![trace.cell.to_owned()]);
    let spoils = named(&|trace| trace.spoils.iter().map(|name| (*name).to_owned()).collect());
    let level = match (speaks.place, spoils.is_empty()) {
        (Place::Forced, _) | (_, true) => Level::Warning,
        _ => Level::Invalid,
    };
    let list = |names: Vec<String>| Figure::List(names.into_iter().map(Figure::from).collect());
    let verdict = Verdict::new(ID, level, sentence(speaks, &metrics, &cells, &spoils));
    let verdict = with_evidence(verdict, speaks, tests, stamp_ns);
    let verdict = verdict.with("metrics", list(metrics)).with("cells", list(cells)).with("spoils", list(spoils));
    Some(with_reasons(verdict, speaks))
}

/// What a group's verdict says: of the trace that it is reported by, and how many more there are.
fn sentence(speaks: &FoundTrace<'_>, metrics: &[String], cells: &[String], spoils: &[String]) -> String {
    let found = &speaks.found;
    let more = |names: &[String], one: &str, many: &str| match names.len() - 1 {
        0 => String::new(),
        more => format!(" and in {}", says::count(more as u64, one, many)),
    };
    let (others, cells_too) = (more(metrics, "more metric", "more metrics"), more(cells, "more cell", "more cells"));
    let figures = if spoils.is_empty() {
        "no printed figure moves by it".to_owned()
    } else {
        format!("do not use {}", says::list(spoils))
    };
    format!(
        "{}: {}: {} takes {} where {} take {} ({} in {}, p = {:.0e}){others}{cells_too}; {figures}",
        speaks.stream,
        what(speaks),
        speaks.metric,
        says::time(found.affected_ns),
        beside(speaks),
        says::time(found.others_ns),
        says::count(found.packets, "packet", "packets"),
        speaks.cell,
        speaks.p_value.max(f64::MIN_POSITIVE),
    )
}

fn with_evidence(verdict: Verdict, speaks: &FoundTrace<'_>, tests: u64, stamp_ns: i64) -> Verdict {
    let found = &speaks.found;
    verdict
        .with("stream", speaks.stream)
        .with("metric", speaks.metric.to_string())
        .with("cell", speaks.cell)
        .with("position", position(speaks.place))
        .with("packets", found.packets)
        .with("comparisons", found.comparisons)
        .with("median_ns", found.affected_ns)
        .with("others_median_ns", found.others_ns)
        .with("difference_ns", found.difference_ns)
        .with("p_value", speaks.p_value)
        .with("p_limit", MOST_P)
        .with("tests", tests)
        .with("stamp_ns", stamp_ns)
}

/// With what the packets have in common.
fn with_reasons(mut verdict: Verdict, speaks: &FoundTrace<'_>) -> Verdict {
    if let Some((modulus, remainder)) = speaks.found.class {
        verdict = verdict.with("modulus", modulus).with("remainder", remainder);
    }
    if matches!(speaks.place, Place::Interval | Place::Forced) {
        for (reason, count) in &speaks.of.reasons {
            verdict = verdict.with(&format!("intervals_{reason}"), *count);
        }
        if speaks.of.left_out > 0 {
            verdict = verdict.with("intervals_left_out", speaks.of.left_out);
        }
    }
    verdict
}

/// What was found, without figures.
fn what(trace: &FoundTrace<'_>) -> String {
    match (trace.place, trace.found.class) {
        (Place::First, _) => "tardy itself shows in the first packet of a trial".to_owned(),
        (Place::Last, _) => "tardy itself shows in the last packet of a trial".to_owned(),
        (Place::Interval, _) => "tardy itself shows in packets that were under way while it took stamps".to_owned(),
        (Place::Forced, _) => {
            "packets under way while tardy took stamps differ; what had held up the thread that took them may have held up these packets"
                .to_owned()
        }
        (Place::Residue, class) => {
            let (modulus, remainder) = class.unwrap_or((1, 0));
            let each = if modulus == 2 { "second".to_owned() } else { format!("{modulus}th") };
            format!("tardy itself shows in each {each} round trip (seq mod {modulus} = {remainder})")
        }
    }
}

/// Whom the affected packets are compared with.
fn beside(trace: &FoundTrace<'_>) -> &'static str {
    let by_others = batch_of(&trace.found).is_some_and(ResiduePool::compares_with_others);
    match (trace.place, by_others, trace.of.in_flight > 1) {
        (Place::First, ..) => "those after it",
        (Place::Last, ..) => "those before it",
        (Place::Interval | Place::Forced, ..) => "those next to them",
        (Place::Residue, true, false) => "the others",
        (Place::Residue, true, true) => "the others at their place in flight",
        (Place::Residue, false, false) => "all together",
        (Place::Residue, false, true) => "all at their place in flight",
    }
}

/// The place's name in the evidence.
fn position(place: Place) -> &'static str {
    match place {
        Place::First => "first",
        Place::Last => "last",
        Place::Interval => "interval",
        Place::Forced => "forced-interval",
        Place::Residue => "residue",
    }
}
