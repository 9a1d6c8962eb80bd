// SPDX-License-Identifier: MIT OR Apache-2.0
//! What every kind of load must be able to do.

use super::watch::Watch;
use std::sync::atomic::AtomicBool;

/// One side of one instance of a load. It is prepared on the control thread; the rest happens on
/// its own.
pub trait Work: Send {
    /// Makes the connection, or starts what must be there before the other side works. The other
    /// side is ready.
    fn connect(&mut self, _stop: &AtomicBool) -> Result<(), String> {
        Ok(())
    }

    /// True for a side that only answers: it works at once and not from the load's start.
    fn answers(&self) -> bool {
        false
    }

    /// Works until the end, and fills the record.
    fn run(&mut self, watch: &mut Watch);
}
