// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ways into a virtual machine next to each other: a row for each cell, a column for each stage
//! that all of them have, and what each takes longer than the base, which is the first cell without
//! a machine. And what the machine did for each packet.

use crate::block::{Block, Table};
use crate::column::{in_order, title, unit};
use crate::figure::{self, Digits};
use crate::picture::Picture;
use crate::summary;
use std::collections::BTreeSet;
use std::str::FromStr;
use tardy_model::point::Metric;
use tardy_model::result::{CellResult, MetricResult, StreamResult};
use tardy_model::stream::UNDER_TEST;

pub(crate) const HEADING: &str = "Stages by path";
/// Above the column of differences.
const MORE: &str = "+";

struct Row<'a> {
    cell: &'a CellResult,
    stream: &'a StreamResult,
}

/// The table, and what is to be said of it.
pub(crate) struct StagesByPath {
    pub says: String,
    pub table: Table,
    /// Columns of each stage: the first one has its name.
    pub pairs: usize,
}

/// Of a run with cells that have a virtual machine, and others.
pub(crate) fn of(picture: &Picture<'_>, separator: Option<char>) -> Option<StagesByPath> {
    let rows = rows(picture);
    let base = rows.iter().find(|row| !has_machine(picture, row.cell))?;
    if !rows.iter().any(|row| has_machine(picture, row.cell)) {
        return None;
    }
    let is_everywhere = |name: &str| rows.iter().all(|row| median(row.stream, name).is_some());
    let stages: Vec<&str> = in_order(base.stream).into_iter().map(|(name, _)| name).collect();
    let stages: Vec<&str> = stages.into_iter().filter(|name| is_stage(name) && is_everywhere(name)).collect();
    if stages.is_empty() {
        return None;
    }
    let all = || rows.iter().flat_map(|row| stages.iter().filter_map(|name| row.stream.metrics.get_key_value(*name)));
    let of_all = all().map(|(name, metric): (&String, &MetricResult)| (&**name, metric));
    let digits = crate::column::in_unit(&picture.results.fingerprint, unit(of_all));
    let counts = counts(&rows);
    let head = stages.iter().flat_map(|name| [*name, MORE]).chain(counts.iter().map(|what| &**what));
    let mut table = Table::new(2, &["cell", "valid"].into_iter().chain(head).collect::<Vec<_>>());
    for row in &rows {
        let mut line = vec![title(&row.cell.id), summary::usable(row.cell).to_owned()];
        for name in &stages {
            let ns = median(row.stream, name);
            line.push(ns.map_or(figure::ABSENT.to_owned(), |ns| shown(digits, separator, ns)));
            let more = ns.zip(median(base.stream, name)).map(|(ns, base)| ns.saturating_sub(base));
            let more = more.filter(|_| same_points(name, row.stream, base.stream));
            line.push(match more {
                _ if std::ptr::eq(row.cell, base.cell) => String::new(),
                Some(more) if more > 0 => format!("+{}", shown(digits, separator, more)),
                Some(more) => shown(digits, separator, more),
                None => figure::ABSENT.to_owned(),
            });
        }
        let of_cell = of_machine(row.cell);
        let count = |what: &String| of_cell.iter().find(|(known, _)| known == what).map(|(_, count)| count.clone());
        line.extend(counts.iter().map(|what| count(what).unwrap_or_else(|| figure::ABSENT.to_owned())));
        table.rows.push(line);
    }
    let name = title(&base.cell.id);
    let says = format!(
        "Median of each stage, in {}, and next to it what it takes more than in {name}. Medians of stages do not add up to that \
         of the whole. No stamp is taken between the two sides of a machine's boundary: the stage that crosses it has uplink, \
         path, and vhost or QEMU in it.{}",
        digits.unit.sign(),
        if counts.is_empty() { "" } else { " The last columns count what happened for each packet, loads' too." }
    );
    Some(StagesByPath { says, table, pairs: stages.len() })
}

/// As blocks of a document; none where no cell has a machine, or all have.
pub(crate) fn blocks(picture: &Picture<'_>) -> Vec<Block> {
    let Some(StagesByPath { says, table, .. }) = of(picture, None) else { return Vec::new() };
    vec![Block::Heading(2, HEADING.to_owned()), Block::Sentence(String::new(), says), Block::Table(table)]
}

/// The stream under test of each cell that ran.
fn rows<'a>(picture: &Picture<'a>) -> Vec<Row<'a>> {
    let cells: &'a [CellResult] = &picture.results.cells;
    let ran = cells.iter().filter(|cell| !cell.trials.is_empty());
    let row = |cell: &'a CellResult| {
        let first = || picture.facts.in_order(&cell.streams).first().map(|(_, stream)| *stream);
        Some(Row { cell, stream: cell.streams.get(UNDER_TEST).or_else(first)? })
    };
    // A stream that got nothing through has no stage, and would take the others' away.
    ran.filter_map(row).filter(|row| row.stream.metrics.values().any(|metric| metric.count > 0)).collect()
}

/// True if a station of the cell is a virtual machine of the run.
fn has_machine(picture: &Picture<'_>, cell: &CellResult) -> bool {
    let is_guest = |host: &String| picture.manifest.hosts.get(host).is_some_and(|of| of.parent.is_some());
    cell.cpus.iter().any(|cpu| cpu.host.as_ref().is_some_and(is_guest))
}

fn is_stage(name: &str) -> bool {
    Metric::from_str(name).is_ok_and(|metric| matches!(metric, Metric::Span(..)))
}

fn median(stream: &StreamResult, name: &str) -> Option<i64> {
    stream.metrics.get(name).filter(|metric| metric.count > 0)?.figures.quantiles.as_array()[0]
}

/// `rx_kernel` is taken at one of several places on the way.
fn same_points(name: &str, one: &StreamResult, other: &StreamResult) -> bool {
    let has_place = Metric::from_str(name).is_ok_and(Metric::has_rx_kernel);
    !has_place || one.rx_kernel_point() == other.rx_kernel_point()
}

/// What the machines of a cell did for each packet.
fn of_machine(cell: &CellResult) -> Vec<(String, String)> {
    summary::machines(cell)
}

/// All that was counted of some cell, in their order.
fn counts(rows: &[Row<'_>]) -> Vec<String> {
    let (mut seen, mut counts) = (BTreeSet::new(), Vec::new());
    for (what, _) in rows.iter().flat_map(|row| of_machine(row.cell)) {
        if seen.insert(what.clone()) {
            counts.push(what);
        }
    }
    counts
}

fn shown(digits: Digits, separator: Option<char>, ns: i64) -> String {
    let number = digits.fixed(ns);
    separator.map_or(number.clone(), |separator| figure::grouped(&number, separator))
}
