// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the entries of a ring are that this side may touch. A ring has two counters in memory that
//! it shares with the kernel: how many entries were put in, and how many were taken out. Both only
//! grow, and wrap around at 2³². Each side writes one of them, after it is done with the entries
//! (release), and reads the other before it touches any (acquire).
//!
//! Pure: the counters are arguments, so that tests can play the other side.

use std::sync::atomic::{AtomicU32, Ordering::Acquire, Ordering::Release};

/// The side that takes entries out.
#[derive(Clone, Copy, Debug)]
pub struct Taking {
    mask: u32,
    /// Entries that were put in, as far as this side has looked.
    filled: u32,
    /// Entries that this side has taken out.
    taken: u32,
}

impl Taking {
    /// Of a new ring of `size` entries, a power of two.
    pub const fn new(size: u32) -> Taking {
        Taking::at(size, 0)
    }

    /// Of a ring out of which `taken` entries were taken so far, and all that were put in.
    pub const fn at(size: u32, taken: u32) -> Taking {
        assert!(size.is_power_of_two());
        Taking { mask: size - 1, filled: taken, taken }
    }

    /// How many entries wait, at most `most`. Looks at the kernel's counter only when all that is
    /// known of has been taken.
    #[inline]
    pub fn waiting(&mut self, filled: &AtomicU32, most: u32) -> u32 {
        if self.filled == self.taken {
            self.filled = filled.load(Acquire);
        }
        // More than the ring has room for is not to be believed.
        self.filled.wrapping_sub(self.taken).min(self.mask + 1).min(most)
    }

    /// The place of the entry that is `n` behind the oldest one.
    #[inline]
    pub fn place(&self, n: u32) -> usize {
        (self.taken.wrapping_add(n) & self.mask) as usize
    }

    /// Gives the places of the oldest `n` entries back.
    #[inline]
    pub fn take(&mut self, n: u32, taken: &AtomicU32) {
        self.taken = self.taken.wrapping_add(n);
        taken.store(self.taken, Release);
    }
}

/// The side that puts entries in.
#[derive(Clone, Copy, Debug)]
pub struct Putting {
    size: u32,
    /// Entries that this side has put in and published.
    filled: u32,
    /// Entries that are put in and not published yet.
    ahead: u32,
    /// Entries that were taken out, as far as this side has looked.
    taken: u32,
}

impl Putting {
    /// Of a new ring of `size` entries, a power of two.
    pub const fn new(size: u32) -> Putting {
        Putting::at(size, 0)
    }

    /// Of an empty ring into which `filled` entries were put so far.
    pub const fn at(size: u32, filled: u32) -> Putting {
        assert!(size.is_power_of_two());
        Putting { size, filled, ahead: 0, taken: filled }
    }

    /// The place of the next entry, if there is room for it. Looks at the kernel's counter only
    /// when no room is known of.
    #[inline]
    pub fn next(&mut self, taken: &AtomicU32) -> Option<usize> {
        let next = self.filled.wrapping_add(self.ahead);
        if next.wrapping_sub(self.taken) >= self.size {
            self.taken = taken.load(Acquire);
            if next.wrapping_sub(self.taken) >= self.size {
                return None;
            }
        }
        self.ahead += 1;
        Some((next & (self.size - 1)) as usize)
    }

    /// Publishes what was put in.
    #[inline]
    pub fn publish(&mut self, filled: &AtomicU32) {
        if self.ahead > 0 {
            self.filled = self.filled.wrapping_add(self.ahead);
            self.ahead = 0;
            filled.store(self.filled, Release);
        }
    }
}
