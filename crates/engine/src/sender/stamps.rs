// SPDX-License-Identifier: MIT OR Apache-2.0
//! What comes back to a sender through the error queue: stamps, and reports of what a queue discipline dropped. When it is taken,
//! and which packet it belongs to.

use super::{Sender, Sending};
use crate::port::{DRAIN, SendPort, TxPoint, TxStamp};
use tardy_model::sample::MaybeNanos;
use tardy_model::time::Instant;

/// With so many stamps outstanding the queue would soon be full: then one batch is taken between two packets, and counted.
const DRAIN_AT: u32 = 12_000;

impl Sender {
    /// Takes stamps where a whole batch of them may have come back, so that their taking is shared by many packets.
    #[inline]
    pub(crate) fn drain_in_batches<P: SendPort>(&mut self, port: &mut P) {
        if self.outstanding >= DRAIN as u32 {
            self.drain(port);
        }
    }

    /// Takes what stamps there are: where nothing else is to be done.
    pub(crate) fn drain_idle<P: SendPort>(&mut self, port: &mut P) {
        if self.outstanding > 0 || !self.in_trial {
            self.drain_all(port);
        }
    }

    /// Takes what stamps there are, also where none is known to be missing: late ones must not wake a wait again and again.
    #[cold]
    pub(crate) fn drain_woken<P: SendPort>(&mut self, port: &mut P) {
        self.drain_all(port);
    }

    /// Takes stamps between two packets where the queue would soon be full, and counts it. False if there is room.
    #[inline]
    pub(super) fn make_room<P: SendPort>(&mut self, port: &mut P) -> bool {
        if self.outstanding < DRAIN_AT {
            return false;
        }
        self.look_at_queue(port);
        self.drain(port);
        self.counters.forced_drains += 1;
        true
    }

    pub(super) fn look_at_queue<P: SendPort>(&mut self, port: &mut P) {
        let (waiting, size) = port.error_queue();
        self.counters.queue_bytes = if size == u64::MAX { 0 } else { size };
        self.counters.queue_high_bytes = self.counters.queue_high_bytes.max(waiting);
        // A queue that has no room for two more messages has refused some.
        if waiting + 4_096 >= size {
            self.counters.queue_overflows += 1;
        }
    }

    /// Empties the queue: where nothing is due.
    pub(super) fn drain_all<P: SendPort>(&mut self, port: &mut P) {
        while self.drain(port) == DRAIN {}
    }

    /// Takes one batch of stamps; returns how many.
    pub(super) fn drain<P: SendPort>(&mut self, port: &mut P) -> usize {
        let (half, keys, counters) = (&mut self.half, &self.keys, &mut self.counters);
        let (trial, warm, schedule) = (self.in_trial, &mut self.warm_stamps, self.schedule);
        let taken = port.drain(|stamp: TxStamp| {
            let column = match stamp.at {
                TxPoint::Sched => &mut half.tx_sched,
                TxPoint::Software => &mut half.tx_kernel,
                TxPoint::Hardware => &mut half.tx_hw,
                TxPoint::Missed | TxPoint::Invalid => {
                    // What was sent before the trial is nobody's loss.
                    let packet =
                        schedule.filter(|_| trial).and_then(|schedule| schedule.packet(Instant::from_ns(stamp.ns)));
                    let Some(sending) = packet.and_then(|packet| half.sending.get_mut(packet as usize)) else { return };
                    let missed = stamp.at == TxPoint::Missed;
                    sending.0 |= if missed { Sending::MISSED } else { Sending::INVALID };
                    *(if missed { &mut counters.missed } else { &mut counters.invalid }) += 1;
                    return;
                }
            };
            match keys.get(stamp.key).and_then(|packet| column.get_mut(packet as usize)) {
                // A segment that TCP sends again is stamped again: the first one is the packet's.
                Some(cell) if trial && cell.is_some() => {}
                Some(cell) if trial => *cell = MaybeNanos::some(stamp.ns),
                _ if trial => counters.unmatched += 1,
                _ if stamp.at == TxPoint::Hardware => {}
                _ => warm[usize::from(stamp.at == TxPoint::Software)] += 1,
            }
        });
        self.outstanding = if taken < DRAIN { 0 } else { self.outstanding.saturating_sub(taken as u32) };
        taken
    }

    /// Stamps of the driver and of the device that have not come for packets that were sent.
    pub fn missing(&self) -> u64 {
        let missing =
            |(sending, stamp): (&Sending, &MaybeNanos)| sending.sent() && !sending.dropped() && !stamp.is_some();
        let of = |column| self.half.sending.iter().zip(column).filter(|row| missing(*row)).count() as u64;
        of(&self.half.tx_kernel) + of(&self.half.tx_hw)
    }
}
