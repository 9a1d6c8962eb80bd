// SPDX-License-Identifier: MIT OR Apache-2.0
//! Joins the sender's and the receiver's halves into samples: pure, no clock, no I/O. Every row is an intended packet.

use crate::receiver::Arrival;
use crate::sender::SenderHalf;
use tardy_model::point::{Point, Source};
use tardy_model::sample::{Batch, Flags, MaybeNanos, Outcome};
use tardy_model::time::{Conversion, Instant, Nanos};

/// What the matcher must know beside the halves.
#[derive(Clone, Debug)]
pub struct Match<'a> {
    /// Scheduled instant of packet 0, TAI ns.
    pub base_ns: i64,
    /// Time between packets.
    pub cycle: Nanos,
    /// Received later than scheduled + this: late.
    pub deadline: Nanos,
    /// The sender's half.
    pub sent: &'a SenderHalf,
    /// The receiver's half, in the order of arrival.
    pub arrivals: &'a [Arrival],
    /// From the sender's REALTIME to TAI.
    pub tx: Conversion,
    /// From the receiver's REALTIME to TAI.
    pub rx: Conversion,
    /// Who stamps which point; a point that is not in here gets no column.
    pub sources: &'a [(Point, Source)],
}

/// Two clocks read one after the other, and their rounding, may disagree by so much.
const STAMP_SLACK_NS: i64 = 2_000;

/// The samples, and what did not become one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Matched {
    /// One row per packet that was reached.
    pub batch: Batch,
    /// Second arrivals.
    pub duplicates: u64,
    /// Sent packets without a driver stamp, where it was asked for.
    pub tx_stamps_missing: u64,
    /// Arrivals and tx stamps that fit no sent packet.
    pub unmatched: u64,
}

impl Match<'_> {
    /// Joins the halves.
    pub fn run(&self) -> Matched {
        let rows = self.sent.len();
        let mut batch = Batch {
            seq: (0..rows as i64).map(|row| row + i64::from(self.sent.first)).collect(),
            scheduled_ns: (0..rows as i64)
                .map(|row| self.base_ns + (row + i64::from(self.sent.first)) * self.cycle.0)
                .collect(),
            outcome: vec![Outcome::NotSent; rows],
            flags: vec![Flags::default(); rows],
            ..Batch::default()
        };
        let mut unmatched = 0;
        for (row, sending) in self.sent.sending.iter().enumerate() {
            if sending.sent() {
                batch.outcome[row] = Outcome::Lost;
            }
            if sending.overrun() {
                batch.flags[row].set(Flags::OVERRUN);
            }
        }
        for (point, column) in [(Point::Wakeup, &self.sent.wakeup), (Point::Send, &self.sent.send)] {
            self.put(&mut batch, point, |row| column.get(row)?.get());
        }
        for (point, column) in [(Point::TxSched, &self.sent.tx_sched), (Point::TxKernel, &self.sent.tx_kernel)] {
            self.put(&mut batch, point, |row| {
                let stamp = column.get(row)?.get()?;
                let tai = self.tx.to_tai(Instant::from_ns(stamp)).ns();
                // A stamp from before the send belongs to another packet that had the same key.
                let send = self.sent.send.get(row).and_then(|send| send.get());
                let fits = send.is_none_or(|send| tai >= send - self.tx.bound_ns - STAMP_SLACK_NS);
                unmatched += u64::from(!fits);
                fits.then_some(tai)
            });
        }
        let (duplicates, strangers) = self.receive(&mut batch);
        let driver = batch.offsets[Point::TxKernel.index()].as_ref();
        let tx_stamps_missing = driver.map_or(0, |column| {
            column.iter().zip(&self.sent.sending).filter(|(stamp, sending)| sending.sent() && !stamp.is_some()).count()
        });
        Matched { batch, duplicates, tx_stamps_missing: tx_stamps_missing as u64, unmatched: unmatched + strangers }
    }

    fn has(&self, point: Point) -> bool {
        self.sources.iter().any(|(named, _)| *named == point)
    }

    fn put(&self, batch: &mut Batch, point: Point, mut stamp_ns: impl FnMut(usize) -> Option<i64>) {
        if !self.has(point) {
            return;
        }
        let offset = |row: usize| MaybeNanos::from(stamp_ns(row).map(|ns| ns - batch.scheduled_ns[row]));
        let column = (0..batch.seq.len()).map(offset).collect();
        batch.offsets[point.index()] = Some(column);
    }

    /// Arrivals into rows; returns second arrivals and arrivals of packets that were never sent.
    fn receive(&self, batch: &mut Batch) -> (u64, u64) {
        let rows = batch.seq.len();
        let column = |wanted: bool| wanted.then(|| vec![MaybeNanos::NONE; rows]);
        let mut rx_kernel = column(self.has(Point::RxKernel));
        let mut receive = column(self.has(Point::Receive));
        let (mut duplicates, mut strangers, mut newest) = (0, 0, None);
        for arrival in self.arrivals {
            let row = arrival.seq.wrapping_sub(self.sent.first) as usize;
            match batch.outcome.get(row) {
                None | Some(Outcome::NotSent) => {
                    strangers += 1;
                    continue;
                }
                Some(Outcome::Received) => {
                    duplicates += 1;
                    batch.flags[row].set(Flags::DUPLICATE);
                    continue;
                }
                Some(Outcome::Lost) => batch.outcome[row] = Outcome::Received,
            }
            let scheduled = batch.scheduled_ns[row];
            let kernel = arrival.rx_kernel.get().map(|ns| self.rx.to_tai(Instant::from_ns(ns)).ns() - scheduled);
            let app = arrival.receive_ns - scheduled;
            if let (Some(column), Some(offset)) = (&mut rx_kernel, kernel) {
                column[row] = MaybeNanos::some(offset);
            }
            if let Some(column) = &mut receive {
                column[row] = MaybeNanos::some(app);
            }
            let flags = &mut batch.flags[row];
            if kernel.unwrap_or(app) < 0 {
                flags.set(Flags::EARLY);
            }
            if app > self.deadline.0 {
                flags.set(Flags::LATE);
            }
            match newest {
                Some(seq) if arrival.seq < seq => flags.set(Flags::REORDERED),
                _ => newest = Some(arrival.seq),
            }
        }
        batch.offsets[Point::RxKernel.index()] = rx_kernel;
        batch.offsets[Point::Receive.index()] = receive;
        (duplicates, strangers)
    }
}
