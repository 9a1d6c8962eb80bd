// SPDX-License-Identifier: MIT OR Apache-2.0
//! A few rows of a batch, and which of their columns are whole: whole columns need no look at each
//! row.

use tardy_model::point::Point;
use tardy_model::sample::{Batch, Flags, MaybeNanos, Outcome};

/// Rows that are worked on at a time: their values fit the first-level cache.
pub(crate) const ROWS: usize = 1024;

/// Rows of a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chunk<'a> {
    pub seq: &'a [i64],
    pub scheduled_ns: &'a [i64],
    pub outcome: &'a [Outcome],
    pub flags: &'a [Flags],
    columns: [Option<&'a [MaybeNanos]>; Point::COUNT],
    whole: [bool; Point::COUNT],
    /// Every packet was received.
    pub all_received: bool,
}

impl<'a> Chunk<'a> {
    /// A batch cut into chunks.
    pub fn of(batch: &'a Batch) -> impl Iterator<Item = Chunk<'a>> {
        (0..batch.len()).step_by(ROWS).map(|start| {
            let rows = start..(start + ROWS).min(batch.len());
            let outcome = &batch.outcome[rows.clone()];
            let columns =
                std::array::from_fn(|at| batch.offsets[at].as_deref().and_then(|column| column.get(rows.clone())));
            let whole = columns.map(|column: Option<&[MaybeNanos]>| {
                // Absence is the lowest number, so where none is negative none is absent; only
                // else is it worth a closer look.
                column.is_some_and(|column| {
                    column.iter().fold(0, |any, stamp| any | stamp.or_lowest()) >= 0
                        || column.iter().all(|stamp| stamp.is_some())
                })
            });
            Chunk {
                seq: &batch.seq[rows.clone()],
                scheduled_ns: &batch.scheduled_ns[rows.clone()],
                outcome,
                flags: &batch.flags[rows.clone()],
                columns,
                whole,
                all_received: outcome.iter().fold(true, |all, outcome| all & (*outcome == Outcome::Received)),
            }
        })
    }

    pub fn len(&self) -> usize {
        self.seq.len()
    }

    /// The column of a point's offsets, if anything stamps it.
    pub fn column(&self, point: Point) -> Option<&'a [MaybeNanos]> {
        self.columns[point.index()]
    }

    /// The column of a point that every packet has a stamp of, all having been received.
    pub fn whole_column(&self, point: Point) -> Option<&'a [MaybeNanos]> {
        self.column(point).filter(|_| self.all_received && self.whole[point.index()])
    }

    /// Whether a row was received, and its offset of a point.
    #[inline]
    pub fn offset(&self, row: usize, point: Point) -> Option<i64> {
        match point {
            Point::Scheduled => Some(0),
            _ => self.column(point).and_then(|column| column[row].get()),
        }
    }

    #[inline]
    pub fn has_arrived(&self, row: usize, point: Point) -> bool {
        self.is_received(row) || self.offset(row, point).is_some() || self.offset(row, Point::Receive).is_some()
    }

    #[inline]
    pub fn is_received(&self, row: usize) -> bool {
        self.outcome[row] == Outcome::Received
    }
}
