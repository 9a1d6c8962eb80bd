// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reference results: tables that engineers measured by hand, on other hardware, shown next to a
//! run that names one. They never judge a run. A table is a constant in [`TABLES`];
//! `docs/reference-results.md` describes each.

use crate::block::{Block, Table};
use crate::column::{Column, digits, title};
use crate::copies;
use crate::figure::{self, Digits, Unit};
use crate::picture::Picture;
use tardy_model::result::{CellResult, LoadResult, MetricResult, StreamResult};
use tardy_model::stream::UNDER_TEST;

/// What is above and in the table of a run that names one.
pub(crate) struct Beside {
    pub heading: String,
    /// Whose figures the rows are.
    pub says: String,
    /// A row for each condition of the reference, behind this run's where it has such a cell.
    pub table: Table,
    /// What sets the two apart; empty if nothing is known to.
    pub note: &'static str,
}

impl Beside {
    /// As blocks of a document.
    pub fn blocks(self) -> Vec<Block> {
        let sentence = |text: String| Block::Sentence(String::new(), text);
        let mut blocks = vec![Block::Heading(2, self.heading), sentence(self.says), Block::Table(self.table)];
        blocks.extend(Some(self.note.to_owned()).filter(|note| !note.is_empty()).map(sentence));
        blocks
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

    /// True if it is of copies, whose figures are bandwidths.
    fn is_of_copies(&self) -> bool {
        self.metrics.is_empty()
    }

    /// True if the run has a cell of a row.
    fn has_cell(&self, row: &Row, picture: &Picture<'_>) -> bool {
        match row.cells.first().filter(|_| self.is_of_copies()) {
            Some(name) => copies::of_condition(picture, name).iter().any(Option::is_some),
            None => row.cell(picture).is_some(),
        }
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
        if reference.is_of_copies() {
            let cells = copies::of_condition(picture, row.cells.first().copied().unwrap_or_default());
            let mut label = row.title();
            let is_there = cells.iter().any(Option::is_some);
            for (of, figures) in copies::rows(cells).into_iter().filter(|_| is_there) {
                table.rows.push(reference.line(std::mem::take(&mut label), of, figures.into_iter()));
            }
            let of = if is_there { id.to_owned() } else { format!("{id}, {NO_CELL}") };
            table.rows.push(theirs(row, label, &of, reference));
            continue;
        }
        match row.cell(picture) {
            Some(cell) => {
                table.rows.push(ours(picture, cell, reference));
                // Where the cell has another name than the row, both are shown.
                let label = if row.cells.first() == Some(&cell.id.as_str()) { String::new() } else { row.title() };
                table.rows.push(theirs(row, label, reference.id, reference));
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
        note: reference.note,
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
        let whose = if reference.has_cell(row, picture) { String::new() } else { format!(" ({NO_CELL})") };
        format!("{}{whose}: {}", row.title(), parts.join(", "))
    };
    let of = reference.metrics.first().map_or_else(String::new, |metric| format!("{metric} of "));
    let says = format!("{of}{}, on other hardware:", reference.about);
    let note = Some(reference.note.to_owned()).filter(|note| !note.is_empty());
    Some((reference.id, std::iter::once(says).chain(reference.rows.iter().map(line)).chain(note).collect()))
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

// The figures of the reference results, as `docs/reference-results.md` has them. Whoever adds a
// table adds it to [`TABLES`].

pub(super) struct Reference {
    /// As `reference` names it.
    pub(super) id: &'static str,
    /// What it is of.
    pub(super) about: &'static str,
    pub(super) unit: Unit,
    /// The metrics that its times are of.
    pub(super) metrics: &'static [&'static str],
    /// What it has of each metric.
    pub(super) stats: &'static [Stat],
    /// What sets a run's figures apart from these; empty if nothing is known to.
    pub(super) note: &'static str,
    /// Figures that are no times and that no run has, by title.
    pub(super) others: &'static [&'static str],
    pub(super) rows: &'static [Row],
}

/// A figure of a metric.
#[derive(Clone, Copy)]
pub(super) enum Stat {
    Min,
    Mean,
    Max,
    Stddev,
}

/// What most tables have.
pub(super) const STATS: [Stat; 4] = [Stat::Min, Stat::Mean, Stat::Max, Stat::Stddev];

impl Stat {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Stat::Min => "min",
            Stat::Mean => "avg",
            Stat::Max => "max",
            Stat::Stddev => "stddev",
        }
    }

    pub(super) fn show(self, metric: &MetricResult, unit: Unit) -> Option<String> {
        let figures = &metric.figures;
        let columns = [Column::Min, Column::Mean, Column::Max, Column::Stddev];
        let digits = digits(metric, &columns, Digits::of(unit));
        match self {
            Stat::Min => figures.min_ns.map(|ns| digits.fixed(ns)),
            Stat::Max if metric.is_unbounded() => Some(figure::INFINITE.to_owned()),
            Stat::Max => figures.max_ns.map(|ns| digits.fixed(ns)),
            Stat::Mean => figures.mean_ns.map(|ns| digits.fixed_f64(ns)),
            Stat::Stddev => figures.stddev_ns.map(|ns| digits.fixed_f64(ns)),
        }
    }
}

pub(super) struct Row {
    /// The cell that is run for it; what else a cell may be called that is.
    pub(super) cells: &'static [&'static str],
    /// Each metric's, then the others.
    pub(super) figures: &'static [f64],
    pub(super) transactions_s: Option<f64>,
    pub(super) load: Option<Bulk>,
}

impl Row {
    pub(super) const fn of(cells: &'static [&'static str], figures: &'static [f64]) -> Row {
        Row { cells, figures, transactions_s: None, load: None }
    }

    pub(super) fn title(&self) -> String {
        self.cells.first().map_or_else(String::new, |name| title(name))
    }

    pub(super) fn cell<'a>(&self, picture: &Picture<'a>) -> Option<&'a CellResult> {
        let cells: &'a [CellResult] = &picture.results.cells;
        cells.iter().find(|cell| self.cells.contains(&cell.id.as_str()))
    }
}

/// What the bulk traffic did meanwhile.
pub(super) struct Bulk {
    pub(super) mbit_s: f64,
    pub(super) bytes: u64,
    pub(super) receives: u64,
    pub(super) bytes_a_receive: f64,
    pub(super) sends: u64,
    pub(super) bytes_a_send: f64,
}

pub(super) static TABLES: [Reference; 6] = [R1, R2, R2_LOAD, R3, R4, R5];

const R1: Reference = Reference {
    id: "R1",
    about: "launch time to receive time at the driver, every 500 µs, host to host; all but the first with 3 netperf",
    unit: Unit::Us,
    metrics: &["scheduled..rx_kernel", "delta"],
    stats: &STATS,
    note: "",
    others: &[],
    rows: &[
        Row::of(&["none-idle"], &[12.4, 12.7, 41.4, 0.5, 470.4, 500.0, 512.7, 0.9]),
        Row::of(&["none-loaded"], &[46.5, 53.0, 84.9, 3.4, 453.1, 500.0, 521.9, 4.8]),
        Row::of(&["none-loaded-again"], &[344.6, 1_086.0, 1_789.0, 201.7, 5.2, 500.0, 1_334.0, 286.4]),
        Row::of(&["taprio-software"], &[13.2, 16.1, 458.2, 22.9, 55.0, 500.0, 944.5, 32.6]),
        Row::of(&["assist-delta-200us"], &[986.7, 1_002.2, 1_275.6, 10.9, 225.0, 674.7, 7_501.3, 568.3]),
        Row::of(&["assist-delta-2ms"], &[31.2, 1_002.8, 13_901.6, 142.3, 0.3, 502.6, 13_401.2, 140.3]),
        Row::of(&["offload"], &[693.1, 1_955.6, 2_733.3, 396.0, 5.6, 499.9, 2_003.3, 595.6]),
        Row::of(&["offload-again"], &[46.1, 52.5, 72.4, 3.2, 472.7, 500.0, 527.2, 4.8]),
    ],
};

const R2: Reference = Reference {
    id: "R2",
    about: "netperf TCP_RR between two hosts and into a VM",
    unit: Unit::Us,
    metrics: &["send..reply_receive"],
    stats: &STATS,
    note: "",
    others: &[],
    rows: &[
        Row::of(&["host-to-host"], &[180.0, 203.0, 408.0, 8.5]),
        Row::of(&["vm-tap", "vm-bridge"], &[214.0, 254.0, 581.0, 14.2]),
        Row::of(&["vm-macvtap"], &[217.0, 244.0, 567.0, 13.0]),
        Row::of(&["vm-open-vswitch"], &[266.0, 291.0, 671.0, 13.3]),
        Row::of(&["vm-xdp"], &[221.0, 254.0, 571.0, 13.4]),
    ],
};

const R2_LOAD: Reference = Reference {
    id: "R2-load",
    about: "netperf TCP_RR with TCP_MAERTS, host to host, 5 s",
    unit: Unit::Us,
    metrics: &["send..reply_receive"],
    stats: &STATS,
    note: "",
    others: &[],
    rows: &[
        Row { cells: &["A-only"], figures: &[178.0, 200.32, 433.0, 9.14], transactions_s: Some(4_982.983), load: None },
        Row {
            cells: &["A-and-B-different-cpu"],
            figures: &[236.0, 967.62, 207_847.0, 9_249.30],
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
            cells: &["A-and-B-same-cpu"],
            figures: &[214.0, 1_146.04, 207_362.0, 13_053.01],
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

/// In software etf does not wait for the launch time itself.
const ETF_NOTE: &str = "etf in software hands each packet to the device `shaper.etf.delta` before its launch time, and a device that keeps \
                        no launch times sends it at once. So this run's figures are less than those of a device that keeps them, by delta in \
                        every row: compare the differences between rows. The row of XDP is that of a program that printed a line for each \
                        packet (bpf_printk) and added a VLAN tag.";

const R3: Reference = Reference {
    id: "R3",
    about: "mqprio with etf, with 3 netperf, one way between two hosts and into a VM, NIC i225",
    unit: Unit::Us,
    metrics: &["scheduled..rx_kernel"],
    stats: &STATS,
    note: ETF_NOTE,
    others: &[],
    rows: &[
        // An experiment of one condition has the one cell `all`.
        Row::of(&["host-to-host", "all"], &[39.3, 46.8, 49.8, 1.6]),
        Row::of(&["vfio-idle"], &[57.0, 62.7, 100.4, 4.0]),
        Row::of(&["macvtap"], &[92.5, 139.1, 275.4, 35.6]),
        Row::of(&["tap"], &[107.4, 228.8, 434.4, 70.4]),
        Row::of(&["open-vswitch"], &[212.6, 344.0, 612.8, 66.3]),
        // Its program printed a line for each packet (bpf_printk).
        Row::of(&["xdp-printk"], &[5_598.0, 6_586.0, 7_659.0, 390.3]),
    ],
};

const R4: Reference = Reference {
    id: "R4",
    about: "an AF_XDP application, by driver, system, wait and core; a wake-up is compared with this run's poll, \
            system B with a bound of 2 µs; RT1, on which no bound had an effect, with one of 0 µs",
    unit: Unit::Ns,
    metrics: &["rx_xdp..receive"],
    stats: &[Stat::Mean, Stat::Min, Stat::Max],
    note: "",
    others: &[],
    // The second name is that of the cell of `afxdp-delay` with the same wait, core and bound. On
    // RT1 no bound had an effect: its rows are next to the cells with the last one.
    rows: &[
        Row::of(&["igc-A-spin-same", "spin-same,dma_latency=default"], &[1_575.0, 849.0, 2_123.0]),
        Row::of(&["igc-A-spin-remote", "spin-remote,dma_latency=default"], &[2_639.0, 2_337.0, 4_019.0]),
        Row::of(&["igc-A-wakeup-same", "poll-same,dma_latency=default"], &[22_881.0, 21_190.0, 30_619.0]),
        Row::of(&["igc-A-wakeup-remote", "poll-remote,dma_latency=default"], &[50_353.0, 47_420.0, 56_156.0]),
        Row::of(&["igc-B-spin-same", "spin-same,dma_latency=2us"], &[1_402.0, 805.0, 2_867.0]),
        Row::of(&["igc-B-spin-remote", "spin-remote,dma_latency=2us"], &[1_056.0, 419.0, 2_798.0]),
        Row::of(&["igc-B-wakeup-same", "poll-same,dma_latency=2us"], &[3_177.0, 2_210.0, 9_136.0]),
        Row::of(&["igc-B-wakeup-remote", "poll-remote,dma_latency=2us"], &[4_095.0, 3_029.0, 10_595.0]),
        Row::of(&["igb-RT1-spin-same", "spin-same,dma_latency=0us"], &[2_577.0, 2_129.0, 4_155.0]),
        Row::of(&["igb-RT1-spin-remote", "spin-remote,dma_latency=0us"], &[788.0, 551.0, 1_473.0]),
        Row::of(&["igb-RT1-wakeup-same", "poll-same,dma_latency=0us"], &[6_209.0, 5_644.0, 8_178.0]),
        Row::of(&["igb-RT1-wakeup-remote", "poll-remote,dma_latency=0us"], &[5_239.0, 4_463.0, 7_390.0]),
    ],
};

/// The systems of R4, as the table of this run's own has them.
pub(crate) const SYSTEMS: [[&str; 8]; 3] = [
    ["R4, A", "E5-1650 v4 3.60 GHz", "5.15", "PREEMPT", "0, 2, 10, 40, 133", "default", "", ""],
    ["R4, B", "E5-1650 v4 3.60 GHz", "5.15", "PREEMPT", "0, 2, 10, 40, 133", "2us, and a profile of tuned", "", ""],
    ["R4, RT1", "i5-6500TE 2.30 GHz", "5.13-rt1", "PREEMPT_RT", "", "had no effect", "", ""],
];

/// What R4 says of the core with the smallest minimum.
pub(crate) const R4_DISAGREES: &str = "The systems of R4 have it in different cells: system A in spin on the same core (849 ns), systems B (419 ns) and \
                                       RT1 (551 ns) in spin on a remote core";

const R5: Reference = Reference {
    id: "R5",
    about: "Mbit/s of parallel copies by DMA as they were printed, from where to where, by bytes a buffer; the sum is unexplained",
    unit: Unit::Us,
    metrics: &[],
    stats: &[],
    note: "",
    others: &["not bound", "bound to isolated CPUs"],
    rows: &[
        Row::of(&["locked-locked-6580"], &[26_434.0, 33_006.0]),
        Row::of(&["locked-locked-6592"], &[53_186.0, 54_683.0]),
        Row::of(&["locked-unlocked-6580"], &[27_228.0, 26_993.0]),
        Row::of(&["locked-unlocked-6592"], &[55_489.0, 55_397.0]),
        Row::of(&["unlocked-unlocked-6580"], &[26_332.0, 26_663.0]),
        Row::of(&["unlocked-unlocked-6592"], &[55_332.0, 53_183.0]),
    ],
};
