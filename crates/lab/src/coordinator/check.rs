// SPDX-License-Identifier: MIT OR Apache-2.0
//! Before the first packet. What can be known before anything is touched: whether an experiment can
//! be run here, and what of the machine its plans rest on. Then every queue discipline is tried
//! once, on a path of its own that is taken down again: what this kernel refuses must not show when
//! half of the cells are measured. And a path that is built is waited for, until it can be used:
//! for the links of devices that are cabled, and for the schedules of queue disciplines.

use super::copies::{CopyPlaces, sizes_of};
use super::under_way::Run;
use crate::bpf_jit;
use crate::copying::{self, CopyRefused};
use crate::host::ask::Ask;
use crate::host::devices::DeviceError;
use crate::host::hosts::Hosts;
use crate::host::{ApplyError, Host, HostId, LookError};
use crate::loads;
use crate::machine::FactsByHost;
use crate::names::Names;
use crate::not_found::NotFound;
use crate::orders::{is_same_path, memory};
use crate::placement::place;
use crate::plan::{self, Kinds, Plan, PlanError, plan_of};
use crate::run::RunError;
use crate::shaper;
use crate::undo::UndoError;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tardy_model::shaper::Shaper;
use tardy_model::station::StationKind;
use tardy_spec::experiment::{Experiment, Setup, Station};
use tardy_sys::clock;

/// What can be known before anything is touched: CPUs that are there, threads that do not starve
/// each other, memory, network devices that may be taken. Gives what was found, for the plan. The
/// hosts keep the devices for this run.
///
/// # Errors
/// [`RunError::Place`], [`RunError::Memory`], [`RunError::TaiOffsets`], and as [`look`].
pub fn check(experiment: &Experiment, kinds: &Kinds, hosts: &mut Hosts<'_>) -> Result<FactsByHost, RunError> {
    hosts.wake_all()?;
    let found = look(experiment, kinds, hosts)?;
    for (host, remote) in experiment.remotes() {
        let offsets = found.here().tai_offset_s.zip(found.of(host)?.tai_offset_s);
        if let Some((ours_s, theirs_s)) = offsets.filter(|(ours, theirs)| ours != theirs) {
            return Err(RunError::TaiOffsets { machine: remote.ssh, theirs_s, ours_s });
        }
    }
    for (cell, copy) in experiment.cells.iter().filter_map(|cell| Some((cell, cell.setup.copy.as_ref()?))) {
        let (here, sizes) = (found.here(), sizes_of(copy));
        let on = CopyPlaces::read();
        match copying::place(&cell.id, copy, on.room(here, here.available_bytes, &sizes)) {
            // What this machine does not have may be missing, where the case is optional.
            Err(CopyRefused::NotIsolated { .. }) if cell.optional => {}
            placed => drop(placed?),
        }
    }
    for cell in &experiment.cells {
        let needed = memory(&cell.setup);
        // The coordinator holds what both ends recorded, wherever they are.
        let available = found.here().available_bytes;
        if let Some(available) = available.filter(|available| needed > available / 10 * 9) {
            let (needed_mib, available_mib) = (needed >> 20, available >> 20);
            return Err(RunError::Memory { cell: cell.id.clone(), needed_mib, available_mib });
        }
        if !cell.setup.builds_nothing() {
            let (chosen, _) = place(&cell.setup, &found)?;
            loads::place(&cell.setup, &chosen, &found)?;
            loads::programs(&cell.setup, &found)?;
        }
    }
    Ok(found)
}

/// What of the machines a plan of the experiment rests on.
///
/// # Errors
/// [`RunError::Plan`], [`RunError::Look`] and [`RunError::Shaper`].
pub fn look(experiment: &Experiment, kinds: &Kinds, hosts: &mut Hosts<'_>) -> Result<FactsByHost, RunError> {
    let mut asks = BTreeMap::new();
    for host in hosts.ids() {
        asks.insert(host, ask(experiment, kinds, host)?);
    }
    let found = hosts.look(asks)?;
    let shaped = |setup: &Setup| setup.shaper != Shaper::None && !setup.path.traits().devices.are_made();
    for cell in experiment.cells.iter().filter(|cell| !cell.setup.builds_nothing() && shaped(&cell.setup)) {
        // By which devices streams leave follows from the plan. Why a cell cannot be planned is
        // reported where its path is to be built: it may be refused before.
        if let Ok(plan) = plan_of(kinds, &cell.setup, Names::FIRST, &found) {
            shaper::check(&cell.setup, &plan.ends, &found)?;
        }
    }
    Ok(found)
}

/// Looks at the network devices of this machine that paths are to take, and keeps them for this
/// run, before a virtual machine is started: a refusal costs no start then.
///
/// # Errors
/// [`RunError::Plan`] and [`RunError::Look`].
pub fn look_at_devices(experiment: &Experiment, kinds: &Kinds, here: &mut dyn Host) -> Result<(), RunError> {
    let devices = ask(experiment, kinds, HostId::HERE)?.devices;
    if !devices.is_empty() {
        here.look(&Ask { devices, ..Ask::default() })?;
    }
    Ok(())
}

/// What leads to each virtual machine that is there already, by the name of its host, as the
/// manifest has it.
///
/// # Errors
/// If the kernel knows it behind another device.
pub fn behind(
    experiment: &Experiment,
    found: &FactsByHost,
    hosts: &Hosts<'_>,
) -> Result<BTreeMap<String, BTreeMap<String, String>>, RunError> {
    let mut all = BTreeMap::new();
    for (name, station) in experiment.cells.iter().flat_map(|cell| &cell.setup.stations) {
        let read = station.tap.as_ref().and_then(|tap| Some((tap, found.here().behind.get(tap)?)));
        let (Some((tap, behind)), Some(host)) = (read, hosts.name(station.host)) else { continue };
        let macs = found.of(station.host)?.own.iter().map(|own| own.mac.as_str());
        let facts = behind.checked(name, tap, macs).map_err(LookError::from)?;
        all.insert(host.to_owned(), facts);
    }
    Ok(all)
}

/// What a host is asked for: the devices that paths are to take there, in the order of the cells,
/// and the programs of loads.
///
/// # Errors
/// If a path cannot join its stations, or a load names a station that is not there.
pub fn ask(experiment: &Experiment, kinds: &Kinds, host: HostId) -> Result<Ask, RunError> {
    let mut ask = Ask::default();
    for cell in experiment.cells.iter().filter(|cell| !cell.setup.builds_nothing()) {
        let devices = ((kinds.path)(cell.setup.path.kind).asks)(&cell.setup, host).map_err(PlanError::from)?;
        for device in devices {
            if !ask.devices.contains(&device) {
                ask.devices.push(device);
            }
        }
        let is_own = |station: &Station| station.host == host && station.kind == StationKind::Host;
        ask.addresses |= cell.setup.stations.values().any(is_own);
        // The device is this machine's, wherever the station is.
        let taps = cell.setup.stations.values().filter_map(|station| station.tap.clone());
        ask.behind.extend(taps.filter(|_| host == HostId::HERE));
        ask.sets_bpf_jit |= bpf_jit::is_set(&cell.setup, host);
        ask.programs.extend(loads::programs_at(&cell.setup, host)?);
    }
    Ok(ask)
}

impl Run<'_, '_> {
    /// Tries each once. What only a device can do and it does not costs the cells that ask for it;
    /// anything else that is refused ends the run.
    pub(super) fn preflight(&mut self, names: Names, not_put_back: &mut Option<UndoError>) -> Result<(), RunError> {
        let experiment = self.experiment;
        let mut tried: Vec<(&Setup, Option<String>)> = Vec::new();
        for cell in &experiment.cells {
            let refused = self.refused.contains(&cell.id);
            if refused || cell.setup.builds_nothing() || cell.setup.shaper == Shaper::None || self.stopped() {
                continue;
            }
            let known =
                tried.iter().find(|(setup, _)| is_same_path(&self.options.kinds, setup, &cell.setup, &self.found));
            let refused = match known.map(|(_, refused)| refused.clone()) {
                Some(refused) => refused,
                None => {
                    let refused = self.try_out(names, &cell.setup, not_put_back)?;
                    tried.push((&cell.setup, refused.clone()));
                    refused
                }
            };
            if let Some(why) = refused {
                self.refuse(cell, why);
            }
        }
        Ok(())
    }

    /// Builds the path of a cell and takes it down; why its device refuses, if it does.
    fn try_out(
        &mut self,
        names: Names,
        setup: &Setup,
        not_put_back: &mut Option<UndoError>,
    ) -> Result<Option<String>, RunError> {
        // Its ends are the same whatever the clocks read, and these are read only if it is built.
        let ends = plan::plan_of(&self.options.kinds, setup, names, &self.found)?.ends;
        let blind = shaper::offload_refusal(setup, &ends, &self.found)?;
        if let Some(why) = blind.filter(|_| !setup.path.traits().devices.are_made()) {
            return Ok(Some(why));
        }
        self.read_clocks(setup)?;
        let plan = plan::plan_of(&self.options.kinds, setup, names, &self.found)?;
        let applied = self.hosts.apply(&plan.steps);
        if let Err(error) = self.hosts.put_back() {
            *not_put_back = Some(error);
        }
        self.tell_commands();
        match applied {
            Ok(()) => Ok(None),
            Err(ApplyError::Failed { why, says, command })
                if why == shaper::WHY && setup.shaper.offloads().is_some() =>
            {
                Ok(Some(shaper::with_the_kernels_refusal(setup, &ends, &self.found, &command.to_string(), &says)?))
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// Two devices need so long to agree on a speed, and some more.
const LINK: Duration = Duration::from_secs(15);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Waits until both devices have their link, and those inside the path that a cable joins; a signal
/// ends the wait.
///
/// # Errors
/// If one has none in time, or is not there any more.
pub fn wait_for_link(hosts: &mut Hosts<'_>, plan: &Plan, stop: &AtomicBool) -> Result<(), LookError> {
    let until = Instant::now() + LINK;
    let inside = plan.cabled.iter().map(|(place, device)| (place, device));
    for (place, device) in inside.chain(plan.ends.values().map(|end| (&end.place, &end.device))) {
        let host = hosts.at(place.host)?;
        while !(stop.load(Relaxed) || host.link_is_up(place.netns(), device)?) {
            if Instant::now() > until {
                return Err(DeviceError::NoLink { device: device.clone(), seconds: LINK.as_secs() }.into());
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }
    Ok(())
}

impl Run<'_, '_> {
    /// Reads the clocks of the hosts whose queue disciplines have a schedule. This machine's is
    /// read for every plan.
    pub(super) fn read_clocks(&mut self, setup: &Setup) -> Result<(), RunError> {
        let with_schedule = setup.shaper.taprio().is_some();
        // This machine's is the last one: the others may take their time to answer.
        let others = self.hosts.ids().into_iter().skip(1).filter(|_| with_schedule);
        for host in others {
            let now = self.hosts.at(host)?.now()?;
            self.found.read_clock(host, now);
        }
        self.found.read_clock(HostId::HERE, clock::now());
        self.clocks_read = Instant::now();
        Ok(())
    }

    /// Waits until the schedules of a path have begun. Before that every gate is open, and
    /// iproute2 (6.1) prints one that waits as what is no JSON.
    pub(super) fn wait_for_schedules(&self, plan: &Plan) -> Result<(), NotFound> {
        for (host, begins) in &plan.begins {
            if *host == HostId::HERE {
                clock::sleep_until(*begins);
                continue;
            }
            // Another clock is not waited for: what was left by it when it was read has to pass.
            let left = self.found.of(*host)?.now.map_or(0, |now| begins.ns() - now.ns());
            let left = Duration::from_nanos(left.max(0) as u64);
            std::thread::sleep(left.saturating_sub(self.clocks_read.elapsed()));
        }
        Ok(())
    }
}
