// SPDX-License-Identifier: MIT OR Apache-2.0
//! `delta`: the stamp of a packet minus that of the packet received before it, in arrival order.
//!
//! Of an answered stream the packets are the requests: a reply that is lost takes nothing from the
//! interval between two of them.
//!
//! Rows come in scheduled order; arrivals may not. Arrivals wait until no later row can come
//! before them: a packet cannot arrive long before it is scheduled, so what was stamped
//! [`EARLIEST_NS`] before the newest row's scheduled instant is settled. Where that fails (a clock
//! was set back), the trial is sorted as a whole, up to [`KEPT_ROWS`] rows.

use crate::chunk::{Chunk, ROWS};
use crate::clusters::INFINITE;
use crate::digest::MetricDigest;
use crate::repeats::{BlockPass, Blocks};
use std::collections::VecDeque;
use tardy_model::point::Point;
use tardy_model::sample::{Batch, MaybeNanos};
use tardy_model::trial::StreamRecord;

/// No packet arrives so long before its scheduled instant, ns: far longer than any advance in use.
pub const EARLIEST_NS: i64 = 100_000_000;

/// Rows of a trial that are kept for sorting it as a whole. Above it, a packet that comes before
/// those already settled has no `delta`, and the coverage says so.
pub const KEPT_ROWS: usize = 1_000_000;

/// Arrivals are settled when this many are waiting, or twice as many as still had to wait after the
/// last time.
const SETTLED_AT: usize = 4096;

/// The order of arrival: by stamp, then by receive, then by number. Receive is kept as its
/// distance from the stamp.
type Key = (i64, i32, i64);

/// An arrival and whether it has its stamp. One without comes right after the stamped packet
/// that was scheduled before it: what came next has no `delta` either, for its predecessor's stamp
/// is not known.
type Arrival = (Key, bool);

/// The stamp of a kept row that never arrived, and of one that arrived without it.
const NEVER: i64 = i64::MAX;
const UNSTAMPED: i64 = i64::MIN;

/// What waits for its value, or for the rows before it to have theirs.
#[derive(Clone, Copy, Debug)]
struct Slot {
    seq: i64,
    value: Value,
}

#[derive(Clone, Copy, Debug)]
enum Value {
    /// It waits at this place.
    Open(Arrival),
    None,
    Some(i64),
}

/// Rows of a trial, all received, stamped and in order: the usual case, worked on in columns.
#[derive(Debug, Default)]
struct InOrder {
    seqs: Vec<i64>,
    stamps: Vec<i64>,
    waits: Vec<i32>,
}

/// Rows of a trial in scheduled order, kept for sorting.
#[derive(Debug, Default)]
struct Kept {
    seqs: Vec<i64>,
    stamps: Vec<i64>,
    waits: Vec<i32>,
}

/// From this many rows on, memory is allocated for all that may be kept.
const MANY: usize = 1 << 16;

impl Kept {
    /// What is made room for at once need not be moved again and again.
    fn make_room(&mut self, more: usize, most: usize) {
        let rows = self.seqs.len();
        if rows + more > self.seqs.capacity().max(MANY) {
            let left = (most + more).saturating_sub(rows);
            self.seqs.reserve_exact(left);
            self.stamps.reserve_exact(left);
            self.waits.reserve_exact(left);
        }
    }
}

/// Computes `delta` of one stream in one trial.
#[derive(Debug)]
pub struct ArrivalPass {
    point: Point,
    trial: u32,
    digest: MetricDigest,
    arrived: u64,
    /// Place in the order of the last stamped row, for those without a stamp.
    place: (i64, i32),
    in_order: InOrder,
    /// Rows where something is not in order; while there are any, `in_order` is empty.
    mixed: VecDeque<Slot>,
    /// The last settled arrival.
    last: Option<Arrival>,
    settle_at: usize,
    settle_rows: usize,
    /// `None` above the limit.
    kept: Option<Kept>,
    /// Blocks of its values and the packets intended, if it is the metric that leads.
    blocks: Option<BlockPass>,
    intended: Option<u64>,
    keep_rows: usize,
    exceeded: bool,
    values: Vec<i64>,
    seqs: Vec<i64>,
}

impl ArrivalPass {
    /// For one trial, by the stamps of `point`.
    pub fn new(trial: u32, point: Point) -> Self {
        Self::with_limits(trial, point, SETTLED_AT, KEPT_ROWS)
    }

    /// As [`ArrivalPass::new`], settling whenever `settle_rows` wait and keeping at most
    /// `keep_rows` rows for sorting.
    pub fn with_limits(trial: u32, point: Point, settle_rows: usize, keep_rows: usize) -> Self {
        ArrivalPass {
            point,
            trial,
            digest: MetricDigest::new(trial),
            arrived: 0,
            place: (i64::MIN, i32::MIN),
            in_order: InOrder::default(),
            mixed: VecDeque::new(),
            last: None,
            settle_at: settle_rows,
            settle_rows,
            kept: Some(Kept::default()),
            blocks: None,
            intended: None,
            keep_rows,
            exceeded: false,
            values: Vec::new(),
            seqs: Vec::new(),
        }
    }

    /// Also cuts the values into blocks, for a trial of `intended` packets, if that is given.
    pub(crate) fn with_blocks(mut self, intended: Option<u64>) -> Self {
        self.intended = intended;
        self.blocks = intended.map(BlockPass::new);
        self
    }

    /// Adds the next rows; they come in the order of `seq`.
    pub fn push(&mut self, batch: &Batch) {
        Chunk::of(batch).for_each(|chunk| self.push_chunk(&chunk));
    }

    pub(crate) fn push_chunk(&mut self, chunk: &Chunk<'_>) {
        if !self.push_in_order(chunk) {
            self.mix();
            (0..chunk.len()).for_each(|row| self.push_row(chunk, row));
        }
        if self.kept.as_ref().is_some_and(|kept| kept.seqs.len() > self.keep_rows) {
            self.kept = None;
        }
        if self.in_order.seqs.len() + self.mixed.len() >= self.settle_at
            && let Some(newest) = chunk.scheduled_ns.last()
        {
            self.settle(newest.saturating_sub(EARLIEST_NS));
            self.settle_at = self.settle_rows.max(2 * (self.in_order.seqs.len() + self.mixed.len()));
        }
    }

    /// Takes a chunk in columns if all of it, and all before it, is in order.
    fn push_in_order(&mut self, chunk: &Chunk<'_>) -> bool {
        let Some(offsets) = chunk.whole_column(self.point).filter(|_| self.mixed.is_empty()) else { return false };
        let rows = &mut self.in_order;
        let start = rows.stamps.len();
        let after = rows.stamps.last().copied().or(self.last.map(|((stamp, ..), _)| stamp)).unwrap_or(i64::MIN);
        let stamps = chunk.scheduled_ns.iter().zip(offsets).map(|(at, offset)| at.wrapping_add(offset.or_lowest()));
        rows.stamps.extend(stamps);
        let new = &rows.stamps[start..];
        if !is_rising(new) || new.first().is_none_or(|first| *first <= after) {
            rows.stamps.truncate(start);
            return false;
        }
        match chunk.whole_column(Point::Receive) {
            Some(receive) => add_waits(offsets, receive, &mut rows.waits),
            None => {
                let receive = (0..chunk.len()).map(|row| chunk.offset(row, Point::Receive));
                rows.waits.extend(offsets.iter().zip(receive).map(|(o, r)| wait(o.or_lowest(), r)));
            }
        }
        rows.seqs.extend_from_slice(chunk.seq);
        self.arrived += chunk.len() as u64;
        if let (Some(stamp), Some(wait)) = (rows.stamps.last(), rows.waits.last()) {
            self.place = (*stamp, *wait);
        }
        if let Some(kept) = &mut self.kept {
            kept.make_room(chunk.len(), self.keep_rows);
            kept.seqs.extend_from_slice(chunk.seq);
            kept.stamps.extend_from_slice(&rows.stamps[start..]);
            kept.waits.extend_from_slice(&rows.waits[start..]);
        }
        true
    }

    /// Puts what is in order where anything may stand.
    fn mix(&mut self) {
        let rows = &mut self.in_order;
        for ((seq, stamp), wait) in rows.seqs.drain(..).zip(rows.stamps.drain(..)).zip(rows.waits.drain(..)) {
            self.mixed.push_back(Slot { seq, value: Value::Open(((stamp, wait, seq), true)) });
        }
    }

    /// Puts what waits back into columns, if all of it is in order.
    fn unmix(&mut self) {
        let mut before = self.last.map_or(i64::MIN, |((stamp, ..), _)| stamp);
        for slot in &self.mixed {
            match slot.value {
                Value::Open(((stamp, ..), true)) if stamp > before => before = stamp,
                _ => return,
            }
        }
        for slot in self.mixed.drain(..) {
            if let Value::Open(((stamp, wait, seq), _)) = slot.value {
                self.in_order.seqs.push(seq);
                self.in_order.stamps.push(stamp);
                self.in_order.waits.push(wait);
            }
        }
    }

    fn push_row(&mut self, chunk: &Chunk<'_>, row: usize) {
        let seq = chunk.seq[row];
        let (value, stamp) = if chunk.has_arrived(row, self.point) {
            self.arrived += 1;
            match chunk.offset(row, self.point) {
                Some(offset) => {
                    let stamp = chunk.scheduled_ns[row].wrapping_add(offset);
                    self.place = (stamp, wait(offset, chunk.offset(row, Point::Receive)));
                    (Value::Open(((stamp, self.place.1, seq), true)), stamp)
                }
                None => (Value::Open(((self.place.0, self.place.1, seq), false)), UNSTAMPED),
            }
        } else {
            (Value::Some(INFINITE), NEVER)
        };
        self.mixed.push_back(Slot { seq, value });
        if let Some(kept) = &mut self.kept {
            kept.seqs.push(seq);
            kept.stamps.push(stamp);
            kept.waits.push(self.place.1);
        }
    }

    /// Gives all arrivals stamped before `horizon` their values, and the rows that have theirs to
    /// the digest.
    fn settle(&mut self, horizon: i64) {
        self.settle_in_order(horizon);
        if !self.mixed.is_empty() {
            self.settle_mixed(horizon);
            self.unmix();
        }
    }

    fn settle_in_order(&mut self, horizon: i64) {
        let rows = &mut self.in_order;
        let settled = rows.stamps.partition_point(|stamp| *stamp < horizon);
        let Some(newest) = settled.checked_sub(1) else { return };
        let first = delta(self.last, ((rows.stamps[0], rows.waits[0], rows.seqs[0]), true));
        if let Value::Some(value) = first {
            self.digest.absorb(&[value], &rows.seqs[..1]);
            self.blocks.iter_mut().for_each(|blocks| blocks.absorb(&[value]));
        }
        for start in (1..settled).step_by(ROWS) {
            let (some, before) = (start..settled.min(start + ROWS), start - 1..settled.min(start + ROWS) - 1);
            let (later, earlier) = (&rows.stamps[some.clone()], &rows.stamps[before]);
            let in_columns = self.blocks.is_none();
            if !(in_columns && self.digest.absorb_distances(later, Some(earlier), &rows.seqs[some.clone()])) {
                self.values.clear();
                self.values.extend(later.iter().zip(earlier).map(|(later, earlier)| later.wrapping_sub(*earlier)));
                self.digest.absorb(&self.values, &rows.seqs[some]);
                self.blocks.iter_mut().for_each(|blocks| blocks.absorb(&self.values));
            }
        }
        self.last = Some(((rows.stamps[newest], rows.waits[newest], rows.seqs[newest]), true));
        rows.seqs.drain(..settled);
        rows.stamps.drain(..settled);
        rows.waits.drain(..settled);
    }

    fn settle_mixed(&mut self, horizon: i64) {
        let open = self.mixed.iter().enumerate().filter_map(|(at, slot)| match slot.value {
            Value::Open(arrival) if arrival.0.0 < horizon => Some((arrival, at)),
            _ => None,
        });
        let mut arrivals: Vec<(Arrival, usize)> = open.collect();
        // Nearly sorted already, which this sort makes use of.
        arrivals.sort_by_key(|((key, _), _)| *key);
        for (arrival, at) in arrivals {
            self.mixed[at].value = match self.last {
                Some((last, _)) if last > arrival.0 => {
                    self.exceeded = true;
                    Value::None
                }
                before => {
                    self.last = Some(arrival);
                    delta(before, arrival)
                }
            };
        }
        self.values.clear();
        self.seqs.clear();
        while let Some(slot) = self.mixed.front() {
            match slot.value {
                Value::Open(_) => break,
                Value::None => {}
                Value::Some(value) => {
                    self.values.push(value);
                    self.seqs.push(slot.seq);
                }
            }
            self.mixed.pop_front();
        }
        self.digest.absorb(&self.values, &self.seqs);
        self.blocks.iter_mut().for_each(|blocks| blocks.absorb(&self.values));
    }

    /// The digest of the whole trial.
    pub fn finish(self) -> MetricDigest {
        self.finish_with_blocks().0
    }

    /// The same, with the blocks if there are any.
    pub(crate) fn finish_with_blocks(mut self) -> (MetricDigest, Option<Blocks>) {
        self.settle(i64::MAX);
        if self.exceeded
            && let Some(rows) = self.kept.take()
        {
            self.blocks = self.intended.map(BlockPass::new);
            self.digest = sorted(self.trial, &rows, self.blocks.as_mut());
        }
        self.digest.expect(self.arrived.saturating_sub(1));
        (self.digest, self.blocks.map(BlockPass::finish))
    }
}

/// True if each stamp is later than the one before.
fn is_rising(stamps: &[i64]) -> bool {
    // The differences of instants between the epoch and a far year do not wrap, and many are made
    // at once.
    if stamps.iter().fold(0, |any, stamp| any | stamp) >> 62 == 0 {
        return stamps.windows(2).fold(0, |any, pair| any | (pair[1] - pair[0] - 1)) >= 0;
    }
    stamps.is_sorted_by(|a, b| a < b)
}

/// [`wait`] for rows that all have both.
fn add_waits(offsets: &[MaybeNanos], receive: &[MaybeNanos], waits: &mut Vec<i32>) {
    let of = |(offset, receive): (&MaybeNanos, &MaybeNanos)| receive.or_lowest().wrapping_sub(offset.or_lowest());
    let pairs = || offsets.iter().zip(receive).map(of);
    // Where none is longer than the longest, none need be cut short.
    if pairs().fold(0, |any, wait| any | wait.wrapping_sub(i64::from(i32::MIN)) as u64) >> 32 == 0 {
        waits.extend(pairs().map(|wait| wait as i32));
    } else {
        waits.extend(offsets.iter().zip(receive).map(|(o, r)| wait(o.or_lowest(), Some(r.or_lowest()))));
    }
}

/// How long after its stamp a packet was received, for ordering those with one stamp: nobody waits
/// longer than 2 s.
#[inline]
fn wait(offset: i64, receive: Option<i64>) -> i32 {
    receive.map_or(i32::MAX, |receive| receive.wrapping_sub(offset).clamp(i32::MIN.into(), i32::MAX.into()) as i32)
}

/// The value of an arrival after another; none where either has no stamp.
#[inline]
fn delta(before: Option<Arrival>, now: Arrival) -> Value {
    match (before, now) {
        (Some(((before, ..), true)), ((now, ..), true)) => Value::Some(now.wrapping_sub(before)),
        _ => Value::None,
    }
}

/// The digest of a trial sorted as a whole; its values also go into the blocks.
fn sorted(trial: u32, rows: &Kept, blocks: Option<&mut BlockPass>) -> MetricDigest {
    let mut place = i64::MIN;
    let mut order: Vec<(Arrival, usize)> = Vec::new();
    let mut values = vec![None; rows.seqs.len()];
    for (at, ((seq, stamp), wait)) in rows.seqs.iter().zip(&rows.stamps).zip(&rows.waits).enumerate() {
        match *stamp {
            NEVER => values[at] = Some(INFINITE),
            UNSTAMPED => order.push((((place, *wait, *seq), false), at)),
            stamp => {
                place = stamp;
                order.push((((stamp, *wait, *seq), true), at));
            }
        }
    }
    order.sort_by_key(|((key, _), _)| *key);
    let mut before = None;
    for (arrival, at) in order {
        if let Value::Some(value) = delta(before, arrival) {
            values[at] = Some(value);
        }
        before = Some(arrival);
    }
    let with_values = values.iter().zip(&rows.seqs).filter_map(|(value, seq)| value.map(|value| (value, *seq)));
    let (values, seqs): (Vec<i64>, Vec<i64>) = with_values.unzip();
    let mut digest = MetricDigest::new(trial);
    digest.absorb(&values, &seqs);
    blocks.into_iter().for_each(|blocks| blocks.absorb(&values));
    digest
}

/// The stamp that `delta` is of: `rx_kernel`, or `rx_xdp` where packets never reach the kernel's
/// stack.
pub fn delta_of(stream: &StreamRecord) -> Point {
    let has = |point: Point| stream.sources.contains_key(&point);
    if !has(Point::RxKernel) && has(Point::RxXdp) { Point::RxXdp } else { Point::RxKernel }
}
