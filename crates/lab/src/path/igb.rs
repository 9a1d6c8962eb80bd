// SPDX-License-Identifier: MIT OR Apache-2.0
//! The two igb ports of a guest: whole network devices with queues, interrupts and a clock of their own, all of it QEMU's (8.0 or newer).
//! They are taken as the devices of a wire are.

use super::link::{Laid, PathError};
use super::wire;
use crate::machine::Facts;
use crate::names::Names;
use tardy_spec::experiment::Setup;

/// Why there are none.
pub const WHY_NOT: &str =
    "path igb needs two igb ports that QEMU emulates, from its version 8.0 on: run it in a guest (`--in guest:exact`)";

/// Plans the path, with an MTU of `mtu` bytes.
///
/// # Errors
/// If there are not exactly two stations, or a device was not looked at.
pub fn lay(setup: &Setup, mtu: u32, names: Names, found: &Facts) -> Result<Laid, PathError> {
    wire::lay(setup, setup.path.devices().unwrap_or_default(), mtu, names, found)
}
