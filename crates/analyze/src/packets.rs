// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every packet with its own `delta`, in scheduled order, in two passes and little memory.
//!
//! Rows come in scheduled order; arrivals may not, and a packet's `delta` needs the arrival before
//! it. The first pass, [`Reach`], learns how far before the newest scheduled instant an arrival
//! may still come; the second, [`Packets`], keeps only the rows within that reach. The order of
//! arrival is that of [`crate::arrival`]: by stamp, then by receive, then by number; one without a
//! stamp comes right after the stamped packet that was scheduled before it.

use std::collections::VecDeque;
use tardy_model::point::Point;
use tardy_model::sample::Batch;

/// Stamp, wait from it to receive, number.
type Key = (i64, i32, i64);

/// Where the next arrival without a stamp is.
const NOWHERE: (i64, i32) = (i64::MIN, i32::MIN);

/// A row whose packet arrived: its place among the arrivals, and its stamp's value if it has
/// one. `place` is that of the last stamped row, and becomes this one's.
fn arrival(batch: &Batch, row: usize, point: Point, place: &mut (i64, i32)) -> (Key, bool) {
    let stamp = batch.offset(row, point);
    if let Some(offset) = stamp {
        let wait = batch
            .offset(row, Point::Receive)
            .map_or(i32::MAX, |receive| receive.wrapping_sub(offset).clamp(i32::MIN.into(), i32::MAX.into()) as i32);
        *place = (batch.scheduled_ns[row].wrapping_add(offset), wait);
    }
    ((place.0, place.1, batch.seq[row]), stamp.is_some())
}

/// The first pass: how far back an arrival reaches.
#[derive(Clone, Copy, Debug)]
pub struct Reach {
    point: Point,
    place: (i64, i32),
    newest: i64,
    /// Greatest distance of an arrival before the newest scheduled instant at its row; below 0
    /// where packets are in time.
    back_ns: i64,
}

impl Reach {
    /// For the arrivals of one stream in one trial, by the stamps of `point`.
    pub fn new(point: Point) -> Self {
        Reach { point, place: NOWHERE, newest: i64::MIN, back_ns: i64::MIN }
    }

    /// Adds the next rows, in the order of `seq`.
    pub fn push(&mut self, batch: &Batch) {
        for row in 0..batch.len() {
            self.newest = self.newest.max(batch.scheduled_ns[row]);
            if batch.has_arrived(row, self.point) {
                let ((stamp, ..), _) = arrival(batch, row, self.point, &mut self.place);
                // Those before the first stamp come before everything else in any case.
                if stamp != i64::MIN {
                    self.back_ns = self.back_ns.max(self.newest.saturating_sub(stamp));
                }
            }
        }
    }
}

/// The second pass: hands out each row with its `delta` in ns.
#[derive(Debug)]
pub struct Packets {
    point: Point,
    back_ns: i64,
    place: (i64, i32),
    newest: i64,
    /// Batches of which some row has not been handed out, the first row of the first of them, and
    /// the row next to go.
    batches: VecDeque<Batch>,
    first: usize,
    next: usize,
    /// Of each row from `first + next` on: `None` while its arrival is not settled.
    deltas: VecDeque<Option<Option<i64>>>,
    /// Arrivals that are not settled, and their rows as counted from the beginning.
    open: Vec<(Key, bool, usize)>,
    rows: usize,
    last: Option<(i64, bool)>,
}

impl Packets {
    /// Of the same rows that `reach` has seen.
    pub fn new(reach: Reach) -> Self {
        Packets {
            point: reach.point,
            back_ns: reach.back_ns,
            place: NOWHERE,
            newest: i64::MIN,
            batches: VecDeque::new(),
            first: 0,
            next: 0,
            deltas: VecDeque::new(),
            open: Vec::new(),
            rows: 0,
            last: None,
        }
    }

    /// Adds the next rows, in the order of `seq`, and hands out what is settled: `each(batch, row,
    /// delta)`.
    ///
    /// # Errors
    /// The first error of `each`.
    pub fn push<E>(
        &mut self,
        batch: Batch,
        each: &mut impl FnMut(&Batch, usize, Option<i64>) -> Result<(), E>,
    ) -> Result<(), E> {
        for row in 0..batch.len() {
            self.newest = self.newest.max(batch.scheduled_ns[row]);
            let delta = if batch.has_arrived(row, self.point) {
                let (key, stamped) = arrival(&batch, row, self.point, &mut self.place);
                self.open.push((key, stamped, self.rows + row));
                None
            } else {
                Some(None)
            };
            self.deltas.push_back(delta);
        }
        self.rows += batch.len();
        self.batches.push_back(batch);
        self.settle(Some(self.newest.saturating_sub(self.back_ns)));
        self.hand_out(each)
    }

    /// Hands out the rest.
    ///
    /// # Errors
    /// The first error of `each`.
    pub fn finish<E>(mut self, each: &mut impl FnMut(&Batch, usize, Option<i64>) -> Result<(), E>) -> Result<(), E> {
        self.settle(None);
        self.hand_out(each)
    }

    /// Gives the arrivals stamped before `horizon` their values: no later row can come before
    /// them. `None`: all of them.
    fn settle(&mut self, horizon: Option<i64>) {
        // Nearly sorted already, which this sort makes use of.
        self.open.sort_by_key(|(key, ..)| *key);
        let settled =
            horizon.map_or(self.open.len(), |end| self.open.partition_point(|((stamp, ..), ..)| *stamp < end));
        for ((stamp, ..), stamped, row) in self.open.drain(..settled) {
            let delta = match self.last {
                Some((before, true)) if stamped => Some(stamp.wrapping_sub(before)),
                _ => None,
            };
            self.last = Some((stamp, stamped));
            self.deltas[row - self.first - self.next] = Some(delta);
        }
    }

    fn hand_out<E>(&mut self, each: &mut impl FnMut(&Batch, usize, Option<i64>) -> Result<(), E>) -> Result<(), E> {
        while let Some(batch) = self.batches.front() {
            while self.next < batch.len() {
                let Some(Some(delta)) = self.deltas.front() else { return Ok(()) };
                each(batch, self.next, *delta)?;
                self.next += 1;
                self.deltas.pop_front();
            }
            self.first += batch.len();
            self.next = 0;
            self.batches.pop_front();
        }
        Ok(())
    }
}
