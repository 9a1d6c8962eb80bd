// SPDX-License-Identifier: MIT OR Apache-2.0
//! All that is kept of one metric: mergeable across the trials of a cell, bounded in memory.

use crate::chunk::ROWS;
use crate::clusters::counted::Counted;
use crate::clusters::{Beyond, INFINITE, NEEDED, gap_of, separate};
use crate::moments::Moments;
use crate::quantiles::{Quantile, named, rank_of};
use tardy_model::histogram::Histogram;
use tardy_model::result::{Figures, MetricResult, QUANTILES, Quantiles};

/// Up to so many rows in the pooled cell, quantiles are exact; above, they come from the histogram.
pub const EXACT_ROWS: usize = 10_000_000;

/// Above that many, values below this quantile of what was seen until then are passed over when the clusters beyond p99 and
/// higher are counted.
const FLOOR: f64 = 0.9;

/// The greatest value and its packet; of equals, the earliest trial's first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Greatest {
    ns: i64,
    trial: u32,
    seq: i64,
}

impl Greatest {
    fn of(a: Option<Greatest>, b: Option<Greatest>) -> Option<Greatest> {
        a.into_iter().chain(b).max_by_key(|g| (g.ns, std::cmp::Reverse((g.trial, g.seq))))
    }
}

/// What the tail is judged from.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Rows {
    /// Every value in scheduled order, [`INFINITE`] for what never arrived, and where each trial starts.
    Kept { values: Vec<i64>, trials: Vec<usize> },
    /// Above that many.
    Counted(Box<Counted>),
}

/// One metric of one trial, or of several merged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricDigest {
    trial: u32,
    exact_rows: usize,
    /// Of the packets that arrived with both stamps.
    histogram: Histogram,
    moments: Moments,
    greatest: Option<Greatest>,
    /// Lost or not sent.
    infinite: u64,
    /// Values there would be if no stamp were missing.
    possible: u64,
    negative: u64,
    rows: Rows,
}

impl MetricDigest {
    /// For one trial; quantiles are exact up to [`EXACT_ROWS`].
    pub fn new(trial: u32) -> Self {
        Self::with_exact_rows(trial, EXACT_ROWS)
    }

    /// For one trial; quantiles are exact up to `exact_rows` rows, and no more values than that are ever held.
    pub fn with_exact_rows(trial: u32, exact_rows: usize) -> Self {
        MetricDigest {
            trial,
            exact_rows,
            histogram: Histogram::new(),
            moments: Moments::default(),
            greatest: None,
            infinite: 0,
            possible: 0,
            negative: 0,
            rows: Rows::Kept { values: Vec::new(), trials: vec![0] },
        }
    }

    /// Adds rows in scheduled order: `values` in ns, [`INFINITE`] for a packet that never arrived; a packet that arrived
    /// without the stamp is left out. `seqs` are their numbers, equally many.
    pub fn absorb(&mut self, values: &[i64], seqs: &[i64]) {
        for (values, seqs) in values.chunks(ROWS).zip(seqs.chunks(ROWS)) {
            if values.iter().map(|value| u64::from(*value == INFINITE)).sum::<u64>() == 0 {
                self.absorb_finite(values, seqs);
            } else {
                let finite = values.iter().zip(seqs).filter(|(value, _)| **value != INFINITE);
                let (finite, their_seqs): (Vec<i64>, Vec<i64>) = finite.unzip();
                self.infinite += (values.len() - finite.len()) as u64;
                self.absorb_finite(&finite, &their_seqs);
            }
            self.keep(values);
        }
    }

    fn absorb_finite(&mut self, values: &[i64], seqs: &[i64]) {
        let Some(first) = values.first() else { return };
        let (min, max) = values.iter().fold((*first, *first), |(min, max), value| (min.min(*value), max.max(*value)));
        self.moments.add_up_to(values, min.unsigned_abs().max(max.unsigned_abs()));
        if min < 0 {
            self.negative += values.iter().filter(|value| **value < 0).count() as u64;
        }
        if self.greatest.is_none_or(|greatest| max > greatest.ns) {
            let seq = values.iter().zip(seqs).find(|(value, _)| **value == max).map_or(0, |(_, seq)| *seq);
            self.greatest = Some(Greatest { ns: max, trial: self.trial, seq });
        }
        self.histogram.record_within(values, min, max);
    }

    fn keep(&mut self, mut new: &[i64]) {
        if let Rows::Kept { values, .. } = &mut self.rows {
            // Filled to the bound before it is given up: the outcome must not depend on where batches are cut.
            let (now, later) = new.split_at(new.len().min(self.exact_rows - values.len()));
            values.extend_from_slice(now);
            if later.is_empty() {
                return;
            }
            new = later;
            self.count_instead();
        }
        if let Rows::Counted(counted) = &mut self.rows {
            counted.add(new);
        }
    }

    /// Gives the values up for the clusters' starts.
    fn count_instead(&mut self) {
        let Rows::Kept { values, trials } = &self.rows else { return };
        let floor_ns = self.histogram.value_at_rank(rank_of(FLOOR, self.count()));
        let mut counted = Box::new(Counted::new(floor_ns));
        for trial in slices(values, trials) {
            counted.next_trial();
            counted.add(trial);
        }
        self.rows = Rows::Counted(counted);
    }

    /// States how many values there would be if no stamp were missing: packets received, for `delta` one fewer.
    pub fn expect(&mut self, possible: u64) {
        self.possible += possible;
    }

    /// Adds another trial's digest, or that of several; both must be complete.
    pub fn merge(&mut self, mut other: MetricDigest) {
        self.histogram.merge(&other.histogram);
        self.moments.merge(&other.moments);
        self.greatest = Greatest::of(self.greatest, other.greatest);
        self.infinite += other.infinite;
        self.possible += other.possible;
        self.negative += other.negative;
        if self.kept() + other.kept() > self.exact_rows {
            self.count_instead();
        }
        if matches!(other.rows, Rows::Counted(_)) {
            self.count_instead();
        } else if matches!(self.rows, Rows::Counted(_)) {
            other.count_instead();
        }
        match (&mut self.rows, other.rows) {
            (Rows::Kept { values, trials }, Rows::Kept { values: mut more, trials: starts }) => {
                trials.extend(starts.iter().map(|start| start + values.len()));
                if values.is_empty() {
                    std::mem::swap(values, &mut more);
                } else {
                    values.extend_from_slice(&more);
                }
            }
            (Rows::Counted(counted), Rows::Counted(more)) => {
                counted.merge(*more);
            }
            // Both were brought to the same form above.
            _ => {}
        }
    }

    fn kept(&self) -> usize {
        match &self.rows {
            Rows::Kept { values, .. } => values.len(),
            Rows::Counted(_) => 0,
        }
    }

    /// The distribution of the packets that arrived with both stamps.
    pub fn histogram(&self) -> &Histogram {
        &self.histogram
    }

    /// Values.
    pub fn count(&self) -> u64 {
        self.moments.count()
    }

    /// The figures. The caller says whose stamp the later one is, and why there are no values if there are none.
    pub fn finish(&self, source: &str, why: Option<String>) -> MetricResult {
        let count = self.count();
        let exact = matches!(self.rows, Rows::Kept { .. });
        let mut result = MetricResult {
            clock: "tai".to_owned(),
            source: source.to_owned(),
            coverage: if self.possible == 0 { 0.0 } else { count as f64 / self.possible as f64 },
            count,
            percentiles: if exact { "exact" } else { "hdr3" }.to_owned(),
            ..MetricResult::default()
        };
        if count == 0 {
            result.why = why;
            return result;
        }
        let all = named(QUANTILES.map(|(_, _, q)| self.quantile(q, true)));
        if self.infinite > 0 {
            let received = named(QUANTILES.map(|(_, _, q)| self.quantile(q, false))).quantiles;
            result.received_only = (received != all.quantiles).then_some(received);
        }
        result.figures = self.figures(all.quantiles);
        (result.infinite, result.unresolved) = (all.infinite, all.unresolved);
        result.max_seq = self.greatest.map(|greatest| greatest.seq);
        result.max_trial = self.greatest.map(|greatest| greatest.trial);
        result.negative = self.negative;
        result
    }

    fn figures(&self, quantiles: Quantiles) -> Figures {
        Figures {
            min_ns: self.histogram.min(),
            mean_ns: self.moments.mean(),
            stddev_ns: self.moments.stddev(),
            max_ns: self.histogram.max(),
            quantiles,
        }
    }

    /// A quantile over intended packets, or over those received only.
    pub fn quantile(&self, q: f64, with_infinite: bool) -> Quantile {
        let count = self.count();
        let rank = rank_of(q, if with_infinite { count + self.infinite } else { count });
        let Some((bucket, before)) = self.histogram.bucket_at_rank(rank) else { return Quantile::Infinite };
        let gap = gap_of(q);
        match &self.rows {
            Rows::Kept { values, trials } => {
                let (value_ns, below, tied) = if bucket.low_ns == bucket.high_ns {
                    (bucket.low_ns, before, bucket.count)
                } else {
                    within(values, bucket.low_ns, bucket.high_ns, before, rank)
                };
                let beyond = Beyond { value_ns, tied, tied_beyond: below + tied - rank, gap, with_infinite };
                resolved(value_ns, separate(slices(values, trials), &beyond).into())
            }
            Rows::Counted(counted) => {
                let value_ns = bucket.high_ns.min(self.histogram.max().unwrap_or(bucket.high_ns));
                // Those of the same bucket that rank beyond have no places any more: one in `gap` counts.
                let tied = (before + bucket.count - rank) / gap as u64;
                resolved(value_ns, counted.beyond(value_ns, gap, with_infinite) + tied)
            }
        }
    }
}

fn resolved(value_ns: i64, clusters: u64) -> Quantile {
    if clusters < u64::from(NEEDED) { Quantile::Unresolved } else { Quantile::Value(value_ns) }
}

/// The values of each trial.
fn slices<'a>(values: &'a [i64], trials: &'a [usize]) -> impl Iterator<Item = &'a [i64]> {
    let ends = trials.iter().skip(1).copied().chain([values.len()]);
    trials.iter().zip(ends).map(|(start, end)| &values[*start..end])
}

/// The value of a rank that lies in a bucket, how many values are less, and how many are equal to it.
fn within(values: &[i64], low: i64, high: i64, before: u64, rank: u64) -> (i64, u64, u64) {
    // Infinity lies in no bucket but the last, and values of 292 years do not come here.
    let mut inside: Vec<i64> =
        values.iter().copied().filter(|value| (low..=high).contains(value) && *value != INFINITE).collect();
    let at = ((rank - before - 1) as usize).min(inside.len().saturating_sub(1));
    let value = *inside.select_nth_unstable(at).1;
    let less = inside.iter().filter(|other| **other < value).count() as u64;
    let equal = inside.iter().filter(|other| **other == value).count() as u64;
    (value, before + less, equal)
}
