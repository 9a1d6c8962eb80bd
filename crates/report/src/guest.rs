// SPDX-License-Identifier: MIT OR Apache-2.0
//! Of the guest that a run was made in, what a reader needs to make it again: it stands among the
//! facts of the machine.

use tardy_model::manifest::GuestEntry;

/// Names and values, in the order in which they are read. What is not known is left out.
pub(crate) fn facts(guest: &GuestEntry) -> Vec<(String, String)> {
    let tai = Some(guest.tai_offset_s).filter(|offset| *offset != 0).map(|offset| format!("{offset} s"));
    let facts = [
        ("mode", guest.mode.clone()),
        ("accelerator", guest.accelerator.clone()),
        ("kernel", format!("{} {}", guest.kernel, guest.kernel_release).trim().to_owned()),
        ("/proc/version", guest.proc_version.clone().unwrap_or_default()),
        ("QEMU", guest.qemu.clone()),
        ("SHA-256 of the kernel", guest.kernel_sha256.clone()),
        ("SHA-256 of the initramfs", guest.initramfs_sha256.clone()),
        ("TAI − UTC", tai.unwrap_or_default()),
    ];
    let known = facts.into_iter().filter(|(_, value)| !value.is_empty());
    known.map(|(name, value)| (format!("guest: {name}"), value)).collect()
}
