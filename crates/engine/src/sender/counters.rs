// SPDX-License-Identifier: MIT OR Apache-2.0
//! What happened to a sender, counted.

use serde::{Deserialize, Serialize};
use tardy_model::time::{Instant, Tai};

/// Events of the sending side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SenderCounters {
    /// Packets handed to the port.
    pub sent: u64,
    /// Packets that were not measured: of the warm-up, the lead-in and the lead-out, and around
    /// pauses.
    pub beside: u64,
    /// Packets refused.
    pub refused: u64,
    /// errno of the first refusal.
    pub first_errno: i32,
    /// Wake-ups after the packet's slot.
    pub overruns: u64,
    /// Packets left not_sent because of that.
    pub skipped: u64,
    /// Packets that the queue discipline dropped, their launch time having passed.
    pub missed: u64,
    /// Packets whose launch time it refused.
    pub invalid: u64,
    /// tx stamps whose key is no packet's of the trial.
    pub unmatched: u64,
    /// When the first and the latest packet were handed over, TAI, ns; whatever points are
    /// stamped, but not of a reflector that reads no clock.
    pub sent_ns: Option<(i64, i64)>,
    /// Packets that went out in batches, by a sender that was a whole batch behind.
    pub batched: u64,
    /// The error queue had to be drained between two packets without time for it.
    pub forced_drains: u64,
    /// The error queue was found full.
    pub queue_overflows: u64,
    /// Most bytes found waiting in it.
    pub queue_high_bytes: u64,
    /// Its size, as the port reported it; 0 while nobody asked.
    pub queue_bytes: u64,
    /// Time in which a closed loop had nothing in flight on purpose, while both ends emptied their
    /// error queues, ns.
    pub paused_ns: i64,
    /// By how much the device's stamps may be wrong.
    pub hardware_bound_ns: i64,
}

impl SenderCounters {
    /// Notes how many packets were handed over at that instant, if it is known. For none, as for
    /// one of a lead-in, it notes nothing.
    #[inline]
    pub(super) fn went_out(&mut self, packets: usize, at: Option<Instant<Tai>>) {
        self.sent += packets as u64;
        if let Some(at) = at {
            let now = (self.sent_ns.map_or(at.ns(), |(first, _)| first), at.ns());
            self.sent_ns = if packets > 0 { Some(now) } else { self.sent_ns };
        }
    }
}
