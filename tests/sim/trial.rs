// SPDX-License-Identifier: MIT OR Apache-2.0
//! A trial led through orderings that are drawn: messages late, doubled and lost, stations that fail, a stop at any moment. The stations
//! are simulated; the state machine is the real one.

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::collections::{BTreeMap, BTreeSet};
use tardy_engine::live::Digest;
use tardy_engine::message::{Collected, EndId, EndReady, FromAgent, MessageError, ToAgent};
use tardy_engine::order::EndOrder;
use tardy_engine::receiver::Arrival;
use tardy_engine::sender::SenderHalf;
use tardy_lab::agent::AgentError;
use tardy_lab::loads::Loads;
use tardy_lab::machine::Facts;
use tardy_lab::names::Names;
use tardy_lab::orders::{self, Ordered};
use tardy_lab::placement::place_on;
use tardy_lab::plan;
use tardy_lab::station::StationId;
use tardy_lab::trial::machine::{Input, Machine, Now, Output};
use tardy_lab::trial::{Broken, StreamHalves, TrialError};
use tardy_model::ethernet::Tags;
use tardy_model::machine::ThreadRecord;
use tardy_model::sample::MaybeNanos;
use tardy_model::stream::Side;
use tardy_model::time::{ClockReading, Instant, Nanos};
use tardy_model::trial::OwnNotes;

/// Packets of each stream.
const COUNT: u32 = 10;
/// Time between a sender's packets, ns.
const CYCLE_NS: i64 = 1_000_000;
/// No ordering takes more inputs than this. The warm-up asks each stream for its limit of 2 s at least every 50 ms.
const STEPS: u32 = 4_000;

const EXPERIMENT: &str = r#"
name = "orderings"
[station.a]
[station.b]
[stream.one]
from = "a"
to = "b"
count = 10
cycle = "1ms"
[stream.two]
reflect = true
from = "b"
to = "a"
count = 10
cycle = "1ms"
[stream.three]
kind = "pingpong"
from = "a"
to = "b"
count = 10
[load.busy]
kind = "cpu"
from = "b"
duty = 0.1
"#;

/// What a sender that takes long says of itself.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Slow {
    Stuck,
    Moving,
}

/// What goes wrong.
#[derive(Clone, Copy, Default)]
struct Faults {
    /// Of a thousand messages so many never arrive.
    lost: u32,
    /// Of a thousand so many arrive twice.
    doubled: u32,
    /// Of a thousand so many arrive up to half a minute later, and with them all that their station says behind them.
    late: u32,
    /// The connection to this station breaks with the order of this number.
    broken: Option<(usize, u32)>,
    /// Of a thousand orders so many are answered by a failure.
    failing: u32,
    /// The user stops the run at this input.
    stop: Option<u32>,
    /// The warm-up never finds a stamp.
    cold: bool,
    /// Senders take 40 s, and say every quarter of a second how many packets are out: always as many, or one more each time.
    slow: Option<Slow>,
    /// Another experiment than [`EXPERIMENT`].
    experiment: Option<&'static str>,
}

/// Simulated stations.
struct World {
    random: Pcg64Mcg,
    faults: Faults,
    now_ns: i64,
    /// Inputs on their way, by when they arrive and in which order they were sent.
    coming: BTreeMap<(i64, u64), Input>,
    sent: u64,
    orders: u32,
    looks: u32,
    /// Orders that each station got.
    told: Vec<(StationId, ToAgent)>,
    /// When the latest message of each station arrives: a stream of bytes keeps its order.
    latest_ns: BTreeMap<StationId, i64>,
    /// Senders under way: their station, when they began, and the key of the message that says that they are done.
    sending: BTreeMap<u8, (StationId, i64, (i64, u64))>,
    /// Packets that each sent.
    packets: BTreeMap<u8, u32>,
    /// Ends whose rows arrive whole, by stream and side.
    handed: BTreeSet<(u8, Side)>,
    /// A failure arrives before the trial's end.
    has_failed: bool,
    /// How often what programs left behind was ended.
    leftovers_ended: u32,
    ids: Vec<StationId>,
    is_broken: bool,
    /// Orders that were told when it broke, the one with which it did among them.
    broke_at: usize,
}

impl World {
    fn now(&self) -> Now {
        Now { monotonic: Instant::from_ns(self.now_ns), tai: Instant::from_ns(1_000_000_000_000 + self.now_ns) }
    }

    fn come(&mut self, after_ns: i64, input: Input) {
        self.coming.insert((self.now_ns + after_ns, self.sent), input);
        self.sent += 1;
    }

    /// True so many times in a thousand.
    fn chance(&mut self, of_1000: u32) -> bool {
        self.random.random_range(0..1_000) < of_1000
    }

    /// When the next message of a station arrives.
    fn arrival_ns(&mut self, from: StationId) -> i64 {
        let late_ns = if self.chance(self.faults.late) { self.random.random_range(1..30) * 1_000_000_000 } else { 0 };
        let soon = self.now_ns + self.random.random_range(10_000..50_000_000) + late_ns;
        let at_ns = self.latest_ns.get(&from).map_or(soon, |latest| soon.max(latest + 1));
        self.latest_ns.insert(from, at_ns);
        at_ns
    }

    /// False if it gets lost.
    fn say(&mut self, from: StationId, message: FromAgent) -> bool {
        if self.chance(self.faults.lost) {
            return false;
        }
        let at_ns = self.arrival_ns(from);
        if self.chance(self.faults.doubled) {
            self.come(at_ns - self.now_ns, Input::Message(from, message.clone()));
        }
        self.come(at_ns - self.now_ns, Input::Message(from, message));
        true
    }

    /// A sender ends, `packets` of its packets having gone out.
    fn done(&mut self, at: StationId, stream: u8, packets: u32) {
        self.packets.insert(stream, packets);
        self.say(at, FromAgent::Done { stream, side: Side::Tx, packets: packets.into() });
    }

    /// All that one end recorded: what was sent at one that sends, what arrived at one that receives.
    fn hand_over(&mut self, at: StationId, end: EndId) {
        let EndId { stream, side } = end;
        let packets = self.packets.get(&stream).copied().unwrap_or(0);
        let is_whole = [
            side == Side::Rx || self.say(at, FromAgent::SenderPiece { end, rows: SenderHalf::only_sent(packets) }),
            side == Side::Tx || self.say(at, FromAgent::ArrivalPiece { end, arrivals: arrivals(end, packets) }),
            self.say(at, FromAgent::Collected { end, rest: Box::new(rest(end)) }),
        ];
        if is_whole == [true; 3] {
            self.handed.insert((stream, side));
        }
    }

    fn perform(&mut self, output: Output) {
        match output {
            Output::Tell(station, order) => self.obey(station, order),
            Output::Look => {
                self.looks += 1;
                self.come(0, Input::Looked(BTreeMap::new()));
            }
            Output::EndLeftovers => self.leftovers_ended += 1,
            Output::Progress { .. } => {}
        }
    }

    fn obey(&mut self, at: StationId, order: ToAgent) {
        self.orders += 1;
        self.told.push((at, order.clone()));
        let is_its = |world: &World, of: usize| world.ids[of] == at;
        if let Some((of, number)) = self.faults.broken
            && is_its(self, of)
            && (self.is_broken || self.orders >= number)
        {
            if !std::mem::replace(&mut self.is_broken, true) {
                self.broke_at = self.told.len();
            }
            let error = AgentError::Talk { station: "gone".to_owned(), source: MessageError::Closed };
            return self.come(0, Input::Lost(at, error));
        }
        if self.chance(self.faults.failing) {
            self.has_failed |= self.say(at, FromAgent::Failed("drawn to fail".to_owned()));
            return;
        }
        match order {
            ToAgent::Prepare { ends, .. } => {
                let ends = ends.iter().map(|end| EndReady {
                    stream: number(end),
                    side: end.side(),
                    thread: Default::default(),
                    absent: Vec::new(),
                    error_queue_bytes: 0,
                });
                let ends = ends.collect();
                self.say(at, FromAgent::Ready { ends, clocks: clocks() });
            }
            ToAgent::ConnectLoads => _ = self.say(at, FromAgent::LoadsConnected),
            ToAgent::WarmUp { stream, count, .. } => {
                let stamped = if self.faults.cold { 0 } else { count };
                self.say(at, FromAgent::Warmed { stream, stamped });
            }
            ToAgent::WarmStatus { stream, side } => {
                let (received, answered, answers_stamped, unstamped) = (10, 10, 10, 0);
                let (last_stamped, napi_id) = (true, 0);
                let status = FromAgent::WarmStatus {
                    stream,
                    side,
                    received,
                    unstamped,
                    last_stamped,
                    napi_id,
                    answered,
                    answers_stamped,
                };
                self.say(at, status);
            }
            ToAgent::Start { stream, side: Side::Tx, .. } if self.faults.slow.is_some() => {
                let moves = self.faults.slow == Some(Slow::Moving);
                for quarter in 1..160 {
                    let digest = Digest { done: if moves { quarter } else { 1 }, ..Digest::default() };
                    let told = FromAgent::Progress { stream, side: Side::Tx, digest };
                    self.come(quarter as i64 * 250_000_000, Input::Message(at, told));
                }
                self.packets.insert(stream, COUNT);
                let done = FromAgent::Done { stream, side: Side::Tx, packets: COUNT.into() };
                self.latest_ns.insert(at, self.now_ns + 40_000_000_000);
                self.come(40_000_000_000, Input::Message(at, done));
            }
            ToAgent::Start { stream, side: Side::Tx, .. } => {
                let digest = Digest { done: 1, ..Digest::default() };
                self.say(at, FromAgent::Progress { stream, side: Side::Tx, digest });
                // It says so when its last packet is out, unless it is stopped before.
                let took_ns = i64::from(COUNT) * CYCLE_NS;
                self.packets.insert(stream, COUNT);
                let at_ns = self.arrival_ns(at).max(self.now_ns + took_ns);
                self.latest_ns.insert(at, at_ns);
                let key = (at_ns, self.sent);
                self.sending.insert(stream, (at, self.now_ns, key));
                if self.chance(self.faults.lost) {
                    self.sending.remove(&stream);
                } else {
                    let packets = COUNT.into();
                    self.come(
                        at_ns - self.now_ns,
                        Input::Message(at, FromAgent::Done { stream, side: Side::Tx, packets }),
                    );
                }
            }
            ToAgent::StopSending => {
                let under_way = self.sending.iter().filter(|(_, (of, ..))| *of == at);
                let under_way: Vec<_> = under_way.map(|(stream, (_, began, key))| (*stream, *began, *key)).collect();
                for (stream, began_ns, key) in under_way {
                    let out = ((self.now_ns - began_ns) / CYCLE_NS) as u32;
                    if out < COUNT && self.coming.remove(&key).is_some() {
                        self.done(at, stream, out);
                    }
                    self.sending.remove(&stream);
                }
            }
            ToAgent::Finish { stream, side, .. } => {
                self.say(at, FromAgent::Done { stream, side, packets: u64::from(COUNT) });
            }
            ToAgent::Collect { stream, side } => self.hand_over(at, EndId { stream, side }),
            ToAgent::CollectLoads => _ = self.say(at, FromAgent::LoadsCollected),
            ToAgent::Measure(_) | ToAgent::Start { .. } | ToAgent::StartLoads { .. } => {}
            ToAgent::StopLoads => {}
        }
    }
}

/// What tells one end's record from another's.
fn mark(end: EndId) -> u32 {
    100 + 4 * u32::from(end.stream) + end.side as u32
}

fn arrivals(end: EndId, packets: u32) -> Vec<Arrival> {
    let arrival = |seq| Arrival { seq, tags: Tags::NONE, rx_kernel: MaybeNanos::NONE, receive_ns: mark(end).into() };
    (0..packets).map(arrival).collect()
}

fn rest(end: EndId) -> Collected {
    let thread = ThreadRecord { tid: mark(end), ..ThreadRecord::default() };
    let own = OwnNotes::default();
    Collected { sent: None, arrived: None, gaps: None, thread, clocks: clocks(), tcp: None, own }
}

fn number(end: &EndOrder) -> u8 {
    match end {
        EndOrder::Send(send) => send.order.stream,
        EndOrder::Receive(receive) => receive.order.stream,
        EndOrder::Reflect(reflect) => reflect.receive.order.stream,
        EndOrder::Ask(ask) => ask.send.order.stream,
    }
}

fn clocks() -> ClockReading {
    ClockReading { tai_ns: 0, realtime_ns: 0, monotonic_ns: 0, bound_ns: 10, tai_offset_s: 0 }
}

/// The streams and loads of a trial.
fn trial(experiment: &str) -> (Vec<Ordered>, Loads, BTreeMap<StationId, String>) {
    let source = tardy_spec::Source { name: "orderings.toml".into(), text: experiment.to_owned() };
    let setup = tardy_spec::load(&source, &[]).expect("it loads").cells.remove(0).setup;
    let plan = plan::plan(&setup, Names::FIRST, &Facts::default()).expect("a plan");
    let (chosen, _) = place_on(&setup, &[0, 1]).expect("placed");
    let mut random = orders::random_of(1, "all", 1);
    let (_, ordered) = orders::orders(&setup, &plan, &chosen, &mut random).expect("its stations are there");
    let loads = Loads::of(&setup, &plan, &[vec![[None, None]]], &mut random).expect("its stations are there");
    let stations = ["a", "b"].map(|name| (plan.station(name).expect("it is there"), name.to_owned()));
    (ordered, loads, stations.into())
}

/// What a trial came to, and what the world saw of it.
struct Ended {
    result: Result<Vec<StreamHalves>, Broken>,
    world: World,
    steps: u32,
}

fn run(seed: u64, faults: Faults) -> Ended {
    let (streams, mut loads, stations) = trial(faults.experiment.unwrap_or(EXPERIMENT));
    let mut world = World {
        random: Pcg64Mcg::seed_from_u64(seed),
        faults,
        now_ns: 0,
        coming: BTreeMap::new(),
        sent: 0,
        orders: 0,
        looks: 0,
        told: Vec::new(),
        latest_ns: BTreeMap::new(),
        sending: BTreeMap::new(),
        packets: BTreeMap::new(),
        handed: BTreeSet::new(),
        has_failed: false,
        leftovers_ended: 0,
        ids: stations.keys().copied().collect(),
        is_broken: false,
        broke_at: 0,
    };
    let (mut machine, mut outputs) =
        Machine::begin(&streams, &mut loads, stations, Nanos::from_millis(15), world.now());
    for steps in 0..STEPS {
        outputs.into_iter().for_each(|output| world.perform(output));
        if let Some(result) = machine.result() {
            assert!(machine.is_over());
            return Ended { result, world, steps };
        }
        let next = world.coming.first_key_value().map(|((at_ns, _), _)| *at_ns);
        let input = match (next, machine.deadline().map(Instant::ns)) {
            _ if faults.stop == Some(steps) => Input::Stop,
            (Some(at_ns), deadline) if deadline.is_none_or(|deadline| at_ns <= deadline) => {
                world.now_ns = world.now_ns.max(at_ns);
                world.coming.pop_first().map_or(Input::Tick, |(_, input)| input)
            }
            (_, Some(deadline)) => {
                world.now_ns = world.now_ns.max(deadline + 1);
                Input::Tick
            }
            (None, None) => panic!("seed {seed}: the trial waits for nothing, in step {steps}"),
            (Some(_), None) => unreachable!("the arm above takes it"),
        };
        outputs = machine.handle(world.now(), input);
    }
    panic!("seed {seed}: not over after {STEPS} inputs");
}

fn rows(halves: &[StreamHalves]) -> Vec<usize> {
    halves.iter().map(|halves| halves.halves.sent.len()).collect()
}

/// Whose records a stream's halves are of: of each end the thread, and of one that received the arrivals.
fn marks(stream: u8, halves: &StreamHalves) -> BTreeSet<(Side, u32)> {
    let halves = &halves.halves;
    let arrived =
        |side, arrivals: &[Arrival]| arrivals.iter().map(|it| (side, it.receive_ns as u32)).collect::<Vec<_>>();
    let reply = halves.reply.as_ref();
    let replies_at = if stream == 2 { Side::Tx } else { Side::Reply };
    let threads = [(Side::Tx, halves.tx_thread.tid), (Side::Rx, halves.rx_thread.tid)];
    let of_reply = reply.and_then(|reply| Some((Side::Reply, reply.thread.as_ref()?.tid)));
    let all = threads.into_iter().chain(of_reply).chain(arrived(Side::Rx, &halves.arrivals));
    let all = all.chain(reply.map(|reply| arrived(replies_at, &reply.arrivals)).unwrap_or_default());
    // An end that handed nothing over left none.
    all.filter(|(_, mark)| *mark != 0).collect()
}

/// Each record is of the very end in whose place it is.
fn assert_in_place(stream: usize, halves: &StreamHalves, seed: u64) {
    let stream = stream as u8;
    for (side, found) in marks(stream, halves) {
        assert_eq!(found, mark(EndId { stream, side }), "seed {seed}: stream {stream}, {side}");
    }
}

/// The ends of each stream.
fn sides(stream: usize) -> &'static [Side] {
    [&[Side::Tx, Side::Rx][..], &[Side::Tx, Side::Rx, Side::Reply], &[Side::Tx, Side::Rx]][stream]
}

#[test]
fn without_faults_every_ordering_ends_with_all_halves() {
    for seed in 0..500 {
        let Ended { result, world, .. } = run(seed, Faults::default());
        let halves = result.unwrap_or_else(|broken| panic!("seed {seed}: {}", broken.error));
        assert_eq!(rows(&halves), [COUNT as usize; 3], "seed {seed}");
        for (stream, halves) in halves.iter().enumerate() {
            assert_in_place(stream, halves, seed);
            let ends: BTreeSet<Side> = marks(stream as u8, halves).into_iter().map(|(side, _)| side).collect();
            assert_eq!(ends, sides(stream).iter().copied().collect(), "seed {seed}");
        }
        assert_eq!(world.looks, 2, "seed {seed}");
        // The sender of each stream begins behind its receivers, and all by one base time each.
        let starts: Vec<(u8, Side, i64)> = world.told.iter().filter_map(|(_, order)| started(order)).collect();
        for stream in 0..3 {
            let of: Vec<_> = starts.iter().filter(|(of, ..)| *of == stream).collect();
            assert_eq!(of.last().map(|(_, side, _)| *side), Some(Side::Tx), "seed {seed}: {starts:?}");
            assert!(of.iter().all(|(_, _, base)| *base == halves[usize::from(stream)].base.ns()), "seed {seed}");
        }
        // What is ordered, and in which order.
        let mut phases: Vec<&str> = world.told.iter().map(|(_, order)| phase(order)).collect();
        phases.dedup();
        let first_of_each: Vec<&str> = ORDER.iter().copied().filter(|name| phases.contains(name)).collect();
        assert_eq!(first_of_each, ORDER, "seed {seed}");
        let at = |name| phases.iter().position(|phase| *phase == name);
        assert!(ORDER.windows(2).all(|two| at(two[0]) < at(two[1])), "seed {seed}: {phases:?}");
        let of_loads = world.told.iter().find_map(|(_, order)| match order {
            ToAgent::StartLoads { base } => Some(base.ns()),
            _ => None,
        });
        assert_eq!(of_loads, Some(halves[0].base.ns()), "seed {seed}");
    }
}

/// Orders of a trial in their order.
const ORDER: [&str; 9] =
    ["prepare", "connect loads", "warm up", "start loads", "start", "finish", "stop loads", "collect loads", "collect"];

fn phase(order: &ToAgent) -> &'static str {
    match order {
        ToAgent::Measure(_) => "measure",
        ToAgent::Prepare { .. } => "prepare",
        ToAgent::ConnectLoads => "connect loads",
        ToAgent::WarmUp { .. } | ToAgent::WarmStatus { .. } => "warm up",
        ToAgent::StartLoads { .. } => "start loads",
        ToAgent::Start { .. } => "start",
        ToAgent::StopSending => "stop sending",
        ToAgent::Finish { .. } => "finish",
        ToAgent::StopLoads => "stop loads",
        ToAgent::CollectLoads => "collect loads",
        ToAgent::Collect { .. } => "collect",
    }
}

fn started(order: &ToAgent) -> Option<(u8, Side, i64)> {
    match order {
        ToAgent::Start { stream, side, base } => Some((*stream, *side, base.ns())),
        _ => None,
    }
}

#[test]
fn every_ordering_of_late_lost_and_doubled_messages_ends() {
    let (mut whole, mut broken) = (0, 0);
    for seed in 0..1_000 {
        let faults = Faults { lost: 5, doubled: 100, late: 20, failing: 2, ..Faults::default() };
        let Ended { result, world, .. } = run(seed, faults);
        match result {
            Ok(halves) => {
                whole += 1;
                assert_eq!(halves.len(), 3, "seed {seed}");
                for (stream, halves) in halves.iter().enumerate() {
                    assert_in_place(stream, halves, seed);
                    let ends: BTreeSet<Side> = marks(stream as u8, halves).into_iter().map(|(side, _)| side).collect();
                    assert_eq!(ends, sides(stream).iter().copied().collect(), "seed {seed}");
                }
            }
            Err(error) => {
                broken += 1;
                assert_eq!(error.had.len(), 3, "seed {seed}: a place for each stream");
                for (stream, had) in error.had.iter().enumerate() {
                    had.iter().for_each(|had| assert_in_place(stream, had, seed));
                }
            }
        }
        // Each phase has its limit, and each end three seconds when something failed.
        assert!(world.now_ns < 200_000_000_000, "seed {seed}: {} ns", world.now_ns);
    }
    assert!(whole > 100 && broken > 100, "{whole} whole, {broken} broken: the faults are too rare or too frequent");
}

#[test]
fn a_late_answer_was_taken_for_that_of_another_end() {
    let mut late = 0;
    for seed in 0..2_000 {
        let Ended { result, .. } = run(seed, Faults { late: 60, ..Faults::default() });
        let halves: Vec<(usize, StreamHalves)> = match result {
            Ok(halves) => halves.into_iter().enumerate().collect(),
            Err(broken) => {
                late += 1;
                broken.had.into_iter().enumerate().filter_map(|(i, had)| Some((i, had?))).collect()
            }
        };
        halves.iter().for_each(|(stream, halves)| assert_in_place(*stream, halves, seed));
    }
    assert!(late > 50, "{late} answers came after their time: too few");
}

#[test]
fn doubled_messages_alone_change_nothing() {
    for seed in 0..300 {
        let result = run(seed, Faults { doubled: 1_000, ..Faults::default() }).result;
        let halves = result.unwrap_or_else(|broken| panic!("seed {seed}: {}", broken.error));
        for (stream, halves) in halves.iter().enumerate() {
            assert_in_place(stream, halves, seed);
        }
        assert_eq!(halves.len(), 3, "seed {seed}");
    }
}

#[test]
fn a_station_that_goes_away_at_any_order_leaves_what_the_other_had() {
    let mut salvaged = BTreeSet::new();
    for number in 1..60 {
        for of in 0..2 {
            let Ended { result, world, .. } =
                run(u64::from(number), Faults { broken: Some((of, number)), ..Faults::default() });
            if !world.is_broken {
                assert!(result.is_ok(), "nothing went wrong");
                continue;
            }
            let Err(broken) = result else { panic!("order {number}: the trial is whole without station {of}") };
            assert!(matches!(broken.error, TrialError::Agent(AgentError::Talk { .. })), "{}", broken.error);
            let began = world.told.iter().any(|(_, order)| matches!(order, ToAgent::Start { .. }));
            assert!(began || broken.had.iter().all(Option::is_none), "nothing began, and nothing was recorded");
            for (stream, had) in broken.had.iter().enumerate() {
                let Some(had) = had else { continue };
                assert_in_place(stream, had, number.into());
                // A thread that is named though its end is gone was named when it was made ready, by no mark.
                let there: BTreeSet<Side> = marks(stream as u8, had).into_iter().map(|(side, _)| side).collect();
                for side in sides(stream) {
                    assert_eq!(there.contains(side), world.handed.contains(&(stream as u8, *side)), "{stream} {side}");
                }
                let sent = world.packets.get(&(stream as u8)).copied().unwrap_or(0);
                assert_eq!(had.halves.sent.len(), sent as usize, "rows for what was sent, or for what arrived");
            }
            salvaged.insert(broken.had.iter().filter(|had| had.is_some()).count());
            let lost = world.ids[of];
            let behind = world.told.iter().skip(world.broke_at).filter(|(at, _)| *at == lost);
            let asked = behind.filter(|(_, order)| phase(order) == "collect").count();
            assert_eq!(asked, 0, "order {number}: a station that is gone is asked for its halves");
        }
    }
    assert!(salvaged.contains(&0) && salvaged.contains(&3), "{salvaged:?}");
}

#[test]
fn a_stop_at_any_moment_ends_the_trial_with_what_was_sent() {
    let mut cut = 0;
    for at in 0..60 {
        let Ended { result, world, .. } = run(u64::from(at), Faults { stop: Some(at), ..Faults::default() });
        let halves = result.unwrap_or_else(|broken| panic!("stopped at {at}: {}", broken.error));
        let sent: Vec<usize> = world.packets.values().map(|packets| *packets as usize).collect();
        assert_eq!(rows(&halves), sent, "stopped at {at}");
        cut += usize::from(sent.iter().any(|sent| *sent < COUNT as usize));
        // Who was told to send is told to stop, behind the order to start, unless all have sent everything by then.
        let all: Vec<(StationId, &str)> = world.told.iter().map(|(of, order)| (*of, phase(order))).collect();
        let stops: Vec<usize> = (0..all.len()).filter(|n| all[*n].1 == "stop sending").collect();
        let told: BTreeSet<StationId> = stops.iter().map(|n| all[*n].0).collect();
        let was_over = all.iter().any(|(_, phase)| *phase == "collect loads");
        assert!(stops.len() == 2 && told.len() == 2 || was_over && stops.is_empty(), "stopped at {at}: {all:?}");
        assert!(stops.iter().all(|n| all[..*n].iter().any(|(_, phase)| *phase == "start")), "stopped at {at}: {all:?}");
    }
    assert!(cut > 5, "{cut} stops came while packets were sent: too few");
}

#[test]
fn a_warm_up_that_finds_no_stamps_ends_at_its_limit() {
    for seed in 0..20 {
        let Ended { result, world, .. } = run(seed, Faults { cold: true, ..Faults::default() });
        let halves = result.unwrap_or_else(|broken| panic!("seed {seed}: {}", broken.error));
        assert!(halves.iter().all(|halves| !halves.halves.warmup.flowed && halves.halves.warmup.sent > 0));
        assert!((2_000_000_000..4_000_000_000).contains(&world.now_ns), "{} ns", world.now_ns);
    }
}

#[test]
fn one_seed_gives_one_course() {
    let faults = Faults { lost: 5, doubled: 100, late: 5, failing: 2, ..Faults::default() };
    for seed in 0..20 {
        let [one, other] = [run(seed, faults), run(seed, faults)];
        assert_eq!((one.steps, one.world.now_ns), (other.steps, other.world.now_ns));
        assert_eq!(one.world.told, other.world.told);
    }
}

#[test]
fn only_a_count_that_moves_is_a_sign_of_life() {
    let slow = |slow| run(1, Faults { slow: Some(slow), ..Faults::default() });
    let Ended { result, world, .. } = slow(Slow::Stuck);
    let Err(broken) = result else { panic!("a sender that is stuck ends the trial") };
    let says = broken.error.to_string();
    assert!(says.contains("did not answer within 20 s while the trial runs"), "{says}");
    assert!((20_000_000_000..30_000_000_000).contains(&world.now_ns), "{} ns", world.now_ns);
    let Ended { result, world, .. } = slow(Slow::Moving);
    assert!(result.is_ok() && world.now_ns > 40_000_000_000, "one that sends on is waited for");
}

/// A load that is a program, and an end that can only wait by polling a device, which no socket of this world has.
const CANNOT: &str = r#"
name = "cannot"
[station.a]
[station.b]
[stream.one]
from = "a"
to = "b"
count = 10
cycle = "1ms"
rx = { wait = "busypoll" }
[load.busy]
kind = "command"
from = "b"
command = ["true"]
"#;

#[test]
fn a_cell_that_cannot_be_run_left_the_programs_of_its_loads_running_into_the_next_one() {
    let Ended { result, world, .. } = run(1, Faults { experiment: Some(CANNOT), ..Faults::default() });
    let Err(Broken { error: TrialError::CannotDo(why), had }) = result else { panic!("it cannot be done here") };
    assert!(why.contains("busypoll"), "{why}");
    assert!(had.iter().all(Option::is_none), "nothing began");
    let phases: Vec<&str> = world.told.iter().map(|(_, order)| phase(order)).collect();
    assert!(!phases.contains(&"start"), "{phases:?}");
    let at = |name| phases.iter().position(|phase| *phase == name);
    assert!(at("connect loads") < at("stop loads") && at("stop loads").is_some(), "{phases:?}");
    assert_eq!(world.leftovers_ended, 1);
}
