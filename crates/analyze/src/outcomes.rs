// SPDX-License-Identifier: MIT OR Apache-2.0
//! What became of the packets, counted; which received packets lack a stamp, and whether these are
//! scattered, one gap, or a late start.

use crate::chunk::Chunk;
use std::collections::BTreeMap;
use tardy_model::expect::Count;
use tardy_model::point::Point;
use tardy_model::result::Outcomes;
use tardy_model::sample::{Batch, Flags, Outcome};

/// Adds a batch's rows to the counts.
pub fn add(outcomes: &mut Outcomes, batch: &Batch) {
    Chunk::of(batch).for_each(|chunk| add_chunk(outcomes, &chunk));
}

pub(crate) fn add_chunk(outcomes: &mut Outcomes, chunk: &Chunk<'_>) {
    let intended = chunk.len() as u64;
    let mut more = Outcomes { intended, received: intended, ..Outcomes::default() };
    if !chunk.all_received {
        let of = |wanted: Outcome| chunk.outcome.iter().filter(|outcome| **outcome == wanted).count() as u64;
        (more.lost, more.not_sent) = (of(Outcome::Lost), of(Outcome::NotSent));
        more.received -= more.lost + more.not_sent;
    }
    // Most chunks have no flag at all.
    if chunk.flags.iter().fold(0, |any, flags| any | flags.0) != 0 {
        let with = |wanted: Flags| chunk.flags.iter().filter(|flags| flags.has(wanted)).count() as u64;
        more.early = with(Flags::EARLY);
        more.late = with(Flags::LATE);
        more.duplicate = with(Flags::DUPLICATE);
        more.reordered = with(Flags::REORDERED);
    }
    merge(outcomes, &more);
}

/// Adds another trial's counts.
pub fn merge(outcomes: &mut Outcomes, other: &Outcomes) {
    outcomes.intended += other.intended;
    outcomes.received += other.received;
    outcomes.lost += other.lost;
    outcomes.not_sent += other.not_sent;
    outcomes.early += other.early;
    outcomes.late += other.late;
    outcomes.duplicate += other.duplicate;
    outcomes.reordered += other.reordered;
}

/// The packets that a count is of.
pub(crate) fn counted(outcomes: &Outcomes, count: Count) -> u64 {
    match count {
        Count::Lost => outcomes.lost,
        Count::NotSent => outcomes.not_sent,
        Count::Early => outcomes.early,
        Count::Late => outcomes.late,
        Count::Duplicate => outcomes.duplicate,
        Count::Reordered => outcomes.reordered,
    }
}

/// The least share of received packets that must have a stamp: below it the missing ones could
/// make up the whole tail beyond p99.9.
pub const LEAST_COVERAGE: f64 = 0.999;

/// Missing stamps of one point. A burst is a run of received packets in scheduled order that all
/// lack the stamp.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bursts {
    /// Packets received.
    pub received: u64,
    /// Of those, without the stamp.
    pub missing: u64,
    pub bursts: u64,
    /// Packets of the longest burst.
    pub longest: u64,
    /// The number of its first packet.
    pub longest_from_seq: i64,
    /// Packets of the burst that begins with the first packet received; 0 if that one has its
    /// stamp.
    pub leading: u64,
    run: u64,
    run_from_seq: i64,
}

impl Bursts {
    /// Stamped over received; 1 if nothing was received.
    pub fn coverage(&self) -> f64 {
        share(self.received - self.missing, self.received)
    }

    /// True if too many stamps are missing.
    pub fn is_short(&self) -> bool {
        self.coverage() < LEAST_COVERAGE
    }

    /// True if too many are missing only because stamps started late: from the first stamped
    /// packet on, enough are there.
    pub fn started_late(&self) -> bool {
        let after = self.received - self.leading;
        self.is_short() && self.leading > 0 && after > 0 && {
            let missing = self.missing - self.leading;
            share(after - missing, after) >= LEAST_COVERAGE
        }
    }

    #[inline]
    fn row(&mut self, seq: i64, stamped: bool) {
        self.received += 1;
        if stamped {
            self.run = 0;
            return;
        }
        self.missing += 1;
        if self.run == 0 {
            self.bursts += 1;
            self.run_from_seq = seq;
        }
        self.run += 1;
        if self.run > self.longest {
            (self.longest, self.longest_from_seq) = (self.run, self.run_from_seq);
        }
        if self.missing == self.received {
            self.leading = self.missing;
        }
    }
}

fn share(part: u64, of: u64) -> f64 {
    if of == 0 { 1.0 } else { part as f64 / of as f64 }
}

/// Missing stamps of one stream in one trial, by point.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CoverageByBurst {
    /// Every point that has a source, `scheduled` aside.
    pub points: BTreeMap<Point, Bursts>,
}

impl CoverageByBurst {
    /// For the points that have a source.
    pub fn new(points: impl IntoIterator<Item = Point>) -> Self {
        let points = points.into_iter().filter(|point| *point != Point::Scheduled);
        CoverageByBurst { points: points.map(|point| (point, Bursts::default())).collect() }
    }

    /// Adds the next rows.
    pub(crate) fn push(&mut self, chunk: &Chunk<'_>) {
        for (point, bursts) in &mut self.points {
            if chunk.whole_column(*point).is_some() {
                bursts.received += chunk.len() as u64;
                bursts.run = 0;
                continue;
            }
            for row in (0..chunk.len()).filter(|row| chunk.is_received(*row)) {
                bursts.row(chunk.seq[row], chunk.offset(row, *point).is_some());
            }
        }
    }
}
