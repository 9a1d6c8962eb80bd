// SPDX-License-Identifier: MIT OR Apache-2.0
//! Copies on the page: which thread copied when and where, how many did at once, and bandwidth over
//! the sizes of a buffer.

use super::budget::share;
use super::element::{figure, table};
use crate::column::title;
use crate::copies;
use crate::figure::THIN;
use crate::picture::Picture;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use tardy_analyze::copying::SIZE;
use tardy_analyze::copying::timeline::{CopyTimeline, PARTS, Slice, ThreadLine};
use tardy_analyze::envelope::Trace;

/// Slices of all threads in all trials together, and the most and least of one.
const SLICES: (usize, usize, usize) = (60_000, 240, 10);

/// How many slices each thread may have in each of these trials.
pub(super) fn slices(traces: &[Trace]) -> usize {
    share(SLICES, traces.iter().filter_map(|trace| Some(trace.copy.as_ref()?.threads.len())).sum())
}

/// A trial's threads: threes of the CPU (−1: in no pass), passes in thousandths, and thousandths of
/// the slice in a pass.
pub(super) fn timeline(of: &CopyTimeline, most: usize) -> Value {
    let of = of.joined(most);
    let every = of.every_ns.max(1);
    let three = |slice: &Slice| {
        let cpu = slice.cpu.map_or(-1, i64::from);
        let passes = slice.parts.saturating_mul(1_000) / PARTS;
        [cpu, i64::try_from(passes).unwrap_or(i64::MAX), slice.in_pass_ns.saturating_mul(1_000) / every]
    };
    let thread = |of: &ThreadLine| {
        let flat: Vec<i64> = of.slices.iter().flat_map(three).collect();
        // In a pass a thread may wait for a CPU: for how much of that time it had one.
        let in_pass_ns: i64 = of.slices.iter().map(|slice| slice.in_pass_ns).sum();
        let busy = (of.busy_ns.saturating_mul(1_000) / in_pass_ns.max(1)).min(1_000);
        json!({ "controller": of.controller, "channel": of.channel, "busy": busy, "slices": flat })
    };
    json!({ "every": every, "bytes": of.pass_bytes, "threads": of.threads.iter().map(thread).collect::<Vec<_>>() })
}

/// The pictures over time of a stream that is a copy.
pub(super) fn figures(traces: &[&Trace], place: &str) -> String {
    if traces.iter().all(|trace| trace.copy.is_none()) {
        return String::new();
    }
    figure("threads", place, "Threads", "who copied when, on which CPU")
        + &figure("at-once", place, "How many at once", "threads in a pass, and threads that had a CPU")
}

/// Bandwidth over the sizes of a buffer: a line for each set of cells that differ in nothing else;
/// `None` where there are no two sizes.
pub(super) fn sizes(picture: &Picture<'_>) -> Option<Value> {
    let mut lines: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    let mut parts = None;
    for cell in &picture.results.cells {
        let Some(of) = copies::of(cell).filter(|_| cell.axes.contains_key(SIZE)) else { continue };
        let others = cell.axes.iter().filter(|(key, _)| *key != SIZE);
        let name: Vec<String> = others.map(|(key, value)| format!("{key}={value}")).collect();
        let all = || of.trials_bytes_s.iter().copied();
        let (least, most) = (all().fold(of.wall_bytes_s, f64::min), all().fold(of.wall_bytes_s, f64::max));
        let mbit_s = |bytes_s: f64| (bytes_s * 8.0 / 1e6).round();
        let point = json!([of.buffer_bytes, mbit_s(of.wall_bytes_s), mbit_s(least), mbit_s(most), cell.valid]);
        lines.entry(title(&name.join(","))).or_default().push(point);
        parts = Some(of.sizes);
    }
    lines.retain(|_, points| points.len() > 1);
    let parts = parts.filter(|_| !lines.is_empty())?;
    let [l1, l2, l3] = parts.cache_bytes;
    let marks = [("page", parts.page_bytes), ("L1", l1), ("L2", l2), ("huge page", parts.huge_page_bytes), ("L3", l3)];
    let marks = marks.iter().filter(|(_, bytes)| *bytes > 0).map(|(name, bytes)| json!([bytes, name]));
    let each = |(name, points): (String, Vec<Value>)| json!({ "title": name, "points": points });
    Some(json!({ "lines": lines.into_iter().map(each).collect::<Vec<_>>(), "marks": marks.collect::<Vec<_>>() }))
}

/// How the threads of copies went together, where there are any.
pub(super) fn together(picture: &Picture<'_>, out: &mut String) {
    let Some(all) = copies::table(picture, Some(THIN)) else { return };
    *out += "<section class=\"cell\">\n<h2>Copies</h2>\n";
    *out += &table(&all, copies::SAYS);
    if sizes(picture).is_some() {
        *out += "<div class=\"figures\">\n";
        *out += &figure(
            "sizes",
            " class=\"wide\"",
            "Bandwidth over size",
            "over the wall time, Mbit/s by bytes of a buffer",
        );
        *out += "</div>\n";
    }
    *out += "</section>\n";
}
