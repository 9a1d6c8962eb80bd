// SPDX-License-Identifier: MIT OR Apache-2.0
//! A distribution in little room: only the histogram's buckets that hold something, with the exact
//! extremes and sum.

use crate::quantiles::rank_of;
use std::collections::BTreeMap;
use tardy_model::histogram::Histogram;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    pub count: u64,
    /// Sum of the values, ns.
    pub sum_ns: i128,
    /// Least, ns; 0 without values.
    pub min_ns: i64,
    /// Greatest, ns; 0 without values.
    pub max_ns: i64,
    /// Number of a bucket ([`Histogram::bucket_of`]) and its values, ascending.
    buckets: Vec<(i32, u64)>,
}

impl Shape {
    /// What a histogram holds; the sum is the caller's, for buckets have none.
    pub fn of(histogram: &Histogram, sum_ns: i128) -> Self {
        Shape {
            count: histogram.count(),
            sum_ns,
            min_ns: histogram.min().unwrap_or(0),
            max_ns: histogram.max().unwrap_or(0),
            buckets: histogram.iter().map(|bucket| (Histogram::bucket_of(bucket.low_ns), bucket.count)).collect(),
        }
    }

    /// Mean, ns; `None` without values.
    pub fn mean_ns(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum_ns as f64 / self.count as f64)
    }

    /// Adds another's values.
    pub fn merge(&mut self, other: &Shape) {
        if other.count == 0 {
            return;
        }
        (self.min_ns, self.max_ns) = match self.count {
            0 => (other.min_ns, other.max_ns),
            _ => (self.min_ns.min(other.min_ns), self.max_ns.max(other.max_ns)),
        };
        self.count += other.count;
        self.sum_ns += other.sum_ns;
        let mut all: BTreeMap<i32, u64> = self.buckets.iter().copied().collect();
        other.buckets.iter().for_each(|(bucket, count)| *all.entry(*bucket).or_default() += count);
        self.buckets = all.into_iter().collect();
    }

    /// The quantile, nearest rank over these values, as the greatest value of its bucket: never
    /// downwards, at most 0.1 % off.
    pub fn quantile_ns(&self, q: f64) -> Option<i64> {
        let rank = rank_of(q, self.count);
        let mut before = 0;
        let found = self.buckets.iter().find(|(_, count)| {
            before += count;
            before >= rank
        });
        found.map(|(bucket, _)| Histogram::bounds_of(*bucket).1.min(self.max_ns))
    }

    /// Least value, greatest value (both included, ns) and count of at most `most` bins, or of the
    /// fewest there can be.
    pub fn bins(&self, most: usize) -> Vec<(i64, i64, u64)> {
        coarse(self.buckets.iter().copied(), most)
    }
}

/// At most `most` bins out of bars on a histogram's buckets (least value, greatest value, count),
/// ascending.
pub fn bins(bars: &[(i64, i64, u64)], most: usize) -> Vec<(i64, i64, u64)> {
    coarse(
        bars.iter().map(|(low, high, count)| (Histogram::bucket_of(low + high.saturating_sub(*low) / 2), *count)),
        most,
    )
}

/// Joins 2, 4, 8, … neighbouring buckets until few enough hold something.
fn coarse(buckets: impl Iterator<Item = (i32, u64)> + Clone, most: usize) -> Vec<(i64, i64, u64)> {
    let mut shift = 0;
    loop {
        let mut joined: Vec<(i32, u64)> = Vec::new();
        for (bucket, count) in buckets.clone() {
            match joined.last_mut() {
                Some((last, total)) if *last == bucket >> shift => *total += count,
                _ => joined.push((bucket >> shift, count)),
            }
        }
        // A sign and so many octaves remain at last.
        if joined.len() <= most.max(1) || shift == 15 {
            let bounds = |(bin, count): (i32, u64)| {
                let (first, last) = (bin << shift, (bin << shift) + ((1 << shift) - 1));
                (Histogram::bounds_of(first).0, Histogram::bounds_of(last).1, count)
            };
            return joined.into_iter().map(bounds).collect();
        }
        shift += 1;
    }
}
