// SPDX-License-Identifier: MIT OR Apache-2.0
//! How far a requester is in its trial: which stretch it is in, what is on its way, what is
//! settled.

use tardy_model::time::{Instant, Tai};

/// How far the loop is.
#[derive(Clone, Copy, Default)]
pub(super) struct Progress {
    /// The present stretch ends before this number.
    pub(super) until: u32,
    /// Unmeasured requests that are still to go out before the stretch, and after it.
    pub(super) lead_in: u32,
    pub(super) lead_out: u32,
    /// Unmeasured requests on their way, and when the latest went out (TAI, ns).
    pub(super) beside: u32,
    pub(super) beside_since_ns: i64,
    /// Further ones that may fill up what is in flight until the stretch's last reply has come.
    pub(super) fillers: u32,
    /// When the stretch's last request was settled, TAI, ns; 0 before it.
    pub(super) ended_ns: i64,
    /// The last request in flight was given up, and none has gone out since: whoever answers may
    /// have fallen asleep.
    pub(super) fell_silent: bool,
    /// When the latest request was given up, TAI, ns.
    pub(super) gave_up_ns: i64,
    /// When the reply came on which the next request follows, TAI, ns; 0 where none does.
    pub(super) heard_ns: i64,
    /// How long it took from such a reply to the request: all together, and how often.
    pub(super) turnarounds_ns: i64,
    pub(super) turnarounds: u32,
    /// Time between stretches, ns, from the last reply of one to the first request of the next, and
    /// how many those are. With few in flight the rate does not use it.
    pub(super) paused_ns: i64,
    pub(super) pauses: u32,
    /// The same since the last reply: they lie within the trial's time only if another one comes.
    pub(super) pausing_ns: i64,
    pub(super) pausing: u32,
    /// Where several are in flight: replies of the stretch, the sum of their round trips, and the
    /// mean of those of the stretch before, ns.
    pub(super) replies: u32,
    pub(super) round_trips_ns: i64,
    pub(super) round_trip_ns: i64,
    /// How long all requests of the trial have waited until the last reply, each for its own or
    /// until it was given up, ns, and how many those are.
    pub(super) waited_ns: i64,
    pub(super) waits: u32,
    /// The same of those that were given up since the last reply: they count only if another one
    /// comes, with which the trial goes on.
    pub(super) gave_up_after_ns: i64,
    pub(super) given_up: u32,
    /// Requests tried, the next one's number.
    pub(super) next: u32,
    pub(super) waiting: u32,
    /// Below this number none is on its way.
    pub(super) oldest: u32,
    /// Answered, given up or refused.
    pub(super) settled: u32,
}

impl Progress {
    /// The next stretch begins: of at most `stretch` requests of a trial of `count`, with the given
    /// numbers of unmeasured ones before and after it.
    pub(super) fn begin(&mut self, stretch: u32, count: u32, [lead_in, lead_out]: [u32; 2]) {
        self.until = self.next.saturating_add(stretch).min(count);
        (self.lead_in, self.lead_out, self.fillers) = (lead_in, lead_out, lead_out);
    }

    /// Counts a reply where several requests are in flight, `before_ns` being when the reply came
    /// that had its place before it. The first ones of a stretch go out one by one, as unmeasured
    /// ones come back, so the pause before it lasts to its first reply, less a round trip from the
    /// reply before, or from where a request was given up since.
    pub(super) fn count_reply(&mut self, now_ns: i64, round_trip_ns: i64, before_ns: i64) {
        self.replies += 1;
        self.round_trips_ns += round_trip_ns;
        self.replied(round_trip_ns);
        if std::mem::take(&mut self.ended_ns) != 0 {
            self.pauses_for((now_ns - before_ns.max(self.gave_up_ns) - self.round_trip_ns).max(0));
        }
    }

    /// A pause took this long.
    #[inline]
    pub(super) fn pauses_for(&mut self, ns: i64) {
        self.pausing_ns += ns;
        self.pausing += 1;
    }

    /// A reply of the trial came.
    #[inline]
    pub(super) fn went_on(&mut self) {
        self.paused_ns += std::mem::take(&mut self.pausing_ns);
        self.pauses += std::mem::take(&mut self.pausing);
    }

    /// A request of the trial went out at `since_ns`.
    #[inline]
    pub(super) fn asked(&mut self, since_ns: i64) {
        let heard_ns = std::mem::take(&mut self.heard_ns);
        if heard_ns != 0 {
            self.turnarounds_ns += since_ns - heard_ns;
            self.turnarounds += 1;
        }
    }

    /// A request waited this long for its reply.
    #[inline]
    pub(super) fn replied(&mut self, ns: i64) {
        self.waited_ns += ns + std::mem::take(&mut self.gave_up_after_ns);
        self.waits += 1 + std::mem::take(&mut self.given_up);
    }

    /// A request waited this long, and was given up.
    pub(super) fn gives_up(&mut self, ns: i64) {
        self.gave_up_after_ns += ns;
        self.given_up += 1;
    }

    /// How long a trial without pauses would have taken, ns, with this number always in flight:
    /// each waits, and the next one follows after a turnaround. `None` if none was settled.
    pub(super) fn unpaused_ns(&self, in_flight: u32) -> Option<i64> {
        let turnarounds_ns = self.turnaround_ns() * i64::from(self.waits.saturating_sub(in_flight));
        (self.waits > 0).then(|| (self.waited_ns + turnarounds_ns) / i64::from(in_flight.min(self.waits)))
    }

    /// The mean time from a reply to the request that follows on it, ns.
    fn turnaround_ns(&self) -> i64 {
        self.turnarounds_ns.checked_div(i64::from(self.turnarounds)).unwrap_or(0)
    }

    /// What the pauses took away with the time between a reply and the request that follows on it,
    /// ns: without a pause that time would have passed too. By its mean.
    pub(super) fn turned_in_pauses_ns(&self) -> i64 {
        self.turnaround_ns() * i64::from(self.pauses)
    }

    /// The stretch is over.
    pub(super) fn end_replies(&mut self) {
        if self.replies > 0 {
            self.round_trip_ns = self.round_trips_ns / i64::from(self.replies);
        }
        (self.replies, self.round_trips_ns) = (0, 0);
    }

    /// A request that is not measured went out at `now`, or was refused.
    pub(super) fn asked_beside(&mut self, now: Instant<Tai>, went_out: bool) {
        if went_out {
            self.beside += 1;
            self.fell_silent = false;
            self.beside_since_ns = now.ns();
        } else {
            // The trial's will meet the same, and count it.
            (self.lead_in, self.lead_out, self.fillers) = (0, 0, 0);
        }
    }

    /// True if all requests of the stretch are settled and nothing is in flight.
    #[inline]
    pub(super) fn is_over(&self) -> bool {
        self.next >= self.until && self.waiting + self.beside + self.lead_in + self.lead_out == 0
    }
}
