// SPDX-License-Identifier: MIT OR Apache-2.0
//! One trial on real stations: make ready, warm up until stamps flow, start on an aligned base, wait, collect both halves.

mod collect;
mod warm;

use crate::agent::AgentError;
use crate::leftover;
use crate::loads::Loads;
use crate::orders::Ordered;
use crate::station::{ANSWER, NoStation, StationId, Stations};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant as Wall};
use tardy_engine::halves::Halves;
use tardy_engine::live::Digest;
use tardy_engine::message::{EndReady, FromAgent, ToAgent};
use tardy_engine::order::EndOrder;
use tardy_engine::schedule;
use tardy_model::stream::Kind;
use tardy_model::stream::Side;
use tardy_model::time::{ClockReading, Instant, Nanos, Tai};
use tardy_model::trial::WarmUp;
use tardy_sys::clock;

/// Both halves of one stream.
pub struct StreamHalves {
    /// Scheduled instant of packet 0.
    pub base: Instant<Tai>,
    /// What both stations recorded.
    pub halves: Halves,
}

/// Why a trial has no whole result.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// A station failed.
    #[error(transparent)]
    Agent(#[from] AgentError),
    /// This machine cannot do what the cell asks for; other cells may go on.
    #[error("{0}")]
    CannotDo(String),
    /// A station that is not there.
    #[error(transparent)]
    Station(#[from] NoStation),
}

/// What is left of a trial in which a station failed.
pub struct Broken {
    /// Why.
    pub error: TrialError,
    /// What the others had recorded; a half that is gone is empty.
    pub had: Vec<Option<StreamHalves>>,
}

impl From<NoStation> for Broken {
    fn from(error: NoStation) -> Broken {
        Broken { error: error.into(), had: Vec::new() }
    }
}

/// How long a stop may go unheard while a trial runs: to look takes a CPU from what is measured for a moment.
const LISTEN: Duration = Duration::from_millis(250);
/// Between the order to start and the lead-in's first packet, at least: stations are ordinary processes.
pub const AHEAD: Nanos = Nanos(15_000_000);
/// The same where the machine has been looked at just before. To read `/proc` leaves callbacks with the kernel (RCU), and a CPU that has
/// some does not stop its tick when it is idle. Until they are done, three or four ticks later, it wakes earlier: in a virtual machine
/// a quarter of a round trip, in the first 5 to 10 ms of a trial.
pub const SETTLED: Nanos = Nanos(45_000_000);
const WARM_UP_PACKETS: u32 = 10;
const WARM_UP_APART: Nanos = Nanos(1_000_000);
/// When a station has failed, the others get less time to hand over what they have.
const SALVAGE: Duration = Duration::from_secs(3);
/// What a load's program has started and left behind is looked for so long.
const LEAVING: Duration = Duration::from_secs(2);
/// A receiver waits so long for packets that were sent and have not come.
const LINGER: Nanos = Nanos(250_000_000);

impl Stations {
    /// Runs one trial of all streams at once. `observe` is called just before the start and just behind the end: what lies
    /// outside, making ready and handing over, is not the trial. Without it nothing has disturbed the kernel, and the trial begins sooner.
    pub fn run(
        &mut self,
        streams: &[Ordered],
        loads: &mut Loads,
        stop: &AtomicBool,
        observe: Option<&mut dyn FnMut()>,
        progress: &mut dyn FnMut(&str, Side, Digest),
    ) -> Result<Vec<StreamHalves>, Broken> {
        let mut trial = Trial {
            streams,
            ahead: if observe.is_some() { SETTLED } else { AHEAD },
            ready: BTreeMap::new(),
            clocks: BTreeMap::new(),
            warmups: vec![WarmUp::default(); streams.len()],
            bases: vec![None; streams.len()],
        };
        match trial.measure(self, loads, stop, observe, progress) {
            Ok(()) => {}
            Err(error) => {
                let had = (0..streams.len()).map(|i| trial.salvage(self, i)).collect();
                return Err(Broken { error, had });
            }
        }
        let collected = loads.collect(self);
        if loads.have_programs() {
            // What a program started beside itself must not run on into trials without it.
            let _ = leftover::end(&self.identities(), LEAVING);
        }
        if let Err(error) = collected {
            let had = (0..streams.len()).map(|i| trial.salvage(self, i)).collect();
            return Err(Broken { error: error.into(), had });
        }
        let mut ran = Vec::new();
        for i in 0..streams.len() {
            match trial.collect(self, i) {
                Ok(both) => ran.push(both),
                Err(error) => {
                    let mut had: Vec<Option<StreamHalves>> = ran.into_iter().map(Some).collect();
                    had.extend((i..streams.len()).map(|i| trial.salvage(self, i)));
                    return Err(Broken { error: error.into(), had });
                }
            }
        }
        Ok(ran)
    }
}

struct Trial<'a> {
    streams: &'a [Ordered],
    ahead: Nanos,
    ready: BTreeMap<(u8, Side), EndReady>,
    clocks: BTreeMap<StationId, ClockReading>,
    warmups: Vec<WarmUp>,
    bases: Vec<Option<Instant<Tai>>>,
}

impl Trial<'_> {
    fn number(&self, i: usize) -> u8 {
        self.streams[i].number()
    }

    fn measure(
        &mut self,
        stations: &mut Stations,
        loads: &Loads,
        stop: &AtomicBool,
        mut observe: Option<&mut dyn FnMut()>,
        progress: &mut dyn FnMut(&str, Side, Digest),
    ) -> Result<(), TrialError> {
        self.prepare(stations, loads)?;
        self.has_named_stamps()?;
        loads.connect(stations)?;
        self.warm_up(stations, stop)?;
        // What is on its way from here on is the trial's: whoever waits for its first packet is told before anything is measured.
        if let Some(first) = self.streams.first() {
            progress(&first.stream.name, Side::Tx, Digest::default());
        }
        let mut look = || observe.as_mut().map_or((), |observe| observe());
        look();
        self.start(stations, loads)?;
        let waited = self.wait(stations, stop, progress).and_then(|()| loads.stop(stations));
        look();
        Ok(waited?)
    }

    fn prepare(&mut self, stations: &mut Stations, loads: &Loads) -> Result<(), AgentError> {
        let mut asked = Vec::new();
        for (id, agent) in stations.iter_mut() {
            let all = self.streams.iter().flat_map(|s| s.ends.iter().map(move |end| (s.station(end.side()), end)));
            let ends: Vec<EndOrder> = all.filter(|(at, _)| *at == id).map(|(_, end)| end.clone()).collect();
            let loads = loads.at(id);
            if !(ends.is_empty() && loads.is_empty()) {
                agent.tell(&ToAgent::Prepare { ends, loads })?;
                asked.push(id);
            }
        }
        let answers = stations.answers(&asked, "making ready", ANSWER, |station, message| match message {
            FromAgent::Ready { ends, clocks } => Some((station, ends, clocks)),
            _ => None,
        })?;
        for (station, ends, clocks) in answers {
            self.clocks.insert(station, clocks);
            self.ready.extend(ends.into_iter().map(|end| ((end.stream, end.side), end)));
        }
        Ok(())
    }

    /// A stamp that the experiment names is had or refused; one of the usual ones may lack.
    fn has_named_stamps(&self) -> Result<(), TrialError> {
        for ordered in self.streams.iter().filter(|ordered| ordered.stream.stamps_named) {
            let end = |side| self.ready.get(&(ordered.number(), side));
            let absent = ordered.sides().filter_map(end).flat_map(|end| &end.absent);
            if let Some((point, why)) = absent.into_iter().next() {
                return Err(TrialError::CannotDo(format!(
                    "stream `{}`: `stamps` names {point}, and it cannot be had: {why}; leave it out, or use a device that has it",
                    ordered.stream.name
                )));
            }
        }
        Ok(())
    }

    fn start(&mut self, stations: &mut Stations, loads: &Loads) -> Result<(), AgentError> {
        // A load that starts before the first packet must still have its start before it.
        let now = clock::now::<Tai>() + loads.lead();
        if let Some(first) = self.streams.first() {
            loads.start(stations, base_of(first, now, self.ahead))?;
        }
        // Who sends begins last.
        for side in [Side::Rx, Side::Reply, Side::Tx] {
            for (i, ordered) in self.streams.iter().enumerate().filter(|(_, s)| s.sides().any(|of| of == side)) {
                let stream = self.number(i);
                let base = base_of(ordered, now, self.ahead);
                self.bases[i] = Some(base);
                stations[ordered.station(side)].tell(&ToAgent::Start { stream, side, base })?;
            }
        }
        Ok(())
    }

    /// Until every sender is done and every receiver has what was sent, or will not get it.
    fn wait(
        &mut self,
        stations: &mut Stations,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(&str, Side, Digest),
    ) -> Result<(), AgentError> {
        let mut going: BTreeSet<(u8, Side)> =
            self.streams.iter().flat_map(|s| s.sides().map(|side| (s.number(), side))).collect();
        let mut told_stop = false;
        let longest = self.streams.iter().map(|s| s.stream.cycle.0).max().unwrap_or(0);
        let patience = ANSWER + Duration::from_nanos(2 * longest.max(0) as u64);
        let mut last_word = Wall::now();
        let mut counts = BTreeMap::new();
        while let Some((first, side)) = going.first().copied() {
            if stop.load(Relaxed) && !told_stop {
                told_stop = true;
                for (_, agent) in stations.iter_mut() {
                    agent.tell(&ToAgent::StopSending)?;
                }
            }
            match stations.next(LISTEN)? {
                None => {}
                Some((_, FromAgent::Progress { stream, side, digest })) => {
                    // Only a count that moves is a sign of life.
                    let moves = (digest.done, digest.turns);
                    if counts.insert((stream, side), moves) != Some(moves) {
                        last_word = Wall::now();
                    }
                    let name = self.streams.iter().find(|s| s.number() == stream).map(|s| &s.stream.name);
                    progress(name.map_or("", |name| name), side, digest);
                }
                Some((_, FromAgent::Done { stream, side: Side::Tx, packets })) => {
                    going.remove(&(stream, Side::Tx));
                    last_word = Wall::now();
                    let ordered = self.streams.iter().find(|s| s.number() == stream);
                    if let Some(ordered) = ordered {
                        let linger = Nanos(LINGER.0.max(4 * ordered.stream.cycle.0.min(1_000_000_000)));
                        // A ping-pong is over when who asks says so.
                        let (expected, linger) = match ordered.stream.kind {
                            Kind::Pingpong => (0, Nanos::ZERO),
                            Kind::Cyclic | Kind::Reflected => (packets, linger),
                        };
                        for side in ordered.sides().filter(|side| *side != Side::Tx) {
                            let finish = ToAgent::Finish { stream, side, expected, linger };
                            stations[ordered.station(side)].tell(&finish)?;
                        }
                    }
                }
                Some((_, FromAgent::Done { stream, side, .. })) => {
                    going.remove(&(stream, side));
                    last_word = Wall::now();
                }
                Some((station, FromAgent::Failed(what))) => return Err(stations[station].refused(what)),
                Some(_) => {}
            }
            if last_word.elapsed() > patience {
                let ordered = self.streams.iter().find(|s| s.number() == first);
                let station = ordered.map(|s| s.station(side));
                let station = station.map(|at| stations[at].station().to_owned()).unwrap_or_default();
                return Err(AgentError::Silent { station, seconds: patience.as_secs(), doing: "the trial runs" });
            }
        }
        Ok(())
    }
}

/// The base time of a stream whose trial may start `now`.
fn base_of(ordered: &Ordered, now: Instant<Tai>, ahead: Nanos) -> Instant<Tai> {
    let cycle = ordered.stream.cycle;
    let lead = Nanos(i64::from(schedule::lead_in(cycle)) * cycle.0) + ordered.stream.tx.advance;
    schedule::base_time(now + ahead + lead, cycle, ordered.phase)
}
