// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a measuring thread does for tardy itself between two packets: noted with its beginning and
//! its end, so that a verdict can compare the packets that it overlaps with their neighbours.

use tardy_model::stream::Side;
use tardy_model::time::{Instant, Tai};
use tardy_model::trial::{Between, OwnNotes, OwnReason, OwnWork};

/// Stretches that are noted one by one; more are counted.
const ROOM: usize = 16_384;
/// Stretches between two packets that are noted at most: a day's trials would else have more of
/// them than of samples.
const ROOM_BETWEEN: usize = 1 << 18;
/// Packets before and after the trial's, of which stamps are fetched too.
const BESIDE: usize = 1_024;

/// The notes of one thread.
pub struct OwnLog {
    side: Side,
    work: Vec<OwnWork>,
    between: Vec<Stretch>,
    left_out: u64,
}

/// A stretch between two packets.
#[derive(Clone, Copy)]
struct Stretch {
    start_ns: i64,
    took_ns: u32,
    /// [`NOWHERE`] where nobody knows.
    cpu: u32,
}

const NOWHERE: u32 = u32::MAX;

impl OwnLog {
    /// For the thread of that end, which sends `packets` packets with stamps. Memory is allocated
    /// and touched only where the thread may have to write.
    pub fn new(side: Side, packets: u32) -> Self {
        let untouched = OwnWork { side, cpu: Some(1), start_ns: 1, end_ns: 1, reason: OwnReason::Room };
        let mut work = if packets > 0 { vec![untouched; ROOM] } else { Vec::new() };
        work.clear();
        let untouched = Stretch { start_ns: 1, took_ns: 1, cpu: 1 };
        let room = if packets > 0 { packets as usize + BESIDE } else { 0 };
        let mut between = vec![untouched; room.min(ROOM_BETWEEN)];
        between.clear();
        OwnLog { side, work, between, left_out: 0 }
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

    /// Notes a stretch of work in which no packet should be under way.
    #[cold]
    pub fn note_between(&mut self, cpu: Option<u32>, start: Instant<Tai>, end: Instant<Tai>) {
        if self.between.len() < self.between.capacity() {
            let took_ns = u32::try_from((end - start).0.max(0)).unwrap_or(u32::MAX);
            self.between.push(Stretch { start_ns: start.ns(), took_ns, cpu: cpu.unwrap_or(NOWHERE) });
        } else {
            self.left_out += 1;
        }
    }

    pub fn take(&mut self) -> OwnNotes {
        let between = self.written_short();
        self.between = Vec::new();
        OwnNotes { work: std::mem::take(&mut self.work), between, left_out: std::mem::take(&mut self.left_out) }
    }

    /// One entry for each CPU that the thread ran on, and where two stretches lie too far apart.
    fn written_short(&self) -> Vec<Between> {
        let mut all: Vec<Between> = Vec::new();
        let mut before_ns = 0;
        for stretch in &self.between {
            let cpu = Some(stretch.cpu).filter(|cpu| *cpu != NOWHERE);
            let after = u32::try_from(stretch.start_ns - before_ns).ok();
            match (all.last_mut(), after) {
                (Some(last), Some(after)) if last.cpu == cpu => last.spans.push((after, stretch.took_ns)),
                _ => {
                    let spans = vec![(0, stretch.took_ns)];
                    all.push(Between { side: self.side, cpu, start_ns: stretch.start_ns, spans });
                }
            }
            before_ns = stretch.start_ns;
        }
        all
    }
}
