// SPDX-License-Identifier: MIT OR Apache-2.0
//! Many cells: one row each to compare them, then only the verdicts that are not as they should be.

use super::cell::of_load;
use super::page::{Ink, Page, UNIT, columns, remark};
use crate::column::{Column, title, unit};
use crate::figure::{SPACE, Scale};
use crate::picture::{Bars, Picture};
use crate::summary::Remark;
use crate::{document, figure, summary};
use tardy_model::result::{CellResult, MetricResult, Results, StreamResult};
use tardy_model::verdict::Level;

const COLUMNS: [Column; 4] = [Column::Quantile(0), Column::Quantile(2), Column::Quantile(3), Column::Max];
const GAP: usize = 2;
const INDENT: usize = 2;
/// A sparkline is worth its place from this width on, and no wider than the other.
const SPARK: (usize, usize) = (12, 24);

struct Row<'a> {
    who: &'a str,
    cell: &'a CellResult,
    stream: &'a StreamResult,
    metric: Option<&'a MetricResult>,
    bars: Bars,
}

pub(super) fn draw(picture: &Picture<'_>, page: &mut Page) {
    let cells = &picture.results.cells;
    for (i, led) in document::by_lead(picture).into_iter().enumerate() {
        if i > 0 {
            page.blank();
        }
        table(picture, &led, page);
    }
    loads(cells, page);
    page.blank();
    for found in summary::early(picture).into_iter().chain(remarks(picture)) {
        remark(&found, 2, 11, page);
    }
}

/// What the loads of each cell did: it is what the cells differ by.
fn loads(cells: &[CellResult], page: &mut Page) {
    if cells.iter().any(|cell| !cell.loads.is_empty()) {
        page.blank();
    }
    for cell in cells {
        for (name, load) in &cell.loads {
            of_load(&format!("{}: {name}", title(&cell.id)), load, page);
        }
    }
}

fn table(picture: &Picture<'_>, led: &document::Led<'_>, page: &mut Page) {
    let (name, over) = (led.name, led.head());
    let several = picture.results.cells.iter().any(|cell| cell.streams.len() > 1);
    let mut rows: Vec<Row<'_>> = Vec::new();
    for &(cell, who, stream) in &led.rows {
        let bars = (picture.bars)(&cell.id, who, name);
        rows.push(Row { who, cell, stream, metric: stream.metrics.get(name), bars });
    }
    let unit = unit(rows.iter().filter_map(|row| Some((name, row.metric?))));
    let text = |row: &Row<'_>, column: Column| {
        row.metric.map_or(figure::ABSENT.to_owned(), |metric| column.value(metric).show(unit, Some(SPACE)))
    };
    let unsent = rows.iter().any(|row| row.stream.outcomes.not_sent > 0);
    let title_of_lost = if unsent { "lost  not_sent" } else { "lost" };
    let lost = |row: &Row<'_>| {
        // Of what never ran nothing is known.
        let ran = !row.cell.trials.is_empty();
        let counted = |n| if ran { figure::count(n, SPACE) } else { figure::ABSENT.to_owned() };
        let lost = counted(row.stream.outcomes.lost);
        if unsent { format!("{lost}  {:>8}", counted(row.stream.outcomes.not_sent)) } else { lost }
    };
    let width = |title: &str, shown: &dyn Fn(&Row<'_>) -> String| {
        rows.iter().map(|row| columns(&shown(row))).max().unwrap_or(0).max(columns(title)) + GAP
    };
    let mut shown = COLUMNS.map(|column| (column, width(column.title(), &|row| text(row, column)))).to_vec();
    let state = |row: &Row<'_>| judged(picture.results, row.cell);
    let states = width("", &|row| state(row).0.to_owned());
    let lost_width = width(title_of_lost, &lost);
    let fixed = |shown: &[(Column, usize)]| shown.iter().map(|c| c.1).sum::<usize>() + UNIT + lost_width + states;
    let longest = |labels: &[String]| labels.iter().map(|label| INDENT + columns(label)).max().unwrap_or(0);

    let named = |id: &str, who: &str| if several { format!("{id}  {who}") } else { id.to_owned() };
    let mut labels: Vec<String> = rows.iter().map(|row| named(&title(&row.cell.id), row.who)).collect();
    let mut most = page.width().saturating_sub(fixed(&shown));
    if longest(&labels) > most {
        // The keys are the same in every cell: named once, they make room for what differs.
        page.line(&format!("cells by {}", keys(&picture.results.cells[0].id)));
        labels = rows.iter().map(|row| named(&values(&row.cell.id), row.who)).collect();
    }
    // The median and the maximum stay; a table without its metric's name would not.
    while shown.len() > 2 && most < longest(&labels).max(columns(&over)) {
        shown.remove(shown.len() - 2);
        most = page.width().saturating_sub(fixed(&shown));
    }
    let label_width = longest(&labels).min(most).max(columns(&over));
    let room = page.width().saturating_sub(label_width + fixed(&shown) + GAP);
    let spark = if room >= SPARK.0 { room.min(SPARK.1) } else { 0 };
    let scale = Scale::over(rows.iter().flat_map(|row| row.bars.iter()));

    let mut head = format!("{over:<label_width$}");
    for (column, width) in &shown {
        head += &format!("{:>width$}", column.title());
    }
    page.line(&format!("{head}   {}{title_of_lost:>lost_width$}", unit.sign()));
    for (row, label) in rows.iter().zip(&labels) {
        let mut line = format!("{:INDENT$}{:<2$}", "", cut(label, label_width - INDENT), label_width - INDENT);
        for (column, width) in &shown {
            line += &format!("{:>width$}", text(row, *column));
        }
        line += &format!("{:UNIT$}{:>lost_width$}", "", lost(row));
        if let (true, Some(scale)) = (spark > 0, &scale) {
            line += &format!("  {}", figure::on(scale, &row.bars, spark));
        }
        match state(row) {
            ("", _) => page.line(&line),
            (state, ink) => page.line_with_end(&format!("{line}  "), state, ink),
        }
    }
}

/// What is wrong with a cell, in two words; nothing if nothing is.
fn judged(results: &Results, cell: &CellResult) -> (&'static str, Ink) {
    if cell.not_available.is_some() {
        ("not available", Ink::Plain)
    } else if !cell.valid {
        ("not valid", Ink::Bad)
    } else if results.expectations.iter().any(|e| e.cell == cell.id && e.met == Some(false)) {
        ("not met", Ink::Bad)
    } else {
        ("", Ink::Plain)
    }
}

fn cut(text: &str, width: usize) -> String {
    if columns(text) <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

/// `udp, block` of `port=udp,rx.wait=block`.
fn values(id: &str) -> String {
    id.split(',').map(|part| part.split_once('=').map_or(part, |(_, value)| value)).collect::<Vec<_>>().join(", ")
}

/// `port, rx.wait` of the same.
fn keys(id: &str) -> String {
    id.split(',').map(|part| part.split_once('=').map_or("case", |(key, _)| key)).collect::<Vec<_>>().join(", ")
}

/// What is more than a note, and why cells are not available.
fn remarks(picture: &Picture<'_>) -> Vec<Remark> {
    summary::common_remarks(picture, |cell, remark| remark.level >= Level::Warning || cell.not_available.is_some())
}
