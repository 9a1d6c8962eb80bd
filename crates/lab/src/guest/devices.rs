// SPDX-License-Identifier: MIT OR Apache-2.0
//! Devices of a guest's that an experiment needs, and only its guest gets: modules beside those that every guest has, and network
//! devices of QEMU's. Pure.

use super::GuestError;
use super::extra;
use tardy_spec::experiment::{Cell, Experiment, Path};

/// Two ports of the same emulated controller on one hub, which forwards what comes to one to the other.
const IGB_PORTS: &str = "-netdev hubport,id=port0,hubid=0 -netdev hubport,id=port1,hubid=0 \
                         -device igb,netdev=port0,addr=2,mac=02:74:64:ff:00:00 -device igb,netdev=port1,addr=4,mac=02:74:64:ff:00:01";
/// The first QEMU that has it.
const IGB_SINCE: u32 = 8;

fn with_igb(experiment: &Experiment) -> Option<&Cell> {
    experiment.cells.iter().find(|cell| matches!(cell.setup.path, Path::Igb { .. }))
}

/// Modules that the experiment's paths need, in the order in which they are loaded.
pub fn modules(experiment: &Experiment) -> Vec<&'static str> {
    let simulated = experiment.cells.iter().any(|cell| matches!(cell.setup.path, Path::Netdevsim { .. }));
    let of_netdevsim = extra::extra("netdevsim").filter(|_| simulated).map_or(&[][..], |extra| extra.modules);
    let of_igb = with_igb(experiment).map_or(&[][..], |_| &["igb"]);
    [of_netdevsim, of_igb].concat()
}

/// What QEMU is told beside the rest.
pub fn arguments(experiment: &Experiment) -> Vec<String> {
    let words = with_igb(experiment).map_or("", |_| IGB_PORTS);
    words.split_whitespace().map(str::to_owned).collect()
}

/// Refuses what this QEMU does not have, by what it says of its version.
///
/// # Errors
/// [`GuestError::NotInGuest`].
pub fn possible(experiment: &Experiment, version: &str) -> Result<(), GuestError> {
    let words = version.split_once("version ").map_or("", |(_, rest)| rest);
    let major = words.split('.').next().and_then(|major| major.parse::<u32>().ok());
    match with_igb(experiment).filter(|_| major.is_none_or(|major| major < IGB_SINCE)) {
        Some(cell) => Err(GuestError::NotInGuest {
            cell: cell.id.clone(),
            why: format!(
                "its path is two ports of igb, which QEMU emulates from version {IGB_SINCE}.0 on, and this is {version}: use path.kind = \"veth\""
            ),
        }),
        None => Ok(()),
    }
}
