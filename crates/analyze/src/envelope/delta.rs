// SPDX-License-Identifier: MIT OR Apache-2.0
//! `delta` row by row, for the envelope. Arrivals wait until no later row can come before them, as
//! in [`crate::arrival`], whose figures lead: where a clock was set back, a packet that comes too
//! late for its place is left out here.

use crate::arrival::EARLIEST_NS;
use tardy_model::point::Point;
use tardy_model::sample::Batch;

/// Arrivals are settled when so many have come.
const SETTLED_AT: usize = 8192;

/// Stamp, then receive, then number: the order of arrival; and whether there is a stamp.
type Arrival = (i64, i64, i64, bool);

/// One stream's arrivals of one trial.
#[derive(Debug)]
pub(super) struct DeltaPass {
    point: Point,
    waiting: Vec<Arrival>,
    last: Option<Arrival>,
    /// Where one without a stamp stands: behind the stamped packet before it.
    place: (i64, i64),
    newest: i64,
    settle_at: usize,
}

impl DeltaPass {
    pub(super) fn new(point: Point) -> Self {
        let place = (i64::MIN, i64::MIN);
        DeltaPass { point, waiting: Vec::new(), last: None, place, newest: i64::MIN, settle_at: SETTLED_AT }
    }

    /// Adds rows; `tell` gets the number, the stamp and the value of each packet that is settled.
    pub(super) fn push(&mut self, batch: &Batch, mut tell: impl FnMut(i64, i64, i64)) {
        let point = self.point;
        for row in (0..batch.len()).filter(|row| batch.has_arrived(*row, point)) {
            let stamp = batch.stamp_ns(row, point);
            if let Some(stamp) = stamp {
                self.place = (stamp, batch.stamp_ns(row, Point::Receive).unwrap_or(i64::MAX));
            }
            self.waiting.push((self.place.0, self.place.1, batch.seq[row], stamp.is_some()));
            self.newest = batch.scheduled_ns[row];
            if self.waiting.len() >= self.settle_at {
                self.settle(self.newest.saturating_sub(EARLIEST_NS), &mut tell);
                self.settle_at = SETTLED_AT.max(2 * self.waiting.len());
            }
        }
    }

    /// Settles what is left.
    pub(super) fn finish(mut self, mut tell: impl FnMut(i64, i64, i64)) {
        self.settle(i64::MAX, &mut tell);
    }

    fn settle(&mut self, horizon: i64, tell: &mut impl FnMut(i64, i64, i64)) {
        self.waiting.sort_unstable();
        let settled = self.waiting.partition_point(|arrival| arrival.0 < horizon);
        for arrival in self.waiting.drain(..settled) {
            match self.last {
                Some(last) if last > arrival => continue,
                Some((before, _, _, true)) if arrival.3 => tell(arrival.2, arrival.0, arrival.0.wrapping_sub(before)),
                _ => {}
            }
            self.last = Some(arrival);
        }
    }
}
