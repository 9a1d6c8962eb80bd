// SPDX-License-Identifier: MIT OR Apache-2.0
//! Virtual machines in a guest: where an experiment in exact time has stations that are machines,
//! the guest starts them itself, by the kernel's own KVM, on a processor that QEMU emulates with
//! its extension for virtual machines. What they boot is packed into the guest's initramfs, with
//! QEMU. Their instructions are counted like the guest's own, so that all that happens in them
//! repeats to the nanosecond.

use super::error::{GuestError, file};
use super::init::InitError;
use super::initramfs::Archive;
use super::kernel::Kernel;
use super::programs;
use super::unpack::Boots;
use crate::host::qemu as process;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use tardy_model::machine::HostId;
use tardy_model::station::{Machine, Net};

/// The list of what the guest's machines boot; there is none where it has none.
const LIST: &str = "/tardy/machines.json";
/// Where the kernels and archives of that list are.
const FOLDER: &str = "/tardy/machines";
/// The kernel's modules that a guest with machines has in addition: KVM for the processor that QEMU
/// emulates, and what its network devices lead to.
pub const MODULES: &[&str] = &["kvm_amd", "tun"];
/// And those for machines whose packets the kernel moves.
const VHOST: &[&str] = &["vhost_net"];
/// Memory that a guest with machines needs for QEMU and its libraries, MiB: once as files, and once
/// more while the archive is unpacked.
const PROGRAM_MIB: u64 = 128;
/// Memory that a machine needs in addition to its own, MiB: QEMU's own, and its initramfs, which
/// the guest has twice at a time and QEMU once.
const MACHINE_MIB: u64 = 128;

/// A machine as it is packed.
#[derive(Debug)]
pub struct ToPack<'a> {
    pub host: HostId,
    pub kernel: &'a Kernel,
    /// The file that QEMU is given.
    pub boots: &'a Boots,
    pub initramfs: Vec<u8>,
}

/// What a machine boots that runs in a guest, as that guest finds it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Packed {
    pub kernel: PathBuf,
    pub initramfs: PathBuf,
    /// The kernel, as it was asked for.
    pub name: String,
    /// SHA-256 of the kernel's image, hexadecimal.
    pub sha256: String,
}

/// All of a guest's machines, as it finds them.
#[derive(Debug, Serialize, Deserialize)]
pub struct AllPacked {
    /// What QEMU says of its version.
    pub qemu: String,
    /// By the number of the machine's host.
    pub machines: BTreeMap<u16, Packed>,
}

impl AllPacked {
    /// In the guest: reads what was packed.
    ///
    /// # Errors
    /// If it is not there, or makes no sense.
    pub fn read() -> Result<AllPacked, GuestError> {
        let list = fs::read(LIST).map_err(file("read", Path::new(LIST)))?;
        let unreadable = |error: serde_json::Error| InitError::Orders(error.to_string()).to_string();
        serde_json::from_slice(&list).map_err(|error| GuestError::Nonsense(unreadable(error)))
    }
}

/// The modules of such machines' guest, in the order in which they are loaded.
pub fn modules<'m>(mut machines: impl Iterator<Item = &'m Machine>) -> Vec<&'static str> {
    match machines.next() {
        None => Vec::new(),
        Some(first) => {
            let has_vhost = first.net == Net::Vhost || machines.any(|machine| machine.net == Net::Vhost);
            MODULES.iter().chain(VHOST.iter().filter(|_| has_vhost)).copied().collect()
        }
    }
}

/// Memory that a guest needs for its machines, of which it is given what they boot, MiB.
pub fn memory_mib<'m>(machines: impl Iterator<Item = (&'m Machine, &'m Boots)> + Clone) -> u64 {
    if machines.clone().next().is_none() {
        return 0;
    }
    let kernels: BTreeMap<&str, &Path> =
        machines.clone().map(|(_, boots)| (boots.sha256.as_str(), boots.path.as_path())).collect();
    let bytes = kernels.values().filter_map(|path| fs::metadata(path).ok()).map(|about| about.len()).sum::<u64>();
    // As files, while they are unpacked, and as QEMU reads them.
    let kernels_mib = 3 * (bytes >> 20);
    let machines_mib = machines.map(|(machine, _)| machine.memory_mib.saturating_add(MACHINE_MIB));
    let all = machines_mib.fold(PROGRAM_MIB + kernels_mib, u64::saturating_add);
    all.next_multiple_of(64)
}

/// Puts the machines' kernels and archives, and the QEMU that runs the guest too, into the guest's
/// archive.
///
/// # Errors
/// If something that goes in cannot be read.
pub fn pack(machines: Vec<ToPack<'_>>, emulator: &Path, archive: &mut Archive) -> Result<(), GuestError> {
    if machines.is_empty() {
        return Ok(());
    }
    programs::pack_qemu(emulator, archive)?;
    let qemu = process::version(emulator).map_err(|source| GuestError::Start { source })?;
    let mut all = AllPacked { qemu, machines: BTreeMap::new() };
    for ToPack { host, kernel, boots, initramfs: bytes } in machines {
        let number = host.number();
        let image = format!("{FOLDER}/{}", boots.sha256);
        if !archive.has(&image) {
            archive.file(&image, fs::read(&boots.path).map_err(file("read", &boots.path))?, false);
        }
        let initramfs = format!("{FOLDER}/{number}");
        archive.file(&initramfs, bytes, false);
        let (name, sha256) = (kernel.name.clone(), kernel.sha256.clone());
        all.machines.insert(number, Packed { kernel: image.into(), initramfs: initramfs.into(), name, sha256 });
    }
    archive.file(LIST, serde_json::to_vec(&all).unwrap_or_default(), false);
    Ok(())
}
