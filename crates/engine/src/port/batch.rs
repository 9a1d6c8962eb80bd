// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a receive call brings: how many packets, and the packets themselves, which the port lends.

use tardy_model::ethernet::Tags;
use tardy_model::time::{Instant, Realtime};

/// The most packets that one call moves.
pub const BATCH: usize = 64;

/// What a receive call brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// This number of packets, at least one and at most [`BATCH`].
    Packets(usize),
    /// There is nothing to be read.
    Nothing,
    /// The wait's own time limit passed.
    TimedOut,
}

/// The packets of the last receive call, wherever they are: in the port's own memory, or in a ring
/// that the kernel fills again with the next call.
pub trait Lent {
    /// The payload of the packet at place `n`, and the kernel's stamp if it took one.
    fn packet(&self, n: usize) -> (&[u8], Option<Instant<Realtime>>);
    /// The VLAN tags that it came with.
    fn tags(&self, n: usize) -> Tags;
}
