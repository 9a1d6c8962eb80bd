// SPDX-License-Identifier: MIT OR Apache-2.0
//! One trial on simulated clocks, with the simulated machine around it; and its answered streams,
//! by the same reflector and requester loops as on a machine. A closed loop has both ends on one
//! simulated time: whenever the requester waits, the reflector works off what has reached it.

use super::qdisc::Qdisc;
use super::world::{Flying, RxPort, RxTimer, TxPort, World};
use super::{CPUS, EPOCH_NS, Ends, Recorded, landed};
use crate::halves::{Halves, ReplyHalves};
use crate::order::{AskOrder, ReflectOrder, StreamOrder};
use crate::port::{Inbox, ReceivePort, Received, SendPort, Timer, TxStamp};
use crate::receiver::{Receiver, Shared};
use crate::reflector::Reflector;
use crate::requester::{Requester, longest_wait};
use crate::schedule;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use tardy_model::machine::{CpuTimes, MachineState, RtLimit, TaskTime};
use tardy_model::placement::ThreadRecord;
use tardy_model::point::Point;
use tardy_model::port::Sim;
use tardy_model::qdisc::ShaperRecord;
use tardy_model::shaper::Shaper;
use tardy_model::stream::{Kind, Policy, Stream, Wait};
use tardy_model::stream_id::StreamId;
use tardy_model::time::{ClockReading, Instant, Nanos, Tai};
use tardy_model::trial::WarmUp;

/// What a simulated trial gives.
pub struct SimTrial {
    pub halves: Halves,
    /// Scheduled instant of packet 0.
    pub base: Instant<Tai>,
    /// The simulated machine before.
    pub before: MachineState,
    pub after: MachineState,
    /// What its queue discipline did.
    pub shaper: ShaperRecord,
}

/// The world at its beginning. If its clock has a step, that comes in the middle of the packets.
fn world_of(stream: &Stream, base: Instant<Tai>) -> World {
    let sim = stream.sim.clone();
    let span = stream.cycle.0 * i64::from(stream.count);
    let step_at_ns = if sim.step == Nanos::ZERO { i64::MAX } else { base.ns() + span / 2 };
    World { now_ns: Cell::new(EPOCH_NS), start_ns: EPOCH_NS, step_at_ns, middle_ns: base.ns() + span / 2, sim }
}

/// Runs one trial of a stream on simulated clocks. `phase` shifts the schedule; everything is
/// drawn from `nonce`.
pub fn trial(stream: &Stream, id: StreamId, nonce: u64, phase: Nanos, shaper: &Shaper) -> SimTrial {
    let base = schedule::base_time(Instant::from_ns(EPOCH_NS + 100_000_000), stream.cycle, phase);
    let world = Rc::new(world_of(stream, base));
    let mut order = StreamOrder::of(stream, id, nonce);
    let absent_device = match (stream.sim.phc, stream.kind) {
        (true, Kind::Cyclic) => None,
        (true, _) => Some("a device's stamps are read of one-way streams only"),
        (false, _) => Some("port sim has no NIC"),
    };
    let by_device = |point: &Point| [Point::TxHw, Point::RxHw].contains(point);
    order.stamps.retain(|point| absent_device.is_none() || !by_device(point));
    let offset = world.sim.tai_offset_s;
    let clocks_before = world.reading(EPOCH_NS, offset);
    let qdisc = Rc::new(RefCell::new(Qdisc::new(shaper, stream, nonce)));
    let ends = Ends { stream, world: world.clone(), order, nonce, phase, qdisc: qdisc.clone() };
    let (recorded, ended_ns) = match stream.kind {
        Kind::Cyclic => ends.one_way(base),
        Kind::Reflected => ends.reflected(base),
        Kind::Pingpong => ends.pingpong(base),
    };
    let clocks_after = world.reading(ended_ns, offset + world.sim.tai_offset_change_s);
    // A measuring thread runs a tenth of the time; a spinning one all of it but for its stops.
    let passed_ns = ended_ns - EPOCH_NS;
    let run_ns = recorded.gaps.map(|gaps| gaps.map_or(passed_ns / 10, |stopped| passed_ns - stopped.total_ns));
    let record = |policy: Policy, end: usize, tid: u32| ThreadRecord {
        // The hog is an ordinary task: a realtime thread does not wait for it.
        wait_ns: Some(match (end, policy) {
            (0, Policy::Other) => (passed_ns as f64 * world.sim.hog) as i64,
            _ => 0,
        }),
        ..thread_record(&world.sim, policy, CPUS[end], tid, run_ns[end])
    };
    let absent = stream.stamps.iter().filter(|point| by_device(point));
    let absent = absent.filter_map(|point| Some((*point, absent_device?.to_owned())));
    let mut reply = recorded.reply;
    if let Some(reply) = reply.as_mut().filter(|_| stream.kind == Kind::Reflected) {
        reply.thread = Some(record(stream.reply.policy, 0, 13));
    }
    let halves = Halves {
        tx_counters: recorded.sent.1,
        sent: recorded.sent.0,
        tx_thread: record(stream.tx.policy, 0, 11),
        tx_clocks: [clocks_before, clocks_after],
        rx_counters: recorded.arrived.1,
        gaps: recorded.gaps[1],
        tx_gaps: None,
        arrivals: recorded.arrived.0,
        xdp_stamps: Vec::new(),
        areas: Vec::new(),
        xdp: None,
        xdp_sent: None,
        rx_thread: record(stream.rx.policy, 1, 12),
        rx_clocks: [clocks_before, clocks_after],
        absent: absent.collect(),
        error_queue_bytes: 0,
        warmup: WarmUp { flowed: true, ..WarmUp::default() },
        reply,
        own: recorded.own,
        offsets: Default::default(),
    };
    let before = machine(&world.sim, clocks_before, 0, [0; 2]);
    let after = machine(&world.sim, clocks_after, passed_ns, run_ns);
    let shaper = qdisc.borrow().record();
    SimTrial { halves, base, before, after, shaper }
}

fn thread_record(sim: &Sim, policy: Policy, cpu: u32, tid: u32, run_ns: i64) -> ThreadRecord {
    let refused = sim.refuse_policy && policy != Policy::Other;
    ThreadRecord {
        tid,
        policy_asked: policy.to_string(),
        policy_granted: if refused { Policy::Other } else { policy }.to_string(),
        cpu_asked: Some(cpu),
        affinity: vec![cpu],
        cpus_seen: vec![cpu],
        memory_locked: true,
        refused: if refused { vec![format!("sched_setscheduler on {policy}: simulated refusal")] } else { Vec::new() },
        run_ns: Some(run_ns),
        wait_ns: Some(0),
        over_ns: None,
        involuntary_switches: 0,
        voluntary_switches: 0,
        migrations: Some(0),
        told_ahead_ns: None,
        wake_wait_ns: None,
        napi_id: None,
        timer_slack_ns: None,
    }
}

/// A machine of two CPUs on which the measuring threads ran for `run_ns`, not counting what the
/// faults add.
fn machine(sim: &Sim, clocks: ClockReading, passed_ns: i64, run_ns: [i64; 2]) -> MachineState {
    let share = |part: f64| (passed_ns as f64 * part) as i64;
    let cpu = |end: usize| {
        let hog = if end == 0 { sim.hog } else { 0.0 };
        let steal_ns = share(sim.steal);
        let busy_ns = (run_ns[end] + share(hog)).min(passed_ns - steal_ns);
        let idle_ns = (passed_ns - busy_ns - steal_ns).max(0);
        (CPUS[end], CpuTimes { busy_ns, idle_ns, steal_ns, ..CpuTimes::default() })
    };
    let hog = TaskTime { name: "hog".into(), start: 1, cpu: CPUS[0], run_ns: share(sim.hog), realtime: false };
    MachineState {
        cpus: [0, 1].map(cpu).into(),
        tasks: BTreeMap::from([(99, hog)]),
        rt_limit: Some(RtLimit { period_ns: 1_000_000_000, runtime_ns: 950_000_000 }),
        ..MachineState::of(clocks)
    }
}

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
        reflector.gather_stamps(&mut timer, &mut back);
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
        far.reflector.gather_stamps(&mut far.timer, &mut far.back);
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
