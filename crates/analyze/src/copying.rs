// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the passes of copying threads come to: whether their bandwidths may be added up
//! ([`parallel`]), where bandwidth jumps over the sizes of a buffer ([`cliffs`]), and which thread
//! copied when ([`timeline`]).

pub mod cliffs;
pub mod parallel;
pub mod timeline;

use cliffs::AtSize;
use parallel::{Copied, OnePass, Together, together};
use std::collections::BTreeMap;
use tardy_model::copy::{COPY, CopyRecord, CopyResult, LockOf, LockResult, Overlap};
use tardy_model::point::Point;
use tardy_model::result::{CellResult, TrialResult};
use tardy_model::sample::Batch;
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
}

impl CopyPass {
    /// For the threads of this record, whose rows are still to come.
    pub fn new(record: &CopyRecord) -> CopyPass {
        CopyPass { passes: record.threads.iter().map(|of| Vec::with_capacity(of.done as usize)).collect() }
    }

    /// Adds rows: each has the pass of one thread.
    pub fn push(&mut self, batch: &Batch) {
        let threads = self.passes.len() as i64;
        for row in (0..batch.len()).filter(|_| threads > 0) {
            let of = batch.stamp_ns(row, Point::Begin).zip(batch.stamp_ns(row, Point::End));
            let thread = usize::try_from(batch.seq[row].rem_euclid(threads)).unwrap_or(0);
            let pass = of.map(|(start_ns, end_ns)| OnePass { start_ns, end_ns });
            self.passes[thread].extend(pass);
        }
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
        assumed: together.assumed(),
        times_less: together.times_less(),
        may_be_added_up: together.may_be_added_up(),
        in_flight_ns: together.in_flight_ns.clone(),
        least_overlaps: shown
            .map(|((a, b), share)| Overlap { threads: [*a as u32, *b as u32], share: *share })
            .collect(),
        overlap_mean: (!overlaps.is_empty()).then_some(mean),
        migrations: migrations as u64,
        involuntary_switches: of.iter().map(|of| of.thread.involuntary_switches).sum(),
        wait_ns: of.iter().map(|of| of.thread.wait_ns).sum(),
        provider: record.provider.clone(),
        kernel: of.iter().filter_map(|of| of.kernel.clone()).collect(),
        locks: locks(record, threads),
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
    let in_passes_ns: i64 = threads.iter().flat_map(|thread| &thread.passes).map(OnePass::took_ns).sum();
    let one = |of: LockOf| {
        let times = || record.threads.iter().flat_map(|thread| &thread.locks).filter(move |times| times.of == of);
        let mut all: BTreeMap<i64, u64> = BTreeMap::new();
        times().flat_map(|times| &times.buckets).for_each(|(ns, count)| *all.entry(*ns).or_default() += count);
        let taken: u64 = all.values().sum();
        let at = |q: f64| {
            let (rank, mut before) = (crate::statistics::rank_of(q, taken), 0);
            let found = all.iter().find(|(_, count)| {
                before += **count;
                before >= rank
            });
            found.map_or(0, |(ns, _)| *ns)
        };
        let sum_ns: i64 = times().map(|times| times.sum_ns).sum();
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

/// Where bandwidth jumps over the sizes that a run's cells have and in which alone they differ.
pub(crate) fn cliffs(cells: &[CellResult]) -> Vec<Verdict> {
    let mut sweeps: BTreeMap<Vec<(&str, &str)>, Vec<&CopyResult>> = BTreeMap::new();
    for cell in cells {
        let of = cell.streams.get(COPY).and_then(|stream| stream.copy.as_ref());
        let Some(of) = of.filter(|_| cell.axes.contains_key(SIZE)) else { continue };
        let others = cell.axes.iter().filter(|(key, _)| *key != SIZE);
        sweeps.entry(others.map(|(key, value)| (key.as_str(), value.as_str())).collect()).or_default().push(of);
    }
    let sweep = |(others, of): (Vec<(&str, &str)>, Vec<&CopyResult>)| {
        let at = of.iter().map(|of| AtSize {
            bytes: of.buffer_bytes,
            touched: of.window_bytes.iter().sum(),
            rates: of.trials_bytes_s.clone(),
        });
        let those: Vec<String> = others.iter().map(|(key, value)| format!("{key} = {value}")).collect();
        cliffs::verdict(at.collect(), of.first()?.sizes, &those.join(", "))
    };
    sweeps.into_iter().filter_map(sweep).collect()
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
        (long.count() as u64, took.last().map_or(0, |longest| (longest - usual + LONG_NS).max(0)))
    }
}
