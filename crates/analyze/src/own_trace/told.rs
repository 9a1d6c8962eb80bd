// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces of tardy in words: one verdict for each stream and kind of place, of which the clearest
//! metric speaks.

use super::cell::StreamTrace;
use super::{Difference, ID, MOST_P, Place};
use crate::says;
use std::collections::BTreeMap;
use tardy_model::point::Metric;
use tardy_model::verdict::{Figure, Level, Verdict};

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

/// The verdicts. The gravest come first.
pub(super) fn verdicts(traces: Vec<FoundTrace<'_>>, tests: u64, stamp_ns: i64) -> Vec<Verdict> {
    let mut groups: BTreeMap<(&str, Place), Vec<FoundTrace<'_>>> = BTreeMap::new();
    for trace in traces {
        groups.entry((trace.stream, trace.place)).or_default().push(trace);
    }
    let mut verdicts: Vec<Verdict> = groups.values().filter_map(|group| of_group(group, tests, stamp_ns)).collect();
    verdicts.sort_by_key(|verdict| std::cmp::Reverse(verdict.level));
    verdicts
}

fn of_group(group: &[FoundTrace<'_>], tests: u64, stamp_ns: i64) -> Option<Verdict> {
    let ratio = |trace: &FoundTrace<'_>| {
        let others = trace.found.others_ns.unsigned_abs().max(1);
        trace.found.difference_ns.unsigned_abs() as f64 / others as f64
    };
    // The one that moves the most figures speaks.
    let worth = |trace: &FoundTrace<'_>| (trace.spoils.len(), ratio(trace));
    let speaks = group.iter().max_by(|a, b| {
        let ((a, a_ratio), (b, b_ratio)) = (worth(a), worth(b));
        a.cmp(&b).then(a_ratio.total_cmp(&b_ratio))
    })?;
    let found = &speaks.found;
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
    let more = |names: &[String], one: &str, many: &str| match names.len() - 1 {
        0 => String::new(),
        more => format!(" and in {}", says::count(more as u64, one, many)),
    };
    let (others, cells_too) = (more(&metrics, "more metric", "more metrics"), more(&cells, "more cell", "more cells"));
    let figures = if spoils.is_empty() {
        "no printed figure moves by it".to_owned()
    } else {
        format!("do not use {}", says::list(&spoils))
    };
    let says = format!(
        "{}: {}: {} takes {} where {} take {} ({} in {}, p = {:.0e}){others}{cells_too}; {figures}",
        speaks.stream,
        what(speaks),
        speaks.metric,
        says::time(found.affected_ns),
        beside(speaks.place),
        says::time(found.others_ns),
        says::count(found.packets, "packet", "packets"),
        speaks.cell,
        speaks.p_value.max(f64::MIN_POSITIVE),
    );
    let list = |names: Vec<String>| Figure::List(names.into_iter().map(Figure::from).collect());
    let mut verdict = Verdict::new(ID, level, says)
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
        .with("metrics", list(metrics))
        .with("cells", list(cells))
        .with("spoils", list(spoils));
    if let Some((modulus, remainder)) = found.class {
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
    Some(verdict)
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
            format!("tardy itself shows in each {modulus}th round trip (seq mod {modulus} = {remainder})")
        }
    }
}

/// Whom the affected packets are compared with.
fn beside(place: Place) -> &'static str {
    match place {
        Place::First => "those behind it",
        Place::Last => "those before it",
        Place::Interval | Place::Forced => "those beside them",
        Place::Residue => "all together",
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
