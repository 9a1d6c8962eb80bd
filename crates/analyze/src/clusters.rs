// SPDX-License-Identifier: MIT OR Apache-2.0
//! How many separate events lie beyond a quantile: one stall makes many late packets and is still
//! one event.
//!
//! Runs declustering (Smith and Weissman 1994, "Estimating the extremal index"; Coles 2001,
//! §5.3.2): packets of a trial in scheduled order; those beyond the quantile are exceedances; a
//! cluster ends after `r` packets in a row that are none.
//!
//! [`separate`] counts the clusters of values that were kept. [`Starts`] counts them beyond every
//! threshold at once, without keeping the values. `Counted` counts them beyond the printed
//! quantiles if there are too many values to keep; its count is a lower bound.

use crate::counts::Places;
use std::ops::Range;
use tardy_model::histogram::Histogram;

/// Fewer separate clusters than this beyond a percentile, and the percentile is not resolved.
pub const NEEDED: u32 = 10;

/// Stands for a packet that never arrived: beyond every quantile.
pub const INFINITE: i64 = i64::MAX;

/// The longest gap that a run may have: with more, independent rare events would be merged.
pub(crate) const LONGEST_GAP: usize = 10;

/// Non-exceedances in a row that end a cluster: `round(0.1 / (1 − q))`, at least 1, at most 10.
///
/// A tenth of the mean distance between exceedances, so that of independent ones nine in ten stay
/// separate; never above 10, so that a stall that leaves a few packets in time is one cluster and
/// two stalls are two.
pub fn gap_of(q: f64) -> usize {
    ((0.1 / (1.0 - q)).round() as usize).clamp(1, LONGEST_GAP)
}

/// What lies beyond a quantile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beyond {
    /// The quantile's value, ns.
    pub value_ns: i64,
    /// Values equal to it.
    pub tied: u64,
    /// Of those, how many have a higher rank than the quantile.
    pub tied_beyond: u64,
    /// Non-exceedances in a row that end a cluster.
    pub gap: usize,
    /// False to pass over what never arrived.
    pub with_infinite: bool,
}

/// Clusters beyond a quantile, counted up to [`NEEDED`]. `trials` are the values of each trial in
/// scheduled order.
///
/// Where values tie with the quantile, as many of them as rank beyond it are exceedances, taken
/// evenly spaced: a distribution with equal values is resolved by as many packets as one without.
pub fn separate<'a>(trials: impl Iterator<Item = &'a [i64]>, beyond: &Beyond) -> u32 {
    let (mut clusters, mut share) = (0, 0u64);
    for values in trials {
        // Trials lie far apart: the first exceedance of each starts a cluster.
        let mut since = beyond.gap;
        for &value in values {
            let exceeds = if value > beyond.value_ns {
                if value == INFINITE && !beyond.with_infinite {
                    continue;
                }
                true
            } else if value == beyond.value_ns && beyond.tied_beyond > 0 {
                share += beyond.tied_beyond;
                let taken = share >= beyond.tied;
                if taken {
                    share -= beyond.tied;
                }
                taken
            } else {
                false
            };
            if !exceeds {
                since += 1;
                continue;
            }
            if since >= beyond.gap {
                clusters += 1;
                if clusters >= NEEDED {
                    return clusters;
                }
            }
            since = 0;
        }
    }
    clusters
}

/// The bucket before a trial's first packet: below all.
const NOTHING: i32 = i32::MIN;
/// The bucket of what never arrived: above all.
const NEVER: i32 = i32::MAX;

/// For every threshold at once, how many clusters lie beyond it: bounded memory for any number of
/// packets.
///
/// A cluster beyond a threshold starts at a packet that exceeds it while none of the `gap` packets
/// before does; so a packet of bucket `b` after a greatest bucket `m` of those before starts one
/// cluster for each threshold in `m ≤ t < b`. The starts are kept as differences over the
/// histogram's buckets and summed when asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Starts {
    gap: usize,
    /// Values up to this are passed over: thresholds below it are not asked for.
    floor_ns: Option<i64>,
    /// Starts that no earlier packet hides.
    base: i64,
    positive: Vec<i64>,
    negative: Vec<i64>,
    /// Starts at packets that never arrived, for any threshold.
    infinite: u64,
    window: Window,
}

/// Values that are examined together.
const CHUNK: usize = 32;

/// Places in the window: a power of two above the longest gap.
const PLACES: usize = 16;

/// The packets above the floor among the last ones of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Window {
    /// Packets seen, counted from a number that is far from the empty places' 0.
    at: u64,
    newest: usize,
    places: [u64; PLACES],
    buckets: [i32; PLACES],
}

impl Default for Window {
    fn default() -> Self {
        Window { at: 2 * LONGEST_GAP as u64, newest: 0, places: [0; PLACES], buckets: [NOTHING; PLACES] }
    }
}

impl Window {
    /// The greatest bucket of the last `gap` packets.
    #[inline]
    fn greatest(&self, gap: usize) -> i32 {
        let mut greatest = NOTHING;
        for back in 0..gap {
            let place = self.newest.wrapping_sub(back) % PLACES;
            if self.at - self.places[place] > gap as u64 {
                break;
            }
            greatest = greatest.max(self.buckets[place]);
        }
        greatest
    }

    #[inline]
    fn push(&mut self, bucket: i32) {
        self.newest = (self.newest + 1) % PLACES;
        (self.places[self.newest], self.buckets[self.newest]) = (self.at, bucket);
    }
}

impl Starts {
    /// For quantiles whose clusters end after `gap` packets and whose values are at least
    /// `floor_ns`, if that is known. For thresholds below it there is no count.
    pub fn new(gap: usize, floor_ns: Option<i64>) -> Self {
        Starts { gap: gap.clamp(1, LONGEST_GAP), floor_ns, ..Self::default() }
    }

    /// What comes next is another trial, or lies far from what was added last.
    pub fn apart(&mut self) {
        self.window = Window::default();
    }

    pub fn add(&mut self, values: impl ExactSizeIterator<Item = i64>) {
        let (floor, start) = (self.floor_ns.unwrap_or(i64::MIN), self.window.at);
        let count = values.len() as u64;
        for (at, value) in (start..).zip(values) {
            if value >= floor {
                self.window.at = at;
                self.above(value);
            }
        }
        self.window.at = start + count;
    }

    /// The same for values that have places. Places show for many values at once that none is above
    /// the floor.
    pub(crate) fn add_places(&mut self, places: &Places) {
        let all = places.len();
        let Some(floor) = self.floor_ns.filter(|floor| *floor > i64::MIN) else {
            return self.add(places.values(0..all));
        };
        for (start, is_any_above) in (0..all).step_by(CHUNK).zip(places.above::<CHUNK>(floor - 1)) {
            let some = start..all.min(start + CHUNK);
            if is_any_above {
                self.add(places.values(some));
            } else {
                self.window.at += some.len() as u64;
            }
        }
    }

    /// Continues a trial after packets that were not examined: the first values replace them as the
    /// history, and start no cluster.
    pub fn add_after_unseen(&mut self, mut values: impl ExactSizeIterator<Item = i64>) {
        self.apart();
        for value in values.by_ref().take(self.gap) {
            self.window.push(bucket_of(value));
            self.window.at += 1;
        }
        self.add(values);
    }

    fn above(&mut self, value: i64) {
        let (bucket, before) = (bucket_of(value), self.window.greatest(self.gap));
        if bucket > before {
            if before == NOTHING {
                self.base += 1;
            } else {
                *self.at(before) += 1;
            }
            if bucket == NEVER {
                self.infinite += 1;
            } else {
                *self.at(bucket) -= 1;
            }
        }
        self.window.push(bucket);
    }

    #[inline]
    fn at(&mut self, bucket: i32) -> &mut i64 {
        let side = if bucket < 0 { &mut self.negative } else { &mut self.positive };
        let index = bucket.unsigned_abs() as usize;
        if index >= side.len() {
            side.resize(index + 1, 0);
        }
        &mut side[index]
    }

    /// Adds the clusters of other trials.
    pub fn merge(&mut self, other: &Starts) {
        self.apart();
        // Below its own floor each would count too many.
        self.floor_ns = self.floor_ns.max(other.floor_ns);
        self.base += other.base;
        self.infinite += other.infinite;
        for (mine, theirs) in [(&mut self.positive, &other.positive), (&mut self.negative, &other.negative)] {
            if mine.len() < theirs.len() {
                mine.resize(theirs.len(), 0);
            }
            for (mine, theirs) in mine.iter_mut().zip(theirs) {
                *mine += theirs;
            }
        }
    }

    /// Clusters in buckets above the value's, at least. What shares its bucket is not seen;
    /// without `with_infinite`, each start at a packet that never arrived is taken away, though
    /// its cluster may hold others.
    pub fn beyond(&self, value_ns: i64, with_infinite: bool) -> u64 {
        let bucket = Histogram::bucket_of(value_ns);
        if self.floor_ns.is_some_and(|floor_ns| bucket < Histogram::bucket_of(floor_ns)) {
            return 0;
        }
        let from = if bucket < 0 { bucket.unsigned_abs() as usize } else { 0 };
        let below: i64 = self.negative.iter().skip(from).sum();
        let above: i64 = if bucket < 0 { 0 } else { self.positive.iter().take(bucket as usize + 1).sum() };
        let clusters = u64::try_from(self.base + below + above).unwrap_or(0);
        if with_infinite { clusters } else { clusters.saturating_sub(self.infinite) }
    }
}

#[inline]
fn bucket_of(value: i64) -> i32 {
    if value == INFINITE { NEVER } else { Histogram::bucket_of(value) }
}

/// Values of a block. Either all or none of them are examined.
const BLOCK: usize = 1024;
/// For the lower quantiles one block in this many is examined, because beyond these quantiles there
/// are clusters everywhere.
const SAMPLED: usize = 64;
/// One block in this many is examined for p99.
const SAMPLED_TAIL: usize = 16;

/// For the quantiles whose clusters end after one packet (p50, p90), and for those with the
/// longest gap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Counted {
    /// In the sampled blocks only.
    low: Starts,
    /// For each trial, for each has its own floors; the last one is being added to.
    trials: Vec<Tail>,
    /// Values seen in the trial.
    seen: usize,
}

/// The long-gapped clusters of a trial.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Tail {
    /// In the sampled blocks only, above a floor well below p99.
    sampled: Starts,
    /// Of all values, above a floor near p99.
    all: Starts,
}

/// Below these, values are passed over.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Floors {
    pub sampled_ns: Option<i64>,
    pub all_ns: Option<i64>,
}

impl Counted {
    /// Values below the floors are passed over for p99 and higher.
    pub fn new(floors: Floors) -> Self {
        let starts = |floor_ns| Starts::new(LONGEST_GAP, floor_ns);
        let tail = Tail { sampled: starts(floors.sampled_ns), all: starts(floors.all_ns) };
        Counted { low: Starts::new(1, None), trials: vec![tail], seen: 0 }
    }

    /// What comes next is another trial.
    pub fn next_trial(&mut self) {
        self.low.apart();
        for tail in &mut self.trials {
            tail.sampled.apart();
            tail.all.apart();
        }
        self.seen = 0;
    }

    pub fn add(&mut self, values: &[i64]) {
        if let Some(tail) = self.trials.last_mut() {
            tail.all.add(values.iter().copied());
        }
        self.sample(values.len(), |some| values[some].iter().copied());
    }

    /// Continues a trial with values that have places.
    pub fn add_places(&mut self, places: &Places) {
        if let Some(tail) = self.trials.last_mut() {
            tail.all.add_places(places);
        }
        self.sample(places.len(), |some| places.values(some));
    }

    /// Passes the next `count` values to the sampled blocks that they belong to.
    fn sample<V: ExactSizeIterator<Item = i64>>(&mut self, count: usize, values: impl Fn(Range<usize>) -> V) {
        let Some(tail) = self.trials.last_mut() else { return };
        let mut start = 0;
        while start < count {
            let (block, inside) = (self.seen / BLOCK, self.seen % BLOCK);
            let now = start..count.min(start + BLOCK - inside);
            for (starts, one_in) in [(&mut self.low, SAMPLED), (&mut tail.sampled, SAMPLED_TAIL)] {
                if block.is_multiple_of(one_in) {
                    let values = values(now.clone());
                    if inside == 0 { starts.add_after_unseen(values) } else { starts.add(values) }
                }
            }
            self.seen += now.len();
            start = now.end;
        }
    }

    pub fn merge(&mut self, other: Counted) {
        self.low.merge(&other.low);
        self.trials.extend(other.trials);
        self.seen = 0;
    }

    /// Clusters beyond a quantile's value whose clusters end after `gap` packets, at least.
    pub fn beyond(&self, value_ns: i64, gap: usize, with_infinite: bool) -> u64 {
        if gap <= 1 {
            return self.low.beyond(value_ns, with_infinite);
        }
        // Neither counts one that is not there, so the greater is right.
        let of = |tail: &Tail| [&tail.sampled, &tail.all].map(|starts| starts.beyond(value_ns, with_infinite));
        self.trials.iter().map(|tail| of(tail).into_iter().max().unwrap_or(0)).sum()
    }
}
