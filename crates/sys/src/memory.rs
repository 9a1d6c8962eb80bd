// SPDX-License-Identifier: MIT OR Apache-2.0
//! How much memory the machine has left.

use std::fs;

/// Memory that programs may still use, bytes; none where the kernel does not say.
pub fn available() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) << 10
}
