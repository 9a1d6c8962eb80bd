// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which columns fit a width, and how wide each is. One layout serves all cells, so that figures
//! line up between them.

use super::page::columns;
use crate::column::{Column, cell_unit, in_order, title};
use crate::figure::SPACE;
use tardy_model::result::Results;

/// In the order in which they are given up when room is short, the last one first.
const PRIORITY: [Column; 9] = [
    Column::Quantile(0),
    Column::Quantile(2),
    Column::Quantile(3),
    Column::Max,
    Column::AtPacket,
    Column::Min,
    Column::Mean,
    Column::Stddev,
    Column::Quantile(4),
];
/// Room that p99.99 needs next to the others without crowding them.
const WIDE: usize = 116;
const GAP: usize = 2;
/// Three spaces and the unit.
pub(super) const UNIT: usize = 5;
const ROOMY: usize = 9;
const ROOMY_LABEL: usize = 29;

pub(super) struct Layout {
    /// Of the first column, with its indent.
    pub label: usize,
    /// Of each column, with the gap before it.
    pub columns: Vec<(Column, usize)>,
    hidden: Vec<Column>,
}

impl Layout {
    pub fn of(results: &Results, width: usize) -> Layout {
        let (mut label, mut heading) = (20, 0);
        let mut wants: Vec<(Column, usize)> = PRIORITY.map(|c| (c, columns(c.title()) + GAP)).to_vec();
        let mut far = false;
        for cell in &results.cells {
            let unit = cell_unit(cell);
            let indent = indent(cell.streams.len());
            heading = heading.max(columns(&title(&cell.id)));
            for (name, metric) in cell.streams.values().flat_map(in_order) {
                label = label.max(indent + columns(name));
                far |= metric.figures.quantiles.p99_99_ns.is_some();
                for (column, want) in &mut wants {
                    let shown = columns(&column.value(metric).show(unit, Some(SPACE)));
                    let received = column.received(metric).map_or(0, |value| columns(&value.show(unit, Some(SPACE))));
                    *want = (*want).max(shown.max(received) + GAP);
                }
            }
        }
        if !far || width < WIDE {
            wants.pop();
        }
        let total = |label: usize, wants: &[(Column, usize)]| label + UNIT + wants.iter().map(|w| w.1).sum::<usize>();
        let mut hidden = Vec::new();
        while wants.len() > 1 && total(label, &wants) > width {
            hidden.extend(wants.pop().map(|(column, _)| column));
        }
        hidden.reverse();

        // What is left over goes to the headings, then to the figures, then to the first column.
        let spare = |label: usize, wants: &[(Column, usize)]| width.saturating_sub(total(label, wants));
        if heading > label && heading - label <= spare(label, &wants) {
            label = heading;
        }
        for roomy in 8..=ROOMY {
            let wider: Vec<_> = wants.iter().map(|(c, w)| (*c, (*w).max(roomy))).collect();
            if total(label, &wider) <= width {
                wants = wider;
            }
        }
        label = label.max(ROOMY_LABEL.min(label + spare(label, &wants)));
        wants.sort_by_key(|(column, _)| Column::ALL.iter().position(|c| c == column));
        Layout { label, columns: wants, hidden }
    }

    /// Columns of a whole row.
    pub fn total(&self) -> usize {
        self.label + UNIT + self.columns.iter().map(|column| column.1).sum::<usize>()
    }

    /// The titles of what did not fit.
    pub fn hidden(&self) -> String {
        self.hidden.iter().map(|column| column.title()).collect::<Vec<_>>().join(", ")
    }

    /// A row: the label, then each column's text at its right edge.
    pub fn row(&self, label: &str, text: impl Fn(Column) -> String) -> String {
        let mut row = format!("{label:<0$}", self.label);
        for (column, width) in &self.columns {
            row += &format!("{:>width$}", text(*column));
        }
        row
    }
}

/// How far a metric is indented: under the cell, or under its stream if there are several.
pub(super) fn indent(streams: usize) -> usize {
    if streams > 1 { 4 } else { 2 }
}
