// SPDX-License-Identifier: MIT OR Apache-2.0
//! Distributions in little room. A [`Shape`] has only the histogram's buckets that hold something,
//! with the exact extremes and sum. A [`Grid`] says how many values lie where in time and
//! magnitude, from which a heat map is painted: bounded in columns and rows, however many values
//! there are and however far they reach, and the same however they are cut into batches.

use crate::statistics::rank_of;
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
        // In the end a sign and the octaves remain.
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

/// Most columns of one picture, all its trials together.
pub const MOST_COLUMNS: usize = 240;
/// Most rows: bins of values that hold something.
pub const MOST_ROWS: usize = 48;
/// Most rows from the least to the greatest, those that hold nothing among them: more are thinner
/// than a picture's pixels.
const MOST_HIGH: i32 = 160;
/// Columns times rows of all metrics in all trials of a run together, while each has more than one
/// column.
pub const ALL_SPOTS: usize = 120_000;

/// How many columns each of `lines` metrics over all streams and trials may have, if one plot shows
/// `trials` trials.
pub fn columns_each(lines: usize, trials: usize) -> usize {
    (ALL_SPOTS / MOST_ROWS / lines.max(1)).clamp(1, (MOST_COLUMNS / trials.max(1)).max(1))
}

/// Counts of values by stretch of time and bin of magnitude.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grid {
    /// Length of a column, ns.
    pub every_ns: i64,
    /// Neighbouring buckets of a histogram in one bin, as a power of two.
    shift: u32,
    /// Columns there may be.
    most: usize,
    /// For each column its bins and their counts, ascending.
    columns: Vec<Vec<(i32, u64)>>,
    /// The bins of all columns, ascending.
    bins: Vec<i32>,
}

impl Grid {
    /// An empty one of at most `most` columns, each `every_ns` long at first. Time beyond the last
    /// makes all of them twice as long.
    pub fn new(most: usize, every_ns: i64) -> Self {
        Grid { every_ns: every_ns.max(1), most: most.max(1), ..Grid::default() }
    }

    /// Counts a value at a time; what lies before zero belongs to the first column.
    pub fn add(&mut self, at_ns: i64, value_ns: i64) {
        let column = loop {
            let column = usize::try_from(at_ns.max(0) / self.every_ns).unwrap_or(usize::MAX);
            if column < self.most || self.every_ns > i64::MAX / 2 {
                break column.min(self.most - 1);
            }
            self.widen();
        };
        if self.columns.len() <= column {
            self.columns.resize(column + 1, Vec::new());
        }
        let bin = Histogram::bucket_of(value_ns) >> self.shift;
        let into = &mut self.columns[column];
        match into.binary_search_by_key(&bin, |spot| spot.0) {
            Ok(found) => into[found].1 += 1,
            Err(place) => {
                into.insert(place, (bin, 1));
                if let Err(place) = self.bins.binary_search(&bin) {
                    self.bins.insert(place, bin);
                    self.coarsen();
                }
            }
        }
    }

    /// Columns twice as long.
    fn widen(&mut self) {
        self.every_ns *= 2;
        let pairs = self.columns.chunks(2).map(|pair| joined(pair.iter().flatten().copied().collect()));
        self.columns = pairs.collect();
    }

    /// Bins twice as high until they are few enough, those that hold something and all.
    fn coarsen(&mut self) {
        // At 15 only a sign and octaves remain. These can be too many only if `most` is very small.
        let high = |bins: &[i32]| bins.last().zip(bins.first()).map_or(0, |(last, first)| last - first);
        while (self.bins.len() > MOST_ROWS || high(&self.bins) >= MOST_HIGH) && self.shift < 15 {
            self.shift += 1;
            self.bins.iter_mut().for_each(|bin| *bin >>= 1);
            self.bins.dedup();
            for column in &mut self.columns {
                *column = joined(column.iter().map(|(bin, count)| (bin >> 1, *count)).collect());
            }
        }
    }

    /// Least and greatest value of each row, both included, ns, ascending.
    pub fn rows(&self) -> Vec<(i64, i64)> {
        let bounds = |bin: &i32| {
            let (first, last) = (bin << self.shift, (bin << self.shift) + ((1 << self.shift) - 1));
            (Histogram::bounds_of(first).0, Histogram::bounds_of(last).1)
        };
        self.bins.iter().map(bounds).collect()
    }

    /// For each column its rows that hold something, by number in [`Grid::rows`], and their
    /// counts, ascending.
    pub fn columns(&self) -> impl Iterator<Item = Vec<(usize, u64)>> + '_ {
        let row = |bin: i32| self.bins.partition_point(|other| *other < bin);
        self.columns.iter().map(move |column| column.iter().map(|(bin, count)| (row(*bin), *count)).collect())
    }

    pub fn count(&self) -> u64 {
        self.columns.iter().flatten().map(|spot| spot.1).sum()
    }
}

/// Counts of the same bin as one, ascending.
fn joined(mut spots: Vec<(i32, u64)>) -> Vec<(i32, u64)> {
    spots.sort_unstable_by_key(|spot| spot.0);
    spots.dedup_by(|next, kept| {
        let same = next.0 == kept.0;
        if same {
            kept.1 += next.1;
        }
        same
    });
    spots
}
