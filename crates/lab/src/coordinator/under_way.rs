// SPDX-License-Identifier: MIT OR Apache-2.0
//! The run under way: what all its parts know, and what they tell of it. And its stations that live
//! for the whole run: built before the first path, taken into each path's stations, and put back
//! behind the last one.

use crate::agent::{Agent, AgentError, Voice};
use crate::host::clocks::OffsetSource;
use crate::host::hosts::Hosts;
use crate::host::{ApplyError, HostId};
use crate::machine::FactsByHost;
use crate::names::Names;
use crate::placement::Shown;
use crate::plan::{self, Kinds, Plan};
use crate::run::{Event, RunError, Sink, What};
use crate::station::{Costs, PlannedStation, StationId, Stations};
use crate::step::{Question, is_device};
use crate::undo::UndoError;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use tardy_engine::order::ThreadOrder;
use tardy_model::machine::RulerRecord;
use tardy_model::manifest::ReadBack;
use tardy_model::passed::Passing;
use tardy_model::port::Port;
use tardy_model::station::Life;
use tardy_model::xdp::{Inspection, ProbeRecord, ProbeRoute, ProgramRecord};
use tardy_spec::experiment::{self, Cell, Experiment};

/// What a run needs in addition to the experiment.
pub struct Options<'a> {
    /// Version and build, as every agent must greet with.
    pub version: &'a str,
    /// Set by a signal: finish what was begun and stop.
    pub stop: &'a AtomicBool,
    /// What the kinds of paths and stations do.
    pub kinds: Kinds,
    /// Makes what compares the hosts' clocks, for each path anew;
    /// [`one_host`](crate::host::clocks::one_host) where there is one.
    pub clocks: &'a dyn Fn() -> Box<dyn OffsetSource>,
}

/// A cell, each program on its path with whether it prints, fails, or takes probes, and the routes
/// of probes that stray.
type Reported = (String, Vec<(u32, bool, bool, bool)>, Vec<Option<ProbeRoute>>);

/// A path, and of each of its streams the port and the hosts of its two ends.
type ObservedPath = (experiment::Path, Vec<(Port, HostId, HostId)>);

/// The run under way.
pub(super) struct Run<'a, 'h> {
    pub(super) experiment: &'a Experiment,
    pub(super) options: &'a Options<'a>,
    pub(super) sink: &'a mut dyn Sink,
    pub(super) hosts: &'a mut Hosts<'h>,
    pub(super) refused: Vec<String>,
    pub(super) found: FactsByHost,
    /// Where XDP programs ran that did not where it was assumed, by cell.
    pub(super) shown: BTreeMap<String, Shown>,
    /// When the hosts' clocks among them were read.
    pub(super) clocks_read: std::time::Instant,
    pub(super) standing: Standing,
    /// What was reported of paths.
    pub(super) reported: Vec<Reported>,
    /// Cells and streams of which it was reported that no warm-up packet has its program's stamp.
    pub(super) unstamped: BTreeSet<(String, String)>,
    /// Threads for which the ruler was measured, with their hosts and stations, and whether that
    /// was after the trials.
    pub(super) measured: Vec<(HostId, String, ThreadOrder, bool)>,
    pub(super) ruler: Vec<RulerRecord>,
    /// Paths and ports on which it is known what tx stamps add.
    pub(super) observed: Vec<ObservedPath>,
    /// Cells in which nothing came back of the exchange over the path, and between which hosts.
    pub(super) unanswered: BTreeSet<(String, [HostId; 2])>,
    /// What it costs that programs print.
    pub(super) costs: Costs,
    pub(super) of: u32,
}

impl Run<'_, '_> {
    pub(super) fn stopped(&self) -> bool {
        self.options.stop.load(Relaxed)
    }

    /// Something happened just now.
    pub(super) fn tell(&mut self, what: What) {
        self.sink.event(Event::now(what));
    }

    /// This machine cannot run a cell; the others go on.
    pub(super) fn refuse(&mut self, cell: &Cell, why: String) {
        self.refuse_for(cell, why, None);
    }

    /// The same for what was found on its path.
    pub(super) fn refuse_for(&mut self, cell: &Cell, why: String, found: Option<Inspection>) {
        self.refused.push(cell.id.clone());
        self.tell(What::Refused { cell: cell.id.clone(), why, found: found.map(Box::new) });
    }

    /// Reports what was found on a path, unless that is known: it is the same in most trials.
    pub(super) fn tell_found(&mut self, cell: &Cell, found: &Inspection) {
        let takers: Vec<&ProgramRecord> = found.probes.iter().flat_map(|probe| found.takers(probe)).collect();
        let of = |program: &ProgramRecord| {
            let seen = program.seen.as_ref();
            let (prints, fails) = seen.map_or((false, false), |seen| (seen.lines > 0, !seen.faults.is_empty()));
            (program.id, prints, fails, takers.contains(&program))
        };
        let strays = found.probes.iter().filter(|probe| probe.strays()).map(|probe| probe.route.clone());
        let key = (cell.id.clone(), found.programs.iter().map(of).collect(), strays.collect());
        if !found.is_clean() && !self.reported.contains(&key) {
            self.reported.push(key);
            self.tell(What::Found { cell: cell.id.clone(), found: Box::new(found.clone()) });
        }
    }

    /// Looks for what keeps special frames, where some do not arrive: the kernel is asked once more
    /// what it has built. If it does not answer, there is no explanation.
    pub(super) fn explain_lost(&mut self, cell: &Cell, plan: &Plan, found: &mut Inspection) {
        if found.lost_special().next().is_none() {
            return;
        }
        let answers = self.hosts.read_back(&plan.read_back).unwrap_or_default();
        let answers = answers.iter().filter_map(|read| serde_json::from_str(read.says.text()).ok());
        let answers: Vec<serde_json::Value> = answers.collect();
        let keeps = (self.options.kinds.path)(cell.setup.path.kind).keeps;
        for lost in found.special.iter_mut().filter(|of| of.arrived == 0) {
            // What goes to a station leaves by the device that receives what comes from there.
            let out = plan.passages.devices.iter().find(|passage| passage.from == lost.to);
            lost.kept_by = out.and_then(|out| keeps(&answers, lost.kind, &out.device));
        }
    }

    /// What the devices that all packets of the path pass have counted so far; `None` where none is
    /// watched.
    ///
    /// # Errors
    /// If a device is gone, or its host does not answer.
    pub(super) fn passed(&mut self, plan: &Plan) -> Result<Option<Passing>, RunError> {
        if plan.passages.is_empty() {
            return Ok(None);
        }
        let answers = self.hosts.read_back(&plan.passages.questions())?;
        Ok(Some(plan.passages.counted(&answers)?))
    }

    /// Asks where the kernels route what is like the probes, where the path goes through what was
    /// there before: routes may change while a run goes on.
    pub(super) fn ask_routes(&mut self, cell: &Cell, plan: &Plan, found: &mut Inspection) {
        let setup = &cell.setup;
        let Some(route) = (self.options.kinds.path)(setup.path.kind).route else { return };
        let by_frames = |probe: &ProbeRecord| {
            let of = setup.streams.iter().find(|stream| stream.name == probe.stream);
            of.is_some_and(|stream| stream.port.traits().is_frames)
        };
        let mut known: BTreeMap<[String; 2], ProbeRoute> = BTreeMap::new();
        // A frame leaves by the device that its socket is bound to.
        for probe in found.probes.iter_mut().filter(|probe| !by_frames(probe)) {
            let end = |station: &str| plan.ends.of(station).next().map(|(_, end)| end);
            let Some((from, to)) = end(&probe.from).zip(end(&probe.to)) else { continue };
            let ask = || {
                let question = Question::at(&from.place, route(&from.place, [from.address, to.address]));
                route_of(self.hosts.read_back(&[question]))
            };
            let key = [probe.from.clone(), probe.to.clone()];
            probe.route = Some(known.entry(key).or_insert_with(ask).clone());
        }
    }

    pub(super) fn tell_commands(&mut self) {
        self.hosts.ran().into_iter().for_each(|event| self.sink.event(event));
    }
}

/// What a kernel answers that was asked for a route. The machine may be anybody's.
fn route_of(answer: Result<Vec<ReadBack>, ApplyError>) -> ProbeRoute {
    let answer = match answer {
        Ok(answer) => answer,
        Err(ApplyError::Failed { says, .. }) => return ProbeRoute::None(says),
        Err(error) => return ProbeRoute::None(error.to_string()),
    };
    let read: Option<serde_json::Value> = answer.first().and_then(|read| serde_json::from_str(read.says.text()).ok());
    let route = read.as_ref().and_then(|read| read.get(0));
    if route.is_some_and(|route| route["type"] == "local") {
        return ProbeRoute::Here;
    }
    let device = route.and_then(|route| route["dev"].as_str()).filter(|device| is_device(device));
    device
        .map_or_else(|| ProbeRoute::None("its answer has none".to_owned()), |device| ProbeRoute::By(device.to_owned()))
}

/// Stations to which a path comes later, by their names, with their hosts.
pub(super) type Later = BTreeSet<(String, HostId)>;

/// The agents of stations that live for the whole run, while no path has them.
///
/// A cell's station is one of those that stand only if all of it is planned the same: its kind, its
/// host, and what is done there. One of the same name that another cell has on another host, or
/// plans otherwise, is another station.
#[derive(Default)]
pub(super) struct Standing {
    /// Every such station that was built, with its name.
    pub(super) built: Vec<(String, PlannedStation)>,
    pub(super) agents: Vec<(String, PlannedStation, Agent)>,
}

impl Standing {
    pub(super) fn has(&self, name: &str, planned: &PlannedStation) -> bool {
        self.built.iter().any(|(built, of)| built == name && of == planned)
    }

    pub(super) fn take(&mut self, name: &str, planned: &PlannedStation) -> Option<Agent> {
        let at = self.agents.iter().position(|(standing, of, _)| standing == name && of == planned)?;
        Some(self.agents.swap_remove(at).2)
    }
}

impl Run<'_, '_> {
    fn lives_for_the_run(&self, station: &PlannedStation) -> bool {
        (self.options.kinds.station)(station.kind).traits.life == Life::Run
    }

    /// True if a cell that is built has a station of such a kind.
    pub(super) fn has_standing(&self) -> bool {
        let built = self.experiment.cells.iter().filter(|cell| !cell.setup.builds_nothing());
        let mut stations = built.flat_map(|cell| cell.setup.stations.values());
        stations.any(|station| (self.options.kinds.station)(station.kind).traits.life == Life::Run)
    }

    /// Builds the stations that live for the whole run, of all cells that are not refused, and
    /// starts their agents.
    pub(super) fn build_standing(&mut self, names: Names) -> Result<(), RunError> {
        let experiment = self.experiment;
        let cells = experiment.cells.iter().filter(|cell| !cell.setup.builds_nothing());
        for cell in cells.filter(|cell| !self.refused.contains(&cell.id)).collect::<Vec<_>>() {
            let plan = plan::plan_of(&self.options.kinds, &cell.setup, names, &self.found)?;
            for (name, station) in &plan.stations {
                if !self.lives_for_the_run(station) || self.standing.has(name, station) {
                    continue;
                }
                // A machine is there since before the run looked at its hosts.
                if !(self.options.kinds.station)(station.kind).traits.is_machine {
                    self.hosts.apply(&station.steps)?;
                }
                self.tell_commands();
                // The agent learns where its messages go when a path takes it in.
                let agent = self.connect(name, station, None)?;
                self.standing.built.push((name.clone(), station.clone()));
                self.standing.agents.push((name.clone(), station.clone(), agent));
            }
        }
        Ok(self.hosts.keep()?)
    }

    /// A station's agent: the one that runs since the run began, or one that is started now.
    pub(super) fn agent_of(&mut self, name: &str, station: &PlannedStation, voice: Voice) -> Result<Agent, AgentError> {
        match self.standing.take(name, station) {
            Some(agent) => {
                agent.speak_as(voice);
                Ok(agent)
            }
            None => self.connect(name, station, Some(voice)),
        }
    }

    fn connect(&mut self, name: &str, station: &PlannedStation, voice: Option<Voice>) -> Result<Agent, AgentError> {
        let (kind, place) = ((self.options.kinds.station)(station.kind), &station.place);
        let cannot = |source| AgentError::Start { station: name.to_owned(), source: Box::new(source) };
        let host = self.hosts.at(place.host).map_err(|error| cannot(ApplyError::from(error)))?;
        // On a machine of another kind this program is another build.
        let build = host.build().unwrap_or(self.options.version).to_owned();
        let connection = (kind.connect)(host, station).map_err(cannot)?;
        let mut agent = Agent::over(connection, name, voice, &build);
        agent.greet(&build)?;
        agent.is_quiet = station.is_quiet();
        Ok(agent)
    }

    /// Keeps the agents of stations that go on living, without what they had made ready for this
    /// path. The others end here.
    pub(super) fn keep_standing(&mut self, mut stations: Stations, planned: &plan::Plan) -> Result<(), RunError> {
        let lives = |station: &PlannedStation| self.lives_for_the_run(station);
        let standing: Vec<bool> = planned.stations.values().map(lives).collect();
        stations.release((0..).zip(&standing).filter(|(_, lives)| **lives).filter_map(|(at, _)| StationId::at(at)))?;
        let agents = stations.into_agents().into_iter().zip(&planned.stations).zip(standing);
        for ((agent, (name, station)), _) in agents.filter(|(_, lives)| *lives) {
            self.standing.agents.push((name.clone(), station.clone(), agent));
        }
        Ok(())
    }

    /// Ends the agents that stand, and puts back what was kept for the run.
    pub(super) fn end_standing(&mut self, not_put_back: &mut Option<UndoError>) {
        // All are asked to put back; one that cannot go on says so then.
        let _ = self.hosts.wake_all();
        self.standing = Standing::default();
        let ended = self.hosts.end();
        self.tell_commands();
        match ended {
            Ok(put_back) if !put_back.lost.is_empty() => *not_put_back = Some(UndoError::Lost(put_back.lost)),
            Ok(_) => {}
            Err(error) => *not_put_back = Some(error),
        }
    }
}
