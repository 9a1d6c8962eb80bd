// SPDX-License-Identifier: MIT OR Apache-2.0
//! The asking end of a ping-pong: a request goes out when a reply has come, so many at a time as are allowed. Closed loop: it
//! measures round trips, and slows down when they do. Between a reply and the next request stands a stamp; it is recorded when the
//! request is on its way.

use crate::order::{AskOrder, StreamOrder};
use crate::port::{Inbox, ReceivePort, Received, SendPort, Timer};
use crate::receiver::{Arrival, ReceiverCounters, Shared, UNTOUCHED, inbox};
use crate::sender::{Sender, SentAt};
use std::sync::atomic::Ordering::Relaxed;
use tardy_model::ethernet::Tags;
use tardy_model::frame::{Frame, Heads, Kind};
use tardy_model::sample::MaybeNanos;
use tardy_model::stream::Port;
use tardy_model::time::{Instant, Nanos, Tai};
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
    inbox: Inbox,
    arrivals: Vec<Arrival>,
    states: Vec<State>,
    /// The sending half.
    pub sender: Sender,
    /// Events of the receiving half.
    pub counters: ReceiverCounters,
    /// Gaps of a spinning wait.
    pub gaps: Option<SpinGaps>,
}

/// From which length on a gap in a spinning loop is counted, ns.
const GAP_NS: i64 = 1_000_000;
/// A wait without a packet ends after this, so that no loop depends on a packet to end.
const LONGEST_WAIT: Nanos = Nanos(LIMIT_MS as i64 * 1_000_000);
/// So long, or four timeouts if that is longer, a requester asks on though nothing comes back.
const HOPE: Nanos = Nanos(60_000_000_000);
/// So long a requester that was told to stop waits for the replies to its last requests.
const LAST_REPLIES: Nanos = Nanos(100_000_000);
/// And looks for them so often: a wait that was ended from outside may not wait any more.
const A_MOMENT: Nanos = Nanos(200_000);
/// A spinning requester tells that it lives when so many looks have found nothing.
const LIFE: u32 = 1 << 16;

/// How long a wait may last where a request is given up after `timeout`: a whole part of it.
pub fn longest_wait(timeout: Nanos) -> Nanos {
    let timeout = timeout.0.max(1) as u64;
    Nanos((timeout / timeout.div_ceil(LONGEST_WAIT.0 as u64)) as i64)
}

/// The same as a socket is told it, in whole milliseconds.
pub(crate) fn longest_wait_ms(timeout: Nanos) -> i32 {
    longest_wait(timeout).0.div_euclid(1_000_000).max(1) as i32
}

/// A spinning requester takes its stamps when so many looks have found nothing.
const LOOKS: u32 = 8;

/// Where the loop stands.
#[derive(Clone, Copy, Default)]
struct Progress {
    /// Requests tried, the next one's number.
    next: u32,
    /// On their way.
    waiting: u32,
    /// Below this number none is on its way.
    oldest: u32,
    /// Answered, given up or refused.
    settled: u32,
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
        let mut arrivals = vec![UNTOUCHED; room];
        arrivals.clear();
        let (inbox, heads) = (inbox(&order.receive), order.receive.heads());
        // Written as something else first, so that no page fault waits for the loop.
        let mut states = vec![State::GivenUp; count];
        states.fill(State::Unsent);
        let sender = Sender::new(order.send.clone());
        Requester { order, heads, inbox, arrivals, states, sender, counters: ReceiverCounters::default(), gaps: None }
    }

    /// Sends `count` warm-up requests, each when its reply has come or `apart` has passed; returns for how many every tx stamp
    /// that is asked for came back. Replies are counted in `shared`.
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
            self.sender.send_warm_up(to, Kind::WarmUp, n);
            let before = shared.warm.load(Relaxed);
            while shared.warm.load(Relaxed) == before && !shared.stop.load(Relaxed) && !from.ended() {
                match from.receive(&mut self.inbox, false) {
                    Ok(Received::Packets(packets)) => {
                        (0..packets).for_each(|n| self.other(n, shared));
                        if self.counters.is_out_of_step() {
                            return 0;
                        }
                    }
                    Ok(Received::Nothing) => self.sender.drain_idle(to),
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
            self.sender.drain_idle(to);
        }
        self.sender.warm_stamped(count)
    }

    /// Takes what is no reply of the trial: one to a warm-up request, which may still be on its way when the trial runs, or a stranger's.
    #[cold]
    fn other(&mut self, n: usize, shared: &Shared) {
        let StreamOrder { nonce, stream, .. } = self.order.send.order;
        let (payload, stamp) = self.inbox.packet(n);
        match Frame::read(payload) {
            Ok(frame) if frame.nonce == nonce && frame.stream == stream && frame.kind == Kind::WarmUpReply => {
                shared.warm_unstamped.fetch_add(u32::from(stamp.is_none()), Relaxed);
                shared.warm_last_stamped.store(stamp.is_some(), Relaxed);
                shared.warm.fetch_add(1, Relaxed);
            }
            read => self.counters.stranger(read, self.order.send.order.port),
        }
    }

    /// Runs the trial: every request, or until told to stop.
    pub fn run<T: Timer, S: SendPort, R: ReceivePort>(
        &mut self,
        timer: &mut T,
        to: &mut S,
        from: &mut R,
        shared: &Shared,
    ) {
        let (count, in_flight) = (self.order.send.order.count, self.order.in_flight.max(1));
        let spins = from.spins();
        let mut gaps = SpinGaps::default();
        let mut last: Option<Instant<Tai>> = None;
        let mut idle = 0_u32;
        let hope = HOPE.max(Nanos(self.order.timeout.0.saturating_mul(4)));
        let mut heard = timer.now();
        let mut at = Progress::default();
        self.sender.begin_trial();
        'trial: while at.settled < count && !shared.stop.load(Relaxed) && !from.ended() {
            if at.waiting < in_flight && at.next < count {
                self.ask_on(timer, to, &mut at);
            }
            self.sender.drain_in_batches(to);
            let received = from.receive(&mut self.inbox, false);
            let now = timer.now();
            if spins && let Some(before) = last.replace(now) {
                let gap = (now - before).0;
                if gap > GAP_NS {
                    gaps.over_1ms += 1;
                    gaps.total_ns += gap;
                    gaps.longest_ns = gaps.longest_ns.max(gap);
                }
            }
            if let Ok(Received::Packets(packets)) = received {
                (idle, heard) = (0, now);
                for n in 0..packets {
                    let Some(taken) = self.reply(n, &mut at) else {
                        self.other(n, shared);
                        if self.counters.is_out_of_step() {
                            break 'trial;
                        }
                        continue;
                    };
                    if !shared.stop.load(Relaxed) {
                        self.ask_all(timer, to, &mut at);
                    }
                    self.note(taken, now, shared);
                }
            } else {
                idle = idle.saturating_add(1);
                if let Err(errno) = received {
                    self.counters.broken_errno = errno;
                    break;
                }
                if now - heard > hope {
                    self.counters.broken_errno = libc::ETIME;
                    break;
                }
                self.nothing(received == Ok(Received::TimedOut), spins, idle, to, shared);
            }
            self.give_up(now, &mut at);
        }
        let stopped = shared.stop.load(Relaxed) && self.counters.broken_errno == 0;
        if stopped {
            self.gather(timer, from, shared, &mut at);
        }
        if from.ended() && at.settled < count && self.counters.broken_errno == 0 {
            self.counters.broken_errno = libc::ESHUTDOWN;
        }
        self.counters.socket_drops = from.drops();
        self.counters.foreign += from.strangers();
        self.gaps = spins.then_some(gaps);
        // Told to stop, the trial ends with what was asked; where asking became impossible, the rest is not sent.
        let reached = if stopped || self.counters.broken_errno == 0 { at.next } else { count };
        self.sender.end_trial(timer, to, reached);
    }

    /// No packet came, `idle` times in a row: the wait's time limit passed, or there was nothing to be read.
    #[cold]
    fn nothing<S: SendPort>(&mut self, timed_out: bool, spins: bool, idle: u32, to: &mut S, shared: &Shared) {
        if timed_out {
            self.sender.drain_idle(to);
            shared.live.turn();
            return;
        }
        self.counters.empty_wakeups += u64::from(!spins && !shared.stop.load(Relaxed));
        if !spins {
            // A stamp that came back made the socket say that it is readable, and will again until it is taken.
            self.sender.drain_woken(to);
        } else if idle == LOOKS {
            self.sender.drain_idle(to);
        }
        if idle.is_multiple_of(LIFE) {
            shared.live.turn();
        }
    }

    /// Takes the replies to the last requests, which were on their way when the stop was heard: they are not lost.
    fn gather<T: Timer, R: ReceivePort>(&mut self, timer: &mut T, from: &mut R, shared: &Shared, at: &mut Progress) {
        let until = timer.now() + LAST_REPLIES;
        while at.waiting > 0 && !from.ended() && !self.counters.is_out_of_step() {
            let received = from.receive(&mut self.inbox, false);
            let now = timer.now();
            match received {
                Ok(Received::Packets(packets)) => {
                    for n in 0..packets {
                        match self.reply(n, at) {
                            Some(taken) => self.note(taken, now, shared),
                            None => self.other(n, shared),
                        }
                    }
                }
                Ok(Received::Nothing | Received::TimedOut) => timer.sleep_until(now + A_MOMENT),
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
        while at.waiting < self.order.in_flight.max(1) && at.next < self.order.send.order.count {
            self.ask(timer, to, at);
        }
    }

    /// The same where no reply has just come: at the beginning, and when one was given up.
    #[cold]
    fn ask_on<T: Timer, S: SendPort>(&mut self, timer: &mut T, to: &mut S, at: &mut Progress) {
        self.ask_all(timer, to, at);
    }

    #[inline(always)]
    fn ask<T: Timer, S: SendPort>(&mut self, timer: &mut T, to: &mut S, at: &mut Progress) {
        let packet = at.next;
        at.next += 1;
        if self.sender.send_now(timer, to, packet, SentAt::Read) {
            let since = self.sender.sent_last_ns();
            self.states[packet as usize] = State::Waiting(since);
            at.waiting += 1;
        } else {
            at.settled += 1;
        }
    }

    /// Takes the reply at place `n` of the inbox; `None` if no reply to a request of the trial is there.
    #[inline(always)]
    fn reply(&mut self, n: usize, at: &mut Progress) -> Option<Taken> {
        let (payload, stamp) = self.inbox.packet(n);
        let seq = self.heads.number(payload).filter(|seq| *seq < at.next)?;
        let state = &mut self.states[seq as usize];
        let since_ns = match *state {
            State::Waiting(since_ns) => Some(since_ns),
            State::Answered | State::GivenUp => None,
            // A reply to a request that was never sent is nobody's.
            State::Unsent => return None,
        };
        *state = State::Answered;
        at.waiting -= u32::from(since_ns.is_some());
        at.settled += u32::from(since_ns.is_some());
        let rx_kernel = MaybeNanos::from(stamp.map(Instant::ns));
        Some(Taken { seq, since_ns, tags: self.inbox.tags(n), rx_kernel })
    }

    /// Records a reply that was received `now`.
    #[inline(always)]
    fn note(&mut self, taken: Taken, now: Instant<Tai>, shared: &Shared) {
        let Taken { seq, since_ns, tags, rx_kernel } = taken;
        if let Some(since_ns) = since_ns {
            shared.live.count(Some(now.ns() - since_ns));
        }
        if self.arrivals.len() < self.arrivals.capacity() {
            self.arrivals.push(Arrival { seq, tags, rx_kernel, receive_ns: now.ns() });
        } else {
            self.counters.records_dropped += 1;
        }
    }

    /// Gives up requests that have waited too long. They were sent in order, so the oldest tells.
    fn give_up(&mut self, now: Instant<Tai>, at: &mut Progress) {
        // A connection brings every reply, however late, or ends.
        if self.order.send.order.port == Port::Tcp {
            return;
        }
        while at.oldest < at.next {
            match self.states[at.oldest as usize] {
                State::Waiting(since_ns) if now.ns() - since_ns > self.order.timeout.0 => {
                    self.states[at.oldest as usize] = State::GivenUp;
                    at.waiting -= 1;
                    at.settled += 1;
                }
                State::Waiting(_) => break,
                State::Unsent | State::Answered | State::GivenUp => {}
            }
            at.oldest += 1;
        }
    }

    /// The replies in the order of the receive calls, when the trial is over; the sending half stays in `sender`.
    pub fn take_arrivals(&mut self) -> Vec<Arrival> {
        std::mem::take(&mut self.arrivals)
    }
}
