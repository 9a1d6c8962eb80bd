// SPDX-License-Identifier: MIT OR Apache-2.0
//! How large the error queue is made, in which stamps wait until the trial is over: large enough
//! for all of them, as far as the machine's memory allows.

use crate::order::SendOrder;
use tardy_sys::memory;

/// What a stamp that waits costs the queue, bytes: an skb's true size, rounded up.
pub const STAMP_BYTES: u64 = 1_024;
/// No queue is larger, bytes.
const LARGEST: u64 = 256 << 20;
/// Packets other than the trial's whose stamps wait with theirs: of the lead-in, the lead-out and
/// late warm-ups.
pub(crate) const BESIDE: u64 = 64;
/// None is made smaller, bytes: warm-ups and lead-ins need room too.
const LEAST: u64 = 1 << 20;
/// A queue takes at most this part of the memory that is available, for there may be one at each
/// end of several streams.
const PART: u64 = 8;

/// The size that an end's error queue should have, bytes, where so much memory is available. The
/// kernel counts a stamp at less than [`STAMP_BYTES`].
pub fn size(count: u32, stamps: u32, available: u64) -> u64 {
    let wanted = (u64::from(count) + 2 * BESIDE) * u64::from(stamps.max(1)) * STAMP_BYTES;
    // In steps, so that the size does not depend on what else happens to need a page.
    let affordable = (available / PART) >> 22 << 22;
    wanted.min(LARGEST).min(affordable).max(LEAST)
}

/// The same for this machine, as an option of a socket takes it: the kernel doubles what it is
/// given.
pub(crate) fn size_here(order: &SendOrder) -> i32 {
    i32::try_from(size(order.order.count, order.stamps(), memory::available()) / 2).unwrap_or(i32::MAX / 2)
}
