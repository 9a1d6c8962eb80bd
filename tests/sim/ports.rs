// SPDX-License-Identifier: MIT OR Apache-2.0
//! The loops against ports that misbehave: a readiness that lies, a full error queue, refused sends, a broken socket.

use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::sync::atomic::AtomicBool;
use tardy_engine::live::Live;
use tardy_engine::order::{ReceiveOrder, SendOrder, StreamOrder, ThreadOrder};
use tardy_engine::port::{DRAIN, ReceivePort, Received, SendPort, Timer, TxPoint, TxStamp};
use tardy_engine::receiver::{Receiver, Shared};
use tardy_engine::sender::Sender;
use tardy_model::frame::{Frame, Kind};
use tardy_model::point::Point;
use tardy_model::stream::{Overrun, Policy, Wait};
use tardy_model::time::{Instant, Nanos, Tai};

/// A clock that moves by 10 ns a look and sleeps exactly.
#[derive(Default)]
struct Clock(i64);

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

fn order(count: u32, cycle_ns: i64) -> StreamOrder {
    StreamOrder {
        stream: 1,
        nonce: 77,
        cycle: Nanos(cycle_ns),
        count,
        size: 64,
        stamps: vec![Point::Wakeup, Point::Send, Point::TxKernel, Point::RxKernel, Point::Receive],
    }
}

fn sender(count: u32, cycle_ns: i64) -> Sender {
    Sender::new(SendOrder {
        order: order(count, cycle_ns),
        thread: ThreadOrder { cpu: None, policy: Policy::Other },
        local: Ipv4Addr::LOCALHOST,
        peer: Ipv4Addr::LOCALHOST,
        udp_port: 1,
        device: String::new(),
        priority: 0,
        advance: Nanos::ZERO,
        spin: Nanos::ZERO,
        overrun: Overrun::Burst,
    })
}

/// A socket whose kernel counts the keys itself, with room for so many stamps; some sends are refused, each using a key up.
struct Socket {
    room: usize,
    queue: VecDeque<TxStamp>,
    next_key: u32,
    sends: u32,
    refuse: Vec<u32>,
    /// What was sent: the key it got, by the packet's number.
    sent: Vec<(u32, u32)>,
}

impl Socket {
    fn new(room: usize, refuse: Vec<u32>) -> Socket {
        Socket { room, queue: VecDeque::new(), next_key: 0, sends: 0, refuse, sent: Vec::new() }
    }
}

impl SendPort for Socket {
    fn send(&mut self, payload: &[u8], _key: u32) -> Result<u32, i32> {
        let frame = Frame::read(payload).expect("a test frame");
        let key = self.next_key;
        self.next_key += 1;
        if frame.kind == Kind::Test {
            self.sends += 1;
            if self.refuse.contains(&frame.seq) {
                return Err(105);
            }
            self.sent.push((frame.seq, key));
        }
        if self.queue.len() < self.room {
            // The stamp tells the packet it belongs to, for the test to check.
            let ns = 1_000_000 + i64::from(frame.seq);
            self.queue.push_back(TxStamp { key, at: TxPoint::Software, ns });
        }
        Ok(key)
    }
    fn drain(&mut self, mut each: impl FnMut(TxStamp)) -> usize {
        let taken = self.queue.len().min(DRAIN);
        self.queue.drain(..taken).for_each(&mut each);
        taken
    }
    fn renew_keys(&mut self) {
        self.next_key = 0;
    }
    fn error_queue(&self) -> (u64, u64) {
        (self.queue.len() as u64 * 1_024, self.room as u64 * 1_024)
    }
}

fn run(sender: &mut Sender, socket: &mut Socket) {
    let base = Instant::from_ns(1_000_000_000);
    sender.run(&mut Clock::default(), socket, base, &AtomicBool::new(false), &Live::default());
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
fn a_full_error_queue_is_counted_and_costs_stamps_but_no_packet() {
    // No time between packets to take stamps, and room for few: what does not fit is gone, as in the kernel.
    let mut sender = sender(20_000, 20);
    let mut socket = Socket::new(8_000, Vec::new());
    run(&mut sender, &mut socket);
    assert_eq!(sender.counters.sent, 20_000);
    assert!(sender.missing() > 0, "some stamps did not fit");
    assert!(sender.counters.queue_overflows > 0, "and that is told");
    assert_eq!(sender.counters.queue_high_bytes, 8_000 * 1_024);
    let half = sender.finish();
    assert!(half.sending.iter().all(|sending| sending.sent()));
    for (seq, stamp) in half.tx_kernel.iter().enumerate() {
        assert!(stamp.get().is_none_or(|ns| ns == 1_000_000 + seq as i64), "packet {seq}");
    }
}

#[test]
fn a_sender_without_slack_takes_stamps_in_small_batches_and_counts_it() {
    let mut sender = sender(30_000, 20);
    let mut socket = Socket::new(100_000, Vec::new());
    run(&mut sender, &mut socket);
    assert_eq!(sender.missing(), 0, "every stamp came in the end");
    let forced = sender.counters.forced_drains;
    assert!(forced > 0 && forced < 30_000, "{forced}");
    let mut calm = self::sender(2_000, 500_000);
    run(&mut calm, &mut Socket::new(100_000, Vec::new()));
    assert_eq!((calm.counters.forced_drains, calm.counters.queue_overflows), (0, 0));
}

#[test]
fn a_stop_ends_the_trial_with_what_was_sent() {
    let mut sender = sender(1_000, 100_000);
    let base = Instant::from_ns(1_000_000_000);
    sender.run(&mut Clock::default(), &mut Socket::new(100, vec![]), base, &AtomicBool::new(true), &Live::default());
    assert_eq!((sender.counters.sent, sender.finish().len()), (0, 0));
}

/// What a receive call brings, one after the other.
struct Script {
    steps: VecDeque<Step>,
    wait: Wait,
}

enum Step {
    Bring(Vec<u8>),
    Nothing,
    TimedOut,
    Break(i32),
}

impl ReceivePort for Script {
    fn receive(&mut self, buffer: &mut [u8]) -> Result<Received, i32> {
        match self.steps.pop_front() {
            Some(Step::Bring(payload)) => {
                let length = payload.len().min(buffer.len());
                buffer[..length].copy_from_slice(&payload[..length]);
                Ok(Received::Packet { length, stamp: Some(Instant::from_ns(5)) })
            }
            Some(Step::Nothing) => Ok(Received::Nothing),
            Some(Step::Break(errno)) => Err(errno),
            Some(Step::TimedOut) | None => Ok(Received::TimedOut),
        }
    }
    fn spins(&self) -> bool {
        self.wait == Wait::Spin
    }
    fn ended(&self) -> bool {
        self.steps.is_empty()
    }
}

fn packet(kind: Kind, nonce: u64, seq: u32) -> Step {
    let mut payload = vec![0; 64];
    Frame { kind, stream: 1, size: 64, nonce, seq }.write(&mut payload);
    Step::Bring(payload)
}

fn receive(steps: Vec<Step>, wait: Wait) -> (Receiver, Shared) {
    let order = ReceiveOrder {
        order: order(10, 1_000),
        thread: ThreadOrder { cpu: None, policy: Policy::Other },
        local: Ipv4Addr::LOCALHOST,
        udp_port: 1,
        device: String::new(),
        wait,
    };
    let (mut receiver, shared) = (Receiver::new(order), Shared::default());
    receiver.run(&mut Clock::default(), &mut Script { steps: steps.into(), wait }, &shared);
    (receiver, shared)
}

#[test]
fn a_readiness_that_yields_nothing_is_survived_and_counted() {
    let test = |seq| packet(Kind::Test, 77, seq);
    let steps = || vec![test(0), Step::Nothing, Step::Nothing, test(1), Step::TimedOut, Step::Nothing, test(2)];
    let (receiver, _) = receive(steps(), Wait::Poll);
    assert_eq!(receiver.counters.empty_wakeups, 3);
    assert_eq!(receiver.finish().iter().map(|arrival| arrival.seq).collect::<Vec<_>>(), [0, 1, 2]);
    let (receiver, _) = receive(steps(), Wait::Spin);
    assert_eq!(receiver.counters.empty_wakeups, 0, "a spinning loop asks for nothing all the time");
}

#[test]
fn strangers_warm_up_and_doubles_are_told_apart() {
    let long = Step::Bring(vec![7; 1_000]);
    let steps = vec![
        packet(Kind::WarmUp, 77, 900),
        packet(Kind::WarmUp, 77, u32::MAX),
        packet(Kind::Test, 78, 0),
        packet(Kind::Test, 77, 10),
        Step::Bring(Vec::new()),
        long,
        packet(Kind::Test, 77, 3),
        packet(Kind::Test, 77, 3),
    ];
    let (receiver, shared) = receive(steps, Wait::Block);
    assert_eq!(receiver.counters.foreign, 4, "another nonce, a number too high, an empty one, a long one");
    assert_eq!(shared.warm.load(std::sync::atomic::Ordering::Relaxed), 1, "the probe is no warm-up packet");
    assert_eq!(shared.live.done(), 1, "a double is not another packet");
    assert_eq!(receiver.finish().len(), 2, "both arrivals are recorded");
}

#[test]
fn a_broken_socket_ends_the_loop_and_is_told() {
    let steps = vec![packet(Kind::Test, 77, 0), Step::Break(9), packet(Kind::Test, 77, 1)];
    let (receiver, _) = receive(steps, Wait::Block);
    assert_eq!(receiver.counters.broken_errno, 9);
    assert_eq!(receiver.finish().len(), 1);
}

#[test]
fn arrivals_beyond_the_recorder_are_counted() {
    let many = (0..3_000).map(|n| packet(Kind::Test, 77, n % 10)).collect();
    let (receiver, _) = receive(many, Wait::Block);
    let dropped = receiver.counters.records_dropped;
    assert!(dropped > 0, "room is bounded");
    assert_eq!(dropped + receiver.finish().len() as u64, 3_000, "none is uncounted");
}
