// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the Syncs that a ptp4l measured before a trial and after it show together: a line between
//! two clocks that nobody steers, and by how much it may be wrong. Pure.
//!
//! A Sync that comes late makes the offset greater by that. Syncs that come ever less late look
//! like drift, so a second of them does not show how fast two clocks move against each other. Those
//! before the trial and those after it do: they are much farther apart than the Syncs of either.

use super::kept::{Keeper, Kept};
use serde::{Deserialize, Serialize};
use tardy_model::time::PhcReading;

/// What a ptp4l measured at one Sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sync {
    /// By the clock that follows, ns.
    pub at_ns: i64,
    /// By how much that was ahead of the clock that leads, less the mean path delay, ns.
    pub ahead_ns: i64,
    /// The mean path delay, ns.
    pub delay_ns: i64,
}

/// Syncs of about a second, and the clock that follows against the system's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Syncs {
    /// The identity of the clock that leads.
    pub grandmaster: String,
    /// The clock that follows and CLOCK_REALTIME, before all Syncs and after them.
    pub read: [PhcReading; 2],
    /// CLOCK_TAI less CLOCK_REALTIME, ns.
    pub tai_offset_ns: i64,
    pub syncs: Vec<Sync>,
}

/// What keeps a machine's clock, as it was reported at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reports {
    pub kept: Vec<Kept>,
    /// What ptp4l measured that steers nothing.
    pub syncs: Vec<Syncs>,
}

impl Reports {
    /// What the keepers of a machine show before a trial and behind it; and why those show nothing
    /// of which Syncs came.
    pub fn around(before: &Reports, behind: &Reports) -> ([Vec<Kept>; 2], Vec<String>) {
        let (mut kept, mut why) = ([before.kept.clone(), behind.kept.clone()], Vec::new());
        for n in 0..before.syncs.len().max(behind.syncs.len()) {
            let both = before.syncs.get(n).zip(behind.syncs.get(n));
            let both = both.ok_or_else(|| "the ptp4l that follows did not answer at both times".to_owned());
            match both.and_then(|(before, behind)| Syncs::around(before, behind)) {
                Ok([before, behind]) => {
                    kept[0].push(before);
                    kept[1].push(behind);
                }
                Err(of) => why.push(of),
            }
        }
        (kept, why)
    }
}

/// What reports call a clock that leads.
pub(super) fn reference(grandmaster: &str) -> String {
    format!("PTP grandmaster {grandmaster}")
}

/// Syncs that are waited for.
pub const SYNCS: usize = 16;
/// Of fewer, it is chance whether one of them came in time.
pub const LEAST_SYNCS: usize = 8;
/// Between the two messages by which ptp4l knows the delay there is at most a Sync's interval, ns:
/// half of what the clocks drift meanwhile is in the delay.
const INTERVAL_NS: f64 = 62_500_000.0;
/// Two clocks that nobody steers move against each other by at most this.
const FASTEST: f64 = 1e-3;
/// Syncs are looked for during a few seconds.
const LONGEST_NS: i64 = 60_000_000_000;
/// A slope and the Syncs that it selects fit together after a few rounds.
const ROUNDS: usize = 16;
/// Seen from a first Sync, instants and offsets that are farther away are no trial's.
const FARTHEST_NS: i128 = 1 << 52;

/// Syncs as they are seen from the first one of all.
struct Seen<'s> {
    syncs: &'s [Sync],
    /// Since that one, and by how much more the clock is ahead, ns.
    at: Vec<[f64; 2]>,
    delay_ns: f64,
    span_ns: f64,
}

impl Seen<'_> {
    fn new<'s>(of: &'s Syncs, from: Sync, when: &str) -> Result<Seen<'s>, String> {
        let syncs = &of.syncs[..of.syncs.len().min(SYNCS)];
        let came = syncs.len();
        if came < LEAST_SYNCS {
            return Err(format!("{came} Syncs came {when} the trial, and a bound needs {LEAST_SYNCS}"));
        }
        let odd = || format!("what it measured {when} the trial cannot be");
        let [before, after] = of.read;
        let took_ns = after.phc_ns.checked_sub(before.phc_ns).filter(|took| (0..=LONGEST_NS).contains(took));
        let within = syncs.iter().all(|sync| (before.phc_ns..=after.phc_ns).contains(&sync.at_ns));
        let in_order = syncs.windows(2).all(|two| two[0].at_ns < two[1].at_ns);
        let bounds = [before.bound_ns, after.bound_ns].into_iter().chain(syncs.iter().map(|sync| sync.delay_ns));
        if took_ns.is_none() || !within || !in_order || bounds.min() < Some(0) {
            return Err(odd());
        }
        let since = |one: i64, from: i64| {
            let since = i128::from(one) - i128::from(from);
            (since.abs() <= FARTHEST_NS).then_some(since as f64)
        };
        let at = syncs.iter().map(|sync| Some([since(sync.at_ns, from.at_ns)?, since(sync.ahead_ns, from.ahead_ns)?]));
        let at = at.collect::<Option<Vec<[f64; 2]>>>().ok_or_else(odd)?;
        let delay_ns = syncs.iter().map(|sync| sync.delay_ns).max().unwrap_or(0) as f64;
        let span_ns = at[at.len() - 1][0] - at[0][0];
        Ok(Seen { syncs, at, delay_ns, span_ns })
    }

    /// The Sync that came the least late, if the clocks move by this slope.
    fn least(&self, slope: f64) -> usize {
        let late = |n: usize| self.at[n][1] - slope * self.at[n][0];
        (0..self.at.len()).min_by(|one, other| late(*one).total_cmp(&late(*other))).unwrap_or(0)
    }

    /// By how much its offset may be wrong, ns, but for an error of the slope.
    fn known_ns(&self, slope: f64) -> f64 {
        let late = self.at.iter().map(|[since, ahead]| ahead - slope * since);
        let [least, most] = late.fold([f64::MAX, f64::MIN], |[least, most], of| [least.min(of), most.max(of)]);
        self.delay_ns + (most - least) + slope.abs() * INTERVAL_NS / 2.0
    }

    /// For how long an error of the slope is in that offset.
    fn reach_ns(&self) -> f64 {
        self.span_ns + INTERVAL_NS / 2.0
    }
}

impl Syncs {
    /// What follows for the system's clock, before the trial and behind it.
    ///
    /// Of either the Sync counts that came the least late, by the slope of the line through both.
    /// With the slope *s*, the offset by it is wrong by at most *R* = the mean path delay, for no
    /// way takes less than nothing; how far the Syncs are apart without *s*; half of what the
    /// clocks drift in a Sync's interval, which is in the measured delay; and by how much *s* is
    /// wrong, over all of the Syncs' time. That is at most (*R*₁ + *R*₂) / the time between both,
    /// which has the *R* in it: it is solved for them. And no two clocks drift by more than 1000
    /// ppm, whatever the readings say.
    ///
    /// # Errors
    /// Why nothing follows, in words.
    pub fn around(before: &Syncs, behind: &Syncs) -> Result<[Kept; 2], String> {
        if before.grandmaster != behind.grandmaster {
            return Err("another clock led after the trial than before it".to_owned());
        }
        let none = |when| format!("no Sync came {when} the trial");
        let from = *before.syncs.first().ok_or_else(|| none("before"))?;
        behind.syncs.first().ok_or_else(|| none("after"))?;
        let both = [Seen::new(before, from, "before")?, Seen::new(behind, from, "after")?];
        let [one, other] = &both;
        let was_set = || "a clock was set between the Syncs before the trial and those after it".to_owned();
        if other.at[0][0] <= one.at[one.at.len() - 1][0] {
            return Err(was_set());
        }
        let line = |slope: f64| {
            let counts = [one.least(slope), other.least(slope)];
            let [[first, ahead], [last, later]] = [one.at[counts[0]], other.at[counts[1]]];
            (counts, last - first, later - ahead)
        };
        let mut slope = 0.0;
        for _ in 0..ROUNDS {
            let (_, passed, apart) = line(slope);
            slope = (apart / passed).clamp(-FASTEST, FASTEST);
        }
        let (counts, passed, apart) = line(slope);
        let known = [one.known_ns(slope), other.known_ns(slope)];
        let rest_ns = passed - one.reach_ns() - other.reach_ns();
        // Where the rounds did not end, or two clocks have no such slope, it is not the line's.
        let by_both = (known[0] + known[1] + (apart - slope * passed).abs()) / rest_ns;
        let most = FASTEST + slope.abs();
        let wrong = if rest_ns > 0.0 { by_both.min(most) } else { most };
        let bounds: [f64; 2] = std::array::from_fn(|n| known[n] + wrong * both[n].reach_ns());
        if apart.abs() > passed * FASTEST + bounds[0] + bounds[1] {
            return Err(was_set());
        }
        let kept = |of: &Syncs, n: usize| {
            let sync = both[n].syncs[counts[n]];
            let read = PhcReading::between(of.read[0], of.read[1])?;
            let realtime_ns = read.to_realtime_ns(sync.at_ns);
            let at_tai_ns = realtime_ns.checked_add(of.tai_offset_ns)?;
            Some(Kept {
                by: Keeper::OnTheWire,
                reference: reference(&of.grandmaster),
                ahead_ns: at_tai_ns.checked_sub(sync.at_ns)?.checked_add(sync.ahead_ns)?,
                bound_ns: (bounds[n].ceil() as i64).checked_add(read.bound_ns)?.checked_add(1)?,
                at_tai_ns: Some(at_tai_ns),
                later: None,
            })
        };
        kept(before, 0).zip(kept(behind, 1)).map(|(before, behind)| [before, behind]).ok_or_else(was_set)
    }
}
