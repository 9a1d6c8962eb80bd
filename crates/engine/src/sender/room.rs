// SPDX-License-Identifier: MIT OR Apache-2.0
//! The room of the error queue, in which stamps wait.

use crate::port::queue;

/// What the error queue has room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Room {
    /// Stamps that it holds.
    pub(super) stamps: u64,
    /// The stamps of the whole trial fit in.
    pub(super) is_enough: bool,
}

impl Room {
    /// Of a queue of `bytes` for a trial that brings `stamps` stamps.
    pub(super) fn new(bytes: u64, stamps: u64) -> Self {
        let holds = bytes / queue::STAMP_BYTES;
        Room { stamps: holds, is_enough: stamps <= holds }
    }
}
