// SPDX-License-Identifier: MIT OR Apache-2.0
//! Simulated time, the clocks that show it, and the ports of both ends: pure, all of it drawn from
//! seeds.

use super::qdisc::{Fate, Qdisc};
use crate::order::StreamOrder;
use crate::port::{DRAIN, Inbox, ReceivePort, Received, SendPort, Timer, TxPoint, TxStamp};
use rand::Rng;
use rand_pcg::Pcg64Mcg;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use tardy_model::ethernet::{Tag, Tags};
use tardy_model::frame::{Frame, LEAD, PacketKind};
use tardy_model::point::Point;
use tardy_model::port::Sim;
use tardy_model::stream::Wait;
use tardy_model::time::{ClockReading, Instant, Nanos, PhcReading, Realtime, Tai};

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
/// True time and the clocks that show it.
pub(super) struct World {
    pub(super) now_ns: Cell<i64>,
    pub(super) start_ns: i64,
    pub(super) step_at_ns: i64,
    /// When devices' clocks jump.
    pub(super) middle_ns: i64,
    pub(super) sim: Sim,
}

impl World {
    pub(super) fn tai(&self, at_ns: i64) -> Instant<Tai> {
        Instant::from_ns(at_ns + if at_ns >= self.step_at_ns { self.sim.step.0 } else { 0 })
    }
    fn realtime(&self, at_ns: i64) -> Instant<Realtime> {
        Instant::from_ns(self.tai(at_ns).ns() - i64::from(self.sim.tai_offset_s) * 1_000_000_000)
    }
    /// What the receiver's clock is ahead by.
    pub(super) fn drift_ns(&self, at_ns: i64) -> i64 {
        let passed = i128::from(at_ns - self.start_ns);
        (passed * i128::from(self.sim.drift_ppb) / 1_000_000_000) as i64
    }
    /// True time at which the TAI clock shows at least `at`.
    fn when(&self, at: Instant<Tai>) -> i64 {
        if at.ns() <= self.step_at_ns { at.ns() } else { (at.ns() - self.sim.step.0).max(self.step_at_ns) }
    }
    /// What the clock of an end's device shows.
    fn phc_ns(&self, at_ns: i64) -> i64 {
        let Sim { phc_ahead, phc_drift_ppb, phc_step, phc_tick, .. } = &self.sim;
        let passed = i128::from(at_ns - self.start_ns);
        let drift = (passed * i128::from(*phc_drift_ppb) / 1_000_000_000) as i64;
        let step = if at_ns >= self.middle_ns { phc_step.0 } else { 0 };
        let shows = at_ns + phc_ahead.0 + drift + step;
        shows - shows.rem_euclid(phc_tick.0.max(1))
    }
    /// That clock and the system's as the kernel reads them at an end: the device's at the very
    /// beginning of the bracket, where the middle is as wrong as it can be.
    pub(super) fn phc_reading(&self, at_ns: i64, drifts: bool) -> PhcReading {
        let half = self.sim.phc_read.0 / 2;
        let drift = if drifts { self.drift_ns(at_ns) } else { 0 };
        let realtime_ns = self.realtime(at_ns).ns() + drift + half;
        PhcReading { phc_ns: self.phc_ns(at_ns), realtime_ns, bound_ns: half.max(1) }
    }
    /// When the sending device stamps a packet that came to its driver then, and the receiving one
    /// a packet that the kernel takes in then.
    fn on_wire(&self, driver_ns: i64) -> i64 {
        driver_ns + self.sim.delay.0 / 5
    }
    fn off_wire(&self, kernel_ns: i64) -> i64 {
        kernel_ns - self.sim.delay.0 * 3 / 10
    }
    pub(super) fn reading(&self, at_ns: i64, tai_offset_s: i32) -> ClockReading {
        let realtime = self.realtime(at_ns).ns();
        ClockReading {
            tai_ns: realtime + i64::from(tai_offset_s) * 1_000_000_000,
            realtime_ns: realtime,
            monotonic_ns: at_ns - self.start_ns + 1_000_000_000,
            bound_ns: 20,
            tai_offset_s,
            steering: None,
        }
    }
}

pub(super) struct TxTimer {
    pub(super) world: Rc<World>,
    pub(super) random: Pcg64Mcg,
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
pub(super) struct Flying {
    pub(super) at_ns: i64,
    pub(super) payload: Vec<u8>,
    pub(super) test: bool,
    pub(super) tags: Tags,
}

pub(super) struct TxPort {
    pub(super) world: Rc<World>,
    pub(super) random: Pcg64Mcg,
    /// What becomes of tags is drawn apart, so that it moves no other fault's place.
    pub(super) tag_random: Pcg64Mcg,
    pub(super) stamps: Vec<TxStamp>,
    pub(super) order: StreamOrder,
    pub(super) path: Rc<RefCell<Vec<Flying>>>,
    pub(super) held: Option<Flying>,
    /// Stamps before the queue discipline and in the driver.
    pub(super) points: [Point; 2],
    /// The station's clock is the one that drifts.
    pub(super) drifts: bool,
    /// The device stamps too.
    pub(super) stamps_by_device: bool,
    /// What its packets go through.
    pub(super) qdisc: Option<Rc<RefCell<Qdisc>>>,
}

impl TxPort {
    /// The tags that the packet arrives with: the path may write another priority, or put a tag in
    /// front.
    fn tags(&mut self) -> Tags {
        let Some(tag) = self.order.tag else { return Tags::UNSEEN };
        let sim = &self.world.sim;
        let [remark, retag] = [sim.remark, sim.retag].map(|share| self.tag_random.random_bool(share.clamp(0.0, 1.0)));
        let pcp = if remark { (tag.pcp + 1) % 8 } else { tag.pcp };
        Tags::new(1 + u8::from(retag), Tag { pcp, ..tag }.tci())
    }

    /// The kernel's stamps of a packet that is sent at `now`. One that never `leaves` the queue
    /// discipline gets none of the driver.
    fn stamp(&mut self, key: u32, now: i64, driver_at: i64, leaves: bool) {
        let [sched, driver] = self.points;
        for (point, at, after) in [(sched, TxPoint::Sched, TO_SCHED_NS), (driver, TxPoint::Software, driver_at)] {
            if self.order.wants(point) && (leaves || at == TxPoint::Sched) {
                let drift = if self.drifts { self.world.drift_ns(now + after) } else { 0 };
                self.stamps.push(TxStamp { key, at, ns: self.world.realtime(now + after).ns() + drift });
            }
        }
        if leaves && self.stamps_by_device {
            let ns = self.world.phc_ns(self.world.on_wire(now + driver_at));
            self.stamps.push(TxStamp { key, at: TxPoint::Hardware, ns });
        }
    }

    /// Puts a packet that comes to the driver at `driver_ns` on its way, with the faults that the
    /// experiment asks for.
    fn fly(&mut self, payload: &[u8], driver_ns: i64, leaves: bool) {
        let tags = self.tags();
        let sim = &self.world.sim;
        let is_test = |frame: &Frame| matches!(frame.kind, PacketKind::Test | PacketKind::Reply) && frame.seq != LEAD;
        let frame = Frame::read(payload).ok();
        // By its number one of a lead-in can be dropped too.
        let dropped = frame.is_some_and(|frame| frame.kind == PacketKind::Test && sim.drop.contains(&frame.seq));
        let frame = frame.filter(is_test);
        // Every packet takes the same number of draws, so that one fault does not move another's
        // place.
        let jitter = if sim.jitter.0 > 0 { self.random.random_range(0..sim.jitter.0) } else { 0 };
        let [lost, held, double] = [sim.loss, sim.reorder, sim.duplicate]
            .map(|share| self.random.random_bool(share.clamp(0.0, 1.0)) && frame.is_some());
        let flying =
            Flying { at_ns: driver_ns + sim.delay.0 + jitter, payload: payload.to_vec(), test: frame.is_some(), tags };
        let mut path = self.path.borrow_mut();
        if !leaves || lost || dropped {
            return;
        }
        if held && self.held.is_none() {
            self.held = Some(flying);
            return;
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
    }
}

impl SendPort for TxPort {
    fn send(&mut self, payload: &[u8], key: u32, launch: Option<Instant<Tai>>) -> Result<u32, i32> {
        let now = self.world.now_ns.get();
        // What the queue discipline holds it for, beyond what the way to the driver takes.
        let fate = self.qdisc.as_ref().map(|qdisc| {
            let enqueued = self.world.tai(now + TO_SCHED_NS).ns();
            match qdisc.borrow_mut().take(enqueued, launch.map(Instant::ns), payload.len() as u64) {
                Fate::Leaves(left) => Fate::Leaves(left - enqueued),
                other => other,
            }
        });
        let (held, leaves) = match fate {
            None => (0, true),
            Some(Fate::Leaves(held)) => (held, true),
            Some(_) => (0, false),
        };
        let driver_at = TO_DRIVER_NS.max(TO_SCHED_NS + held);
        self.stamp(key, now, driver_at, leaves);
        let reported = match fate {
            Some(Fate::Missed) => Some(TxPoint::Missed),
            Some(Fate::Invalid(true)) => Some(TxPoint::Invalid),
            _ => None,
        };
        if let (Some(at), Some(launch)) = (reported, launch) {
            self.stamps.push(TxStamp { key: 0, at, ns: launch.ns() });
        }
        self.world.now_ns.set(now + SEND_CALL_NS);
        self.fly(payload, now + driver_at, leaves);
        Ok(key)
    }

    fn drain(&mut self, each: impl FnMut(TxStamp)) -> usize {
        let count = self.stamps.len().min(DRAIN);
        self.stamps.drain(..count).for_each(each);
        count
    }
}

pub(super) struct RxTimer {
    pub(super) world: Rc<World>,
    pub(super) drifts: bool,
}

impl Timer for RxTimer {
    fn now(&mut self) -> Instant<Tai> {
        let now = self.world.now_ns.get();
        let drift = if self.drifts { self.world.drift_ns(now) } else { 0 };
        self.world.tai(now) + Nanos(drift)
    }
    fn sleep_until(&mut self, at: Instant<Tai>) {
        self.spin_until(at);
    }
    fn spin_until(&mut self, at: Instant<Tai>) -> Nanos {
        self.world.now_ns.set(self.world.when(at).max(self.world.now_ns.get()));
        Nanos::ZERO
    }
}

pub(super) struct RxPort {
    pub(super) world: Rc<World>,
    pub(super) arriving: std::vec::IntoIter<Flying>,
    pub(super) next: Option<Flying>,
    pub(super) wait: Wait,
    pub(super) stamped: bool,
    pub(super) stamped_by_device: bool,
    pub(super) tests: u32,
    pub(super) drifts: bool,
    pub(super) inbox: Inbox,
}

impl RxPort {
    /// A throttled spinner does nothing for the last part of each second.
    fn throttle(&self, at_ns: i64) -> i64 {
        let (second, stopped) = (1_000_000_000, self.world.sim.throttle.0);
        let into = at_ns.rem_euclid(second);
        if stopped > 0 && into >= second - stopped { at_ns - into + second } else { at_ns }
    }
}

impl ReceivePort for RxPort {
    type Lent = Inbox;

    fn lent(&self) -> &Inbox {
        &self.inbox
    }
    fn receive(&mut self, _many: bool) -> Result<Received, i32> {
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
        let drift = if self.drifts { self.world.drift_ns(next.at_ns) } else { 0 };
        let stamp = self.world.realtime(next.at_ns) + Nanos(drift);
        self.inbox.put(0, &next.payload, stamped.then_some(stamp));
        let device_ns = || self.world.phc_ns(self.world.off_wire(next.at_ns));
        self.inbox.stamp_by_device(0, self.stamped_by_device.then(device_ns));
        self.inbox.tag(0, next.tags);
        Ok(Received::Packets(1))
    }
    fn spins(&self) -> bool {
        self.wait == Wait::Spin
    }
    fn ended(&self) -> bool {
        self.next.is_none() && self.arriving.len() == 0
    }
}
