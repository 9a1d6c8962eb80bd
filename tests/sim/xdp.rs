// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an XDP program wrote before packets becomes a point of their samples, if it is theirs.

use crate::engine::{all, spans, stream};
use std::collections::BTreeMap;
use tardy_engine::halves::{Halves, join};
use tardy_engine::port::{XdpStamp, sim};
use tardy_model::machine::ThreadRecord;
use tardy_model::point::{Point, Source};
use tardy_model::sample::{Flags, MaybeNanos};
use tardy_model::shaper::Shaper;
use tardy_model::stream::{Sim, Stream};
use tardy_model::stream_id::StreamId;
use tardy_model::time::Nanos;
use tardy_model::xdp::{Core, CoreRecord, XdpClock, XdpLosses, XdpMode, XdpRecord, XdpSeen};

/// From the XDP program to the end of the receive call.
const DELAY_NS: i64 = 700;

fn port() -> XdpRecord {
    XdpRecord {
        mode: XdpMode::Native,
        refused: Vec::new(),
        queues: 4,
        umem_bytes: 1 << 26,
        huge_pages: false,
        clock: XdpClock::Tai,
        clock_bound_ns: 0,
        losses: XdpLosses::default(),
        seen: XdpSeen::default(),
        core: CoreRecord::default(),
        driver: "veth".to_owned(),
        wait: "poll".to_owned(),
    }
}

#[test]
fn a_stamp_that_is_later_than_its_packet_was_another_ones() {
    let mut of = stream(Sim { duplicate: 0.01, ..Sim::default() });
    of.stamps.retain(|point| *point != Point::RxKernel);
    of.stamps.push(Point::RxXdp);
    let mut trial = sim::trial(&of, StreamId::FIRST, 7, Nanos(123), &Shaper::None);
    let arrivals = &trial.halves.arrivals;
    assert!(arrivals.len() > 1_000, "some came twice");
    let stamps = arrivals.iter().map(|arrival| {
        let ns = match arrival.seq {
            // A frame that was used again showed the stamp that it had before, or a later one.
            10..20 => arrival.receive_ns + 1,
            30..33 => return XdpStamp::NONE,
            _ => arrival.receive_ns - DELAY_NS,
        };
        XdpStamp { time_ns: MaybeNanos::some(ns), cpu: arrival.seq % 2, queue: 3 }
    });
    trial.halves.xdp_stamps = stamps.collect();
    trial.halves.xdp = Some(port());
    let (batch, record) = join(&of, trial.base, &trial.halves);
    let delays = spans(&batch, "rx_xdp..receive");
    let absent = |seq: usize| (10..20).contains(&seq) || (30..33).contains(&seq);
    assert!((0..1_000).all(|seq| delays[seq] == (!absent(seq)).then_some(DELAY_NS)), "{delays:?}");
    let seen = record.xdp.expect("its port").seen;
    assert_eq!((seen.implausible, seen.unstamped), (10, 3));
    // Ten and three of them are missing, as many with even numbers as with odd ones but for one.
    assert_eq!(seen.by_cpu, BTreeMap::from([(0, 493), (1, 494)]), "second arrivals do not count");
    assert_eq!(seen.by_queue, BTreeMap::from([(3, 987)]));
    assert_eq!(record.sources[&Point::RxXdp], Source::Sim);
}

#[test]
fn each_packets_hint_says_whether_the_application_was_on_the_programs_cpu() {
    let mut of = stream(Sim::default());
    of.stamps.push(Point::RxXdp);
    of.rx.core = Some(Core::Same);
    let mut trial = sim::trial(&of, StreamId::FIRST, 7, Nanos(123), &Shaper::None);
    // The program ran on CPU 1 but for 30 packets, and had no time to write before 5.
    let stamps = trial.halves.arrivals.iter().map(|arrival| match arrival.seq {
        100..105 => XdpStamp::NONE,
        seq => {
            let time_ns = MaybeNanos::some(arrival.receive_ns - DELAY_NS);
            XdpStamp { time_ns, cpu: u32::from(!(200..230).contains(&seq)), queue: 0 }
        }
    });
    trial.halves.xdp_stamps = stamps.collect();
    trial.halves.xdp = Some(port());
    let thread = &mut trial.halves.rx_thread;
    (thread.affinity, thread.cpus_seen, thread.migrations) = (vec![1], vec![1], Some(0));
    let core = |halves: &Halves| join(&of, trial.base, halves).1.xdp.expect("its port").core;
    let found = core(&trial.halves);
    let asked = Some(Core::Same);
    assert_eq!(found, CoreRecord { asked, cpu: Some(1), same: 965, remote: 30, unknown: 0 });
    assert_eq!((found.elsewhere(), found.packets()), (30, 995));
    assert_eq!(CoreRecord { asked: Some(Core::Remote), ..found.clone() }.elsewhere(), 965);
    assert_eq!(CoreRecord { asked: None, ..found }.elsewhere(), 0);
    // A thread that was not on one CPU proves nothing.
    let unknown = CoreRecord { asked, cpu: None, same: 0, remote: 0, unknown: 995 };
    assert_eq!(unknown.elsewhere(), 995);
    let lost: [fn(&mut ThreadRecord); 3] =
        [|thread| thread.affinity.push(0), |thread| thread.migrations = Some(1), |thread| thread.cpus_seen.push(0)];
    for lose in lost {
        let mut halves = trial.halves.clone();
        lose(&mut halves.rx_thread);
        assert_eq!(core(&halves), unknown);
    }
}

#[test]
fn a_packet_is_early_by_when_the_xdp_program_saw_it() {
    let early = |by_xdp: bool| -> usize {
        let mut of: Stream = stream(Sim::default());
        of.stamps.retain(|point| *point != Point::RxKernel);
        of.stamps.push(Point::RxXdp);
        let mut trial = sim::trial(&of, StreamId::FIRST, 7, Nanos(123), &Shaper::None);
        // Before the schedule's instant, by a receiver that came to it later.
        let stamps = trial.halves.arrivals.iter().map(|arrival| XdpStamp {
            time_ns: MaybeNanos::some(arrival.receive_ns - 400_000),
            cpu: 0,
            queue: 0,
        });
        trial.halves.xdp_stamps = if by_xdp { stamps.collect() } else { Vec::new() };
        for arrival in &mut trial.halves.arrivals {
            arrival.rx_kernel = MaybeNanos::NONE;
        }
        let (batch, _) = join(&of, trial.base, &trial.halves);
        if !by_xdp {
            assert!(spans(&batch, "rx_xdp..receive").iter().all(Option::is_none), "a column, and nothing in it");
            all(&batch, "wakeup..send", 0);
        }
        batch.flags.iter().filter(|flags| flags.has(Flags::EARLY)).count()
    };
    assert_eq!((early(true), early(false)), (1_000, 0));
}
