// SPDX-License-Identifier: MIT OR Apache-2.0
//! The asking end of a ping-pong: a request goes out when a reply has come, as many at a time as
//! are allowed. Closed loop: it measures round trips, and slows down when they do. Between a reply
//! and the next request only a stamp is taken; it is recorded when the request is on its way.
//!
//! Where stamps come back, the trial's requests go out in stretches. Between two stretches nothing
//! is in flight, and both ends empty their error queues. Before and after each stretch requests go
//! out that are not measured, so that its first and its last request meet what the others meet.

mod progress;
mod trial;

use crate::order::{AskOrder, StreamOrder};
use crate::port::{Lent, ReceivePort, Received, SendPort, Timer};
use crate::receiver::{Arrival, ReceiverCounters, Shared, UNTOUCHED};
use crate::sender::{STRETCH, STRETCH_OF_SEVERAL, Sender, SentAt};
use progress::Progress;
use std::sync::atomic::Ordering::Relaxed;
use tardy_model::ethernet::Tags;
use tardy_model::frame::{Frame, Heads, LEAD, PAUSE, PacketKind};
use tardy_model::point::Point;
use tardy_model::sample::MaybeNanos;
use tardy_model::time::{Instant, Nanos, Realtime, Tai};
use tardy_model::trial::SpinGaps;
use tardy_sys::wait::LIMIT_MS;

/// What is known of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Not sent, or refused.
    Unsent,
    /// On its way, since then (TAI, ns).
    Waiting(i64),
    /// A reply has come.
    Answered,
    /// None has come in time.
    GivenUp,
}

/// A requester ready to run: all memory is allocated and touched.
pub struct Requester {
    order: AskOrder,
    /// Of the trial's replies.
    heads: Heads,
    /// Of which the first `arrived` are arrivals, and the next one is the place of a packet of the
    /// lead-in.
    arrivals: Vec<Arrival>,
    arrived: usize,
    states: Vec<State>,
    pub sender: Sender,
    /// Events of the receiving half.
    pub counters: ReceiverCounters,
    /// Gaps of a spinning wait.
    pub gaps: Option<SpinGaps>,
    /// When the latest reply came, TAI, ns.
    replied_last_ns: i64,
    /// When the latest replies came, as many as may be in flight, TAI, ns.
    recent_ns: Vec<i64>,
}

/// From which length on a gap in a spinning loop is counted, ns.
const GAP_NS: i64 = 1_000_000;
/// A wait without a packet ends after this, so that no loop depends on a packet to end.
const LONGEST_WAIT: Nanos = Nanos(LIMIT_MS as i64 * 1_000_000);
/// A requester goes on asking for this time, or four timeouts if that is longer, though nothing
/// comes back.
const HOPE: Nanos = Nanos(60_000_000_000);
/// A requester that was ordered to stop waits this long for the replies to its last requests.
const LAST_REPLIES: Nanos = Nanos(100_000_000);
/// And for the reply to the one that acknowledges all others: a connection that is closed before
/// it would look broken to the reflector.
const LAST_ACKNOWLEDGED: Nanos = Nanos(2_000_000_000);
/// And looks for them so often: a wait that was ended from outside may not wait any more.
const A_MOMENT: Nanos = Nanos(200_000);
/// Requests before a trial's first stretch that are not measured, and before and after each
/// stretch; at least one for each that may be in flight.
const FIRST_ROUNDS: u32 = 20;
/// Stretches with their pauses before the first one that is measured: what is done in one finds
/// its code and its memory in the CPU's caches.
const REHEARSALS: u32 = 5;
/// Requests of such a stretch at most.
const REHEARSED: u32 = 64;
/// Unmeasured requests around a stretch of several in flight, as a multiple of these: before it,
/// after it, and to fill up.
const LEADS_OF_MANY: u32 = 3;
const LEAD_IN: u32 = 3;
const LEAD_OUT: u32 = 1;
/// Up to this number more come before each stretch of few in flight, drawn at random. With two in
/// flight and always three of them, a stretch would leave as many stamps as half a slab of the
/// kernel's allocator has records: it would change its slab at the same one of four requests each
/// time.
const FURTHER: u32 = 3;
/// If one of those has no reply after this time, it is given up, and with it the rest of its kind.
const LEAD_LIMIT: Nanos = Nanos(250_000_000);
/// A spinning requester shows that it lives after this number of looks that found nothing.
const LIFE: u32 = 1 << 16;

/// How long a wait may last where a request is given up after `timeout`: a whole part of it.
pub fn longest_wait(timeout: Nanos) -> Nanos {
    let timeout = timeout.0.max(1) as u64;
    Nanos((timeout / timeout.div_ceil(LONGEST_WAIT.0 as u64)) as i64)
}

/// The same in the unit of a socket's option, whole milliseconds.
pub(crate) fn longest_wait_ms(timeout: Nanos) -> i32 {
    longest_wait(timeout).0.div_euclid(1_000_000).max(1) as i32
}

/// A reply that is still to be recorded.
struct Taken {
    seq: u32,
    /// When the request went out that was still waiting for it, TAI, ns.
    since_ns: Option<i64>,
    tags: Tags,
    rx_kernel: MaybeNanos,
}

impl Requester {
    /// Allocates for the order.
    pub fn new(order: AskOrder) -> Self {
        let count = order.send.order.count as usize;
        let room = count + count / 8 + 1_024;
        let arrivals = vec![UNTOUCHED; room];
        let heads = order.receive.heads();
        // Written as something else first, so that no page fault waits for the loop.
        let mut states = vec![State::GivenUp; count + 1];
        states.fill(State::Unsent);
        // The place of those of the lead-in, of which nothing is recorded.
        states[count] = State::GivenUp;
        let sender = Sender::new(order.send.clone());
        let counters = ReceiverCounters::default();
        let replied_last_ns = 0;
        let recent_ns = vec![0; order.in_flight.max(1) as usize];
        Requester {
            order,
            heads,
            arrivals,
            arrived: 0,
            states,
            sender,
            counters,
            gaps: None,
            replied_last_ns,
            recent_ns,
        }
    }

    /// Sends `count` warm-up requests, each when its reply has come or `apart` has passed; returns
    /// for how many every tx stamp that is asked for came back. Replies are counted in `shared`.
    pub fn warm_up<T: Timer, S: SendPort, R: ReceivePort>(
        &mut self,
        timer: &mut T,
        to: &mut S,
        from: &mut R,
        shared: &Shared,
        count: u32,
        apart: Nanos,
    ) -> u32 {
        self.sender.warm_stamped(0);
        for n in 0..count {
            let until = timer.now() + apart;
            self.sender.send_warm_up(to, PacketKind::WarmUp, n);
            let before = shared.warm.load(Relaxed);
            while shared.warm.load(Relaxed) == before && !shared.stop.load(Relaxed) && !from.ended() {
                match from.receive(false) {
                    Ok(Received::Packets(packets)) => {
                        (0..packets).for_each(|n| self.other(from.lent().packet(n), shared, &mut Progress::default()));
                        if self.counters.is_out_of_step() {
                            return 0;
                        }
                    }
                    Ok(Received::Nothing) => self.sender.drain_warm(to),
                    Ok(Received::TimedOut) => {}
                    Err(errno) => {
                        self.counters.broken_errno = errno;
                        return 0;
                    }
                }
                if timer.now() > until {
                    break;
                }
            }
            timer.sleep_until(until);
            self.sender.drain_warm(to);
        }
        self.sender.warm_stamped(count)
    }

    /// Takes what is no reply of the trial: one to a warm-up request, which may still be on its
    /// way when the trial runs, or a stranger's.
    #[cold]
    fn other(&mut self, (payload, stamp): (&[u8], Option<Instant<Realtime>>), shared: &Shared, at: &mut Progress) {
        let StreamOrder { nonce, stream, .. } = self.order.send.order;
        let is_ours = |frame: &Frame| frame.nonce == nonce && frame.stream == stream.number();
        match Frame::read(payload) {
            Ok(frame) if is_ours(&frame) && frame.kind == PacketKind::WarmUpReply => {
                if frame.seq == PAUSE {
                    at.beside = at.beside.saturating_sub(1);
                    return;
                }
                shared.warm_unstamped.fetch_add(u32::from(stamp.is_none()), Relaxed);
                shared.warm_last_stamped.store(stamp.is_some(), Relaxed);
                shared.warm.fetch_add(1, Relaxed);
            }
            read => self.counters.stranger(read, self.order.send.order.port),
        }
    }

    /// Requests of one stretch: all of them where no stamps come back at either end.
    fn stretch(&self) -> u32 {
        let stamped = [Point::TxSched, Point::TxKernel, Point::TxHw, Point::ReplyTxSched, Point::ReplyTxKernel];
        let order = &self.order.send.order;
        if stamped.into_iter().any(|point| order.wants(point)) {
            match self.order.in_flight {
                1 if order.port.traits().is_connection => 1,
                few if few <= STRETCH_OF_SEVERAL => STRETCH.max(few),
                // After a pause the queues at both ends would first have to grow to their length
                // again. The kernel's allocator takes a small part of the time that a request
                // spends in them, so pauses only make room.
                many => self.sender.room_for().saturating_sub(many.saturating_mul(LEADS_OF_MANY)).max(many),
            }
        } else {
            u32::MAX
        }
    }

    /// Lets both ends empty their error queues while nothing is in flight.
    #[cold]
    fn pause<T: Timer, S: SendPort>(&mut self, timer: &mut T, to: &mut S, at: &mut Progress) {
        let went_out = self.sender.send_warm_up(to, PacketKind::WarmUp, PAUSE);
        at.asked_beside(timer.now(), went_out);
        self.sender.drain_paused(timer, to);
    }

    /// No packet came, `idle` times in a row: the wait's time limit passed, or there was nothing
    /// to be read.
    #[cold]
    fn nothing<T: Timer, S: SendPort>(
        &mut self,
        timer: &mut T,
        timed_out: bool,
        spins: bool,
        idle: u32,
        to: &mut S,
        shared: &Shared,
    ) {
        if timed_out {
            shared.live.turn();
            return;
        }
        self.counters.empty_wakeups += u64::from(!spins && !shared.stop.load(Relaxed));
        if !spins {
            // A stamp that came back made the socket say that it is readable, and will again until
            // it is taken.
            self.sender.drain_woken(timer, to);
        }
        if idle.is_multiple_of(LIFE) {
            shared.live.turn();
        }
    }

    /// Takes the replies to the last requests, which were on their way when the stop was heard, or
    /// that acknowledge others: they are not lost.
    fn gather<T: Timer, R: ReceivePort>(
        &mut self,
        timer: &mut T,
        from: &mut R,
        limit: Nanos,
        shared: &Shared,
        at: &mut Progress,
    ) {
        let until = timer.now() + limit;
        // Over a connection the unmeasured ones too: what nobody reads would break it for the
        // reflector.
        while at.waiting + at.beside > 0 && !from.ended() && !self.counters.is_out_of_step() {
            let received = from.receive(false);
            let now = timer.now();
            match received {
                Ok(Received::Packets(packets)) => {
                    for n in 0..packets {
                        match self.reply(from, n, at) {
                            Some(taken) => {
                                at.went_on();
                                taken.since_ns.into_iter().for_each(|since_ns| at.replied(now.ns() - since_ns));
                                self.note(taken, now, shared);
                            }
                            None => self.other(from.lent().packet(n), shared, at),
                        }
                    }
                }
                // Without an order to stop the port waits by itself, in its own way.
                Ok(Received::Nothing | Received::TimedOut) if shared.stop.load(Relaxed) => {
                    timer.sleep_until(now + A_MOMENT);
                }
                Ok(Received::Nothing | Received::TimedOut) => shared.live.turn(),
                Err(_) => return,
            }
            if now > until {
                return;
            }
        }
    }

    /// Sends as many requests as may be on their way.
    #[inline(always)]
    fn ask_all<T: Timer, S: SendPort>(&mut self, timer: &mut T, to: &mut S, at: &mut Progress) {
        while at.waiting + at.beside < self.order.in_flight.max(1) && at.next < at.until && at.lead_in == 0 {
            self.ask(timer, to, at, false);
        }
    }

    /// The same where no reply to a request of the trial has just come: around a stretch, and when
    /// one was given up.
    #[cold]
    fn ask_on<T: Timer, S: SendPort>(&mut self, timer: &mut T, to: &mut S, at: &mut Progress) {
        while at.waiting + at.beside < self.order.in_flight.max(1) {
            if at.lead_in > 0 {
                at.lead_in -= 1;
            } else if at.next < at.until {
                self.counters.after_silence += u64::from(std::mem::take(&mut at.fell_silent));
                self.ask(timer, to, at, false);
                continue;
            } else if at.lead_out > 0 {
                at.lead_out -= 1;
            } else if at.waiting > 0 && at.fillers > 0 {
                at.fillers -= 1;
            } else {
                return;
            }
            // Until the stretch's last reply has come as much is in flight as in its middle.
            self.ask(timer, to, at, true);
        }
    }

    /// Sends the next request. There is one copy of this code, which those of the lead-in go
    /// through too: else the trial's first would find it cold.
    #[inline(never)]
    fn ask<T: Timer, S: SendPort>(&mut self, timer: &mut T, to: &mut S, at: &mut Progress, is_lead: bool) {
        let packet = if is_lead { LEAD } else { at.next };
        at.next += u32::from(!is_lead);
        let went_out = self.sender.send_now(timer, to, packet, SentAt::Read);
        let since = self.sender.sent_last_ns();
        let last = self.states.len() - 1;
        if is_lead {
            // The place of the first request: written, so that its line is in this CPU's cache
            // alone.
            self.states[0] = std::hint::black_box(self.states[0]);
            at.asked_beside(timer.now(), went_out);
        }
        if went_out {
            if at.ended_ns != 0 && self.order.in_flight <= 1 && !is_lead {
                let paused_ns = since - std::mem::take(&mut at.ended_ns);
                at.pauses_for(paused_ns);
            }
            if !is_lead {
                at.asked(since);
            }
            self.states[(packet as usize).min(last)] = State::Waiting(since);
            at.waiting += u32::from(!is_lead);
        } else {
            at.settled += u32::from(!is_lead);
        }
    }

    /// Takes the reply at place `n` of what came; `None` if no reply to a request of the trial, or
    /// of its lead-in, is there.
    #[inline(always)]
    fn reply<R: ReceivePort>(&mut self, from: &R, n: usize, at: &mut Progress) -> Option<Taken> {
        let (payload, stamp) = from.lent().packet(n);
        let seq = self.heads.number(payload).filter(|seq| *seq < at.next || *seq == LEAD)?;
        let is_lead = seq == LEAD;
        let last = self.states.len() - 1;
        let state = &mut self.states[(seq as usize).min(last)];
        let since_ns = match *state {
            State::Waiting(since_ns) => Some(since_ns).filter(|_| !is_lead),
            State::Answered | State::GivenUp => None,
            // A reply to a request that was never sent is nobody's.
            State::Unsent => return None,
        };
        *state = State::Answered;
        at.beside -= u32::from(is_lead && at.beside > 0);
        at.waiting -= u32::from(since_ns.is_some());
        at.settled += u32::from(since_ns.is_some());
        let rx_kernel = MaybeNanos::from(stamp.map(Instant::ns));
        Some(Taken { seq, since_ns, tags: from.lent().tags(n), rx_kernel })
    }

    /// Records a reply that was received `now`; of one of the lead-in nothing is left.
    #[inline(always)]
    fn note(&mut self, taken: Taken, now: Instant<Tai>, shared: &Shared) {
        let Taken { seq, since_ns, tags, rx_kernel } = taken;
        // One of the lead-in is recorded as the others are, and taken back.
        let is_lead = seq == LEAD;
        self.replied_last_ns = if is_lead { self.replied_last_ns } else { now.ns() };
        if is_lead || since_ns.is_some() {
            shared.live.count_if(!is_lead, Some(now.ns() - since_ns.unwrap_or(self.sender.sent_last_ns())));
        }
        if let Some(place) = self.arrivals.get_mut(self.arrived) {
            *place = Arrival { seq, tags, rx_hw: MaybeNanos::NONE, rx_kernel, receive_ns: now.ns() };
            self.arrived += usize::from(!is_lead);
        } else {
            self.counters.records_dropped += u64::from(!is_lead);
        }
    }

    /// Gives up requests that have waited too long. They were sent in order, so the oldest decides.
    fn give_up(&mut self, now: Instant<Tai>, at: &mut Progress) {
        // A connection brings every reply, however late, or ends.
        if self.order.send.order.port.traits().is_connection {
            return;
        }
        if at.beside > 0 && now.ns() - at.beside_since_ns > self.order.timeout.min(LEAD_LIMIT).0 {
            (at.beside, at.lead_in, at.lead_out, at.fillers) = (0, 0, 0, 0);
            at.fell_silent |= at.waiting == 0;
        }
        while at.oldest < at.next {
            match self.states[at.oldest as usize] {
                State::Waiting(since_ns) if now.ns() - since_ns > self.order.timeout.0 => {
                    self.states[at.oldest as usize] = State::GivenUp;
                    at.gives_up(now.ns() - since_ns);
                    at.gave_up_ns = now.ns();
                    at.waiting -= 1;
                    at.settled += 1;
                    at.fell_silent |= at.waiting + at.beside == 0;
                }
                State::Waiting(_) => break,
                State::Unsent | State::Answered | State::GivenUp => {}
            }
            at.oldest += 1;
        }
    }

    /// The replies in the order of the receive calls, when the trial is over; the sending half
    /// stays in `sender`.
    pub fn take_arrivals(&mut self) -> Vec<Arrival> {
        self.arrivals.truncate(std::mem::take(&mut self.arrived));
        std::mem::take(&mut self.arrivals)
    }
}
