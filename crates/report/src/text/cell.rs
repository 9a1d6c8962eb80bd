// SPDX-License-Identifier: MIT OR Apache-2.0
//! A cell's block: its metrics, the shape of the leading one, what became of the packets, what is
//! to be said, and where it ran.

use super::page::{Ink, Layout, Page, columns, indent, metric_label, remark, wrap};
use crate::column::{Column, digits, in_order, lead, received_only, run_digits, title};
use crate::figure::{Digits, SPACE, sparkline};
use crate::picture::Picture;
use crate::summary::Cells;
use crate::{column, copies, figure, loads, summary};
use tardy_model::expect::QUANTILES;
use tardy_model::result::{
    ABOVE_MINIMUM, CellResult, ClassResult, CpuPlacement, LoadResult, MetricResult, Outcomes, Placement,
    SoftirqPlacement, StreamResult,
};

/// Where the outcomes begin, if there is room.
const OUTCOMES: usize = 54;
const SPARK: usize = 40;
/// With less than this next to the outcomes no shape is visible: it gets a line of its own.
const LEAST_SPARK: usize = 16;
const LABEL: usize = 11;

pub(super) fn draw(picture: &Picture<'_>, layout: &Layout, page: &mut Page) {
    let cells = Cells::of(picture);
    let digits = run_digits(picture.results);
    for cell in &picture.results.cells {
        page.blank();
        block(picture, (&cells, digits), cell, layout, page);
    }
    legend(&picture.results.cells, page);
}

fn block(
    picture: &Picture<'_>,
    (cells, all): (&Cells<'_>, Digits),
    cell: &CellResult,
    layout: &Layout,
    page: &mut Page,
) {
    let heading = title(&cell.id);
    let passes = picture.facts.counts_passes;
    let titles =
        |label: &str| format!("{}   {}", layout.row(label, |c| c.title_of(passes).to_owned()), all.unit.sign());
    // Rows without a single trial would only say so over and over; the remark says why once.
    let rows = !cell.streams.is_empty() && !cell.trials.is_empty();
    if !rows {
        page.labelled(0, "", 0, &heading, Ink::Plain);
    } else if columns(&heading) <= layout.label {
        page.line(&titles(&heading));
    } else {
        page.labelled(0, "", 0, &heading, Ink::Plain);
        page.line(&titles(""));
    }
    let several = cell.streams.len() > 1;
    for (name, stream) in picture.facts.in_order(&cell.streams).into_iter().filter(|_| rows) {
        match picture.facts.pair(&cell.id, name) {
            _ if several => page.line(&format!("  {}", picture.facts.called(&cell.id, name))),
            Some(pair) => page.line(&format!("  {pair}")),
            None => {}
        }
        for (metric, result) in in_order(stream) {
            row(metric, result, indent(cell.streams.len()), all, layout, page);
        }
        unresolved(stream, indent(cell.streams.len()), layout, page);
        without_stamp(stream, indent(cell.streams.len()), layout, page);
        shape(picture, cell, name, stream, indent(cell.streams.len()), page);
        for (label, says) in stream.copy.iter().flat_map(|copy| copies::lines(copy, Some(SPACE))) {
            page.labelled(indent(cell.streams.len()), label, LABEL, &says, Ink::Plain);
        }
        let replies = summary::replies(stream, Some(SPACE));
        if !replies.is_empty() {
            page.labelled(indent(cell.streams.len()), "", 0, &replies.join("   "), Ink::Plain);
        }
    }
    for (name, load) in cell.loads.iter().filter(|_| rows) {
        of_load(name, load, page);
    }
    if rows {
        draw_classes(cell, page);
        draw_placement(cell, page);
    }
    let remarks = cells.remarks_below(cell);
    if !remarks.is_empty() && rows {
        page.blank();
    }
    for found in remarks {
        remark(&found, 2, LABEL, page);
    }
}

/// A load in a line, or in several that break between its figures and not in them.
pub(super) fn of_load(name: &str, load: &LoadResult, page: &mut Page) {
    let room = page.width().saturating_sub(2 + LABEL);
    let (mut label, mut line) = ("load", String::new());
    for part in loads::parts(name, load, Some(SPACE)) {
        if !line.is_empty() && columns(&line) + 2 + columns(&part) > room {
            page.labelled(2, label, LABEL, &std::mem::take(&mut line), Ink::Plain);
            label = "";
        }
        if !line.is_empty() {
            line.push_str("  ");
        }
        line.push_str(&part);
    }
    page.labelled(2, label, LABEL, &line, Ink::Plain);
}

fn row(name: &str, metric: &MetricResult, indent: usize, all: Digits, layout: &Layout, page: &mut Page) {
    let label = metric_label(name, indent);
    if let (0, Some(why)) = (metric.count, &metric.why) {
        absent(&label, why, indent, layout, page);
        return;
    }
    let digits = digits(metric, &Column::ALL, all);
    page.line(&layout.row(&label, |column| column.value(metric).show(digits, Some(SPACE))));
    if received_only(metric).is_some() {
        let label = format!("{:1$}received only", "", indent + 2);
        let text = |column: Column| column.received(metric).map_or(String::new(), |v| v.show(digits, Some(SPACE)));
        page.line(&layout.row(&label, text));
    }
    if let Some(bound_ns) = metric.clock_bound_ns {
        let above = name.ends_with(ABOVE_MINIMUM);
        let why = if above { figure::TWO_CLOCKS_DRIFT } else { figure::TWO_CLOCKS };
        let at = indent + if above { 4 } else { 2 };
        page.labelled(at, "", 0, &format!("± {}: {why}", figure::exact(bound_ns)), Ink::Plain);
    }
    if metric.negative > 0 {
        let what = match name.starts_with("scheduled..") {
            true => "before the schedule: early",
            false => "negative: a fault of a clock",
        };
        page.line(&format!("{:1$}{2} {what}", "", indent + 2, figure::count(metric.negative, SPACE)));
    }
    if let Some(why) = &metric.why {
        page.labelled(indent + 2, "", 0, why, Ink::Plain);
    }
}

/// Why a percentile in sight is a dash, once for all rows of a stream, which it names.
fn unresolved(stream: &StreamResult, indent: usize, layout: &Layout, page: &mut Page) {
    let measured: Vec<_> = in_order(stream).into_iter().filter(|(_, metric)| metric.count > 0).collect();
    // Percentiles that are dashes in the same rows are reported together.
    let mut dashed: Vec<(Vec<&str>, String)> = Vec::new();
    for (i, (stem, name, _)) in QUANTILES.into_iter().enumerate() {
        if !layout.columns.iter().any(|(column, _)| *column == Column::Quantile(i)) {
            continue;
        }
        let null = |metric: &MetricResult| {
            let stamped = !metric.between_ns.contains_key(name);
            stamped && metric.unresolved.iter().any(|null| null == stem || null == name)
        };
        let mut rows: Vec<String> =
            measured.iter().filter(|(_, metric)| null(metric)).map(|(row, _)| (*row).to_owned()).collect();
        if rows.len() == measured.len() && rows.len() > 1 {
            rows = vec!["every row".to_owned()];
        }
        let only = |metric: &MetricResult| received_only(metric).map(|only| only.as_array()[i].is_none());
        let rows_below: Vec<_> = measured
            .iter()
            .filter_map(|(row, m)| Some((row, only(m)? && !null(m) && !m.between_ns.contains_key(name))))
            .collect();
        if rows_below.len() > 1 && rows_below.iter().all(|(_, dash)| *dash) {
            rows.push("every row of received only".to_owned());
        } else {
            let dashes = rows_below.iter().filter(|(_, dash)| *dash);
            rows.extend(dashes.map(|(row, _)| format!("{row} received only")));
        }
        let rows = rows.join(", ");
        match dashed.iter_mut().find(|(_, same)| *same == rows) {
            _ if rows.is_empty() => {}
            Some((names, _)) => names.push(name),
            None => dashed.push((vec![name], rows)),
        }
    }
    if !dashed.is_empty() {
        let parts: Vec<String> =
            dashed.iter().map(|(names, rows)| format!("{} {} in {rows}", names.join(", "), figure::ABSENT)).collect();
        let why = format!("{}: {}", parts.join("; "), figure::FEW_EVENTS);
        page.labelled(indent, "", 0, &why, Ink::Dim);
    }
}

/// Which percentiles in sight are dashes for want of stamps, by row.
fn without_stamp(stream: &StreamResult, indent: usize, layout: &Layout, page: &mut Page) {
    let in_sight = |name: &str| {
        layout.columns.iter().any(|(column, _)| matches!(column, Column::Quantile(i) if QUANTILES[*i].1 == name))
    };
    let mut parts: Vec<String> = Vec::new();
    for (row, metric) in in_order(stream) {
        let names: Vec<&str> = metric.between_ns.keys().map(String::as_str).filter(|name| in_sight(name)).collect();
        if !names.is_empty() {
            parts.push(format!("{} {} in {row}", names.join(", "), figure::ABSENT));
        }
    }
    if !parts.is_empty() {
        page.labelled(indent, "", 0, &format!("{}: {}", parts.join("; "), figure::WITHOUT_STAMP), Ink::Dim);
    }
}

/// A metric that is not available: a dash under the first title and the reason next to it, or below
/// if that is too narrow.
fn absent(label: &str, why: &str, indent: usize, layout: &Layout, page: &mut Page) {
    let first = layout.columns.first().map_or(0, |column| column.1);
    let dash = format!("{label:<0$}{1:>first$}", layout.label, figure::ABSENT);
    let hang = columns(&dash) + 3;
    if page.width() < hang + 30 {
        page.line(&dash);
        page.labelled(indent + 2, "", 0, why, Ink::Plain);
        return;
    }
    for (i, text) in wrap(why, page.width() - hang).into_iter().enumerate() {
        page.line(&format!("{:<hang$}{text}", if i == 0 { &dash } else { "" }));
    }
}

/// The sparkline of the leading metric, named unless it is the usual one, and the outcomes.
fn shape(picture: &Picture<'_>, cell: &CellResult, name: &str, stream: &StreamResult, indent: usize, page: &mut Page) {
    let parts = outcomes(stream);
    let outcomes = parts.join("   ");
    let lead = lead(stream);
    let bars = lead.map(|metric| (picture.bars)(&cell.id, name, metric)).unwrap_or_default();
    let named = match lead {
        Some("scheduled..rx_kernel") | None => String::new(),
        Some(other) => format!("{other} "),
    };
    let start = OUTCOMES.min(page.width().saturating_sub(columns(&outcomes)));
    let used = indent + columns(&named);
    let room = start.saturating_sub(used + 3);
    let spark = |cells: usize| format!("{:indent$}{named}{}", "", sparkline(&bars, cells));
    if !bars.is_empty() && room >= LEAST_SPARK {
        page.line(&format!("{:<start$}{outcomes}", spark(SPARK.min(room))));
        return;
    }
    if !bars.is_empty() {
        page.line(&spark(SPARK.min(page.width().saturating_sub(used))));
    }
    if indent + columns(&outcomes) <= page.width() {
        page.labelled(indent, "", 0, &outcomes, Ink::Plain);
    } else {
        parts.iter().for_each(|part| page.labelled(indent, "", 0, part, Ink::Plain));
    }
}

/// What became of the packets, and how many of them have their stamps.
fn outcomes(stream: &StreamResult) -> [String; 2] {
    if let Some(passes) = copies::passes(stream, Some(SPACE)) {
        let not_done = format!("not_sent {}", figure::count(stream.outcomes.not_sent, SPACE));
        return [passes, not_done];
    }
    let Outcomes { lost, not_sent, early, late, duplicate, reordered, .. } = stream.outcomes;
    let bound = column::bound_of_lateness(stream).map(|ns| format!(" (± {})", figure::exact(ns)));
    let bound = bound.unwrap_or_default();
    let of = |name: &str, n: u64| if n > 0 && ["early", "late"].contains(&name) { &bound } else { "" };
    // Three are always shown, for their zero is news; the others when there is something.
    let counts = [
        ("lost", lost, true),
        ("not_sent", not_sent, false),
        ("early", early, false),
        ("late", late, true),
        ("duplicate", duplicate, false),
        ("reordered", reordered, true),
    ];
    let counts: Vec<String> = counts
        .into_iter()
        .filter(|(_, n, always)| *always || *n > 0)
        .map(|(name, n, _)| format!("{name} {}{}", figure::count(n, SPACE), of(name, n)))
        .collect();
    let stamps = match column::least_coverage(stream) {
        None => figure::ABSENT.to_owned(),
        Some((share, _)) if share >= 1.0 => figure::share(share),
        Some((share, metric)) => format!("{} ({metric})", figure::share(share)),
    };
    [counts.join("  "), format!("stamps {stamps}")]
}

/// Verdicts' labels stand as wide.
const CLASS_LABEL: usize = 11;

fn draw_classes(cell: &CellResult, page: &mut Page) {
    let (busy, idle): (Vec<&ClassResult>, Vec<&ClassResult>) =
        cell.classes.iter().partition(|class| class.judged + class.packets + class.drops > 0);
    for class in busy {
        let label = class.class.map_or("queue".to_owned(), |class| format!("class {class}"));
        page.labelled(2, &label, CLASS_LABEL, &parts(class).join("  "), super::page::Ink::Plain);
    }
    // A class that nothing came to has nothing else to tell, but that it is one.
    let idle: Vec<String> = idle.iter().filter_map(|class| class.class).map(|class| class.to_string()).collect();
    match &idle[..] {
        [] => {}
        [one] => page.labelled(2, &format!("class {one}"), CLASS_LABEL, "no packet", super::page::Ink::Dim),
        several => {
            page.labelled(
                2,
                "classes",
                CLASS_LABEL,
                &format!("{}: no packet", several.join(", ")),
                super::page::Ink::Dim,
            );
        }
    }
}

fn parts(class: &ClassResult) -> Vec<String> {
    let count = |n| figure::count(n, SPACE);
    let mut parts = Vec::new();
    if class.judged > 0 {
        parts.push(format!("inside {} of {}", count(class.inside), count(class.judged)));
        for (what, n) in [("early", class.early), ("late", class.late)] {
            parts.extend((n > 0).then(|| format!("{what} {}", count(n))));
        }
    }
    if !class.qdiscs.is_empty() {
        parts.push(format!(
            "{}: passed {}  dropped {}  overlimits {}",
            class.qdiscs.join(", "),
            count(class.packets),
            count(class.drops),
            count(class.overlimits)
        ));
    }
    parts
}

// Where a cell's threads ran, where its packets were taken in and what the CPUs did: few columns,
// below the cell.

const GAP: &str = "  ";
/// The first column is as wide as the longest name, but not wider.
const NAME: usize = 24;

fn draw_placement(cell: &CellResult, page: &mut Page) {
    if cell.placement.is_empty() {
        return;
    }
    page.blank();
    let waited = figure::about_all(cell.placement.iter().filter_map(|placement| placement.wait_ns));
    let threads = cell.placement.iter().map(|placement| thread(placement, &waited));
    let rows = threads.chain(cell.softirq.iter().map(softirq));
    table(["thread", "CPU", "ran on", "moved", "waited", "policy"], rows.collect(), page);
    let work = cell.cpus.iter().map(|cpu| {
        let count = |n| figure::count(n, SPACE);
        let name = format!("CPU {}", summary::cpu(cpu));
        [name, count(cpu.packets), count(cpu.net_rx), count(cpu.net_tx), count(cpu.interrupts), others(cpu)]
    });
    let work: Vec<_> = work.filter(|row| row[1..5].iter().any(|count| count != "0") || !row[5].is_empty()).collect();
    if !work.is_empty() {
        let has_others = work.iter().any(|row| !row[5].is_empty());
        let others = if has_others { "others" } else { "" };
        table(["did", "packets", "NET_RX", "NET_TX", "interrupts", others], work, page);
    }
    let machines: Vec<_> = summary::machines(cell).iter().map(|(what, count)| format!("{what} {count}")).collect();
    if !machines.is_empty() {
        page.labelled(
            2,
            "machines",
            11,
            &format!("{}  for each packet of the streams", machines.join("  ")),
            Ink::Plain,
        );
    }
}

/// What the columns mean that no other table has, once below all cells.
fn legend(cells: &[CellResult], page: &mut Page) {
    let ran = |cell: &&CellResult| !cell.placement.is_empty() && !cell.trials.is_empty() && !cell.streams.is_empty();
    if cells.iter().any(|cell| ran(&cell)) {
        page.blank();
        let says = "waited: ready to run while others had the CPU · did: what each CPU did while the trials ran";
        page.labelled(2, "", 0, says, Ink::Dim);
    }
}

/// Below this part of the time others are not named: a fiftieth is what a desktop's services take.
const TOLD: f64 = 0.02;

/// Who used the CPU apart from tardy and its loads; empty if they took little.
fn others(cpu: &CpuPlacement) -> String {
    let took = cpu.others_ns.filter(|ns| cpu.elapsed_ns > 0 && *ns as f64 >= cpu.elapsed_ns as f64 * TOLD);
    let Some(ns) = took else { return String::new() };
    let who = summary::users(cpu);
    let who = if who.is_empty() { String::new() } else { format!(": {}", who.join(", ")) };
    format!("{}{who}", summary::share_of(Some(ns), cpu.elapsed_ns))
}

fn list(cpus: &[u32]) -> String {
    match cpus {
        [] => figure::ABSENT.to_owned(),
        cpus => cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(","),
    }
}

fn thread(placement: &Placement, waited: impl Fn(i64) -> String) -> [String; 6] {
    let absent = || figure::ABSENT.to_owned();
    let mut policy = placement.policy_granted.clone();
    if placement.policy_granted != placement.policy_asked {
        policy += &format!(", not {}", placement.policy_asked);
    }
    if placement.memory_locked == Some(false) {
        policy += ", unlocked";
    }
    [
        summary::on_host(&placement.thread, placement.host.as_deref()),
        placement.cpu_asked.clone(),
        list(&placement.cpus_seen),
        placement.migrations.map_or_else(absent, |n| figure::count(n, SPACE)),
        placement.wait_ns.map_or_else(absent, waited),
        policy,
    ]
}

/// What the table shows of a station's softirq in place of a policy.
fn softirq(softirq: &SoftirqPlacement) -> [String; 6] {
    let by = match (softirq.by.as_str(), softirq.napi_switches) {
        ("napi", Some(switches)) => format!("NAPI threads, {} switches", figure::count(switches, SPACE)),
        ("napi", None) => "NAPI threads".to_owned(),
        ("irq", _) => "its interrupts".to_owned(),
        (other, _) => other.to_uppercase(),
    };
    let none = String::new;
    let station = summary::on_host(&softirq.station, softirq.host.as_deref());
    [format!("{station} softirq"), softirq.cpu_asked.clone(), list(&softirq.cpus_seen), none(), none(), by]
}

/// A row's first and last text begin at their left edge, figures end at their right one.
fn table(head: [&str; 6], rows: Vec<[String; 6]>, page: &mut Page) {
    let head = head.map(str::to_owned);
    let mut widths = [0; 6];
    for row in rows.iter().chain([&head]) {
        for (width, text) in widths.iter_mut().zip(row) {
            *width = (*width).max(columns(text));
        }
    }
    widths[0] = widths[0].clamp(10, NAME);
    // What is left of a line; a long policy is whole in the other formats.
    let room =
        page.width().saturating_sub(widths[..5].iter().map(|width| width + GAP.len()).sum::<usize>() + GAP.len());
    for row in [&head].into_iter().chain(&rows) {
        let figures = row.iter().zip(widths).skip(1).take(4).map(|(text, width)| format!("{text:>width$}"));
        let figures: Vec<String> = figures.collect();
        let (name, last) = (cut(&row[0], widths[0]), cut(&row[5], room));
        page.line(&format!("{GAP}{name:<width$}{GAP}{}{GAP}{last}", figures.join(GAP), width = widths[0]));
    }
}

/// The text within `width` columns.
fn cut(text: &str, width: usize) -> String {
    if columns(text) <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}
