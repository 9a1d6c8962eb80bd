// SPDX-License-Identifier: MIT OR Apache-2.0
//! From a set-up to everything that will be done to the machine, and how each of it is put back;
//! by what the kinds of paths and stations do, and as a script that a person reads. Pure: nothing
//! is looked up and nothing is changed, so the plan that is shown is the plan that is run. And
//! about how long a run takes and what it leaves on disk.

use crate::bpf_jit;
use crate::command::Command;
use crate::host::HostId;
use crate::host::place::Place;
use crate::idle;
use crate::machine::FactsByHost;
use crate::names::Names;
use crate::not_found::NotFound;
use crate::path::keeper::Keeper;
use crate::path::passages::Passages;
use crate::path::{self, EndId, Ends, Inside, LinkEnd, PathError, PathMethods, PlannedStations, Plug};
use crate::placement::{self, PlaceError};
use crate::shaper;
use crate::softirq;
use crate::station::{self, Offer, PlannedStation, StationId, StationMethods};
use crate::step::{Inverse, Question, Step};
use crate::vlan;
use std::collections::{BTreeMap, BTreeSet};
use tardy_host::timekeeper::PtpSocket;
use tardy_model::harmless;
use tardy_model::path::PathKind;
use tardy_model::station::{Life, Machine, StationKind};
use tardy_model::time::{Instant, Tai};
use tardy_spec::experiment::{Experiment, Setup, Station};
use thiserror::Error;

/// What is done for one cell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// What builds the path, in this order.
    pub steps: Vec<Step>,
    /// Commands that tell what the kernel has made of it.
    pub read_back: Vec<Question>,
    /// Stations, of which each is built before the path.
    pub stations: BTreeMap<String, PlannedStation>,
    /// What builds the stations that live for the whole run; once, before the first path.
    pub standing: Vec<Step>,
    /// Programs that run as long as the path.
    pub keepers: Vec<Keeper>,
    /// Where each station meets the path.
    pub ends: Ends,
    /// Devices inside the path whose programs a station watches.
    pub inside: Vec<Inside>,
    /// Devices that all packets have to pass, and their counters.
    pub passages: Passages,
    /// Sockets of ptp4l that observe the clocks of the path's ends, with their hosts.
    pub ptp: Vec<(HostId, PtpSocket)>,
    /// Devices inside the path whose cable is waited for, each with its place.
    pub cabled: Vec<(Place, String)>,
    /// When the queue discipline's schedule begins on each host that has one, by the host's own
    /// clock.
    pub begins: BTreeMap<HostId, Instant<Tai>>,
}

/// A set-up that cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PlanError {
    /// The path cannot join these stations.
    #[error(transparent)]
    Path(#[from] PathError),
    /// Packets cannot be taken in where it is asked for.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// A station or a host that is not there.
    #[error(transparent)]
    NotFound(#[from] NotFound),
    /// The journal could not note how a step is taken back, so the step would never be done.
    #[error("the plan cannot be carried out: {why}, in what takes back \"{step}\": rename what it names")]
    Inverse {
        /// What the step is for.
        step: String,
        /// What is wrong with the inverse.
        why: String,
    },
    /// The name cannot be part of a namespace's.
    #[error(
        "station `{name}`: a namespace cannot be called so; use letters, digits, `_` and `-`, at most {STATION_NAME}"
    )]
    StationName { name: String },
}

/// Longest name of a station, bytes. A namespace is a file, whose name ends at 255.
const STATION_NAME: usize = 200;

/// Plans a set-up under these names, on what was found of the machine.
///
/// # Errors
/// If the path cannot join the stations, a station's name cannot be used, or the machine does not
/// have a CPU that the set-up asks for.
pub fn plan(setup: &Setup, names: Names, found: &FactsByHost) -> Result<Plan, PlanError> {
    plan_of(&Kinds::default(), setup, names, found)
}

/// The same, of these kinds of paths and stations.
///
/// # Errors
/// As there.
pub fn plan_of(kinds: &Kinds, setup: &Setup, names: Names, found: &FactsByHost) -> Result<Plan, PlanError> {
    let usable = |name: &str| {
        (1..=STATION_NAME).contains(&name.len())
            && !name.contains(|c: char| c == '/' || c.is_whitespace() || c.is_control())
    };
    if let Some(name) = setup.stations.keys().find(|name| !usable(name)) {
        return Err(PlanError::StationName { name: name.clone() });
    }
    let build = |(name, station): (&String, &Station)| {
        let names = found.names(station.host, names);
        (name.clone(), ((kinds.station)(station.kind).build)(names, station, name))
    };
    let stations: PlannedStations = setup.stations.iter().map(build).collect();
    let laid = ((kinds.path)(setup.path.kind).lay)(setup, &stations, names, found)?;
    let (mut ends, plugged) = plug(kinds, &stations, &laid.plugs)?;
    let (tagged, tagged_back) = vlan::add_to_paths(setup, names, &mut ends)?;
    let (steered, steered_back) = softirq::steps(setup, &ends, found)?;
    let machine_threads = station::guest::placed(setup, names, found)?;
    let (queued, queued_back) = vlan::queues(setup, &ends, found)?;
    let shaped = shaper::set(setup, &ends, found)?;
    let device = |end: &LinkEnd| {
        let show = |object| Question::at(&end.place, end.place.ip(&["-j", "-d", object, "show", "dev", &end.device]));
        // Addresses come with all that `link show` prints. After that one in the same batch, ip 6.1
        // shows no addresses.
        [show("addr"), show("neigh")]
    };
    let read_back = ends
        .values()
        .flat_map(device)
        .chain(laid.read_back)
        .chain(tagged_back)
        .chain(steered_back)
        .chain(queued_back)
        .chain(shaped.read_back);
    let read_back = read_back.collect();
    let is_built = |station: &&PlannedStation| (kinds.station)(station.kind).traits.life == Life::SetUp;
    let built = stations.values().filter(is_built).flat_map(|station| station.steps.clone());
    let standing = stations.values().filter(|station| !is_built(station)).flat_map(|station| station.steps.clone());
    let standing: Vec<Step> = standing.collect();
    let steps: Vec<Step> = laid
        .before
        .into_iter()
        .chain(built)
        .chain(laid.steps)
        .chain(plugged)
        .chain(tagged)
        .chain(steered)
        .chain(machine_threads)
        .chain(queued)
        .chain(shaped.steps)
        .collect();
    check_inverses([&standing, &steps].into_iter().flatten())?;
    let keepers = laid.keepers.into_iter().chain(idle::keepers(setup)).collect();
    Ok(Plan {
        standing,
        steps,
        keepers,
        read_back,
        stations,
        ends,
        inside: laid.inside,
        passages: laid.passages,
        ptp: laid.ptp,
        cabled: laid.cabled,
        begins: shaped.begins,
    })
}

/// Has each station take in the devices that the path gives it: its ends, and the steps for that.
fn plug(kinds: &Kinds, stations: &PlannedStations, plugs: &[Plug]) -> Result<(Ends, Vec<Step>), PathError> {
    let (mut ends, mut steps): (BTreeMap<EndId, LinkEnd>, _) = (BTreeMap::new(), Vec::new());
    let mut taken = BTreeSet::new();
    for Plug { station, path, offer, device } in plugs {
        let id = EndId { station: number_of(stations, station)?, path: *path };
        if ends.contains_key(&id) {
            return Err(PathError::TwoEnds { path: *path, station: station.clone() });
        }
        if let Offer::Slot { number, .. } = offer
            && !taken.insert((id.station, *number))
        {
            return Err(PathError::SlotTaken { station: station.clone(), number: *number });
        }
        let planned = &stations[station];
        let plugged = ((kinds.station)(planned.kind).plug)(planned, id, offer, device)?;
        let end = LinkEnd {
            station: station.clone(),
            place: plugged.place,
            device: plugged.device,
            address: device.address,
            address6: device.address6,
            mac: device.mac.clone(),
            vlans: BTreeMap::new(),
        };
        ends.insert(id, end);
        steps.extend(plugged.steps);
    }
    Ok((ends.into_iter().collect(), steps))
}

/// The number of a station: its place among them, and so its agent's.
fn number_of(stations: &PlannedStations, name: &str) -> Result<StationId, NotFound> {
    let place = stations.keys().position(|station| station == name);
    let place = place.ok_or_else(|| NotFound::Station(name.to_owned()))?;
    StationId::at(place).ok_or_else(|| NotFound::TooManyStations(name.to_owned()))
}

fn check_inverses<'a>(mut steps: impl Iterator<Item = &'a Step>) -> Result<(), PlanError> {
    let fault = |step: &Step| {
        let why = step.undoes.iter().find_map(Inverse::fault)?;
        Some(PlanError::Inverse { step: step.why.to_string(), why })
    };
    steps.find_map(fault).map_or(Ok(()), Err)
}

impl Plan {
    /// The number of a station: its place among them, and so its agent's.
    ///
    /// # Errors
    /// If there is none of this name.
    pub fn station(&self, name: &str) -> Result<StationId, NotFound> {
        number_of(&self.stations, name)
    }

    /// The host of a station.
    ///
    /// # Errors
    /// If there is none of this name.
    pub fn host(&self, name: &str) -> Result<HostId, NotFound> {
        let station = self.stations.get(name).ok_or_else(|| NotFound::Station(name.to_owned()))?;
        Ok(station.place.host)
    }

    /// The inverses, in the order in which they are run.
    pub fn undo(&self) -> impl Iterator<Item = Command> {
        let all = self.standing.iter().chain(&self.steps);
        all.rev().flat_map(|step| &step.undoes).flat_map(Inverse::commands)
    }

    /// All of it as lines for a shell: what is done, what is read back, and how it is put back.
    pub fn script(&self) -> String {
        let mut script = Script::default();
        self.write_to(&mut script);
        script.text().to_owned()
    }

    /// The same, as a part of a script.
    pub fn write_to(&self, script: &mut Script) {
        let mut said = "";
        for step in self.standing.iter().chain(&self.steps) {
            if step.why != said {
                script.comment(&step.why);
                said = &step.why;
            }
            step.does.iter().for_each(|command| script.command(command));
        }
        if !self.keepers.is_empty() {
            script.comment("run as long as the path does, each until its standard input ends");
            self.keepers.iter().for_each(|keeper| script.comment(&format!("{}: {}", keeper.why, keeper.command)));
        }
        script.comment("what the kernel has made of it");
        self.read_back.iter().for_each(|question| script.command(&question.command));
        script.comment("the stations: each end is spoken to on stdin and stdout while the trials run");
        for station in self.stations.values() {
            script.comment(&station.agent.to_string());
        }
        script.comment("put everything back");
        script.pause();
        self.undo().for_each(|command| script.command(&command));
    }
}

/// What every script begins with. A step that fails must not let the rest take down what another
/// run has built under these names.
pub const HEAD: &str = "#!/bin/sh\nset -e\n";

/// A script that grows: a person reads it, and may paste it into a shell. Commands are in it as
/// they are, and everything else as comments. No text of a file, a program or a guest can break out
/// of its comment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script(String);

impl Script {
    pub fn new() -> Script {
        Script(HEAD.to_owned())
    }

    /// The one way to write a comment: one line, whatever the text holds.
    pub fn comment(&mut self, text: &str) {
        self.0 += format!("# {}", harmless::blanked(text)).trim_end();
        self.0.push('\n');
    }

    /// A command, quoted for the shell.
    pub fn command(&mut self, command: &Command) {
        self.line(&command.to_string());
    }

    /// A line that a [`Command`] of this machine was printed as.
    pub fn line(&mut self, command: &str) {
        self.0 += &format!("{command}\n");
    }

    /// What another script says, as comments of this one.
    pub fn quote(&mut self, other: &Script) {
        other.0.lines().for_each(|line| self.comment(line));
    }

    pub fn space(&mut self) {
        self.0.push('\n');
    }

    /// Waits for the user, at the terminal, for the script itself may come by the standard input.
    /// Where there is no terminal everything is put back at once.
    pub fn pause(&mut self) {
        self.0 += "printf 'built; Enter puts everything back: '; { read _ </dev/tty; } 2>/dev/null || :\n";
    }

    pub fn text(&self) -> &str {
        &self.0
    }
}

/// What each kind of path and of station does, as one value: the built-in ones, or those of a test
/// that brings its own.
#[derive(Clone, Copy, Debug)]
pub struct Kinds {
    pub path: fn(PathKind) -> &'static PathMethods,
    pub station: fn(StationKind) -> &'static StationMethods,
}

impl Default for Kinds {
    fn default() -> Kinds {
        Kinds { path: path::kind, station: station::kind }
    }
}

impl Kinds {
    /// Why the stations' hosts cannot have such stations or a path of the set-up's kind, where a
    /// cell that asks for it should not cost the others; `None` if it may be.
    ///
    /// # Errors
    /// If the run has not looked at the host of a station.
    pub fn refusal(&self, setup: &Setup, found: &FactsByHost) -> Result<Option<String>, NotFound> {
        if let Some(why) = placement::refusal(setup, found)? {
            return Ok(Some(why));
        }
        if let Some(why) = bpf_jit::refusal(setup.path.bpf_jit, found.here()) {
            return Ok(Some(why));
        }
        let refusal = (self.path)(setup.path.kind).refusal;
        // A path into a machine is built on the host that runs it: nothing of it is in the machine.
        let is_behind = setup.path.traits().devices.backend().is_some();
        for (name, station) in &setup.stations {
            let host = found.at(setup, name)?;
            let of_path = || if is_behind { None } else { refusal(host) };
            if let Some(why) = ((self.station)(station.kind).needs)(host).or_else(of_path) {
                return Ok(Some(why));
            }
        }
        Ok(if is_behind { refusal(found.here()) } else { None })
    }
}

/// One line: which of the experiment's virtual machines run in a cell's trials, by the names that
/// records have for them, and which are stopped meanwhile. `None` where none is.
pub fn awake(experiment: &Experiment, setup: &Setup) -> Option<String> {
    let hosts: BTreeSet<HostId> = setup.stations.values().flat_map(Station::hosts).collect();
    let (run, rest): (Vec<_>, Vec<_>) = experiment.machines().into_iter().partition(|(host, _)| hosts.contains(host));
    let names =
        |of: Vec<(HostId, (String, Machine))>| of.into_iter().map(|(_, (name, _))| name).collect::<Vec<_>>().join(", ");
    let says = if run.is_empty() { "no virtual machine runs".to_owned() } else { format!("run: {}", names(run)) };
    (!rest.is_empty()).then(|| format!("in its trials {says}; stopped meanwhile: {}", names(rest)))
}
