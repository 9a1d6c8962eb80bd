// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets that were under way while a measuring thread worked for tardy itself, against the
//! nearest that were not.
//!
//! A packet that is slow for another reason is under way for longer and meets more intervals. So a
//! packet counts as affected if an interval lies within the time that packets of the trial usually
//! take, however long it took itself.

use super::{Difference, KEPT};
use crate::statistics::{binomial_tail, median};
use std::collections::VecDeque;
use std::sync::Arc;
use tardy_model::point::{Metric, Point};
use tardy_model::sample::{Batch, MaybeNanos, Outcome};
use tardy_model::trial::{Between, OwnReason, OwnWork, TrialRecord};

/// Unaffected packets on each side that affected ones are compared with.
const BESIDE: usize = 8;
/// The most intervals between packets that are examined; tardy itself writes no more for a trial.
const MOST_BETWEEN: usize = 1 << 20;
/// Neighbours of which fewer have a value leave a comparison out.
const LEAST_BESIDE: usize = 12;
/// Packets from which the usual time under way is taken.
const USUAL_OF: usize = 64;
/// It is updated after this many packets.
const USUAL_EVERY: usize = 32;
/// Affected packets in a row of which values are kept.
const GROUP: usize = 256;
/// By chance half of the comparisons come out above. In noise that is skewed and hangs together it
/// may be somewhat more.
const CHANCE: f64 = 0.6;

/// The result of a group of affected packets in one metric: its median, and that of the packets
/// next to it, ns.
#[derive(Clone, Copy, Debug)]
struct Comparison {
    affected_ns: i64,
    beside_ns: i64,
    /// Greater than most of its neighbours, or less.
    above: bool,
    below: bool,
}

/// One metric's comparisons, of a trial or of a cell.
#[derive(Clone, Debug, Default)]
pub struct IntervalPool {
    comparisons: u64,
    above: u64,
    below: u64,
    kept: Vec<(i64, i64)>,
    ends_ns: Option<(i64, i64)>,
}

impl IntervalPool {
    fn push(&mut self, comparison: Comparison) {
        let Comparison { affected_ns, beside_ns, above, below } = comparison;
        self.comparisons += 1;
        self.above += u64::from(above);
        self.below += u64::from(below);
        if self.kept.len() < KEPT {
            self.kept.push((affected_ns, beside_ns));
        }
    }

    fn reach(&mut self, (least, greatest): (i64, i64)) {
        let (min, max) = self.ends_ns.unwrap_or((least, greatest));
        self.ends_ns = Some((min.min(least), max.max(greatest)));
    }

    pub fn add(&mut self, other: &IntervalPool) {
        self.comparisons += other.comparisons;
        self.above += other.above;
        self.below += other.below;
        self.kept.extend(other.kept.iter().take(KEPT.saturating_sub(self.kept.len())));
        other.ends_ns.into_iter().for_each(|ends| self.reach(ends));
    }

    /// What was found for a number of affected packets; `None` if there was nothing to compare.
    pub fn test(&self, packets: u64) -> Option<Difference> {
        let (least_ns, greatest_ns) = self.ends_ns?;
        let chance = |count| binomial_tail(self.comparisons, count, CHANCE);
        let mut differences: Vec<i64> = self.kept.iter().map(|(own, beside)| own.saturating_sub(*beside)).collect();
        Some(Difference {
            p_value: (2.0 * chance(self.above).min(chance(self.below))).min(1.0),
            difference_ns: median(&mut differences)?,
            affected_ns: median(&mut self.kept.iter().map(|(own, _)| *own).collect::<Vec<_>>())?,
            others_ns: median(&mut self.kept.iter().map(|(_, beside)| *beside).collect::<Vec<_>>())?,
            packets,
            comparisons: self.comparisons,
            least_ns,
            greatest_ns,
            class: None,
            from_each: None,
        })
    }
}

/// True if the work has a cause outside tardy that may have delayed the packets by itself.
pub fn is_forced(reason: OwnReason) -> bool {
    matches!(reason, OwnReason::Behind | OwnReason::Refused)
}

/// What the measuring threads of a trial did for tardy itself. Its streams may all disturb each
/// other, so they share it.
#[derive(Debug)]
pub struct Works {
    /// Of tardy's own choice, while packets could be under way.
    own: Work,
    /// The same, where something else made it necessary.
    forced: Work,
    /// Where no packet should have been under way.
    between: Work,
}

impl Works {
    pub fn new(record: &TrialRecord) -> Self {
        let work = |forced: bool| {
            let all = record.streams.values().flat_map(|of| &of.own_work);
            let spans = all.filter(|work| is_forced(work.reason) == forced).filter(|work| work.start_ns <= work.end_ns);
            Work::new(spans.map(|work: &OwnWork| (work.start_ns, work.end_ns)).collect())
        };
        let between =
            record.streams.values().flat_map(|of| &of.own_between).flat_map(Between::intervals).take(MOST_BETWEEN);
        Works { own: work(false), forced: work(true), between: Work::new(between.collect()) }
    }

    fn is_empty(&self) -> bool {
        [&self.own, &self.forced, &self.between].into_iter().all(|work| work.spans.is_empty())
    }
}

/// Work of one kind, in the order of its beginning.
#[derive(Debug)]
struct Work {
    /// Beginning, end, and the latest end up to here.
    spans: Vec<(i64, i64, i64)>,
}

impl Work {
    fn new(mut spans: Vec<(i64, i64)>) -> Self {
        spans.sort_unstable();
        let mut latest = i64::MIN;
        let with_latest = |(start, end): (i64, i64)| {
            latest = latest.max(end);
            (start, end, latest)
        };
        Work { spans: spans.into_iter().map(with_latest).collect() }
    }

    fn meets(&self, from: i64, to: i64) -> bool {
        let begun = self.spans.partition_point(|(start, ..)| *start <= to);
        begun.checked_sub(1).is_some_and(|last| self.spans[last].2 >= from)
    }
}

/// A group of affected packets that waits for those behind it. One value for each metric.
#[derive(Debug)]
struct Open {
    forced: bool,
    before: Vec<Vec<MaybeNanos>>,
    group: Vec<Vec<MaybeNanos>>,
    behind: Vec<Vec<MaybeNanos>>,
}

/// One trial's comparisons of one stream.
#[derive(Debug)]
pub struct Pass {
    works: Arc<Works>,
    metrics: Vec<Metric>,
    closed_loop: bool,
    recent: VecDeque<i64>,
    since: usize,
    usual_ns: Option<i64>,
    before: VecDeque<Vec<MaybeNanos>>,
    open: Option<Open>,
    found: Intervals,
}

/// The results of a trial's packets, or a cell's, that were under way during recorded work.
#[derive(Clone, Debug, Default)]
pub struct Intervals {
    /// By metric: during work that tardy chose to do, and during work that something else made
    /// necessary.
    pub metrics: Vec<[IntervalPool; 2]>,
    /// Packets under way at work of either kind.
    pub affected: [u64; 2],
}

impl Intervals {
    pub fn add(&mut self, other: &Intervals) {
        self.metrics.resize_with(self.metrics.len().max(other.metrics.len()), Default::default);
        for (all, one) in self.metrics.iter_mut().zip(&other.metrics) {
            all.iter_mut().zip(one).for_each(|(all, one)| all.add(one));
        }
        self.affected.iter_mut().zip(other.affected).for_each(|(all, one)| *all += one);
    }
}

impl Pass {
    /// For a stream of a trial; `None` if there was no such work.
    pub fn new(works: &Arc<Works>, metrics: &[Metric], closed_loop: bool) -> Option<Pass> {
        if works.is_empty() {
            return None;
        }
        Some(Pass {
            works: Arc::clone(works),
            metrics: metrics.to_vec(),
            closed_loop,
            recent: VecDeque::new(),
            since: 0,
            usual_ns: None,
            before: VecDeque::new(),
            open: None,
            found: Intervals { metrics: vec![Default::default(); metrics.len()], affected: [0; 2] },
        })
    }

    /// Adds the next rows.
    pub fn push(&mut self, batch: &Batch) {
        (0..batch.len()).filter(|row| batch.outcome[*row] == Outcome::Received).for_each(|row| self.row(batch, row));
    }

    fn row(&mut self, batch: &Batch, row: usize) {
        let Some((from, to)) = way(batch, row, self.closed_loop) else { return };
        self.recent.push_back(to.wrapping_sub(from));
        if self.recent.len() > USUAL_OF {
            self.recent.pop_front();
        }
        self.since += 1;
        if self.since == USUAL_EVERY {
            self.since = 0;
            self.usual_ns = median(&mut self.recent.iter().copied().collect::<Vec<_>>());
        }
        let Some(usual_ns) = self.usual_ns else { return };
        let until = from.saturating_add(usual_ns.max(0));
        let values = || self.metrics.iter().map(|metric| value(batch, row, *metric)).collect::<Vec<_>>();
        // What also meets work that had a cause outside is not to be laid on tardy. Stamps are
        // fetched in the middle of a cycle, counted from when the thread woke: what reaches into
        // the next packet's time began late, mostly for a cause outside, which may have delayed
        // the packet too. A packet that takes longer than half a cycle meets them as all others
        // do, and the later its thread woke the less it does: that is no comparison.
        let forced = self.works.forced.meets(from, until) || self.works.between.meets(from, from);
        if !forced && !self.works.own.meets(from, until) {
            let values = values();
            if let Some(open) = &mut self.open {
                open.behind.push(values);
                if open.behind.len() == BESIDE {
                    self.close();
                }
            } else {
                self.before.push_back(values);
                if self.before.len() > BESIDE {
                    self.before.pop_front();
                }
            }
            return;
        }
        self.found.affected[usize::from(forced)] += 1;
        let values = values();
        for (pools, value) in self.found.metrics.iter_mut().zip(&values) {
            value.get().into_iter().for_each(|ns| pools[usize::from(forced)].reach((ns, ns)));
        }
        match &mut self.open {
            Some(open) if open.behind.is_empty() => {
                open.forced |= forced;
                if open.group.len() < GROUP {
                    open.group.push(values);
                }
            }
            // Each packet is a neighbour once, or comparisons would not be independent.
            None if self.before.len() == BESIDE => {
                let before = self.before.drain(..).collect();
                self.open = Some(Open { forced, before, group: vec![values], behind: Vec::new() });
            }
            _ => {}
        }
    }

    fn close(&mut self) {
        let Some(open) = self.open.take() else { return };
        for (at, pools) in self.found.metrics.iter_mut().enumerate() {
            let of = |rows: &[Vec<MaybeNanos>]| rows.iter().filter_map(|row| row.get(at)?.get()).collect::<Vec<_>>();
            let (mut own, mut beside) = (of(&open.group), of(&open.before));
            beside.extend(of(&open.behind));
            if beside.len() < LEAST_BESIDE {
                continue;
            }
            let (Some(affected_ns), Some(beside_ns)) = (median(&mut own), median(&mut beside)) else { continue };
            let less = beside.iter().filter(|ns| **ns < affected_ns).count();
            let more = beside.iter().filter(|ns| **ns > affected_ns).count();
            let (above, below) = (less * 2 > beside.len(), more * 2 > beside.len());
            pools[usize::from(open.forced)].push(Comparison { affected_ns, beside_ns, above, below });
        }
    }

    /// What was found. A group at the end that has too few packets behind it is left out.
    pub fn finish(self) -> Intervals {
        self.found
    }
}

/// A metric's value in a row.
pub fn value(batch: &Batch, row: usize, metric: Metric) -> MaybeNanos {
    let span = |from, to| Some(batch.offset(row, to)?.wrapping_sub(batch.offset(row, from)?));
    let value = match metric {
        Metric::Span(from, to) => span(from, to),
        Metric::Transit => span(Point::Send, Point::ReplyReceive)
            .zip(span(Point::Receive, Point::ReplySend))
            .map(|(all, there): (i64, i64)| all.wrapping_sub(there)),
        Metric::Delta => None,
    };
    MaybeNanos::from(value)
}

/// From when to when a packet was under way, TAI ns: from its scheduled instant, or in a closed
/// loop from its send, to its last stamp.
fn way(batch: &Batch, row: usize, closed_loop: bool) -> Option<(i64, i64)> {
    let sent = batch.offset(row, Point::Send);
    let from = if closed_loop { sent.unwrap_or(0) } else { sent.unwrap_or(0).min(0) };
    let to = Point::ALL.iter().rev().find_map(|point| batch.offset(row, *point))?;
    Some((batch.scheduled_ns[row].wrapping_add(from), batch.scheduled_ns[row].wrapping_add(to)))
}
