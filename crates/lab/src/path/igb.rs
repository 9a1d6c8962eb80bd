// SPDX-License-Identifier: MIT OR Apache-2.0
//! The two igb ports of a guest: whole network devices with queues, interrupts and a clock of
//! their own, all of it QEMU's (8.0 or newer). They are taken as the devices of a wire are.

use super::methods::{InGuest, PathMethods};
use super::wire;
use crate::binding::{PCI, VFIO};
use std::fs;
use std::path::Path;
use tardy_model::path::{Devices, PathKind};

/// Why there are none.
const WHY_NOT: &str =
    "path igb needs two igb ports that QEMU emulates, from its version 8.0 on: run it in a guest (`--in guest:exact`)";

/// Two ports of the same emulated controller on one hub, which forwards what comes to one to the
/// other.
const PORTS: &str = "-netdev hubport,id=port0,hubid=0 -netdev hubport,id=port1,hubid=0 \
                     -device igb,netdev=port0,addr=2,mac=02:74:64:ff:00:00 -device igb,netdev=port1,addr=4,mac=02:74:64:ff:00:01";

pub(super) const KIND: PathMethods = PathMethods {
    is_possible: has_both_ports,
    refusal: |facts| (!facts.can_have(PathKind::Igb)).then(|| WHY_NOT.to_owned()),
    guest: InGuest { modules: || &["igb"], arguments: PORTS, since: Some((8, "two ports of igb")), ..InGuest::NOTHING },
    ..wire::KIND
};

/// Whose devices are QEMU's: the vendor of a PCI device's subsystem (`include/hw/pci/pci.h`).
const QEMU: &str = "0x1af4";
const DRIVER: &str = "igb";

/// True if this network device is such a port of a guest's that tardy booted. Elsewhere a device of
/// this name is somebody's own, whoever emulates it, and a file takes none without the caller's
/// word.
pub(super) fn is_port(device: &str) -> bool {
    if !tardy_sys::machine::is_init() {
        return false;
    }
    let folder = Path::new("/sys/class/net").join(device).join("device");
    let driver = fs::read_link(folder.join("driver")).ok();
    let vendor = fs::read_to_string(folder.join("subsystem_vendor")).unwrap_or_default();
    driver.is_some_and(|driver| driver.ends_with(DRIVER)) && vendor.trim() == QEMU
}

/// True if a virtual machine of this one has a function.
fn is_one_passed() -> bool {
    let mut functions = fs::read_dir(Path::new(PCI).join("drivers").join(VFIO)).into_iter().flatten().flatten();
    functions.any(|entry| entry.file_name().to_string_lossy().contains(':'))
}

/// True if this machine is a guest with both; the other one may be with a virtual machine.
fn has_both_ports() -> bool {
    match PathKind::Igb.traits().devices {
        Devices::There(devices) => {
            devices.iter().all(|device| is_port(device) || (*device != devices[0] && is_one_passed()))
        }
        Devices::Made { .. } | Devices::Named | Devices::OfGuest(_) | Devices::Own => false,
    }
}
