// SPDX-License-Identifier: MIT OR Apache-2.0
//! Port `sim`: the same sender and receiver loops on simulated clocks and a simulated path. Everything follows from the
//! seed, so results are exact, and faults can be put in without harming a machine.

use super::{DRAIN, Inbox, ReceivePort, Received, SendPort, Timer, TxPoint, TxStamp};
use crate::halves::Halves;
use crate::live::Live;
use crate::order::{ReceiveOrder, SendOrder, StreamOrder, ThreadOrder};
use crate::receiver::{Receiver, Shared};
use crate::sender::Sender;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::rc::Rc;
use std::sync::atomic::AtomicBool;
use tardy_model::frame::{Frame, Kind};
use tardy_model::machine::{CpuTimes, MachineState, RtLimit, TaskTime, ThreadRecord};
use tardy_model::point::Point;
use tardy_model::stream::{Policy, Sim, Stream, Wait};
use tardy_model::time::{ClockReading, Instant, Nanos, Realtime, Tai};
use tardy_model::trial::WarmUp;

/// From the send call to the stamp before the queue discipline.
pub const TO_SCHED_NS: i64 = 100;
/// From the send call to the driver's stamp.
pub const TO_DRIVER_NS: i64 = 300;
/// Length of the send call.
pub const SEND_CALL_NS: i64 = 500;
/// Between a held-back or doubled packet and the one before it.
pub const BEHIND_NS: i64 = 100;
/// One look of a spinning receiver.
const LOOK_NS: i64 = 100_000;
/// Simulated CPU of the sender and of the receiver.
const CPUS: [u32; 2] = [0, 1];

/// True time and the clocks that show it.
struct World {
    now_ns: Cell<i64>,
    start_ns: i64,
    step_at_ns: i64,
    sim: Sim,
}

impl World {
    fn tai(&self, at_ns: i64) -> Instant<Tai> {
        Instant::from_ns(at_ns + if at_ns >= self.step_at_ns { self.sim.step.0 } else { 0 })
    }
    fn realtime(&self, at_ns: i64) -> Instant<Realtime> {
        Instant::from_ns(self.tai(at_ns).ns() - i64::from(self.sim.tai_offset_s) * 1_000_000_000)
    }
    /// What the receiver's clock is ahead by.
    fn drift_ns(&self, at_ns: i64) -> i64 {
        let passed = i128::from(at_ns - self.start_ns);
        (passed * i128::from(self.sim.drift_ppb) / 1_000_000_000) as i64
    }
    /// True time at which the TAI clock shows at least `at`.
    fn when(&self, at: Instant<Tai>) -> i64 {
        if at.ns() <= self.step_at_ns { at.ns() } else { (at.ns() - self.sim.step.0).max(self.step_at_ns) }
    }
    fn reading(&self, at_ns: i64, tai_offset_s: i32) -> ClockReading {
        let realtime = self.realtime(at_ns).ns();
        ClockReading {
            tai_ns: realtime + i64::from(tai_offset_s) * 1_000_000_000,
            realtime_ns: realtime,
            monotonic_ns: at_ns - self.start_ns + 1_000_000_000,
            bound_ns: 20,
            tai_offset_s,
        }
    }
}

struct TxTimer {
    world: Rc<World>,
    random: Pcg64Mcg,
}

impl Timer for TxTimer {
    fn now(&mut self) -> Instant<Tai> {
        self.world.tai(self.world.now_ns.get())
    }
    fn sleep_until(&mut self, at: Instant<Tai>) {
        let sim = &self.world.sim;
        let late = if self.random.random_bool(sim.late_share.clamp(0.0, 1.0)) { sim.late.0 } else { 0 };
        let woke = self.world.when(at).max(self.world.now_ns.get()) + sim.wake.0 + late;
        self.world.now_ns.set(woke);
    }
    fn spin_until(&mut self, at: Instant<Tai>) -> Nanos {
        self.world.now_ns.set(self.world.when(at).max(self.world.now_ns.get()));
        Nanos::ZERO
    }
}

/// A packet on its way: true time at the receiver's kernel.
#[derive(Clone)]
struct Flying {
    at_ns: i64,
    payload: Vec<u8>,
    test: bool,
}

struct TxPort {
    world: Rc<World>,
    random: Pcg64Mcg,
    stamps: Vec<TxStamp>,
    order: StreamOrder,
    path: Rc<RefCell<Vec<Flying>>>,
    held: Option<Flying>,
}

impl SendPort for TxPort {
    fn send(&mut self, payload: &[u8], key: u32) -> Result<u32, i32> {
        let now = self.world.now_ns.get();
        for (point, at, after) in
            [(Point::TxSched, TxPoint::Sched, TO_SCHED_NS), (Point::TxKernel, TxPoint::Software, TO_DRIVER_NS)]
        {
            if self.order.wants(point) {
                self.stamps.push(TxStamp { key, at, ns: self.world.realtime(now + after).ns() });
            }
        }
        self.world.now_ns.set(now + SEND_CALL_NS);
        let sim = &self.world.sim;
        let frame = Frame::read(payload).ok().filter(|frame| frame.kind == Kind::Test);
        // Every packet takes the same number of draws, so that one fault does not move another's place.
        let jitter = if sim.jitter.0 > 0 { self.random.random_range(0..sim.jitter.0) } else { 0 };
        let [lost, held, double] = [sim.loss, sim.reorder, sim.duplicate]
            .map(|share| self.random.random_bool(share.clamp(0.0, 1.0)) && frame.is_some());
        let flying = Flying {
            at_ns: now + TO_DRIVER_NS + sim.delay.0 + jitter,
            payload: payload.to_vec(),
            test: frame.is_some(),
        };
        let mut path = self.path.borrow_mut();
        if lost || frame.is_some_and(|frame| sim.drop.contains(&frame.seq)) {
            return Ok(key);
        }
        if held && self.held.is_none() {
            self.held = Some(flying);
            return Ok(key);
        }
        let behind = |at_ns: i64, n: i64| at_ns + n * BEHIND_NS;
        let at_ns = flying.at_ns;
        if double {
            path.push(Flying { at_ns: behind(at_ns, 2), ..flying.clone() });
        }
        path.push(flying);
        if let Some(held) = self.held.take() {
            path.push(Flying { at_ns: behind(at_ns, 1), ..held });
        }
        Ok(key)
    }

    fn drain(&mut self, each: impl FnMut(TxStamp)) -> usize {
        let count = self.stamps.len().min(DRAIN);
        self.stamps.drain(..count).for_each(each);
        count
    }
}

struct RxTimer {
    world: Rc<World>,
}

impl Timer for RxTimer {
    fn now(&mut self) -> Instant<Tai> {
        let now = self.world.now_ns.get();
        self.world.tai(now) + Nanos(self.world.drift_ns(now))
    }
    fn sleep_until(&mut self, at: Instant<Tai>) {
        self.spin_until(at);
    }
    fn spin_until(&mut self, at: Instant<Tai>) -> Nanos {
        self.world.now_ns.set(self.world.when(at).max(self.world.now_ns.get()));
        Nanos::ZERO
    }
}

struct RxPort {
    world: Rc<World>,
    arriving: std::vec::IntoIter<Flying>,
    next: Option<Flying>,
    wait: Wait,
    stamped: bool,
    tests: u32,
}

impl RxPort {
    /// A throttled spinner stands still for the last part of each second.
    fn throttle(&self, at_ns: i64) -> i64 {
        let (second, stopped) = (1_000_000_000, self.world.sim.throttle.0);
        let into = at_ns.rem_euclid(second);
        if stopped > 0 && into >= second - stopped { at_ns - into + second } else { at_ns }
    }
}

impl ReceivePort for RxPort {
    fn receive(&mut self, inbox: &mut Inbox, _many: bool) -> Result<Received, i32> {
        let now = self.throttle(self.world.now_ns.get());
        let next = self.next.take().or_else(|| self.arriving.next());
        let Some(next) = next else { return Ok(Received::TimedOut) };
        if self.spins() && next.at_ns > now {
            self.world.now_ns.set(self.throttle(next.at_ns.min(now + LOOK_NS)));
            self.next = Some(next);
            return Ok(Received::Nothing);
        }
        self.world.now_ns.set(next.at_ns.max(now) + self.world.sim.receive.0);
        let stamped = self.stamped && (!next.test || self.tests >= self.world.sim.stamps_after);
        self.tests += u32::from(next.test);
        let stamp = self.world.realtime(next.at_ns) + Nanos(self.world.drift_ns(next.at_ns));
        inbox.put(0, &next.payload, stamped.then_some(stamp));
        Ok(Received::Packets(1))
    }
    fn spins(&self) -> bool {
        self.wait == Wait::Spin
    }
    fn ended(&self) -> bool {
        self.next.is_none() && self.arriving.len() == 0
    }
}

/// What a simulated trial gives.
pub struct SimTrial {
    /// Both halves.
    pub halves: Halves,
    /// Scheduled instant of packet 0.
    pub base: Instant<Tai>,
    /// The simulated machine before.
    pub before: MachineState,
    /// And after.
    pub after: MachineState,
}

/// Where simulated time starts: 2026-01-01, TAI.
const EPOCH_NS: i64 = 1_767_225_637_000_000_000;

/// Runs one trial of a stream on simulated clocks. `phase` shifts the schedule; everything is drawn from `nonce`.
pub fn trial(stream: &Stream, number: u8, nonce: u64, phase: Nanos) -> SimTrial {
    let sim = stream.sim.clone();
    let base = crate::schedule::base_time(Instant::from_ns(EPOCH_NS + 100_000_000), stream.cycle, phase);
    let span = stream.cycle.0 * i64::from(stream.count);
    let world = Rc::new(World {
        now_ns: Cell::new(EPOCH_NS),
        start_ns: EPOCH_NS,
        step_at_ns: if sim.step == Nanos::ZERO { i64::MAX } else { base.ns() + span / 2 },
        sim,
    });
    let random = |salt: u64| Pcg64Mcg::seed_from_u64(nonce ^ salt);
    let order = StreamOrder {
        stream: number,
        nonce,
        cycle: stream.cycle,
        count: stream.count,
        size: stream.size,
        stamps: stream.stamps.clone(),
    };
    let thread = |policy: Policy, cpu: u32| ThreadOrder { cpu: Some(cpu), policy };
    let send_order = SendOrder {
        order: order.clone(),
        thread: thread(stream.tx.policy, CPUS[0]),
        local: Ipv4Addr::LOCALHOST,
        peer: Ipv4Addr::LOCALHOST,
        udp_port: 0,
        device: "sim".into(),
        priority: stream.priority,
        advance: stream.tx.advance,
        spin: stream.tx.spin,
        overrun: stream.overrun,
    };
    let receive_order = ReceiveOrder {
        order: order.clone(),
        thread: thread(stream.rx.policy, CPUS[1]),
        local: Ipv4Addr::LOCALHOST,
        udp_port: 0,
        device: "sim".into(),
        wait: stream.rx.wait,
    };
    let offset = world.sim.tai_offset_s;
    let clocks_before = world.reading(EPOCH_NS, offset);

    let path = Rc::new(RefCell::new(Vec::new()));
    let mut timer = TxTimer { world: world.clone(), random: random(1) };
    let mut port =
        TxPort { world: world.clone(), random: random(2), stamps: Vec::new(), order, path: path.clone(), held: None };
    let mut sender = Sender::new(send_order);
    let live = Live::default();
    sender.run(&mut timer, &mut port, base, &AtomicBool::new(false), &live);
    let ended_ns = world.now_ns.get();
    path.borrow_mut().extend(port.held.take());

    let mut flying = path.take();
    flying.sort_by_key(|packet| packet.at_ns);
    world.now_ns.set(EPOCH_NS);
    let mut rx = RxPort {
        world: world.clone(),
        arriving: flying.into_iter(),
        next: None,
        wait: stream.rx.wait,
        stamped: stream.stamps.contains(&Point::RxKernel),
        tests: 0,
    };
    let mut receiver = Receiver::new(receive_order);
    receiver.run(&mut RxTimer { world: world.clone() }, &mut rx, &Shared::default());
    let ended_ns = ended_ns.max(world.now_ns.get());

    let clocks_after = world.reading(ended_ns, offset + world.sim.tai_offset_change_s);
    // A measuring thread runs a tenth of the time; a spinning one all of it but for its stops.
    let passed_ns = ended_ns - EPOCH_NS;
    let stopped_ns = receiver.gaps.map(|gaps| gaps.total_ns);
    let run_ns = [passed_ns / 10, stopped_ns.map_or(passed_ns / 10, |stopped| passed_ns - stopped)];
    let record = |policy: Policy, end: usize, tid: u32| thread_record(&world.sim, policy, CPUS[end], tid, run_ns[end]);
    let absent = [(Point::TxHw, "port sim has no NIC"), (Point::RxHw, "port sim has no NIC")];
    let absent = absent.into_iter().filter(|(point, _)| stream.stamps.contains(point));
    let halves = Halves {
        tx_counters: sender.counters,
        sent: sender.finish(),
        tx_thread: record(stream.tx.policy, 0, 11),
        tx_clocks: [clocks_before, clocks_after],
        rx_counters: receiver.counters,
        gaps: receiver.gaps,
        tx_gaps: None,
        arrivals: receiver.finish(),
        rx_thread: record(stream.rx.policy, 1, 12),
        rx_clocks: [clocks_before, clocks_after],
        absent: absent.map(|(point, why)| (point, why.to_owned())).collect(),
        error_queue_bytes: 0,
        warmup: WarmUp { flowed: true, ..WarmUp::default() },
    };
    let before = machine(&world.sim, clocks_before, 0, [0; 2]);
    let after = machine(&world.sim, clocks_after, passed_ns, run_ns);
    SimTrial { halves, base, before, after }
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
        involuntary_switches: 0,
        voluntary_switches: 0,
    }
}

/// A machine of two CPUs on which the measuring threads ran for `run_ns`, beside what the faults add.
fn machine(sim: &Sim, clocks: ClockReading, passed_ns: i64, run_ns: [i64; 2]) -> MachineState {
    let share = |part: f64| (passed_ns as f64 * part) as i64;
    let cpu = |end: usize| {
        let hog = if end == 0 { sim.hog } else { 0.0 };
        let steal_ns = share(sim.steal);
        let busy_ns = (run_ns[end] + share(hog)).min(passed_ns - steal_ns);
        (CPUS[end], CpuTimes { busy_ns, idle_ns: (passed_ns - busy_ns - steal_ns).max(0), steal_ns })
    };
    let hog = TaskTime { name: "hog".into(), start: 1, cpu: CPUS[0], run_ns: share(sim.hog) };
    MachineState {
        clocks,
        cpus: [0, 1].map(cpu).into(),
        tasks: BTreeMap::from([(99, hog)]),
        rt_limit: Some(RtLimit { period_ns: 1_000_000_000, runtime_ns: 950_000_000 }),
        cpu_dma_latency_us: None,
        other_runs: 0,
    }
}
