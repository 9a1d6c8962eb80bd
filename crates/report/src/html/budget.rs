// SPDX-License-Identifier: MIT OR Apache-2.0
//! What each picture may have of what all of them have together, so that the page stays small.

/// How many parts each of `many` may have, by how many there are of all, and the most and least
/// of one.
pub(super) fn share((all, most, least): (usize, usize, usize), many: usize) -> usize {
    (all / many.max(1)).clamp(least, most)
}
