// SPDX-License-Identifier: MIT OR Apache-2.0
//! Port `sim`: the same sender and receiver loops on simulated clocks and a simulated path.
//! Everything follows from the seed, so results are exact, and faults can be put in without
//! harming a machine.

mod qdisc;
mod trial;
mod world;

pub use trial::{SimTrial, trial};
pub use world::{BEHIND_NS, SEND_CALL_NS, TO_DRIVER_NS, TO_SCHED_NS};

use crate::halves::ReplyHalves;
use crate::live::Live;
use crate::order::{ReceiveOrder, SendOrder, StreamOrder, ThreadOrder, launch_order};
use crate::port::Inbox;
use crate::receiver::{Arrival, Receiver, ReceiverCounters, Shared};
use crate::sender::{Sender, SenderCounters, SentRows};
use qdisc::Qdisc;
use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;
use std::cell::RefCell;
use std::net::Ipv4Addr;
use std::rc::Rc;
use std::sync::atomic::AtomicBool;
use tardy_model::point::Point;
use tardy_model::sample;
use tardy_model::stream::Stream;
use tardy_model::time::{Instant, Nanos, Tai};
use tardy_model::trial::{OwnNotes, SpinGaps};
use tardy_model::xdp::FRAMES;
use world::{Flying, RxPort, RxTimer, TxPort, TxTimer, World};

/// Simulated CPU of the sender and of the receiver.
const CPUS: [u32; 2] = [0, 1];

/// Where simulated time starts: 2026-01-01, TAI.
const EPOCH_NS: i64 = 1_767_225_637_000_000_000;

/// What the ends of a stream recorded.
struct Recorded {
    sent: (SentRows, SenderCounters),
    arrived: (Vec<Arrival>, ReceiverCounters),
    /// Of the sender or the end that asks, and of the receiver.
    gaps: [Option<SpinGaps>; 2],
    reply: Option<ReplyHalves>,
    own: OwnNotes,
}

/// The ends of a stream and what lies between them.
struct Ends<'a> {
    stream: &'a Stream,
    world: Rc<World>,
    order: StreamOrder,
    nonce: u64,
    phase: Nanos,
    qdisc: Rc<RefCell<Qdisc>>,
}

impl Ends<'_> {
    fn random(&self, salt: u64) -> Pcg64Mcg {
        Pcg64Mcg::seed_from_u64(self.nonce ^ salt)
    }

    fn send_order(&self, replies: bool) -> SendOrder {
        let (stream, end) = (self.stream, usize::from(replies));
        let policy = [stream.tx.policy, stream.rx.policy][end];
        SendOrder {
            order: self.order.clone(),
            thread: ThreadOrder { cpu: Some(CPUS[end]), policy },
            local: Ipv4Addr::LOCALHOST.into(),
            peer: Ipv4Addr::LOCALHOST.into(),
            port: 0,
            device: "sim".into(),
            macs: [[0; 6]; 2],
            priority: stream.priority,
            queues: None,
            frames: FRAMES,
            advance: stream.tx.advance,
            spin: stream.tx.spin,
            overrun: stream.overrun,
            replies,
            launch: launch_order(stream, self.phase).filter(|_| !replies),
        }
    }

    fn receive_order(&self, replies: bool) -> ReceiveOrder {
        let stream = self.stream;
        let (policy, wait) = match replies {
            false => (stream.rx.policy, stream.rx.wait),
            true => (stream.reply.policy, stream.tx.wait),
        };
        ReceiveOrder {
            order: self.order.clone(),
            thread: ThreadOrder { cpu: Some(CPUS[usize::from(!replies)]), policy },
            local: Ipv4Addr::LOCALHOST.into(),
            port: 0,
            device: "sim".into(),
            wait,
            queue: None,
            frames: FRAMES,
            replies,
            object: None,
            hints: Vec::new(),
        }
    }

    /// The sending port of an end, and what flies out of it.
    fn tx(&self, salt: u64, replies: bool) -> (TxPort, Rc<RefCell<Vec<Flying>>>) {
        let path = Rc::new(RefCell::new(Vec::new()));
        let points = match replies {
            false => [Point::TxSched, Point::TxKernel],
            true => [Point::ReplyTxSched, Point::ReplyTxKernel],
        };
        let port = TxPort {
            world: self.world.clone(),
            random: self.random(salt),
            tag_random: self.random(salt + 64),
            stamps: Vec::new(),
            order: self.order.clone(),
            path: path.clone(),
            held: None,
            points,
            drifts: replies,
            stamps_by_device: !replies && self.order.wants(Point::TxHw),
            qdisc: (!replies).then(|| self.qdisc.clone()),
        };
        (port, path)
    }

    /// The receiving port of an end.
    fn rx(&self, flying: Vec<Flying>, replies: bool) -> RxPort {
        let order = self.receive_order(replies);
        RxPort {
            world: self.world.clone(),
            arriving: flying.into_iter(),
            next: None,
            wait: order.wait,
            stamped: order.order.wants(order.rx_kernel()),
            stamped_by_device: order.hardware(),
            tests: 0,
            drifts: !replies,
            inbox: Inbox::of(&order),
        }
    }

    fn timer(&self, drifts: bool) -> RxTimer {
        RxTimer { world: self.world.clone(), drifts }
    }

    /// Sends the whole schedule; gives what flies, in order.
    fn send(&self, base: Instant<Tai>) -> ((SentRows, SenderCounters), OwnNotes, Vec<Flying>) {
        let mut timer = TxTimer { world: self.world.clone(), random: self.random(1) };
        let (mut port, path) = self.tx(2, false);
        let mut sender = Sender::new(self.send_order(false));
        sender.run(&mut timer, &mut port, base, &AtomicBool::new(false), &Live::default());
        // On simulated time nothing waits for it.
        sender.gather_stamps(&mut timer, &mut port);
        let (counters, own) = (sender.counters, sender.own.take());
        ((sender.finish(), counters), own, landed(&mut port, &path))
    }

    fn one_way(&self, base: Instant<Tai>) -> (Recorded, i64) {
        let (sent, own, flying) = self.send(base);
        let ended_ns = self.world.now_ns.replace(EPOCH_NS);
        let mut rx = self.rx(flying, false);
        let mut receiver = Receiver::new(self.receive_order(false));
        receiver.run(&mut self.timer(true), &mut rx, &Shared::default());
        let (mut counters, gaps) = (receiver.counters, receiver.gaps);
        let ended_ns = ended_ns.max(self.world.now_ns.get());
        let around = |drifts| [EPOCH_NS, ended_ns].map(|at_ns| Some(self.world.phc_reading(at_ns, drifts)));
        let (mut half, mut sent_counters) = sent;
        if self.order.wants(Point::TxHw) {
            sent_counters.hardware_bound_ns = sample::by_device(half.tx_hw.iter_mut(), around(false));
        }
        let mut arrivals = receiver.finish();
        if self.order.wants(Point::RxHw) {
            let stamps = arrivals.iter_mut().map(|arrival| &mut arrival.rx_hw);
            counters.hardware_bound_ns = sample::by_device(stamps, around(true));
        }
        let (sent, arrived) = ((half, sent_counters), (arrivals, counters));
        (Recorded { sent, arrived, gaps: [None, gaps], reply: None, own }, ended_ns)
    }
}

/// What flies, in the order in which it arrives; the packet that is held back at the end comes too.
fn landed(port: &mut TxPort, path: &Rc<RefCell<Vec<Flying>>>) -> Vec<Flying> {
    let mut flying = path.take();
    flying.extend(port.held.take());
    flying.sort_by_key(|packet| packet.at_ns);
    flying
}
