// SPDX-License-Identifier: MIT OR Apache-2.0
//! What comes through a connection to an agent, or from one: any bytes are messages, or the end of
//! the connection with a reason. So is what a guest sends. Halves that an agent sends make a trial
//! or are refused, whatever they hold.

use serde::{Serialize, de::DeserializeOwned};
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Debug;
use tardy_engine::halves::{Halves, ReplyHalves, join};
use tardy_engine::message::{self, ActivitySummary, EndSummary, FromAgent, ToAgent};
use tardy_engine::port::XdpStamp;
use tardy_engine::receiver::Arrival;
use tardy_engine::sender::SentRows;
use tardy_lab::guest::expected::Expected;
use tardy_lab::guest::frame::Frames;
use tardy_lab::guest::relay;
use tardy_lab::run::{Event, Sink};
use tardy_model::point::{Metric, Point};
use tardy_model::port::{Port, Sim};
use tardy_model::sample::Batch;
use tardy_model::stream::{CpuChoice, Ip, Kind, Launch, Overrun, Policy, Reply, Rx, Stream, Tx, Wait};
use tardy_model::time::{ClockReading, Instant, Nanos};
use tardy_model::trial::{TrialRecord, WarmUp};
use tardy_model::xdp::Triggered;

pub mod seeds;

/// More are not read from one input.
const MESSAGES: usize = 64;

/// One input. Returns how many messages of it this protocol has.
pub fn input(bytes: &[u8]) -> usize {
    let Some((way, mut bytes)) = bytes.split_first() else { return 0 };
    if way & 4 != 0 {
        return guest(bytes);
    }
    if way & 1 != 0 && message::hear(&mut bytes, "0.1.0").is_err() {
        return 0;
    }
    if way & 2 != 0 {
        messages::<ToAgent>(bytes).len()
    } else {
        let told = messages::<FromAgent>(bytes);
        let count = told.len();
        trial(told);
        count
    }
}

struct Nobody;

impl Sink for Nobody {
    fn event(&mut self, _: Event) {}
    fn trial(&mut self, _: &TrialRecord, streams: &[(String, Batch)]) -> Result<(), Box<dyn Error + Send + Sync>> {
        assert!(streams.iter().all(|(_, batch)| batch.is_even()));
        Ok(())
    }
}

/// What the guest of a small experiment may say.
fn expected() -> Expected {
    let text = "trials = 2\n[station.a]\n[station.b]\n[stream.ctl]\nfrom = \"a\"\nto = \"b\"\n\
                [load.bulk]\nkind = \"command\"\nfrom = \"a\"\ncommand = [\"true\"]\n";
    let source = tardy_spec::Source { name: "x.toml".into(), text: text.to_owned() };
    Expected::of(&tardy_spec::load(&source, &[]).expect("it loads"))
}

/// What a guest's port brought: frames up to the first that is none or makes no sense.
fn guest(bytes: &[u8]) -> usize {
    let mut frames = Frames::default();
    frames.push(bytes);
    let (mut expected, mut count) = (expected(), 0);
    while let Ok(Some((kind, bytes))) = frames.take() {
        if relay::deliver(kind, &bytes, &mut expected, &mut Nobody).is_err() {
            break;
        }
        count += 1;
    }
    count
}

/// All messages up to the first that is none. Each is written and read back.
fn messages<M: Serialize + DeserializeOwned + PartialEq + Debug>(mut from: &[u8]) -> Vec<M> {
    let mut heard = Vec::new();
    while let Ok(message) = message::receive::<M>(&mut from) {
        let mut sent = Vec::new();
        message::send(&mut sent, &message).expect("memory takes it");
        // By its bytes: a share that is not a number equals nothing, itself included.
        let again = message::receive::<M>(&mut sent.as_slice()).expect("what was sent");
        let mut twice = Vec::new();
        message::send(&mut twice, &again).expect("memory takes it");
        assert_eq!(twice, sent);
        heard.push(message);
        if heard.len() == MESSAGES {
            break;
        }
    }
    heard
}

/// What one end handed over.
#[derive(Default)]
struct Handed {
    sent: SentRows,
    arrivals: Vec<Arrival>,
    stamps: Vec<XdpStamp>,
    rest: Option<EndSummary>,
}

/// What the coordinator makes of the pieces that it was handed: those of the sender first, then
/// the reflector's, then those of the end that receives the replies.
fn trial(told: Vec<FromAgent>) {
    let clocks = clocks();
    let mut ends: [Handed; 3] = Default::default();
    let mut at = 0;
    for message in told {
        let end = &mut ends[at];
        match message {
            FromAgent::SenderPiece { rows, .. } => end.sent.append(rows),
            FromAgent::ArrivalPiece { mut arrivals, .. } => end.arrivals.append(&mut arrivals),
            FromAgent::XdpPiece { mut stamps, .. } => end.stamps.append(&mut stamps),
            FromAgent::Collected { summary, .. } => {
                let ActivitySummary::End(rest) = *summary else { continue };
                end.rest = Some(rest);
                at = (at + 1).min(2);
            }
            _ => {}
        }
    }
    let [tx, rx, back] = ends;
    let after = |end: &Handed| end.rest.as_ref().map_or(clocks, |rest| rest.clocks);
    let (tx_clocks, rx_clocks) = ([clocks, after(&tx)], [clocks, after(&rx)]);
    let rest = |end: Option<EndSummary>| end.unwrap_or_else(|| gone(clocks));
    let (tx_rest, rx_rest, back_rest) = (rest(tx.rest), rest(rx.rest), rest(back.rest));
    let reply = ReplyHalves {
        sent: rx.sent,
        tx_counters: rx_rest.sent.unwrap_or_default(),
        arrivals: back.arrivals,
        rx_counters: back_rest.arrived.unwrap_or_default(),
        thread: Some(back_rest.thread),
        gaps: back_rest.gaps,
        tcp: [tx_rest.tcp, rx_rest.tcp],
        error_queue_bytes: 0,
    };
    let halves = |reply| Halves {
        sent: tx.sent.clone(),
        tx_counters: tx_rest.sent.unwrap_or_default(),
        tx_thread: tx_rest.thread.clone(),
        tx_clocks,
        arrivals: rx.arrivals.clone(),
        xdp_stamps: rx.stamps.clone(),
        areas: Vec::new(),
        xdp: rx_rest.xdp.clone(),
        xdp_sent: tx_rest.xdp_sent.clone(),
        rx_counters: rx_rest.arrived.unwrap_or_default(),
        rx_thread: rx_rest.thread.clone(),
        rx_clocks,
        gaps: rx_rest.gaps,
        tx_gaps: tx_rest.gaps,
        absent: BTreeMap::new(),
        error_queue_bytes: 0,
        warmup: WarmUp::default(),
        reply,
        own: tx_rest.own.clone(),
        offsets: Default::default(),
    };
    for (kind, reply) in [(Kind::Cyclic, None), (Kind::Reflected, Some(reply.clone())), (Kind::Pingpong, Some(reply))] {
        let halves = halves(reply);
        let (batch, record) = join(&stream(kind), Instant::from_ns(1_000_000_000), &halves);
        assert_eq!(batch.len(), halves.sent.len());
        tardy_store::encode_samples(&[("ctl", &batch)]).expect("a joined batch can be written");
        serde_json::to_vec(&record).expect("and its record");
    }
}

fn clocks() -> ClockReading {
    ClockReading { tai_ns: 0, realtime_ns: 0, monotonic_ns: 0, bound_ns: 0, tai_offset_s: 0, steering: None }
}

fn gone(clocks: ClockReading) -> EndSummary {
    EndSummary {
        sent: None,
        arrived: None,
        gaps: None,
        thread: Default::default(),
        clocks,
        tcp: None,
        own: Default::default(),
        xdp: None,
        xdp_sent: None,
    }
}

fn stream(kind: Kind) -> Stream {
    Stream {
        kind,
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
        port: Port::Udp,
        cycle: Nanos(500_000),
        count: 100,
        size: 64,
        ethertype: tardy_model::ethernet::ETHERTYPE,
        tag: None,
        priority: 0,
        launch: Launch::None,
        overrun: Overrun::Burst,
        deadline: Nanos(500_000),
        max_loss: 0.0,
        warmup: Nanos::ZERO,
        stamps: Point::ALL.into_iter().filter(|p| ![Point::Scheduled, Point::RxXdp].contains(p)).collect(),
        stamps_named: false,
        metrics: Metric::DEFAULT.to_vec(),
        triggered: Triggered::default(),
        lead: None,
        tx: Tx {
            cpu: CpuChoice::Auto,
            policy: Policy::Other,
            advance: Nanos::ZERO,
            spin: Nanos::ZERO,
            wait: Wait::Block,
            queue: None,
            frames: 4_096,
        },
        rx: Rx {
            port: Port::Udp,
            cpu: CpuChoice::Auto,
            policy: Policy::Other,
            wait: Wait::Block,
            core: None,
            queue: None,
            frames: 4_096,
            object: None,
            hints: Vec::new(),
        },
        sim: Sim::default(),
    }
}
