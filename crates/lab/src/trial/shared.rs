// SPDX-License-Identifier: MIT OR Apache-2.0
//! What goes into a trial and comes out of it, and what all its phases know.

use super::TrialError;
use super::awaited::Awaited;
use crate::agent::AgentError;
use crate::host::clocks::Compared;
use crate::loads::Loads;
use crate::orders::Ordered;
use crate::station::StationId;
use std::collections::BTreeMap;
use tardy_engine::live::Digest;
use tardy_engine::message::{EndReady, FromAgent, ToAgent};
use tardy_engine::schedule;
use tardy_model::offset::Offset;
use tardy_model::stream::Side;
use tardy_model::time::{ClockReading, Instant, Monotonic, Nanos, Tai};
use tardy_model::trial::WarmUp;

/// The time of an input, by the coordinator's clocks.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// For time limits.
    pub monotonic: Instant<Monotonic>,
    /// For the base time.
    pub tai: Instant<Tai>,
}

/// What happens.
#[derive(Debug)]
pub enum Input {
    /// Time passed and nothing else happened.
    Tick,
    /// A station sent a message.
    Message(StationId, FromAgent),
    /// The connection to a station broke.
    Lost(StationId, AgentError),
    /// The host of a station could not be looked at, or its clock not be compared. The station itself may answer.
    Unseen(StationId, AgentError),
    /// The user wants the run to end. The trial ends with what was sent until then.
    Stop,
    /// The machine was looked at, as [`Output::Look`] asked; and the clocks of stations on other hosts were compared with this one's.
    Looked(BTreeMap<StationId, Compared>),
}

/// What is to be done, in this order.
#[derive(Debug)]
pub enum Output {
    /// Send an order to a station. If that fails, [`Input::Lost`] follows.
    Tell(StationId, ToAgent),
    /// Look at the state of the machine, and compare the hosts' clocks: for the first time just before the trial, for the second time
    /// just after it.
    /// [`Input::Looked`] follows.
    Look,
    /// End the processes that programs of loads left behind.
    EndLeftovers,
    /// Show live figures.
    Progress {
        /// The stream's place in the experiment.
        stream: usize,
        /// Which end of it.
        side: Side,
        /// The figures.
        digest: Digest,
    },
}

/// What every phase knows.
pub(super) struct Shared<'a> {
    pub(super) streams: &'a [Ordered],
    pub(super) loads: &'a mut Loads,
    /// Every station of the path, by name.
    pub(super) stations: BTreeMap<StationId, String>,
    /// Time between the order to start and the first packet of the lead-in, at least.
    pub(super) ahead: Nanos,
    pub(super) ready: BTreeMap<(u8, Side), EndReady>,
    pub(super) clocks: BTreeMap<StationId, ClockReading>,
    /// Of stations on other hosts, before the trial and behind it.
    pub(super) compared: [BTreeMap<StationId, Compared>; 2],
    pub(super) warmups: Vec<WarmUp>,
    pub(super) bases: Vec<Option<Instant<Tai>>>,
    pub(super) is_stopped: bool,
}

impl Shared<'_> {
    pub(super) fn number(&self, i: usize) -> u8 {
        self.streams[i].number()
    }

    /// The stream with this number, and its place.
    pub(super) fn stream(&self, number: u8) -> Option<(usize, &Ordered)> {
        self.streams.iter().enumerate().find(|(_, ordered)| ordered.number() == number)
    }

    pub(super) fn name(&self, station: StationId) -> String {
        self.stations.get(&station).cloned().unwrap_or_default()
    }

    pub(super) fn silent(&self, station: StationId, seconds: u64, doing: &'static str) -> AgentError {
        AgentError::Silent { station: self.name(station), seconds, doing }
    }

    /// A message that a phase with a question looks at: an error if a station failed or did not answer in time, `None` if
    /// the input is no answer.
    pub(super) fn heard(
        &self,
        asked: &mut Awaited,
        now: Now,
        input: Input,
    ) -> Result<Option<(StationId, FromAgent)>, AgentError> {
        let message = match input {
            Input::Message(station, FromAgent::Failed(what) | FromAgent::Broke { why: what, .. }) => {
                return Err(AgentError::Refused { station: self.name(station), what });
            }
            Input::Lost(_, error) => return Err(error),
            Input::Message(_, FromAgent::Progress { .. })
            | Input::Tick
            | Input::Stop
            | Input::Looked(_)
            | Input::Unseen(..) => None,
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

    pub(super) fn tell_loads(&self, order: &ToAgent, out: &mut Vec<Output>) {
        out.extend(self.loads.stations().into_iter().map(|station| Output::Tell(station, order.clone())));
    }

    /// Gives every end its base time.
    pub(super) fn start(&mut self, now: Now, out: &mut Vec<Output>) {
        // A load that starts before the first packet must still have its start before it.
        let at = now.tai + self.loads.lead();
        if let Some(first) = self.streams.first() {
            let base = base_of(first, at, self.ahead);
            for station in self.loads.stations() {
                let base = self.at_station(station, base);
                out.push(Output::Tell(station, ToAgent::StartLoads { base }));
            }
        }
        // The sender begins last.
        for side in [Side::Rx, Side::Reply, Side::Tx] {
            for (i, ordered) in self.streams.iter().enumerate().filter(|(_, s)| s.sides().any(|of| of == side)) {
                let base = base_of(ordered, at, self.ahead);
                self.bases[i] = Some(base);
                let station = ordered.station(side);
                let base = self.at_station(station, base);
                out.push(Output::Tell(station, ToAgent::Start { stream: ordered.number(), side, base }));
            }
        }
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
        Some(Offset { host, first: first.reading, last: last.reading, method })
    }

    /// A stamp that the experiment names is had or refused; one of the usual ones may lack.
    pub(super) fn has_named_stamps(&self) -> Result<(), TrialError> {
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
}

/// The base time of a stream whose trial may start at `now`.
fn base_of(ordered: &Ordered, now: Instant<Tai>, ahead: Nanos) -> Instant<Tai> {
    let cycle = ordered.stream.cycle;
    let lead = Nanos(i64::from(schedule::lead_in(cycle)) * cycle.0) + ordered.stream.tx.advance;
    schedule::base_time(now + ahead + lead, cycle, ordered.phase)
}
