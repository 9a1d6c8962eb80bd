// SPDX-License-Identifier: MIT OR Apache-2.0
//! Simulated stations for a trial's state machine, and what goes wrong with them.

use rand::Rng;
use rand_pcg::Pcg64Mcg;
use std::collections::{BTreeMap, BTreeSet};
use tardy_engine::live::Digest;
use tardy_engine::message::{
    ActivityId, ActivityOrder, ActivitySummary, EndReady, EndSummary, FromAgent, MessageError, ToAgent,
};
use tardy_engine::receiver::Arrival;
use tardy_engine::sender::SentRows;
use tardy_lab::agent::AgentError;
use tardy_lab::loads::Loads;
use tardy_lab::machine::{Facts, FactsByHost};
use tardy_lab::names::Names;
use tardy_lab::orders::Ordered;
use tardy_lab::placement::place;
use tardy_lab::station::StationId;
use tardy_lab::trial::machine::{Input, Now, Output};
use tardy_lab::{orders, plan};
use tardy_model::ethernet::Tags;
use tardy_model::load::SideRecord;
use tardy_model::placement::ThreadRecord;
use tardy_model::sample::MaybeNanos;
use tardy_model::stream::Side;
use tardy_model::time::{ClockReading, Instant};
use tardy_model::trial::OwnNotes;

/// Packets of each stream.
pub(super) const COUNT: u32 = 10;

/// Time between a sender's packets, ns.
pub(super) const CYCLE_NS: i64 = 1_000_000;

/// No ordering takes more inputs than this. The warm-up asks each stream for its limit of 2 s at
/// least every 50 ms.
pub(super) const STEPS: u32 = 4_000;

/// What a sender that takes long reports.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Slow {
    Stuck,
    Moving,
    /// It takes 21 s, and says nothing at all meanwhile.
    Silent {
        /// Which the trial expects.
        expected: bool,
    },
}

/// An end of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct EndId {
    pub(super) stream: u8,
    pub(super) side: Side,
}

/// What an activity is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    End(EndId),
    Load,
}

/// A number that no activity has.
pub(super) const NOBODY: ActivityId = ActivityId(1_000);

#[derive(Clone, Copy, Default)]
pub(super) struct Faults {
    /// How many of a thousand messages never arrive.
    pub(super) lost: u32,
    /// How many of a thousand arrive twice.
    pub(super) doubled: u32,
    /// How many of a thousand arrive up to half a minute later, and with them all that their
    /// station says after them.
    pub(super) late: u32,
    /// The connection to this station breaks with the order of this number.
    pub(super) broken: Option<(usize, u32)>,
    /// How many of a thousand orders are answered by a failure.
    pub(super) failing: u32,
    /// The user stops the run at this input.
    pub(super) stop: Option<u32>,
    /// The XDP program is the user's own.
    pub(super) own_program: bool,
    /// The warm-up never finds a stamp.
    pub(super) cold: bool,
    /// No packet of the warm-up has a stamp when it arrives.
    pub(super) bare: bool,
    /// Senders take 40 s, and say every quarter of a second how many packets are out: always as
    /// many, or one more each time.
    pub(super) slow: Option<Slow>,
    /// Another experiment than `orderings`.
    pub(super) experiment: Option<&'static str>,
    /// The trial has the experiment's loads and none of its streams.
    pub(super) only_loads: bool,
    /// How many of a thousand messages about an activity name one that is nobody's or another
    /// station's instead.
    pub(super) misnamed: u32,
    /// The receiver of the first stream hands over 200 pieces like this one in addition.
    pub(super) endless: Option<fn(ActivityId) -> FromAgent>,
    /// It hands over a piece with nothing in it every second instead, and nothing else.
    pub(super) empty: Option<fn(ActivityId) -> FromAgent>,
    /// Where the XDP program runs, as the warm-up shows it.
    pub(super) program_cpus: &'static [u32],
}

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
    /// What each activity is, and where it was made ready.
    pub(super) activities: BTreeMap<ActivityId, (StationId, What)>,
    /// Activities that have handed over, and are not there any more.
    pub(super) collected: BTreeSet<ActivityId>,
    /// Senders under way: when they began, and the key of the message that says that they are
    /// done.
    pub(super) sending: BTreeMap<ActivityId, (i64, (i64, u64))>,
    /// Packets that each sent.
    pub(super) packets: BTreeMap<u8, u32>,
    /// Ends whose rows arrive whole, by stream and side.
    pub(super) handed: BTreeSet<(u8, Side)>,
    /// Messages that named an activity that is not their station's.
    pub(super) misnamed: u32,
    /// A failure arrives before the trial's end.
    pub(super) has_failed: bool,
    /// How often what programs left behind was ended.
    pub(super) leftovers_ended: u32,
    /// Warm-up packets that were reported to have no stamp of the user's XDP program, and whether
    /// the trial had begun by then.
    pub(super) unstamped: Vec<(u32, bool)>,
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

    /// True `of_1000` times in a thousand.
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

    /// Names another activity than its own, if that is drawn.
    fn named(&mut self, from: StationId, own: ActivityId) -> ActivityId {
        if !self.chance(self.faults.misnamed) {
            return own;
        }
        self.misnamed += 1;
        let theirs: Vec<_> = self.activities.iter().filter(|(_, (at, _))| *at != from).map(|(id, _)| *id).collect();
        match self.random.random_range(0..=theirs.len()) {
            0 => NOBODY,
            n => theirs[n - 1],
        }
    }

    /// The same message about another activity, if that is drawn.
    fn misname(&mut self, from: StationId, mut message: FromAgent) -> FromAgent {
        match &mut message {
            FromAgent::Warmed { activity, .. }
            | FromAgent::WarmStatus { activity, .. }
            | FromAgent::Progress { activity, .. }
            | FromAgent::Done { activity, .. }
            | FromAgent::SenderPiece { activity, .. }
            | FromAgent::ArrivalPiece { activity, .. }
            | FromAgent::XdpPiece { activity, .. }
            | FromAgent::AreaPiece { activity, .. }
            | FromAgent::LoadOutput { activity, .. }
            | FromAgent::Collected { activity, .. }
            | FromAgent::Broke { activity, .. } => *activity = self.named(from, *activity),
            FromAgent::Ready { ends, .. } => {
                ends.iter_mut().for_each(|end| end.activity = self.named(from, end.activity));
            }
            FromAgent::Ruler(_)
            | FromAgent::Connected
            | FromAgent::Inspecting
            | FromAgent::Probed { .. }
            | FromAgent::Inspected { .. }
            | FromAgent::Cost(_)
            | FromAgent::Time { .. }
            | FromAgent::Failed(_) => {}
        }
        message
    }

    /// False if it gets lost.
    pub(super) fn say(&mut self, from: StationId, message: FromAgent) -> bool {
        if self.chance(self.faults.lost) {
            return false;
        }
        let about = message.activities();
        let message = self.misname(from, message);
        let is_misnamed = message.activities() != about;
        let at_ns = self.arrival_ns(from);
        if self.chance(self.faults.doubled) {
            self.come(at_ns - self.now_ns, Input::Message(from, message.clone()));
        }
        self.come(at_ns - self.now_ns, Input::Message(from, message));
        !is_misnamed
    }

    /// What an activity is that a station was ordered something of: nothing is ordered of one that
    /// is not there.
    pub(super) fn what(&self, at: StationId, activity: ActivityId) -> What {
        match self.activities.get(&activity) {
            Some((of, what)) if *of == at && !self.collected.contains(&activity) => *what,
            other => {
                panic!("{at:?} was ordered something of {activity}, which has handed over or is not its: {other:?}")
            }
        }
    }

    /// An end of a stream that a station was ordered something of.
    pub(super) fn end(&self, at: StationId, activity: ActivityId) -> EndId {
        match self.what(at, activity) {
            What::End(end) => end,
            What::Load => panic!("{activity} is a load, and what was ordered is nothing for it"),
        }
    }

    /// A sender ends, `packets` of its packets having gone out.
    pub(super) fn done(&mut self, at: StationId, activity: ActivityId, packets: u32) {
        self.packets.insert(self.end(at, activity).stream, packets);
        self.say(at, FromAgent::Done { activity, packets: packets.into() });
    }

    /// All that one end recorded: what was sent at one that sends, what arrived at one that
    /// receives.
    pub(super) fn hand_over(&mut self, at: StationId, activity: ActivityId, end: EndId) {
        let EndId { stream, side } = end;
        let packets = self.packets.get(&stream).copied().unwrap_or(0);
        if let Some(piece) = self.faults.endless.filter(|_| end == EndId { stream: 0, side: Side::Rx }) {
            (0..200).for_each(|_| _ = self.say(at, piece(activity)));
        }
        if let Some(piece) = self.faults.empty.filter(|_| end == EndId { stream: 0, side: Side::Rx }) {
            (1..=100).for_each(|second| self.come(second * 1_000_000_000, Input::Message(at, piece(activity))));
            return;
        }
        let is_whole = [
            side == Side::Rx || self.say(at, FromAgent::SenderPiece { activity, rows: SentRows::only_sent(packets) }),
            side == Side::Tx || self.say(at, FromAgent::ArrivalPiece { activity, arrivals: arrivals(end, packets) }),
            self.say(at, FromAgent::Collected { activity, summary: Box::new(ActivitySummary::End(summary(end))) }),
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
            Output::Unstamped { packets, .. } => {
                self.unstamped.push((packets, self.phases().contains(&"start")));
            }
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
            ToAgent::Prepare { activities } => {
                let mut ends = Vec::new();
                for (activity, order) in activities {
                    let what = match order {
                        ActivityOrder::End(end) => {
                            ends.push(EndReady {
                                activity,
                                thread: Default::default(),
                                absent: Vec::new(),
                                error_queue_bytes: 0,
                            });
                            What::End(EndId { stream: end.stream().number(), side: end.side() })
                        }
                        ActivityOrder::Load(_) => What::Load,
                    };
                    let other = self.activities.insert(activity, (at, what));
                    assert_eq!(other, None, "{activity} is given twice");
                }
                self.say(at, FromAgent::Ready { ends, clocks: clocks() });
            }
            ToAgent::Connect => _ = self.say(at, FromAgent::Connected),
            ToAgent::Time => _ = self.say(at, FromAgent::Time { tai_ns: 0, counter: None }),
            ToAgent::WarmUp { activity, count, .. } => {
                assert_eq!(self.end(at, activity).side, Side::Tx, "only a sender warms up");
                let stamped = if self.faults.cold { 0 } else { count };
                self.say(at, FromAgent::Warmed { activity, stamped });
            }
            ToAgent::WarmStatus { activity } => {
                self.end(at, activity);
                let (received, answered, answers_stamped) = (10, 10, 10);
                let (last_stamped, unstamped) = if self.faults.bare { (false, 10) } else { (true, 0) };
                let napi_id = 0;
                let status = FromAgent::WarmStatus {
                    activity,
                    received,
                    unstamped,
                    last_stamped,
                    napi_id,
                    answered,
                    answers_stamped,
                    program_cpus: self.faults.program_cpus.to_vec(),
                };
                self.say(at, status);
            }
            ToAgent::Start { activities, .. } => {
                for activity in activities {
                    if let What::End(EndId { stream, side: Side::Tx }) = self.what(at, activity) {
                        self.start(at, activity, stream);
                    }
                }
            }
            ToAgent::Stop { activities } => {
                for activity in activities {
                    let What::End(_) = self.what(at, activity) else { continue };
                    let Some((began_ns, key)) = self.sending.remove(&activity) else { continue };
                    let out = ((self.now_ns - began_ns) / CYCLE_NS) as u32;
                    if out < COUNT && self.coming.remove(&key).is_some() {
                        self.done(at, activity, out);
                    }
                }
            }
            ToAgent::Finish { activity, .. } => {
                assert_ne!(self.end(at, activity).side, Side::Tx, "a sender is done by itself");
                self.say(at, FromAgent::Done { activity, packets: u64::from(COUNT) });
            }
            ToAgent::Collect { activity } => {
                match self.what(at, activity) {
                    What::End(end) => self.hand_over(at, activity, end),
                    What::Load => {
                        let summary = Box::new(ActivitySummary::Load(SideRecord::default()));
                        self.say(at, FromAgent::LoadOutput { activity, bytes: b"a line\n".to_vec() });
                        self.say(at, FromAgent::Collected { activity, summary });
                    }
                }
                self.collected.insert(activity);
            }
            // Nothing of a trial: what comes before it.
            ToAgent::Measure(_)
            | ToAgent::Inspect { .. }
            | ToAgent::Probe { .. }
            | ToAgent::Inspected { .. }
            | ToAgent::Cost(_) => {}
        }
    }

    /// A sender starts. It says that it is done when its last packet is out, unless it is stopped
    /// before.
    fn start(&mut self, at: StationId, activity: ActivityId, stream: u8) {
        self.packets.insert(stream, COUNT);
        let done = FromAgent::Done { activity, packets: COUNT.into() };
        if let Some(Slow::Silent { .. }) = self.faults.slow {
            self.latest_ns.insert(at, self.now_ns + 21_000_000_000);
            return self.come(21_000_000_000, Input::Message(at, done));
        }
        if let Some(slow) = self.faults.slow {
            for quarter in 1..160 {
                let digest = Digest { done: if slow == Slow::Moving { quarter } else { 1 }, ..Digest::default() };
                let told = FromAgent::Progress { activity, digest };
                self.come(quarter as i64 * 250_000_000, Input::Message(at, told));
            }
            self.latest_ns.insert(at, self.now_ns + 40_000_000_000);
            return self.come(40_000_000_000, Input::Message(at, done));
        }
        self.say(at, FromAgent::Progress { activity, digest: Digest { done: 1, ..Digest::default() } });
        let took_ns = i64::from(COUNT) * CYCLE_NS;
        let at_ns = self.arrival_ns(at).max(self.now_ns + took_ns);
        self.latest_ns.insert(at, at_ns);
        if self.chance(self.faults.lost) {
            return;
        }
        self.sending.insert(activity, (self.now_ns, (at_ns, self.sent)));
        let done = self.misname(at, done);
        self.come(at_ns - self.now_ns, Input::Message(at, done));
    }

    /// What an order of a trial is, in one word.
    pub(super) fn phase(&self, order: &ToAgent) -> &'static str {
        let of_loads = |id: &ActivityId| self.activities.get(id).is_some_and(|(_, what)| *what == What::Load);
        match order {
            ToAgent::Measure(_) => "measure",
            ToAgent::Inspect { .. } | ToAgent::Probe { .. } | ToAgent::Inspected { .. } | ToAgent::Cost(_) => "inspect",
            ToAgent::Time => "compare clocks",
            ToAgent::Prepare { .. } => "prepare",
            ToAgent::Connect => "connect loads",
            ToAgent::WarmUp { .. } | ToAgent::WarmStatus { .. } => "warm up",
            ToAgent::Start { activities, .. } if activities.iter().all(of_loads) => "start loads",
            ToAgent::Start { .. } => "start",
            ToAgent::Stop { activities } if activities.iter().all(of_loads) => "stop loads",
            ToAgent::Stop { .. } => "stop sending",
            ToAgent::Finish { .. } => "finish",
            ToAgent::Collect { activity } if of_loads(activity) => "collect loads",
            ToAgent::Collect { .. } => "collect",
        }
    }

    /// All that was ordered, in words.
    pub(super) fn phases(&self) -> Vec<&'static str> {
        self.told.iter().map(|(_, order)| self.phase(order)).collect()
    }

    /// Each end of a stream that an order starts, with its base time.
    pub(super) fn started(&self, order: &ToAgent) -> Vec<(EndId, i64)> {
        let ToAgent::Start { activities, base } = order else { return Vec::new() };
        let whats = activities.iter().filter_map(|id| Some(self.activities.get(id)?.1));
        let ends = whats.filter_map(|what| match what {
            What::End(end) => Some((end, base.ns())),
            What::Load => None,
        });
        ends.collect()
    }
}

/// What tells one end's record from another's.
pub(super) fn mark(end: EndId) -> u32 {
    100 + 4 * u32::from(end.stream) + end.side as u32
}

pub(super) fn arrivals(end: EndId, packets: u32) -> Vec<Arrival> {
    let arrival = |seq| Arrival {
        seq,
        tags: Tags::NONE,
        rx_hw: MaybeNanos::NONE,
        rx_kernel: MaybeNanos::NONE,
        receive_ns: mark(end).into(),
    };
    (0..packets).map(arrival).collect()
}

pub(super) fn summary(end: EndId) -> EndSummary {
    let thread = ThreadRecord { tid: mark(end), ..ThreadRecord::default() };
    let own = OwnNotes::default();
    EndSummary {
        sent: None,
        arrived: None,
        gaps: None,
        thread,
        clocks: clocks(),
        tcp: None,
        own,
        xdp: None,
        xdp_sent: None,
    }
}

pub(super) fn clocks() -> ClockReading {
    ClockReading { tai_ns: 0, realtime_ns: 0, monotonic_ns: 0, bound_ns: 10, tai_offset_s: 0, steering: None }
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
