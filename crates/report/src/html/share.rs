// SPDX-License-Identifier: MIT OR Apache-2.0
//! How much of the page each picture may take.

/// How many bins each of `many` may have.
pub(super) fn share((all, most, least): (usize, usize, usize), many: usize) -> usize {
    (all / many.max(1)).clamp(least, most)
}
