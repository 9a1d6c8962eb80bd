// SPDX-License-Identifier: MIT OR Apache-2.0
//! The packets for which a metric is greatest, with the way that each of them took. In bounded
//! memory, however many packets there are.

use std::cmp::Reverse;
use tardy_model::point::{Metric, Point};
use tardy_model::sample::{Batch, Outcome};

/// A packet with a great value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorstPacket {
    /// The metric's value, ns.
    pub value_ns: i64,
    pub trial: u32,
    /// Its number in the trial.
    pub seq: i64,
    /// When it was due, after the trial's base time, ns.
    pub at_ns: i64,
    /// For each point that stamped it, in causal order, the time from the point before it, ns; the
    /// first counts from the schedule.
    pub stages: Vec<(Point, i64)>,
}

impl WorstPacket {
    /// The stages as metrics, each from the stamped point before its own.
    pub fn spans(&self) -> impl Iterator<Item = (Metric, i64)> + '_ {
        let before = [Point::Scheduled].into_iter().chain(self.stages.iter().map(|(point, _)| *point));
        before.zip(&self.stages).map(|(before, (point, ns))| (Metric::Span(before, *point), *ns))
    }
}

/// The worst packets of a stream, over the trials whose rows are given.
#[derive(Clone, Debug)]
pub struct Worst {
    metric: Metric,
    most: usize,
    found: Vec<WorstPacket>,
    /// What is not above it is none of them.
    floor_ns: Option<i64>,
    /// Packets that were received and have a value.
    pub values: u64,
    /// Packets that never arrived or were never sent: worse than any that did.
    pub missing: u64,
}

impl Worst {
    /// The `most` packets with the greatest values of a metric, which is not `delta`: that is of
    /// two packets.
    pub fn new(metric: Metric, most: usize) -> Self {
        Worst { metric, most, found: Vec::new(), floor_ns: None, values: 0, missing: 0 }
    }

    /// Adds the next rows of a trial that began at `base_ns`.
    pub fn push(&mut self, trial: u32, base_ns: i64, batch: &Batch) {
        for (row, outcome) in batch.outcome.iter().enumerate() {
            if *outcome != Outcome::Received {
                self.missing += 1;
                continue;
            }
            let Some(value_ns) = batch.span_ns(row, self.metric) else { continue };
            self.values += 1;
            if self.floor_ns.is_some_and(|floor| value_ns <= floor) {
                continue;
            }
            // Twice as many as wanted are kept before they are sorted, so that most rows cost a
            // comparison.
            if self.found.len() >= 2 * self.most.max(1) {
                self.keep();
            }
            let at_ns = batch.scheduled_ns[row].saturating_sub(base_ns);
            let stages = stages(batch, row);
            self.found.push(WorstPacket { value_ns, trial, seq: batch.seq[row], at_ns, stages });
        }
    }

    fn keep(&mut self) {
        self.found.sort_by_key(|packet| (Reverse(packet.value_ns), packet.trial, packet.seq));
        self.found.truncate(self.most);
        self.floor_ns = self.found.last().filter(|_| self.found.len() == self.most).map(|packet| packet.value_ns);
    }

    /// The worst first; of equals the one that came first.
    pub fn finish(mut self) -> Vec<WorstPacket> {
        self.keep();
        self.found
    }
}

fn stages(batch: &Batch, row: usize) -> Vec<(Point, i64)> {
    let mut before = 0;
    let stamped = Point::ALL.into_iter().filter(|point| *point != Point::Scheduled);
    stamped
        .filter_map(|point| {
            let offset = batch.offset(row, point)?;
            let stage = offset.saturating_sub(before);
            before = offset;
            Some((point, stage))
        })
        .collect()
}
