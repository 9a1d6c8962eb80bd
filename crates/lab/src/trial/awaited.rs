// SPDX-License-Identifier: MIT OR Apache-2.0
//! Waiting for answers about some activities, for a limited time.

use super::activities::Activity;
use crate::station::StationId;
use tardy_engine::message::ActivityId;
use tardy_model::time::{Instant, Monotonic, Nanos};

/// Activities about which their stations have not answered yet.
pub(super) struct Awaited {
    missing: Vec<(StationId, ActivityId)>,
    until: Instant<Monotonic>,
    limit: Nanos,
    doing: &'static str,
}

impl Awaited {
    /// The stations of these were asked `now` and have `limit` to answer; `doing` says for an
    /// error message what they do.
    pub(super) fn new(
        activities: impl IntoIterator<Item = Activity>,
        doing: &'static str,
        limit: Nanos,
        now: Instant<Monotonic>,
    ) -> Awaited {
        let mut missing: Vec<_> = activities.into_iter().map(|activity| (activity.station, activity.id)).collect();
        // An error names the first station.
        missing.sort_unstable();
        Awaited { missing, until: now + limit, limit, doing }
    }

    /// A message came that shows that its station works: the time limit starts anew.
    pub(super) fn hear(&mut self, now: Instant<Monotonic>) {
        self.until = now + self.limit;
    }

    /// True if this activity's answer has not come yet.
    pub(super) fn awaits(&self, activity: ActivityId) -> bool {
        self.missing.iter().any(|(_, missing)| *missing == activity)
    }

    /// The answer about this activity came.
    pub(super) fn answered(&mut self, activity: ActivityId) {
        self.missing.retain(|(_, missing)| *missing != activity);
    }

    /// A station answered for all of its activities.
    pub(super) fn answered_by(&mut self, station: StationId) {
        self.missing.retain(|(missing, _)| *missing != station);
    }

    pub(super) fn is_complete(&self) -> bool {
        self.missing.is_empty()
    }

    /// When the time is up.
    pub(super) fn deadline(&self) -> Instant<Monotonic> {
        self.until
    }

    /// The first station that did not answer in time, with the limit in seconds and what it was to
    /// do.
    pub(super) fn silent(&self, now: Instant<Monotonic>) -> Option<(StationId, u64, &'static str)> {
        let (first, _) = self.missing.first().filter(|_| now >= self.until)?;
        Some((*first, (self.limit.0 / 1_000_000_000) as u64, self.doing))
    }
}
