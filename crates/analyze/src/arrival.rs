// SPDX-License-Identifier: MIT OR Apache-2.0
//! `delta`: the stamp of a packet minus that of the packet received before it, in arrival order.
//!
//! Rows come in scheduled order; arrivals may not. Arrivals wait until no later row can come before them: a packet cannot
//! arrive long before it is scheduled, so what was stamped [`EARLIEST_NS`] before the newest row's scheduled instant is
//! settled. Where that fails (a clock was set back), the trial is sorted as a whole, up to [`KEPT_ROWS`] rows.

use crate::clusters::INFINITE;
use crate::digest::MetricDigest;
use std::collections::VecDeque;
use tardy_model::point::Point;
use tardy_model::sample::{Batch, Outcome};

/// No packet arrives so long before its scheduled instant, ns: a hundred times the longest advance in use.
pub const EARLIEST_NS: i64 = 100_000_000;

/// Rows of a trial that are kept for sorting it as a whole. Above it, a packet that comes before those already settled has no
/// `delta`, and the coverage says so.
pub const KEPT_ROWS: usize = 10_000_000;

/// The order of arrival: by stamp, then by receive, then by number.
type Key = (i64, i64, i64);

/// What became of a row.
#[derive(Clone, Copy, Debug)]
enum Row {
    /// It never arrived.
    Never,
    /// It arrived, stamped or not, at this place in the order. One without the stamp stands right behind the stamped packet
    /// that was scheduled before it: what came next has no `delta` either, for its predecessor's stamp is not known.
    Arrived { key: Key, stamped: bool },
}

/// An arrival that is not settled yet.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    key: Key,
    stamped: bool,
    /// Number of its row since the trial's start.
    row: u64,
}

/// A row that waits for its value, or for those before it.
#[derive(Clone, Copy, Debug)]
struct Slot {
    seq: i64,
    value: Value,
}

#[derive(Clone, Copy, Debug)]
enum Value {
    Open,
    None,
    Some(i64),
}

/// Computes `delta` of one stream in one trial.
#[derive(Debug)]
pub struct ArrivalPass {
    point: Point,
    trial: u32,
    digest: MetricDigest,
    received: u64,
    /// Place in the order of the last stamped row, for those without a stamp.
    place: (i64, i64),
    waiting: Vec<Waiting>,
    slots: VecDeque<Slot>,
    /// Number of the first slot's row.
    first: u64,
    /// The last settled arrival.
    last: Option<(Key, bool)>,
    /// All rows, for sorting; `None` above the limit.
    kept: Option<Vec<(i64, Row)>>,
    keep_rows: usize,
    exceeded: bool,
    values: Vec<i64>,
    seqs: Vec<i64>,
}

impl ArrivalPass {
    /// For one trial, by the stamps of `point`.
    pub fn new(trial: u32, point: Point) -> Self {
        Self::with_kept_rows(trial, point, KEPT_ROWS)
    }

    /// As [`ArrivalPass::new`], keeping at most `keep_rows` rows for sorting.
    pub fn with_kept_rows(trial: u32, point: Point, keep_rows: usize) -> Self {
        ArrivalPass {
            point,
            trial,
            digest: MetricDigest::new(trial),
            received: 0,
            place: (i64::MIN, i64::MIN),
            waiting: Vec::new(),
            slots: VecDeque::new(),
            first: 0,
            last: None,
            kept: Some(Vec::new()),
            keep_rows,
            exceeded: false,
            values: Vec::new(),
            seqs: Vec::new(),
        }
    }

    /// Adds the next rows.
    pub fn push(&mut self, batch: &Batch) {
        for row in 0..batch.len() {
            let fate = self.fate(batch, row);
            if let Some(kept) = &mut self.kept {
                kept.push((batch.seq[row], fate));
            }
            let value = match fate {
                Row::Never => Value::Some(INFINITE),
                Row::Arrived { key, stamped } => {
                    let row = self.first + self.slots.len() as u64;
                    self.waiting.push(Waiting { key, stamped, row });
                    Value::Open
                }
            };
            self.slots.push_back(Slot { seq: batch.seq[row], value });
        }
        if self.kept.as_ref().is_some_and(|kept| kept.len() > self.keep_rows) {
            self.kept = None;
        }
        if let Some(newest) = batch.scheduled_ns.last() {
            self.settle(newest.saturating_sub(EARLIEST_NS));
        }
    }

    #[inline]
    fn fate(&mut self, batch: &Batch, row: usize) -> Row {
        if batch.outcome[row] != Outcome::Received {
            return Row::Never;
        }
        self.received += 1;
        let seq = batch.seq[row];
        match batch.stamp_ns(row, self.point) {
            Some(stamp) => {
                let receive = batch.stamp_ns(row, Point::Receive).unwrap_or(i64::MAX);
                self.place = (stamp, receive);
                Row::Arrived { key: (stamp, receive, seq), stamped: true }
            }
            None => Row::Arrived { key: (self.place.0, self.place.1, seq), stamped: false },
        }
    }

    /// Gives all arrivals stamped before `horizon` their values.
    fn settle(&mut self, horizon: i64) {
        if !self.waiting.is_sorted_by_key(|waiting| waiting.key) {
            self.waiting.sort_unstable_by_key(|waiting| waiting.key);
        }
        let settled = self.waiting.partition_point(|waiting| waiting.key.0 < horizon);
        for waiting in self.waiting.drain(..settled) {
            let value = match self.last {
                Some((last, _)) if last > waiting.key => {
                    self.exceeded = true;
                    Value::None
                }
                before => {
                    self.last = Some((waiting.key, waiting.stamped));
                    delta(before, (waiting.key, waiting.stamped))
                }
            };
            if let Some(slot) = self.slots.get_mut((waiting.row - self.first) as usize) {
                slot.value = value;
            }
        }
        while let Some(slot) = self.slots.front() {
            match slot.value {
                Value::Open => break,
                Value::None => {}
                Value::Some(value) => {
                    self.values.push(value);
                    self.seqs.push(slot.seq);
                }
            }
            self.slots.pop_front();
            self.first += 1;
        }
        self.digest.absorb(&self.values, &self.seqs);
        self.values.clear();
        self.seqs.clear();
    }

    /// The digest of the whole trial.
    pub fn finish(mut self) -> MetricDigest {
        self.settle(i64::MAX);
        if self.exceeded
            && let Some(rows) = self.kept.take()
        {
            self.digest = sorted(self.trial, &rows);
        }
        self.digest.expect(self.received.saturating_sub(1));
        self.digest
    }
}

/// The value of an arrival after another; none where either has no stamp.
#[inline]
fn delta(before: Option<(Key, bool)>, now: (Key, bool)) -> Value {
    match (before, now) {
        (Some(((before, ..), true)), ((now, ..), true)) => Value::Some(now.saturating_sub(before).min(INFINITE - 1)),
        _ => Value::None,
    }
}

/// The digest of a trial sorted as a whole.
fn sorted(trial: u32, rows: &[(i64, Row)]) -> MetricDigest {
    let mut order: Vec<(Key, bool, usize)> = rows
        .iter()
        .enumerate()
        .filter_map(|(at, (_, row))| match row {
            Row::Never => None,
            Row::Arrived { key, stamped } => Some((*key, *stamped, at)),
        })
        .collect();
    order.sort_unstable();
    let mut values: Vec<Option<i64>> =
        rows.iter().map(|(_, row)| matches!(row, Row::Never).then_some(INFINITE)).collect();
    let mut before = None;
    for (key, stamped, at) in order {
        if let Value::Some(value) = delta(before, (key, stamped)) {
            values[at] = Some(value);
        }
        before = Some((key, stamped));
    }
    let (values, seqs): (Vec<i64>, Vec<i64>) =
        values.iter().zip(rows).filter_map(|(value, (seq, _))| value.map(|value| (value, *seq))).unzip();
    let mut digest = MetricDigest::new(trial);
    digest.absorb(&values, &seqs);
    digest
}
