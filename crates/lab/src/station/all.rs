// SPDX-License-Identifier: MIT OR Apache-2.0
//! The stations of one built path, by their [`StationId`], and one channel for what their agents
//! say.

use super::planned::StationId;
use crate::agent::{Agent, AgentError, Incoming, Voice};
use crate::host::HostId;
use crate::host::clocks::{Compared, Counters, Exchange, Known, OffsetSource, OneHost};
use crate::not_found::NotFound;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use tardy_engine::message::{FromAgent, ToAgent};
use tardy_engine::order::{CostOrder, ObjectOrder, ProbeOrder, RulerOrder};
use tardy_model::machine::RulerRecord;
use tardy_model::time::{Nanos, Tai};
use tardy_model::trial::OwnTraffic;
use tardy_model::xdp::{ArrivedProbes, AwaitedProbes, DeviceWithin, ObjectRecord, ProgramCost, ProgramRecord};
use tardy_sys::clock;

/// A station answers within this time, even next to a spinning realtime thread.
pub(crate) const ANSWER: Nanos = Nanos(20_000_000_000);

/// The stations of one built path.
pub struct Stations {
    /// Dropped before the agents: one whose messages nobody reads any more could not end.
    inbox: mpsc::Receiver<Incoming>,
    agents: Vec<Agent>,
    /// The host of each.
    hosts: Vec<HostId>,
    clocks: Box<dyn OffsetSource>,
    /// What went over the connections to other hosts when the latest trial was about to start, and
    /// what of that went while it ran.
    traffic: [BTreeMap<HostId, OwnTraffic>; 2],
    /// Of which each agent's connection has a copy.
    tell: mpsc::SyncSender<Incoming>,
}

/// Messages of stations that wait here until they are read. Further ones wait in the stations' own
/// pipes, which holds the stations up.
const UNREAD: usize = 64;

impl Default for Stations {
    fn default() -> Self {
        let (tell, inbox) = mpsc::sync_channel(UNREAD);
        let (agents, hosts, traffic) = Default::default();
        Stations { agents, hosts, clocks: Box::new(OneHost), traffic, inbox, tell }
    }
}

/// What a station is to look at before a trial.
pub(crate) struct Look {
    pub station: StationId,
    pub devices: Vec<String>,
    /// Devices inside the path.
    pub inside: Vec<DeviceWithin>,
    pub probes: Vec<ProbeOrder>,
    /// What is to arrive there.
    pub awaited: Vec<AwaitedProbes>,
    /// Users' own programs that it receives through, each with a packet like the stream's.
    pub objects: Vec<(ObjectOrder, Vec<u8>)>,
}

impl Look {
    /// A station that looks at no device and awaits no packet.
    pub fn nothing(station: StationId) -> Look {
        let (devices, inside) = (Vec::new(), Vec::new());
        Look { station, devices, inside, probes: Vec::new(), awaited: Vec::new(), objects: Vec::new() }
    }
}

/// What a station reports after it has looked.
pub(crate) struct Looked {
    pub station: StationId,
    pub programs: Vec<ProgramRecord>,
    pub unchecked: Option<String>,
    /// What arrived of all that was awaited.
    pub arrived: Vec<Option<ArrivedProbes>>,
    /// Of each probe, packets that its device took, and those that were dropped before it.
    pub sent: Vec<(u32, u32)>,
    /// Of each object; `None` of one that cannot be read.
    pub objects: Vec<Option<ObjectRecord>>,
}

/// What was measured in a run so far, on which host: it is the same in each trial. A clause says
/// why something could not be measured.
#[derive(Default)]
pub(crate) struct Costs(Vec<(HostId, CostOrder, Result<ProgramCost, String>)>);

impl Stations {
    /// The agent of a station.
    ///
    /// # Errors
    /// If none of this number was taken in.
    pub(crate) fn agent(&mut self, id: StationId) -> Result<&mut Agent, NotFound> {
        self.agents.get_mut(id.place()).ok_or_else(|| NotFound::Station(id.to_string()))
    }

    /// The next one's number, and where its messages are to go. Stations are taken in in the order
    /// of the plan's.
    ///
    /// # Errors
    /// If there are too many.
    pub fn next_place(&self, name: &str) -> Result<Voice, NotFound> {
        let id = StationId::at(self.agents.len()).ok_or_else(|| NotFound::TooManyStations(name.to_owned()))?;
        Ok((id, self.tell.clone()))
    }

    /// None yet; `clocks` compares those of their hosts.
    pub fn compared_by(clocks: Box<dyn OffsetSource>) -> Self {
        Stations { clocks, ..Stations::default() }
    }

    /// Takes in the next one, on its host.
    pub fn push(&mut self, agent: Agent, host: HostId) {
        self.agents.push(agent);
        self.hosts.push(host);
    }

    /// Those that report nothing while a trial runs.
    pub(crate) fn quiet(&self) -> BTreeSet<StationId> {
        let all = StationId::first(self.agents.len()).zip(&self.agents);
        all.filter(|(_, agent)| agent.is_quiet).map(|(id, _)| id).collect()
    }

    /// Their agents, in order.
    pub(crate) fn into_agents(self) -> Vec<Agent> {
        self.agents
    }

    /// Asks a station for the time on its host.
    fn exchange(&mut self, station: StationId) -> Result<Exchange, String> {
        let failed = |error: AgentError| error.to_string();
        let before = clock::read_counter();
        let asked_ns = clock::now::<Tai>().ns();
        self.agent(station).map_err(|none| none.to_string())?.tell(&ToAgent::Time).map_err(failed)?;
        let limit = Duration::from_nanos(ANSWER.0 as u64);
        let answer = self.answers(&[station], "reading its clock", limit, |from, message| match message {
            FromAgent::Time { tai_ns, counter } if from == station => {
                let answered_ns = clock::now::<Tai>().ns();
                let all = before.zip(counter).zip(clock::read_counter());
                let counters = all.map(|((asked, theirs), answered)| Counters { asked, theirs, answered });
                Some(Exchange { asked_ns, reached_ns: tai_ns, returned_ns: tai_ns, answered_ns, counters })
            }
            _ => None,
        });
        answer.map_err(failed)?.into_iter().next().ok_or_else(|| "it gave no answer".to_owned())
    }

    /// Compares the clocks of other hosts with this one's, once for each host. Also the stations
    /// on hosts whose clock cannot be compared.
    pub(crate) fn compare_clocks(&mut self) -> (BTreeMap<StationId, Compared>, Vec<(StationId, AgentError)>) {
        let mut of_hosts: BTreeMap<HostId, Compared> = BTreeMap::new();
        let (mut of_stations, mut failed) = (BTreeMap::new(), Vec::new());
        let names = self.agents.iter().map(|agent| agent.station().to_owned());
        let named: Vec<(String, HostId)> = names.zip(self.hosts.iter().copied()).collect();
        for (id, (station, host)) in StationId::first(named.len()).zip(named) {
            if host == HostId::HERE {
                continue;
            }
            let compared = match of_hosts.get(&host) {
                Some(compared) => Ok(compared.clone()),
                None => {
                    let mut clocks = std::mem::replace(&mut self.clocks, Box::new(OneHost));
                    let compared = clocks.between(HostId::HERE, host, &mut || self.exchange(id));
                    self.clocks = clocks;
                    compared
                }
            };
            match compared {
                Ok(compared) => {
                    of_hosts.insert(host, compared.clone());
                    of_stations.insert(id, compared);
                }
                Err(source) => {
                    failed.push((id, AgentError::Clocks { station, source }));
                }
            }
        }
        (of_stations, failed)
    }

    /// What went over the connections to other hosts until now.
    fn traffic_until_now(&self) -> BTreeMap<HostId, OwnTraffic> {
        let mut of_hosts: BTreeMap<HostId, OwnTraffic> = BTreeMap::new();
        for (agent, host) in self.agents.iter().zip(&self.hosts).filter(|(_, host)| **host != HostId::HERE) {
            let (of, now) = (of_hosts.entry(*host).or_default(), agent.traffic.now());
            *of = OwnTraffic { to_bytes: of.to_bytes + now.to_bytes, from_bytes: of.from_bytes + now.from_bytes };
        }
        of_hosts
    }

    /// The trial is about to start: from now on what goes to other hosts is counted.
    pub(crate) fn count_traffic(&mut self) {
        self.traffic = [self.traffic_until_now(), BTreeMap::new()];
    }

    /// The trial is over.
    pub(crate) fn traffic_counted(&mut self) {
        let mut during = self.traffic_until_now();
        for (host, before) in &self.traffic[0] {
            let of = during.entry(*host).or_default();
            of.to_bytes = of.to_bytes.saturating_sub(before.to_bytes);
            of.from_bytes = of.from_bytes.saturating_sub(before.from_bytes);
        }
        self.traffic[1] = during;
    }

    /// What went to other hosts and came from them while the latest trial ran.
    pub(crate) fn traffic(&self) -> &BTreeMap<HostId, OwnTraffic> {
        &self.traffic[1]
    }

    /// Does something for which the clocks of other hosts were compared already.
    pub(crate) fn with_known_clocks<T>(&mut self, known: Known, does: impl FnOnce(&mut Stations) -> T) -> T {
        let own = std::mem::replace(&mut self.clocks, Box::new(known));
        let done = does(self);
        self.clocks = own;
        done
    }

    /// Names and processes of those that have one on this machine.
    pub(crate) fn processes(&self) -> impl Iterator<Item = (&str, u32)> {
        self.agents.iter().filter_map(|agent| Some((agent.station(), agent.pid()?)))
    }

    /// The first station on a host, and its name; `None` if none is there.
    pub(crate) fn on(&self, host: HostId) -> Option<(StationId, String)> {
        let at = self.hosts.iter().position(|of| *of == host)?;
        Some((StationId::at(at)?, self.agents.get(at)?.station().to_owned()))
    }

    /// The names of all.
    pub(crate) fn names(&self) -> BTreeMap<StationId, String> {
        StationId::first(self.agents.len()).zip(self.agents.iter().map(|agent| agent.station().to_owned())).collect()
    }

    /// The next message within `limit`, or how the connection to a station broke; `None` when the
    /// time is up.
    pub(crate) fn next(&mut self, limit: Duration) -> Option<(StationId, Result<FromAgent, AgentError>)> {
        let (station, message) = self.inbox.recv_timeout(limit).ok()?;
        let explained = |error| match self.agent(station) {
            Ok(agent) => agent.explain(error),
            Err(none) => none.into(),
        };
        Some((station, message.map_err(explained)))
    }

    /// Waits for one answer that `take` accepts from each of the stations asked. What it does not
    /// accept is passed over, but a message that answers something shows that its station works,
    /// and the time limit starts anew.
    pub(crate) fn answers<T>(
        &mut self,
        asked: &[StationId],
        doing: &'static str,
        limit: Duration,
        mut take: impl FnMut(StationId, FromAgent) -> Option<T>,
    ) -> Result<Vec<T>, AgentError> {
        let mut until = Instant::now() + limit;
        let mut missing: Vec<StationId> = asked.to_vec();
        let mut taken = Vec::new();
        while let Some(first) = missing.first() {
            let left = until.saturating_duration_since(Instant::now());
            // What lies ready would be read even if no time is left, without end.
            let next = if left.is_zero() { None } else { self.next(left) };
            match next {
                None => {
                    let station = self.agent(*first)?.station().to_owned();
                    return Err(AgentError::Silent { station, seconds: limit.as_secs(), doing });
                }
                Some((_, Err(error))) => return Err(error),
                Some((station, Ok(FromAgent::Failed(what) | FromAgent::Broke { why: what, .. }))) => {
                    return Err(self.agent(station)?.refused(what));
                }
                Some((_, Ok(message))) if message.answers_nothing() => {}
                Some((station, Ok(message))) => {
                    until = Instant::now() + limit;
                    if let Some(answer) = take(station, message) {
                        taken.push(answer);
                        missing.retain(|asked| *asked != station);
                    }
                }
            }
        }
        Ok(taken)
    }

    /// Has these stations let go of what they made ready.
    ///
    /// # Errors
    /// A station's.
    pub(crate) fn release(&mut self, those: impl Iterator<Item = StationId>) -> Result<(), AgentError> {
        let those: Vec<StationId> = those.collect();
        for station in &those {
            self.agent(*station)?.tell(&ToAgent::Prepare { activities: Vec::new() })?;
        }
        let limit = Duration::from_nanos(ANSWER.0 as u64);
        let is_ready = |_, message| matches!(message, FromAgent::Ready { .. }).then_some(());
        self.answers(&those, "letting go of the last path", limit, is_ready).map(drop)
    }

    /// Has each of these watch its devices while all of them send their probe packets, each
    /// this number of times, after the devices had some time to `settle`.
    ///
    /// # Errors
    /// A station's.
    pub(crate) fn inspect(&mut self, looks: &[Look], times: u32, settle: Duration) -> Result<Vec<Looked>, AgentError> {
        let doing = "looking for faults on the path";
        let limit = Duration::from_nanos(ANSWER.0 as u64);
        let asked: Vec<StationId> = looks.iter().map(|look| look.station).collect();
        for Look { station, devices, inside, awaited, .. } in looks {
            let (devices, inside, awaited) = (devices.clone(), inside.clone(), awaited.clone());
            self.agent(*station)?.tell(&ToAgent::Inspect { devices, inside, awaited })?;
        }
        self.answers(&asked, doing, limit, |_, message| matches!(message, FromAgent::Inspecting).then_some(()))?;
        std::thread::sleep(settle);
        for Look { station, probes, .. } in looks {
            self.agent(*station)?.tell(&ToAgent::Probe { probes: probes.clone(), times })?;
        }
        let sent = self.answers(&asked, doing, limit, |station, message| match message {
            FromAgent::Probed { sent } => Some((station, sent)),
            _ => None,
        })?;
        let sent: BTreeMap<StationId, Vec<(u32, u32)>> = sent.into_iter().collect();
        for Look { station, objects, .. } in looks {
            let objects = objects.iter().map(|(object, _)| object.clone()).collect();
            self.agent(*station)?.tell(&ToAgent::Inspected { each: times, objects })?;
        }
        self.answers(&asked, doing, limit, |station, message| match message {
            FromAgent::Inspected { programs, unchecked, arrived, objects } => {
                let sent = sent.get(&station).cloned().unwrap_or_default();
                Some(Looked { station, programs, unchecked, arrived, sent, objects })
            }
            _ => None,
        })
    }

    /// What this costs on a station's host, measured there unless it is known. Nobody may be
    /// watching: it comes after [`Stations::inspect`], and one station is asked after the other.
    ///
    /// # Errors
    /// The station's.
    pub(crate) fn cost(
        &mut self,
        station: StationId,
        of: CostOrder,
        known: &mut Costs,
    ) -> Result<Result<ProgramCost, String>, AgentError> {
        let none = || NotFound::Station(station.to_string());
        let host = *self.hosts.get(station.place()).ok_or_else(none)?;
        if let Some((.., cost)) = known.0.iter().find(|(at, what, _)| (*at, what) == (host, &of)) {
            return Ok(cost.clone());
        }
        self.agent(station)?.tell(&ToAgent::Cost(of.clone()))?;
        let limit = Duration::from_nanos(ANSWER.0 as u64);
        let measured =
            self.answers(&[station], "measuring what a program's lines cost", limit, |_, message| match message {
                FromAgent::Cost(cost) => Some(cost),
                _ => None,
            })?;
        let cost = measured.into_iter().next().ok_or_else(none)?;
        known.0.push((host, of, cost.clone()));
        Ok(cost)
    }

    /// Measures the ruler: for each station the threads that will run there. One station after the
    /// other, for on a shared CPU they would measure each other.
    ///
    /// # Errors
    /// A station's.
    pub fn measure(&mut self, threads: &[(StationId, Vec<RulerOrder>)]) -> Result<Vec<RulerRecord>, AgentError> {
        let mut records = Vec::new();
        for (station, threads) in threads.iter().filter(|(_, threads)| !threads.is_empty()) {
            self.agent(*station)?.tell(&ToAgent::Measure(threads.clone()))?;
            let limit = Duration::from_nanos(ANSWER.0 as u64) + Duration::from_secs(threads.len() as u64);
            let measured = self.answers(&[*station], "measuring the ruler", limit, |_, message| match message {
                FromAgent::Ruler(records) => Some(records),
                _ => None,
            })?;
            let name = self.agent(*station)?.station().to_owned();
            let named = measured.into_iter().flatten().map(|record| RulerRecord { station: name.clone(), ..record });
            records.extend(named);
        }
        Ok(records)
    }
}
