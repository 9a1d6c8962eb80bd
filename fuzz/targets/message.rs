// SPDX-License-Identifier: MIT OR Apache-2.0
//! What comes through a connection to an agent, or from one: any bytes are messages, or the end of the connection with a
//! reason. Halves that an agent sends make a trial or are refused, whatever they hold.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde::{Serialize, de::DeserializeOwned};
use std::collections::BTreeMap;
use std::fmt::Debug;
use tardy_engine::halves::{Halves, join};
use tardy_engine::message::{self, FromAgent, ToAgent};
use tardy_model::point::{Metric, Point};
use tardy_model::stream::{CpuChoice, Overrun, Policy, Port, Rx, Sim, Stream, Tx, Wait};
use tardy_model::time::{ClockReading, Instant, Nanos};
use tardy_model::trial::WarmUp;

/// More are not read from one input.
const MESSAGES: usize = 64;

fuzz_target!(|bytes: &[u8]| {
    let Some((way, mut bytes)) = bytes.split_first() else { return };
    if way & 1 != 0 && message::hear(&mut bytes, "0.1.0").is_err() {
        return;
    }
    if way & 2 != 0 {
        messages::<ToAgent>(bytes);
    } else {
        trial(messages::<FromAgent>(bytes));
    }
});

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

/// What the coordinator makes of the pieces that it was handed.
fn trial(told: Vec<FromAgent>) {
    let clocks = ClockReading { tai_ns: 0, realtime_ns: 0, monotonic_ns: 0, bound_ns: 0, tai_offset_s: 0 };
    let mut halves = Halves {
        sent: Default::default(),
        tx_counters: Default::default(),
        tx_thread: Default::default(),
        tx_clocks: [clocks; 2],
        arrivals: Vec::new(),
        rx_counters: Default::default(),
        rx_thread: Default::default(),
        rx_clocks: [clocks; 2],
        gaps: None,
        tx_gaps: None,
        absent: BTreeMap::new(),
        error_queue_bytes: 0,
        warmup: WarmUp::default(),
    };
    for message in told {
        match message {
            FromAgent::SenderPiece(piece) => halves.sent.append(piece),
            FromAgent::ArrivalPiece(mut piece) => halves.arrivals.append(&mut piece),
            FromAgent::Sent { counters, gaps, thread, clocks } => {
                (halves.tx_counters, halves.tx_gaps, halves.tx_thread) = (counters, gaps, thread);
                halves.tx_clocks[1] = clocks;
            }
            FromAgent::Arrived { counters, gaps, thread, clocks } => {
                (halves.rx_counters, halves.gaps, halves.rx_thread) = (counters, gaps, thread);
                halves.rx_clocks[1] = clocks;
            }
            _ => {}
        }
    }
    let (batch, record) = join(&stream(), Instant::from_ns(1_000_000_000), &halves);
    assert_eq!(batch.len(), halves.sent.len());
    tardy_store::encode_samples(&[("ctl", &batch)]).expect("a joined batch can be written");
    serde_json::to_vec(&record).expect("and its record");
}

fn stream() -> Stream {
    Stream {
        name: "ctl".into(),
        from: "a".into(),
        to: "b".into(),
        port: Port::Udp,
        cycle: Nanos(500_000),
        count: 100,
        size: 64,
        priority: 0,
        overrun: Overrun::Burst,
        deadline: Nanos(500_000),
        max_loss: 0.0,
        warmup: Nanos::ZERO,
        stamps: Point::ALL.into_iter().filter(|p| ![Point::Scheduled, Point::RxXdp].contains(p)).collect(),
        metrics: Metric::DEFAULT.to_vec(),
        tx: Tx { cpu: CpuChoice::Auto, policy: Policy::Other, advance: Nanos::ZERO, spin: Nanos::ZERO },
        rx: Rx { cpu: CpuChoice::Auto, policy: Policy::Other, wait: Wait::Block },
        sim: Sim::default(),
    }
}
