// SPDX-License-Identifier: MIT OR Apache-2.0
//! The open-loop schedule, pure: when each packet is due, and where a trial's base time lies.

use tardy_model::time::{Instant, Nanos, Tai};

/// The schedule of one stream in one trial. It never waits for anything: packet `i` is due at
/// `base + i · cycle`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Schedule {
    /// Instant of packet 0.
    pub base: Instant<Tai>,
    pub cycle: Nanos,
    pub count: u32,
}

impl Schedule {
    /// When packet `i` is due; negative numbers are the lead-in before the trial.
    #[inline]
    pub fn due(&self, i: i64) -> Instant<Tai> {
        self.base + Nanos(i * self.cycle.0)
    }

    /// The packet that is due at this very instant, if one is.
    #[inline]
    pub fn packet(&self, at: Instant<Tai>) -> Option<u32> {
        let since = at.ns().checked_sub(self.base.ns())?;
        let (packet, rest) = (since.div_euclid(self.cycle.0.max(1)), since.rem_euclid(self.cycle.0.max(1)));
        u32::try_from(packet).ok().filter(|packet| rest == 0 && *packet < self.count)
    }

    /// True if `at` is after the slot of packet `i`, that is, not before the next packet's instant.
    #[inline]
    pub fn is_past(&self, i: i64, at: Instant<Tai>) -> bool {
        at >= self.due(i + 1)
    }
}

/// The first multiple of `cycle` on the TAI clock that is not before `earliest`, shifted by
/// `phase`.
///
/// Aligned, so that a schedule of gates can be met; shifted by the trial's own phase, because a
/// 500 µs cycle against a 4 ms tick would otherwise see the same 8 phases of the tick for ever.
pub fn base_time(earliest: Instant<Tai>, cycle: Nanos, phase: Nanos) -> Instant<Tai> {
    let cycle = cycle.0.max(1);
    let aligned = earliest.ns().div_euclid(cycle) * cycle;
    let aligned = if aligned < earliest.ns() { aligned + cycle } else { aligned };
    Instant::from_ns(aligned + phase.0)
}

/// Packets sent on the schedule just before the trial and never counted, so that packet 0 meets
/// warm caches: as many as fit into 20 ms, at most 20. Slower streams have none: each of their
/// packets meets cold caches anyway.
pub fn lead_in(cycle: Nanos) -> u32 {
    (20_000_000 / cycle.0.max(1)).clamp(0, 20) as u32
}
