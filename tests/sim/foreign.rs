// SPDX-License-Identifier: MIT OR Apache-2.0
//! A million foreign packets between those of a trial change no sample: the same rows, to the
//! nanosecond, as without them.

use crate::engine::stream;
use rand::{Rng, RngCore, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::cell::Cell;
use std::net::Ipv4Addr;
use std::rc::Rc;
use tardy_engine::matcher::{Match, Matched};
use tardy_engine::order::{ReceiveOrder, StreamOrder, ThreadOrder};
use tardy_engine::port::{Inbox, ReceivePort, Received, Timer, sim};
use tardy_engine::receiver::{Receiver, ReceiverCounters, Shared};
use tardy_model::frame::{Frame, HEAD, PacketKind};
use tardy_model::point::{Point, Source};
use tardy_model::sample::Outcome;
use tardy_model::shaper::Shaper;
use tardy_model::stream::{Policy, Sim, Stream, Wait};
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
        cycle: Nanos(CYCLE_NS),
        count: COUNT,
        size: SIZE,
        reply_size: SIZE,
        kind: tardy_model::stream::Kind::Cyclic,
        port: tardy_model::stream::Port::Udp,
        nodelay: true,
        ethertype: tardy_model::ethernet::ETHERTYPE,
        tag: None,
        stamps: vec![Point::RxKernel, Point::Receive],
        lead: None,
    };
    let mut receiver = Receiver::new(ReceiveOrder {
        order,
        thread: ThreadOrder { cpu: None, policy: Policy::Other },
        local: Ipv4Addr::LOCALHOST.into(),
        port: 1,
        device: String::new(),
        wait: Wait::Block,
        replies: false,
    });
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
        sent: &sent,
        arrivals: &arrivals,
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
    assert!(lost > 0 && alone.duplicates > 0, "the trial has something that could change");

    let (crowded, counters, crowded_done, thrown) = trial(FOREIGN_EACH);
    assert!(thrown >= 1_000_000, "{thrown}");
    assert_eq!(counters, ReceiverCounters { foreign: thrown, ..ReceiverCounters::default() }, "each one is counted");
    assert_eq!(crowded_done, done, "progress counts the trial's packets");
    assert_eq!(crowded, alone, "every row is the same");
}
