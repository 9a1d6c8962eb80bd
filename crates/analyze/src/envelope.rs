// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a picture needs of a trial and a table does not: each metric over time as an envelope, the
//! shape of each stage, where packets were lost. Bounded, however many packets there are, and a
//! function of the rows alone.
//!
//! A [`EnvelopePass`] takes one stream's rows of one trial, in the order of `seq`, and gives a
//! [`Trace`]. The rows of a copy are numbered over its threads in turn, whenever each of them ran:
//! it takes those by the instants at which their passes began.

mod shape;

use crate::arrival::EARLIEST_NS;
use crate::copying::CopyPass;
use crate::copying::timeline::{CopyTimeline, TimelinePass};
pub use shape::{ALL_SPOTS, Grid, MOST_COLUMNS, MOST_ROWS, columns_each};
pub use shape::{Shape, bins};
use std::collections::BTreeMap;
use tardy_model::histogram::Histogram;
use tardy_model::point::{Metric, Point};
use tardy_model::sample::{Batch, Outcome};
use tardy_model::trial::{StreamRecord, TrialRecord};

/// Most buckets of one metric in one trial: more than a wide window has columns for.
pub const MOST_BUCKETS: usize = 400;

/// The most buckets that all metrics in all trials of a run have together, while there are no more
/// metrics and trials than that.
pub const ALL_BUCKETS: usize = 30_000;

/// How many buckets each of `traces` metrics in trials may have, so that the whole run stays
/// within [`ALL_BUCKETS`].
pub fn buckets_each(traces: usize) -> usize {
    (ALL_BUCKETS / traces.max(1)).clamp(1, MOST_BUCKETS)
}

/// Some packets in a row: least, median and greatest value, and which packet the greatest is of.
/// Of equals, the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    pub min_ns: i64,
    /// Median, nearest rank, ns.
    pub p50_ns: i64,
    pub max_ns: i64,
    /// The packet of the greatest.
    pub max_seq: i64,
}

/// One metric of one trial.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// In order of time, of a copy too; `None` where nothing has a value. As many as packets were
    /// reached.
    pub buckets: Vec<Option<Bucket>>,
    /// All values that were received.
    pub shape: Shape,
    /// The same values by time and magnitude.
    pub grid: Grid,
}

impl Line {
    /// The greatest values, each from a bucket of its own, so that one stall of many packets is
    /// one; the greatest first.
    pub fn outliers(&self, most: usize) -> Vec<Bucket> {
        let mut found: Vec<Bucket> = self.buckets.iter().flatten().copied().collect();
        found.sort_by_key(|bucket| (std::cmp::Reverse(bucket.max_ns), bucket.max_seq));
        found.truncate(most);
        found
    }
}

/// One stream of one trial.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    pub cell: String,
    /// Number of the trial in the cell.
    pub n: u32,
    pub stream: String,
    /// Between two scheduled instants, ns.
    pub cycle_ns: i64,
    /// Packets in a bucket; the last one may have fewer.
    pub packets_each: u64,
    pub packets: u64,
    /// Where each bucket begins: when its first packet was due, after the trial's base time, ns;
    /// never descending.
    pub starts_ns: Vec<i64>,
    /// Where the last bucket ends.
    pub end_ns: i64,
    pub metrics: BTreeMap<Metric, Line>,
    /// From each point that was stamped to the next one, in causal order.
    pub stages: Vec<(Metric, Shape)>,
    /// By how much a stage from one end to the other may be wrong, ns; 0 where the clocks of one
    /// host took its stamps.
    pub clock_bound_ns: i64,
    /// Buckets in which packets never arrived, and how many.
    pub missing: Vec<(u32, u64)>,
    /// Of a copy, what each thread did when.
    pub copy: Option<CopyTimeline>,
}

/// The stages between neighbouring points that somebody stamped. Without a schedule a packet is
/// due when it is sent, and no stage lies before that.
pub fn stages(record: &StreamRecord) -> Vec<Metric> {
    let there = |point: &Point| match point {
        Point::Scheduled => record.cycle_ns > 0,
        point => record.sources.contains_key(point),
    };
    let points: Vec<Point> = Point::ALL.into_iter().filter(there).collect();
    points.windows(2).map(|pair| Metric::Span(pair[0], pair[1])).collect()
}

/// How finely a pass looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grain {
    /// Most buckets of a metric.
    pub buckets: usize,
    /// Most columns of its grid.
    pub columns: usize,
}

impl Grain {
    /// For a run with `lines` metrics over all streams and trials, of which one plot shows `trials`
    /// trials.
    pub fn of(lines: usize, trials: usize) -> Self {
        Grain { buckets: buckets_each(lines), columns: columns_each(lines, trials) }
    }
}

/// The first columns of a stream that has no schedule to tell how long it will take, ns.
const SHORTEST_COLUMN_NS: i64 = 1_000;

/// A metric that is being followed.
#[derive(Debug)]
struct Follow {
    buckets: Vec<Option<Bucket>>,
    /// Values of the bucket that is open.
    open: Vec<i64>,
    open_at: usize,
    greatest: (i64, i64),
    histogram: Histogram,
    grid: Grid,
    sum: i128,
}

impl Follow {
    fn new(grid: Grid) -> Self {
        Follow {
            buckets: Vec::new(),
            open: Vec::new(),
            open_at: 0,
            greatest: (i64::MIN, 0),
            histogram: Histogram::new(),
            grid,
            sum: 0,
        }
    }

    fn add(&mut self, at: usize, at_ns: i64, seq: i64, value: i64) {
        if at > self.open_at {
            self.close();
            self.open_at = at;
        }
        if value > self.greatest.0 || self.open.is_empty() {
            self.greatest = (value, seq);
        }
        self.open.push(value);
        self.histogram.record(value);
        self.grid.add(at_ns, value);
        self.sum += i128::from(value);
    }

    fn close(&mut self) {
        if self.open.is_empty() {
            return;
        }
        let middle = (self.open.len() - 1) / 2;
        let min_ns = self.open.iter().copied().min().unwrap_or(0);
        let p50_ns = *self.open.select_nth_unstable(middle).1;
        self.buckets.resize(self.open_at, None);
        self.buckets.push(Some(Bucket { min_ns, p50_ns, max_ns: self.greatest.0, max_seq: self.greatest.1 }));
        self.open.clear();
    }

    fn finish(mut self, buckets: usize) -> Line {
        self.close();
        self.buckets.resize(buckets, None);
        Line { buckets: self.buckets, shape: Shape::of(&self.histogram, self.sum), grid: self.grid }
    }
}

/// The bucket of a packet.
fn bucket_of(seq: i64, each: u64, last: usize) -> usize {
    ((u64::try_from(seq).unwrap_or(0) / each) as usize).min(last)
}

/// A trial's stream whose rows are being added.
#[derive(Debug)]
pub struct EnvelopePass {
    trace: Trace,
    base_ns: i64,
    /// The last bucket there may be: a trial with more packets than were intended has them there.
    last_bucket: usize,
    /// When the newest packet was due, after the base time.
    newest_ns: i64,
    follow: Vec<(Metric, Follow)>,
    stages: Vec<(Metric, Histogram, i128)>,
    delta: Option<(DeltaPass, Follow)>,
    copy: Option<(TimelinePass, CopyPass)>,
}

impl EnvelopePass {
    /// For one stream of a trial; `grain` sets the resolution of each of `metrics`.
    pub fn new(record: &TrialRecord, stream: &str, metrics: &[Metric], grain: Grain) -> Option<Self> {
        let of = record.streams.get(stream)?;
        let packets_each = u64::from(of.intended).div_ceil(grain.buckets.max(1) as u64).max(1);
        let whole_ns = i64::from(of.intended).saturating_mul(of.cycle_ns);
        let column_ns = whole_ns / grain.columns.max(1) as i64 + 1;
        let follow = || Follow::new(Grid::new(grain.columns, column_ns.max(SHORTEST_COLUMN_NS)));
        let spans = metrics.iter().filter(|metric| **metric != Metric::Delta);
        let bounds = stages(of).into_iter().filter_map(|stage| of.clock_bound_ns(stage));
        Some(EnvelopePass {
            trace: Trace {
                cell: record.cell.clone(),
                n: record.n,
                stream: stream.to_owned(),
                cycle_ns: of.cycle_ns,
                packets_each,
                clock_bound_ns: bounds.max().unwrap_or(0),
                ..Trace::default()
            },
            base_ns: record.base_tai_ns,
            last_bucket: grain.buckets.max(1) - 1,
            newest_ns: 0,
            follow: spans.map(|metric| (*metric, follow())).collect(),
            stages: stages(of).into_iter().map(|stage| (stage, Histogram::new(), 0)).collect(),
            delta: metrics.contains(&Metric::Delta).then(|| (DeltaPass::new(crate::arrival::delta_of(of)), follow())),
            copy: of.copy.as_ref().map(|copy| (TimelinePass::new(copy, record.base_tai_ns), CopyPass::new(copy))),
        })
    }

    /// Adds the next rows.
    pub fn push(&mut self, batch: &Batch) {
        if let Some((timeline, passes)) = &mut self.copy {
            timeline.push(batch);
            passes.push(batch);
            return;
        }
        self.add(batch, |row| batch.seq[row]);
    }

    /// Adds rows; `place_of` gives each one's place in the order of time.
    fn add(&mut self, batch: &Batch, place_of: impl Fn(usize) -> i64) {
        let (each, last) = (self.trace.packets_each, self.last_bucket);
        let bucket_of = |seq: i64| bucket_of(seq, each, last);
        for (row, outcome) in batch.outcome.iter().enumerate() {
            let seq = batch.seq[row];
            let at = bucket_of(place_of(row));
            // What was never due, of a ping-pong that was cut short, is where it would have
            // come.
            self.newest_ns = self.newest_ns.max(batch.scheduled_ns[row].saturating_sub(self.base_ns));
            if self.trace.starts_ns.len() <= at {
                self.trace.starts_ns.resize(at + 1, self.newest_ns);
            }
            if *outcome != Outcome::Received {
                match self.trace.missing.last_mut() {
                    Some((last, count)) if *last as usize == at => *count += 1,
                    _ => self.trace.missing.push((at as u32, 1)),
                }
                continue;
            }
            for (metric, follow) in &mut self.follow {
                if let Some(value) = batch.span_ns(row, *metric) {
                    follow.add(at, self.newest_ns, seq, value);
                }
            }
            for (stage, histogram, sum) in &mut self.stages {
                if let Some(value) = batch.span_ns(row, *stage) {
                    histogram.record(value);
                    *sum += i128::from(value);
                }
            }
        }
        if let Some((delta, follow)) = &mut self.delta {
            // In order of arrival: one that was overtaken is where it came.
            let base_ns = self.base_ns;
            delta.push(batch, |seq, came_ns, value| {
                follow.add(bucket_of(seq).max(follow.open_at), came_ns.saturating_sub(base_ns), seq, value);
            });
        }
        self.trace.packets += batch.len() as u64;
    }

    pub fn finish(mut self) -> Trace {
        if let Some((timeline, passes)) = self.copy.take() {
            for batch in passes.in_time() {
                let before = i64::try_from(self.trace.packets).unwrap_or(i64::MAX);
                self.add(&batch, |row| before.saturating_add(row as i64));
            }
            self.trace.copy = Some(timeline.finish());
        }
        let each = self.trace.packets_each;
        let last = self.last_bucket;
        let buckets = (self.trace.packets.div_ceil(each) as usize).min(last + 1).max(self.trace.starts_ns.len());
        // The last packet takes as long as there is between two: what is scheduled, or the mean.
        let gaps = i64::try_from(self.trace.packets.saturating_sub(1)).unwrap_or(i64::MAX).max(1);
        let step_ns = if self.trace.cycle_ns > 0 { self.trace.cycle_ns } else { (self.newest_ns / gaps).max(1) };
        self.trace.end_ns = if self.trace.packets > 0 { self.newest_ns.saturating_add(step_ns) } else { 0 };
        if let Some((delta, mut follow)) = self.delta.take() {
            delta.finish(|seq, came_ns, value| {
                let at = bucket_of(seq, each, last).max(follow.open_at);
                // What comes after the last was due belongs to it: there is no time behind it.
                follow.add(at, came_ns.saturating_sub(self.base_ns).min(self.newest_ns), seq, value);
            });
            self.follow.push((Metric::Delta, follow));
        }
        self.trace.metrics = self.follow.into_iter().map(|(metric, follow)| (metric, follow.finish(buckets))).collect();
        let shape = |(stage, histogram, sum): (Metric, Histogram, i128)| (stage, Shape::of(&histogram, sum));
        self.trace.stages = self.stages.into_iter().map(shape).filter(|(_, shape)| shape.count > 0).collect();
        self.trace
    }
}

/// Arrivals are settled when this many are waiting.
const SETTLED_AT: usize = 8192;

/// Stamp, then receive, then number: the order of arrival; and whether there is a stamp.
type Arrival = (i64, i64, i64, bool);

/// One stream's arrivals of one trial.
#[derive(Debug)]
struct DeltaPass {
    point: Point,
    waiting: Vec<Arrival>,
    last: Option<Arrival>,
    /// Where one without a stamp is: after the stamped packet before it.
    place: (i64, i64),
    newest: i64,
    settle_at: usize,
}

impl DeltaPass {
    pub(super) fn new(point: Point) -> Self {
        let place = (i64::MIN, i64::MIN);
        DeltaPass { point, waiting: Vec::new(), last: None, place, newest: i64::MIN, settle_at: SETTLED_AT }
    }

    /// Adds rows; `tell` gets the number, the stamp and the value of each packet that is settled.
    pub(super) fn push(&mut self, batch: &Batch, mut tell: impl FnMut(i64, i64, i64)) {
        let point = self.point;
        for row in (0..batch.len()).filter(|row| batch.has_arrived(*row, point)) {
            let stamp = batch.stamp_ns(row, point);
            if let Some(stamp) = stamp {
                self.place = (stamp, batch.stamp_ns(row, Point::Receive).unwrap_or(i64::MAX));
            }
            self.waiting.push((self.place.0, self.place.1, batch.seq[row], stamp.is_some()));
            self.newest = batch.scheduled_ns[row];
            if self.waiting.len() >= self.settle_at {
                self.settle(self.newest.saturating_sub(EARLIEST_NS), &mut tell);
                self.settle_at = SETTLED_AT.max(2 * self.waiting.len());
            }
        }
    }

    /// Settles what is left.
    pub(super) fn finish(mut self, mut tell: impl FnMut(i64, i64, i64)) {
        self.settle(i64::MAX, &mut tell);
    }

    fn settle(&mut self, horizon: i64, tell: &mut impl FnMut(i64, i64, i64)) {
        self.waiting.sort_unstable();
        let settled = self.waiting.partition_point(|arrival| arrival.0 < horizon);
        for arrival in self.waiting.drain(..settled) {
            match self.last {
                Some(last) if last > arrival => continue,
                Some((before, _, _, true)) if arrival.3 => tell(arrival.2, arrival.0, arrival.0.wrapping_sub(before)),
                _ => {}
            }
            self.last = Some(arrival);
        }
    }
}
