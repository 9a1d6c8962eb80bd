// SPDX-License-Identifier: MIT OR Apache-2.0
//! What comes back to a sender through the error queue: stamps, and reports of what a queue
//! discipline dropped. When it is taken, and which packet it belongs to.
//!
//! A measuring thread takes nothing from the queue after a send: taking a batch costs some 8 µs,
//! and a receiver of lower priority on the same CPU would wait for it. Nor does it leave the stamps
//! of a whole trial in the queue: the kernel would allocate memory for each of them, and every few
//! packets a page, which shows in their latency. So a sender with a schedule takes them in the
//! middle between two packets, a closed loop pauses every [`STRETCH`] requests with nothing in
//! flight, and the rest waits until the halves are collected, for which the queue has room. What
//! does not fit is taken in between, and each such stretch of work is noted.

use super::memory::{Room, Sender, Sending, UNMEASURED};
use crate::port::{DRAIN, SendPort, Timer, TxPoint, TxStamp, queue};
use tardy_model::sample::MaybeNanos;
use tardy_model::time::{Instant, Nanos, Tai};
use tardy_model::trial::OwnReason;

/// Until the sender wakes for the next packet there must be this much time for one more batch of
/// stamps: what a full one costs.
const DRAIN_SLACK: Nanos = Nanos(8_000);
/// Between a packet and the taking of its stamps, and between that and the next packet, there must
/// lie this much time.
const APART: Nanos = Nanos(50_000);
/// In a slow stream stamps are taken this long after a packet, not in the middle of the cycle.
const LATEST_MIDDLE: Nanos = Nanos(1_000_000);
/// A closed loop empties its queues after this number of requests. With the unmeasured ones around
/// them each end then holds seven stamps, if each packet has one, and two ends on one CPU fourteen.
/// They fit into one slab of the kernel's allocator (14 heads of messages, 16 of their records):
/// what is freed by then serves the next ones. With more, the requests at which the allocator
/// changes its slab take longer, each time in the same places: with four requests it was every
/// eighth. A connection holds heads of its own segments, too, until they are acknowledged: there
/// the second request took longer than the first, so one at a time has a stretch to itself.
pub(crate) const STRETCH: u32 = 2;
/// With up to this number in flight a stretch is as long as that.
pub(crate) const STRETCH_OF_SEVERAL: u32 = 4;

impl Sender {
    /// Looks how much room the port's error queue has. To be called when the trial begins.
    pub(crate) fn measure_room<P: SendPort>(&mut self, port: &P) {
        let stamps = u64::from(self.stamps) * (u64::from(self.order.order.count) + queue::BESIDE);
        self.room = Room::new(port.error_queue().1, stamps);
    }

    /// How many packets can go out before three quarters of the queue are full.
    pub(crate) fn room_for(&self) -> u32 {
        (self.room.stamps / 4 * 3 / u64::from(self.stamps.max(1))).min(u64::from(u32::MAX)) as u32
    }

    /// Takes what stamps there are while warming up. Late ones of the trial are nobody's business
    /// here.
    pub(crate) fn drain_warm<P: SendPort>(&mut self, port: &mut P) {
        if !self.in_trial {
            self.drain_all(port);
        }
    }

    /// Takes what stamps there are where the port's wait ends at once as long as one waits.
    #[cold]
    pub(crate) fn drain_woken<T: Timer, P: SendPort>(&mut self, timer: &mut T, port: &mut P) {
        if !self.in_trial {
            return self.drain_all(port);
        }
        if port.stamps_end_waits() && self.stamps > 0 {
            self.own_work(timer, port, OwnReason::Woken);
        }
    }

    /// Empties the queue where nothing of the trial is under way.
    #[cold]
    pub(crate) fn drain_paused<T: Timer, P: SendPort>(&mut self, timer: &mut T, port: &mut P) {
        let start = timer.now();
        self.look_at_queue(port);
        self.drain_all(port);
        self.own.note_between(timer.cpu(), start, timer.now());
    }

    /// Takes stamps after the packet for which the thread was to wake at `target`, before it wakes
    /// again at `next`: in the middle between now and then, if it woke in time. Packets with a
    /// launch time may still be held back by then: their stamps wait.
    #[inline]
    pub(super) fn drain_between<T: Timer, P: SendPort>(
        &mut self,
        timer: &mut T,
        port: &mut P,
        target: Instant<Tai>,
        next: Instant<Tai>,
    ) {
        if self.outstanding > 0 && (self.order.launch.is_none() || !self.room.is_enough) {
            self.drain_in_the_middle(timer, port, target, next);
        }
    }

    #[cold]
    fn drain_in_the_middle<T: Timer, P: SendPort>(
        &mut self,
        timer: &mut T,
        port: &mut P,
        target: Instant<Tai>,
        next: Instant<Tai>,
    ) {
        let now = timer.now();
        let apart = Nanos((next - now).0 / 2).min(LATEST_MIDDLE);
        // Where the timer is late, it may be as late again.
        if self.order.launch.is_none() && apart >= APART && now - target <= Nanos((next - target).0 / 4) {
            timer.sleep_until(now + apart);
            // One call takes what one packet brings; after a hiccup there is more, and the time
            // for it.
            let start = timer.now();
            if self.outstanding > 0 && next - start > APART {
                while self.drain(port) == DRAIN && next - timer.now() > APART {}
                self.own.note_between(timer.cpu(), start, timer.now());
            }
        } else if !self.room.is_enough && u64::from(self.outstanding) >= self.room.stamps / 4 * 3 {
            // The cycles are too short, and the queue would soon be full.
            self.counters.forced_drains += u64::from(next - now <= DRAIN_SLACK);
            self.look_at_queue(port);
            self.drain(port);
            let (cpu, end) = (timer.cpu(), timer.now());
            self.own.note(cpu, now, end, OwnReason::Room);
        }
    }

    /// Takes stamps after an answer: in the middle of the cycle until the next request; where a
    /// request follows its reply, or the thread spins, only if the queue would soon be full.
    #[inline]
    pub(crate) fn drain_answering<T: Timer, P: SendPort>(&mut self, timer: &mut T, port: &mut P, cycle: Nanos) {
        if self.outstanding > 0 && (cycle > Nanos::ZERO || !self.room.is_enough) {
            self.drain_behind_an_answer(timer, port, cycle);
        }
    }

    #[cold]
    fn drain_behind_an_answer<T: Timer, P: SendPort>(&mut self, timer: &mut T, port: &mut P, cycle: Nanos) {
        if cycle > Nanos::ZERO {
            let answered = timer.now();
            // Where requests come bunched, or late, the next one may come at any time: it must not
            // find this thread asleep.
            let is_regular = |before: Instant<Tai>| ((answered - before).0 - cycle.0).abs() <= cycle.0 / 4;
            if self.answered_at.replace(answered).is_some_and(is_regular) || !self.room.is_enough {
                self.drain_in_the_middle(timer, port, answered, answered + cycle);
            }
        } else if u64::from(self.outstanding) >= self.room.stamps / 8 * 7 {
            self.counters.forced_drains += 1;
            self.own_work(timer, port, OwnReason::Room);
        }
    }

    /// Makes room for a sender that is far behind its schedule. If the trial's stamps do not fit
    /// into the queue they are taken at once, while they are in the CPU's caches: left to pile up
    /// they cost each packet a quarter more.
    pub(super) fn make_room_behind<T: Timer, P: SendPort>(&mut self, timer: &mut T, port: &mut P) {
        if self.room.is_enough || self.stamps == 0 {
            return;
        }
        let start = timer.now();
        // What is taken at once leaves the queue short; a look now and then shows if that is not
        // so.
        if self.counters.forced_drains.is_multiple_of(16) {
            self.look_at_queue(port);
        }
        // As many calls as there may be stamps: one that finds nothing would cost as much as one
        // that does.
        while self.outstanding > 0 && self.drain(port) == DRAIN {}
        self.counters.forced_drains += 1;
        let (cpu, end) = (timer.cpu(), timer.now());
        self.own.note(cpu, start, end, OwnReason::Behind);
    }

    /// Empties the queue in the middle of the trial, and notes it.
    #[cold]
    pub(super) fn own_work<T: Timer, P: SendPort>(&mut self, timer: &mut T, port: &mut P, reason: OwnReason) {
        let start = timer.now();
        self.drain_all(port);
        let (cpu, end) = (timer.cpu(), timer.now());
        self.own.note(cpu, start, end, reason);
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
        let (two, last_sched) = (self.order.passes_two_devices(), &mut self.warm_sched);
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
            let packet = keys.get(stamp.key);
            if packet == Some(UNMEASURED) {
                // Of the two before two queue disciplines one counts.
                let again = two && stamp.at == TxPoint::Sched && last_sched.replace(stamp.key) == Some(stamp.key);
                if !trial && !again && stamp.at != TxPoint::Hardware {
                    warm[usize::from(stamp.at == TxPoint::Software)] += 1;
                }
                return;
            }
            match packet.and_then(|packet| column.get_mut(packet as usize)) {
                // The later one is before the queue discipline of the device that the VLAN device
                // lies on, where the shaper is.
                Some(cell) if two && stamp.at == TxPoint::Sched => *cell = MaybeNanos::some(stamp.ns),
                // A segment that TCP sends again is stamped again: the first one is the packet's.
                Some(cell) if cell.is_some() => {}
                Some(cell) => *cell = MaybeNanos::some(stamp.ns),
                None => counters.unmatched += u64::from(trial),
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
