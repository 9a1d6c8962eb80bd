// SPDX-License-Identifier: MIT OR Apache-2.0
//! The two igb ports of a guest: whole network devices with queues, interrupts and a clock of their own, all of it QEMU's (8.0 or newer).
//! They are taken as the devices of a wire are.

use super::{Found, Laid, PathError, wire};
use crate::names::Names;
use std::fs;
use std::path::Path;
use tardy_spec::experiment::{self, Setup};

/// Whose devices are QEMU's: the vendor of a PCI device's subsystem (`include/hw/pci/pci.h`).
const QEMU: &str = "0x1af4";
/// The driver.
const DRIVER: &str = "igb";

/// Why there are none.
pub const WHY_NOT: &str =
    "path igb needs two igb ports that QEMU emulates, from its version 8.0 on: run it in a guest (`--in guest:exact`)";

/// True if this machine has both.
pub fn is_here() -> bool {
    let is_one = |device: &str| {
        let folder = Path::new("/sys/class/net").join(device).join("device");
        let driver = fs::read_link(folder.join("driver")).ok();
        let vendor = fs::read_to_string(folder.join("subsystem_vendor")).unwrap_or_default();
        driver.is_some_and(|driver| driver.ends_with(DRIVER)) && vendor.trim() == QEMU
    };
    experiment::Path::Igb { mtu: 0 }.devices().is_some_and(|devices| devices.into_iter().all(is_one))
}

/// Plans the path, with an MTU of `mtu` bytes.
///
/// # Errors
/// If there are not exactly two stations, or a device was not looked at.
pub fn lay(setup: &Setup, mtu: u32, names: Names, found: &Found) -> Result<Laid, PathError> {
    wire::lay(setup, setup.path.devices().unwrap_or_default(), mtu, names, found)
}
