// SPDX-License-Identifier: MIT OR Apache-2.0
//! A mergeable log-linear histogram of signed nanoseconds with three significant digits.
//!
//! The layout is that of HdrHistogram with 2048 sub-buckets (Gil Tene,
//! <https://hdrhistogram.org>): values below 2048 in magnitude have a bucket each, above that
//! every power of two is cut into 1024 equal buckets, so that a bucket is at most 1/1024 (0.098 %)
//! as wide as its least magnitude. Negative values mirror the positive ones. Least and greatest
//! value are kept exactly.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Each magnitude of up to this number of bits has its own bucket.
const EXACT_BITS: u32 = 11;
/// Buckets in each power of two above that, as a shift.
const OCTAVE_BITS: u32 = EXACT_BITS - 1;
/// The bucket of the greatest magnitude, 2^63.
const LAST: usize = (53 << OCTAVE_BITS) + (1 << OCTAVE_BITS);

#[inline]
fn index_of(magnitude: u64) -> usize {
    let shift = 64 - EXACT_BITS - (magnitude | ((1 << EXACT_BITS) - 1)).leading_zeros();
    ((shift as usize) << OCTAVE_BITS) + (magnitude >> shift) as usize
}

/// Least and greatest magnitude of a bucket.
fn magnitudes(index: usize) -> (u64, u64) {
    if index < 1 << EXACT_BITS {
        return (index as u64, index as u64);
    }
    let shift = (index >> OCTAVE_BITS) - 1;
    let low = ((index - (shift << OCTAVE_BITS)) as u64) << shift;
    (low, low + ((1u64 << shift) - 1))
}

/// A bucket that holds something: values from `low_ns` to `high_ns`, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// Least value that falls into it, ns.
    pub low_ns: i64,
    /// Greatest value that falls into it, ns.
    pub high_ns: i64,
    pub count: u64,
}

/// Counts of signed nanoseconds. Merging is associative and commutative, and equal contents
/// compare equal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "Stored", try_from = "Stored")]
pub struct Histogram {
    /// Zero and above, as long as the greatest bucket in use.
    positive: Vec<u64>,
    /// Below zero, by magnitude.
    negative: Vec<u64>,
    count: u64,
    /// Meaningless while `count` is 0, then kept at 0 so that equality holds.
    min: i64,
    max: i64,
}

impl Histogram {
    /// An empty one; takes no memory until something is recorded.
    pub fn new() -> Self {
        Self::default()
    }

    /// The bucket of a value as a number: numbers are ordered as the values are, and 0 is the
    /// bucket of 0.
    #[inline]
    pub fn bucket_of(value_ns: i64) -> i32 {
        let index = index_of(value_ns.unsigned_abs()) as i32;
        if value_ns < 0 { -index } else { index }
    }

    /// Least and greatest value of a bucket's number, both included; out-of-range numbers give the
    /// outermost bucket.
    pub fn bounds_of(bucket: i32) -> (i64, i64) {
        let (low, high) = magnitudes((bucket.unsigned_abs() as usize).min(LAST));
        if bucket < 0 {
            (0i64.saturating_sub_unsigned(high), 0i64.saturating_sub_unsigned(low))
        } else {
            (0i64.saturating_add_unsigned(low), 0i64.saturating_add_unsigned(high))
        }
    }

    #[inline]
    pub fn record(&mut self, value_ns: i64) {
        self.record_n(value_ns, 1);
    }

    /// Counts a value `n` times.
    #[inline]
    pub fn record_n(&mut self, value_ns: i64, n: u64) {
        if n == 0 {
            return;
        }
        if self.count == 0 {
            (self.min, self.max) = (value_ns, value_ns);
        } else {
            self.min = self.min.min(value_ns);
            self.max = self.max.max(value_ns);
        }
        self.count = self.count.saturating_add(n);
        self.add(value_ns, n);
    }

    /// Counts many values; the same as recording each, with less to do for each.
    pub fn record_all(&mut self, values_ns: &[i64]) {
        let Some(&first) = values_ns.first() else { return };
        let (min, max) =
            values_ns.iter().fold((first, first), |(min, max), &value_ns| (min.min(value_ns), max.max(value_ns)));
        self.record_within(values_ns, min, max);
    }

    /// [`Histogram::record_all`] for who knows the least and the greatest of the values already.
    pub fn record_within(&mut self, values_ns: &[i64], min: i64, max: i64) {
        if values_ns.is_empty() {
            return;
        }
        if self.count == 0 {
            (self.min, self.max) = (min, max);
        } else {
            (self.min, self.max) = (self.min.min(min), self.max.max(max));
        }
        self.count = self.count.saturating_add(values_ns.len() as u64);
        // The extremes grow the arrays once; after that every value has its place.
        self.add(min, 0);
        self.add(max, 0);
        if min >= 0 {
            let side = self.positive.as_mut_slice();
            for &value_ns in values_ns {
                if let Some(count) = side.get_mut(index_of(value_ns as u64)) {
                    *count += 1;
                }
            }
        } else {
            values_ns.iter().for_each(|value_ns| self.add(*value_ns, 1));
        }
    }

    #[inline]
    fn add(&mut self, value_ns: i64, n: u64) {
        let side = if value_ns < 0 { &mut self.negative } else { &mut self.positive };
        let index = index_of(value_ns.unsigned_abs());
        if index >= side.len() {
            side.resize(index + 1, 0);
        }
        side[index] = side[index].saturating_add(n);
    }

    /// Adds the other's counts to this one's.
    pub fn merge(&mut self, other: &Histogram) {
        if other.count == 0 {
            return;
        }
        if self.count == 0 {
            (self.min, self.max) = (other.min, other.max);
        } else {
            (self.min, self.max) = (self.min.min(other.min), self.max.max(other.max));
        }
        self.count = self.count.saturating_add(other.count);
        for (mine, theirs) in [(&mut self.positive, &other.positive), (&mut self.negative, &other.negative)] {
            if mine.len() < theirs.len() {
                mine.resize(theirs.len(), 0);
            }
            for (mine, theirs) in mine.iter_mut().zip(theirs) {
                *mine = mine.saturating_add(*theirs);
            }
        }
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    /// True if nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Least value, exact, ns.
    pub fn min(&self) -> Option<i64> {
        (self.count > 0).then_some(self.min)
    }

    /// Greatest value, exact, ns.
    pub fn max(&self) -> Option<i64> {
        (self.count > 0).then_some(self.max)
    }

    /// Buckets that hold something, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = Bucket> + '_ {
        let below = self.negative.iter().enumerate().rev().map(|(index, &count)| (-(index as i32), count));
        let above = self.positive.iter().enumerate().map(|(index, &count)| (index as i32, count));
        below.chain(above).filter(|(_, count)| *count > 0).map(|(bucket, count)| {
            let (low_ns, high_ns) = Histogram::bounds_of(bucket);
            Bucket { low_ns, high_ns, count }
        })
    }

    /// The bucket that holds the value of a rank (1 is the least value), and how many values lie
    /// in lower buckets. `None` if there is no such rank.
    pub fn bucket_at_rank(&self, rank: u64) -> Option<(Bucket, u64)> {
        if rank == 0 || rank > self.count {
            return None;
        }
        let mut before = 0u64;
        for bucket in self.iter() {
            if before.saturating_add(bucket.count) >= rank {
                return Some((bucket, before));
            }
            before += bucket.count;
        }
        None
    }

    /// The value of a rank (nearest rank, 1 is the least): the greatest value of its bucket, at
    /// most the maximum, so that the error is never downwards and below 0.1 %. `None` if there is
    /// no such rank.
    pub fn value_at_rank(&self, rank: u64) -> Option<i64> {
        self.bucket_at_rank(rank).map(|(bucket, _)| bucket.high_ns.min(self.max))
    }
}

/// As it is written: only buckets in use, by number.
#[derive(Serialize, Deserialize)]
struct Stored {
    min_ns: Option<i64>,
    max_ns: Option<i64>,
    buckets: Vec<(i32, u64)>,
}

impl From<Histogram> for Stored {
    fn from(histogram: Histogram) -> Self {
        let buckets = histogram.iter().map(|bucket| (Histogram::bucket_of(bucket.low_ns), bucket.count)).collect();
        Stored { min_ns: histogram.min(), max_ns: histogram.max(), buckets }
    }
}

/// Why stored buckets are not a histogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadHistogram {
    /// A bucket's number is beyond the last one, or out of order.
    Bucket(i32),
    /// The counts add up to more than can be counted.
    Count,
    /// Least or greatest value are missing or do not lie in the outermost buckets.
    Extremes,
}

impl fmt::Display for BadHistogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadHistogram::Bucket(bucket) => write!(f, "histogram: bucket {bucket} does not exist or is out of order"),
            BadHistogram::Count => f.write_str("histogram: the counts overflow, or one is 0"),
            BadHistogram::Extremes => f.write_str("histogram: min_ns or max_ns does not fit the buckets"),
        }
    }
}

impl std::error::Error for BadHistogram {}

impl TryFrom<Stored> for Histogram {
    type Error = BadHistogram;
    fn try_from(stored: Stored) -> Result<Self, BadHistogram> {
        let mut histogram = Histogram::new();
        let mut last = None;
        for &(bucket, n) in &stored.buckets {
            if bucket.unsigned_abs() as usize > LAST || last.is_some_and(|last| last >= bucket) {
                return Err(BadHistogram::Bucket(bucket));
            }
            last = Some(bucket);
            histogram.count = histogram.count.checked_add(n).filter(|_| n > 0).ok_or(BadHistogram::Count)?;
            let (low, high) = Histogram::bounds_of(bucket);
            histogram.add(if bucket < 0 { high } else { low }, n);
        }
        let ends = (stored.buckets.first().map(|b| b.0), stored.buckets.last().map(|b| b.0));
        if (stored.min_ns.map(Histogram::bucket_of), stored.max_ns.map(Histogram::bucket_of)) != ends
            || stored.min_ns > stored.max_ns
        {
            return Err(BadHistogram::Extremes);
        }
        (histogram.min, histogram.max) = (stored.min_ns.unwrap_or(0), stored.max_ns.unwrap_or(0));
        Ok(histogram)
    }
}
