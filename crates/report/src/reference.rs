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
    /// The metrics that its figures are of.
    metrics: &'static [&'static str],
    rows: &'static [Row],
}

/// One condition, by the cell that is run for it. Times in µs.
struct Row {
    cell: &'static str,
    /// Least, mean, greatest and standard deviation of each metric.
    figures: &'static [[f64; 4]],
    transactions_s: Option<f64>,
    load: Option<Bulk>,
}

impl Row {
    /// Of a table of nothing but times.
    const fn times(cell: &'static str, figures: &'static [[f64; 4]]) -> Row {
        Row { cell, figures, transactions_s: None, load: None }
    }
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

const TABLES: [Reference; 3] = [R1, R2_LOAD, R3];

const R1: Reference = Reference {
    id: "R1",
    about: "launch time to receive time at the driver, every 500 µs, host to host; all but the first beside 3 netperf",
    metrics: &["scheduled..rx_kernel", "delta"],
    rows: &[
        Row::times("none-idle", &[[12.4, 12.7, 41.4, 0.5], [470.4, 500.0, 512.7, 0.9]]),
        Row::times("none-loaded", &[[46.5, 53.0, 84.9, 3.4], [453.1, 500.0, 521.9, 4.8]]),
        Row::times("none-loaded-again", &[[344.6, 1_086.0, 1_789.0, 201.7], [5.2, 500.0, 1_334.0, 286.4]]),
        Row::times("taprio-software", &[[13.2, 16.1, 458.2, 22.9], [55.0, 500.0, 944.5, 32.6]]),
        Row::times("assist-delta-200us", &[[986.7, 1_002.2, 1_275.6, 10.9], [225.0, 674.7, 7_501.3, 568.3]]),
        Row::times("assist-delta-2ms", &[[31.2, 1_002.8, 13_901.6, 142.3], [0.3, 502.6, 13_401.2, 140.3]]),
        Row::times("offload", &[[693.1, 1_955.6, 2_733.3, 396.0], [5.6, 499.9, 2_003.3, 595.6]]),
        Row::times("offload-again", &[[46.1, 52.5, 72.4, 3.2], [472.7, 500.0, 527.2, 4.8]]),
    ],
};

const R3: Reference = Reference {
    id: "R3",
    about: "mqprio with etf beside 3 netperf, host to host, NIC i225",
    metrics: &["scheduled..rx_kernel"],
    rows: &[Row::times("all", &[[39.3, 46.8, 49.8, 1.6]])],
};

const R2_LOAD: Reference = Reference {
    id: "R2-load",
    about: "netperf TCP_RR beside TCP_MAERTS, host to host, 5 s",
    metrics: &["send..reply_receive"],
    rows: &[
        Row { cell: "A-only", figures: &[[178.0, 200.32, 433.0, 9.14]], transactions_s: Some(4_982.983), load: None },
        Row {
            cell: "A-and-B-different-cpu",
            figures: &[[236.0, 967.62, 207_847.0, 9_249.30]],
            transactions_s: Some(1_029.038),
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
            figures: &[[214.0, 1_146.04, 207_362.0, 13_053.01]],
            transactions_s: Some(872.058),
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
};

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

const BULK: [&str; 4] = ["B Mbit/s", "B bytes", "B recvs (avg B)", "B sends (avg B)"];

impl Reference {
    /// True if its rows have more than times.
    fn has_rates(&self) -> bool {
        self.rows.iter().any(|row| row.transactions_s.is_some())
    }

    /// The titles of its table.
    fn head(&self) -> Vec<String> {
        let mut head = vec![String::new(), "of".to_owned()];
        for (n, metric) in self.metrics.iter().enumerate() {
            // The first metric is what the heading is of.
            let of = if n == 0 { String::new() } else { format!("{metric} ") };
            head.extend(["min", "avg", "max", "stddev"].map(|figure| format!("{of}{figure}")));
        }
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
}

/// This run's figures beside those of the reference that it names; `None` if it names none.
pub(crate) fn beside(picture: &Picture<'_>) -> Option<Beside> {
    let id = picture.facts.reference.as_deref()?;
    let reference = TABLES.iter().find(|table| table.id == id)?;
    let head = reference.head();
    let mut table = Table::new(2, &head.iter().map(String::as_str).collect::<Vec<_>>());
    for row in reference.rows {
        let cell = picture.results.cells.iter().find(|cell| cell.id == row.cell);
        table.rows.push(match cell {
            Some(cell) => ours(cell, reference),
            None => reference.line(title(row.cell), "this run, which has no such cell", std::iter::empty()),
        });
        table.rows.push(theirs(row, reference));
    }
    Some(Beside {
        heading: format!("Beside reference results {id}"),
        says: format!(
            "{}, in µs: {}. The figures of {id} come from other hardware and another tool; they stand here to be looked at and judge nothing.{}",
            reference.metrics.join(" and "),
            reference.about,
            if reference.has_rates() { " What B moved in this run is that of all valid trials together." } else { "" }
        ),
        table,
    })
}

/// The reference's own figures in words, a line a condition, for the terminal; with the name of the table.
pub(crate) fn told(picture: &Picture<'_>) -> Option<(&'static str, Vec<String>)> {
    let id = picture.facts.reference.as_deref()?;
    let reference = TABLES.iter().find(|table| table.id == id)?;
    let line = |row: &Row| {
        let figures = reference.metrics.iter().zip(row.figures).enumerate().map(|(n, (metric, figures))| {
            let [min, mean, max, stddev] = figures;
            let of = if n == 0 { String::new() } else { format!("{metric} ") };
            format!("{of}min {min} avg {mean} max {max} stddev {stddev} µs")
        });
        let rate = row.transactions_s.map(|rate| format!("{rate:.0} transactions/s"));
        let b = row.load.as_ref().map(|b| format!("B {:.0} Mbit/s", b.mbit_s));
        let parts: Vec<String> = figures.chain(rate).chain(b).collect();
        format!("{}: {}", title(row.cell), parts.join(", "))
    };
    let says = format!("{} of {}, on other hardware:", reference.metrics[0], reference.about);
    Some((reference.id, std::iter::once(says).chain(reference.rows.iter().map(line)).collect()))
}

fn ours(cell: &CellResult, reference: &Reference) -> Vec<String> {
    let stream = cell.streams.get("ctl").or_else(|| cell.streams.values().next());
    let none = || figure::ABSENT.to_owned();
    let mut figures = Vec::new();
    for metric in reference.metrics {
        let found = stream.and_then(|stream| stream.metrics.get(*metric)).filter(|metric| metric.count > 0);
        let ns = |of: fn(&MetricResult) -> Option<i64>| found.and_then(of).map_or_else(none, |ns| Unit::Us.fixed(ns));
        let mean =
            |of: fn(&MetricResult) -> Option<f64>| found.and_then(of).map_or_else(none, |ns| Unit::Us.fixed_f64(ns));
        figures.extend([
            ns(|m| m.figures.min_ns),
            mean(|m| m.figures.mean_ns),
            ns(|m| m.figures.max_ns),
            mean(|m| m.figures.stddev_ns),
        ]);
    }
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

fn theirs(row: &Row, reference: &Reference) -> Vec<String> {
    let mut figures: Vec<String> = row.figures.iter().flatten().map(|us| format!("{us}")).collect();
    figures.extend(row.transactions_s.map(|rate| format!("{rate}")));
    if let Some(b) = &row.load {
        figures.extend([
            format!("{:.2}", b.mbit_s),
            b.bytes.to_string(),
            format!("{} ({:.2})", b.receives, b.bytes_a_receive),
            format!("{} ({:.0})", b.sends, b.bytes_a_send),
        ]);
    }
    reference.line(String::new(), reference.id, figures.into_iter())
}
