// SPDX-License-Identifier: MIT OR Apache-2.0
//! Many cells: one row each to compare them, then only the verdicts that are not as they should be.

use super::cell::of_load;
use super::page::{Ink, Page, UNIT, columns, remark};
use crate::column::{Column, digits, in_unit, title, unit};
use crate::figure::{Digits, SPACE, Scale};
use crate::picture::{Bars, Picture};
use crate::summary::Remark;
use crate::{document, figure, summary};
use tardy_model::result::{CellResult, MetricResult, Results, StreamResult};
use tardy_model::verdict::Level;

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
    let over = led.head();
    let table = Table::of(picture, led);
    let layout = table.layout(columns(&over), page.width());
    if layout.keys_are_apart {
        page.line(&format!("cells by {}", keys(&picture.results.cells[0].id)));
    }
    let Layout { label_width, lost_width, .. } = layout;
    let mut head = format!("{over:<label_width$}");
    for (column, width) in &layout.shown {
        head += &format!("{:>width$}", column.title_of(picture.facts.counts_passes));
    }
    page.line(&format!("{head}   {}{:>lost_width$}", table.digits.unit.sign(), table.title_of_lost()));
    let scale = Scale::over(table.rows.iter().flat_map(|row| row.bars.iter()));
    for (row, label) in table.rows.iter().zip(&layout.labels) {
        let line = table.line(row, label, &layout, scale.as_ref());
        match table.state(row) {
            ("", _) => page.line(&line),
            (state, ink) => page.line_with_end(&format!("{line}  "), state, ink),
        }
    }
}

/// The rows of one metric, and how their figures are written.
struct Table<'a> {
    results: &'a Results,
    rows: Vec<Row<'a>>,
    digits: Digits,
    columns: Vec<Column>,
    /// Some packets were not sent: there is a column for them.
    unsent: bool,
}

/// What of a table has room on a page, and how wide it is.
struct Layout {
    /// The keys of the cells are named once, before the table.
    keys_are_apart: bool,
    labels: Vec<String>,
    label_width: usize,
    shown: Vec<(Column, usize)>,
    lost_width: usize,
    /// Width of the sparkline; 0 for none.
    spark: usize,
}

impl<'a> Table<'a> {
    fn of(picture: &Picture<'a>, led: &document::Led<'a>) -> Table<'a> {
        let row = |&(cell, who, stream): &document::CellRow<'a>| {
            let bars = (picture.bars)(&cell.id, who, led.name);
            Row { who, cell, stream, metric: stream.metrics.get(led.name), bars }
        };
        let rows: Vec<Row<'_>> = led.rows.iter().map(row).collect();
        let unit = unit(rows.iter().filter_map(|row| Some((led.name, row.metric?))));
        let digits = in_unit(&picture.results.fingerprint, unit);
        let columns = Column::few(rows.iter().filter_map(|row| row.metric));
        let unsent = rows.iter().any(|row| row.stream.outcomes.not_sent > 0);
        Table { results: picture.results, rows, digits, columns, unsent }
    }

    fn text(&self, row: &Row<'_>, column: Column) -> String {
        let show = |metric| column.value(metric).show(digits(metric, &self.columns, self.digits), Some(SPACE));
        row.metric.map_or(figure::ABSENT.to_owned(), show)
    }

    fn title_of_lost(&self) -> &'static str {
        if self.unsent { "lost  not_sent" } else { "lost" }
    }

    fn lost(&self, row: &Row<'_>) -> String {
        // Of what never ran nothing is known.
        let ran = !row.cell.trials.is_empty();
        let counted = |n| if ran { figure::count(n, SPACE) } else { figure::ABSENT.to_owned() };
        let lost = counted(row.stream.outcomes.lost);
        if self.unsent { format!("{lost}  {:>8}", counted(row.stream.outcomes.not_sent)) } else { lost }
    }

    fn state(&self, row: &Row<'_>) -> (&'static str, Ink) {
        judged(self.results, row.cell)
    }

    /// The labels of the rows, each made of its cell's by `of_cell`.
    fn labels(&self, of_cell: fn(&str) -> String) -> Vec<String> {
        let several = self.results.cells.iter().any(|cell| cell.streams.len() > 1);
        let named = |id: String, who: &str| if several { format!("{id}  {who}") } else { id };
        self.rows.iter().map(|row| named(of_cell(&row.cell.id), row.who)).collect()
    }

    /// Chooses labels and columns that `page_width` has room for.
    fn layout(&self, head_width: usize, page_width: usize) -> Layout {
        let width = |title: &str, shown: &dyn Fn(&Row<'_>) -> String| {
            self.rows.iter().map(|row| columns(&shown(row))).max().unwrap_or(0).max(columns(title)) + GAP
        };
        let sized = |column: Column| (column, width(column.title(), &|row| self.text(row, column)));
        let mut shown: Vec<(Column, usize)> = self.columns.iter().copied().map(sized).collect();
        // The maximum, and a bound.
        let last = shown.iter().filter(|(column, _)| matches!(column, Column::Max | Column::Bound)).count();
        let states = width("", &|row| self.state(row).0.to_owned());
        let lost_width = width(self.title_of_lost(), &|row| self.lost(row));
        let fixed = |shown: &[(Column, usize)]| shown.iter().map(|c| c.1).sum::<usize>() + UNIT + lost_width + states;
        let longest = |labels: &[String]| labels.iter().map(|label| INDENT + columns(label)).max().unwrap_or(0);

        let mut labels = self.labels(title);
        let mut most = page_width.saturating_sub(fixed(&shown));
        // The keys are the same in every cell: named once, they make room for what differs.
        let keys_are_apart = longest(&labels) > most;
        if keys_are_apart {
            labels = self.labels(values);
        }
        // The median and the maximum stay; a table without its metric's name would not.
        while shown.len() > 1 + last && most < longest(&labels).max(head_width) {
            shown.remove(shown.len() - 1 - last);
            most = page_width.saturating_sub(fixed(&shown));
        }
        let label_width = longest(&labels).min(most).max(head_width);
        let room = page_width.saturating_sub(label_width + fixed(&shown) + GAP);
        let spark = if room >= SPARK.0 { room.min(SPARK.1) } else { 0 };
        Layout { keys_are_apart, labels, label_width, shown, lost_width, spark }
    }

    /// A row without its state.
    fn line(&self, row: &Row<'_>, label: &str, layout: &Layout, scale: Option<&Scale>) -> String {
        let Layout { label_width, lost_width, spark, .. } = *layout;
        let mut line = format!("{:INDENT$}{:<2$}", "", cut(label, label_width - INDENT), label_width - INDENT);
        for (column, width) in &layout.shown {
            line += &format!("{:>width$}", self.text(row, *column));
        }
        line += &format!("{:UNIT$}{:>lost_width$}", "", self.lost(row));
        if let (true, Some(scale)) = (spark > 0, scale) {
            line += &format!("  {}", figure::on(scale, &row.bars, spark));
        }
        line
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
