// SPDX-License-Identifier: MIT OR Apache-2.0
//! One trial on simulated clocks, with the simulated machine around it.

use super::qdisc::Qdisc;
use super::world::World;
use super::{CPUS, EPOCH_NS, Ends};
use crate::halves::Halves;
use crate::order::StreamOrder;
use crate::schedule;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use tardy_model::machine::{CpuTimes, MachineState, RtLimit, TaskTime, ThreadRecord};
use tardy_model::point::Point;
use tardy_model::qdisc::ShaperRecord;
use tardy_model::shaper::Shaper;
use tardy_model::stream::{Kind, Policy, Sim, Stream};
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

/// Runs one trial of a stream on simulated clocks. `phase` shifts the schedule; everything is
/// drawn from `nonce`.
pub fn trial(stream: &Stream, id: StreamId, nonce: u64, phase: Nanos, shaper: &Shaper) -> SimTrial {
    let sim = stream.sim.clone();
    let base = schedule::base_time(Instant::from_ns(EPOCH_NS + 100_000_000), stream.cycle, phase);
    let span = stream.cycle.0 * i64::from(stream.count);
    let world = Rc::new(World {
        now_ns: Cell::new(EPOCH_NS),
        start_ns: EPOCH_NS,
        step_at_ns: if sim.step == Nanos::ZERO { i64::MAX } else { base.ns() + span / 2 },
        sim,
    });
    let order = StreamOrder::of(stream, id, nonce);
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
    let absent = [(Point::TxHw, "port sim has no NIC"), (Point::RxHw, "port sim has no NIC")];
    let absent = absent.into_iter().filter(|(point, _)| stream.stamps.contains(point));
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
        xdp: None,
        rx_thread: record(stream.rx.policy, 1, 12),
        rx_clocks: [clocks_before, clocks_after],
        absent: absent.map(|(point, why)| (point, why.to_owned())).collect(),
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
        clocks,
        cpus: [0, 1].map(cpu).into(),
        work: BTreeMap::new(),
        tasks: BTreeMap::from([(99, hog)]),
        load_tasks: BTreeSet::new(),
        ended: None,
        rt_limit: Some(RtLimit { period_ns: 1_000_000_000, runtime_ns: 950_000_000 }),
        cpu_dma_latency_us: None,
        other_runs: 0,
    }
}
