// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers in bytes of any length: nothing where the bytes end.

/// The little-endian number at `at`.
pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|chunk| u32::from_le_bytes(*chunk))
}

/// The little-endian number at `at`.
pub(super) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|chunk| u16::from_le_bytes(*chunk))
}
