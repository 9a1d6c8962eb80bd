// SPDX-License-Identifier: MIT OR Apache-2.0
//! What receivers through AF_XDP cost and what they know, cell by cell: CPU time, idle time and
//! wake-ups of the receiving thread, and by how much `receive` misses the arrival time that the
//! XDP program gives with each packet. A program that has the program's stamp knows that time
//! exactly, however it waits; one that has not takes `receive` for it.

use crate::block::Table;
use crate::column::title;
use crate::figure;
use crate::picture::Picture;
use tardy_model::point::{Metric, Point};
use tardy_model::result::{CellResult, MetricResult, Placement};

/// What the table is about.
pub(crate) const SAYS: &str = "receivers through AF_XDP: their thread's time, and how far receive is from the arrival \
                               time that the XDP program gave (rx_xdp..receive)";

/// A row for each stream that an XDP program stamps; `None` where there is none, and in runs of
/// versions that did not keep it.
pub(crate) fn table(picture: &Picture<'_>, separator: Option<char>) -> Option<Table> {
    let off = Metric::Span(Point::RxXdp, Point::Receive).to_string();
    let mut table = Table::new(1, &["receiver", "CPU", "idle", "wake-ups", "packets each", "off p50", "off p99"]);
    for cell in &picture.results.cells {
        for (name, stream) in picture.facts.in_order(&cell.streams) {
            let metric = stream.metrics.get(&off).filter(|metric| metric.count > 0);
            let thread = cell.placement.iter().find(|of| of.thread.strip_suffix(".rx") == Some(name));
            let (Some(metric), Some(thread)) = (metric, thread) else { continue };
            let received = stream.outcomes.received;
            table.rows.extend(row(cell, (name, cell.streams.len() > 1), thread, (metric, received), separator));
        }
    }
    (!table.rows.is_empty()).then_some(table)
}

fn row(
    cell: &CellResult,
    (name, is_one_of_several): (&str, bool),
    thread: &Placement,
    (metric, received): (&MetricResult, u64),
    separator: Option<char>,
) -> Option<Vec<String>> {
    let over_ns = thread.over_ns.filter(|ns| *ns > 0)?;
    let (wakeups, absent) = (thread.wakeups?, || figure::ABSENT.to_owned());
    let share = |ns: i64| figure::share(ns as f64 / over_ns as f64);
    let idle = thread.run_ns.zip(thread.wait_ns).map(|(ran, waited)| (over_ns - ran - waited).max(0));
    let count = |n: u64| separator.map_or_else(|| n.to_string(), |separator| figure::count(n, separator));
    let each = (wakeups > 0).then(|| format!("{:.1}", received as f64 / wakeups as f64));
    let ns = |ns: Option<i64>| ns.map_or_else(absent, figure::about);
    let of = title(&cell.id);
    Some(vec![
        if is_one_of_several { format!("{of}: {name}") } else { of },
        thread.run_ns.map_or_else(absent, share),
        idle.map_or_else(absent, share),
        count(wakeups),
        each.unwrap_or_else(absent),
        ns(metric.figures.quantiles.p50_ns),
        ns(metric.figures.quantiles.p99_ns),
    ])
}
