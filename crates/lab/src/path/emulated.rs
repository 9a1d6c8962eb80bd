// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether this machine is a guest with the two igb ports that QEMU emulates.

use std::fs;
use std::path::Path;
use tardy_model::path::{Devices, PathKind};

/// Whose devices are QEMU's: the vendor of a PCI device's subsystem (`include/hw/pci/pci.h`).
const QEMU: &str = "0x1af4";
/// The driver.
const DRIVER: &str = "igb";

/// True if this machine has both.
pub fn is_here() -> bool {
    let is_one = |device: &str| {
        let folder = Path::new("/sys/class/net").join(device).join("device");
        let driver = fs::read_link(folder.join("driver")).ok();
        let vendor = fs::read_to_string(folder.join("subsystem_vendor")).unwrap_or_default();
        driver.is_some_and(|driver| driver.ends_with(DRIVER)) && vendor.trim() == QEMU
    };
    match PathKind::Igb.traits().devices {
        Devices::There(devices) => devices.into_iter().all(is_one),
        Devices::Made { .. } | Devices::Named => false,
    }
}
