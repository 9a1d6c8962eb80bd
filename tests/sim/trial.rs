// SPDX-License-Identifier: MIT OR Apache-2.0
//! A trial led through orderings that are drawn: messages late, doubled and lost, stations that fail, a stop at any moment. The stations
//! are simulated; the state machine is the real one.

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::collections::{BTreeMap, BTreeSet};
use tardy_engine::live::Digest;
use tardy_engine::message::{Collected, EndReady, FromAgent, MessageError, ToAgent};
use tardy_engine::order::EndOrder;
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
use tardy_lab::trial::{Broken, StreamHalves};
use tardy_model::stream::Side;
use tardy_model::time::{ClockReading, Instant, Nanos};
use tardy_model::trial::OwnNotes;

/// Packets of each stream.
const COUNT: u32 = 10;
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

/// What goes wrong.
#[derive(Clone, Copy, Default)]
struct Faults {
    /// Of a thousand messages so many never arrive.
    lost: u32,
    /// Of a thousand so many arrive twice.
    doubled: u32,
    /// Of a thousand so many arrive half a minute later.
    late: u32,
    /// The connection to this station breaks with the order of this number.
    broken: Option<(usize, u32)>,
    /// Of a thousand orders so many are answered by a failure.
    failing: u32,
    /// The user stops the run at this input.
    stop: Option<u32>,
    /// The warm-up never finds a stamp.
    cold: bool,
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
    ids: Vec<StationId>,
    is_broken: bool,
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

    fn say(&mut self, from: StationId, message: FromAgent) {
        if self.chance(self.faults.lost) {
            return;
        }
        let late_ns = if self.chance(self.faults.late) { 30_000_000_000 } else { 0 };
        let after_ns = self.random.random_range(10_000..50_000_000) + late_ns;
        if self.chance(self.faults.doubled) {
            let again_ns = self.random.random_range(0..5_000_000);
            self.come(after_ns + again_ns, Input::Message(from, message.clone()));
        }
        self.come(after_ns, Input::Message(from, message));
    }

    fn perform(&mut self, output: Output) {
        match output {
            Output::Tell(station, order) => self.obey(station, order),
            Output::Look => {
                self.looks += 1;
                self.come(0, Input::Looked);
            }
            Output::EndLeftovers | Output::Progress { .. } => {}
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
            self.is_broken = true;
            let error = AgentError::Talk { station: "gone".to_owned(), source: MessageError::Closed };
            return self.come(0, Input::Lost(at, error));
        }
        if self.chance(self.faults.failing) {
            return self.say(at, FromAgent::Failed("drawn to fail".to_owned()));
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
            ToAgent::ConnectLoads => self.say(at, FromAgent::LoadsConnected),
            ToAgent::WarmUp { stream, count, .. } => {
                let stamped = if self.faults.cold { 0 } else { count };
                self.say(at, FromAgent::Warmed { stream, stamped });
            }
            ToAgent::WarmStatus { stream, side } => self.say(
                at,
                FromAgent::WarmStatus {
                    stream,
                    side,
                    received: 10,
                    unstamped: 0,
                    last_stamped: true,
                    napi_id: 0,
                    answered: 10,
                    answers_stamped: 10,
                },
            ),
            ToAgent::Start { stream, side: Side::Tx, .. } => {
                let digest = Digest { done: 1, ..Digest::default() };
                self.say(at, FromAgent::Progress { stream, side: Side::Tx, digest });
                self.say(at, FromAgent::Done { stream, side: Side::Tx, packets: u64::from(COUNT) });
            }
            ToAgent::Finish { stream, side, .. } => {
                self.say(at, FromAgent::Done { stream, side, packets: u64::from(COUNT) });
            }
            ToAgent::Collect { side, .. } => {
                if side != Side::Rx {
                    self.say_in_order(at, FromAgent::SenderPiece(SenderHalf::only_sent(COUNT)));
                }
                let rest = Collected {
                    sent: None,
                    arrived: None,
                    gaps: None,
                    thread: Default::default(),
                    clocks: clocks(),
                    tcp: None,
                    own: OwnNotes::default(),
                };
                self.say(at, FromAgent::Collected(Box::new(rest)));
            }
            ToAgent::CollectLoads => self.say(at, FromAgent::LoadsCollected),
            ToAgent::Measure(_) | ToAgent::Start { .. } | ToAgent::StartLoads { .. } => {}
            ToAgent::StopLoads | ToAgent::StopSending => {}
        }
    }

    /// A stream of bytes keeps its order: what comes before something else arrives at once here.
    fn say_in_order(&mut self, from: StationId, message: FromAgent) {
        self.come(0, Input::Message(from, message));
    }
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
fn trial() -> (Vec<Ordered>, Loads, BTreeMap<StationId, String>) {
    let source = tardy_spec::Source { name: "orderings.toml".into(), text: EXPERIMENT.to_owned() };
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
    let (streams, mut loads, stations) = trial();
    let mut world = World {
        random: Pcg64Mcg::seed_from_u64(seed),
        faults,
        now_ns: 0,
        coming: BTreeMap::new(),
        sent: 0,
        orders: 0,
        looks: 0,
        told: Vec::new(),
        ids: stations.keys().copied().collect(),
        is_broken: false,
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

#[test]
fn without_faults_every_ordering_ends_with_all_halves() {
    for seed in 0..500 {
        let Ended { result, world, .. } = run(seed, Faults::default());
        let halves = result.unwrap_or_else(|broken| panic!("seed {seed}: {}", broken.error));
        assert_eq!(rows(&halves), [COUNT as usize; 3], "seed {seed}");
        assert_eq!(world.looks, 2, "seed {seed}");
        // The sender of each stream begins behind its receivers, and all by one base time each.
        let starts: Vec<(u8, Side)> = world.told.iter().filter_map(|(_, order)| started(order)).collect();
        let last = |stream| starts.iter().rev().find(|(of, _)| *of == stream).map(|(_, side)| *side);
        assert!((0..3).all(|stream| last(stream) == Some(Side::Tx)), "seed {seed}: {starts:?}");
    }
}

fn started(order: &ToAgent) -> Option<(u8, Side)> {
    match order {
        ToAgent::Start { stream, side, .. } => Some((*stream, *side)),
        _ => None,
    }
}

#[test]
fn every_ordering_of_late_lost_and_doubled_messages_ends() {
    let (mut whole, mut broken) = (0, 0);
    for seed in 0..1_000 {
        let faults = Faults { lost: 5, doubled: 100, late: 5, failing: 2, ..Faults::default() };
        match run(seed, faults).result {
            Ok(halves) => {
                whole += 1;
                assert_eq!(halves.len(), 3, "seed {seed}");
            }
            Err(error) => {
                broken += 1;
                assert_eq!(error.had.len(), 3, "seed {seed}: a place for each stream");
                assert!(!error.error.to_string().is_empty());
            }
        }
    }
    assert!(whole > 100 && broken > 100, "{whole} whole, {broken} broken: the faults are too rare or too frequent");
}

#[test]
fn doubled_messages_alone_change_nothing() {
    for seed in 0..300 {
        let result = run(seed, Faults { doubled: 1_000, ..Faults::default() }).result;
        let halves = result.unwrap_or_else(|broken| panic!("seed {seed}: {}", broken.error));
        assert_eq!(halves.len(), 3, "seed {seed}");
    }
}

#[test]
fn a_station_that_goes_away_at_any_order_leaves_what_the_other_had() {
    let mut salvaged = BTreeSet::new();
    for number in 1..60 {
        for of in 0..2 {
            let Ended { result, world, steps } =
                run(u64::from(number), Faults { broken: Some((of, number)), ..Faults::default() });
            assert!(steps < STEPS);
            if !world.is_broken {
                assert!(result.is_ok(), "nothing went wrong");
                continue;
            }
            let Err(broken) = result else {
                // It went away when it had handed everything over.
                continue;
            };
            let began = world.told.iter().any(|(_, order)| matches!(order, ToAgent::Start { .. }));
            assert!(began || broken.had.iter().all(Option::is_none), "nothing began, and nothing was recorded");
            salvaged.insert(broken.had.iter().filter(|had| had.is_some()).count());
        }
    }
    assert!(salvaged.contains(&0) && salvaged.contains(&3), "{salvaged:?}");
}

#[test]
fn a_stop_at_any_moment_ends_the_trial_with_what_was_sent() {
    for at in 0..60 {
        let Ended { result, world, .. } = run(u64::from(at), Faults { stop: Some(at), ..Faults::default() });
        let halves = result.unwrap_or_else(|broken| panic!("stopped at {at}: {}", broken.error));
        assert_eq!(halves.len(), 3);
        let stops = world.told.iter().filter(|(_, order)| matches!(order, ToAgent::StopSending)).count();
        assert!(stops == 0 || stops == 2, "each station hears it once, or the trial was over: {stops}");
    }
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
