// SPDX-License-Identifier: MIT OR Apache-2.0
//! Answered streams on simulated clocks: the requester's, the reflector's and the matcher's
//! figures are known beforehand.

use crate::engine::{all, run, spans, stream};
use std::collections::BTreeSet;
use tardy_analyze::distribution::{Wanted, distribution};
use tardy_analyze::packets::{Packets, Reach};
use tardy_engine::halves::join;
use tardy_engine::port::sim::{self, TO_DRIVER_NS};
use tardy_engine::requester::longest_wait;
use tardy_model::frame::LEAD;
use tardy_model::point::{Metric, Point};
use tardy_model::port::Sim;
use tardy_model::sample::{Batch, Flags, Outcome};
use tardy_model::shaper::Shaper;
use tardy_model::stream::{Kind, Side, Stream, Wait};
use tardy_model::stream_id::StreamId;
use tardy_model::time::Nanos;

/// From the send call of one end to the receive stamp of the other: driver, path, wake-up.
const ONE_WAY_NS: i64 = TO_DRIVER_NS + 1_000 + 10_000;

fn answered(kind: Kind, sim: Sim) -> Stream {
    let of_hardware = [Point::TxHw, Point::RxHw, Point::RxXdp, Point::Scheduled];
    let stamps = Point::ALL.into_iter().filter(|point| !of_hardware.contains(point)).collect();
    Stream { kind, stamps, metrics: Metric::DEFAULT_ANSWERED.to_vec(), ..stream(sim) }
}

fn pingpong(sim: Sim) -> Stream {
    let mut stream = answered(Kind::Pingpong, sim);
    stream.stamps.retain(|point| *point != Point::Wakeup);
    stream.cycle = Nanos::ZERO;
    stream.deadline = stream.reply.timeout;
    stream
}

#[test]
fn a_round_trip_is_both_ways_and_never_halved() {
    for stream in [pingpong(Sim::default()), answered(Kind::Reflected, Sim::default())] {
        let (batch, record) = run(&stream);
        assert_eq!(batch.len(), 1_000);
        assert!(batch.outcome.iter().all(|outcome| *outcome == Outcome::Received));
        all(&batch, "send..reply_receive", 2 * ONE_WAY_NS);
        all(&batch, "tx_kernel..rx_kernel", 1_000);
        all(&batch, "reply_tx_kernel..reply_rx_kernel", 1_000);
        all(&batch, "receive..reply_send", 0);
        all(&batch, "rx_kernel..reply_tx_kernel", 10_000 + TO_DRIVER_NS);
        all(&batch, "transit", 2 * ONE_WAY_NS);
        let reply = record.reply.expect("it is answered");
        assert_eq!((record.counters.sent, reply.counters.sent), (1_000, 1_000));
        assert_eq!(reply.counters.tx_stamps_missing + reply.counters.tx_stamps_unmatched, 0);
        assert_eq!(reply.thread.is_some(), stream.kind == Kind::Reflected, "a ping-pong asks and waits in one thread");
    }
}

#[test]
fn a_lost_reply_takes_nothing_from_the_interval_between_requests() {
    let stream = answered(Kind::Reflected, Sim::default());
    let mut trial = sim::trial(&stream, StreamId::FIRST, 7, Nanos(123), &Shaper::None);
    trial.halves.reply.as_mut().expect("it is answered").arrivals.retain(|reply| reply.seq % 10 != 3);
    let (batch, _) = join(&stream, trial.base, &trial.halves);
    assert_eq!(batch.outcome.iter().filter(|outcome| **outcome == Outcome::Lost).count(), 100);
    let wanted = Wanted { metrics: vec![Metric::Delta], ..Wanted::default() };
    let delta = distribution(1, &wanted, [&batch]).metrics.remove(&Metric::Delta).expect("it was wanted");
    let found = delta.finish("sim", None);
    assert_eq!((found.count, found.coverage, found.infinite.len()), (999, 1.0, 0));
    assert_eq!((found.figures.min_ns, found.figures.max_ns), (Some(stream.cycle.0), Some(stream.cycle.0)));
    // Each packet's own, as exports have it.
    let mut reach = Reach::new(Point::RxKernel);
    reach.push(&batch);
    let (mut packets, mut values) = (Packets::new(reach), Vec::new());
    let mut each = |_: &Batch, _: usize, delta: Option<i64>| {
        values.push(delta);
        Ok::<(), ()>(())
    };
    packets.push(batch, &mut each).and_then(|()| packets.finish(&mut each)).expect("nothing fails");
    assert!(values[0].is_none() && values[1..].iter().all(|delta| *delta == Some(stream.cycle.0)));
}

#[test]
fn requests_that_were_never_asked_do_not_go_back_in_time() {
    // No reply comes any more from the third on: the requester gives up before it has asked them
    // all.
    let stream = pingpong(Sim { drop: (3..1_000).collect(), ..Sim::default() });
    let (batch, _) = run(&stream);
    assert_eq!(batch.outcome.iter().filter(|outcome| **outcome == Outcome::Received).count(), 3);
    assert!(batch.outcome.contains(&Outcome::NotSent), "some were never asked");
    assert!(batch.scheduled_ns.is_sorted(), "{:?}", batch.scheduled_ns);
}

#[test]
fn a_request_that_comes_before_its_instant_is_early() {
    let mut stream = answered(Kind::Reflected, Sim { wake: Nanos::ZERO, ..Sim::default() });
    stream.tx.advance = Nanos(50_000);
    let (batch, _) = run(&stream);
    assert!(spans(&batch, "scheduled..rx_kernel").iter().all(|ns| ns.is_some_and(|ns| ns < 0)));
    assert!(batch.flags.iter().all(|flags| flags.has(Flags::EARLY)));
    // Its reply may be late enough.
    let mut stream = answered(Kind::Reflected, Sim { wake: Nanos::ZERO, ..Sim::default() });
    stream.tx.advance = Nanos(ONE_WAY_NS);
    let (batch, _) = run(&stream);
    assert!(spans(&batch, "scheduled..reply_rx_kernel").iter().all(|ns| ns.is_some_and(|ns| ns > 0)));
    assert!(batch.flags.iter().all(|flags| flags.has(Flags::EARLY)), "the request came before its instant");
}

#[test]
fn a_reflectors_clock_that_drifts_moves_one_way_figures_and_not_the_round_trip() {
    let (batch, _) = run(&pingpong(Sim { drift_ppb: 1_000_000, ..Sim::default() }));
    all(&batch, "send..reply_receive", 2 * ONE_WAY_NS);
    // What the drift adds to one way it takes from the other, but for what it is in the residence
    // itself.
    for (there, back) in
        spans(&batch, "tx_kernel..rx_kernel").into_iter().zip(spans(&batch, "reply_tx_kernel..reply_rx_kernel"))
    {
        let (there, back) = (there.expect("stamped"), back.expect("stamped"));
        assert!((there + back - 2_000).abs() <= 20, "{there} and {back}");
    }
    assert!(spans(&batch, "tx_kernel..rx_kernel")[999] > Some(10_000), "the drift shows one way");
    all(&batch, "transit", 2 * ONE_WAY_NS);
}

#[test]
fn a_closed_loop_has_as_many_in_flight_as_allowed() {
    for in_flight in [1_u32, 4] {
        let mut stream = pingpong(Sim { delay: Nanos(100_000), ..Sim::default() });
        stream.reply.in_flight = in_flight;
        let (batch, _) = run(&stream);
        let sent: Vec<i64> = (0..1_000).map(|row| batch.stamp_ns(row, Point::Send).expect("sent")).collect();
        let back: Vec<i64> =
            (0..1_000).map(|row| batch.stamp_ns(row, Point::ReplyReceive).expect("answered")).collect();
        for (n, at) in sent.iter().enumerate() {
            let flying = back[..=n].iter().filter(|back| *back > at).count();
            assert!(flying <= in_flight as usize, "{flying} at request {n}");
        }
        let greatest = (0..1_000).map(|n| (0..=n).filter(|m| back[*m] > sent[n]).count()).max();
        assert_eq!(greatest, Some(in_flight as usize));
    }
}

#[test]
fn an_open_loop_goes_on_whatever_comes_back() {
    let drop: Vec<u32> = (100..200).collect();
    // A round trip is longer than a cycle.
    let sim = Sim { drop: drop.clone(), delay: Nanos(700_000), ..Sim::default() };
    let (batch, record) = run(&answered(Kind::Reflected, sim));
    assert_eq!((record.counters.sent, record.counters.overruns), (1_000, 0));
    all(&batch, "scheduled..wakeup", 10_000);
    let lost: Vec<u32> = (0..1_000).filter(|row| batch.outcome[*row as usize] == Outcome::Lost).collect();
    assert_eq!(lost, drop);
    let late = batch.flags.iter().filter(|flags| flags.has(Flags::LATE)).count();
    assert_eq!(late, 900, "the deadline is one cycle");
}

#[test]
fn a_request_without_a_reply_is_lost_after_its_timeout_and_the_next_goes_out() {
    let mut stream = pingpong(Sim { drop: vec![3, 4, 500], ..Sim::default() });
    stream.reply.timeout = Nanos::from_millis(300);
    let (batch, record) = run(&stream);
    let lost: Vec<usize> = (0..1_000).filter(|row| batch.outcome[*row] == Outcome::Lost).collect();
    assert_eq!(lost, [3, 4, 500]);
    assert_eq!(record.counters.sent, 1_000);
    let waited = batch.stamp_ns(4, Point::Send).zip(batch.stamp_ns(3, Point::Send)).map(|(next, this)| next - this);
    // Two waits of half of it.
    assert_eq!(waited.map(|ns| ns / 10_000_000), Some(30));
    assert_eq!(spans(&batch, "send..reply_receive")[3], None);
}

#[test]
fn a_request_that_met_sleeping_machines_was_told_by_nothing() {
    let after_silence = |drop: Vec<u32>, stamps: Option<Vec<Point>>| {
        let mut stream = pingpong(Sim { drop, ..Sim::default() });
        stream.stamps = stamps.unwrap_or(stream.stamps);
        run(&stream).1.reply.expect("answered").counters.after_silence
    };
    let in_one_stretch = Some(vec![Point::Send, Point::ReplyReceive]);
    assert_eq!(after_silence(vec![], None), 0);
    assert_eq!(after_silence(vec![3, 4, 500], in_one_stretch.clone()), 3, "the one behind each that was lost");
    assert_eq!(after_silence(vec![999], in_one_stretch.clone()), 0, "none is behind the last");
    // All requests of the lead-ins are lost, of which there is one before each stretch of two.
    assert_eq!(after_silence(vec![LEAD], in_one_stretch), 1);
    assert_eq!(after_silence(vec![LEAD], None), 500);
}

#[test]
fn a_short_timeout_does_not_wait_for_the_longest_wait() {
    let mut stream = pingpong(Sim { drop: vec![3], ..Sim::default() });
    stream.reply.timeout = Nanos::from_millis(5);
    let (batch, _) = run(&stream);
    let waited = batch.stamp_ns(4, Point::Send).zip(batch.stamp_ns(3, Point::Send)).map(|(next, this)| next - this);
    assert_eq!(waited.map(|ns| ns / 1_000_000), Some(5), "{waited:?}");
    for (timeout_ms, wait_ms) in [(1, 1), (5, 5), (200, 200), (201, 100), (300, 150), (1_000, 200), (86_400_000, 200)] {
        let wait = longest_wait(Nanos::from_millis(timeout_ms));
        assert_eq!(wait.0 / 1_000_000, wait_ms, "{timeout_ms} ms");
    }
}

#[test]
fn a_peer_that_falls_silent_ends_the_trial_and_not_the_run() {
    let mut stream = pingpong(Sim { drop: (400..1_000).collect(), ..Sim::default() });
    let (batch, record) = run(&stream);
    let reply = record.reply.as_ref().expect("answered");
    assert_eq!(reply.counters.receive_errno, libc::ETIME, "no reply for a minute");
    // One request a second was given up; the rest was never sent.
    let with = |outcome| batch.outcome.iter().filter(|of| **of == outcome).count();
    assert_eq!((with(Outcome::Received), with(Outcome::NotSent)), (400, 1_000 - 400 - 60));
    // Who allows more is given more: four timeouts.
    stream.reply.timeout = Nanos::from_secs(30);
    let (batch, _) = run(&stream);
    assert_eq!(batch.outcome.iter().filter(|of| **of == Outcome::Lost).count(), 4);
}

#[test]
fn a_request_lost_among_several_in_flight_gives_its_place_back() {
    let mut stream = pingpong(Sim { drop: vec![100], delay: Nanos(100_000), ..Sim::default() });
    (stream.reply.in_flight, stream.reply.timeout) = (4, Nanos::from_millis(5));
    // Without stamps that come back there are no pauses, before which a stretch waits for its last
    // reply.
    stream.stamps = vec![Point::Send, Point::ReplyReceive];
    let (batch, _) = run(&stream);
    assert_eq!((0..1_000).filter(|row| batch.outcome[*row] == Outcome::Lost).collect::<Vec<_>>(), [100]);
    let sent: Vec<i64> = (0..1_000).map(|row| batch.stamp_ns(row, Point::Send).expect("sent")).collect();
    let back = |row: usize| batch.stamp_ns(row, Point::ReplyReceive);
    let flying = |n: usize| (0..=n).filter(|m| back(*m).is_some_and(|back| back > sent[n])).count();
    // Replies of the others never stop coming: the wait's own time limit is never reached.
    let since = |n: usize| sent[n] - sent[100];
    let most = |rows: &dyn Fn(&usize) -> bool| (101..1_000).filter(rows).map(flying).max();
    assert_eq!(
        most(&|n| (500_000..4_500_000).contains(&since(*n))),
        Some(3),
        "its place is taken until it is given up"
    );
    assert_eq!(most(&|n| since(*n) > 6_000_000), Some(4), "and free again then");
}

/// Transactions a second as the results say, of a path without faults but these drops.
fn rate(in_flight: u32, stamps: Option<Vec<Point>>, drop: Vec<u32>) -> f64 {
    let mut stream = pingpong(Sim { drop, delay: Nanos(100_000), ..Sim::default() });
    (stream.reply.in_flight, stream.reply.timeout) = (in_flight, Nanos::from_millis(5));
    stream.stamps = stamps.unwrap_or(stream.stamps);
    let (batch, record) = run(&stream);
    let received = batch.outcome.iter().filter(|outcome| **outcome == Outcome::Received).count();
    let reply = record.reply.as_ref().expect("answered");
    assert_eq!(reply.counters.tx_stamps_unmatched + record.counters.tx_stamps_unmatched, 0);
    received as f64 * 1e9 / reply.span_ns.expect("replies") as f64
}

#[test]
fn pauses_took_half_of_the_rate_where_several_requests_are_in_flight() {
    for in_flight in [1, 2, 4, 16] {
        let (stamped, bare) =
            (rate(in_flight, None, vec![]), rate(in_flight, Some(vec![Point::Send, Point::ReplyReceive]), vec![]));
        assert!((0.9..1.1).contains(&(stamped / bare)), "{in_flight} in flight: {stamped:.0} and {bare:.0} a second");
    }
}

#[test]
fn pauses_lay_one_bunch_of_requests_apart() {
    for (in_flight, pauses_in_trial) in [(1, 499), (2, 499), (4, 249), (16, 0)] {
        let mut stream = pingpong(Sim { delay: Nanos(100_000), ..Sim::default() });
        stream.reply.in_flight = in_flight;
        let (batch, record) = run(&stream);
        let sent: Vec<i64> = (0..batch.len()).map(|row| batch.stamp_ns(row, Point::Send).expect("sent")).collect();
        // The first request behind each pause that lies in the trial.
        let asking = record.own_between.iter().filter(|between| between.side == Side::Tx);
        let pauses =
            asking.flat_map(|between| between.intervals().collect::<Vec<_>>()).filter(|(start, _)| *start > sent[0]);
        let behind: Vec<usize> = pauses.filter_map(|(_, end)| sent.iter().position(|at| *at > end)).collect();
        // The stamps of two requests, and of the unmeasured ones around them, fit into one slab of
        // the kernel's allocator at both ends; a bunch of many has queues that a pause would empty.
        assert_eq!(behind.len(), pauses_in_trial, "{in_flight} in flight: {behind:?}");
    }
}

#[test]
fn every_stretch_of_two_in_flight_left_as_many_stamps_as_the_one_before() {
    for in_flight in [1, 2, 3] {
        let mut stream = pingpong(Sim { delay: Nanos(100_000), ..Sim::default() });
        stream.reply.in_flight = in_flight;
        let (_, record) = run(&stream);
        let asking = record.own_between.iter().filter(|between| between.side == Side::Tx);
        let pauses: Vec<i64> = asking.flat_map(|between| between.intervals()).map(|(start, _)| start).collect();
        // In whole round trips, each of which takes as long as the others. The first stretches
        // have no measured request.
        let took: Vec<i64> = pauses.windows(2).skip(10).map(|pair| (pair[1] - pair[0]) / 200_000).collect();
        let lengths = |first: usize| took.iter().skip(first).step_by(2).collect::<BTreeSet<_>>();
        assert_eq!(lengths(0).len() > 1, in_flight > 1, "{in_flight} in flight: {took:?}");
        assert_eq!(lengths(0), lengths(1), "{in_flight} in flight: each second stretch is like the others");
    }
}

#[test]
fn lost_requests_made_the_rate_greater() {
    for in_flight in [1, 2, 4] {
        let whole = rate(in_flight, None, vec![]);
        for drop in [vec![7], (100..164).collect(), (3..1_000).step_by(4).collect::<Vec<u32>>()] {
            let with_loss = rate(in_flight, None, drop);
            assert!(
                0.0 < with_loss && with_loss <= whole * 1.1,
                "{in_flight} in flight: {with_loss:.0} and {whole:.0}"
            );
        }
    }
}

#[test]
fn requests_given_up_after_the_last_reply_made_the_rate_lower_or_negative() {
    for in_flight in [1, 2, 4] {
        let whole = rate(in_flight, None, vec![]);
        for drop in [vec![999], (990..1_000).collect(), (400..1_000).collect::<Vec<u32>>()] {
            let lost = drop.len();
            let with_loss = rate(in_flight, None, drop);
            assert!((0.9..1.1).contains(&(with_loss / whole)), "{in_flight} in flight, {lost} lost: {with_loss:.0}");
        }
    }
}

#[test]
fn a_stall_of_all_requests_in_flight_was_taken_for_a_pause() {
    for in_flight in [2, 3, 4] {
        // The requester is stopped for four tenths of its time.
        let sim = Sim { delay: Nanos::from_millis(5), throttle: Nanos::from_millis(400), ..Sim::default() };
        let mut stream = pingpong(sim);
        (stream.reply.in_flight, stream.tx.wait) = (in_flight, Wait::Spin);
        let (batch, record) = run(&stream);
        let round_trips: Vec<i64> = spans(&batch, "send..reply_receive").into_iter().flatten().collect();
        let mean_s = round_trips.iter().sum::<i64>() as f64 / round_trips.len() as f64 / 1e9;
        let rate = 1_000.0 * 1e9 / record.reply.expect("answered").span_ns.expect("replies") as f64;
        // Little's law: the time from a reply to the next request is short.
        assert!(mean_s > 0.0105, "{mean_s}: nothing held it up");
        let busy = rate * mean_s / f64::from(in_flight);
        assert!((0.9..1.01).contains(&busy), "{in_flight} in flight: {busy:.3} of them at a time");
    }
}

#[test]
fn a_reply_that_comes_after_its_request_was_given_up_is_late_and_counts_once() {
    let mut stream = pingpong(Sim { delay: Nanos::from_millis(250), ..Sim::default() });
    (stream.count, stream.reply.timeout, stream.deadline) = (20, Nanos::from_millis(100), Nanos::from_millis(100));
    let (batch, record) = run(&stream);
    let received = batch.outcome.iter().filter(|outcome| **outcome == Outcome::Received).count();
    assert!(received >= 17, "{received}: the last ones come after the end");
    for row in (0..20).filter(|row| batch.outcome[*row] == Outcome::Received) {
        assert!(batch.flags[row].has(Flags::LATE), "{row}");
    }
    assert_eq!(record.counters.sent, 20);
    assert_eq!(record.reply.expect("answered").counters.duplicates, 0);
}

#[test]
fn a_doubled_request_is_answered_once() {
    let (batch, record) = run(&answered(Kind::Reflected, Sim { duplicate: 0.2, ..Sim::default() }));
    let reply = record.reply.expect("answered");
    assert!(record.counters.duplicates > 100);
    assert_eq!(reply.counters.sent, 1_000);
    assert!(reply.counters.duplicates > 100, "replies are doubled on their way too");
    assert!(batch.outcome.iter().all(|outcome| *outcome == Outcome::Received));
}

#[test]
fn a_spinning_requester_sees_the_same_round_trip_to_its_last_look() {
    let mut stream = pingpong(Sim::default());
    stream.tx.wait = Wait::Spin;
    let (batch, record) = run(&stream);
    for ns in spans(&batch, "send..reply_receive") {
        let ns = ns.expect("answered");
        assert!((2 * ONE_WAY_NS..=2 * ONE_WAY_NS + 1_000).contains(&ns), "{ns}");
    }
    assert!(record.reply.expect("answered").spin_gaps.is_some());
}

#[test]
fn the_same_seed_gives_the_same_round_trips() {
    let sim = Sim { jitter: Nanos(5_000), loss: 0.01, duplicate: 0.01, ..Sim::default() };
    for kind in [Kind::Reflected, Kind::Pingpong] {
        let stream = if kind == Kind::Pingpong { pingpong(sim.clone()) } else { answered(kind, sim.clone()) };
        assert_eq!(run(&stream).0, run(&stream).0);
    }
}
