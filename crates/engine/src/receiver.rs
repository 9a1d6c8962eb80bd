// SPDX-License-Identifier: MIT OR Apache-2.0
//! The receiving loop: wait, receive, stamp, record into memory that was allocated and touched
//! before.

use crate::live::Live;
use crate::order::{ReceiveOrder, StreamOrder};
use crate::port::{Lent, ReceivePort, Received, Timer, XdpStamp};
use crate::worker::Usage;
use serde::{Deserialize, Serialize};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, Ordering::Relaxed};
use tardy_model::ethernet::Tags;
use tardy_model::frame::{Foreign, Frame, Heads, LEAD, PAUSE, PROBE, PacketKind};
use tardy_model::point::{Metric, Point};
use tardy_model::port::Port;
use tardy_model::sample::MaybeNanos;
use tardy_model::time::{Instant, Nanos, Tai};
use tardy_model::trial::SpinGaps;
use tardy_model::xdp::UNKNOWN;

/// One arrival, raw clock values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arrival {
    pub seq: u32,
    /// The VLAN tags it came with.
    pub tags: Tags,
    /// The device's stamp: on its own clock, and once the trial is over REALTIME, ns; absent for a
    /// packet without one.
    pub rx_hw: MaybeNanos,
    /// REALTIME, ns; absent for a packet without a stamp.
    pub rx_kernel: MaybeNanos,
    /// TAI, ns: after the receive call returned.
    pub receive_ns: i64,
}

/// Events of the receiving side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceiverCounters {
    /// Packets on the port that are not this trial's.
    pub foreign: u64,
    /// Readiness that yielded nothing.
    pub empty_wakeups: u64,
    /// Arrivals that found no room in the recorder.
    pub records_dropped: u64,
    /// Packets dropped at the socket's buffer.
    pub socket_drops: u64,
    /// errno that ended the loop, 0 if none did.
    pub broken_errno: i32,
    /// Requests that went out after the last one in flight had been given up, at the end that asks.
    pub after_silence: u64,
    /// By how much the device's stamps may be wrong on CLOCK_REALTIME, ns.
    pub hardware_bound_ns: i64,
}

impl ReceiverCounters {
    /// Counts what is not this trial's. In a stream of bytes anything that is not a frame ends it,
    /// because nothing shows where the next message would begin.
    #[cold]
    pub(crate) fn stranger(&mut self, read: Result<Frame, Foreign>, port: Port) {
        if port.traits().is_connection && read.is_err() {
            self.broken_errno = libc::EBADMSG;
        } else {
            self.foreign += 1;
        }
    }

    /// True after such bytes.
    #[inline]
    pub(crate) fn is_out_of_step(&self) -> bool {
        self.broken_errno == libc::EBADMSG
    }
}

/// What the control thread and the loop share.
#[derive(Default)]
pub struct Shared {
    pub stop: AtomicBool,
    pub live: Live,
    /// Warm-up packets so far.
    pub warm: AtomicU32,
    /// Those without a stamp of the kernel's, or of the XDP program.
    pub warm_unstamped: AtomicU32,
    /// True if the latest one had it.
    pub warm_last_stamped: AtomicBool,
    /// What the thread had used when the trial began, if it works since before the warm-up.
    pub began: OnceLock<Usage>,
    /// Scheduled instant of packet 0 for the live figures, TAI; 0 while unknown.
    pub base_ns: AtomicI64,
    /// The same by the clock of the kernel's stamps, where the live figures are of these; else 0.
    pub base_realtime_ns: AtomicI64,
    /// Warm-up packets that were answered.
    pub warm_answered: AtomicU32,
    /// Answers for which every tx stamp that is asked for came back.
    pub warm_answers_stamped: AtomicU32,
    /// Where the XDP program ran for warm-up packets.
    pub warm_program: ProgramCpus,
}

/// The CPUs that ran an XDP program: the first one, and one that differs from it, if any does. Each
/// is its number and one more; 0 is none.
#[derive(Default)]
pub struct ProgramCpus {
    first: AtomicU32,
    other: AtomicU32,
}

impl ProgramCpus {
    fn saw(&self, cpu: u32) {
        // A user's own hint without a CPU shows none.
        if cpu == UNKNOWN {
            return;
        }
        let cpu = cpu.saturating_add(1);
        match self.first.load(Relaxed) {
            0 => self.first.store(cpu, Relaxed),
            first if first != cpu => self.other.store(cpu, Relaxed),
            _ => {}
        }
    }

    /// Their numbers, at most two.
    pub fn seen(&self) -> Vec<u32> {
        [&self.first, &self.other].into_iter().filter_map(|cpu| cpu.load(Relaxed).checked_sub(1)).collect()
    }
}

impl Shared {
    /// How late packet `seq` is for the live figures, by the same points as the metric that leads
    /// in the table.
    #[inline]
    fn lateness(&self, seq: u32, cycle: Nanos, rx_kernel: Option<i64>, receive: Instant<Tai>) -> Option<i64> {
        let since = |base: i64, at: i64| (base != 0).then(|| at - base - i64::from(seq) * cycle.0);
        match self.base_realtime_ns.load(Relaxed) {
            0 => since(self.base_ns.load(Relaxed), receive.ns()),
            base => since(base, rx_kernel?),
        }
    }
}

/// What is done with a packet of the stream at once, before anything else: a reflector answers it.
pub trait Answer {
    /// True if nobody asks when a packet was received: then it is answered before the clock is
    /// read.
    fn comes_before_the_clock(&self) -> bool {
        false
    }
    /// A packet arrived for the first time, of the trial or of the warm-up; its receive call
    /// returned at `receive`, if the clock was read.
    fn answer<T: Timer>(
        &mut self,
        timer: &mut T,
        receive: Option<Instant<Tai>>,
        kind: PacketKind,
        seq: u32,
        shared: &Shared,
    );
    /// Nothing is there to be received; `since` looks have found nothing.
    fn idle<T: Timer>(&mut self, timer: &mut T, since: u32, shared: &Shared);
}

/// A receiver that answers nothing.
pub struct Silent;

impl Answer for Silent {
    #[inline]
    fn answer<T: Timer>(&mut self, _: &mut T, _: Option<Instant<Tai>>, _: PacketKind, _: u32, _: &Shared) {}
    #[inline]
    fn idle<T: Timer>(&mut self, _: &mut T, _since: u32, _shared: &Shared) {}
}

/// A receiver ready to run.
pub struct Receiver {
    order: ReceiveOrder,
    /// Of the trial's packets.
    heads: Heads,
    /// Of those that are synchronisation frames, where there are any.
    marks: Option<Heads>,
    /// Of which the first `arrived` are arrivals, and the next one is the place of a packet of the
    /// lead-in.
    arrivals: Vec<Arrival>,
    arrived: usize,
    /// Of each arrival, where packets pass an XDP program; else empty.
    stamps: Vec<XdpStamp>,
    /// Of each arrival the bytes before its packet, `area` of them, where a user's own XDP program
    /// wrote them; else empty.
    areas: Vec<u8>,
    area: usize,
    /// The live figures are of the XDP program's stamps.
    live_by_xdp: bool,
    /// One bit for each packet, after a word for those of the lead-in.
    seen: Vec<u64>,
    pub counters: ReceiverCounters,
    /// Gaps of a spinning loop.
    pub gaps: Option<SpinGaps>,
}

/// Packets that come one after the other within this time were waiting: no thread is woken so fast.
/// Then the next call takes all that wait, so that a receiver which is behind catches up; else each
/// packet has a call and an instant of its own.
const BEHIND_NS: i64 = 3_000;
/// From which length on a gap in a spinning loop is counted, ns.
const GAP_NS: i64 = 1_000_000;
/// A spinning loop that finds nothing reads the clock each time that it has looked this often.
const LOOKS: u32 = 16;

/// Written into memory before the loop runs.
pub(crate) const UNTOUCHED: Arrival =
    Arrival { seq: 0, tags: Tags::UNSEEN, rx_hw: MaybeNanos::NONE, rx_kernel: MaybeNanos::NONE, receive_ns: 1 };
/// The same of what an XDP program wrote.
const UNSTAMPED: XdpStamp = XdpStamp { time_ns: MaybeNanos::NONE, cpu: 1, queue: 1 };

impl Receiver {
    /// Allocates for the order.
    pub fn new(order: ReceiveOrder) -> Self {
        let (room, area) = (order.room(), order.area());
        let arrivals = vec![UNTOUCHED; room];
        let (heads, marks) = (order.heads(), order.order.marks().filter(|_| !order.replies));
        let StreamOrder { port, lead, .. } = order.order;
        let live_by_xdp = lead == Some(Metric::Span(Point::Scheduled, Point::RxXdp));
        let stamps = if port.passes_xdp() { vec![UNSTAMPED; room] } else { Vec::new() };
        let mut areas = vec![1; room * area];
        areas.fill(0);
        // Written once, so that the kernel has given the memory before the loop runs.
        let mut seen = vec![u64::MAX; order.order.count as usize / 64 + 2];
        seen.fill(0);
        Receiver {
            order,
            heads,
            marks,
            arrivals,
            arrived: 0,
            stamps,
            areas,
            area,
            live_by_xdp,
            seen,
            counters: ReceiverCounters::default(),
            gaps: None,
        }
    }

    /// Receives until the first warm-up packet has come, or the order to stop.
    pub fn run_until_warm<T: Timer, P: ReceivePort>(&mut self, timer: &mut T, port: &mut P, shared: &Shared) {
        self.run_while(timer, port, shared, &mut Silent, || shared.warm.load(Relaxed) == 0);
    }

    /// Receives until ordered to stop.
    pub fn run<T: Timer, P: ReceivePort>(&mut self, timer: &mut T, port: &mut P, shared: &Shared) {
        self.run_while(timer, port, shared, &mut Silent, || true);
    }

    /// Receives and answers until ordered to stop, or while `goes_on`.
    pub(crate) fn run_while<T: Timer, P: ReceivePort, A: Answer>(
        &mut self,
        timer: &mut T,
        port: &mut P,
        shared: &Shared,
        answer: &mut A,
        goes_on: impl Fn() -> bool,
    ) {
        let spins = port.spins();
        let mut gaps = SpinGaps::default();
        let mut last = spins.then(|| timer.now());
        let mut in_trial = false;
        let clock_first = spins || !answer.comes_before_the_clock();
        let (mut latest, mut behind, mut idle) = (None, false, 0_u32);
        while !shared.stop.load(Relaxed) && !port.ended() && goes_on() {
            let received = port.receive(behind);
            let has_come = matches!(received, Ok(Received::Packets(_)));
            // To read the clock takes as long as to look some times, and a packet that comes
            // meanwhile waits.
            let is_due = spins && idle.is_multiple_of(LOOKS);
            let mut receive = (has_come && clock_first || is_due).then(|| timer.now());
            if let (true, Some(receive)) = (spins, receive)
                && let Some(before) = last.replace(receive)
            {
                let gap = (receive - before).0;
                if gap > GAP_NS && in_trial {
                    gaps.over_1ms += 1;
                    gaps.total_ns += gap;
                    gaps.longest_ns = gaps.longest_ns.max(gap);
                }
            }
            let Ok(Received::Packets(packets)) = received else {
                if let Err(errno) = received {
                    self.counters.broken_errno = errno;
                    break;
                }
                let timed_out = received == Ok(Received::TimedOut);
                if !timed_out {
                    (behind, idle) = (false, idle.saturating_add(1));
                }
                self.nothing(timer, timed_out, spins, idle, shared, answer);
                continue;
            };
            idle = 0;
            for n in 0..packets {
                in_trial |= self.packet(timer, port, n, &mut receive, shared, answer);
            }
            if self.counters.is_out_of_step() {
                break;
            }
            let receive = receive.unwrap_or_else(|| timer.now());
            let before = latest.replace(receive);
            behind = packets > 1 || before.is_some_and(|before: Instant<Tai>| (receive - before).0 < BEHIND_NS);
        }
        if shared.stop.load(Relaxed) && self.counters.broken_errno == 0 {
            self.late(timer, port, shared, answer);
        }
        self.counters.socket_drops = port.drops();
        self.counters.foreign += port.strangers();
        self.gaps = spins.then_some(gaps);
    }

    /// No packet came, `idle` times in a row: the wait's time limit passed, or there was nothing
    /// to be read.
    #[cold]
    fn nothing<T: Timer, A: Answer>(
        &mut self,
        timer: &mut T,
        timed_out: bool,
        spins: bool,
        idle: u32,
        shared: &Shared,
        answer: &mut A,
    ) {
        // A spinning loop asks for nothing all the time; only a false readiness is an event. The
        // order to stop looks the same, and is none.
        self.counters.empty_wakeups += u64::from(!timed_out && !spins && !shared.stop.load(Relaxed));
        answer.idle(timer, if spins && !timed_out { idle } else { u32::MAX }, shared);
    }

    /// Takes what waits in the port when the stop is heard: it came in time, and it was this
    /// thread that was held up.
    fn late<T: Timer, P: ReceivePort, A: Answer>(
        &mut self,
        timer: &mut T,
        port: &mut P,
        shared: &Shared,
        answer: &mut A,
    ) {
        port.stops();
        for _ in 0..self.arrivals.len() {
            if port.ended() {
                break;
            }
            let Ok(Received::Packets(packets)) = port.receive(true) else { break };
            let mut receive = Some(timer.now());
            for n in 0..packets {
                self.packet(timer, port, n, &mut receive, shared, answer);
            }
            if self.counters.is_out_of_step() {
                break;
            }
        }
    }

    /// Takes the packet at place `n` of what came; true if it is the trial's. One of the lead-in
    /// goes the same way and no record is left of it. Where the clock was not read yet, it is when
    /// the packet has been answered.
    #[inline(always)]
    fn packet<T: Timer, P: ReceivePort, A: Answer>(
        &mut self,
        timer: &mut T,
        port: &P,
        n: usize,
        receive: &mut Option<Instant<Tai>>,
        shared: &Shared,
        answer: &mut A,
    ) -> bool {
        let StreamOrder { cycle, count, .. } = self.order.order;
        let (payload, stamp) = port.lent().packet(n);
        let number = self.heads.number(payload).or_else(|| self.marks.as_ref()?.number(payload));
        let Some(seq) = number.filter(|seq| *seq < count || *seq == LEAD) else {
            let xdp = if P::Lent::PASSES_XDP { port.lent().xdp(n) } else { XdpStamp::NONE };
            let program = xdp.time_ns.is_some().then_some(xdp.cpu);
            let is_stamped = stamp.is_some() || program.is_some();
            self.other(timer, (payload, is_stamped, program), *receive, shared, answer);
            return false;
        };
        // [`LEAD`] wraps around into the first word.
        let place = seq.wrapping_add(64);
        let (word, bit) = (place as usize / 64, 1u64 << (place % 64));
        let is_first = self.seen[word] & bit == 0;
        if is_first {
            answer.answer(timer, *receive, self.order.expects().0, seq, shared);
        }
        let receive = *receive.get_or_insert_with(|| timer.now());
        // One of the lead-in is recorded as the others are, and taken back.
        let is_lead = seq == LEAD;
        let rx_kernel = MaybeNanos::from(stamp.map(Instant::ns));
        // Live figures are of the point that leads.
        let mut live_at = receive;
        if P::Lent::PASSES_XDP {
            let xdp = port.lent().xdp(n);
            if let Some(place) = self.stamps.get_mut(self.arrived) {
                *place = xdp;
            }
            if self.area > 0 {
                self.keep(port.lent().area(n));
            }
            if let Some(ns) = xdp.time_ns.get().filter(|_| self.live_by_xdp) {
                live_at = Instant::from_ns(ns);
            }
        }
        if let Some(place) = self.arrivals.get_mut(self.arrived) {
            let rx_hw = MaybeNanos::from(port.lent().device_ns(n));
            *place = Arrival { seq, tags: port.lent().tags(n), rx_hw, rx_kernel, receive_ns: receive.ns() };
            self.arrived += usize::from(!is_lead);
        } else {
            self.counters.records_dropped += u64::from(!is_lead);
        }
        // Progress counts packets, not arrivals: a duplicate must not count for one that is still
        // to come.
        if is_first {
            self.seen[word] |= if is_lead { 0 } else { bit };
            let seq = if is_lead { 0 } else { seq };
            shared.live.count_if(!is_lead, shared.lateness(seq, cycle, stamp.map(Instant::ns), live_at));
        }
        !is_lead
    }

    /// Keeps the bytes before a packet.
    #[inline]
    fn keep(&mut self, area: &[u8]) {
        let at = self.arrived * self.area;
        if let Some(place) = self.areas.get_mut(at..at + self.area).filter(|place| place.len() == area.len()) {
            place.copy_from_slice(area);
        }
    }

    /// Handles what is no packet of the trial: a warm-up packet, which has a number of its own, or
    /// a stranger's.
    #[cold]
    fn other<T: Timer, A: Answer>(
        &mut self,
        timer: &mut T,
        (payload, is_stamped, program): (&[u8], bool, Option<u32>),
        receive: Option<Instant<Tai>>,
        shared: &Shared,
        answer: &mut A,
    ) {
        let StreamOrder { nonce, stream, .. } = self.order.order;
        let (_, warm_up, _) = self.order.expects();
        match Frame::read(payload) {
            Ok(frame) if frame.nonce == nonce && frame.stream == stream.number() && frame.seq == PROBE => {}
            Ok(frame) if frame.nonce == nonce && frame.stream == stream.number() && frame.kind == warm_up => {
                answer.answer(timer, receive, frame.kind, frame.seq, shared);
                if frame.seq == PAUSE {
                    return;
                }
                program.into_iter().for_each(|cpu| shared.warm_program.saw(cpu));
                shared.warm_unstamped.fetch_add(u32::from(!is_stamped), Relaxed);
                shared.warm_last_stamped.store(is_stamped, Relaxed);
                shared.warm.fetch_add(1, Relaxed);
            }
            read => self.counters.stranger(read, self.order.order.port),
        }
    }

    /// What the XDP program wrote before each arrival, in the same order; empty where packets pass
    /// none.
    pub fn take_stamps(&mut self) -> Vec<XdpStamp> {
        let mut stamps = std::mem::take(&mut self.stamps);
        stamps.truncate(self.arrived);
        stamps
    }

    /// The bytes before each arrival's packet, in the same order; empty where none are kept.
    pub fn take_areas(&mut self) -> Vec<u8> {
        let mut areas = std::mem::take(&mut self.areas);
        areas.truncate(self.arrived * self.area);
        areas
    }

    /// The arrivals in the order of the receive calls, when the trial is over.
    pub fn finish(mut self) -> Vec<Arrival> {
        self.arrivals.truncate(self.arrived);
        self.arrivals
    }
}
