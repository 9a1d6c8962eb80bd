// SPDX-License-Identifier: MIT OR Apache-2.0
//! A trial between two hosts. Both agents are real and run in this process; the second one is
//! reached through pipes that shift every instant, as if its machine's clocks were ahead. The layer
//! vm has the same trial in exact time.

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
use tardy_lab::host::clocks::{self, Asking, Compared, OffsetSource, Unknown};
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
use tardy_model::time::{ClockReading, EndOffsets, Instant, Nanos, Offset, OffsetReading, Tai};

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

fn shift_answer(answer: &mut FromAgent, by_ns: i64) {
    match answer {
        FromAgent::Time { tai_ns, .. } => *tai_ns += by_ns,
        FromAgent::Ready { clocks, .. } => shift_clocks(clocks, by_ns),
        FromAgent::SenderPiece { rows, .. } => shift_sent(rows, by_ns),
        FromAgent::ArrivalPiece { arrivals, .. } => shift_arrived(arrivals, by_ns),
        FromAgent::Collected { summary, .. } => {
            let ActivitySummary::End(rest) = &mut **summary else { return };
            shift_clocks(&mut rest.clocks, by_ns);
            if let Some(sent) = &mut rest.sent {
                sent.sent_ns = sent.sent_ns.map(|(first, last)| (first + by_ns, last + by_ns));
            }
            rest.own.work.iter_mut().for_each(|work| {
                work.start_ns += by_ns;
                work.end_ns += by_ns;
            });
            rest.own.between.iter_mut().for_each(|between| between.start_ns += by_ns);
        }
        _ => {}
    }
}

/// The agent as that of a machine whose clocks are so far ahead. Base times that it is given, as
/// they were ordered, go to `bases`.
pub fn ahead(
    (from, to): (PipeReader, PipeWriter),
    by_ns: i64,
    bases: mpsc::Sender<Instant<Tai>>,
) -> (PipeReader, PipeWriter) {
    let ((orders, to_proxy), (from_proxy, mut answers)) = (pipe().expect("a pipe"), pipe().expect("a pipe"));
    std::thread::spawn(move || {
        let (mut orders, mut to) = (BufReader::new(orders), to);
        pass_greeting(&mut orders, &mut to).expect("a greeting");
        while let Ok(mut order) = message::receive::<ToAgent>(&mut orders) {
            if let ToAgent::Start { base, .. } = &mut order {
                let _ = bases.send(*base);
                *base = *base - Nanos(by_ns);
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
            shift_answer(&mut answer, by_ns);
            if message::send(&mut answers, &answer).is_err() {
                return;
            }
        }
    });
    (from_proxy, to_proxy)
}

/// It knows by how many nanoseconds the other machine's clocks are ahead.
pub struct Known(pub i64);

impl OffsetSource for Known {
    fn between(&mut self, from: HostId, of: HostId, _: &mut Asking<'_>) -> Result<Compared, Unknown> {
        assert_eq!((from, of), (HostId::HERE, OTHER));
        let at_tai_ns = tardy_sys::clock::now::<Tai>().ns();
        let reading = OffsetReading { at_tai_ns, ahead_ns: self.0, bound_ns: BOUND_NS };
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

fn run(stations: Stations) -> Ran {
    run_ahead(stations, AHEAD_NS)
}

/// The trial with the second host's clocks so far ahead.
fn run_ahead(mut stations: Stations, ahead_ns: i64) -> Ran {
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
        let pipes = if host == OTHER { ahead(agent(), ahead_ns, ordered_bases.clone()) } else { agent() };
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

/// All that a trial says of each metric that needs both hosts' clocks, or that of one alone, as one
/// line: the stream, the metric, its bound, and a figure for each packet, all in ns. Packets that
/// did not arrive have none.
pub fn figures(ahead_ns: i64) -> Vec<String> {
    let Ran { streams, result, .. } = run_ahead(Stations::compared_by(Box::new(Known(ahead_ns))), ahead_ns);
    let ran = result.unwrap_or_else(|broken| panic!("{}", broken.error));
    let metrics = [
        (Point::Scheduled, Point::Wakeup),
        (Point::Scheduled, Point::RxKernel),
        (Point::Send, Point::RxKernel),
        (Point::TxKernel, Point::RxKernel),
        (Point::RxKernel, Point::Receive),
        (Point::Scheduled, Point::Receive),
        (Point::ReplySend, Point::ReplyRxKernel),
        (Point::Send, Point::ReplyReceive),
    ];
    let mut lines = Vec::new();
    for (stream, ran) in streams.iter().zip(&ran) {
        let (batch, record) = join(stream, ran.base, &ran.halves);
        for metric in metrics.map(|(from, to)| Metric::Span(from, to)) {
            let rows: Vec<String> =
                (0..batch.len()).filter_map(|row| batch.span_ns(row, metric)).map(|ns| ns.to_string()).collect();
            if !rows.is_empty() {
                let bound = record.clock_bound_ns(metric).map_or_else(|| "one clock".to_owned(), |ns| ns.to_string());
                lines.push(format!("{} {metric}: {bound}: {}", stream.name, rows.join(" ")));
            }
        }
    }
    lines
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
    let Ran { streams, result, bases } = run(Stations::compared_by(Box::new(Known(AHEAD_NS))));
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
        let EndOffsets { tx, rx, .. } = &record.offsets;
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
fn only_what_needs_both_hosts_clocks_has_their_bound() {
    let lines = figures(AHEAD_NS);
    let crossing = ["scheduled..rx_kernel", "send..rx_kernel", "tx_kernel..rx_kernel", "scheduled..receive"];
    for line in &lines {
        let [who, bound, rows] = line.split(": ").collect::<Vec<_>>()[..] else { panic!("{line}") };
        let metric = who.split(' ').nth(1).expect("a metric");
        let crosses = crossing.contains(&metric) || metric == "reply_send..reply_rx_kernel";
        assert_eq!(bound.parse::<i64>().is_ok_and(|ns| ns >= BOUND_NS), crosses, "{who}: {bound}");
        assert_eq!(bound == "one clock", !crosses, "{who}: {bound}");
        assert_eq!(rows.split(' ').count(), COUNT, "{who}");
    }
    for stream in ["there", "back"] {
        assert!(lines.iter().any(|line| line.starts_with(&format!("{stream} send..rx_kernel: "))), "{lines:#?}");
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
    let mut offsets = EndOffsets { rx: Some(offset), ..EndOffsets::default() };
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
        Known(AHEAD_NS).between(from, of, ask)
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
    let Ran { streams, result, .. } = run(Stations::compared_by(Box::new(Known(AHEAD_NS))));
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
