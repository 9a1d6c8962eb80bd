// SPDX-License-Identifier: MIT OR Apache-2.0
//! Seeds of target `message`, made of the messages as they are today: another protocol has other
//! bytes, and what an older one wrote stops a fuzzer at the door. `examples/seeds.rs` writes them
//! into the corpus; the golden layer holds that they are there.

use super::{clocks, stream};
use serde::Serialize;
use std::collections::BTreeMap;
use tardy_engine::halves::{Halves, join};
use tardy_engine::live::Digest;
use tardy_engine::load::{LoadAt, LoadOrder};
use tardy_engine::message::{
    self, ActivityId, ActivityOrder, ActivitySummary, EndReady, EndSummary, FromAgent, ToAgent,
};
use tardy_engine::order::{
    AskOrder, Checksum, CostOrder, EndOrder, LaunchOrder, ObjectOrder, ProbeOrder, ReceiveOrder, ReflectOrder,
    RulerOrder, SendOrder, StreamOrder, ThreadOrder,
};
use tardy_engine::port::{XdpStamp, sim};
use tardy_lab::guest::relay::Relay;
use tardy_lab::run::{Event, Sink, What};
use tardy_model::FORMAT;
use tardy_model::ethernet::Tag;
use tardy_model::load::{LoadKind, SideRecord};
use tardy_model::machine::{MachineState, RulerRecord};
use tardy_model::placement::{PlacementRecord, ThreadRecord};
use tardy_model::point::{Metric, Point};
use tardy_model::sample::MaybeNanos;
use tardy_model::shaper::Shaper;
use tardy_model::stream::{Kind, Overrun, Policy, Stream, Wait};
use tardy_model::stream_id::StreamId;
use tardy_model::time::{CounterReading, Instant, Nanos};
use tardy_model::trial::TrialRecord;
use tardy_model::xdp::{
    ArrivedProbes, AwaitedProbes, DeviceHint, DeviceWithin, FaultKind, NumberedDevice, ObjectRecord, ProgramCost,
    ProgramFault, ProgramHook, ProgramRecord, ProgramSeen, Triggered,
};

/// How the bytes behind an input's first one are read: with a greeting, as orders, as what a guest
/// sends.
const GREETING: u8 = 1;
const ORDERS: u8 = 2;
const GUEST: u8 = 4;
/// Packets of a seed's trial: few, for each of the seeds is gone through byte by byte.
const PACKETS: u32 = 6;

/// Each seed by its name in the corpus.
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let mut greeted = vec![GREETING | ORDERS];
    message::greet(&mut greeted, "0.1.0").expect("memory takes it");
    let mut unlike = halves(Kind::Reflected);
    // A sender that reports fewer packets than arrived, and a column shorter than its rows.
    if let Some(FromAgent::SenderPiece { rows, .. }) = unlike.first_mut() {
        rows.sending.truncate(3);
        rows.wakeup.truncate(1);
    }
    vec![
        ("greeting_and_orders", said(greeted, &orders())),
        ("orders", said(vec![ORDERS], &orders())),
        ("answers", said(vec![0], &answers())),
        ("halves", said(vec![0], &halves(Kind::Cyclic))),
        ("halves_of_answered", said(vec![0], &halves(Kind::Reflected))),
        ("halves_of_unlike_length", said(vec![0], &unlike)),
        ("guest", guest()),
        ("a_false_length", vec![0, 0xff, 0xff, 0xff, 0xff, b'x']),
        ("another_protocol", another_protocol()),
    ]
}

/// Messages behind what an input begins with.
fn said<M: Serialize>(mut bytes: Vec<u8>, messages: &[M]) -> Vec<u8> {
    messages.iter().for_each(|message| message::send(&mut bytes, message).expect("memory takes it"));
    bytes
}

/// A greeting of the protocol behind this one, and an order.
fn another_protocol() -> Vec<u8> {
    let mut bytes = Vec::new();
    message::greet(&mut bytes, "9.9").expect("memory takes it");
    // Behind the length and the word `tardy`.
    bytes[9..13].copy_from_slice(&(message::PROTOCOL + 1).to_le_bytes());
    bytes.insert(0, GREETING | ORDERS);
    said(bytes, &[ToAgent::Connect])
}

fn short(kind: Kind) -> Stream {
    Stream { count: PACKETS, ..stream(kind) }
}

fn thread() -> ThreadOrder {
    ThreadOrder { cpu: Some(1), policy: Policy::Fifo(90) }
}

/// One of each order.
fn orders() -> Vec<ToAgent> {
    let order = |kind| StreamOrder {
        tag: Some(Tag { vlan: 5, pcp: 3 }),
        stamps: vec![Point::Wakeup, Point::Send, Point::RxKernel],
        triggered: Triggered { sync: 64, bulk: 8 },
        lead: Some(Metric::Span(Point::Scheduled, Point::Receive)),
        ..StreamOrder::of(&short(kind), StreamId::FIRST, 7)
    };
    let send = |kind, replies| SendOrder {
        order: order(kind),
        thread: thread(),
        local: [10, 0, 0, 1].into(),
        peer: [10, 0, 0, 2].into(),
        port: 7_000,
        device: "tardy0-0".into(),
        macs: [[2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 1]],
        priority: 3,
        queues: Some(0..1),
        frames: 4_096,
        advance: Nanos(50_000),
        spin: Nanos(10_000),
        overrun: Overrun::Skip,
        replies,
        launch: Some(LaunchOrder { deadline: true, phase: Nanos(123) }),
    };
    let receive = |kind, replies| ReceiveOrder {
        order: order(kind),
        thread: thread(),
        local: [10, 0, 0, 2].into(),
        port: 7_000,
        device: "tardy0-1".into(),
        wait: Wait::Poll,
        queue: None,
        frames: 4_096,
        replies,
        object: Some(ObjectOrder { bytes: b"\x7fELF".to_vec(), section: Some("xdp".into()), times: Vec::new() }),
        hints: vec![DeviceHint::HwTime, DeviceHint::Vlan],
    };
    let load = LoadOrder {
        at: LoadAt { load: 0, instance: 1, peer: true },
        name: "bulk".into(),
        kind: LoadKind::TcpRr { size: 64, reply_size: 128 },
        thread: thread(),
        local: ([10, 0, 0, 1], 8_000).into(),
        remote: ([10, 0, 0, 2], 8_000).into(),
        start: Nanos::ZERO,
        stop: Some(Nanos::from_secs(1)),
        send_buffer: Some(1 << 20),
        receive_buffer: None,
        seed: 7,
    };
    let ends = vec![
        EndOrder::Send(send(Kind::Cyclic, false)),
        EndOrder::Receive(receive(Kind::Cyclic, false)),
        EndOrder::Ask(AskOrder {
            send: send(Kind::Pingpong, false),
            receive: receive(Kind::Pingpong, true),
            in_flight: 2,
            timeout: Nanos::from_secs(1),
        }),
        EndOrder::Reflect(ReflectOrder { receive: receive(Kind::Reflected, false), send: send(Kind::Reflected, true) }),
    ];
    let ends = ends.into_iter().map(ActivityOrder::End);
    let activities = (0..).map(ActivityId).zip(ends.chain([ActivityOrder::Load(load)])).collect();
    let base = Instant::from_ns(1_000_000_000);
    vec![
        ToAgent::Measure(vec![RulerOrder { thread: thread(), sends: true }]),
        ToAgent::Inspect {
            devices: vec!["tardy0-0".into()],
            inside: vec![DeviceWithin { netns: "tardy-0-_vm1".into(), device: "tardy0-tap".into(), has_program: true }],
            awaited: vec![AwaitedProbes {
                device: "tardy0-tap".into(),
                netns: Some("tardy-0-_vm1".into()),
                mark: vec![7; 24],
                protocol: Some(0x86dd),
            }],
        },
        ToAgent::Probe {
            probes: vec![
                ProbeOrder {
                    device: "tardy0-0".into(),
                    by_route: true,
                    priority: 3,
                    frame: vec![7; 60],
                    checksum: Checksum::Written,
                },
                ProbeOrder {
                    device: "tardy0-1".into(),
                    by_route: false,
                    priority: 0,
                    frame: vec![8; 60],
                    checksum: Checksum::ByDevice { from: 34, at: 6 },
                },
            ],
            times: 4,
        },
        ToAgent::Inspected {
            each: 4,
            objects: vec![ObjectOrder { bytes: b"\x7fELF".to_vec(), section: None, times: Vec::new() }],
        },
        ToAgent::Cost(CostOrder::Line),
        ToAgent::Time,
        ToAgent::Cost(CostOrder::Object {
            object: ObjectOrder {
                bytes: b"\x7fELF".to_vec(),
                section: Some("xdp".into()),
                times: vec!["at_ns".into(), "last_ns".into()],
            },
            packet: vec![0; 64],
        }),
        ToAgent::Prepare { activities },
        ToAgent::Connect,
        ToAgent::WarmUp { activity: TX, count: 10, apart: Nanos(500_000) },
        ToAgent::WarmStatus { activity: RX },
        ToAgent::Start { activities: vec![TX, LOAD], base },
        ToAgent::Finish { activity: RX, expected: 6, linger: Nanos(200_000_000) },
        ToAgent::Stop { activities: vec![LOAD] },
        ToAgent::Collect { activity: TX },
    ]
}

fn inspected() -> FromAgent {
    let fault = ProgramFault { kind: FaultKind::Redirect, packets: 4, code: 22, to: 99, by_map: false, device: None };
    let seen = ProgramSeen { runs: 8, run_ns: 9_000, lines: 8, faults: vec![fault] };
    let program = ProgramRecord {
        station: String::new(),
        device: "tardy0-0".into(),
        netns: Some("tardy-0-_vm1".into()),
        hook: ProgramHook::XdpNative,
        name: "faulty".into(),
        id: 7,
        tag: "0123456789abcdef".into(),
        could_be_native: false,
        of_path: false,
        seen: Some(seen),
    };
    FromAgent::Inspected {
        programs: vec![program],
        unchecked: None,
        arrived: vec![
            Some(ArrivedProbes {
                by_tags: BTreeMap::from([(2, 4)]),
                by_pcp: BTreeMap::from([(3, 4)]),
                without_checksum: 1,
                least_ttl: Some(63),
                let_on: Some(3),
            }),
            None,
        ],
        objects: vec![
            Some(ObjectRecord {
                program: "prints".into(),
                lines: vec!["prints".into()],
                devices: vec![NumberedDevice { function: "prints".into(), number: 3, device: None }],
                unsearched: 2,
                ..ObjectRecord::default()
            }),
            None,
        ],
    }
}

/// The activities of a trial: the ends of its stream, and a load.
const TX: ActivityId = ActivityId(0);
const RX: ActivityId = ActivityId(1);
const BACK: ActivityId = ActivityId(2);
const LOAD: ActivityId = ActivityId(4);

/// One of each answer but those that hand over a half.
fn answers() -> Vec<FromAgent> {
    let ready = EndReady {
        activity: TX,
        thread: ThreadRecord { tid: 7, affinity: vec![1], ..ThreadRecord::default() },
        absent: vec![(Point::TxHw, "the device gives no such stamp".into())],
        error_queue_bytes: 212_992,
    };
    let digest = Digest { done: 3, turns: 1, p50_ns: Some(15_000), p99_ns: None };
    vec![
        FromAgent::Ruler(vec![RulerRecord { station: "a".into(), stamp_ns: 22, ..RulerRecord::default() }]),
        FromAgent::Ready { ends: vec![ready], clocks: clocks() },
        FromAgent::Connected,
        FromAgent::Inspecting,
        FromAgent::Probed { sent: vec![(4, 1)] },
        inspected(),
        FromAgent::Cost(Ok(ProgramCost { ns: 900.0, low_ns: 850.0, high_ns: 950.0, pairs: 101 })),
        FromAgent::Cost(Err("the verifier refuses it".into())),
        FromAgent::Time {
            tai_ns: 1_700_000_000_000_000_000,
            counter: Some(CounterReading { before: 5, tai_ns: 1_700_000_000_000_000_000, after: 9 }),
        },
        FromAgent::Warmed { activity: TX, stamped: 10 },
        FromAgent::WarmStatus {
            activity: RX,
            received: 10,
            unstamped: 1,
            last_stamped: true,
            napi_id: 0,
            answered: 9,
            answers_stamped: 8,
            program_cpus: vec![1],
        },
        FromAgent::Progress { activity: RX, digest },
        FromAgent::Done { activity: TX, packets: 6 },
        FromAgent::LoadOutput { activity: LOAD, bytes: b"a line\n".to_vec() },
        FromAgent::Collected {
            activity: LOAD,
            summary: Box::new(ActivitySummary::Load(SideRecord { sends: 3, ..SideRecord::default() })),
        },
        FromAgent::Failed("no such device".into()),
        FromAgent::Broke { activity: TX, why: "the connection of stream 0: refused".into() },
    ]
}

/// What the ends of a trial on a simulated path hand over, in the order in which [`super::trial`]
/// takes it.
fn halves(kind: Kind) -> Vec<FromAgent> {
    let trial = sim::trial(&short(kind), StreamId::FIRST, 7, Nanos(123), &Shaper::None);
    let Halves { sent, tx_counters, tx_thread, arrivals, rx_counters, rx_thread, gaps, reply, .. } = trial.halves;
    let rest = |activity, sent, arrived, thread, gaps| {
        let (clocks, own) = (clocks(), Default::default());
        let rest = EndSummary { sent, arrived, gaps, thread, clocks, tcp: None, own, xdp: None, xdp_sent: None };
        FromAgent::Collected { activity, summary: Box::new(ActivitySummary::End(rest)) }
    };
    let rows = FromAgent::SenderPiece { activity: TX, rows: sent };
    let mut told = vec![rows, rest(TX, Some(tx_counters), None, tx_thread, None)];
    let (answers, answered) = match &reply {
        Some(reply) => {
            (Some(FromAgent::SenderPiece { activity: RX, rows: reply.sent.clone() }), Some(reply.tx_counters))
        }
        None => (None, None),
    };
    told.extend(answers);
    let stamps = arrivals.iter().enumerate().map(|(n, arrival)| XdpStamp {
        // One that is plausible, one that is another's, none.
        time_ns: [MaybeNanos::some(arrival.receive_ns - 900), MaybeNanos::some(i64::MAX), MaybeNanos::NONE][n % 3],
        cpu: n as u32 % 4,
        queue: n as u32,
    });
    told.push(FromAgent::XdpPiece { activity: RX, stamps: stamps.collect() });
    told.push(FromAgent::ArrivalPiece { activity: RX, arrivals });
    told.push(rest(RX, answered, Some(rx_counters), rx_thread, gaps));
    if let Some(reply) = reply {
        told.push(FromAgent::ArrivalPiece { activity: BACK, arrivals: reply.arrivals });
        told.push(rest(BACK, None, Some(reply.rx_counters), reply.thread.unwrap_or_default(), reply.gaps));
    }
    told
}

/// At a time that is always the same, so that the seeds are.
fn say(relay: &mut Relay<Vec<u8>>, what: What) {
    relay.event(Event { at: Instant::from_ns(1), what });
}

/// What a guest says of its first trial.
fn guest() -> Vec<u8> {
    let mut relay = Relay::new(vec![GUEST]);
    say(&mut relay, What::Ruler { records: vec![RulerRecord { station: "a".into(), ..RulerRecord::default() }] });
    say(&mut relay, What::Trial { cell: "all".into(), n: 1, order: 0, of: 2 });
    relay.load_output(vec![("bulk.0.txt".into(), b"a line\n".to_vec())]);
    let stream = short(Kind::Cyclic);
    let trial = sim::trial(&stream, StreamId::FIRST, 7, Nanos(123), &Shaper::None);
    let (batch, record) = join(&stream, trial.base, &trial.halves);
    let machine = MachineState::of(clocks());
    let record = TrialRecord {
        format: FORMAT,
        cell: "all".into(),
        n: 1,
        order: 0,
        nonce: "07".into(),
        phase_ns: 123,
        base_tai_ns: trial.base.ns(),
        interrupted: false,
        failed: None,
        before: machine.clone(),
        after: machine,
        streams: BTreeMap::from([("ctl".to_owned(), record)]),
        loads: BTreeMap::new(),
        hosts: BTreeMap::new(),
        own_traffic: BTreeMap::new(),
        placement: PlacementRecord::default(),
        shapers: BTreeMap::new(),
        observer: Vec::new(),
        inspection: None,
        passed: None,
    };
    relay.trial(&record, &[("ctl".to_owned(), batch)]).expect("memory takes it");
    say(&mut relay, What::Ended { interrupted: false, failed: None, exit_code: None, not_put_back: None });
    relay.into_port()
}
