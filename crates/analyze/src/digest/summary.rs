// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is read off the counts of a digest when they are complete: the figures of its values, and
//! the value at a rank.

use crate::counts::Counts;
use crate::statistics::Moments;
use tardy_model::histogram::{Bucket, Histogram};

/// All figures of the values except exact quantiles.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Spilled {
    pub(super) histogram: Histogram,
    pub(super) moments: Moments,
    pub(super) negative: u64,
}

impl Spilled {
    pub(super) fn add(&mut self, value: i64, n: u64) {
        self.histogram.record_n(value, n);
        self.moments.add_n(value, n);
        if value < 0 {
            self.negative += n;
        }
    }

    pub(super) fn merge(&mut self, other: &Spilled) {
        self.histogram.merge(&other.histogram);
        self.moments.merge(&other.moments);
        self.negative += other.negative;
    }
}

/// What is read off the counts at the end.
pub(super) struct Summary {
    pub(super) all: Spilled,
    /// Each value with how many are not greater, in ascending order; `None` if not exact.
    pub(super) upto: Option<Vec<(i64, u64)>>,
}

impl Summary {
    /// Of counted values and of those that were taken out of the counts; with exact values if there
    /// are none of these.
    pub(super) fn of(counts: &Counts, spilled: &Spilled, is_exact: bool) -> Summary {
        let mut all = spilled.clone();
        let mut upto = is_exact.then(Vec::new);
        let mut before = 0;
        counts.each(|value, n| {
            all.add(value, n);
            before += n;
            if let Some(upto) = &mut upto {
                upto.push((value, before));
            }
        });
        Summary { all, upto }
    }

    /// The value at a rank; `None` if the packet at that rank never arrived.
    pub(super) fn at(&self, rank: u64) -> Option<RankedValue> {
        let histogram = &self.all.histogram;
        let (bucket, before) = histogram.bucket_at_rank(rank)?;
        let exact = self.upto.as_ref().and_then(|upto| at_rank(upto, rank));
        let rough = bucket.high_ns.min(histogram.max().unwrap_or(bucket.high_ns));
        Some(RankedValue { value_ns: exact.map_or(rough, |(value, ..)| value), exact, bucket, before })
    }
}

/// A rank's value, and where it stands.
pub(super) struct RankedValue {
    pub(super) value_ns: i64,
    /// The value, how many are less, and how many are equal; `None` above the bound up to which
    /// values are exact.
    pub(super) exact: Option<(i64, u64, u64)>,
    pub(super) bucket: Bucket,
    /// Values in lower buckets.
    pub(super) before: u64,
}

/// True if two figures are no farther apart than a bucket of the histogram is wide.
pub(super) fn is_same(least: i64, greatest: i64) -> bool {
    let apart = i128::from(greatest) - i128::from(least);
    apart <= i128::from(least.unsigned_abs().max(1024)) / 1024
}

/// The value of a rank, how many values are less, and how many are equal to it.
fn at_rank(upto: &[(i64, u64)], rank: u64) -> Option<(i64, u64, u64)> {
    let at = upto.partition_point(|(_, upto)| *upto < rank);
    let (value, with) = *upto.get(at)?;
    let below = at.checked_sub(1).map_or(0, |before| upto[before].1);
    Some((value, below, with - below))
}
