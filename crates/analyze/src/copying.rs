// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the passes of copying threads come to: whether their bandwidths may be added up
//! ([`parallel`]), where bandwidth jumps over the sizes of a buffer ([`cliffs`]), and which thread
//! copied when ([`timeline`]).

pub mod cliffs;
pub mod parallel;
pub mod timeline;

use cliffs::AtSize;
use parallel::{Copied, OnePass, Together, together};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use tardy_model::copy::{COPY, CopyRecord, CopyResult, LockOf, LockResult, Overlap, Sizes};
use tardy_model::point::Point;
use tardy_model::result::{CellResult, TrialResult};
use tardy_model::sample::{Batch, Flags, MaybeNanos, Outcome};
use tardy_model::verdict::Verdict;

/// Of all pairs of threads, these are shown.
const SHOWN: usize = 10;
/// A pass that takes so much longer than the median of its thread was stopped in it, ns.
const LONG_NS: i64 = 1_000_000;

/// The passes of one trial, as its rows come.
#[derive(Debug)]
pub struct CopyPass {
    /// Of each thread, by its number.
    passes: Vec<Vec<OnePass>>,
    /// Rows of passes that were not ended.
    others: Batch,
}

/// Rows that are handed on at a time.
const ROWS: usize = 8_192;

impl CopyPass {
    /// For the threads of this record, whose rows are still to come. There may be fewer of these
    /// than it says.
    pub fn new(record: &CopyRecord) -> CopyPass {
        CopyPass { passes: record.threads.iter().map(|_| Vec::new()).collect(), others: Batch::default() }
    }

    /// Adds rows: each has the pass of one thread.
    pub fn push(&mut self, batch: &Batch) {
        let threads = self.passes.len() as i64;
        for row in (0..batch.len()).filter(|_| threads > 0) {
            let of = batch.stamp_ns(row, Point::Begin).zip(batch.stamp_ns(row, Point::End));
            let thread = usize::try_from(batch.seq[row].rem_euclid(threads)).unwrap_or(0);
            match of {
                Some((start_ns, end_ns)) => self.passes[thread].push(OnePass { start_ns, end_ns }),
                None => {
                    self.others.seq.push(batch.seq[row]);
                    self.others.scheduled_ns.push(batch.scheduled_ns[row]);
                    self.others.outcome.push(batch.outcome[row]);
                    self.others.flags.push(batch.flags[row]);
                }
            }
        }
    }

    /// The rows of all threads by the instant at which their passes began, and those without one at
    /// the end. In a file rows of one number are next to each other, and threads that a stall met
    /// in passes of different numbers would look like as many stalls.
    pub(crate) fn in_time(&self) -> impl Iterator<Item = Batch> {
        let threads = self.passes.len() as i64;
        let next =
            |thread: usize, number: usize| Some(Reverse((self.passes[thread].get(number)?.start_ns, thread, number)));
        let mut begin: BinaryHeap<_> = (0..self.passes.len()).filter_map(|thread| next(thread, 0)).collect();
        let passes = std::iter::from_fn(move || {
            let (mut batch, mut end) = (Batch::default(), Vec::new());
            while let Some(Reverse((start_ns, thread, number))) = if batch.len() < ROWS { begin.pop() } else { None } {
                begin.extend(next(thread, number + 1));
                batch.seq.push(number as i64 * threads + thread as i64);
                batch.scheduled_ns.push(start_ns);
                batch.outcome.push(Outcome::Received);
                batch.flags.push(Flags::default());
                end.push(MaybeNanos::some(self.passes[thread][number].end_ns.saturating_sub(start_ns)));
            }
            batch.offsets[Point::Begin.index()] = Some(vec![MaybeNanos::some(0); end.len()]);
            batch.offsets[Point::End.index()] = Some(end);
            (!batch.is_empty()).then_some(batch)
        });
        let mut others = self.others.clone();
        let none = vec![MaybeNanos::NONE; others.len()];
        others.offsets[Point::Begin.index()] = Some(none.clone());
        others.offsets[Point::End.index()] = Some(none);
        passes.chain((!others.is_empty()).then_some(others))
    }

    /// What they come to; `None` if no pass was ended.
    pub fn finish(self, record: &CopyRecord) -> Option<CopyResult> {
        let bytes_per_pass = record.asked.pass_bytes();
        let threads = self.passes.into_iter().zip(&record.threads);
        let threads: Vec<Copied> =
            threads.map(|(passes, of)| Copied { passes, bytes_per_pass, busy_ns: of.busy_ns }).collect();
        Some(result(&threads, &together(&threads)?, record))
    }
}

fn result(threads: &[Copied], together: &Together, record: &CopyRecord) -> CopyResult {
    let mut overlaps = together.overlaps.clone();
    overlaps.sort_by(|a, b| a.1.total_cmp(&b.1));
    let mean = overlaps.iter().map(|(_, share)| share).sum::<f64>() / overlaps.len().max(1) as f64;
    let shown = overlaps.iter().take(SHOWN);
    let of = &record.threads;
    let migrations: usize = of.iter().map(|of| of.cpus.len().saturating_sub(1)).sum();
    let (long, longest_ns) = threads.iter().map(Copied::long).fold((0, 0), |a, b| (a.0 + b.0, a.1.max(b.1)));
    let tenth = parallel::tenth_ns(threads).max(1) as f64;
    CopyResult {
        buffer_bytes: record.asked.bytes,
        buffers: record.asked.buffers,
        threads: record.asked.all_threads(),
        bytes: together.bytes,
        wall_ns: together.wall_ns,
        wall_bytes_s: together.wall_rate,
        sum_bytes_s: together.sum_rate,
        sum_error: together.error(),
        parallelism: together.parallelism,
        assumed: u32::try_from(together.assumed()).unwrap_or(u32::MAX),
        times_less: together.times_less(),
        may_be_added_up: together.may_be_added_up(),
        in_flight_ns: together.in_flight_ns.clone(),
        least_overlaps: shown
            .map(|((a, b), share)| Overlap { threads: [*a as u32, *b as u32], share: *share })
            .collect(),
        overlap_mean: (!overlaps.is_empty()).then_some(mean),
        migrations: migrations as u64,
        involuntary_switches: of.iter().map(|of| of.thread.involuntary_switches).fold(0, u64::saturating_add),
        wait_ns: of.iter().map(|of| of.thread.wait_ns).try_fold(0, |sum: i64, ns| Some(sum.saturating_add(ns?))),
        provider: record.provider.clone(),
        module: record.asked.backend.module(),
        kernel: of.iter().filter_map(|of| of.kernel.clone()).collect(),
        locks: locks(record, threads),
        contention: record.contention.clone(),
        long_passes: long,
        longest_more_ns: longest_ns,
        recording_ns: record.recording_ns,
        recording_share: record.recording_ns / tenth,
        window_bytes: record.window_bytes,
        sizes: record.sizes,
        trials_bytes_s: Vec::new(),
    }
}

/// How long the locks of the submission path took, over all threads.
fn locks(record: &CopyRecord, threads: &[Copied]) -> Vec<LockResult> {
    let in_passes = threads.iter().flat_map(|thread| &thread.passes).map(OnePass::took_ns);
    let in_passes_ns = in_passes.fold(0, i64::saturating_add);
    let one = |of: LockOf| {
        let times = || record.threads.iter().flat_map(|thread| &thread.locks).filter(move |times| times.of == of);
        let mut all: BTreeMap<i64, u64> = BTreeMap::new();
        for (ns, count) in times().flat_map(|times| &times.buckets) {
            let sum = all.entry(*ns).or_default();
            *sum = sum.saturating_add(*count);
        }
        let taken = all.values().copied().fold(0, u64::saturating_add);
        let at = |q: f64| {
            let (rank, mut before) = (crate::statistics::rank_of(q, taken), 0);
            let found = all.iter().find(|(_, count)| {
                before = count.saturating_add(before);
                before >= rank
            });
            found.map_or(0, |(ns, _)| *ns)
        };
        let sum_ns = times().map(|times| times.sum_ns).fold(0, i64::saturating_add);
        let max_ns = times().map(|times| times.max_ns).max()?;
        let share = sum_ns as f64 / in_passes_ns.max(1) as f64;
        (taken > 0).then(|| LockResult { of, taken, p50_ns: at(0.5), p99_ns: at(0.99), max_ns, share })
    };
    LockOf::ALL.into_iter().filter_map(one).collect()
}

/// A cell's copy: that of the trial whose wall bandwidth is the median of those that count, with
/// the bandwidths of all of them.
pub(crate) fn of_cell<'t>(stream: &str, trials: impl Iterator<Item = &'t TrialResult>) -> Option<CopyResult> {
    let mut found: Vec<&CopyResult> = trials.filter_map(|trial| trial.streams.get(stream)?.copy.as_ref()).collect();
    let all = found.iter().map(|of| of.wall_bytes_s).collect();
    found.sort_by(|a, b| a.wall_bytes_s.total_cmp(&b.wall_bytes_s));
    let median = found.get(found.len().saturating_sub(1) / 2)?;
    Some(CopyResult { trials_bytes_s: all, ..(*median).clone() })
}

/// The key of the size that cells are swept over.
pub const SIZE: &str = "copy.bytes";

/// The axes of a cell apart from the size of a buffer.
type Others<'c> = Vec<(&'c str, &'c str)>;
/// Bandwidth at each size, and the sizes of the machine that it was measured on.
type Sweep = Vec<(AtSize, Option<Sizes>)>;

/// Where bandwidth jumps over the sizes that a run's cells have and in which alone they differ.
pub(crate) fn cliffs(cells: &[CellResult]) -> Vec<Verdict> {
    let mut sweeps: BTreeMap<Others<'_>, Sweep> = BTreeMap::new();
    for cell in cells {
        let of = cell.streams.get(COPY).and_then(|stream| stream.copy.as_ref());
        let asked = cell.axes.get(SIZE).map(|text| of.map(|of| of.buffer_bytes).or_else(|| bytes(text)));
        let Some(Some(buffer_bytes)) = asked else { continue };
        let others = cell.axes.iter().filter(|(key, _)| *key != SIZE);
        let others = others.map(|(key, value)| (key.as_str(), value.as_str())).collect();
        // A cell that is not valid says nothing, also not of those around it.
        let rates = of.filter(|_| cell.valid).map(|of| of.trials_bytes_s.clone());
        let touched = of.map_or(0, |of| of.window_bytes.iter().fold(0_u64, |sum, bytes| sum.saturating_add(*bytes)));
        let at = AtSize { bytes: buffer_bytes, touched, rates: rates.unwrap_or_default() };
        sweeps.entry(others).or_default().push((at, of.map(|of| of.sizes)));
    }
    let sweep = |(others, at): (Others<'_>, Sweep)| {
        let sizes = at.iter().find_map(|(_, sizes)| *sizes)?;
        let those: Vec<String> = others.iter().map(|(key, value)| format!("{key} = {value}")).collect();
        cliffs::verdict(at.into_iter().map(|(at, _)| at).collect(), sizes, &those.join(", "))
    };
    sweeps.into_iter().filter_map(sweep).collect()
}

/// A size as an axis has it: the only one that is known of a cell in which nothing was finished.
fn bytes(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let units = [("", 1), ("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("kB", 1_000), ("MB", 1_000_000)];
    let (_, unit) = units.into_iter().find(|(name, _)| *name == text[digits..].trim())?;
    text[..digits].parse::<u64>().ok()?.checked_mul(unit)
}

impl Copied {
    /// Passes that took much longer than the median of the thread, and how much longer the longest
    /// one did, ns.
    fn long(&self) -> (u64, i64) {
        let mut took: Vec<i64> = self.passes.iter().map(OnePass::took_ns).collect();
        if took.is_empty() {
            return (0, 0);
        }
        took.sort_unstable();
        let usual = took[(took.len() - 1) / 2].saturating_add(LONG_NS);
        let long = took.iter().filter(|took_ns| **took_ns >= usual);
        (
            long.count() as u64,
            took.last().map_or(0, |longest| (longest.saturating_sub(usual).saturating_add(LONG_NS)).max(0)),
        )
    }
}
