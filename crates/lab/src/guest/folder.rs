// SPDX-License-Identifier: MIT OR Apache-2.0
//! What lies in a guest's folder only while the guest runs.

/// What its port brings.
pub const PORT: &str = "port";
/// The archive that it boots with.
pub const INITRAMFS: &str = "initramfs";
/// Folder of what a probe is given and writes.
pub const PROBE: &str = "probe";
pub const PASSING: [&str; 3] = [INITRAMFS, PORT, PROBE];
