// SPDX-License-Identifier: MIT OR Apache-2.0
//! What goes into a trial and comes out of it, what it ends with, and what all its phases know. It
//! ends with both halves of each stream, or with why it has no whole result and what is left of it.

use super::activities::{Activities, Activity, ActivityKind, Awaited, StartTurn};
use crate::agent::AgentError;
use crate::host::HostId;
use crate::host::clocks::Compared;
use crate::loads::Loads;
use crate::not_found::NotFound;
use crate::orders::Ordered;
use crate::station::StationId;
use std::collections::{BTreeMap, BTreeSet};
use tardy_engine::halves::Halves;
use tardy_engine::live::Digest;
use tardy_engine::message::{ActivityId, EndReady, FromAgent, ToAgent};
use tardy_engine::schedule;
use tardy_model::stream::Side;
use tardy_model::stream_id::{NoStream, StreamId};
use tardy_model::time::{ClockReading, Instant, Monotonic, Nanos, Offset, OtherSource, Steering, Tai};
use tardy_model::trial::WarmUp;

/// The time of an input, by the coordinator's clocks.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    pub monotonic: Instant<Monotonic>,
    /// For the base time.
    pub tai: Instant<Tai>,
}

#[derive(Debug)]
pub enum Input {
    /// Time passed and nothing else happened.
    Tick,
    /// A station sent a message.
    Message(StationId, FromAgent),
    /// The connection to a station broke.
    Lost(StationId, AgentError),
    /// The host of a station could not be looked at, or its clock not be compared. The station
    /// itself may answer.
    Unseen(StationId, AgentError),
    /// The user wants the run to end. The trial ends with what was sent until then.
    Stop,
    /// The machine was looked at, as [`Output::Look`] asked; and the clocks of stations on other
    /// hosts were compared with this one's.
    Looked(BTreeMap<StationId, Compared>),
}

/// What is to be done, in this order.
#[derive(Debug)]
pub enum Output {
    /// Send an order to a station. If that fails, [`Input::Lost`] follows.
    Tell(StationId, ToAgent),
    /// Look at the state of the machine, and compare the hosts' clocks: for the first time just
    /// before the trial, for the second time just after it. [`Input::Looked`] follows.
    Look,
    /// End the processes that programs of loads left behind.
    EndLeftovers,
    Progress {
        stream: StreamId,
        /// Which end of it.
        side: Side,
        digest: Digest,
    },
    /// Say that none of a stream's warm-up packets has the stamp of the user's own XDP program. The
    /// trial goes on: such a program may stamp some packets only.
    Unstamped {
        stream: StreamId,
        /// The warm-up packets that arrived.
        packets: u32,
    },
}

/// What every phase knows.
pub(super) struct Shared<'a> {
    pub(super) streams: &'a [Ordered],
    pub(super) loads: &'a mut Loads,
    pub(super) activities: Activities,
    /// Every station of the path, by name.
    pub(super) stations: BTreeMap<StationId, String>,
    /// Time between the order to start and the first packet of the lead-in, at least.
    pub(super) ahead: Nanos,
    /// Of the ends of streams.
    pub(super) ready: BTreeMap<ActivityId, EndReady>,
    pub(super) clocks: BTreeMap<StationId, ClockReading>,
    /// Of stations on other hosts, before the trial and behind it.
    pub(super) compared: [BTreeMap<StationId, Compared>; 2],
    /// Of streams that were warmed.
    pub(super) warmups: BTreeMap<StreamId, WarmUp>,
    /// Of streams that began.
    pub(super) bases: BTreeMap<StreamId, Instant<Tai>>,
    pub(super) is_stopped: bool,
    /// Stations that report nothing while the trial runs.
    pub(super) silent: BTreeSet<StationId>,
}

impl<'a> Shared<'a> {
    /// A stream of the trial.
    ///
    /// # Errors
    /// If it is none of the trial's.
    pub(super) fn stream(&self, id: StreamId) -> Result<&'a Ordered, NotFound> {
        let ordered = self.streams.iter().find(|ordered| ordered.id == id);
        Ok(ordered.ok_or(NoStream::At(id.number().into()))?)
    }

    /// What was said of an end of a stream when it was made ready.
    pub(super) fn ready(&self, stream: StreamId, side: Side) -> Option<&EndReady> {
        self.ready.get(&self.activities.end(stream, side)?.id)
    }

    /// What a station is called, for a message; its number where nothing is known of it.
    pub(super) fn name(&self, station: StationId) -> String {
        self.stations.get(&station).cloned().unwrap_or_else(|| station.to_string())
    }

    pub(super) fn silent(&self, station: StationId, seconds: u64, doing: &'static str) -> AgentError {
        AgentError::Silent { station: self.name(station), seconds, doing }
    }

    /// An activity of which its station speaks.
    ///
    /// # Errors
    /// If it has none of that number: it is never taken for another one, or for one of another
    /// station.
    pub(super) fn activity(&self, station: StationId, id: ActivityId) -> Result<Activity, AgentError> {
        let not_its = || AgentError::NotIts { station: self.name(station), activity: id };
        self.activities.at(station, id).ok_or_else(not_its)
    }

    /// A message that a phase with a question looks at: an error if a station failed or did not
    /// answer in time, `None` if the input is no answer.
    pub(super) fn heard(
        &self,
        asked: &mut Awaited,
        now: Now,
        input: Input,
    ) -> Result<Option<(StationId, FromAgent)>, AgentError> {
        if let Input::Message(station, message) = &input {
            message.activities().into_iter().try_for_each(|id| self.activity(*station, id).map(drop))?;
        }
        let message = match input {
            Input::Message(station, FromAgent::Failed(what) | FromAgent::Broke { why: what, .. }) => {
                return Err(AgentError::Refused { station: self.name(station), what });
            }
            Input::Lost(_, error) => return Err(error),
            Input::Message(_, message) if message.answers_nothing() => None,
            Input::Tick | Input::Stop | Input::Looked(_) | Input::Unseen(..) => None,
            Input::Message(station, message) => {
                asked.hear(now.monotonic);
                Some((station, message))
            }
        };
        match asked.silent(now.monotonic) {
            Some((station, seconds, doing)) => Err(self.silent(station, seconds, doing)),
            None => Ok(message),
        }
    }

    /// Tells those of which this is true to stop: one order for all of a station.
    pub(super) fn stop(&self, is: impl Fn(ActivityKind) -> bool, out: &mut Vec<Output>) {
        let stops = self.activities.by_station(is).into_iter();
        out.extend(stops.map(|(station, activities)| Output::Tell(station, ToAgent::Stop { activities })));
    }

    /// Gives every activity its base time.
    ///
    /// # Errors
    /// If one is an end of a stream that is none of the trial's.
    pub(super) fn start(&mut self, now: Now, out: &mut Vec<Output>) -> Result<(), NotFound> {
        // A load that starts before the first packet must still have its start before it.
        let at = now.tai + self.loads.lead();
        let base_of = |ordered: &Ordered| base_of(ordered, at, self.ahead);
        // What belongs to no stream starts with the first one, or as soon as it may.
        let of_others = self.streams.first().map_or(at + self.ahead, base_of);
        for turn in StartTurn::ALL {
            // One order for all of a station that start together: each order takes time, and the
            // base time comes nearer.
            let mut starts: Vec<(StationId, Instant<Tai>, Vec<ActivityId>)> = Vec::new();
            for Activity { id, station, kind } in self.activities.of(|kind| kind.turn() == turn) {
                let base = match kind.stream() {
                    Some(stream) => base_of(self.stream(stream)?),
                    None => of_others,
                };
                match starts.iter_mut().find(|(at, other, _)| (*at, *other) == (station, base)) {
                    Some((.., activities)) => activities.push(id),
                    None => starts.push((station, base, vec![id])),
                }
            }
            out.extend(starts.into_iter().map(|(station, base, activities)| {
                Output::Tell(station, ToAgent::Start { activities, base: self.at_station(station, base) })
            }));
        }
        self.bases = self.streams.iter().map(|ordered| (ordered.id, base_of(ordered))).collect();
        Ok(())
    }

    /// The same moment on the clock of a station's host.
    fn at_station(&self, station: StationId, here: Instant<Tai>) -> Instant<Tai> {
        self.compared[0].get(&station).map_or(here, |compared| compared.reading.to_there(here))
    }

    /// The offset of a station's host during the trial; `None` if it is the coordinator's.
    pub(super) fn offset(&self, station: StationId) -> Option<Offset> {
        let [before, behind] = &self.compared;
        let first = before.get(&station)?;
        let last = behind.get(&station).unwrap_or(first);
        let (host, method) = (first.host.to_string(), first.method.clone());
        Some(Offset { host, first: first.reading, last: last.reading, method, ..Offset::default() })
    }

    /// A stamp that the experiment names is had or refused; one of the usual ones may lack.
    pub(super) fn has_named_stamps(&self) -> Result<(), TrialError> {
        for ordered in self.streams.iter().filter(|ordered| ordered.stream.stamps_named) {
            let absent = ordered.sides().filter_map(|side| self.ready(ordered.id, side)).flat_map(|end| &end.absent);
            if let Some((point, why)) = absent.into_iter().next() {
                return Err(TrialError::CannotDo(format!(
                    "stream `{}`: `stamps` names {point}, and it is not available: {why}; leave it out, or use a device that has it",
                    ordered.stream.name
                )));
            }
        }
        Ok(())
    }
}

/// The base time of a stream whose trial may start at `now`.
fn base_of(ordered: &Ordered, now: Instant<Tai>, ahead: Nanos) -> Instant<Tai> {
    let cycle = ordered.stream.cycle;
    let lead = Nanos(i64::from(schedule::lead_in(cycle)) * cycle.0) + ordered.stream.tx.advance;
    schedule::base_time(now + ahead + lead, cycle, ordered.phase)
}

/// Both halves of one stream.
pub struct StreamHalves {
    /// Scheduled instant of packet 0.
    pub base: Instant<Tai>,
    /// What both stations recorded.
    pub halves: Halves,
    /// The receiving host's clock against the sending one's, if they were compared with each other.
    pub pair: Option<OtherSource>,
    /// How kernels steered the clocks of hosts when these were compared over the path.
    pub steered: Vec<(HostId, Option<Steering>)>,
}

/// Why a trial has no whole result.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    #[error(transparent)]
    Agent(#[from] AgentError),
    /// This machine cannot do what the cell asks for; other cells may go on.
    #[error("{0}")]
    CannotDo(String),
    /// The warm-up's hints show another CPU for the XDP program than that by which the receiver was
    /// placed. It can be placed anew.
    #[error("stream `{stream}`: the XDP program runs on CPU {program}, and rx.core is not kept")]
    Elsewhere { stream: String, program: u32 },
    /// A station, a stream or a host that is not there.
    #[error(transparent)]
    NotFound(#[from] NotFound),
}

/// What is left of a trial in which a station failed.
pub struct Broken {
    pub error: TrialError,
    /// What the others had recorded; a half that is gone is empty.
    pub had: Vec<Option<StreamHalves>>,
}

impl From<NotFound> for Broken {
    fn from(error: NotFound) -> Broken {
        Broken { error: error.into(), had: Vec::new() }
    }
}
