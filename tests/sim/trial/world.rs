// SPDX-License-Identifier: MIT OR Apache-2.0
//! Simulated stations for a trial's state machine, and what goes wrong with them.

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
use tardy_lab::machine::{Facts, FactsByHost};
use tardy_lab::names::Names;
use tardy_lab::orders::{self, Ordered};
use tardy_lab::placement::place;
use tardy_lab::plan;
use tardy_lab::station::StationId;
use tardy_lab::trial::machine::{Input, Now, Output, TrialMachine};
use tardy_lab::trial::{Broken, StreamHalves};
use tardy_model::ethernet::Tags;
use tardy_model::machine::ThreadRecord;
use tardy_model::sample::MaybeNanos;
use tardy_model::stream::Side;
use tardy_model::time::{ClockReading, Instant, Nanos};
use tardy_model::trial::OwnNotes;

/// Packets of each stream.
pub(super) const COUNT: u32 = 10;
/// Time between a sender's packets, ns.
pub(super) const CYCLE_NS: i64 = 1_000_000;
/// No ordering takes more inputs than this. The warm-up asks each stream for its limit of 2 s at least every 50 ms.
pub(super) const STEPS: u32 = 4_000;

pub(super) const EXPERIMENT: &str = r#"
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
pub(super) enum Slow {
    Stuck,
    Moving,
}

/// What goes wrong.
#[derive(Clone, Copy, Default)]
pub(super) struct Faults {
    /// Of a thousand messages so many never arrive.
    pub(super) lost: u32,
    /// Of a thousand so many arrive twice.
    pub(super) doubled: u32,
    /// Of a thousand so many arrive up to half a minute later, and with them all that their station says behind them.
    pub(super) late: u32,
    /// The connection to this station breaks with the order of this number.
    pub(super) broken: Option<(usize, u32)>,
    /// Of a thousand orders so many are answered by a failure.
    pub(super) failing: u32,
    /// The user stops the run at this input.
    pub(super) stop: Option<u32>,
    /// The warm-up never finds a stamp.
    pub(super) cold: bool,
    /// Senders take 40 s, and say every quarter of a second how many packets are out: always as many, or one more each time.
    pub(super) slow: Option<Slow>,
    /// Another experiment than [`EXPERIMENT`].
    pub(super) experiment: Option<&'static str>,
}

/// Simulated stations.
pub(super) struct World {
    pub(super) random: Pcg64Mcg,
    pub(super) faults: Faults,
    pub(super) now_ns: i64,
    /// Inputs on their way, by when they arrive and in which order they were sent.
    pub(super) coming: BTreeMap<(i64, u64), Input>,
    pub(super) sent: u64,
    pub(super) orders: u32,
    pub(super) looks: u32,
    /// Orders that each station got.
    pub(super) told: Vec<(StationId, ToAgent)>,
    /// When the latest message of each station arrives: a stream of bytes keeps its order.
    pub(super) latest_ns: BTreeMap<StationId, i64>,
    /// Senders under way: their station, when they began, and the key of the message that says that they are done.
    pub(super) sending: BTreeMap<u8, (StationId, i64, (i64, u64))>,
    /// Packets that each sent.
    pub(super) packets: BTreeMap<u8, u32>,
    /// Ends whose rows arrive whole, by stream and side.
    pub(super) handed: BTreeSet<(u8, Side)>,
    /// A failure arrives before the trial's end.
    pub(super) has_failed: bool,
    /// How often what programs left behind was ended.
    pub(super) leftovers_ended: u32,
    pub(super) ids: Vec<StationId>,
    pub(super) is_broken: bool,
    /// Orders that were told when it broke, the one with which it did among them.
    pub(super) broke_at: usize,
}

impl World {
    pub(super) fn now(&self) -> Now {
        Now { monotonic: Instant::from_ns(self.now_ns), tai: Instant::from_ns(1_000_000_000_000 + self.now_ns) }
    }

    pub(super) fn come(&mut self, after_ns: i64, input: Input) {
        self.coming.insert((self.now_ns + after_ns, self.sent), input);
        self.sent += 1;
    }

    /// True so many times in a thousand.
    pub(super) fn chance(&mut self, of_1000: u32) -> bool {
        self.random.random_range(0..1_000) < of_1000
    }

    /// When the next message of a station arrives.
    pub(super) fn arrival_ns(&mut self, from: StationId) -> i64 {
        let late_ns = if self.chance(self.faults.late) { self.random.random_range(1..30) * 1_000_000_000 } else { 0 };
        let soon = self.now_ns + self.random.random_range(10_000..50_000_000) + late_ns;
        let at_ns = self.latest_ns.get(&from).map_or(soon, |latest| soon.max(latest + 1));
        self.latest_ns.insert(from, at_ns);
        at_ns
    }

    /// False if it gets lost.
    pub(super) fn say(&mut self, from: StationId, message: FromAgent) -> bool {
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
    pub(super) fn done(&mut self, at: StationId, stream: u8, packets: u32) {
        self.packets.insert(stream, packets);
        self.say(at, FromAgent::Done { stream, side: Side::Tx, packets: packets.into() });
    }

    /// All that one end recorded: what was sent at one that sends, what arrived at one that receives.
    pub(super) fn hand_over(&mut self, at: StationId, end: EndId) {
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

    pub(super) fn perform(&mut self, output: Output) {
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

    pub(super) fn obey(&mut self, at: StationId, order: ToAgent) {
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
pub(super) fn mark(end: EndId) -> u32 {
    100 + 4 * u32::from(end.stream) + end.side as u32
}

pub(super) fn arrivals(end: EndId, packets: u32) -> Vec<Arrival> {
    let arrival = |seq| Arrival { seq, tags: Tags::NONE, rx_kernel: MaybeNanos::NONE, receive_ns: mark(end).into() };
    (0..packets).map(arrival).collect()
}

pub(super) fn rest(end: EndId) -> Collected {
    let thread = ThreadRecord { tid: mark(end), ..ThreadRecord::default() };
    let own = OwnNotes::default();
    Collected { sent: None, arrived: None, gaps: None, thread, clocks: clocks(), tcp: None, own }
}

pub(super) fn number(end: &EndOrder) -> u8 {
    match end {
        EndOrder::Send(send) => send.order.stream,
        EndOrder::Receive(receive) => receive.order.stream,
        EndOrder::Reflect(reflect) => reflect.receive.order.stream,
        EndOrder::Ask(ask) => ask.send.order.stream,
    }
}

pub(super) fn clocks() -> ClockReading {
    ClockReading { tai_ns: 0, realtime_ns: 0, monotonic_ns: 0, bound_ns: 10, tai_offset_s: 0 }
}

/// The streams and loads of a trial.
pub(super) fn trial(experiment: &str) -> (Vec<Ordered>, Loads, BTreeMap<StationId, String>) {
    let source = tardy_spec::Source { name: "orderings.toml".into(), text: experiment.to_owned() };
    let setup = tardy_spec::load(&source, &[]).expect("it loads").cells.remove(0).setup;
    let found = FactsByHost::from(Facts { usable: vec![0, 1], ..Facts::default() });
    let plan = plan::plan(&setup, Names::FIRST, &found).expect("a plan");
    let (chosen, _) = place(&setup, &found).expect("placed");
    let mut random = orders::random_of(1, "all", 1);
    let (_, ordered) = orders::orders(&setup, &plan, &chosen, &mut random).expect("its stations are there");
    let loads = Loads::of(&setup, &plan, &[vec![[None, None]]], &mut random).expect("its stations are there");
    let stations = ["a", "b"].map(|name| (plan.station(name).expect("it is there"), name.to_owned()));
    (ordered, loads, stations.into())
}

/// What a trial came to, and what the world saw of it.
pub(super) struct Ended {
    pub(super) result: Result<Vec<StreamHalves>, Broken>,
    pub(super) world: World,
    pub(super) steps: u32,
}

pub(super) fn run(seed: u64, faults: Faults) -> Ended {
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
        TrialMachine::begin(&streams, &mut loads, stations, Nanos::from_millis(15), world.now());
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
