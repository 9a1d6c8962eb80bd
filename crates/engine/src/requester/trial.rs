// SPDX-License-Identifier: MIT OR Apache-2.0
//! A trial of a requester, phase by phase: stretches of requests with pauses between them, replies
//! as they come, and the end. The phases that every round trip goes through are inlined into the
//! loop.

use super::progress::Progress;
use crate::port::{Lent, ReceivePort, Received, SendPort, Timer};
use crate::receiver::Shared;
use crate::requester::{
    FIRST_ROUNDS, FURTHER, GAP_NS, HOPE, LAST_ACKNOWLEDGED, LAST_REPLIES, LEAD_IN, LEAD_OUT, REHEARSALS, REHEARSED,
    Requester,
};
use crate::sender::STRETCH_OF_SEVERAL;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::sync::atomic::Ordering::Relaxed;
use tardy_model::frame::LEAD;
use tardy_model::time::{Instant, Nanos, Tai};
use tardy_model::trial::SpinGaps;

/// What the loop itself knows.
struct Turns {
    spins: bool,
    gaps: SpinGaps,
    /// The receive call before, of a wait that spins.
    last: Option<Instant<Tai>>,
    /// Receive calls without a packet in a row.
    idle: u32,
    /// When the latest reply to a request of the trial came; without one for `hope` the other end
    /// is given up.
    heard: Instant<Tai>,
    hope: Nanos,
    /// Requests of a stretch, and unmeasured ones before and after it.
    stretch: u32,
    lead: [u32; 2],
    /// Stretches without a measured request that are still to come.
    rehearsals: u32,
    /// Draws how many further unmeasured requests come before each stretch of few in flight.
    further: Pcg64Mcg,
    /// Where the next of the latest replies is noted.
    recent: usize,
}

impl Turns {
    /// Notes how long nobody looked for a packet, where the wait spins.
    #[inline(always)]
    fn looked(&mut self, now: Instant<Tai>) {
        if self.spins
            && let Some(before) = self.last.replace(now)
        {
            let gap = (now - before).0;
            if gap > GAP_NS {
                self.gaps.over_1ms += 1;
                self.gaps.total_ns += gap;
                self.gaps.longest_ns = self.gaps.longest_ns.max(gap);
            }
        }
    }
}

impl Requester {
    /// Runs the trial: every request, or until ordered to stop.
    pub fn run<T: Timer, S: SendPort, R: ReceivePort>(
        &mut self,
        timer: &mut T,
        to: &mut S,
        from: &mut R,
        shared: &Shared,
    ) {
        let in_flight = self.order.in_flight.max(1);
        let (mut at, mut turns) = self.begin(timer, to, from.spins());
        while !shared.stop.load(Relaxed) && !from.ended() {
            if at.is_over() && !self.next_stretch(timer, to, shared, &mut at, &mut turns) {
                break;
            }
            if at.waiting + at.beside < in_flight {
                self.ask_on(timer, to, &mut at);
            }
            let received = from.receive(false);
            let now = timer.now();
            turns.looked(now);
            let goes_on = match received {
                Ok(Received::Packets(packets)) => {
                    turns.idle = 0;
                    (0..packets).all(|n| self.take(timer, to, from, n, now, shared, &mut at, &mut turns))
                }
                Ok(nothing) => self.nothing_came(timer, to, nothing == Received::TimedOut, now, shared, &mut turns),
                Err(errno) => {
                    self.counters.broken_errno = errno;
                    false
                }
            };
            if !goes_on {
                break;
            }
            self.give_up(now, &mut at);
        }
        self.take_last_replies(timer, to, from, shared, &mut at, turns);
    }

    /// Where there are several stretches, one without measured requests comes first: it finds the
    /// memory of stamps that the others use again.
    fn begin<T: Timer, S: SendPort>(&mut self, timer: &mut T, to: &mut S, spins: bool) -> (Progress, Turns) {
        let (count, in_flight) = (self.order.send.order.count, self.order.in_flight.max(1));
        let hope = HOPE.max(Nanos(self.order.timeout.0.saturating_mul(4)));
        let heard = timer.now();
        self.sender.drain_warm(to);
        self.sender.measure_room(to);
        self.sender.begin_trial();
        let (stretch, lead) = (self.stretch(), [LEAD_IN.max(in_flight), LEAD_OUT.max(in_flight)]);
        let mut at = Progress::default();
        at.begin(if stretch < count { 0 } else { count }, count, lead);
        at.lead_in = FIRST_ROUNDS.max(in_flight);
        let rehearsals = if stretch < count { REHEARSALS } else { 0 };
        let (gaps, last, idle, recent) = (SpinGaps::default(), None, 0, 0);
        let further = Pcg64Mcg::seed_from_u64(self.order.send.order.nonce);
        (at, Turns { spins, gaps, last, idle, heard, hope, stretch, lead, rehearsals, further, recent })
    }

    /// A stretch is over: both ends empty their error queues, and the next one begins. False if
    /// there is none.
    fn next_stretch<T: Timer, S: SendPort>(
        &mut self,
        timer: &mut T,
        to: &mut S,
        shared: &Shared,
        at: &mut Progress,
        turns: &mut Turns,
    ) -> bool {
        let count = self.order.send.order.count;
        if at.next >= count {
            return false;
        }
        at.ended_ns = self.replied_last_ns.max(at.gave_up_ns);
        at.end_replies();
        if turns.stretch < count {
            self.pause(timer, to, at);
        }
        at.begin(if turns.rehearsals > 0 { 0 } else { turns.stretch }, count, turns.lead);
        // It is on the way to its first measured request all the while.
        shared.live.turn();
        if turns.rehearsals > 0 {
            // As long as one that is measured, where that is short.
            turns.rehearsals -= 1;
            at.lead_in += turns.stretch.min(REHEARSED);
        }
        if self.has_few_in_flight() {
            at.lead_in += turns.further.random_range(0..=FURTHER);
        }
        true
    }

    /// Takes the packet at place `n` of what was received `now`, and asks again before it records
    /// it. False if the connection is out of step.
    #[inline(always)]
    #[allow(clippy::too_many_arguments)]
    fn take<T: Timer, S: SendPort, R: ReceivePort>(
        &mut self,
        timer: &mut T,
        to: &mut S,
        from: &R,
        n: usize,
        now: Instant<Tai>,
        shared: &Shared,
        at: &mut Progress,
        turns: &mut Turns,
    ) -> bool {
        let Some(taken) = self.reply(from, n, at) else {
            self.other(from.lent().packet(n), shared, at);
            return !self.counters.is_out_of_step();
        };
        turns.heard = if taken.seq == LEAD { turns.heard } else { now };
        if !shared.stop.load(Relaxed) {
            // What is asked here follows on this reply, be it an unmeasured one's. What is asked
            // elsewhere follows on none.
            at.heard_ns = now.ns();
            self.ask_all(timer, to, at);
            at.heard_ns = 0;
        }
        if self.order.in_flight > 1
            && let Some(since_ns) = taken.since_ns
        {
            let before_ns = std::mem::replace(&mut self.recent_ns[turns.recent], now.ns());
            turns.recent = (turns.recent + 1) % self.recent_ns.len();
            at.count_reply(now.ns(), now.ns() - since_ns, before_ns);
        }
        if taken.seq != LEAD {
            at.went_on();
        }
        self.note(taken, now, shared);
        true
    }

    /// No packet came. False if the other end has been silent for too long.
    #[inline(always)]
    fn nothing_came<T: Timer, S: SendPort>(
        &mut self,
        timer: &mut T,
        to: &mut S,
        timed_out: bool,
        now: Instant<Tai>,
        shared: &Shared,
        turns: &mut Turns,
    ) -> bool {
        turns.idle = turns.idle.saturating_add(1);
        if now - turns.heard > turns.hope {
            self.counters.broken_errno = libc::ETIME;
            return false;
        }
        self.nothing(timer, timed_out, turns.spins, turns.idle, to, shared);
        true
    }

    /// True if several requests are in flight, and few enough for frequent pauses.
    fn has_few_in_flight(&self) -> bool {
        (2..=STRETCH_OF_SEVERAL).contains(&self.order.in_flight)
    }

    /// Over a connection with several requests in flight, asks once more when all replies have
    /// come. This request acknowledges them. Of two or more replies that nothing acknowledges the
    /// reflector's kernel would send the last one again after some 5 ms (its probe for a lost
    /// tail), and count a retransmit on a path that loses nothing. For a single one it waits
    /// 200 ms.
    fn acknowledge<T: Timer, S: SendPort, R: ReceivePort>(
        &mut self,
        timer: &mut T,
        to: &mut S,
        from: &mut R,
        shared: &Shared,
        at: &mut Progress,
    ) {
        let is_connection = self.order.send.order.port.traits().is_connection;
        let is_whole = self.counters.broken_errno == 0 && !self.counters.is_out_of_step() && !from.ended();
        if is_connection && self.order.in_flight > 1 && is_whole && at.waiting + at.beside == 0 {
            self.ask(timer, to, at, true);
            self.gather(timer, from, LAST_ACKNOWLEDGED, shared, at);
        }
    }

    /// The trial is over, in whatever way: takes the last replies, and takes off what was not
    /// asked.
    fn take_last_replies<T: Timer, S: SendPort, R: ReceivePort>(
        &mut self,
        timer: &mut T,
        to: &mut S,
        from: &mut R,
        shared: &Shared,
        at: &mut Progress,
        turns: Turns,
    ) {
        let count = self.order.send.order.count;
        let stopped = shared.stop.load(Relaxed) && self.counters.broken_errno == 0;
        if stopped {
            self.gather(timer, from, LAST_REPLIES, shared, at);
        }
        self.acknowledge(timer, to, from, shared, at);
        if from.ended() && at.settled < count && self.counters.broken_errno == 0 {
            self.counters.broken_errno = match self.sender.connection_ended {
                0 => libc::ESHUTDOWN,
                errno => errno,
            };
        }
        self.counters.socket_drops = from.drops();
        self.counters.foreign += from.strangers();
        self.gaps = turns.spins.then_some(turns.gaps);
        // On the order to stop, the trial ends with what was asked; where asking became impossible,
        // the rest is not sent.
        let reached = if stopped || self.counters.broken_errno == 0 { at.next } else { count };
        self.sender.truncate(reached);
        // With few in flight all measured requests of a stretch are under way at once, behind a
        // pause for which what holds them up may be taken. So what all of them waited says how long
        // the trial would have been without pauses, and the rest of it counts as pauses.
        let took_ns = self.sender.counters.sent_ns.map(|(first, _)| self.replied_last_ns - first);
        let unpaused_ns =
            at.unpaused_ns(self.order.in_flight.max(1)).filter(|_| self.has_few_in_flight() && at.pauses > 0);
        self.sender.counters.paused_ns = match took_ns.zip(unpaused_ns) {
            Some((took_ns, unpaused_ns)) => took_ns - unpaused_ns,
            None => at.paused_ns - at.turned_in_pauses_ns(),
        };
    }
}
