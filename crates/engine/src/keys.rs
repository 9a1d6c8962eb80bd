// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which packet a tx stamp belongs to, by the key that comes back with it.

use tardy_model::frame::LEAD;

/// What a key of a packet that is not part of the trial leads to. No packet of a trial has this
/// number.
pub(crate) const UNMEASURED: u32 = LEAD;
/// Room for the packets of the lead-in, the lead-out and warm-ups, in addition to the trial's.
const BESIDE: usize = 1_024;

/// Key → packet.
pub(crate) struct Keys {
    /// Ring over the low bits of the key. It holds all keys whose stamps can wait in the error
    /// queue, and a stamp is checked by its whole key.
    ring: Vec<(u32, u32)>,
}

impl Keys {
    /// For a trial of `count` packets.
    pub fn new(count: u32) -> Self {
        // Not zero, so that the memory is written and no page fault waits for the loop.
        Keys { ring: vec![(u32::MAX, UNMEASURED); (count as usize + BESIDE).next_power_of_two().min(1 << 20)] }
    }
    /// Notes the packet that went out under `key`.
    #[inline]
    pub fn put(&mut self, key: u32, packet: u32) {
        let at = key as usize & (self.ring.len() - 1);
        self.ring[at] = (key, packet);
    }
    /// The packet that went out under `key`; [`UNMEASURED`] where it was none of the trial's,
    /// `None` where no packet did.
    #[inline]
    pub fn get(&self, key: u32) -> Option<u32> {
        let (found, packet) = self.ring[key as usize & (self.ring.len() - 1)];
        (found == key).then_some(packet)
    }
}
