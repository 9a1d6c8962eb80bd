// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which packet a tx stamp belongs to, by the key that comes back with it.

/// Key → packet.
pub(crate) struct Keys {
    /// Ring over the low bits of the key: (key, packet + 1); 0 is empty. Large enough that a stamp comes back long
    /// before its place is used again, checked by the key.
    ring: Vec<(u32, u32)>,
}

impl Keys {
    pub fn new(count: u32) -> Self {
        // Not zero, so that the memory is written and no page fault waits for the loop.
        Keys { ring: vec![(u32::MAX, 0); (count as usize + 64).next_power_of_two().min(1 << 20)] }
    }
    #[inline]
    pub fn put(&mut self, key: u32, packet: u32) {
        let at = key as usize & (self.ring.len() - 1);
        self.ring[at] = (key, packet + 1);
    }
    #[inline]
    pub fn get(&self, key: u32) -> Option<u32> {
        match self.ring[key as usize & (self.ring.len() - 1)] {
            (found, packet) if found == key && packet != 0 => Some(packet - 1),
            _ => None,
        }
    }
}
