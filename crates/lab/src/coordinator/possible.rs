// SPDX-License-Identifier: MIT OR Apache-2.0
//! What can be known before anything is touched: whether an experiment can be run here, and what of the machine its plans rest on.

use crate::loads;
use crate::machine::Facts;
use crate::path::{netdevsim, wire};
use crate::placement::place;
use crate::run::RunError;
use crate::shaper;
use tardy_host::softirq::steering;
use tardy_host::{cpus, facts, nic, state};
use tardy_spec::experiment::{Experiment, Setup};
use tardy_sys::clock;

/// Memory that a packet takes at its peak: both ends' records, their way here, the joined samples and their analysis.
const BYTES_A_PACKET: u64 = 400;

/// About what a trial takes at its peak, bytes.
pub fn memory(setup: &Setup) -> u64 {
    let streams: u64 = setup.streams.iter().map(|stream| u64::from(stream.count) * BYTES_A_PACKET).sum();
    streams.saturating_add(loads::memory(setup))
}

/// An experiment that can be run here, as far as that is known before anything is touched.
pub struct Possible {
    /// What of the machine its plan rests on.
    pub found: Facts,
    /// Its network devices, which no other run can take from now on.
    pub(super) claim: wire::Claim,
}

/// What can be known before anything is touched: CPUs that are there, threads that do not starve each other, memory, network
/// devices that may be taken. Gives what was found, for the plan, and keeps the devices for this run; they are to go back to the
/// namespace of process `home`.
///
/// # Errors
/// [`RunError::Place`], [`RunError::Memory`] and [`RunError::Wire`].
pub fn possible(experiment: &Experiment, home: u32) -> Result<Possible, RunError> {
    for cell in &experiment.cells {
        let needed = memory(&cell.setup);
        if let Some(available) = state::available_bytes().filter(|available| needed > available / 10 * 9) {
            let (needed_mib, available_mib) = (needed >> 20, available >> 20);
            return Err(RunError::Memory { cell: cell.id.clone(), needed_mib, available_mib });
        }
        if !cell.setup.is_simulated() {
            let (chosen, _) = place(&cell.setup)?;
            loads::place(&cell.setup, &chosen, &cpus::usable())?;
            loads::programs(&cell.setup)?;
        }
    }
    claimed(experiment, home)
}

/// What of the machine a plan of the experiment rests on.
///
/// # Errors
/// [`RunError::Wire`] and [`RunError::Shaper`].
pub fn found(experiment: &Experiment, home: u32) -> Result<Facts, RunError> {
    claimed(experiment, home).map(|possible| possible.found)
}

fn claimed(experiment: &Experiment, home: u32) -> Result<Possible, RunError> {
    // Two runs at once must not both believe a device free, nor one read what the other has set.
    let mut claim = wire::claim(experiment)?;
    let nics = wire::look(experiment)?;
    claim.also(nics.values().map(|nic| nic.name.as_str()))?;
    let steering = nics.keys().map(|device| (device.clone(), steering(device))).collect();
    let tx_queues =
        nics.iter().filter_map(|(device, nic)| Some((device.clone(), nic::tx_queues(&nic.name)?))).collect();
    let (simulates, now) = (netdevsim::is_here(), Some(clock::now()));
    let release = facts::release();
    let found = Facts { home, nics, usable: cpus::usable(), steering, tx_queues, simulates, release, now };
    for cell in experiment.cells.iter().filter(|cell| !cell.setup.is_simulated()) {
        shaper::possible(&cell.setup, &found)?;
    }
    Ok(Possible { found, claim })
}
