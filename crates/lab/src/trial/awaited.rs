// SPDX-License-Identifier: MIT OR Apache-2.0
//! Waiting for one answer from each of some stations, for a limited time.

use crate::station::StationId;
use tardy_model::time::{Instant, Monotonic, Nanos};

/// Stations that have not answered yet.
pub(super) struct Awaited {
    missing: Vec<StationId>,
    until: Instant<Monotonic>,
    limit: Nanos,
    doing: &'static str,
}

impl Awaited {
    /// These were asked `now` and have `limit` to answer; `doing` says for an error message what they do.
    pub(super) fn new(
        stations: impl IntoIterator<Item = StationId>,
        doing: &'static str,
        limit: Nanos,
        now: Instant<Monotonic>,
    ) -> Awaited {
        Awaited { missing: stations.into_iter().collect(), until: now + limit, limit, doing }
    }

    /// A message came that shows that its station works: the time limit starts anew.
    pub(super) fn hear(&mut self, now: Instant<Monotonic>) {
        self.until = now + self.limit;
    }

    /// A station answered.
    pub(super) fn answered(&mut self, station: StationId) {
        self.missing.retain(|missing| *missing != station);
    }

    /// All of them answered.
    pub(super) fn is_complete(&self) -> bool {
        self.missing.is_empty()
    }

    /// When the time is up.
    pub(super) fn deadline(&self) -> Instant<Monotonic> {
        self.until
    }

    /// The first station that did not answer in time, with the limit in seconds and what it was to do.
    pub(super) fn silent(&self, now: Instant<Monotonic>) -> Option<(StationId, u64, &'static str)> {
        let first = self.missing.first().filter(|_| now >= self.until)?;
        Some((*first, (self.limit.0 / 1_000_000_000) as u64, self.doing))
    }
}
