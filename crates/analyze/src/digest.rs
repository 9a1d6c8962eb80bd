// SPDX-License-Identifier: MIT OR Apache-2.0
//! All that is kept of one metric: mergeable across the trials of a cell, bounded in memory.

use crate::chunk::ROWS;
use crate::clusters::{Beyond, Counted, Floors, INFINITE, NEEDED, gap_of, separate};
use crate::counts::{Counts, Instants, Places, RankedValue, Spilled, Summary, is_same};
use crate::statistics::{Quantile, named, rank_of};
use tardy_model::expect::QUANTILES;
use tardy_model::histogram::Histogram;
use tardy_model::result::{Figures, MAX, MetricResult};

/// Up to this many rows in the pooled cell, quantiles are exact; above, they come from the
/// histogram.
pub const EXACT_ROWS: usize = 10_000_000;

/// Up to this many rows, values are kept in their order; above, clusters are counted as the values
/// pass by.
pub const KEPT_ROWS: usize = 1_000_000;

/// From this many on, memory is allocated for all that may be kept.
const MANY: usize = 1 << 16;

/// Above that many, values below these quantiles of what was seen until then are passed over when
/// the clusters beyond p99 and higher are counted, in the sampled blocks and everywhere: beyond
/// p99 there are enough in the sampled ones.
const FLOORS: [f64; 2] = [0.9, 0.998];

/// Values without a counter of their own that are held together once they need not be exact.
const SPILL: usize = 1 << 16;

/// After this many values the counters, which have 32 bits, are emptied.
const EMPTIED_AT: u64 = 1 << 31;

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
    /// Every value in scheduled order, [`INFINITE`] for what never arrived, and where each trial
    /// starts.
    Kept {
        values: Vec<i64>,
        trials: Vec<usize>,
    },
    Counted(Box<Counted>),
}

/// One metric of one trial, or of several merged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricDigest {
    trial: u32,
    exact_rows: usize,
    /// Of the packets that arrived with both stamps, as far as they are in `spilled` not.
    counts: Counts,
    counted: u64,
    /// What was taken out of `counts`: then it is not exact.
    spilled: Spilled,
    greatest: Option<Greatest>,
    /// Lost or not sent.
    infinite: u64,
    /// Values there would be if no stamp were missing.
    possible: u64,
    rows: Rows,
    room: Room,
}

/// Room for the places of a few values, used again and again: nothing that the digest says.
#[derive(Debug, Default)]
struct Room(Option<Box<Places>>);

impl Clone for Room {
    fn clone(&self) -> Room {
        Room::default()
    }
}

impl PartialEq for Room {
    fn eq(&self, _: &Room) -> bool {
        true
    }
}

impl Eq for Room {}

impl MetricDigest {
    /// For one trial; quantiles are exact up to [`EXACT_ROWS`].
    pub fn new(trial: u32) -> Self {
        Self::with_exact_rows(trial, EXACT_ROWS)
    }

    /// For one trial; quantiles are exact up to `exact_rows` rows, and no more values than that
    /// are ever held.
    pub fn with_exact_rows(trial: u32, exact_rows: usize) -> Self {
        MetricDigest {
            trial,
            exact_rows,
            counts: Counts::default(),
            counted: 0,
            spilled: Spilled::default(),
            greatest: None,
            infinite: 0,
            possible: 0,
            rows: Rows::Kept { values: Vec::new(), trials: vec![0] },
            room: Room::default(),
        }
    }

    /// Adds rows in scheduled order: `values` in ns, [`INFINITE`] for a packet that never arrived;
    /// a packet that arrived without the stamp is left out. `seqs` are their numbers, equally
    /// many; without them the greatest value has no packet.
    pub fn absorb(&mut self, mut values: &[i64], mut seqs: &[i64]) {
        while !values.is_empty() {
            // Filled to the bound before the values are given up: the outcome must not depend on
            // where batches are cut.
            let room = match &self.rows {
                Rows::Kept { values, .. } => self.kept_rows() - values.len(),
                Rows::Counted(_) => ROWS,
            };
            if room == 0 {
                self.count_instead();
                continue;
            }
            let (now, later) = values.split_at(values.len().min(ROWS).min(room));
            let (their_seqs, later_seqs) = seqs.split_at(now.len().min(seqs.len()));
            self.absorb_chunk(now, their_seqs);
            (values, seqs) = (later, later_seqs);
        }
    }

    /// Adds rows of whole columns, at most [`ROWS`]: the distances of `later` from `earlier`, or
    /// the later ones themselves. False, and nothing is added, where the values have to be written
    /// down for it: [`MetricDigest::absorb`] takes them then.
    pub(crate) fn absorb_distances<T: Instants>(&mut self, later: &[T], earlier: Option<&[T]>, seqs: &[i64]) -> bool {
        let Rows::Counted(counted) = &mut self.rows else { return false };
        let mut places = self.room.0.take().unwrap_or_default();
        let in_span = places.take_distances(later, earlier);
        if in_span {
            if self.greatest.is_none_or(|greatest| places.any_above(greatest.ns))
                && let Some((ns, at)) = places.greatest()
            {
                self.greatest = Some(Greatest { ns, trial: self.trial, seq: seqs.get(at).copied().unwrap_or(0) });
            }
            self.counts.add_places(&places);
            self.counted += places.len() as u64;
            counted.add_places(&places);
            self.spill_if_needed();
        }
        self.room.0 = Some(places);
        in_span
    }

    fn absorb_chunk(&mut self, values: &[i64], seqs: &[i64]) {
        let mut places = self.room.0.take().unwrap_or_default();
        let in_span = places.take(values);
        if in_span {
            if self.greatest.is_none_or(|greatest| places.any_above(greatest.ns)) {
                self.look_for_greatest(values, seqs);
            }
            self.counts.add_places(&places);
            self.counted += values.len() as u64;
        } else {
            let finite: Vec<i64> = values.iter().copied().filter(|value| *value != INFINITE).collect();
            self.infinite += (values.len() - finite.len()) as u64;
            self.look_for_greatest(values, seqs);
            self.counts.add(&finite);
            self.counted += finite.len() as u64;
        }
        self.spill_if_needed();
        match &mut self.rows {
            Rows::Kept { values: kept, .. } => {
                if kept.len() + values.len() > kept.capacity().max(MANY) {
                    // What is made room for at once need not be moved again and again.
                    kept.reserve_exact(self.exact_rows.min(KEPT_ROWS).saturating_sub(kept.len()));
                }
                kept.extend_from_slice(values);
            }
            Rows::Counted(counted) if in_span => counted.add_places(&places),
            Rows::Counted(counted) => counted.add(values),
        }
        self.room.0 = Some(places);
    }

    fn look_for_greatest(&mut self, values: &[i64], seqs: &[i64]) {
        let Some(max) = values.iter().copied().filter(|value| *value != INFINITE).max() else { return };
        if self.greatest.is_none_or(|greatest| max > greatest.ns) {
            let seq = values.iter().zip(seqs).find(|(value, _)| **value == max).map_or(0, |(_, seq)| *seq);
            self.greatest = Some(Greatest { ns: max, trial: self.trial, seq });
        }
    }

    fn kept_rows(&self) -> usize {
        self.exact_rows.min(KEPT_ROWS)
    }

    fn is_exact(&self) -> bool {
        self.count() + self.infinite <= self.exact_rows as u64 && self.spilled.moments.count() == 0
    }

    /// Once it is not exact any more, memory is held flat.
    fn spill_if_needed(&mut self) {
        if self.count() + self.infinite <= self.exact_rows as u64 {
            return;
        }
        if self.counts.listed() >= SPILL {
            let listed = self.counts.take_listed();
            self.counted -= listed.len() as u64;
            listed.into_iter().for_each(|value| self.spilled.add(value, 1));
        }
        if self.counted >= EMPTIED_AT {
            let counts = std::mem::take(&mut self.counts);
            counts.each(|value, n| self.spilled.add(value, n));
            self.counted = 0;
        }
    }

    fn summary(&self) -> Summary {
        Summary::of(&self.counts, &self.spilled, self.is_exact())
    }

    /// Gives the values up for the clusters' starts.
    fn count_instead(&mut self) {
        let Rows::Kept { values, trials } = &self.rows else { return };
        let histogram = self.summary().all.histogram;
        let [sampled_ns, all_ns] = FLOORS.map(|q| histogram.value_at_rank(rank_of(q, self.count())));
        let mut counted = Box::new(Counted::new(Floors { sampled_ns, all_ns }));
        let mut places = Places::default();
        for trial in slices(values, trials) {
            counted.next_trial();
            for values in trial.chunks(ROWS) {
                if places.take(values) {
                    counted.add_places(&places);
                } else {
                    counted.add(values);
                }
            }
        }
        self.rows = Rows::Counted(counted);
    }

    /// States how many values there would be if no stamp were missing: packets received, for
    /// `delta` one fewer.
    pub fn expect(&mut self, possible: u64) {
        self.possible += possible;
    }

    /// Adds another trial's digest, or that of several; both must be complete.
    pub fn merge(&mut self, mut other: MetricDigest) {
        let kept = self.kept() + other.kept();
        if kept > self.kept_rows() {
            self.count_instead();
        }
        if matches!(other.rows, Rows::Counted(_)) {
            self.count_instead();
        } else if matches!(self.rows, Rows::Counted(_)) {
            other.count_instead();
        }
        self.counts.merge(std::mem::take(&mut other.counts));
        self.counted += other.counted;
        self.spilled.merge(&other.spilled);
        self.greatest = Greatest::of(self.greatest, other.greatest);
        self.infinite += other.infinite;
        self.possible += other.possible;
        self.spill_if_needed();
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

    /// The same of each value less the least one; `None` of several trials, of more rows than are
    /// kept in order, and without values.
    pub(crate) fn above_minimum(&self) -> Option<MetricDigest> {
        let Rows::Kept { values, trials } = &self.rows else { return None };
        let least = values.iter().copied().filter(|value| *value != INFINITE).min()?;
        if trials.len() > 1 {
            return None;
        }
        let above = |value: &i64| if *value == INFINITE { INFINITE } else { value.saturating_sub(least) };
        let above: Vec<i64> = values.iter().map(above).collect();
        let mut digest = MetricDigest::with_exact_rows(self.trial, self.exact_rows);
        digest.absorb(&above, &[]);
        digest.expect(self.possible);
        digest.greatest = self.greatest.map(|of| Greatest { ns: of.ns.saturating_sub(least), ..of });
        Some(digest)
    }

    fn kept(&self) -> usize {
        match &self.rows {
            Rows::Kept { values, .. } => values.len(),
            Rows::Counted(_) => 0,
        }
    }

    /// The distribution of the packets that arrived with both stamps.
    pub fn histogram(&self) -> Histogram {
        self.summary().all.histogram
    }

    pub fn count(&self) -> u64 {
        self.counted + self.spilled.moments.count()
    }

    /// Packets that count as +infinity: lost or not sent.
    pub fn infinite(&self) -> u64 {
        self.infinite
    }

    /// Values that there would be if no stamp were missing, less those that there are.
    pub fn holes(&self) -> u64 {
        self.possible.saturating_sub(self.count())
    }

    /// The figures. The caller says whose stamp the later one is, and why there are no values if
    /// there are none.
    pub fn finish(&self, source: &str, why: Option<String>) -> MetricResult {
        self.finish_with_histogram(source, why).0
    }

    /// The figures, and the histogram of the same values.
    pub fn finish_with_histogram(&self, source: &str, why: Option<String>) -> (MetricResult, Histogram) {
        let count = self.count();
        let summary = self.summary();
        let mut result = MetricResult {
            clock: "tai".to_owned(),
            source: source.to_owned(),
            coverage: if self.possible == 0 { 0.0 } else { count as f64 / self.possible as f64 },
            count,
            percentiles: if summary.upto.is_some() { "exact" } else { "hdr3" }.to_owned(),
            ..MetricResult::default()
        };
        if count == 0 {
            result.why = why;
        }
        if count + self.infinite == 0 {
            return (result, summary.all.histogram);
        }
        let all = named(QUANTILES.map(|(_, _, q)| self.quantile_of(&summary, q, true)));
        if self.infinite > 0 && count > 0 {
            let received = named(QUANTILES.map(|(_, _, q)| self.quantile_of(&summary, q, false))).quantiles;
            result.received_only = (received != all.quantiles).then_some(received);
        }
        result.figures = Figures {
            min_ns: summary.all.histogram.min(),
            mean_ns: summary.all.moments.mean(),
            stddev_ns: summary.all.moments.stddev(),
            max_ns: summary.all.histogram.max(),
            quantiles: all.quantiles,
        };
        (result.infinite, result.unresolved, result.between_ns) = (all.infinite, all.unresolved, all.between_ns);
        if self.infinite > 0 {
            // Without its worst packets a run must not seem better than with them.
            result.infinite.push(MAX.to_owned());
            result.received_only_max_ns = result.figures.max_ns.take();
        }
        result.max_seq = self.greatest.map(|greatest| greatest.seq);
        result.max_trial = self.greatest.map(|greatest| greatest.trial);
        result.negative = summary.all.negative;
        (result, summary.all.histogram)
    }

    /// A quantile over intended packets, or over those received only.
    pub fn quantile(&self, q: f64, with_infinite: bool) -> Quantile {
        self.quantile_of(&self.summary(), q, with_infinite)
    }

    fn quantile_of(&self, summary: &Summary, q: f64, with_infinite: bool) -> Quantile {
        let count = self.count();
        let never = if with_infinite { self.infinite } else { 0 };
        let rank = rank_of(q, count + never);
        let found = match summary.at(rank) {
            Some(at) => self.resolve(&at, rank, gap_of(q), with_infinite),
            // Packets that never arrived are all equal, and equal ones are resolved by their
            // number. An outage is not taken for one event: the longer it is, the surer is what it
            // says.
            None if count + never - rank < u64::from(NEEDED) => Quantile::Unresolved,
            None => Quantile::Infinite,
        };
        // Packets that were received without a stamp are in no rank. Were they all the fastest, or
        // all the slowest, the figure must be the same.
        let holes = self.holes();
        if holes == 0 || found == Quantile::Unresolved {
            return found;
        }
        let rank = rank_of(q, count + never + holes);
        let least = rank.checked_sub(holes).filter(|rank| *rank > 0);
        let bounds = [least, Some(rank)].map(|rank| summary.at(rank?).map(|at| at.value_ns));
        match (bounds, least) {
            ([None, None], Some(_)) => found,
            ([Some(least), Some(greatest)], _) if is_same(least, greatest) => found,
            _ => Quantile::Between(bounds),
        }
    }

    fn resolve(&self, at: &RankedValue, rank: u64, gap: usize, with_infinite: bool) -> Quantile {
        let value_ns = at.value_ns;
        match (&self.rows, at.exact) {
            (Rows::Kept { values, trials }, Some((_, below, tied))) => {
                let beyond = Beyond { value_ns, tied, tied_beyond: below + tied - rank, gap, with_infinite };
                resolved(value_ns, separate(slices(values, trials), &beyond).into())
            }
            (Rows::Counted(counted), _) => {
                let beyond = counted.beyond(value_ns, gap, with_infinite);
                resolved(value_ns, beyond.max(self.tied_clusters(counted, at, rank, gap, with_infinite)))
            }
            // Values that are kept are counted exactly too.
            (Rows::Kept { .. }, None) => Quantile::Unresolved,
        }
    }

    /// Clusters, at least, of packets that share the quantile's bucket and rank beyond it, where
    /// no places are kept. They count as evenly spaced among those of the bucket, as equal values
    /// do. So each is a cluster if the bucket holds more than `gap` times as many besides, and
    /// each packet in a higher bucket joins at most two of them. One stall that fills a bucket is
    /// one event all the same: unless most packets are in the bucket, no more count than there are
    /// clusters that reach it.
    fn tied_clusters(&self, counted: &Counted, at: &RankedValue, rank: u64, gap: usize, with_infinite: bool) -> u64 {
        let all = self.count() + if with_infinite { self.infinite } else { 0 };
        let upto = at.before + at.bucket.count;
        let beyond = upto - rank;
        if beyond == 0 || at.bucket.count / beyond <= gap as u64 {
            return 0;
        }
        let clusters = beyond.saturating_sub(all - upto);
        if at.bucket.count * 2 > all {
            return clusters;
        }
        clusters.min(counted.beyond(at.bucket.low_ns.saturating_sub(1), gap, with_infinite))
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
