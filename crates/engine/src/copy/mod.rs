// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parallel copies: one trial of a copy by its backend, as samples and a record like those of
//! packets. Each pass of a thread over its buffers is a row, with the points `begin` and `end`.

mod background;
pub mod buckets;
pub mod contention;
mod controllers;
mod cpu;
pub mod dmatest;
mod order;
mod parameters;
pub mod sgtest;
mod sim;
mod submission;
mod window;

pub use background::background_bytes;
pub use order::{CopyError, CopyMemory, CopyOrder};
pub use parameters::is_loaded;
pub use window::{needed_bytes, region_bytes, windows};

use order::Copied;
use std::collections::BTreeMap;
use tardy_model::copy::{CopyBackend, CopyRecord, CopyThread};
use tardy_model::load::LoadRecord;
use tardy_model::point::{Point, Source};
use tardy_model::sample::{Batch, Flags, MaybeNanos, Outcome};
use tardy_model::time::Conversion;
use tardy_model::trial::{Counters, StreamRecord, WarmUp};

/// What a trial gives.
#[derive(Debug)]
pub struct CopyTrial {
    pub batch: Batch,
    pub record: StreamRecord,
    /// What disturbed it, if something did.
    pub background: Option<LoadRecord>,
}

/// Runs one trial to its end, or until it has taken its longest. `look` is called when all threads
/// are about to begin, and when all are done; never by a backend that has no threads.
///
/// # Errors
/// If there is not the memory or not a thread for it; then nothing was copied.
pub fn trial(order: &CopyOrder<'_>, memory: &mut CopyMemory, look: &mut dyn FnMut()) -> Result<CopyTrial, CopyError> {
    let copied = match order.copy.backend {
        CopyBackend::Cpu => cpu::run(order, memory, look)?,
        CopyBackend::Dmatest => dmatest::run(order, look)?,
        CopyBackend::Sgtest => sgtest::run(order, look)?,
        CopyBackend::Sim => sim::run(order),
    };
    Ok(recorded(order, copied))
}

/// Samples and record of what was copied.
fn recorded(order: &CopyOrder<'_>, copied: Copied) -> CopyTrial {
    let copy = order.copy;
    let Copied { threads, recording_ns, background, clocks, provider, contention } = copied;
    let mut batch = Batch::default();
    let (mut begin, mut end) = (Vec::new(), Vec::new());
    let first_ns = threads.iter().filter_map(|(passes, _)| passes.first()).map(|pass| pass.0).min();
    let last_ns = threads.iter().filter_map(|(passes, _)| passes.last()).map(|pass| pass.1).max();
    for iteration in 0..copy.rounds() as usize {
        for (passes, _) in &threads {
            let pass = passes.get(iteration);
            batch.seq.push(batch.seq.len() as i64);
            batch.scheduled_ns.push(pass.map_or_else(|| first_ns.unwrap_or(0), |pass| pass.0));
            batch.outcome.push(if pass.is_some() { Outcome::Received } else { Outcome::NotSent });
            batch.flags.push(Flags::default());
            begin.push(pass.map_or(MaybeNanos::NONE, |_| MaybeNanos::some(0)));
            end.push(pass.map_or(MaybeNanos::NONE, |(from, to)| MaybeNanos::some(to - from)));
        }
    }
    batch.offsets[Point::Begin.index()] = Some(begin);
    batch.offsets[Point::End.index()] = Some(end);
    let done = threads.iter().map(|(passes, _)| passes.len() as u64).sum();
    let source = match copy.backend {
        CopyBackend::Cpu => Source::App,
        CopyBackend::Dmatest | CopyBackend::Sgtest => Source::Kernel,
        CopyBackend::Sim => Source::Sim,
    };
    let threads: Vec<CopyThread> = threads.into_iter().map(|(_, of)| of).collect();
    let first = threads.first().map(|of| of.thread.clone()).unwrap_or_default();
    let conversion = Conversion::between(&clocks[0], &clocks[1]);
    let record = CopyRecord {
        asked: copy.clone(),
        threads,
        recording_ns,
        window_bytes: windows(copy, &order.sizes),
        sizes: order.sizes,
        provider,
        contention,
    };
    let record = StreamRecord {
        intended: batch.len() as u32,
        cycle_ns: 0,
        phase_ns: None,
        intended_span_ns: 0,
        sent_span_ns: first_ns.zip(last_ns).map(|(first, last)| last - first),
        lateness_by_tenth_ns: Vec::new(),
        max_loss: 0.0,
        sources: BTreeMap::from([(Point::Begin, source), (Point::End, source)]),
        absent: BTreeMap::new(),
        tx_conversion: conversion,
        tx_hw_bound_ns: 0,
        rx_hw_bound_ns: 0,
        rx_conversion: conversion,
        tx_clocks: clocks,
        rx_clocks: clocks,
        // The threads are in the record of the copy; these are the first one's.
        tx: first.clone(),
        rx: first,
        warmup: WarmUp { flowed: true, ..WarmUp::default() },
        counters: Counters { sent: done, ..Counters::default() },
        spin_gaps: None,
        tx_spin_gaps: None,
        error_queue_bytes: 0,
        tags: None,
        reply: None,
        launching: Default::default(),
        own_work: Vec::new(),
        own_between: Vec::new(),
        own_work_left_out: 0,
        xdp: None,
        xdp_sent: None,
        offsets: Default::default(),
        copy: Some(record),
    };
    CopyTrial { batch, record, background }
}
