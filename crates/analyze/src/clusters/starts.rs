// SPDX-License-Identifier: MIT OR Apache-2.0
//! Clusters beyond every threshold at once, without keeping the values.

use super::{INFINITE, LONGEST_GAP};
use crate::counts::Places;
use tardy_model::histogram::Histogram;

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

/// Values that are looked at together.
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

    /// The same for values that have places, which tell at once of many that none is above the
    /// floor.
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

    /// Continues a trial of which the packets before were not looked at: the first values stand in
    /// for them, and start nothing.
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
