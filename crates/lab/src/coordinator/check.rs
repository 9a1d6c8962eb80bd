// SPDX-License-Identifier: MIT OR Apache-2.0
//! What can be known before anything is touched: whether an experiment can be run here, and what
//! of the machine its plans rest on.

use crate::host::HostId;
use crate::host::ask::Ask;
use crate::host::hosts::Hosts;
use crate::loads;
use crate::machine::FactsByHost;
use crate::names::Names;
use crate::placement::place;
use crate::plan::{Kinds, PlanError, plan_of};
use crate::run::RunError;
use crate::shaper;
use std::collections::BTreeMap;
use tardy_model::shaper::Shaper;
use tardy_spec::experiment::{Experiment, Setup};

/// Memory that a packet takes at its peak: both ends' records, their way here, the joined samples
/// and their analysis.
const BYTES_A_PACKET: u64 = 400;

/// About what a trial takes at its peak, bytes.
pub fn memory(setup: &Setup) -> u64 {
    let streams: u64 = setup.streams.iter().map(|stream| u64::from(stream.count) * BYTES_A_PACKET).sum();
    streams.saturating_add(loads::memory(setup))
}

/// What can be known before anything is touched: CPUs that are there, threads that do not starve
/// each other, memory, network devices that may be taken. Gives what was found, for the plan. The
/// hosts keep the devices for this run.
///
/// # Errors
/// [`RunError::Place`], [`RunError::Memory`], and as [`look`].
pub fn check(experiment: &Experiment, kinds: &Kinds, hosts: &mut Hosts<'_>) -> Result<FactsByHost, RunError> {
    let found = look(experiment, kinds, hosts)?;
    for cell in &experiment.cells {
        let needed = memory(&cell.setup);
        // The coordinator holds what both ends recorded, wherever they are.
        let available = found.here().available_bytes;
        if let Some(available) = available.filter(|available| needed > available / 10 * 9) {
            let (needed_mib, available_mib) = (needed >> 20, available >> 20);
            return Err(RunError::Memory { cell: cell.id.clone(), needed_mib, available_mib });
        }
        if !cell.setup.is_simulated() {
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
    for cell in experiment.cells.iter().filter(|cell| !cell.setup.is_simulated() && shaped(&cell.setup)) {
        // By which devices streams leave follows from the plan. Why a cell cannot be planned is
        // reported where its path is to be built: it may be refused before.
        if let Ok(plan) = plan_of(kinds, &cell.setup, Names::FIRST, &found) {
            shaper::check(&cell.setup, &plan.ends, &found)?;
        }
    }
    Ok(found)
}

/// What a host is asked for: the devices that paths are to take there, in the order of the cells,
/// and the programs of loads.
///
/// # Errors
/// If a path cannot join its stations, or a load names a station that is not there.
pub fn ask(experiment: &Experiment, kinds: &Kinds, host: HostId) -> Result<Ask, RunError> {
    let mut ask = Ask::default();
    for cell in experiment.cells.iter().filter(|cell| !cell.setup.is_simulated()) {
        let devices = ((kinds.path)(cell.setup.path.kind).asks)(&cell.setup, host).map_err(PlanError::from)?;
        for device in devices {
            if !ask.devices.contains(&device) {
                ask.devices.push(device);
            }
        }
        ask.programs.extend(loads::programs_at(&cell.setup, host)?);
    }
    Ok(ask)
}
