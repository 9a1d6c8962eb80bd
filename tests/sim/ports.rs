// SPDX-License-Identifier: MIT OR Apache-2.0
//! The loops against ports that misbehave: a readiness that lies, a full error queue, refused
//! sends, a broken socket.

use std::cell::Cell;
use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::rc::Rc;
use std::sync::atomic::AtomicBool;
use tardy_engine::live::Live;
use tardy_engine::order::{LaunchOrder, SendOrder, StreamOrder, ThreadOrder};
use tardy_engine::port::{BATCH, DRAIN, SendPort, Timer, TxPoint, TxStamp};
use tardy_engine::sender::Sender;
use tardy_model::frame::{Frame, LEAD, PacketKind};
use tardy_model::point::Point;
use tardy_model::stream::{Overrun, Policy};
use tardy_model::stream_id::StreamId;
use tardy_model::time::{Instant, Nanos, Tai};
use tardy_model::trial::{Between, OwnNotes, OwnReason};
use tardy_model::xdp::Triggered;

/// A clock that moves by 10 ns a look and sleeps exactly.
#[derive(Default)]
pub(super) struct Clock(pub(super) i64);

impl Timer for Clock {
    fn now(&mut self) -> Instant<Tai> {
        self.0 += 10;
        Instant::from_ns(self.0)
    }
    fn sleep_until(&mut self, at: Instant<Tai>) {
        self.0 = self.0.max(at.ns());
    }
    fn spin_until(&mut self, at: Instant<Tai>) -> Nanos {
        self.sleep_until(at);
        Nanos::ZERO
    }
}

/// The same, seen by others.
#[derive(Clone, Default)]
struct Shown(Rc<Cell<i64>>);

impl Timer for Shown {
    fn now(&mut self) -> Instant<Tai> {
        self.0.set(self.0.get() + 10);
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

pub(super) fn order(count: u32, cycle_ns: i64) -> StreamOrder {
    StreamOrder {
        stream: StreamId::numbered(1),
        nonce: 77,
        cycle: Nanos(cycle_ns),
        count,
        size: 64,
        reply_size: 64,
        kind: tardy_model::stream::Kind::Cyclic,
        port: tardy_model::port::Port::Udp,
        nodelay: true,
        ethertype: tardy_model::ethernet::ETHERTYPE,
        tag: None,
        stamps: vec![Point::Wakeup, Point::Send, Point::TxKernel, Point::RxKernel, Point::Receive],
        triggered: Triggered::default(),
        lead: None,
    }
}

fn sender(count: u32, cycle_ns: i64) -> Sender {
    Sender::new(sender_order(count, cycle_ns))
}

pub(super) fn sender_order(count: u32, cycle_ns: i64) -> SendOrder {
    SendOrder {
        order: order(count, cycle_ns),
        thread: ThreadOrder { cpu: None, policy: Policy::Other },
        local: Ipv4Addr::LOCALHOST.into(),
        peer: Ipv4Addr::LOCALHOST.into(),
        port: 1,
        device: String::new(),
        macs: [[0; 6]; 2],
        priority: 0,
        queues: None,
        frames: 4_096,
        advance: Nanos::ZERO,
        spin: Nanos::ZERO,
        overrun: Overrun::Burst,
        replies: false,
        launch: None,
    }
}

/// A socket whose kernel counts the keys itself, with room for a number of stamps. It refuses some
/// sends, and each of those uses a key up.
struct Socket {
    room: usize,
    queue: VecDeque<TxStamp>,
    next_key: u32,
    sends: u32,
    refuse: Vec<u32>,
    /// What was sent: the key it got, by the packet's number.
    sent: Vec<(u32, u32)>,
    /// Lengths of the batches asked for.
    batches: Vec<usize>,
    /// Packets that are refused once, and taken when they are tried again.
    refuse_once: Vec<u32>,
    /// The device stamps too, but for every third packet.
    device: bool,
    /// There is a VLAN device before it, which stamps too.
    vlan: bool,
    /// A queue discipline holds this number of the last packets: their stamps come later.
    holds: usize,
    held: Vec<TxStamp>,
    /// The room that it claims to have.
    said: usize,
    /// Packets of the lead-in and the lead-out: how many of the trial's had been sent by then.
    leads: Vec<u32>,
    /// Looks at the queue behind the first packet, the most that waited in it, and the least time
    /// between a send and such a look.
    drains: u32,
    most_waiting: usize,
    least_apart_ns: i64,
    now: Shown,
    sent_ns: i64,
}

impl Socket {
    fn new(room: usize, refuse: Vec<u32>) -> Socket {
        Socket {
            room,
            queue: VecDeque::new(),
            next_key: 0,
            sends: 0,
            refuse,
            sent: Vec::new(),
            batches: Vec::new(),
            refuse_once: Vec::new(),
            device: false,
            vlan: false,
            holds: 0,
            held: Vec::new(),
            said: room,
            leads: Vec::new(),
            drains: 0,
            most_waiting: 0,
            least_apart_ns: i64::MAX,
            now: Shown::default(),
            sent_ns: 0,
        }
    }
}

impl SendPort for Socket {
    fn send(&mut self, payload: &[u8], _key: u32, _launch: Option<Instant<Tai>>) -> Result<u32, i32> {
        let frame = Frame::read(payload).expect("a test frame");
        let key = self.next_key;
        self.next_key += 1;
        self.sent_ns = self.now.0.get();
        if frame.seq == LEAD {
            self.leads.push(self.sends);
        } else if frame.kind == PacketKind::Test {
            self.sends += 1;
            if self.refuse.contains(&frame.seq) {
                return Err(105);
            }
            if let Some(at) = self.refuse_once.iter().position(|seq| *seq == frame.seq) {
                self.refuse_once.remove(at);
                return Err(1);
            }
            self.sent.push((frame.seq, key));
        }
        if self.queue.len() < self.room {
            // The stamp tells the packet it belongs to, for the test to check.
            let ns = 1_000_000 + i64::from(frame.seq);
            self.most_waiting = self.most_waiting.max(self.queue.len() + 1);
            if self.vlan {
                let sched = |ns| TxStamp { key, at: TxPoint::Sched, ns };
                self.queue.extend([sched(ns - 200), sched(ns - 100)]);
            }
            let stamp = TxStamp { key, at: TxPoint::Software, ns };
            if self.holds > 0 {
                self.held.push(stamp);
                if self.held.len() > self.holds {
                    self.queue.push_back(self.held.remove(0));
                }
            } else {
                self.queue.push_back(stamp);
            }
            if self.device && !frame.seq.is_multiple_of(3) {
                self.queue.push_back(TxStamp { key, at: TxPoint::Hardware, ns: ns + 7_000_000 });
            }
        }
        Ok(key)
    }
    fn send_batch(&mut self, payloads: &[u8], size: usize, keys: &mut [u32]) -> Result<usize, i32> {
        self.batches.push(keys.len());
        for (n, key) in keys.iter_mut().enumerate() {
            match self.send(&payloads[n * size..][..size], *key, None) {
                Ok(stamped) => *key = stamped,
                // As sendmmsg does: it reports what went out, and the refusal, which used a key up,
                // when the caller tries again.
                Err(errno) => return if n == 0 { Err(errno) } else { Ok(n) },
            }
        }
        Ok(keys.len())
    }
    fn drain(&mut self, mut each: impl FnMut(TxStamp)) -> usize {
        let taken = self.queue.len().min(DRAIN);
        self.drains += u32::from(self.sent_ns > 0);
        if self.sent_ns > 0 {
            self.least_apart_ns = self.least_apart_ns.min(self.now.0.get() - self.sent_ns);
        }
        self.queue.drain(..taken).for_each(&mut each);
        taken
    }
    fn renew_keys(&mut self) {
        self.next_key = 0;
    }
    fn error_queue(&self) -> (u64, u64) {
        (self.queue.len() as u64 * 1_024, self.said as u64 * 1_024)
    }
}

fn run(sender: &mut Sender, socket: &mut Socket) {
    run_from(sender, socket, Instant::from_ns(1_000_000_000), Clock::default());
}

/// The whole trial, and what happens when it is collected.
fn run_from(sender: &mut Sender, socket: &mut Socket, base: Instant<Tai>, mut clock: Clock) {
    sender.run(&mut clock, socket, base, &AtomicBool::new(false), &Live::default());
    sender.gather_stamps(&mut clock, socket);
}

#[test]
fn a_refused_send_moves_no_stamp_to_another_packet() {
    let mut sender = sender(200, 100_000);
    let refuse = vec![0, 7, 8, 50, 199];
    let mut socket = Socket::new(10_000, refuse.clone());
    run(&mut sender, &mut socket);
    assert_eq!((sender.counters.refused, sender.counters.first_errno), (5, 105));
    assert_eq!(sender.counters.sent, 195);
    let half = sender.finish();
    for seq in 0..200u32 {
        let (row, refused) = (seq as usize, refuse.contains(&seq));
        assert_eq!(half.sending[row].refused(), refused, "packet {seq}");
        let expected = (!refused).then(|| 1_000_000 + i64::from(seq));
        assert_eq!(half.tx_kernel[row].get(), expected, "packet {seq} has its own stamp or none");
    }
}

#[test]
fn stamps_of_the_device_stand_beside_the_drivers_and_those_that_do_not_come_are_missing() {
    let mut order = sender_order(200, 100_000);
    order.order.stamps.push(Point::TxHw);
    let mut sender = Sender::new(order);
    let mut socket = Socket { device: true, ..Socket::new(10_000, vec![7]) };
    run(&mut sender, &mut socket);
    assert_eq!(sender.missing(), 67, "every third");
    assert_eq!(sender.counters.unmatched, 0);
    let half = sender.finish();
    for seq in 0..200u32 {
        let driver = (seq != 7).then(|| 1_000_000 + i64::from(seq));
        let device = driver.filter(|_| !seq.is_multiple_of(3)).map(|ns| ns + 7_000_000);
        assert_eq!((half.tx_kernel[seq as usize].get(), half.tx_hw[seq as usize].get()), (driver, device), "{seq}");
    }
    // On the way to the coordinator they stay where they are.
    let mut whole = tardy_engine::sender::SentRows::default();
    half.pieces(64).for_each(|piece| whole.append(piece));
    assert_eq!(whole.tx_hw, half.tx_hw);
}

#[test]
fn before_two_queue_disciplines_the_shapers_counts_and_the_room_is_for_both() {
    let mut order = sender_order(200, 100_000);
    order.order.stamps.push(Point::TxSched);
    order.order.tag = Some(tardy_model::ethernet::Tag { vlan: 5, pcp: 3 });
    assert_eq!(order.stamps(), 3, "two before queue disciplines, one in the driver");
    let mut sender = Sender::new(order);
    let mut socket = Socket { vlan: true, ..Socket::new(10_000, Vec::new()) };
    assert_eq!(sender.warm_up(&mut Clock::default(), &mut socket, 10, Nanos(1_000_000)), 10, "each packet counts once");
    run(&mut sender, &mut socket);
    assert_eq!((sender.missing(), sender.counters.unmatched), (0, 0));
    let half = sender.finish();
    for seq in 0..200 {
        let at = 1_000_000 + seq as i64;
        assert_eq!((half.tx_sched[seq].get(), half.tx_kernel[seq].get()), (Some(at - 100), Some(at)), "{seq}");
    }
}

#[test]
fn stamps_of_packets_that_a_queue_discipline_held_beyond_the_trial_are_not_cut_off() {
    let mut sender = sender(200, 500_000);
    let mut socket = Socket { holds: 80, ..Socket::new(10_000, Vec::new()) };
    let mut clock = Clock::default();
    sender.run(&mut clock, &mut socket, Instant::from_ns(1_000_000_000), &AtomicBool::new(false), &Live::default());
    // The receiver has waited for them: by the time that the halves are collected they have left.
    let held = std::mem::take(&mut socket.held);
    socket.queue.extend(held);
    sender.gather_stamps(&mut clock, &mut socket);
    assert_eq!(sender.missing(), 0);
}

#[test]
fn a_full_error_queue_is_counted_and_costs_stamps_but_no_packet() {
    // Cycles too short to take stamps between packets, and a kernel that grants far less room than
    // it said.
    let mut sender = sender(20_000, 5_000);
    let mut socket = Socket { said: 100_000, ..Socket::new(8_000, Vec::new()) };
    run(&mut sender, &mut socket);
    assert_eq!(sender.counters.sent, 20_000);
    assert!(sender.missing() > 0, "some stamps did not fit");
    let half = sender.finish();
    assert!(half.sending.iter().all(|sending| sending.sent()));
    for (seq, stamp) in half.tx_kernel.iter().enumerate() {
        assert!(stamp.get().is_none_or(|ns| ns == 1_000_000 + seq as i64), "packet {seq}");
    }
}

#[test]
fn stamps_that_fit_into_the_queue_are_left_there_while_packets_follow_each_other_closely() {
    let mut sender = sender(30_000, 5_000);
    let mut socket = Socket::new(100_000, Vec::new());
    let (base, mut clock) = (Instant::from_ns(1_000_000_000), socket.now.clone());
    sender.run(&mut clock, &mut socket, base, &AtomicBool::new(false), &Live::default());
    assert_eq!((socket.drains, sender.counters.forced_drains), (0, 0));
    assert_eq!(sender.own.take(), OwnNotes::default());
    sender.gather_stamps(&mut Clock::default(), &mut socket);
    assert_eq!(sender.missing(), 0, "they come when the trial is collected");
}

#[test]
fn a_queue_too_small_for_the_trial_is_relieved_between_packets_and_each_time_is_noted() {
    let mut sender = sender(30_000, 5_000);
    let mut socket = Socket::new(2_000, Vec::new());
    run(&mut sender, &mut socket);
    assert_eq!(sender.missing(), 0, "every stamp came in the end");
    let forced = sender.counters.forced_drains;
    assert!(forced > 0 && forced < 30_000, "{forced}");
    let OwnNotes { work, left_out, .. } = sender.own.take();
    assert_eq!(work.len() as u64 + left_out, forced);
    assert!(work.iter().all(|work| work.reason == OwnReason::Room && work.start_ns <= work.end_ns));
}

#[test]
fn a_sender_with_launch_times_never_relieved_its_error_queue_and_saw_no_overflow() {
    let sender = || {
        let mut order = sender_order(10_000, 500_000);
        order.launch = Some(LaunchOrder { deadline: false, phase: Nanos::ZERO });
        Sender::new(order)
    };
    // Far less room than the trial has stamps.
    let (mut relieved, mut socket) = (sender(), Socket::new(2_000, Vec::new()));
    run(&mut relieved, &mut socket);
    assert_eq!((relieved.missing(), relieved.counters.queue_overflows), (0, 0));
    let work = relieved.own.take().work;
    assert!(!work.is_empty() && work.iter().all(|work| work.reason == OwnReason::Room), "{}", work.len());
    // Enough room for the stamps: nobody fetches any during the trial. Reports of dropped packets
    // have filled the rest by the time that the halves are collected.
    let (mut filled, mut socket) = (sender(), Socket::new(100_000, Vec::new()));
    let (base, mut clock) = (Instant::from_ns(1_000_000_000), Clock::default());
    filled.run(&mut clock, &mut socket, base, &AtomicBool::new(false), &Live::default());
    assert_eq!((filled.counters.queue_overflows, filled.own.take().work.len()), (0, 0));
    socket.said = socket.queue.len();
    filled.gather_stamps(&mut clock, &mut socket);
    assert_eq!(filled.counters.queue_overflows, 1, "seen before the queue is emptied");
}

#[test]
fn the_stamps_of_a_packet_are_taken_in_the_middle_between_it_and_the_next() {
    let mut sender = sender(2_000, 500_000);
    let mut socket = Socket::new(100_000, Vec::new());
    let (base, mut clock) = (Instant::from_ns(1_000_000_000), socket.now.clone());
    sender.run(&mut clock, &mut socket, base, &AtomicBool::new(false), &Live::default());
    assert_eq!((sender.counters.forced_drains, sender.counters.queue_overflows), (0, 0));
    assert_eq!(socket.drains, 2_000 + 2 * 20, "once a packet, also in the lead-in and the lead-out");
    assert_eq!(socket.most_waiting, 1, "so that the kernel uses the same memory again");
    assert!(socket.least_apart_ns > 200_000, "{}", socket.least_apart_ns);
    // Each time is noted with its thread, its CPU, its beginning and its end.
    let notes = sender.own.take();
    let all: Vec<(i64, i64)> = notes.between.iter().flat_map(Between::intervals).collect();
    assert_eq!((all.len(), notes.left_out, notes.work.len()), (2_000 + 2 * 20, 0, 0));
    assert!(notes.between.iter().all(|of| of.side == tardy_model::stream::Side::Tx && of.cpu.is_none()), "simulated");
    assert!(all.iter().all(|(start, end)| start < end) && all.is_sorted());
    let in_cycle = |ns: i64| (ns - base.ns()).rem_euclid(500_000);
    assert!(all.iter().all(|(start, end)| in_cycle(*start) > 200_000 && in_cycle(*end) < 300_000));
}

#[test]
fn the_last_packet_of_a_trial_is_followed_by_packets_like_it_and_by_a_quiet_cycle() {
    let mut sender = sender(100, 500_000);
    let mut socket = Socket::new(100_000, Vec::new());
    let (base, mut clock) = (Instant::from_ns(1_000_000_000), Clock::default());
    sender.run(&mut clock, &mut socket, base, &AtomicBool::new(false), &Live::default());
    let lead = tardy_engine::schedule::lead_in(Nanos(500_000)) as usize;
    assert_eq!(socket.leads, [vec![0; lead], vec![100; lead]].concat(), "as many before the trial as behind it");
    let last_ns = base.ns() + (100 + lead as i64 - 1) * 500_000;
    assert!(clock.0 >= last_ns + 500_000, "nothing is done until the last of them had its time");
    assert_eq!(sender.finish().len(), 100, "and nothing is recorded of them");
}

#[test]
fn a_sender_that_is_a_batch_behind_sends_batches_and_every_packet_keeps_its_row() {
    // Due 20 ns apart, 10 ns a look at the clock: behind from the start. Some packets are refused,
    // also first in a batch.
    let refuse = vec![3, 68, 69, 500, 999];
    let mut sender = sender(1_000, 20);
    let mut socket = Socket::new(10_000, refuse.clone());
    run_from(&mut sender, &mut socket, Instant::from_ns(5), Clock(1_000_000));
    assert!(socket.batches.iter().all(|length| *length == BATCH));
    assert_eq!((sender.counters.sent, sender.counters.refused), (995, 5));
    assert!(sender.counters.batched > 900 && sender.counters.batched < 995, "{}", sender.counters.batched);
    assert_eq!(sender.counters.overruns, 1_000, "all of them late, and counted so");
    assert_eq!(socket.sent.iter().map(|(seq, _)| *seq).collect::<Vec<_>>(), {
        (0..1_000).filter(|seq| !refuse.contains(seq)).collect::<Vec<u32>>()
    });
    let half = sender.finish();
    for seq in 0..1_000u32 {
        let (row, refused) = (seq as usize, refuse.contains(&seq));
        assert_eq!((half.sending[row].refused(), half.sending[row].sent()), (refused, !refused), "packet {seq}");
        assert_eq!(half.tx_kernel[row].get(), (!refused).then(|| 1_000_000 + i64::from(seq)), "packet {seq}");
        assert_eq!(half.send[row].is_some(), !refused);
        assert!(half.wakeup[row].get() <= half.wakeup.get(row + 1).map_or(Some(i64::MAX), |next| next.get()));
    }
}

#[test]
fn a_batch_refused_once_moves_no_stamp_to_another_packet() {
    // The first of a batch, one in its middle, its last: each refusal uses a key up, and the
    // packet goes out when tried again.
    for once in [vec![0], vec![64], vec![50], vec![63], vec![0, 40, 104, 200]] {
        let mut sender = sender(1_000, 20);
        let mut socket = Socket { refuse_once: once.clone(), ..Socket::new(10_000, Vec::new()) };
        run_from(&mut sender, &mut socket, Instant::from_ns(5), Clock(1_000_000));
        assert_eq!((sender.counters.sent, sender.counters.refused), (1_000, 0), "{once:?}");
        let half = sender.finish();
        for seq in 0..1_000u32 {
            assert_eq!(half.tx_kernel[seq as usize].get(), Some(1_000_000 + i64::from(seq)), "{once:?}: packet {seq}");
        }
    }
}

#[test]
fn a_sender_that_is_little_behind_sends_each_packet_by_itself() {
    let mut sender = sender(200, 500_000);
    let mut socket = Socket::new(10_000, Vec::new());
    let base = Instant::from_ns(1_000_000_000);
    // Ten cycles late, as after a stall.
    let mut clock = Clock(base.ns() + 10 * 500_000);
    sender.run(&mut clock, &mut socket, base, &AtomicBool::new(false), &Live::default());
    assert_eq!((sender.counters.batched, socket.batches.len()), (0, 0));
    assert_eq!(sender.counters.sent, 200);
}

#[test]
fn a_stop_ends_the_trial_with_what_was_sent() {
    let mut sender = sender(1_000, 100_000);
    let base = Instant::from_ns(1_000_000_000);
    sender.run(&mut Clock::default(), &mut Socket::new(100, vec![]), base, &AtomicBool::new(true), &Live::default());
    assert_eq!((sender.counters.sent, sender.finish().len()), (0, 0));
}
