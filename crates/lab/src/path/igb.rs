// SPDX-License-Identifier: MIT OR Apache-2.0
//! The two igb ports of a guest: whole network devices with queues, interrupts and a clock of
//! their own, all of it QEMU's (8.0 or newer). They are taken as the devices of a wire are.

use super::link::{Laid, PathError};
use super::methods::{InGuest, PathMethods, PlannedStations};
use super::wire;
use crate::machine::FactsByHost;
use crate::names::Names;
use tardy_spec::experiment::Setup;

/// Why there are none.
const WHY_NOT: &str =
    "path igb needs two igb ports that QEMU emulates, from its version 8.0 on: run it in a guest (`--in guest:exact`)";

/// Two ports of the same emulated controller on one hub, which forwards what comes to one to the
/// other.
const PORTS: &str = "-netdev hubport,id=port0,hubid=0 -netdev hubport,id=port1,hubid=0 \
                     -device igb,netdev=port0,addr=2,mac=02:74:64:ff:00:00 -device igb,netdev=port1,addr=4,mac=02:74:64:ff:00:01";

pub(super) const KIND: PathMethods = PathMethods {
    refusal: |facts| (!facts.emulates).then(|| WHY_NOT.to_owned()),
    lay,
    guest: InGuest { modules: || &["igb"], arguments: PORTS, since: Some((8, "two ports of igb")) },
};

/// Plans the path.
///
/// # Errors
/// If there are not exactly two stations, or a device was not looked at.
fn lay(setup: &Setup, stations: &PlannedStations, names: Names, found: &FactsByHost) -> Result<Laid, PathError> {
    wire::lay(setup, stations, names, found)
}
