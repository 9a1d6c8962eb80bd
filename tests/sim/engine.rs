// SPDX-License-Identifier: MIT OR Apache-2.0
//! The engine's loops, matcher and clocks on simulated ones: every figure is known beforehand.

use crate::ports::{Clock, order};
use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::sync::Arc;
use tardy_engine::halves::join;
use tardy_engine::load::Watch;
use tardy_engine::order::{ReceiveOrder, ThreadOrder};
use tardy_engine::port::sim::{SEND_CALL_NS, TO_DRIVER_NS, TO_SCHED_NS};
use tardy_engine::port::{BATCH, Inbox, ReceivePort, Received, Timer, sim};
use tardy_engine::receiver::{Receiver, Shared};
use tardy_engine::schedule::{Schedule, base_time, lead_in};
use tardy_model::frame::{Frame, PacketKind};
use tardy_model::load::InstanceRecord;
use tardy_model::point::{Metric, Point};
use tardy_model::port::{Port, Sim};
use tardy_model::sample::{Batch, Flags, Outcome};
use tardy_model::shaper::Shaper;
use tardy_model::stream::{CpuChoice, Ip, Kind, Launch, Overrun, Policy, Reply, Rx, Stream, Tx, Wait};
use tardy_model::stream_id::StreamId;
use tardy_model::time::{Instant, Nanos, Tai};
use tardy_model::trial::StreamRecord;
use tardy_model::xdp::Triggered;
use tardy_sys::clock;

/// A stream of 1 000 packets at 500 µs on the simulated path.
pub fn stream(sim: Sim) -> Stream {
    Stream {
        kind: Kind::Cyclic,
        ip: Ip::Ipv4,
        reply: Reply {
            size: 64,
            cpu: CpuChoice::Same,
            policy: Policy::Other,
            in_flight: 1,
            timeout: Nanos::from_secs(1),
            nodelay: true,
        },
        name: "ctl".into(),
        from: "a".into(),
        to: "b".into(),
        path: None,
        port: Port::Sim,
        cycle: Nanos(500_000),
        count: 1_000,
        size: 64,
        ethertype: tardy_model::ethernet::ETHERTYPE,
        tag: None,
        priority: 0,
        launch: Launch::None,
        overrun: Overrun::Burst,
        deadline: Nanos(500_000),
        max_loss: 0.001,
        warmup: Nanos::ZERO,
        stamps_named: false,
        stamps: Point::ALL
            .into_iter()
            .filter(|p| ![Point::Scheduled, Point::RxXdp].contains(p) && !p.is_of_reply())
            .collect(),
        metrics: Metric::DEFAULT.to_vec(),
        triggered: Triggered::default(),
        lead: None,
        tx: Tx {
            cpu: CpuChoice::Auto,
            policy: Policy::Fifo(90),
            advance: Nanos::ZERO,
            spin: Nanos::ZERO,
            wait: Wait::Block,
            queue: None,
            frames: 4_096,
        },
        rx: Rx {
            port: Port::Sim,
            cpu: CpuChoice::Different,
            policy: Policy::Fifo(80),
            wait: Wait::Block,
            core: None,
            queue: None,
            frames: 4_096,
            object: None,
            hints: Vec::new(),
        },
        sim,
    }
}

pub fn run(stream: &Stream) -> (Batch, StreamRecord) {
    let trial = sim::trial(stream, StreamId::FIRST, 7, Nanos(123), &Shaper::None);
    join(stream, trial.base, &trial.halves)
}

pub fn spans(batch: &Batch, metric: &str) -> Vec<Option<i64>> {
    let metric: Metric = metric.parse().expect("a metric");
    (0..batch.len()).map(|row| batch.span_ns(row, metric)).collect()
}

pub fn all(batch: &Batch, metric: &str, ns: i64) {
    let off: Vec<_> = spans(batch, metric).into_iter().enumerate().filter(|(_, v)| *v != Some(ns)).take(3).collect();
    assert!(off.is_empty(), "{metric} is not {ns} everywhere: {off:?}");
}

#[test]
fn every_stage_is_what_the_path_takes() {
    let (batch, record) = run(&stream(Sim::default()));
    assert_eq!(batch.len(), 1_000);
    assert!(batch.outcome.iter().all(|outcome| *outcome == Outcome::Received));
    assert!(batch.flags.iter().all(|flags| *flags == Flags::default()));
    all(&batch, "scheduled..wakeup", 10_000);
    all(&batch, "wakeup..send", 0);
    all(&batch, "send..tx_sched", TO_SCHED_NS);
    all(&batch, "send..tx_kernel", TO_DRIVER_NS);
    all(&batch, "tx_kernel..rx_kernel", 1_000);
    all(&batch, "rx_kernel..receive", 10_000);
    assert_eq!(record.counters.sent, 1_000);
    assert_eq!(record.sent_span_ns, Some(999 * 500_000));
    assert_eq!(record.counters.tx_stamps_missing + record.counters.tx_stamps_unmatched, 0);
    assert!(record.absent.contains_key(&Point::TxHw), "a point without a source is named with its reason");
}

#[test]
fn the_tai_offset_moves_no_figure() {
    let with = |seconds| run(&stream(Sim { tai_offset_s: seconds, jitter: Nanos(5_000), ..Sim::default() })).0;
    let (zero, now, odd) = (with(0), with(37), with(-3));
    assert_eq!(zero, now);
    assert_eq!(zero, odd);
}

#[test]
fn dropped_packets_are_lost_and_their_neighbours_unchanged() {
    let drop: Vec<u32> = (0..20).map(|i| 13 + 47 * i).collect();
    let jitter = Nanos(900);
    let (whole, _) = run(&stream(Sim { jitter, ..Sim::default() }));
    let (batch, record) = run(&stream(Sim { jitter, drop: drop.clone(), ..Sim::default() }));
    let lost: Vec<u32> = (0..1_000).filter(|row| batch.outcome[*row as usize] == Outcome::Lost).collect();
    assert_eq!(lost, drop);
    assert_eq!(record.counters.sent, 1_000);
    for row in 0..1_000 {
        let gone = drop.contains(&(row as u32));
        assert_eq!(batch.stamp_ns(row, Point::Receive).is_none(), gone, "packet {row}");
        if !gone {
            assert_eq!(batch.stamp_ns(row, Point::RxKernel), whole.stamp_ns(row, Point::RxKernel), "packet {row}");
        }
    }
}

#[test]
fn a_held_packet_is_reordered_and_a_doubled_one_counts_once() {
    let (batch, record) = run(&stream(Sim { reorder: 0.05, duplicate: 0.05, ..Sim::default() }));
    let flagged = |flag| batch.flags.iter().filter(|flags| flags.has(flag)).count() as u64;
    assert!((20..90).contains(&flagged(Flags::REORDERED)), "{}", flagged(Flags::REORDERED));
    assert!((20..90).contains(&flagged(Flags::DUPLICATE)), "{}", flagged(Flags::DUPLICATE));
    assert_eq!(record.counters.duplicates, flagged(Flags::DUPLICATE));
    assert!(batch.outcome.iter().all(|outcome| *outcome == Outcome::Received));
    // One that was held arrives a cycle late, directly after its successor.
    for row in (0..999).filter(|row| batch.flags[*row].has(Flags::REORDERED)) {
        let behind = batch.stamp_ns(row, Point::RxKernel).zip(batch.stamp_ns(row + 1, Point::RxKernel));
        assert!(behind.is_some_and(|(held, next)| held > next), "packet {row}: {behind:?}");
    }
}

#[test]
fn a_drifting_receiver_clock_shows_as_exactly_its_drift() {
    let (batch, _) = run(&stream(Sim { drift_ppb: 1_000_000, ..Sim::default() }));
    let (first, last) = (
        batch.span_ns(0, "tx_kernel..rx_kernel".parse().unwrap()),
        batch.span_ns(999, "tx_kernel..rx_kernel".parse().unwrap()),
    );
    let grown = last.zip(first).map(|(last, first)| last - first).expect("both stamped");
    let expected = 999 * 500_000 / 1_000;
    assert!((grown - expected).abs() <= 1, "grew by {grown} ns, not {expected}");
}

#[test]
fn a_late_wake_up_delays_what_follows_and_nothing_else() {
    let sim = Sim { late_share: 0.1, late: Nanos(200_000), ..Sim::default() };
    let (batch, record) = run(&stream(sim));
    let woke = spans(&batch, "scheduled..wakeup");
    let late = woke.iter().filter(|ns| **ns == Some(210_000)).count();
    assert!((60..140).contains(&late), "{late}");
    assert_eq!(woke.iter().filter(|ns| **ns == Some(10_000)).count(), 1_000 - late);
    all(&batch, "wakeup..send", 0);
    all(&batch, "tx_kernel..rx_kernel", 1_000);
    all(&batch, "rx_kernel..receive", 10_000);
    assert_eq!(record.counters.overruns, 0, "200 µs late is within the slot");
}

#[test]
fn overrun_bursts_or_skips_as_declared() {
    let sim = Sim { late_share: 0.02, late: Nanos(1_700_000), ..Sim::default() };
    let burst = stream(sim.clone());
    let (batch, record) = run(&burst);
    assert!(record.counters.overruns > 0);
    assert_eq!(record.counters.sent, 1_000, "burst sends every packet");
    let overrun = batch.flags.iter().filter(|flags| flags.has(Flags::OVERRUN)).count() as u64;
    assert_eq!(overrun, record.counters.overruns);
    let skip = Stream { overrun: Overrun::Skip, ..burst };
    let (batch, record) = run(&skip);
    let not_sent = batch.outcome.iter().filter(|outcome| **outcome == Outcome::NotSent).count() as u64;
    assert!(not_sent > 0);
    assert_eq!((record.counters.skipped, record.counters.sent), (not_sent, 1_000 - not_sent));
    assert_eq!(batch.len(), 1_000, "a packet that was left out is a row too");
    for row in (0..1_000).filter(|row| batch.outcome[*row] == Outcome::NotSent) {
        assert!(
            batch.offset(row, Point::Wakeup).is_some_and(|ns| ns >= 500_000),
            "packet {row} was skipped in its slot"
        );
        assert_eq!(batch.offset(row, Point::Send), None);
    }
}

#[test]
fn advance_and_spin_aim_before_the_instant() {
    let mut stream = stream(Sim { wake: Nanos(10_000), ..Sim::default() });
    stream.tx.advance = Nanos(50_000);
    let (batch, _) = run(&stream);
    all(&batch, "scheduled..wakeup", -40_000);
    assert!(batch.flags.iter().all(|flags| flags.has(Flags::EARLY)), "received before scheduled is early");
    stream.tx.advance = Nanos::ZERO;
    stream.tx.spin = Nanos(30_000);
    let (batch, _) = run(&stream);
    all(&batch, "scheduled..wakeup", 0);
}

#[test]
fn late_means_behind_the_deadline() {
    let mut stream = stream(Sim { receive: Nanos(100_000), ..Sim::default() });
    let lateness = 10_000 + TO_DRIVER_NS + 1_000 + 100_000;
    stream.deadline = Nanos(lateness);
    assert!(run(&stream).0.flags.iter().all(|flags| !flags.has(Flags::LATE)));
    stream.deadline = Nanos(lateness - 1);
    assert!(run(&stream).0.flags.iter().all(|flags| flags.has(Flags::LATE)));
}

#[test]
fn a_stopped_spinner_sees_its_own_gaps() {
    let sim = Sim { throttle: Nanos(50_000_000), ..Sim::default() };
    let mut stream = stream(sim);
    stream.count = 6_000;
    stream.rx.wait = Wait::Spin;
    let (batch, record) = run(&stream);
    let gaps = record.spin_gaps.expect("a spinning receiver tells its gaps");
    assert!((2..=3).contains(&gaps.over_1ms), "{gaps:?}");
    assert!((49_000_000..52_000_000).contains(&gaps.longest_ns), "{gaps:?}");
    let stalled = spans(&batch, "rx_kernel..receive").into_iter().flatten().filter(|ns| *ns > 1_000_000).count();
    assert!(stalled >= 2 * 95, "each stop holds up about 100 packets: {stalled}");
    all(&batch, "tx_kernel..rx_kernel", 1_000);
}

#[test]
fn a_cycle_shorter_than_the_send_call_falls_behind_and_says_how_far() {
    let mut stream = stream(Sim { wake: Nanos::ZERO, ..Sim::default() });
    stream.cycle = Nanos(SEND_CALL_NS / 2);
    let (_, record) = run(&stream);
    assert_eq!(record.intended_span_ns, 999 * SEND_CALL_NS / 2);
    assert_eq!(record.sent_span_ns, Some(999 * SEND_CALL_NS));
}

#[test]
fn the_same_seed_gives_the_same_samples_and_another_does_not() {
    let sim = Sim {
        jitter: Nanos(10_000),
        loss: 0.01,
        reorder: 0.01,
        late_share: 0.01,
        late: Nanos(90_000),
        ..Sim::default()
    };
    let stream = stream(sim);
    let draw = |nonce| {
        let trial = sim::trial(&stream, StreamId::FIRST, nonce, Nanos(5), &Shaper::None);
        join(&stream, trial.base, &trial.halves).0
    };
    assert_eq!(draw(1), draw(1));
    assert_ne!(draw(1), draw(2));
}

#[test]
fn the_base_is_aligned_and_shifted_by_the_phase() {
    for earliest in [0, 1, 499_999, 500_000, 1_700_000_000_123_456_789] {
        let base = base_time(Instant::from_ns(earliest), Nanos(500_000), Nanos(17));
        assert_eq!(base.ns() % 500_000, 17);
        assert!(base.ns() >= earliest && base.ns() < earliest + 500_017, "{earliest} → {base:?}");
    }
    let schedule = Schedule { base: Instant::from_ns(1_000), cycle: Nanos(10), count: 5 };
    assert_eq!(schedule.due(-2).ns(), 980);
    assert!(!schedule.is_past(3, Instant::from_ns(1_039)) && schedule.is_past(3, Instant::from_ns(1_040)));
    assert_eq!((lead_in(Nanos(1)), lead_in(Nanos(2_000_000)), lead_in(Nanos(5_000_000_000))), (20, 10, 0));
}

#[test]
fn a_load_that_stalled_at_the_base_time_kept_its_leads_bytes_as_the_trials() {
    let bytes_in_trial = |base: Instant<Tai>| {
        let mut watch = Watch::new(Arc::default(), base, Nanos::from_millis(-300), None);
        let began = watch.begin();
        watch.sent(began, 3, 4_096);
        clock::sleep_until(base.min(watch.now() + Nanos::from_millis(300)));
        watch.note_end();
        InstanceRecord { from: watch.record, to: None }.in_trial().from.sent_bytes
    };
    let now = clock::now::<Tai>();
    assert_eq!(bytes_in_trial(now + Nanos::from_millis(300)), 0, "no call was made in the trial");
    assert_eq!(bytes_in_trial(now + Nanos::from_secs(3_600)), 4_096, "over before the trial: told as it was");
}

/// What a receive call brings, one after the other.
struct Script {
    steps: VecDeque<Step>,
    wait: Wait,
    /// Whether many were asked for, call by call.
    many: Vec<bool>,
    inbox: Inbox,
}

enum Step {
    Bring(Vec<u8>),
    Nothing,
    TimedOut,
    Break(i32),
}

impl ReceivePort for Script {
    type Lent = Inbox;

    fn lent(&self) -> &Inbox {
        &self.inbox
    }
    fn receive(&mut self, many: bool) -> Result<Received, i32> {
        self.many.push(many);
        match self.steps.pop_front() {
            Some(Step::Bring(payload)) => {
                self.inbox.put(0, &payload, Some(Instant::from_ns(5)));
                let mut packets = 1;
                while many && packets < BATCH && matches!(self.steps.front(), Some(Step::Bring(_))) {
                    let Some(Step::Bring(payload)) = self.steps.pop_front() else { break };
                    self.inbox.put(packets, &payload, Some(Instant::from_ns(5)));
                    packets += 1;
                }
                Ok(Received::Packets(packets))
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

fn packet(kind: PacketKind, nonce: u64, seq: u32) -> Step {
    let mut payload = vec![0; 64];
    Frame { kind, stream: 1, size: 64, nonce, seq }.write(&mut payload);
    Step::Bring(payload)
}

fn receive(steps: Vec<Step>, wait: Wait) -> (Receiver, Shared) {
    let order = ReceiveOrder {
        order: order(10, 1_000),
        thread: ThreadOrder { cpu: None, policy: Policy::Other },
        local: Ipv4Addr::LOCALHOST.into(),
        port: 1,
        device: String::new(),
        wait,
        queue: None,
        frames: 4_096,
        replies: false,
        object: None,
        hints: Vec::new(),
    };
    let (mut receiver, shared) = (Receiver::new(order), Shared::default());
    let mut script = Script { steps: steps.into(), wait, many: Vec::new(), inbox: Inbox::new(65) };
    receiver.run(&mut Clock::default(), &mut script, &shared);
    (receiver, shared)
}

#[test]
fn a_readiness_that_yields_nothing_is_survived_and_counted() {
    let test = |seq| packet(PacketKind::Test, 77, seq);
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
        packet(PacketKind::WarmUp, 77, 900),
        packet(PacketKind::WarmUp, 77, u32::MAX),
        packet(PacketKind::Test, 78, 0),
        packet(PacketKind::Test, 77, 10),
        Step::Bring(Vec::new()),
        long,
        packet(PacketKind::Test, 77, 3),
        packet(PacketKind::Test, 77, 3),
    ];
    let (receiver, shared) = receive(steps, Wait::Block);
    assert_eq!(receiver.counters.foreign, 4, "another nonce, a number too high, an empty one, a long one");
    assert_eq!(shared.warm.load(std::sync::atomic::Ordering::Relaxed), 1, "the probe is no warm-up packet");
    assert_eq!(shared.live.done(), 1, "a double is not another packet");
    assert_eq!(receiver.finish().len(), 2, "both arrivals are recorded");
}

#[test]
fn a_receiver_that_is_behind_takes_all_that_wait_and_one_that_is_not_takes_one() {
    /// Packets 500 µs apart.
    struct Slow(Clock);
    impl Timer for Slow {
        fn now(&mut self) -> Instant<Tai> {
            self.0.0 += 500_000;
            self.0.now()
        }
        fn sleep_until(&mut self, at: Instant<Tai>) {
            self.0.sleep_until(at);
        }
        fn spin_until(&mut self, at: Instant<Tai>) -> Nanos {
            self.0.spin_until(at)
        }
    }
    let order = || ReceiveOrder {
        order: order(200, 1_000),
        thread: ThreadOrder { cpu: None, policy: Policy::Other },
        local: Ipv4Addr::LOCALHOST.into(),
        port: 1,
        device: String::new(),
        wait: Wait::Block,
        queue: None,
        frames: 4_096,
        replies: false,
        object: None,
        hints: Vec::new(),
    };
    let script = || {
        let steps = (0..200).map(|seq| packet(PacketKind::Test, 77, seq)).collect();
        Script { steps, wait: Wait::Block, many: Vec::new(), inbox: Inbox::new(65) }
    };
    let (mut fast, mut behind) = (script(), Receiver::new(order()));
    behind.run(&mut Clock::default(), &mut fast, &Shared::default());
    assert_eq!(fast.many[..4], [false, false, true, true], "two packets within 3 µs: the rest was waiting");
    assert!(fast.many.len() < 12, "200 packets by {} calls", fast.many.len());
    let (mut slow, mut calm) = (script(), Receiver::new(order()));
    calm.run(&mut Slow(Clock::default()), &mut slow, &Shared::default());
    assert!(slow.many.iter().all(|many| !many) && slow.many.len() == 200);
    let (behind, calm) = (behind.finish(), calm.finish());
    let packets = |arrivals: &[tardy_engine::receiver::Arrival]| arrivals.iter().map(|a| a.seq).collect::<Vec<_>>();
    assert_eq!(packets(&behind), (0..200).collect::<Vec<_>>());
    assert_eq!(packets(&calm), packets(&behind));
    // Packets of one call share its end.
    assert_eq!(behind[3].receive_ns, behind[10].receive_ns);
}

#[test]
fn a_broken_socket_ends_the_loop_and_is_told() {
    let steps = vec![packet(PacketKind::Test, 77, 0), Step::Break(9), packet(PacketKind::Test, 77, 1)];
    let (receiver, _) = receive(steps, Wait::Block);
    assert_eq!(receiver.counters.broken_errno, 9);
    assert_eq!(receiver.finish().len(), 1);
}

#[test]
fn arrivals_beyond_the_recorder_are_counted() {
    let many = (0..3_000).map(|n| packet(PacketKind::Test, 77, n % 10)).collect();
    let (receiver, _) = receive(many, Wait::Block);
    let dropped = receiver.counters.records_dropped;
    assert!(dropped > 0, "room is bounded");
    assert_eq!(dropped + receiver.finish().len() as u64, 3_000, "none is uncounted");
}
