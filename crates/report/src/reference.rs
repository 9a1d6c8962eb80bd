// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reference results: tables that engineers measured by hand, on other hardware, shown next to a
//! run that names one. They never judge a run. A table is a constant in [`tables`];
//! `docs/reference-results.md` describes each.

mod tables;

use crate::block::{Block, Table};
use crate::column::title;
use crate::figure;
use crate::picture::Picture;
use tables::{Reference, Row, Stat, TABLES};
use tardy_model::result::{CellResult, LoadResult, StreamResult};
use tardy_model::stream::UNDER_TEST;

/// What stands above and in the table of a run that names one.
pub(crate) struct Beside {
    pub heading: String,
    /// Whose figures the rows are.
    pub says: String,
    /// A row for each condition of the reference, behind this run's where it has such a cell.
    pub table: Table,
}

impl Beside {
    /// As blocks of a document.
    pub fn blocks(self) -> [Block; 3] {
        [Block::Heading(2, self.heading), Block::Sentence(String::new(), self.says), Block::Table(self.table)]
    }
}

const BULK: [&str; 4] = ["B Mbit/s", "B bytes", "B recvs (avg B)", "B sends (avg B)"];
const NO_CELL: &str = "no cell of this run";

impl Reference {
    /// The table that a run names.
    fn of(picture: &Picture<'_>) -> Option<&'static Reference> {
        let id = picture.facts.reference.as_deref()?;
        TABLES.iter().find(|table| table.id == id)
    }

    /// True if its rows have more than times.
    fn has_rates(&self) -> bool {
        self.rows.iter().any(|row| row.transactions_s.is_some())
    }

    /// The titles of a row's figures.
    fn titles(&self) -> Vec<String> {
        let of_metric = |(n, metric): (usize, &&str)| {
            // The first metric is what the heading is of.
            let of = if n == 0 { String::new() } else { format!("{metric} ") };
            self.stats.iter().map(|stat| format!("{of}{}", stat.name())).collect::<Vec<_>>()
        };
        let metrics = self.metrics.iter().enumerate().flat_map(of_metric);
        metrics.chain(self.others.iter().map(|title| (*title).to_owned())).collect()
    }

    /// The titles of its table.
    fn head(&self) -> Vec<String> {
        let mut head = vec![String::new(), "of".to_owned()];
        head.extend(self.titles());
        if self.has_rates() {
            head.push("transactions/s".to_owned());
            head.extend(BULK.map(str::to_owned));
        }
        head
    }

    /// A row, filled up to the table's width.
    fn line(&self, cell: String, of: &str, figures: impl Iterator<Item = String>) -> Vec<String> {
        let mut row: Vec<String> = [cell, of.to_owned()].into_iter().chain(figures).collect();
        row.resize(self.head().len(), String::new());
        row
    }

    /// What the figures are of, in what.
    fn of_what(&self) -> String {
        match self.metrics {
            [] => self.about.to_owned(),
            metrics => format!("{}, in {}: {}", metrics.join(" and "), self.unit.sign(), self.about),
        }
    }
}

/// This run's figures next to those of the reference that it names; `None` if it names none.
pub(crate) fn beside(picture: &Picture<'_>) -> Option<Beside> {
    let reference = Reference::of(picture)?;
    let id = reference.id;
    let head = reference.head();
    let mut table = Table::new(2, &head.iter().map(String::as_str).collect::<Vec<_>>());
    for row in reference.rows {
        match row.cell(picture) {
            Some(cell) => {
                table.rows.push(ours(picture, cell, reference));
                table.rows.push(theirs(row, String::new(), reference.id, reference));
            }
            None => table.rows.push(theirs(row, row.title(), &format!("{id}, {NO_CELL}"), reference)),
        }
    }
    Some(Beside {
        heading: format!("Compared with reference results {id}"),
        says: format!(
            "{}. The figures of {id} come from other hardware and another tool; they stand here to be looked at and judge nothing.{}",
            reference.of_what(),
            if reference.has_rates() { " What B moved in this run is that of all valid trials together." } else { "" }
        ),
        table,
    })
}

/// The reference's own figures in words, a line a condition, for the terminal; with the name of
/// the table.
pub(crate) fn own_figures(picture: &Picture<'_>) -> Option<(&'static str, Vec<String>)> {
    let reference = Reference::of(picture)?;
    let unit = reference.unit.sign();
    let each = reference.stats.len().max(1);
    let line = |row: &Row| {
        let (times, others) = row.figures.split_at(row.figures.len() - reference.others.len());
        let metrics = times.chunks(each).zip(reference.metrics).enumerate().map(|(n, (figures, metric))| {
            let figures = reference.stats.iter().zip(figures).map(|(stat, n)| format!("{} {n}", stat.name()));
            let figures = figures.collect::<Vec<_>>().join(" ");
            if n == 0 { format!("{figures} {unit}") } else { format!("{metric} {figures} {unit}") }
        });
        let others = reference.others.iter().zip(others).map(|(title, n)| format!("{title} {n}"));
        let rate = row.transactions_s.map(|rate| format!("{rate:.0} transactions/s"));
        let b = row.load.as_ref().map(|b| format!("B {:.0} Mbit/s", b.mbit_s));
        let parts: Vec<String> = metrics.chain(others).chain(rate).chain(b).collect();
        let whose = if row.cell(picture).is_some() { String::new() } else { format!(" ({NO_CELL})") };
        format!("{}{whose}: {}", row.title(), parts.join(", "))
    };
    let of = reference.metrics.first().map_or_else(String::new, |metric| format!("{metric} of "));
    let says = format!("{of}{}, on other hardware:", reference.about);
    Some((reference.id, std::iter::once(says).chain(reference.rows.iter().map(line)).collect()))
}

fn ours(picture: &Picture<'_>, cell: &CellResult, reference: &Reference) -> Vec<String> {
    let first = || picture.facts.in_order(&cell.streams).first().map(|(_, stream)| *stream);
    let stream: Option<&StreamResult> = cell.streams.get(UNDER_TEST).or_else(first);
    let none = || figure::ABSENT.to_owned();
    let mut figures = Vec::new();
    for metric in reference.metrics {
        let found = stream.and_then(|stream| stream.metrics.get(*metric)).filter(|metric| metric.count > 0);
        let show = |stat: &Stat| found.and_then(|metric| stat.show(metric, reference.unit)).unwrap_or_else(none);
        figures.extend(reference.stats.iter().map(show));
    }
    figures.extend(reference.others.iter().map(|_| none()));
    if reference.has_rates() {
        let rate = stream.and_then(|stream| stream.replies.as_ref()).and_then(|replies| replies.transactions_s);
        figures.push(rate.map_or_else(none, |rate| format!("{rate:.3}")));
        if let Some(load) = cell.loads.values().next() {
            figures.extend(bulk(load));
        }
    }
    let of = if cell.valid { "this run" } else { "this run, NOT VALID" };
    reference.line(title(&cell.id), of, figures.into_iter())
}

fn bulk(load: &LoadResult) -> [String; 4] {
    let calls = |calls: Option<u64>, mean: Option<f64>| match calls.zip(mean) {
        Some((calls, mean)) => format!("{calls} ({mean:.2})"),
        None => figure::ABSENT.to_owned(),
    };
    [
        format!("{:.2}", load.achieved_bit_s / 1e6),
        load.bytes.to_string(),
        calls(load.receives, load.bytes_a_receive),
        calls(load.sends, load.bytes_a_send),
    ]
}

fn theirs(row: &Row, label: String, of: &str, reference: &Reference) -> Vec<String> {
    let mut figures: Vec<String> = row.figures.iter().map(|figure| format!("{figure}")).collect();
    figures.extend(row.transactions_s.map(|rate| format!("{rate}")));
    if let Some(b) = &row.load {
        figures.extend([
            format!("{:.2}", b.mbit_s),
            b.bytes.to_string(),
            format!("{} ({:.2})", b.receives, b.bytes_a_receive),
            format!("{} ({:.0})", b.sends, b.bytes_a_send),
        ]);
    }
    reference.line(label, of, figures.into_iter())
}
