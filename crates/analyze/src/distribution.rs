// SPDX-License-Identifier: MIT OR Apache-2.0
//! One pass over the rows of one stream in one trial: every metric, the outcomes, the coverage,
//! the blocks.

use crate::arrival::ArrivalPass;
use crate::chunk::{Chunk, ROWS};
use crate::clusters::INFINITE;
use crate::digest::MetricDigest;
use crate::gates::GatePass;
use crate::outcomes::{self, CoverageByBurst};
use crate::repeats::{BlockPass, Blocks};
use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};
use tardy_model::point::{Metric, Point};
use tardy_model::result::{GateResult, Outcomes};
use tardy_model::sample::{Batch, Flags, MaybeNanos, Outcome};
use tardy_model::time::{EndOffsets, Instant};
use tardy_model::trial::StreamRecord;
use tardy_model::xdp::{HintTimes, MOST_STRUCTS, MOST_TIMES};

/// What is to be computed.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    pub metrics: Vec<Metric>,
    /// The stamp that `delta` is of; [`Point::RxKernel`] if not given.
    pub delta_of: Option<Point>,
    /// Points whose coverage is checked.
    pub points: Vec<Point>,
    /// The metric whose blocks are kept, and the packets intended.
    pub blocks_of: Option<(Metric, u64)>,
    /// By what departures are judged.
    pub gates: Option<GatePass>,
    /// Times that a user's own XDP program left before packets.
    pub hints: Option<HintPass>,
}

/// What a pass found.
#[derive(Clone, Debug)]
pub struct StreamDigest {
    pub outcomes: Outcomes,
    /// By metric; each that was wanted is there.
    pub metrics: BTreeMap<Metric, MetricDigest>,
    pub coverage: CoverageByBurst,
    /// Of the metric whose blocks were wanted.
    pub blocks: Option<Blocks>,
    /// Departures, where something decides when they are due.
    pub gates: Option<GateResult>,
    /// Packets that the queue discipline dropped, by reason.
    pub dropped: Dropped,
    /// By metric: times that a user's own XDP program left before packets.
    pub hints: BTreeMap<String, HintDigest>,
}

/// Packets that a queue discipline dropped: their launch time missed, refused, or without a word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Its launch time had passed.
    pub missed: u64,
    /// Its launch time was refused.
    pub invalid: u64,
    pub silent: u64,
}

impl Dropped {
    pub fn merge(&mut self, other: Dropped) {
        self.missed += other.missed;
        self.invalid += other.invalid;
        self.silent += other.silent;
    }

    /// By name, those that there are.
    pub fn named(self) -> BTreeMap<String, u64> {
        let named = [("launch_missed", self.missed), ("launch_invalid", self.invalid), ("qdisc_dropped", self.silent)];
        named.into_iter().filter(|(_, n)| *n > 0).map(|(name, n)| (name.to_owned(), n)).collect()
    }

    fn add(&mut self, chunk: &Chunk<'_>) {
        // Most chunks have no flag at all.
        if chunk.flags.iter().fold(0, |any, flags| any | flags.0) == 0 {
            return;
        }
        let with = |wanted: Flags| chunk.flags.iter().filter(|flags| flags.has(wanted)).count() as u64;
        self.missed += with(Flags::LAUNCH_MISSED);
        self.invalid += with(Flags::LAUNCH_INVALID);
        self.silent += with(Flags::QDISC_DROPPED);
    }
}

/// A pass that is under way.
#[derive(Debug)]
pub struct StreamPass {
    outcomes: Outcomes,
    spans: BTreeMap<Metric, MetricDigest>,
    delta: Option<ArrivalPass>,
    coverage: CoverageByBurst,
    blocks: Option<(Metric, BlockPass)>,
    gates: Option<GatePass>,
    hints: Option<HintPass>,
    dropped: Dropped,
    values: Vec<i64>,
    seqs: Vec<i64>,
}

impl StreamPass {
    pub fn new(trial: u32, wanted: &Wanted) -> Self {
        let spans = wanted.metrics.iter().filter(|metric| **metric != Metric::Delta);
        let delta_of = wanted.delta_of.unwrap_or(Point::RxKernel);
        let of_delta = wanted.blocks_of.filter(|(metric, _)| *metric == Metric::Delta).map(|(_, intended)| intended);
        let delta = || ArrivalPass::new(trial, delta_of).with_blocks(of_delta);
        StreamPass {
            outcomes: Outcomes::default(),
            spans: spans.map(|metric| (*metric, MetricDigest::new(trial))).collect(),
            delta: wanted.metrics.contains(&Metric::Delta).then(delta),
            coverage: CoverageByBurst::new(wanted.points.iter().copied()),
            blocks: wanted.blocks_of.map(|(metric, intended)| (metric, BlockPass::new(intended))),
            gates: wanted.gates.clone(),
            hints: wanted.hints.clone(),
            dropped: Dropped::default(),
            values: Vec::with_capacity(ROWS),
            seqs: Vec::with_capacity(ROWS),
        }
    }

    /// Adds the next rows; batches come in the order of `seq`.
    pub fn push(&mut self, batch: &Batch) {
        if let Some(gates) = &mut self.gates {
            gates.push(batch);
        }
        if let Some(hints) = &mut self.hints {
            hints.push(batch);
        }
        for chunk in Chunk::of(batch) {
            outcomes::add_chunk(&mut self.outcomes, &chunk);
            self.dropped.add(&chunk);
            self.coverage.push(&chunk);
            for (metric, digest) in &mut self.spans {
                let is_cut_into_blocks = self.blocks.as_ref().is_some_and(|(of, _)| of == metric);
                if !is_cut_into_blocks
                    && let Some((later, earlier)) = whole_columns(&chunk, *metric)
                    && digest.absorb_distances(later, earlier, chunk.seq)
                {
                    continue;
                }
                let seqs = match *metric {
                    Metric::Span(from, to) => gather(&chunk, from, to, &mut self.values, &mut self.seqs),
                    Metric::Transit => gather_transit(&chunk, &mut self.values, &mut self.seqs),
                    Metric::Delta => continue,
                };
                digest.absorb(&self.values, seqs);
                if let Some((_, blocks)) = self.blocks.as_mut().filter(|(of, _)| of == metric) {
                    blocks.absorb(&self.values);
                }
            }
            if let Some(delta) = &mut self.delta {
                delta.push_chunk(&chunk);
            }
        }
    }

    pub fn finish(self) -> StreamDigest {
        let mut metrics = self.spans;
        for digest in metrics.values_mut() {
            digest.expect(self.outcomes.received);
        }
        let mut blocks = self.blocks.map(|(_, blocks)| blocks.finish());
        if let Some(delta) = self.delta {
            let (digest, of_delta) = delta.finish_with_blocks();
            metrics.insert(Metric::Delta, digest);
            blocks = of_delta.or(blocks);
        }
        let gates = self.gates.map(GatePass::finish);
        let hints = self.hints.map(HintPass::finish).unwrap_or_default();
        let StreamPass { outcomes, coverage, dropped, .. } = self;
        StreamDigest { outcomes, metrics, coverage, blocks, gates, dropped, hints }
    }
}

/// One time in the hints, over the packets of a trial or of several.
#[derive(Clone, Debug)]
pub struct HintDigest {
    /// From the time to `receive`.
    pub digest: MetricDigest,
    /// Values that are no time of their packet.
    pub not_of_packet: u64,
}

impl HintDigest {
    pub fn merge(&mut self, other: HintDigest) {
        self.digest.merge(other.digest);
        self.not_of_packet += other.not_of_packet;
    }
}

/// A pass over the times in the hints of one stream in one trial.
#[derive(Clone, Debug)]
pub struct HintPass {
    times: HintTimes,
    /// Of the hosts of both ends.
    offsets: EndOffsets,
    /// By how much a time and `receive` may disagree, ns: they are of one host.
    bound_ns: i64,
    /// Before this no time is one of the trial; known with its first packet.
    begins_ns: Option<i64>,
    found: BTreeMap<String, HintDigest>,
    values: Vec<i64>,
    seqs: Vec<i64>,
}

/// A packet may come before it is due, and the program may note what was before it.
const BEFORE_NS: i64 = 1_000_000_000;

impl HintPass {
    /// Of what a trial's record says; nothing where no program of the user's left times.
    pub fn new(trial: u32, record: &StreamRecord) -> Option<HintPass> {
        let mut times = record.xdp.as_ref()?.times.clone()?;
        // A record of another origin may list any number of each, and some twice.
        let mut seen = BTreeSet::new();
        times.of.retain(|time| time.is_sound() && seen.len() < MOST_TIMES && seen.insert(time.column.clone()));
        times.of.iter_mut().for_each(|time| time.structs.truncate(MOST_STRUCTS));
        let digest = || HintDigest { digest: MetricDigest::new(trial), not_of_packet: 0 };
        let found = times.of.iter().map(|time| (time.metric(), digest())).collect();
        Some(HintPass {
            bound_ns: times.bound_ns,
            offsets: record.offsets.clone(),
            begins_ns: None,
            found,
            times,
            values: Vec::new(),
            seqs: Vec::new(),
        })
    }

    /// Adds the next rows; batches come in the order of `seq`.
    fn push(&mut self, batch: &Batch) {
        let Some(first_ns) = batch.scheduled_ns.first() else { return };
        let begins_ns = *self.begins_ns.get_or_insert(first_ns.saturating_sub(BEFORE_NS));
        let HintPass { times, offsets, bound_ns, found, values, seqs, .. } = self;
        for time in &times.of {
            let Some(digest) = found.get_mut(&time.metric()) else { continue };
            values.clear();
            seqs.clear();
            let column = batch.hints.as_ref().and_then(|hints| hints.columns.iter().find(|of| of.name == time.column));
            let structs = batch.hints.iter().flat_map(|hints| &hints.structs);
            let has_it: Vec<bool> = structs.map(|name| time.structs.contains(name)).collect();
            let mut possible = 0;
            for row in 0..batch.len() {
                if batch.outcome[row] != Outcome::Received {
                    values.push(INFINITE);
                    seqs.push(batch.seq[row]);
                    continue;
                }
                // A packet whose struct has no such member lacks nothing.
                let of = batch.hints.as_ref().and_then(|hints| hints.of.get(row).copied().flatten());
                if of.is_some_and(|of| has_it.get(usize::from(of)) == Some(&false)) {
                    continue;
                }
                possible += 1;
                let raw = column.and_then(|column| column.values.get(row).copied().flatten());
                let Some((raw, receive)) = raw.zip(batch.offset(row, Point::Receive)) else { continue };
                if times.without.is_some() {
                    continue;
                }
                let theirs = Instant::from_ns(raw.wrapping_add(times.ahead_ns));
                let ns = offsets.receiver_to_here(theirs).ns();
                let receive_ns = batch.scheduled_ns[row].wrapping_add(receive);
                // The program's clock may be wrong by so much, as for `rx_xdp`.
                if ns < begins_ns || ns > receive_ns.saturating_add(*bound_ns) {
                    digest.not_of_packet += 1;
                    continue;
                }
                values.push(receive_ns.wrapping_sub(ns));
                seqs.push(batch.seq[row]);
            }
            digest.digest.absorb(values, seqs);
            digest.digest.expect(possible);
        }
    }

    fn finish(self) -> BTreeMap<String, HintDigest> {
        self.found
    }
}

/// One stream of one trial from its batches.
pub fn distribution<B: Borrow<Batch>>(
    trial: u32,
    wanted: &Wanted,
    batches: impl IntoIterator<Item = B>,
) -> StreamDigest {
    let mut pass = StreamPass::new(trial, wanted);
    for batch in batches {
        pass.push(batch.borrow());
    }
    pass.finish()
}

/// The two columns whose distance a metric is, if every row has both; of a distance from the
/// scheduled instant the later one alone.
fn whole_columns<'a>(chunk: &Chunk<'a>, metric: Metric) -> Option<(&'a [MaybeNanos], Option<&'a [MaybeNanos]>)> {
    let Metric::Span(from, to) = metric else { return None };
    let later = chunk.whole_column(to)?;
    match from {
        Point::Scheduled => Some((later, None)),
        _ => Some((later, Some(chunk.whole_column(from)?))),
    }
}

/// The values of a span metric in some rows, and their numbers: [`INFINITE`] for what never
/// arrived; what arrived without a stamp is left out.
fn gather<'a>(chunk: &Chunk<'a>, from: Point, to: Point, values: &mut Vec<i64>, seqs: &'a mut Vec<i64>) -> &'a [i64] {
    values.clear();
    let to_all = chunk.whole_column(to);
    match (from, chunk.whole_column(from), to_all) {
        (Point::Scheduled, _, Some(to)) => {
            values.extend(to.iter().map(|to| to.or_lowest()));
            chunk.seq
        }
        (_, Some(from), Some(to)) => {
            values.extend(from.iter().zip(to).map(|(from, to)| to.or_lowest().wrapping_sub(from.or_lowest())));
            chunk.seq
        }
        _ => {
            seqs.clear();
            for row in 0..chunk.len() {
                let value = if chunk.is_received(row) {
                    chunk.offset(row, to).zip(chunk.offset(row, from)).map(|(to, from)| to.wrapping_sub(from))
                } else {
                    Some(INFINITE)
                };
                if let Some(value) = value {
                    values.push(value);
                    seqs.push(chunk.seq[row]);
                }
            }
            seqs
        }
    }
}

/// As [`gather`], for the round trip without the reflector's residence.
fn gather_transit<'a>(chunk: &Chunk<'a>, values: &mut Vec<i64>, seqs: &'a mut Vec<i64>) -> &'a [i64] {
    values.clear();
    seqs.clear();
    let span = |row, from, to| {
        chunk.offset(row, to).zip(chunk.offset(row, from)).map(|(to, from): (i64, i64)| to.wrapping_sub(from))
    };
    for row in 0..chunk.len() {
        let value = if chunk.is_received(row) {
            let there_and_back = span(row, Point::Send, Point::ReplyReceive);
            there_and_back.zip(span(row, Point::Receive, Point::ReplySend)).map(|(all, there)| all.wrapping_sub(there))
        } else {
            Some(INFINITE)
        };
        if let Some(value) = value {
            values.push(value);
            seqs.push(chunk.seq[row]);
        }
    }
    seqs
}
