// SPDX-License-Identifier: MIT OR Apache-2.0
//! The sum by which kernels and archives are known.

use sha2::{Digest, Sha256};

/// SHA-256, hexadecimal.
pub fn of(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
