// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets that are not the trial's. A million foreign ones between its packets change no sample:
//! the same rows, to the nanosecond, as without them. Those of the lead-in are answered by the same
//! code as the trial's, and leave no trace in what is recorded.

use crate::engine::stream;
use crate::ports::{order, sender_order};
use rand::{Rng, RngCore, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::cell::{Cell, RefCell};
use std::net::Ipv4Addr;
use std::rc::Rc;
use std::sync::atomic::AtomicBool;
use tardy_engine::live::Live;
use tardy_engine::matcher::{Match, Matched};
use tardy_engine::order::{ReceiveOrder, ReflectOrder, SendOrder, StreamOrder, ThreadOrder};
use tardy_engine::port::{Inbox, ReceivePort, Received, SendPort, Timer, TxStamp, sim};
use tardy_engine::receiver::{Receiver, ReceiverCounters, Shared};
use tardy_engine::reflector::Reflector;
use tardy_engine::sender::Sender;
use tardy_model::frame::{Frame, HEAD, LEAD, PacketKind};
use tardy_model::point::{Point, Source};
use tardy_model::port::Sim;
use tardy_model::sample::Outcome;
use tardy_model::shaper::Shaper;
use tardy_model::stream::{Policy, Stream, Wait};
use tardy_model::stream_id::StreamId;
use tardy_model::time::{Conversion, Instant, Nanos, Tai};

const COUNT: u32 = 20_000;
const CYCLE_NS: i64 = 500_000;
/// When port `sim` sends its first packet.
const BASE_NS: i64 = 1_767_225_637_100_000_000;
const SIZE: u16 = 64;
const NONCE: u64 = 0x00c0_ffee_dead_beef;
const STREAM: u8 = 3;
/// Before each packet of the trial.
const FOREIGN_EACH: u32 = 50;

/// What the receiver sees of the trial: now and then a packet is lost, doubled, or comes behind
/// the next one.
fn arriving() -> Vec<(i64, u32)> {
    let mut random = Pcg64Mcg::seed_from_u64(11);
    let mut packets = Vec::new();
    for seq in (0..COUNT).filter(|seq| seq % 997 != 5) {
        let held = if seq % 501 == 7 { CYCLE_NS + 20_000 } else { 0 };
        let at = BASE_NS + i64::from(seq) * CYCLE_NS + held + random.random_range(1_000..90_000);
        packets.push((at, seq));
        if seq % 777 == 3 {
            packets.push((at + 150, seq));
        }
    }
    packets.sort();
    packets
}

/// A receiver's clock, which stands where the port has put it.
struct Clock(Rc<Cell<i64>>);

impl Timer for Clock {
    fn now(&mut self) -> Instant<Tai> {
        Instant::from_ns(self.0.get())
    }
    fn sleep_until(&mut self, at: Instant<Tai>) {
        self.0.set(self.0.get().max(at.ns()));
    }
    fn spin_until(&mut self, at: Instant<Tai>) -> Nanos {
        self.sleep_until(at);
        Nanos::ZERO
    }
}

/// Brings the trial's packets, and a number of foreign ones before each and after the last.
struct Crowded {
    now: Rc<Cell<i64>>,
    packets: Vec<(i64, u32)>,
    next: usize,
    foreign_each: u32,
    left: u32,
    random: Pcg64Mcg,
    thrown: u64,
    inbox: Inbox,
}

impl Crowded {
    fn stranger(&mut self) -> Vec<u8> {
        let random = &mut self.random;
        let mut bytes = vec![0; random.random_range(0..1_500)];
        random.fill_bytes(&mut bytes);
        let own = Frame {
            kind: PacketKind::Test,
            stream: STREAM,
            size: SIZE,
            nonce: NONCE,
            seq: random.random_range(0..COUNT),
        };
        let mut payload = vec![0; usize::from(SIZE)];
        let written = |frame: Frame, mut payload: Vec<u8>| {
            frame.write(&mut payload);
            payload
        };
        match random.random_range(0..10) {
            0 => Vec::new(),
            // Of this trial, cut short on the way; of this trial, with something behind it.
            1 => written(own, payload).split_off(random.random_range(1..HEAD)),
            2 => {
                let mut cut = written(own, payload);
                cut.truncate(random.random_range(0..usize::from(SIZE)));
                cut
            }
            3 => [written(own, payload), bytes, vec![0]].concat(),
            // The right magic: another trial's packet, another stream's, one that was never
            // intended.
            4 => written(Frame { nonce: NONCE ^ 1 << random.random_range(0..64), ..own }, payload),
            5 => written(Frame { stream: STREAM ^ 1, ..own }, payload),
            6 => written(Frame { seq: random.random_range(COUNT..u32::MAX), ..own }, payload),
            7 => {
                // One bit turned over, in the head, which the check covers.
                let bit = random.random_range(0..HEAD * 8);
                payload = written(own, payload);
                payload[bit / 8] ^= 1 << (bit % 8);
                payload
            }
            8 => {
                bytes.resize(usize::from(SIZE), 0);
                bytes
            }
            _ => bytes,
        }
    }
}

impl ReceivePort for Crowded {
    type Lent = Inbox;

    fn lent(&self) -> &Inbox {
        &self.inbox
    }
    fn receive(&mut self, _many: bool) -> Result<Received, i32> {
        let before = self.next.checked_sub(1).map_or(BASE_NS, |before| self.packets[before].0);
        let (payload, at) = if self.left > 0 {
            self.left -= 1;
            self.thrown += 1;
            (self.stranger(), before + i64::from(self.left % 100))
        } else {
            let (at, seq) = self.packets[self.next];
            (self.next, self.left) = (self.next + 1, self.foreign_each);
            let mut payload = vec![0; usize::from(SIZE)];
            Frame { kind: PacketKind::Test, stream: STREAM, size: SIZE, nonce: NONCE, seq }.write(&mut payload);
            (payload, at)
        };
        self.now.set(at + 9_000);
        self.inbox.put(0, &payload, Some(Instant::from_ns(at - 37_000_000_000)));
        Ok(Received::Packets(1))
    }
    fn spins(&self) -> bool {
        false
    }
    fn ended(&self) -> bool {
        self.next == self.packets.len() && self.left == 0
    }
}

fn trial(foreign_each: u32) -> (Matched, ReceiverCounters, u64, u64) {
    let now = Rc::new(Cell::new(BASE_NS));
    let random = Pcg64Mcg::seed_from_u64(foreign_each.into());
    let packets = arriving();
    let mut port = Crowded {
        now: now.clone(),
        packets,
        next: 0,
        foreign_each,
        left: foreign_each,
        random,
        thrown: 0,
        inbox: Inbox::new(usize::from(SIZE) + 1),
    };
    let order = StreamOrder {
        stream: StreamId::numbered(STREAM),
        nonce: NONCE,
        size: SIZE,
        reply_size: SIZE,
        stamps: vec![Point::RxKernel, Point::Receive],
        ..order(COUNT, CYCLE_NS)
    };
    let mut receiver = Receiver::new(receive_order(order));
    let shared = Shared::default();
    receiver.run(&mut Clock(now), &mut port, &shared);
    let counters = receiver.counters;
    let arrivals = receiver.finish();
    // A sender that sent them all; what it recorded is the same in both trials.
    let sent = sim::trial(
        &Stream { count: COUNT, ..stream(Sim::default()) },
        StreamId::numbered(STREAM),
        NONCE,
        Nanos(0),
        &Shaper::None,
    )
    .halves
    .sent;
    let conversion = Conversion { tai_minus_realtime_ns: 37_000_000_000, bound_ns: 0 };
    let points = [Point::Wakeup, Point::Send, Point::RxKernel, Point::Receive];
    let matched = Match {
        base_ns: BASE_NS,
        cycle: Nanos(CYCLE_NS),
        deadline: Nanos(CYCLE_NS),
        xdp_bound_ns: 0,
        late_by_xdp: false,
        sent: &sent,
        arrivals: &arrivals,
        xdp: &[],
        areas: None,
        tx: conversion,
        rx: conversion,
        hosts_bound_ns: 0,
        sources: &points.map(|point| (point, Source::App)),
        reply: None,
    };
    (matched.run(), counters, shared.live.done(), port.thrown)
}

#[test]
fn a_million_foreign_packets_change_no_sample() {
    let (alone, counters, done, thrown) = trial(0);
    assert_eq!((counters, thrown), (ReceiverCounters::default(), 0));
    let lost = alone.batch.outcome.iter().filter(|outcome| **outcome == Outcome::Lost).count();
    assert!(lost > 0 && alone.there.duplicates > 0, "the trial has something that could change");

    let (crowded, counters, crowded_done, thrown) = trial(FOREIGN_EACH);
    assert!(thrown >= 1_000_000, "{thrown}");
    assert_eq!(counters, ReceiverCounters { foreign: thrown, ..ReceiverCounters::default() }, "each one is counted");
    assert_eq!(crowded_done, done, "progress counts the trial's packets");
    assert_eq!(crowded, alone, "every row is the same");
}

/// A clock that counts how often it is read.
#[derive(Default)]
struct Reads(i64);

impl Timer for Reads {
    fn now(&mut self) -> Instant<Tai> {
        self.0 += 1;
        Instant::from_ns(self.0)
    }
    fn sleep_until(&mut self, _: Instant<Tai>) {}
    fn spin_until(&mut self, _: Instant<Tai>) -> Nanos {
        Nanos::ZERO
    }
}

/// A clock that requests move on, and that counts how often a thread slept.
#[derive(Clone, Default)]
struct Shown {
    now_ns: Rc<Cell<i64>>,
    slept: Rc<Cell<u32>>,
}

impl Timer for Shown {
    fn now(&mut self) -> Instant<Tai> {
        Instant::from_ns(self.now_ns.get())
    }
    fn sleep_until(&mut self, at: Instant<Tai>) {
        self.slept.set(self.slept.get() + 1);
        self.now_ns.set(self.now_ns.get().max(at.ns()));
    }
    fn spin_until(&mut self, _: Instant<Tai>) -> Nanos {
        Nanos::ZERO
    }
}

/// Brings requests at these instants, ns, or later if the thread slept.
struct Timed {
    clock: Shown,
    at: Vec<i64>,
    next: u32,
    inbox: Inbox,
}

impl ReceivePort for Timed {
    type Lent = Inbox;

    fn lent(&self) -> &Inbox {
        &self.inbox
    }
    fn receive(&mut self, _many: bool) -> Result<Received, i32> {
        let mut payload = vec![0; 64];
        Frame { kind: PacketKind::Test, stream: 1, size: 64, nonce: 77, seq: self.next }.write(&mut payload);
        self.next += 1;
        let at = self.at.remove(0);
        self.clock.now_ns.set(self.clock.now_ns.get().max(at));
        self.inbox.put(0, &payload, None);
        Ok(Received::Packets(1))
    }
    fn spins(&self) -> bool {
        false
    }
    fn ended(&self) -> bool {
        self.at.is_empty()
    }
}

/// Brings one request after the other.
struct Requests {
    left: Vec<u32>,
    inbox: Inbox,
}

impl ReceivePort for Requests {
    type Lent = Inbox;

    fn lent(&self) -> &Inbox {
        &self.inbox
    }
    fn receive(&mut self, _many: bool) -> Result<Received, i32> {
        let mut payload = vec![0; 64];
        Frame { kind: PacketKind::Test, stream: 1, size: 64, nonce: 77, seq: self.left.remove(0) }.write(&mut payload);
        self.inbox.put(0, &payload, None);
        Ok(Received::Packets(1))
    }
    fn spins(&self) -> bool {
        false
    }
    fn ended(&self) -> bool {
        self.left.is_empty()
    }
}

/// What was answered, and after how many answers the connection is reset.
struct Answers(Vec<(PacketKind, u32)>, usize);

impl SendPort for Answers {
    fn send(&mut self, payload: &[u8], key: u32, _: Option<Instant<Tai>>) -> Result<u32, i32> {
        let frame = Frame::read(payload).expect("a frame");
        if self.0.len() == self.1 {
            return Err(libc::ECONNRESET);
        }
        self.0.push((frame.kind, frame.seq));
        Ok(key)
    }
    fn drain(&mut self, _: impl FnMut(TxStamp)) -> usize {
        0
    }
}

fn reflector() -> Reflector {
    reflector_of(Nanos::ZERO)
}

fn reflector_of(cycle: Nanos) -> Reflector {
    let of_senders = sender_order(10, cycle.0);
    let order = StreamOrder {
        kind: tardy_model::stream::Kind::Pingpong,
        stamps: vec![Point::Receive, Point::ReplySend, Point::ReplyTxKernel],
        ..of_senders.order
    };
    let send = SendOrder { order: order.clone(), replies: true, ..of_senders };
    Reflector::new(ReflectOrder { receive: receive_order(order), send })
}

fn receive_order(order: StreamOrder) -> ReceiveOrder {
    ReceiveOrder {
        order,
        thread: ThreadOrder { cpu: None, policy: Policy::Other },
        local: Ipv4Addr::LOCALHOST.into(),
        port: 1,
        device: String::new(),
        wait: Wait::Block,
        queue: None,
        frames: 4_096,
        replies: false,
        object: None,
        hints: Vec::new(),
    }
}

/// Runs these requests; what was answered, and how often the clock was read.
fn answered(requests: Vec<u32>) -> (Reflector, Vec<(PacketKind, u32)>, i64, Shared) {
    until_reset(requests, usize::MAX)
}

/// The same with a connection that is reset after this number of answers.
fn until_reset(requests: Vec<u32>, answers: usize) -> (Reflector, Vec<(PacketKind, u32)>, i64, Shared) {
    let (mut reflector, mut clock, mut answers) = (reflector(), Reads::default(), Answers(Vec::new(), answers));
    let shared = Shared::default();
    reflector.run(&mut clock, &mut Requests { left: requests, inbox: Inbox::new(65) }, &mut answers, &shared);
    (reflector, answers.0, clock.0, shared)
}

#[test]
fn the_first_request_of_a_trial_was_answered_by_code_that_nothing_had_warmed() {
    let (reflector, answers, reads, shared) = answered(vec![LEAD, LEAD, 0, 1, LEAD]);
    let replies = [LEAD, LEAD, 0, 1, LEAD].map(|seq| (PacketKind::Reply, seq));
    assert_eq!(answers, replies);
    // It took the same way: the clock was read as often as for the trial's packets alone.
    let (_, _, of_trials, _) = answered(vec![0, 1, 2, 3, 4]);
    assert_eq!(reads, of_trials);
    // And left nothing behind.
    assert_eq!((reflector.sender.counters.sent, reflector.sender.counters.refused), (2, 0));
    assert_eq!((reflector.receiver.counters.foreign, reflector.receiver.counters.records_dropped), (0, 0));
    assert_eq!((shared.live.done(), shared.warm.load(std::sync::atomic::Ordering::Relaxed)), (2, 0));
    let half = reflector.sender.finish();
    assert_eq!(half.sending.iter().filter(|sending| sending.sent()).count(), 2);
    assert_eq!(half.send.iter().filter(|stamp| stamp.is_some()).count(), 2);
    let arrivals: Vec<u32> = reflector.receiver.finish().iter().map(|arrival| arrival.seq).collect();
    assert_eq!(arrivals, [0, 1]);
}

#[test]
fn a_packet_of_the_lead_in_is_counted_among_none_of_the_trials_when_it_comes_twice() {
    let (reflector, answers, ..) = answered(vec![LEAD; 200]);
    assert_eq!(answers.len(), 200, "each is answered: it is not known as a double");
    assert_eq!(reflector.sender.counters.sent, 0);
}

#[test]
fn a_reset_that_an_answer_met_was_not_told_by_the_reflector() {
    // The kernel reports it once, to the next call. The receive call after that found the end of a
    // connection and no reason.
    for requests in [vec![LEAD, 0, 1, 2], vec![LEAD, 0, 1, LEAD]] {
        let (reflector, answers, ..) = until_reset(requests, 3);
        assert_eq!(answers.len(), 3);
        assert_eq!(reflector.receiver.counters.broken_errno, libc::ECONNRESET);
    }
    let (reflector, ..) = answered(vec![LEAD, 0, 1, 2]);
    assert_eq!(reflector.receiver.counters.broken_errno, 0);
}

#[test]
fn a_reflector_slept_half_a_cycle_behind_each_answer_though_the_next_request_was_there() {
    let slept = |at: Vec<i64>| {
        let (clock, mut answers) = (Shown::default(), Answers(Vec::new(), usize::MAX));
        let mut requests = Timed { clock: clock.clone(), at, next: 0, inbox: Inbox::new(65) };
        reflector_of(Nanos(500_000)).run(&mut clock.clone(), &mut requests, &mut answers, &Shared::default());
        (answers.0.len(), clock.slept.get())
    };
    let cycle = 500_000;
    // In step with the cycle, stamps are fetched behind all answers but the first.
    assert_eq!(slept((1..=9).map(|n| n * cycle).collect()), (9, 8));
    // All at once, in pairs, and late ones: never.
    assert_eq!(slept(vec![cycle; 9]), (9, 0));
    assert_eq!(slept((1..=8).map(|n| (n + 1) / 2 * 2 * cycle + n % 2).collect()), (8, 0));
    assert_eq!(slept((1..=8).map(|n| n * cycle + n * n * 130_000).collect()), (8, 0));
}

/// Writes down what a sender does, in its order: it reads the clock, sleeps and sends.
#[derive(Clone, Default)]
struct Course(Rc<Cell<i64>>, Rc<RefCell<String>>);

impl Timer for Course {
    fn now(&mut self) -> Instant<Tai> {
        self.0.set(self.0.get() + 10);
        self.1.borrow_mut().push_str("now ");
        Instant::from_ns(self.0.get())
    }
    fn sleep_until(&mut self, at: Instant<Tai>) {
        self.0.set(self.0.get().max(at.ns()));
        self.1.borrow_mut().push_str("sleep ");
    }
    fn spin_until(&mut self, at: Instant<Tai>) -> Nanos {
        self.sleep_until(at);
        Nanos::ZERO
    }
}

impl SendPort for Course {
    fn send(&mut self, _: &[u8], key: u32, _: Option<Instant<Tai>>) -> Result<u32, i32> {
        self.1.borrow_mut().push('|');
        Ok(key)
    }
    fn drain(&mut self, _: impl FnMut(TxStamp)) -> usize {
        0
    }
}

#[test]
fn the_first_packet_of_a_schedule_was_sent_by_code_that_no_packet_of_the_lead_in_had_run() {
    // A receiver on the sender's CPU waits for what the sender does between its send and its sleep.
    let course = Course::default();
    let mut order = sender_order(3, CYCLE_NS);
    order.order.stamps = vec![Point::Wakeup, Point::Send];
    let mut sender = Sender::new(order);
    let (base, stop) = (Instant::from_ns(1_000_000_000), AtomicBool::new(false));
    sender.run(&mut course.clone(), &mut course.clone(), base, &stop, &Live::default());
    let course = course.1.borrow();
    let between: Vec<&str> = course.split('|').collect();
    assert_eq!(between.len(), 20 + 3 + 20 + 1, "lead-in, trial, lead-out: {course}");
    assert_eq!(between[1..43], ["sleep now now "; 42], "{course}");
    assert_eq!((sender.counters.sent, sender.counters.beside), (3, 40));
    let half = sender.finish();
    assert_eq!((half.len(), half.send.iter().filter(|stamp| stamp.is_some()).count()), (3, 3));
}
