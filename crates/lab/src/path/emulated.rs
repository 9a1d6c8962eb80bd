// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether this machine is a guest with the two igb ports that QEMU emulates.

use std::fs;
use std::path::Path;
use tardy_model::path::{DeviceClock, Devices, PathKind, PathTraits};

/// Whose devices are QEMU's: the vendor of a PCI device's subsystem (`include/hw/pci/pci.h`).
const QEMU: &str = "0x1af4";
const DRIVER: &str = "igb";

/// True if this machine has both.
pub fn has_both_ports() -> bool {
    let is_one = |device: &str| {
        let folder = Path::new("/sys/class/net").join(device).join("device");
        let driver = fs::read_link(folder.join("driver")).ok();
        let vendor = fs::read_to_string(folder.join("subsystem_vendor")).unwrap_or_default();
        driver.is_some_and(|driver| driver.ends_with(DRIVER)) && vendor.trim() == QEMU
    };
    let there = PathKind::ALL.into_iter().filter_map(|kind| match kind.traits() {
        PathTraits { devices: Devices::There(devices), clock: DeviceClock::Emulated, .. } => Some(devices),
        _ => None,
    });
    there.flatten().all(is_one)
}
