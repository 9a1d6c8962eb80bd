// SPDX-License-Identifier: MIT OR Apache-2.0
//! A cell's block: its metrics, the shape of the leading one, what became of the packets, what is
//! to be said.

use super::layout::{Layout, indent};
use super::page::{Ink, Page, columns, remark, wrap};
use crate::column::{Column, cell_unit, in_order, lead, received_only, title};
use crate::figure::{SPACE, Unit};
use crate::picture::Picture;
use crate::sparkline::sparkline;
use crate::summary::Cells;
use crate::{column, figure, loads, summary};
use tardy_model::expect::QUANTILES;
use tardy_model::result::{CellResult, ClassResult, LoadResult, MetricResult, Outcomes, StreamResult};

/// Where the outcomes begin, if there is room.
const OUTCOMES: usize = 54;
const SPARK: usize = 40;
/// With less than this next to the outcomes no shape is visible: it gets a line of its own.
const LEAST_SPARK: usize = 16;
const LABEL: usize = 11;

pub(super) fn draw(picture: &Picture<'_>, layout: &Layout, page: &mut Page) {
    let cells = Cells::of(picture);
    for cell in &picture.results.cells {
        page.blank();
        block(picture, &cells, cell, layout, page);
    }
    super::placement::legend(&picture.results.cells, page);
}

fn block(picture: &Picture<'_>, cells: &Cells<'_>, cell: &CellResult, layout: &Layout, page: &mut Page) {
    let unit = cell_unit(cell);
    let heading = title(&cell.id);
    let titles = |label: &str| format!("{}   {}", layout.row(label, |c| c.title().to_owned()), unit.sign());
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
        if several {
            page.line(&format!("  {name}"));
        }
        for (metric, result) in in_order(stream) {
            row(metric, result, indent(cell.streams.len()), unit, layout, page);
        }
        unresolved(stream, indent(cell.streams.len()), layout, page);
        without_stamp(stream, indent(cell.streams.len()), layout, page);
        shape(picture, cell, name, stream, indent(cell.streams.len()), page);
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
        super::placement::draw(cell, page);
    }
    let remarks = cells.remarks(cell);
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

fn row(name: &str, metric: &MetricResult, indent: usize, unit: Unit, layout: &Layout, page: &mut Page) {
    let label = format!("{:indent$}{name}", "");
    if let (0, Some(why)) = (metric.count, &metric.why) {
        absent(&label, why, indent, layout, page);
        return;
    }
    page.line(&layout.row(&label, |column| column.value(metric).show(unit, Some(SPACE))));
    if received_only(metric).is_some() {
        let label = format!("{:1$}received only", "", indent + 2);
        let text = |column: Column| column.received(metric).map_or(String::new(), |v| v.show(unit, Some(SPACE)));
        page.line(&layout.row(&label, text));
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
    let Outcomes { lost, not_sent, early, late, duplicate, reordered, .. } = stream.outcomes;
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
        .map(|(name, n, _)| format!("{name} {}", figure::count(n, SPACE)))
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
