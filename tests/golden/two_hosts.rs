// SPDX-License-Identifier: MIT OR Apache-2.0
//! A trial between two hosts. Both agents are real and run in this process; the second one is
//! reached through pipes that shift every instant, as if its machine's clocks were ahead.

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::io::{self, BufReader, PipeReader, PipeWriter, Read, Write, pipe};
use std::sync::atomic::AtomicBool;
use std::sync::mpsc;
use std::time::Duration;
use tardy_engine::agent::BindEnd;
use tardy_engine::halves::{Halves, join};
use tardy_engine::message::{self, ActivitySummary, FromAgent, MessageError, ToAgent};
use tardy_engine::receiver::Arrival;
use tardy_engine::sender::SentRows;
use tardy_lab::agent::Agent;
use tardy_lab::connection::{Carrier, Connection};
use tardy_lab::host::clocks::{self, Asking, Compared, Counters, Exchange, GuestCounter, OffsetSource, Unknown};
use tardy_lab::host::{Away, HostId};
use tardy_lab::loads::Loads;
use tardy_lab::machine::{Facts, FactsByHost};
use tardy_lab::names::Names;
use tardy_lab::orders;
use tardy_lab::placement::place;
use tardy_lab::plan;
use tardy_lab::station::Stations;
use tardy_lab::trial::{Broken, Outside, StreamHalves};
use tardy_model::point::{Metric, Point};
use tardy_model::sample::{MaybeNanos, Outcome};
use tardy_model::stream::Stream;
use tardy_model::time::{ClockReading, CounterReading, Instant, Nanos, Tai};
use tardy_model::time::{Disagreement, EndOffsets, Offset, OffsetReading, OtherSource};

/// So far the other machine's clocks are ahead.
pub const AHEAD_NS: i64 = 3_000_000;
/// By how much the source of offsets says that it may be wrong. Figures are refused where it is not
/// small next to their median, and a quick machine has its packets over loopback within 14 us.
pub const BOUND_NS: i64 = 40;
const COUNT: usize = 100;
const VERSION: &str = "two hosts";
const OTHER: HostId = HostId::numbered(1);

/// An agent, or a steward, that is a thread of this process, and ends with its orders.
pub struct Thread;

impl Carrier for Thread {
    fn pid(&self) -> Option<u32> {
        None
    }
    fn ended(&mut self, _: Duration) -> Option<String> {
        Some("with its thread".to_owned())
    }
    fn kill(&mut self) {}
    fn last_words(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Starts an agent in a thread.
pub fn agent() -> (PipeReader, PipeWriter) {
    start(|orders, answers| tardy_engine::agent::serve(orders, answers, VERSION))
}

/// The same of one that binds its ends in this way.
pub fn agent_of(bind: BindEnd) -> (PipeReader, PipeWriter) {
    start(move |orders, answers| tardy_engine::agent::serve_with(bind, orders, answers, VERSION))
}

fn start(
    serve: impl FnOnce(BufReader<PipeReader>, &mut PipeWriter) -> Result<(), MessageError> + Send + 'static,
) -> (PipeReader, PipeWriter) {
    let ((orders, to), (from, mut answers)) = (pipe().expect("a pipe"), pipe().expect("a pipe"));
    std::thread::spawn(move || serve(BufReader::new(orders), &mut answers));
    (from, to)
}

/// The first frame each way has no instant in it.
pub fn pass_greeting(from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let mut body = vec![0; u32::from_le_bytes(length) as usize];
    from.read_exact(&mut body)?;
    to.write_all(&length)?;
    to.write_all(&body)?;
    to.flush()
}

fn shift(column: &mut [MaybeNanos], by_ns: i64) {
    column.iter_mut().for_each(|cell| *cell = MaybeNanos::from(cell.get().map(|ns| ns + by_ns)));
}

fn shift_sent(half: &mut SentRows, by_ns: i64) {
    for column in [&mut half.scheduled, &mut half.wakeup, &mut half.send] {
        shift(column, by_ns);
    }
    for column in [&mut half.tx_sched, &mut half.tx_kernel, &mut half.tx_hw] {
        shift(column, by_ns);
    }
}

fn shift_arrived(arrivals: &mut [Arrival], by_ns: i64) {
    for arrival in arrivals {
        arrival.receive_ns += by_ns;
        arrival.rx_kernel = MaybeNanos::from(arrival.rx_kernel.get().map(|ns| ns + by_ns));
    }
}

fn shift_clocks(clocks: &mut ClockReading, by_ns: i64) {
    clocks.tai_ns += by_ns;
    clocks.realtime_ns += by_ns;
    clocks.monotonic_ns += by_ns;
}

fn shift_answer(answer: &mut FromAgent) {
    match answer {
        FromAgent::Time { tai_ns, .. } => *tai_ns += AHEAD_NS,
        FromAgent::Ready { clocks, .. } => shift_clocks(clocks, AHEAD_NS),
        FromAgent::SenderPiece { rows, .. } => shift_sent(rows, AHEAD_NS),
        FromAgent::ArrivalPiece { arrivals, .. } => shift_arrived(arrivals, AHEAD_NS),
        FromAgent::Collected { summary, .. } => {
            let ActivitySummary::End(rest) = &mut **summary else { return };
            shift_clocks(&mut rest.clocks, AHEAD_NS);
            if let Some(sent) = &mut rest.sent {
                sent.sent_ns = sent.sent_ns.map(|(first, last)| (first + AHEAD_NS, last + AHEAD_NS));
            }
            rest.own.work.iter_mut().for_each(|work| {
                work.start_ns += AHEAD_NS;
                work.end_ns += AHEAD_NS;
            });
            rest.own.between.iter_mut().for_each(|between| between.start_ns += AHEAD_NS);
        }
        _ => {}
    }
}

/// The agent as that of a machine whose clocks are ahead. Base times that it is given, as they
/// were ordered, go to `bases`.
pub fn ahead((from, to): (PipeReader, PipeWriter), bases: mpsc::Sender<Instant<Tai>>) -> (PipeReader, PipeWriter) {
    let ((orders, to_proxy), (from_proxy, mut answers)) = (pipe().expect("a pipe"), pipe().expect("a pipe"));
    std::thread::spawn(move || {
        let (mut orders, mut to) = (BufReader::new(orders), to);
        pass_greeting(&mut orders, &mut to).expect("a greeting");
        while let Ok(mut order) = message::receive::<ToAgent>(&mut orders) {
            if let ToAgent::Start { base, .. } = &mut order {
                let _ = bases.send(*base);
                *base = *base - Nanos(AHEAD_NS);
            }
            if message::send(&mut to, &order).is_err() {
                return;
            }
        }
    });
    std::thread::spawn(move || {
        let mut from = BufReader::new(from);
        pass_greeting(&mut from, &mut answers).expect("a greeting");
        while let Ok(mut answer) = message::receive::<FromAgent>(&mut from) {
            shift_answer(&mut answer);
            if message::send(&mut answers, &answer).is_err() {
                return;
            }
        }
    });
    (from_proxy, to_proxy)
}

/// It knows the offset, and says when it was asked.
pub struct Known(pub Vec<i64>);

impl OffsetSource for Known {
    fn between(&mut self, from: HostId, of: HostId, _: &mut Asking<'_>) -> Result<Compared, Unknown> {
        assert_eq!((from, of), (HostId::HERE, OTHER));
        let at_tai_ns = tardy_sys::clock::now::<Tai>().ns();
        self.0.push(at_tai_ns);
        let reading = OffsetReading { at_tai_ns, ahead_ns: AHEAD_NS, bound_ns: BOUND_NS };
        Ok(Compared { host: of, reading, method: "told by the test".to_owned() })
    }
}

/// A machine that must not be read.
struct NoMachine;

impl Outside for NoMachine {
    fn look(&mut self) -> Result<(), (HostId, Away)> {
        Ok(())
    }

    fn end_leftovers(&mut self) {}
}

/// What came of the trial.
struct Ran {
    streams: Vec<Stream>,
    result: Result<Vec<StreamHalves>, Broken>,
    /// The base times that were ordered from the second host.
    bases: Vec<Instant<Tai>>,
}

fn run(mut stations: Stations) -> Ran {
    let source =
        tardy_spec::Source { name: "two-hosts.toml".into(), text: tardy_tests::experiment("two hosts").to_owned() };
    let setup = tardy_spec::load(&source, &[]).expect("it loads").cells.remove(0).setup;
    let found = FactsByHost::from(Facts { usable: vec![0], ..Facts::default() });
    let mut plan = plan::plan(&setup, Names::FIRST, &found).expect("a plan");
    for end in plan.ends.values_mut() {
        end.address = tardy_tests::of_loopback();
    }
    let (chosen, _) = place(&setup, &found).expect("placed");
    let mut random = orders::random_of(1, "all", 1);
    let (_, ordered) = orders::orders(&setup, &plan, &chosen, &mut random).expect("its stations are there");
    let mut loads = Loads::of(&setup, &plan, &[], &mut random).expect("none");
    let (ordered_bases, bases) = mpsc::channel();
    for (name, host) in [("a", HostId::HERE), ("b", OTHER)] {
        let voice = stations.next_place(name).expect("there is room");
        let pipes = if host == OTHER { ahead(agent(), ordered_bases.clone()) } else { agent() };
        let connection = Connection { from: Box::new(pipes.0), to: Box::new(pipes.1), carrier: Box::new(Thread) };
        let mut agent = Agent::over(connection, name, Some(voice), VERSION);
        agent.greet(VERSION).expect("it greets");
        stations.push(agent, host);
    }
    drop(ordered_bases);
    let result = stations.run(&ordered, &mut loads, &AtomicBool::new(false), Some(&mut NoMachine), &mut |_, _| {});
    drop(stations);
    Ran { streams: ordered.into_iter().map(|ordered| ordered.stream).collect(), result, bases: bases.iter().collect() }
}

/// The halves as they would be if the second host's clock agreed with the first one's.
fn as_on_one_host(halves: &Halves) -> Halves {
    let mut one = halves.clone();
    one.offsets = EndOffsets::default();
    if halves.offsets.rx.is_some() {
        shift_arrived(&mut one.arrivals, -AHEAD_NS);
        one.reply.iter_mut().for_each(|reply| shift_sent(&mut reply.sent, -AHEAD_NS));
    }
    if halves.offsets.tx.is_some() {
        shift_sent(&mut one.sent, -AHEAD_NS);
    }
    one
}

#[test]
fn a_trial_between_two_hosts_is_in_one_clock_and_records_its_bound() {
    let Ran { streams, result, bases } = run(Stations::compared_by(Box::new(Known(Vec::new()))));
    let ran = result.unwrap_or_else(|broken| panic!("{}", broken.error));
    assert_eq!((streams.len(), ran.len()), (2, 2));
    for (stream, ran) in streams.iter().zip(&ran) {
        let (batch, record) = join(stream, ran.base, &ran.halves);
        assert!(batch.outcome.iter().all(|outcome| *outcome == Outcome::Received), "{}", stream.name);
        assert_eq!(batch.len(), COUNT);
        // The very samples that one clock would have given.
        let (truth, _) = join(stream, ran.base, &as_on_one_host(&ran.halves));
        assert_eq!(batch, truth, "{}", stream.name);
        let crossing = Metric::Span(Point::Send, Point::RxKernel);
        let least = (0..COUNT).filter_map(|row| batch.span_ns(row, crossing)).min().expect("stamps");
        assert!((0..AHEAD_NS).contains(&least), "{}: {least} ns over loopback", stream.name);
        // What is not converted would be wrong by the offset.
        let raw = Halves { offsets: EndOffsets::default(), ..ran.halves.clone() };
        let (wrong, _) = join(stream, ran.base, &raw);
        let wrong = (0..COUNT).filter_map(|row| wrong.span_ns(row, crossing)).min().expect("stamps");
        assert_eq!((wrong - least).abs(), AHEAD_NS, "{}", stream.name);
        let EndOffsets { tx, rx } = &record.offsets;
        let [Some(offset)] = [tx, rx].into_iter().filter(|offset| offset.is_some()).collect::<Vec<_>>()[..] else {
            panic!("{}: one of its ends is on another host: {:?}", stream.name, record.offsets);
        };
        assert_eq!(rx.is_some(), stream.to == "b");
        assert_eq!((offset.bound_ns(), offset.method.as_str()), (BOUND_NS, "told by the test"));
        assert_eq!(offset.drift_ppb(), Some(0.0));
        assert_eq!(record.clock_bound_ns(crossing), Some(record.bound_ns(crossing)));
        assert!(record.bound_ns(crossing) >= BOUND_NS);
        assert_eq!(record.clock_bound_ns(Metric::Span(Point::RxKernel, Point::Receive)), None);
        assert!(offset.first.at_tai_ns < ran.base.ns(), "it is compared before the trial");
        assert!(offset.last.at_tai_ns > batch.scheduled_ns[COUNT - 1], "and behind it");
        // Its base time was ordered in its own clock.
        assert!(bases.contains(&(ran.base + Nanos(AHEAD_NS))), "{}: {bases:?}", stream.name);
        // A figure of one host's clock is in the record's JSON as before; that of two has its
        // offset next to it.
        let json = serde_json::to_value(&record).expect("JSON");
        let end = if rx.is_some() { "rx" } else { "tx" };
        assert_eq!(json["offsets"][end]["first"]["bound_ns"], BOUND_NS);
    }
}

#[test]
fn an_offset_called_its_host_otherwise_than_the_states_of_its_record_did() {
    let reading = OffsetReading { at_tai_ns: 0, ahead_ns: AHEAD_NS, bound_ns: BOUND_NS };
    let offset = Offset {
        host: OTHER.to_string(),
        first: reading,
        last: reading,
        method: "told".to_owned(),
        ..Offset::default()
    };
    let mut offsets = EndOffsets { tx: None, rx: Some(offset) };
    clocks::name_hosts(&mut offsets, [HostId::HERE, OTHER], |host| (host == OTHER).then_some("rig"));
    assert_eq!(offsets.rx.map(|offset| offset.host).as_deref(), Some("rig"));
    assert_eq!(offsets.tx, None);
}

#[test]
fn a_trial_between_hosts_whose_clocks_nobody_compares_ends_with_the_reason() {
    let Ran { result, bases, .. } = run(Stations::default());
    let Err(broken) = result else { panic!("no figure may be made of two clocks") };
    assert_eq!(
        broken.error.to_string(),
        "station `b`: the clocks of this machine and host 1 cannot be compared: nothing compares them; use stations of one host"
    );
    assert_eq!(bases, [], "it has not begun");
}

/// It knows the offset once.
struct KnownOnce(bool);

impl OffsetSource for KnownOnce {
    fn between(&mut self, from: HostId, of: HostId, ask: &mut Asking<'_>) -> Result<Compared, Unknown> {
        if std::mem::replace(&mut self.0, true) {
            return Err(Unknown { from, of, why: "the test forgot".to_owned() });
        }
        Known(Vec::new()).between(from, of, ask)
    }
}

#[test]
fn one_failed_comparison_behind_a_trial_discarded_all_that_was_measured() {
    let Ran { streams, result, .. } = run(Stations::compared_by(Box::new(KnownOnce(false))));
    let Err(broken) = result else { panic!("nobody knows how the clocks drifted") };
    assert!(broken.error.to_string().ends_with("cannot be compared: the test forgot"), "{}", broken.error);
    assert_eq!(broken.had.len(), streams.len());
    for (stream, had) in streams.iter().zip(&broken.had) {
        let had = had.as_ref().unwrap_or_else(|| panic!("{}: both of its stations live", stream.name));
        let (batch, record) = join(stream, had.base, &had.halves);
        assert!(batch.outcome.iter().all(|outcome| *outcome == Outcome::Received), "{}", stream.name);
        assert!(!record.offsets.are_none(), "what was known before is kept");
    }
}

#[test]
fn the_packets_of_a_host_whose_clock_drifts_are_due_by_that_clock() {
    let Ran { streams, result, .. } = run(Stations::compared_by(Box::new(Known(Vec::new()))));
    let ran = result.unwrap_or_else(|broken| panic!("{}", broken.error));
    let of_other = |(stream, _): &(&Stream, &StreamHalves)| stream.from == "b";
    let (stream, ran) = streams.iter().zip(&ran).find(of_other).expect("one sends from there");
    // The other clock gained 1 % between two readings 10 s apart: its packets come by 1 % sooner,
    // and none is early or late for it.
    let mut halves = ran.halves.clone();
    let offset = halves.offsets.tx.as_mut().expect("it has an offset");
    offset.last.at_tai_ns = offset.first.at_tai_ns + 10_000_000_000;
    offset.last.ahead_ns = offset.first.ahead_ns + 100_000_000;
    let (batch, _) = join(stream, ran.base, &halves);
    let apart: Vec<i64> = batch.scheduled_ns.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let true_ns = stream.cycle.0 * 100 / 101;
    assert!(apart.iter().all(|ns| (ns - true_ns).abs() <= true_ns / 1_000), "{true_ns}: {apart:?}");
    let (even, _) = join(stream, ran.base, &ran.halves);
    assert!(even.scheduled_ns.windows(2).all(|pair| pair[1] - pair[0] == stream.cycle.0));
}

#[test]
fn an_offset_that_drifts_is_a_line_between_its_readings() {
    let reading = |at_tai_ns, ahead_ns, bound_ns| OffsetReading { at_tai_ns, ahead_ns, bound_ns };
    let second = 1_000_000_000;
    let offset = Offset {
        host: "b".to_owned(),
        first: reading(100 * second, -5_000, 40),
        last: reading(110 * second, 15_000, 25),
        method: "ptp".to_owned(),
        ..Offset::default()
    };
    assert_eq!(offset.drift_ppb(), Some(2_000.0));
    assert_eq!(offset.bound_ns(), 40);
    for (here, ahead) in [(100, -5_000), (105, 5_000), (110, 15_000), (115, 25_000), (95, -15_000)] {
        let theirs = Instant::<Tai>::from_ns(here * second + ahead);
        assert!((offset.to_here(theirs).ns() - here * second).abs() <= 1, "{here} s");
    }
    // One reading alone is an offset without a drift.
    let alone = Offset { last: offset.first, ..offset.clone() };
    assert_eq!(alone.drift_ppb(), None);
    assert_eq!(alone.to_here(Instant::from_ns(500 * second)).ns(), 500 * second + 5_000);
    // The difference of two hosts is as wrong as both. One instant of a trial may be wrong by the
    // whole bound of the first reading, and another by that of the last, the other way.
    let third = Offset { host: "c".to_owned(), ..alone.clone() };
    let both = EndOffsets { tx: Some(third), rx: Some(offset.clone()) };
    assert_eq!((both.bound_ns(), both.drift_bound_ns(), both.are_of_one_host()), (80, 145, false));
    let one = EndOffsets { tx: None, rx: Some(offset.clone()) };
    assert_eq!((one.bound_ns(), one.drift_bound_ns(), one.are_of_one_host()), (40, 65, false));
    // What both ends share cancels.
    let same = EndOffsets { tx: Some(offset.clone()), rx: Some(offset) };
    assert_eq!((same.bound_ns(), same.drift_bound_ns(), same.are_of_one_host()), (0, 0, true));
    assert!(Metric::Span(Point::Send, Point::RxKernel).crosses_stations());
    assert!(Metric::Span(Point::ReplyTxKernel, Point::ReplyRxKernel).crosses_stations());
    for metric in
        [(Point::RxKernel, Point::Receive), (Point::Receive, Point::ReplySend), (Point::Send, Point::ReplyReceive)]
    {
        assert!(!Metric::Span(metric.0, metric.1).crosses_stations());
    }
}

#[test]
fn the_slope_of_two_readings_far_less_exact_than_any_drift_scaled_every_interval() {
    let reading = |at_tai_ns, ahead_ns| OffsetReading { at_tai_ns, ahead_ns, bound_ns: 30_000 };
    let offset = |passed_ns: i64, apart_ns: i64| Offset {
        host: "rig".into(),
        first: reading(0, 3_000_000),
        last: reading(passed_ns, 3_000_000 + apart_ns),
        method: "told".into(),
        ..Offset::default()
    };
    let here = |offset: &Offset, ns| offset.to_here(Instant::<Tai>::from_ns(ns)).ns();
    // 40 µs in 10 ms would be 4000 ppm, and both readings agree within 60 µs.
    for apart_ns in [40_000, -40_000] {
        let flat = offset(10_000_000, apart_ns);
        assert_eq!(here(&flat, 9_000_000) - here(&flat, 4_000_000), 5_000_000);
        assert_eq!((flat.bound_ns(), flat.drift_bound_ns()), (50_000, 100_000));
        // Back from the other clock, an instant is where it was, within the bound.
        for at in [0, 5_000_000, 10_000_000] {
            let at = Instant::<Tai>::from_ns(at);
            for reading in [flat.first, flat.last] {
                let back = flat.to_here(reading.to_there(at)) - at;
                assert_eq!(back.0.abs(), 20_000);
            }
        }
    }
    // Over 10 s the same readings are a slope of 4 ppm, wrong by at most 6 ppm.
    let line = offset(10_000_000_000, 40_000);
    assert_eq!((line.bound_ns(), line.drift_bound_ns()), (30_000, 60_000));
    assert_eq!(here(&line, 10_003_040_000) - here(&line, 3_000_000), 10_000_000_000);
    // What the bounds do not explain is a drift.
    let drifts = offset(10_000_000, 70_000);
    assert_eq!(drifts.bound_ns(), 30_000);
    assert!((here(&drifts, 13_070_000) - 10_000_000).abs() < 10);
}

/// A host and a machine on its processor, whose counter runs at `counts_per_us`, and an exchange
/// between them that takes `ways_ns`, with brackets as wide as `width_ns`.
fn exchange_by_counter(
    guest: (i64, u64),
    counts_per_us: u64,
    at_ns: i64,
    ways_ns: [i64; 2],
    width_ns: i64,
) -> Exchange {
    let counter = |tai_ns: i64| tai_ns as u64 * counts_per_us / 1_000;
    let bracket = |tai_ns: i64, of: &dyn Fn(u64) -> u64, ahead_ns: i64| CounterReading {
        before: of(counter(tai_ns - width_ns / 3)),
        tai_ns: tai_ns + ahead_ns,
        after: of(counter(tai_ns + width_ns - width_ns / 3)),
    };
    // KVM scales by 2^32 here.
    let there = |host: u64| ((u128::from(host) * u128::from(guest.1)) >> 32) as u64;
    let there = |host: u64| there(host).wrapping_add_signed(guest.0);
    let asked = bracket(at_ns, &|host| host, 0);
    let theirs = bracket(at_ns + ways_ns[0], &there, AHEAD_NS);
    let answered = bracket(at_ns + ways_ns[0] + ways_ns[1], &|host| host, 0);
    Exchange {
        asked_ns: asked.tai_ns + width_ns,
        reached_ns: theirs.tai_ns,
        returned_ns: theirs.tai_ns,
        answered_ns: answered.tai_ns - width_ns,
        counters: Some(Counters { asked, theirs, answered }),
    }
}

#[test]
fn the_clocks_of_a_machine_were_known_to_half_of_an_exchange_where_the_counter_knows_more() {
    let mut chance = Pcg64Mcg::seed_from_u64(18);
    for _ in 0..1_000 {
        let ratio = chance.random_range(1 << 31..1 << 34);
        let offset = chance.random::<i64>();
        let counts_per_us = chance.random_range(24..5_000);
        let width_ns = chance.random_range(20..400);
        let exchanges: Vec<_> = (0..8)
            .map(|n| {
                let ways_ns = [chance.random_range(2_000..300_000), chance.random_range(2_000..300_000)];
                exchange_by_counter((offset, ratio), counts_per_us, 1_000_000_000 + n * 1_000_000, ways_ns, width_ns)
            })
            .collect();
        let (text, ratio_text) = (format!("{offset}\n"), format!("{ratio}\n"));
        let guest = GuestCounter::from_files(&text, Some((&ratio_text, "32\n"))).unwrap();
        let by_exchange = clocks::best(&exchanges).unwrap();
        assert!((by_exchange.ahead_ns - AHEAD_NS).abs() <= by_exchange.bound_ns, "{by_exchange:?}");
        let by_counter = clocks::best_by_counter(&exchanges, guest).unwrap();
        assert!((by_counter.ahead_ns - AHEAD_NS).abs() <= by_counter.bound_ns, "{by_counter:?} {exchanges:?}");
        // Both brackets' halves, and what a count of a slow counter, here or there, is.
        let count_ns = (1_000 / counts_per_us) as i64 + 1;
        let there_ns = count_ns * (1 + ((1_i64 << 32) / ratio as i64));
        assert!(by_counter.bound_ns <= width_ns + 4 + count_ns + there_ns, "{by_counter:?} {width_ns} {counts_per_us}");
        // A counter that is offset otherwise shows what it cannot have in an exchange.
        let wrong = GuestCounter::from_files(&offset.wrapping_add(1 << 42).to_string(), Some((&ratio_text, "32")));
        assert_eq!(clocks::best_by_counter(&exchanges, wrong.unwrap()), None);
        let one_without: Vec<_> = [&exchanges[..7], &[Exchange { counters: None, ..exchanges[7] }]].concat();
        assert_eq!(clocks::best_by_counter(&one_without, guest), None);
    }
}

#[test]
fn what_kvm_says_of_a_counter_is_read_or_refused() {
    let same = GuestCounter::from_files("-12\n", None);
    assert!(same.is_some());
    assert_eq!(same, GuestCounter::from_files("-12", Some(("1\n", "0\n"))));
    for (offset, ratio) in
        [("", None), ("x", None), ("1", Some(("0", "32"))), ("1", Some(("1", "64"))), ("1", Some(("-1", "32")))]
    {
        assert_eq!(GuestCounter::from_files(offset, ratio), None, "{offset} {ratio:?}");
    }
    assert_eq!(clocks::best_by_counter(&[], same.unwrap()), None);
    assert_eq!(clocks::best(&[]), None);
}

#[test]
fn a_source_that_knows_more_took_the_beginning_of_a_schedule_from_the_one_that_had_set_it() {
    let reading = |at_ms: i64, ahead_ns, bound_ns| OffsetReading { at_tai_ns: at_ms * 1_000_000, ahead_ns, bound_ns };
    let ssh = Offset {
        host: "rig".into(),
        first: reading(1_000, 3_000_000, 90_000),
        last: reading(2_000, 3_000_000, 80_000),
        method: "ssh".into(),
        ..Offset::default()
    };
    let source = |ahead_ns, bound_ns| OtherSource {
        method: "path".into(),
        first: reading(900, ahead_ns, bound_ns),
        last: reading(2_100, ahead_ns, bound_ns),
        is_reported: false,
    };
    // The one with the least bound counts, and the other is kept. What began the schedule did not
    // change by it.
    let both = ssh.clone().with(source(3_020_000, 12_000));
    assert_eq!((both.bound_ns(), both.method.as_str(), both.first), (12_000, "path", reading(900, 3_020_000, 12_000)));
    assert_eq!(both.beginning(), ssh.first);
    let of_ssh = OtherSource { method: "ssh".into(), first: ssh.first, last: ssh.last, is_reported: false };
    assert_eq!(both.others, [of_ssh]);
    assert_eq!(both.disagreement(), None);
    let looser = ssh.clone().with(source(3_020_000, 200_000));
    assert_eq!((looser.bound_ns(), looser.beginning(), looser.others.len()), (90_000, ssh.first, 1));
    // A third one, which knows most.
    let three = both.clone().with(source(3_015_000, 1_000));
    assert_eq!((three.bound_ns(), three.beginning(), three.others.len()), (1_000, ssh.first, 2));
    let allowed_ns = 90_000 + 12_000 + 1;
    for ahead_ns in [3_000_000 + allowed_ns, 3_000_000 - allowed_ns] {
        assert_eq!(ssh.clone().with(source(ahead_ns, 12_000)).disagreement(), None);
    }
    for apart_ns in [250_000, -250_000] {
        let apart =
            ssh.clone().with(source(3_000_000 + apart_ns, 12_000)).disagreement().expect("they exclude each other");
        let methods = ["path", "ssh"].map(str::to_owned);
        assert_eq!(apart, Disagreement { methods, apart_ns: 250_000, allowed_ns, is_reported: false });
    }
    // Each is a line, and what clocks drift between its readings is in it: 200 µs in 1.2 s.
    let drifts =
        |ahead_ns| OtherSource { last: reading(2_100, ahead_ns + 200_000, 12_000), ..source(ahead_ns, 12_000) };
    assert_eq!(ssh.clone().with(drifts(2_900_000)).disagreement(), None);
    // It is 16.7 µs ahead of its beginning at ssh's first reading, and 183.3 µs at the last one.
    let apart = ssh.clone().with(drifts(3_000_000)).disagreement().expect("they exclude each other");
    assert_eq!((apart.apart_ns, apart.allowed_ns), (183_333, allowed_ns));
    // Two that are only compared may exclude each other, and neither excludes the main one.
    let beside = |ahead_ns| OtherSource { method: format!("by {ahead_ns}"), ..source(ahead_ns, 10_000) };
    let twice = ssh.clone().beside(beside(3_150_000)).beside(beside(2_850_000));
    assert_eq!((twice.bound_ns(), twice.method.as_str()), (90_000, "ssh"), "they never count for instants");
    let apart = twice.disagreement().expect("they exclude each other");
    assert_eq!((&apart.methods, apart.allowed_ns), (&["by 3150000", "by 2850000"].map(str::to_owned), 20_001));
    // They are what programs report. Two that were asked come first, however near they are.
    assert!(apart.is_reported);
    let asked = twice.with(source(3_250_000, 12_000)).disagreement().expect("they exclude each other");
    assert_eq!((asked.methods, asked.is_reported), (["path", "ssh"].map(str::to_owned), false));
    // What a record without other sources says was written so before, too.
    let text = serde_json::to_string(&ssh).expect("JSON");
    assert!(!text.contains("others") && !text.contains("begun_by"), "{text}");
    assert_eq!(serde_json::from_str::<Offset>(&text).expect("an offset"), ssh);
}
