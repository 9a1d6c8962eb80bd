// SPDX-License-Identifier: MIT OR Apache-2.0
//! The evidence that goes with the samples: of a machine on which all was well.

use crate::noise::POINTS;
use std::collections::{BTreeMap, BTreeSet};
use tardy_model::machine::{CpuTimes, MachineState};
use tardy_model::placement::{PlacementRecord, ThreadRecord};
use tardy_model::point::{Point, Source};
use tardy_model::qdisc::LaunchRecord;
use tardy_model::sample::{Batch, Outcome};
use tardy_model::time::{ClockReading, Conversion};
use tardy_model::trial::{Counters, StreamRecord, TrialRecord, WarmUp};

pub const CYCLE_NS: i64 = 500_000;

/// The scheduled instant of a trial's first packet, TAI.
pub fn base_ns(trial: u32) -> i64 {
    1_800_000_037_000_000_000 + i64::from(trial) * 100_000_000_000_000
}

/// From the first to the last scheduled instant.
pub fn span_ns(count: u32) -> i64 {
    i64::from(count.saturating_sub(1)) * CYCLE_NS
}

fn clocks(at_ns: i64) -> ClockReading {
    ClockReading {
        tai_ns: at_ns,
        realtime_ns: at_ns - 37_000_000_000,
        monotonic_ns: at_ns - 1_700_000_000_000_000_000,
        bound_ns: 150,
        tai_offset_s: 37,
        steering: None,
    }
}

fn machine(at_ns: i64) -> MachineState {
    let cpu = CpuTimes { busy_ns: 0, idle_ns: at_ns, steal_ns: 0, ..CpuTimes::default() };
    MachineState {
        clocks: clocks(at_ns),
        cpus: BTreeMap::from([(0, cpu), (1, cpu)]),
        work: BTreeMap::new(),
        load_tasks: BTreeSet::new(),
        machine_tasks: BTreeSet::new(),
        kvm: None,
        ended: None,
        tasks: BTreeMap::new(),
        rt_limit: None,
        cpu_dma_latency_us: None,
        bpf_jit: None,
        other_runs: 0,
    }
}

fn thread(tid: u32, cpu: u32) -> ThreadRecord {
    ThreadRecord {
        tid,
        policy_asked: "other".to_owned(),
        policy_granted: "other".to_owned(),
        cpu_asked: Some(cpu),
        affinity: vec![cpu],
        cpus_seen: vec![cpu],
        memory_locked: true,
        ..ThreadRecord::default()
    }
}

/// The record of its stream, where the machine's clocks read this before and after.
fn stream(batch: &Batch, clocks: [ClockReading; 2]) -> StreamRecord {
    let count = u32::try_from(batch.len()).unwrap_or(u32::MAX);
    let span = span_ns(count);
    let source = |point: Point| match point {
        Point::TxKernel => Source::Driver,
        Point::TxSched | Point::RxKernel => Source::Kernel,
        _ => Source::App,
    };
    let lost = batch.outcome.iter().filter(|outcome| **outcome != Outcome::Received).count();
    StreamRecord {
        copy: None,
        intended: count,
        cycle_ns: CYCLE_NS,
        phase_ns: None,
        intended_span_ns: span,
        sent_span_ns: Some(span),
        lateness_by_tenth_ns: Vec::new(),
        max_loss: 1.0,
        sources: POINTS.into_iter().chain([Point::Scheduled]).map(|point| (point, source(point))).collect(),
        absent: BTreeMap::new(),
        tx_conversion: Conversion::between(&clocks[0], &clocks[1]),
        rx_conversion: Conversion::between(&clocks[0], &clocks[1]),
        tx_hw_bound_ns: 0,
        rx_hw_bound_ns: 0,
        tx_clocks: clocks,
        rx_clocks: clocks,
        tx: thread(101, 0),
        rx: thread(102, 1),
        warmup: WarmUp { sent: 50, received: 50, flowed: true, took_ns: 25_000_000, ..WarmUp::default() },
        counters: Counters { sent: count.into(), socket_drops: lost as u64, ..Counters::default() },
        spin_gaps: None,
        tx_spin_gaps: None,
        error_queue_bytes: 4 << 20,
        tags: None,
        reply: None,
        launching: LaunchRecord::default(),
        own_work: Vec::new(),
        own_between: Vec::new(),
        own_work_left_out: 0,
        xdp: None,
        xdp_sent: None,
        offsets: Default::default(),
    }
}

/// The record of a trial of these samples.
pub fn record(cell: &str, n: u32, batch: &Batch) -> TrialRecord {
    let span = span_ns(u32::try_from(batch.len()).unwrap_or(u32::MAX));
    let (before, after) = (machine(base_ns(n) - 20_000_000), machine(base_ns(n) + span + 20_000_000));
    let stream = stream(batch, [before.clocks, after.clocks]);
    TrialRecord {
        format: tardy_model::FORMAT,
        cell: cell.to_owned(),
        n,
        order: n - 1,
        nonce: format!("{n:016x}"),
        phase_ns: 0,
        base_tai_ns: base_ns(n),
        interrupted: false,
        failed: None,
        before,
        after,
        streams: BTreeMap::from([("ctl".to_owned(), stream)]),
        loads: BTreeMap::new(),
        hosts: Default::default(),
        own_traffic: Default::default(),
        placement: PlacementRecord::default(),
        shapers: BTreeMap::new(),
        observer: Vec::new(),
        inspection: None,
        passed: None,
    }
}
