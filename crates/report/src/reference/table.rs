// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a table of reference results is: figures of metrics under conditions.

use crate::column::title;
use crate::figure::{self, Unit};
use crate::picture::Picture;
use tardy_model::result::{CellResult, MetricResult};

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
        match self {
            Stat::Min => figures.min_ns.map(|ns| unit.fixed(ns)),
            Stat::Max if metric.is_unbounded() => Some(figure::INFINITE.to_owned()),
            Stat::Max => figures.max_ns.map(|ns| unit.fixed(ns)),
            Stat::Mean => figures.mean_ns.map(|ns| unit.fixed_f64(ns)),
            Stat::Stddev => figures.stddev_ns.map(|ns| unit.fixed_f64(ns)),
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

/// What the bulk traffic beside it did.
pub(super) struct Bulk {
    pub(super) mbit_s: f64,
    pub(super) bytes: u64,
    pub(super) receives: u64,
    pub(super) bytes_a_receive: f64,
    pub(super) sends: u64,
    pub(super) bytes_a_send: f64,
}
