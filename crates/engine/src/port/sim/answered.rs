// SPDX-License-Identifier: MIT OR Apache-2.0
//! Answered streams on simulated clocks: the same reflector and requester loops as on a machine. A
//! closed loop has both ends on one simulated time: whenever the requester waits, the reflector
//! works off what has reached it.

use super::world::{Flying, RxPort, RxTimer, TxPort, World};
use super::{EPOCH_NS, Ends, Recorded, landed};
use crate::halves::ReplyHalves;
use crate::order::{AskOrder, ReflectOrder};
use crate::port::{Inbox, ReceivePort, Received, SendPort, Timer, TxStamp};
use crate::receiver::{Receiver, Shared};
use crate::reflector::Reflector;
use crate::requester::{Requester, longest_wait};
use std::cell::RefCell;
use std::rc::Rc;
use tardy_model::stream::Wait;
use tardy_model::time::{Instant, Nanos, Tai};

/// One look of a spinning requester.
const LOOK_NS: i64 = 1_000;

impl Ends<'_> {
    fn reflect_order(&self) -> ReflectOrder {
        ReflectOrder { receive: self.receive_order(false), send: self.send_order(true) }
    }

    /// By the schedule, each packet sent back.
    pub(super) fn reflected(&self, base: Instant<Tai>) -> (Recorded, i64) {
        let (sent, mut own, flying) = self.send(base);
        let mut ended_ns = self.world.now_ns.replace(EPOCH_NS);
        let mut from = self.rx(flying, false);
        let (mut back, path) = self.tx(3, true);
        let mut reflector = Reflector::new(self.reflect_order());
        let mut timer = self.timer(true);
        reflector.run(&mut timer, &mut from, &mut back, &Shared::default());
        reflector.end(&mut timer, &mut back);
        ended_ns = ended_ns.max(self.world.now_ns.replace(EPOCH_NS));
        let mut home = self.rx(landed(&mut back, &path), true);
        let mut receiver = Receiver::new(self.receive_order(true));
        receiver.run(&mut self.timer(false), &mut home, &Shared::default());
        ended_ns = ended_ns.max(self.world.now_ns.get());
        let (counters, gaps) = (receiver.counters, receiver.gaps);
        let reply = (receiver.finish(), counters, gaps);
        own.add(reflector.sender.own.take());
        (recorded(sent, reflector, reply, None, own), ended_ns)
    }

    pub(super) fn pingpong(&self, base: Instant<Tai>) -> (Recorded, i64) {
        let (to, requests) = self.tx(2, false);
        let (back, replies) = self.tx(3, true);
        let far = Far {
            requests,
            replies,
            from: self.rx(Vec::new(), false),
            back,
            reflector: Reflector::new(self.reflect_order()),
            timer: self.timer(true),
            now_ns: EPOCH_NS,
        };
        let link = Rc::new(RefCell::new(Link { to, far, landed: Vec::new() }));
        let order = AskOrder {
            send: self.send_order(false),
            receive: self.receive_order(true),
            in_flight: self.stream.reply.in_flight,
            timeout: self.stream.reply.timeout,
        };
        let longest_wait = longest_wait(order.timeout);
        let mut requester = Requester::new(order);
        let mut home = Home { link: link.clone(), near: self.rx(Vec::new(), true), longest_wait };
        let mut timer = self.timer(false);
        timer.sleep_until(base);
        requester.run(&mut timer, &mut Door(link.clone()), &mut home, &Shared::default());
        let ended_ns = self.world.now_ns.get();
        requester.sender.gather_stamps(&mut timer, &mut Door(link.clone()));
        let own = requester.sender.own.take();
        let arrivals = requester.take_arrivals();
        let (counters, gaps, sent) = (requester.counters, requester.gaps, requester.sender.counters);
        let sent = (requester.sender.finish(), sent);
        drop(home);
        let Ok(link) = Rc::try_unwrap(link) else { unreachable!("the ports are gone") };
        let mut far = link.into_inner().far;
        far.reflector.end(&mut far.timer, &mut far.back);
        (recorded(sent, far.reflector, (arrivals, counters, gaps), gaps, own), ended_ns)
    }
}

type Replies = (Vec<crate::receiver::Arrival>, crate::receiver::ReceiverCounters, Option<tardy_model::trial::SpinGaps>);

fn recorded(
    sent: (crate::sender::SentRows, crate::sender::SenderCounters),
    reflector: Reflector,
    (arrivals, rx_counters, gaps): Replies,
    tx_gaps: Option<tardy_model::trial::SpinGaps>,
    own: tardy_model::trial::OwnNotes,
) -> Recorded {
    let Reflector { receiver, sender, .. } = reflector;
    let (counters, rx_gaps, tx_counters) = (receiver.counters, receiver.gaps, sender.counters);
    let reply = ReplyHalves {
        sent: sender.finish(),
        tx_counters,
        arrivals,
        rx_counters,
        thread: None,
        gaps,
        tcp: [None; 2],
        error_queue_bytes: 0,
    };
    Recorded { sent, arrived: (receiver.finish(), counters), gaps: [tx_gaps, rx_gaps], reply: Some(reply), own }
}

/// The reflector's station, with its own time.
struct Far {
    requests: Rc<RefCell<Vec<Flying>>>,
    replies: Rc<RefCell<Vec<Flying>>>,
    from: RxPort,
    back: TxPort,
    reflector: Reflector,
    timer: RxTimer,
    now_ns: i64,
}

/// What lies between the two stations.
struct Link {
    to: TxPort,
    far: Far,
    /// Replies on their way, in the order of their arrival.
    landed: Vec<Flying>,
}

impl Link {
    /// Lets the reflector work off what was sent to it.
    fn reflect(&mut self, world: &World) {
        let far = &mut self.far;
        let mut flying = far.requests.take();
        if flying.is_empty() {
            return;
        }
        flying.sort_by_key(|packet| packet.at_ns);
        let here_ns = world.now_ns.replace(far.now_ns);
        far.from.arriving = flying.into_iter();
        far.reflector.run(&mut far.timer, &mut far.from, &mut far.back, &Shared::default());
        far.now_ns = world.now_ns.replace(here_ns);
        self.landed.append(&mut far.replies.borrow_mut());
        self.landed.sort_by_key(|packet| packet.at_ns);
    }
}

/// The requester's sending port.
struct Door(Rc<RefCell<Link>>);

impl SendPort for Door {
    fn send(&mut self, payload: &[u8], key: u32, launch: Option<Instant<Tai>>) -> Result<u32, i32> {
        self.0.borrow_mut().to.send(payload, key, launch)
    }
    fn drain(&mut self, each: impl FnMut(TxStamp)) -> usize {
        self.0.borrow_mut().to.drain(each)
    }
}

/// The requester's receiving port.
struct Home {
    link: Rc<RefCell<Link>>,
    near: RxPort,
    /// A wait for a reply that does not come returns after this long, as on a machine.
    longest_wait: Nanos,
}

impl ReceivePort for Home {
    type Lent = Inbox;

    fn lent(&self) -> &Inbox {
        self.near.lent()
    }
    fn receive(&mut self, many: bool) -> Result<Received, i32> {
        let mut link = self.link.borrow_mut();
        let world = self.near.world.clone();
        link.reflect(&world);
        let now_ns = world.now_ns.get();
        match link.landed.first().map(|reply| reply.at_ns) {
            Some(at_ns) if self.near.wait != Wait::Spin || at_ns <= now_ns => {
                self.near.next = Some(link.landed.remove(0));
                self.near.receive(many)
            }
            _ if self.near.wait == Wait::Spin => {
                world.now_ns.set(now_ns + LOOK_NS);
                Ok(Received::Nothing)
            }
            _ => {
                world.now_ns.set(now_ns + self.longest_wait.0);
                Ok(Received::TimedOut)
            }
        }
    }
    fn spins(&self) -> bool {
        self.near.spins()
    }
}
