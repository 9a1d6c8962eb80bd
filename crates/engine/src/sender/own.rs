// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a measuring thread does for tardy itself between two packets: noted with its beginning and its end, so that a verdict can
//! compare the packets that it overlaps with their neighbours.

use tardy_model::stream::Side;
use tardy_model::time::{Instant, Tai};
use tardy_model::trial::{OwnReason, OwnWork};

/// Stretches that are noted one by one; more are counted.
const ROOM: usize = 16_384;

/// The notes of one thread.
pub struct OwnLog {
    side: Side,
    work: Vec<OwnWork>,
    left_out: u64,
}

impl OwnLog {
    /// For the thread of that end. Memory is allocated and touched only where the thread may have to write.
    pub fn new(side: Side, writes: bool) -> Self {
        let untouched = OwnWork { side, cpu: Some(1), start_ns: 1, end_ns: 1, reason: OwnReason::Room };
        let mut work = if writes { vec![untouched; ROOM] } else { Vec::new() };
        work.clear();
        OwnLog { side, work, left_out: 0 }
    }

    /// Notes a stretch of work on `cpu`.
    #[cold]
    pub fn note(&mut self, cpu: Option<u32>, start: Instant<Tai>, end: Instant<Tai>, reason: OwnReason) {
        if self.work.len() < self.work.capacity() {
            let (start_ns, end_ns) = (start.ns(), end.ns());
            self.work.push(OwnWork { side: self.side, cpu, start_ns, end_ns, reason });
        } else {
            self.left_out += 1;
        }
    }

    /// The notes, and how many found no room.
    pub fn take(&mut self) -> (Vec<OwnWork>, u64) {
        (std::mem::take(&mut self.work), std::mem::take(&mut self.left_out))
    }
}
