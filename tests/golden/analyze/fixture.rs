// SPDX-License-Identifier: MIT OR Apache-2.0
//! Samples and records in which all is well, for the tests to spoil.

use std::collections::BTreeMap;
use tardy_model::machine::{CpuTimes, MachineState, RtLimit, TaskTime};
use tardy_model::placement::{PlacementRecord, ThreadRecord};
use tardy_model::point::{Metric, Point, Source};
use tardy_model::qdisc::LaunchRecord;
use tardy_model::sample::{Batch, Flags, MaybeNanos, Outcome};
use tardy_model::time::{ClockReading, Conversion};
use tardy_model::trial::{Counters, StreamRecord, TrialRecord, WarmUp};

pub const CYCLE_NS: i64 = 500_000;
pub const BASE_NS: i64 = 1_800_000_037_000_000_000;
pub const LEAD: Metric = Metric::Span(Point::Scheduled, Point::RxKernel);

/// One intended packet: what became of it, and its stamps after the scheduled instant.
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    pub outcome: Outcome,
    pub flags: Flags,
    pub wakeup: Option<i64>,
    pub tx_kernel: Option<i64>,
    pub rx_kernel: Option<i64>,
    pub receive: Option<i64>,
}

/// A packet whose `scheduled..rx_kernel` is `ns`.
pub fn received(ns: i64) -> Packet {
    Packet {
        outcome: Outcome::Received,
        flags: Flags::default(),
        wakeup: Some(ns - 2_000),
        tx_kernel: Some(ns - 400),
        rx_kernel: Some(ns),
        receive: Some(ns + 9_000),
    }
}

/// A packet that was sent and never arrived.
pub fn lost(ns: i64) -> Packet {
    Packet { outcome: Outcome::Lost, rx_kernel: None, receive: None, ..received(ns) }
}

/// A packet that was not sent.
pub fn not_sent() -> Packet {
    Packet { outcome: Outcome::NotSent, wakeup: None, tx_kernel: None, ..lost(0) }
}

/// Packets from `first_seq` on.
pub fn batch(first_seq: i64, packets: &[Packet]) -> Batch {
    let seq: Vec<i64> = (first_seq..).take(packets.len()).collect();
    let column = |of: fn(&Packet) -> Option<i64>| Some(packets.iter().map(|p| MaybeNanos::from(of(p))).collect());
    let mut batch = Batch {
        scheduled_ns: seq.iter().map(|seq| BASE_NS + seq * CYCLE_NS).collect(),
        seq,
        outcome: packets.iter().map(|p| p.outcome).collect(),
        flags: packets.iter().map(|p| p.flags).collect(),
        ..Batch::default()
    };
    batch.offsets[Point::Wakeup.index()] = column(|p| p.wakeup);
    batch.offsets[Point::TxKernel.index()] = column(|p| p.tx_kernel);
    batch.offsets[Point::RxKernel.index()] = column(|p| p.rx_kernel);
    batch.offsets[Point::Receive.index()] = column(|p| p.receive);
    batch
}

/// The packets cut into batches of `size`.
pub fn batches(packets: &[Packet], size: usize) -> Vec<Batch> {
    packets.chunks(size).enumerate().map(|(n, packets)| batch((n * size) as i64, packets)).collect()
}

/// Latencies without pattern, from 10 to about 30 µs, the same ones for the same seed.
pub fn noise(seed: u64, count: usize) -> Vec<i64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        10_000 + (state >> 33) as i64 % 20_011
    };
    std::iter::repeat_with(next).take(count).collect()
}

/// As many packets with such latencies.
pub fn healthy_packets(seed: u64, count: usize) -> Vec<Packet> {
    noise(seed, count).into_iter().map(received).collect()
}

fn clocks(at_ns: i64) -> ClockReading {
    ClockReading {
        tai_ns: BASE_NS + at_ns,
        realtime_ns: BASE_NS + at_ns - 37_000_000_000,
        monotonic_ns: 5_000_000_000 + at_ns,
        bound_ns: 150,
        tai_offset_s: 37,
        steering: None,
    }
}

fn machine(at_ns: i64) -> MachineState {
    let cpu = |busy_ns: i64| CpuTimes {
        busy_ns,
        idle_ns: 90_000_000_000 + at_ns - busy_ns,
        steal_ns: 0,
        ..CpuTimes::default()
    };
    let task = |name: &str, cpu, run_ns| TaskTime { name: name.to_owned(), start: 70, cpu, run_ns, realtime: false };
    MachineState {
        cpus: BTreeMap::from([(0, cpu(at_ns / 20)), (1, cpu(at_ns / 20))]),
        tasks: BTreeMap::from([
            (101, task("tardy-tx", 0, at_ns / 20)),
            (102, task("tardy-rx", 1, at_ns / 20)),
            (17, task("ksoftirqd/1", 1, 40_000_000)),
        ]),
        rt_limit: Some(RtLimit { period_ns: 1_000_000_000, runtime_ns: 950_000_000 }),
        cpu_dma_latency_us: Some(0),
        bpf_jit: Some(1),
        ..MachineState::of(clocks(at_ns))
    }
}

fn thread(tid: u32, cpu: u32, policy: &str, run_ns: i64) -> ThreadRecord {
    ThreadRecord {
        tid,
        policy_asked: policy.to_owned(),
        policy_granted: policy.to_owned(),
        cpu_asked: Some(cpu),
        affinity: vec![cpu],
        cpus_seen: vec![cpu],
        memory_locked: true,
        run_ns: Some(run_ns),
        ..ThreadRecord::default()
    }
}

/// A trial of `count` packets in which all is well.
pub fn record(n: u32, count: u32) -> TrialRecord {
    let span = i64::from(count.saturating_sub(1)) * CYCLE_NS;
    let elapsed = span + 20_000_000;
    let (before, after) = (machine(0), machine(elapsed));
    let both = [before.clocks, after.clocks];
    let stream = StreamRecord {
        copy: None,
        intended: count,
        cycle_ns: CYCLE_NS,
        phase_ns: None,
        intended_span_ns: span,
        sent_span_ns: Some(span + 3_000),
        lateness_by_tenth_ns: vec![12_000; 10],
        max_loss: 0.0,
        sources: BTreeMap::from([
            (Point::Scheduled, Source::App),
            (Point::Wakeup, Source::App),
            (Point::TxKernel, Source::Driver),
            (Point::RxKernel, Source::Kernel),
            (Point::Receive, Source::App),
        ]),
        absent: BTreeMap::from([(Point::TxHw, "veth has no hardware clock".to_owned())]),
        tx_conversion: Conversion::between(&both[0], &both[1]),
        tx_hw_bound_ns: 0,
        rx_hw_bound_ns: 0,
        rx_conversion: Conversion::between(&both[0], &both[1]),
        tx_clocks: both,
        rx_clocks: both,
        tx: thread(101, 0, "fifo:90", elapsed / 20),
        rx: thread(102, 1, "fifo:80", elapsed / 20),
        warmup: WarmUp { sent: 50, received: 50, flowed: true, took_ns: 25_000_000, ..WarmUp::default() },
        counters: Counters { sent: u64::from(count), ..Counters::default() },
        spin_gaps: None,
        tx_spin_gaps: None,
        error_queue_bytes: 4 << 20,
        tags: None,
        reply: None,
        launching: LaunchRecord::default(),
        xdp: None,
        xdp_sent: None,
        own_work: Vec::new(),
        own_between: Vec::new(),
        own_work_left_out: 0,
        offsets: Default::default(),
    };
    TrialRecord {
        format: tardy_model::FORMAT,
        cell: "all".to_owned(),
        n,
        order: n - 1,
        nonce: "00000000deadbeef".to_owned(),
        phase_ns: 0,
        base_tai_ns: BASE_NS,
        interrupted: false,
        failed: None,
        before,
        after,
        streams: BTreeMap::from([("ctl".to_owned(), stream)]),
        loads: BTreeMap::new(),
        hosts: BTreeMap::new(),
        own_traffic: BTreeMap::new(),
        placement: PlacementRecord::default(),
        shapers: BTreeMap::new(),
        observer: Vec::new(),
        inspection: None,
        passed: None,
    }
}
