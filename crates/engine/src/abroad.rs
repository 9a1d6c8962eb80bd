// SPDX-License-Identifier: MIT OR Apache-2.0
//! What another host recorded, brought to the coordinator's clock. Pure.

use crate::receiver::Arrival;
use crate::sender::SentRows;
use tardy_model::sample::MaybeNanos;
use tardy_model::stream::Side;
use tardy_model::time::Offset;
use tardy_model::time::{ClockReading, Conversion, Instant, Nanos, Tai};
use tardy_model::trial::OwnNotes;

/// One other host: its offset, and its own conversion from CLOCK_REALTIME to CLOCK_TAI.
pub(crate) struct Host<'a> {
    offset: &'a Offset,
    tai_minus_realtime: Nanos,
}

impl<'a> Host<'a> {
    /// The host of this offset, with these readings of its clocks before and after the trial.
    pub(crate) fn of(offset: &'a Offset, clocks: &[ClockReading; 2]) -> Self {
        let [before, after] = clocks;
        Host { offset, tai_minus_realtime: Nanos(Conversion::between(before, after).tai_minus_realtime_ns) }
    }

    /// An instant of its CLOCK_TAI, ns.
    pub(crate) fn tai_ns(&self, ns: i64) -> i64 {
        self.offset.to_here(Instant::from_ns(ns)).ns()
    }

    /// Fills in when each packet was due, of an end that paces by its own clock: its schedule
    /// begins where that clock was ordered to begin, and drifts with it. `base` is what the
    /// coordinator's clock showed when that was ordered.
    pub(crate) fn due(&self, half: &mut SentRows, base: Instant<Tai>, cycle: Nanos) {
        if half.scheduled.is_empty() {
            let first = self.offset.first.to_there(base).ns();
            let due = |row: usize| first.saturating_add((row as i64 + i64::from(half.first)).saturating_mul(cycle.0));
            half.scheduled = (0..half.len()).map(|row| MaybeNanos::some(due(row))).collect();
        }
    }

    fn realtime_ns(&self, ns: i64) -> i64 {
        self.offset.realtime_to_here(Instant::from_ns(ns), self.tai_minus_realtime).ns()
    }

    /// The rows of one of its ends that sends.
    pub(crate) fn sent(&self, half: &mut SentRows) {
        let each = |column: &mut Vec<MaybeNanos>, here: &dyn Fn(i64) -> i64| {
            column.iter_mut().for_each(|cell| *cell = MaybeNanos::from(cell.get().map(here)));
        };
        for column in [&mut half.scheduled, &mut half.wakeup, &mut half.send] {
            each(column, &|ns| self.tai_ns(ns));
        }
        for column in [&mut half.tx_sched, &mut half.tx_kernel, &mut half.tx_hw] {
            each(column, &|ns| self.realtime_ns(ns));
        }
    }

    /// The arrivals at one of its ends.
    pub(crate) fn arrived(&self, arrivals: &mut [Arrival]) {
        for arrival in arrivals {
            arrival.receive_ns = self.tai_ns(arrival.receive_ns);
            arrival.rx_kernel = MaybeNanos::from(arrival.rx_kernel.get().map(|ns| self.realtime_ns(ns)));
        }
    }

    /// Notes of those ends that are its.
    pub(crate) fn noted(&self, notes: &mut OwnNotes, is_its: impl Fn(Side) -> bool) {
        for work in notes.work.iter_mut().filter(|work| is_its(work.side)) {
            (work.start_ns, work.end_ns) = (self.tai_ns(work.start_ns), self.tai_ns(work.end_ns));
        }
        for between in notes.between.iter_mut().filter(|between| is_its(between.side)) {
            between.start_ns = self.tai_ns(between.start_ns);
        }
    }
}
