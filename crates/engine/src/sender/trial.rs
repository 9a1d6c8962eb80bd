// SPDX-License-Identifier: MIT OR Apache-2.0
//! A trial of a sender that paces by a schedule: for each packet the wait until it is due, and the
//! send. The packets of the lead-in and of the lead-out go through the same loop, and nothing of
//! them is kept. A receiver on this CPU runs only when the sender sleeps again, so that whatever
//! the sender does for the first time after a send would make that packet late. The phases of the
//! loop are inlined into it.

use super::{GAP, LONG_WAIT, QUIET, Sender, Sending};
use crate::live::Live;
use crate::port::{SendPort, Timer};
use crate::schedule::{Schedule, lead_in};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use tardy_model::frame::LEAD;
use tardy_model::sample::MaybeNanos;
use tardy_model::stream::Overrun;
use tardy_model::time::{Instant, Nanos, Tai};
use tardy_model::trial::SpinGaps;

impl Sender {
    /// Runs the trial: the lead-in, then every packet of the schedule, or until `stop`, then the
    /// lead-out.
    pub fn run<T: Timer, P: SendPort>(
        &mut self,
        timer: &mut T,
        port: &mut P,
        base: Instant<Tai>,
        stop: &AtomicBool,
        live: &Live,
    ) {
        let schedule = Schedule { base, cycle: self.order.order.cycle, count: self.order.order.count };
        let (count, lead) = (i64::from(schedule.count), i64::from(lead_in(schedule.cycle)));
        let (advance, spin) = (self.order.advance, self.order.spin);
        self.drain_warm(port);
        self.measure_room(port);
        self.schedule = Some(schedule);
        self.begin_trial();
        let (mut gaps, mut gaps_beside) = (SpinGaps::default(), SpinGaps::default());
        // The last instant known without reading the clock again: a sender that is behind saves
        // itself the sleep call.
        let mut known = timer.now();
        // Below 0 it is the lead-in's, from `count` on the lead-out's.
        let mut next = -lead;
        while next < count + lead && !stop.load(Relaxed) {
            let packet = if (0..count).contains(&next) { next as u32 } else { LEAD };
            let caught_up = self.catch_up(timer, port, &schedule, packet, known, live);
            if caught_up > 0 {
                next += i64::from(caught_up);
                known = timer.now();
                continue;
            }
            let target = schedule.due(next) - advance;
            if packet == LEAD && known > target {
                known = timer.now();
                next += 1;
                continue;
            }
            self.packet_at(0, packet);
            let Some(now) = sleep_long(timer, target, known, stop) else { break };
            wait_until_due(timer, target, spin, now, if packet == LEAD { &mut gaps_beside } else { &mut gaps });
            known = timer.now();
            next += 1;
            if self.send_due(timer, port, &schedule, next - 1, packet, known) {
                live.count_if(packet != LEAD, None);
                let until = schedule.due(next) - advance - spin;
                self.drain_between(timer, port, target - spin, until);
            }
            if next <= 0 {
                self.half.fetch_first();
            }
        }
        self.gaps = (spin > Nanos::ZERO).then_some(gaps);
        self.end_trial(timer, port, &schedule, next.clamp(0, count) as u32);
    }

    /// Sends what is overdue, where the sender is so far behind that it catches up: how many
    /// packets.
    #[inline(always)]
    fn catch_up<T: Timer, P: SendPort>(
        &mut self,
        timer: &mut T,
        port: &mut P,
        schedule: &Schedule,
        packet: u32,
        known: Instant<Tai>,
        live: &Live,
    ) -> u32 {
        let catches_up = self.order.overrun == Overrun::Burst && self.order.launch.is_none();
        if packet == LEAD || !(catches_up && self.is_behind(schedule, packet, known + self.order.advance)) {
            return 0;
        }
        let sent = self.send_overdue(timer, port, schedule, packet, live);
        if sent > 0 {
            self.outstanding += sent * self.stamps;
            self.make_room_behind(timer, port);
        }
        sent
    }

    /// Sends the packet of slot `i` for which the sender `woke`, or leaves it out where it is too
    /// late: whether it was sent.
    #[inline(always)]
    fn send_due<T: Timer, P: SendPort>(
        &mut self,
        timer: &mut T,
        port: &mut P,
        schedule: &Schedule,
        i: i64,
        packet: u32,
        woke: Instant<Tai>,
    ) -> bool {
        let (row, counts) = (self.row(packet), u64::from(packet != LEAD));
        let mut sending = Sending::default();
        if schedule.is_past(i, woke) {
            sending.0 |= Sending::OVERRUN;
            self.counters.overruns += counts;
        }
        if let Some(cell) = self.half.wakeup.get_mut(row) {
            *cell = MaybeNanos::some(woke.ns());
        }
        if sending.overrun() && self.order.overrun == Overrun::Skip {
            self.counters.skipped += counts;
            sending.0 |= Sending::SKIPPED;
            self.half.sending[row] = sending;
            return false;
        }
        let send = if self.half.send.is_empty() { woke } else { timer.now() };
        let launch = self.order.launch.is_some().then(|| schedule.due(i));
        self.half.sending[row] = self.send_one(timer, port, packet, Some(send), sending, launch);
        true
    }

    /// Silence follows the last packet. What was not reached is subtracted.
    fn end_trial<T: Timer, P: SendPort>(&mut self, timer: &mut T, port: &mut P, schedule: &Schedule, reached: u32) {
        let lead = i64::from(lead_in(schedule.cycle));
        let launches = self.order.launch.is_some();
        let quiet = timer.now() + schedule.cycle.clamp(QUIET.0, QUIET.1);
        let held = schedule.due(i64::from(reached) + lead);
        timer.sleep_until(quiet.max(if launches { held } else { quiet }));
        self.half.truncate(reached as usize);
        if launches {
            self.look_at_queue(port);
            // Reports of what was dropped: the receiver need not wait for it.
            self.drain_all(port);
        }
    }
}

/// A long wait is cut, so that a stop is heard: the time at which the rest begins, or `None` when
/// it was heard.
#[inline(always)]
fn sleep_long<T: Timer>(
    timer: &mut T,
    target: Instant<Tai>,
    mut known: Instant<Tai>,
    stop: &AtomicBool,
) -> Option<Instant<Tai>> {
    while target - known > LONG_WAIT {
        if stop.load(Relaxed) {
            return None;
        }
        timer.sleep_until(known + Nanos(LONG_WAIT.0 / 2));
        known = timer.now();
    }
    Some(known)
}

/// Sleeps until shortly before `target`, and spins for the rest where that is asked for.
#[inline(always)]
fn wait_until_due<T: Timer>(
    timer: &mut T,
    target: Instant<Tai>,
    spin: Nanos,
    known: Instant<Tai>,
    gaps: &mut SpinGaps,
) {
    if known >= target {
        return;
    }
    if known < target - spin {
        timer.sleep_until(target - spin);
    }
    if spin > Nanos::ZERO {
        let gap = timer.spin_until(target);
        if gap > GAP {
            gaps.over_1ms += 1;
            gaps.total_ns += gap.0;
            gaps.longest_ns = gaps.longest_ns.max(gap.0);
        }
    }
}
