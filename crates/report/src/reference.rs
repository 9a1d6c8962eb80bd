// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reference results: tables that engineers measured by hand, on other hardware, set beside a run that names one. They never judge
//! a run. A table is a constant here and a line in [`TABLES`]; `docs/reference-results.md` tells of each.

use crate::Picture;
use crate::column::title;
use crate::document::{Block, Table};
use crate::figure::{self, Unit};
use tardy_model::result::{CellResult, LoadResult, MetricResult};

/// A table.
struct Reference {
    /// As `reference` names it.
    id: &'static str,
    /// What it is of.
    about: &'static str,
    /// The metric that its figures are of.
    metric: &'static str,
    rows: &'static [Row],
}

/// One condition, by the cell that is run for it. Times in µs.
struct Row {
    cell: &'static str,
    min: f64,
    mean: f64,
    max: f64,
    stddev: f64,
    transactions_s: f64,
    load: Option<Bulk>,
}

/// What the bulk traffic beside it did.
struct Bulk {
    mbit_s: f64,
    bytes: u64,
    receives: u64,
    bytes_a_receive: f64,
    sends: u64,
    bytes_a_send: f64,
}

const TABLES: [Reference; 1] = [Reference {
    id: "R2-load",
    about: "netperf TCP_RR beside TCP_MAERTS, host to host, 5 s",
    metric: "send..reply_receive",
    rows: &[
        Row {
            cell: "A-only",
            min: 178.0,
            mean: 200.32,
            max: 433.0,
            stddev: 9.14,
            transactions_s: 4_982.983,
            load: None,
        },
        Row {
            cell: "A-and-B-different-cpu",
            min: 236.0,
            mean: 967.62,
            max: 207_847.0,
            stddev: 9_249.30,
            transactions_s: 1_029.038,
            load: Some(Bulk {
                mbit_s: 3_554.12,
                bytes: 2_221_363_768,
                receives: 43_814,
                bytes_a_receive: 50_699.86,
                sends: 135_712,
                bytes_a_send: 16_384.0,
            }),
        },
        Row {
            cell: "A-and-B-same-cpu",
            min: 214.0,
            mean: 1_146.04,
            max: 207_362.0,
            stddev: 13_053.01,
            transactions_s: 872.058,
            load: Some(Bulk {
                mbit_s: 2_574.55,
                bytes: 1_609_265_400,
                receives: 16_785,
                bytes_a_receive: 95_875.21,
                sends: 98_356,
                bytes_a_send: 16_384.0,
            }),
        },
    ],
}];

/// What stands above and in the table of a run that names one.
pub(crate) struct Beside {
    /// What it is.
    pub heading: String,
    /// Whose figures the second rows are.
    pub says: String,
    /// Two rows a condition: this run's, the reference's.
    pub table: Table,
}

impl Beside {
    /// As blocks of a document.
    pub fn blocks(self) -> [Block; 3] {
        [Block::Heading(2, self.heading), Block::Sentence(String::new(), self.says), Block::Table(self.table)]
    }
}

const HEAD: [&str; 11] = [
    "",
    "of",
    "min",
    "avg",
    "max",
    "stddev",
    "transactions/s",
    "B Mbit/s",
    "B bytes",
    "B recvs (avg B)",
    "B sends (avg B)",
];

/// This run's figures beside those of the reference that it names; `None` if it names none.
pub(crate) fn beside(picture: &Picture<'_>) -> Option<Beside> {
    let id = picture.facts.reference.as_deref()?;
    let reference = TABLES.iter().find(|table| table.id == id)?;
    let mut table = Table::new(2, &HEAD);
    for row in reference.rows {
        let cell = picture.results.cells.iter().find(|cell| cell.id == row.cell);
        table.rows.push(match cell {
            Some(cell) => ours(cell, reference.metric),
            None => line(title(row.cell), "this run, which has no such cell", std::iter::empty()),
        });
        table.rows.push(theirs(row, id));
    }
    Some(Beside {
        heading: format!("Beside reference results {id}"),
        says: format!(
            "{}, in µs: {}. The figures of {id} come from other hardware and another tool; they stand here to be looked at and judge nothing. What B moved in this run is that of all valid trials together.",
            reference.metric, reference.about
        ),
        table,
    })
}

/// The reference's own figures in words, a line a condition, for the terminal; with the name of the table.
pub(crate) fn told(picture: &Picture<'_>) -> Option<(&'static str, Vec<String>)> {
    let id = picture.facts.reference.as_deref()?;
    let reference = TABLES.iter().find(|table| table.id == id)?;
    let line = |row: &Row| {
        let b = row.load.as_ref().map_or(String::new(), |b| format!(", B {:.0} Mbit/s", b.mbit_s));
        format!(
            "{}: min {} avg {} max {} stddev {} µs, {:.0} transactions/s{b}",
            title(row.cell),
            row.min,
            row.mean,
            row.max,
            row.stddev,
            row.transactions_s
        )
    };
    let says = format!("{} of {}, on other hardware:", reference.metric, reference.about);
    Some((reference.id, std::iter::once(says).chain(reference.rows.iter().map(line)).collect()))
}

fn line(cell: String, of: &str, figures: impl Iterator<Item = String>) -> Vec<String> {
    let mut row: Vec<String> = [cell, of.to_owned()].into_iter().chain(figures).collect();
    row.resize(HEAD.len(), String::new());
    row
}

fn ours(cell: &CellResult, metric: &str) -> Vec<String> {
    let stream = cell.streams.get("ctl").or_else(|| cell.streams.values().next());
    let found = stream.and_then(|stream| stream.metrics.get(metric)).filter(|metric| metric.count > 0);
    let none = || figure::ABSENT.to_owned();
    let ns = |of: fn(&MetricResult) -> Option<i64>| found.and_then(of).map_or_else(none, |ns| Unit::Us.fixed(ns));
    let mean = |of: fn(&MetricResult) -> Option<f64>| found.and_then(of).map_or_else(none, |ns| Unit::Us.fixed_f64(ns));
    let rate = stream.and_then(|stream| stream.replies.as_ref()).and_then(|replies| replies.transactions_s);
    let mut figures = vec![
        ns(|m| m.figures.min_ns),
        mean(|m| m.figures.mean_ns),
        ns(|m| m.figures.max_ns),
        mean(|m| m.figures.stddev_ns),
        rate.map_or_else(none, |rate| format!("{rate:.3}")),
    ];
    if let Some(load) = cell.loads.values().next() {
        figures.extend(bulk(load));
    }
    line(title(&cell.id), if cell.valid { "this run" } else { "this run, NOT VALID" }, figures.into_iter())
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

fn theirs(row: &Row, id: &str) -> Vec<String> {
    let mut figures: Vec<String> = [row.min, row.mean, row.max, row.stddev].map(|us| format!("{us}")).into();
    figures.push(format!("{}", row.transactions_s));
    if let Some(b) = &row.load {
        figures.extend([
            format!("{:.2}", b.mbit_s),
            b.bytes.to_string(),
            format!("{} ({:.2})", b.receives, b.bytes_a_receive),
            format!("{} ({:.0})", b.sends, b.bytes_a_send),
        ]);
    }
    line(String::new(), id, figures.into_iter())
}
