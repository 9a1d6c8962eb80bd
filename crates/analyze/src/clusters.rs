// SPDX-License-Identifier: MIT OR Apache-2.0
//! How many separate events lie beyond a quantile: one stall makes many late packets and is still one event.
//!
//! Runs declustering (Smith and Weissman 1994, "Estimating the extremal index"; Coles 2001, §5.3.2): packets of a trial in
//! scheduled order; those beyond the quantile are exceedances; a cluster ends after `r` packets in a row that are none.

use tardy_model::histogram::Histogram;

/// Fewer separate clusters than this beyond a percentile, and the percentile is not resolved.
pub const NEEDED: u32 = 10;

/// Stands for a packet that never arrived: beyond every quantile.
pub const INFINITE: i64 = i64::MAX;

/// The longest gap that a run may have: with more, independent rare events would be merged.
const LONGEST_GAP: usize = 10;

/// Non-exceedances in a row that end a cluster: `round(0.1 / (1 − q))`, at least 1, at most 10.
///
/// A tenth of the mean distance between exceedances, so that of independent ones nine in ten stay separate; never above
/// 10, so that a stall that leaves a few packets in time is one cluster and two stalls are two.
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

/// Clusters beyond a quantile, counted up to [`NEEDED`]. `trials` are the values of each trial in scheduled order.
///
/// Where values tie with the quantile, as many of them as rank beyond it are exceedances, taken evenly spaced: a
/// distribution with equal values is resolved by as many packets as one without.
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

/// For every threshold at once, how many clusters lie beyond it: bounded memory for any number of packets.
///
/// A cluster beyond a threshold starts at a packet that exceeds it while none of the `gap` packets before does; so a packet
/// of bucket `b` after a greatest bucket `m` of those before starts one cluster for each threshold in `m ≤ t < b`. The
/// starts are kept as differences over the histogram's buckets and summed when asked.
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

/// The packets above the floor among the last ones of a trial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Window {
    /// Packets seen in the trial.
    at: u64,
    /// Bucket and place of the last ones above the floor, the newest first.
    last: [Option<(i32, u64)>; LONGEST_GAP],
}

impl Window {
    /// The greatest bucket of the last `gap` packets.
    #[inline]
    fn greatest(&self, gap: usize) -> i32 {
        let near = self.last.iter().map_while(|seen| seen.filter(|(_, at)| self.at - at <= gap as u64));
        near.map(|(bucket, _)| bucket).fold(NOTHING, i32::max)
    }

    #[inline]
    fn push(&mut self, bucket: i32) {
        self.last.copy_within(..LONGEST_GAP - 1, 1);
        self.last[0] = Some((bucket, self.at));
    }
}

impl Starts {
    /// For quantiles whose clusters end after `gap` packets and whose values are at least `floor_ns`, if that is known.
    /// Thresholds below it are counted too few.
    pub fn new(gap: usize, floor_ns: Option<i64>) -> Self {
        Starts { gap: gap.clamp(1, LONGEST_GAP), floor_ns, ..Self::default() }
    }

    /// What comes next is another trial, or lies far from what was added last.
    pub fn apart(&mut self) {
        self.window = Window::default();
    }

    /// Continues a trial.
    pub fn add(&mut self, values: &[i64]) {
        let floor = self.floor_ns.unwrap_or(i64::MIN);
        let first = self.window.at;
        for (at, &value) in (first..).zip(values) {
            if value >= floor {
                self.window.at = at;
                self.above(value);
            }
        }
        self.window.at = first + values.len() as u64;
    }

    /// Continues a trial of which the packets before were not looked at: the first value counts for them.
    pub fn add_after_unseen(&mut self, values: &[i64]) {
        self.apart();
        if let Some((first, rest)) = values.split_first() {
            self.window.push(bucket_of(*first));
            self.window.at = 1;
            self.add(rest);
        }
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

    /// Clusters in buckets above the value's, at least. What shares its bucket is not seen; without `with_infinite`, each
    /// start at a packet that never arrived is taken away, though its cluster may hold others.
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
