// SPDX-License-Identifier: MIT OR Apache-2.0
//! What each copying thread did when: its passes in equal slices of time. Bounded, however many
//! passes there are: once they reach beyond the last slice, each two become one.

use tardy_model::copy::CopyRecord;
use tardy_model::point::Point;
use tardy_model::sample::Batch;

/// The most slices of a trial.
pub const MOST_SLICES: usize = 240;
/// The length of a slice to begin with, ns.
const SHORTEST_NS: i64 = 1_000;
/// Parts of a pass that are counted.
pub const PARTS: u64 = 1_000_000;

/// A thread within one slice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slice {
    /// How many passes it did, in [`PARTS`] of one: a pass is spread evenly over its time.
    pub parts: u64,
    /// How long it was in a pass, ns.
    pub in_pass_ns: i64,
    /// The CPU of the pass that lasted longest in this slice, by where that pass ended; `None`
    /// without a pass.
    pub cpu: Option<u32>,
    /// How long that pass lasted in it, ns.
    longest_ns: i64,
}

impl Slice {
    fn add(&mut self, parts: u64, ns: i64, cpu: Option<u32>) {
        self.parts += parts;
        self.in_pass_ns += ns;
        if ns > self.longest_ns {
            (self.longest_ns, self.cpu) = (ns, cpu);
        }
    }

    fn join(self, other: Slice) -> Slice {
        let longer = if other.longest_ns > self.longest_ns { other } else { self };
        let (parts, in_pass_ns) = (self.parts + other.parts, self.in_pass_ns + other.in_pass_ns);
        Slice { parts, in_pass_ns, ..longer }
    }
}

/// What one thread did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadLine {
    pub controller: u32,
    pub channel: u32,
    /// CPU time of all its passes, ns.
    pub busy_ns: i64,
    /// From the trial's base time on.
    pub slices: Vec<Slice>,
}

/// What all threads of a trial did when.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CopyTimeline {
    /// The length of a slice, ns.
    pub every_ns: i64,
    /// What a pass copies, bytes.
    pub pass_bytes: u64,
    pub threads: Vec<ThreadLine>,
}

impl CopyTimeline {
    /// The same with at most `most` slices.
    pub fn joined(&self, most: usize) -> CopyTimeline {
        let many = self.threads.iter().map(|thread| thread.slices.len()).max().unwrap_or(0);
        self.coarser(many.div_ceil(most.max(1)).max(1))
    }

    /// The same with each `join` slices as one.
    fn coarser(&self, join: usize) -> CopyTimeline {
        let whole = |slices: &[Slice]| slices.iter().copied().reduce(Slice::join).unwrap_or_default();
        let thread = |of: &ThreadLine| ThreadLine { slices: of.slices.chunks(join).map(whole).collect(), ..of.clone() };
        CopyTimeline {
            every_ns: self.every_ns.saturating_mul(i64::try_from(join).unwrap_or(i64::MAX)),
            pass_bytes: self.pass_bytes,
            threads: self.threads.iter().map(thread).collect(),
        }
    }
}

/// A trial's copy whose rows are being added.
#[derive(Debug)]
pub(crate) struct TimelinePass {
    timeline: CopyTimeline,
    base_ns: i64,
    /// Of each thread, on which CPU its passes ended from which on, and where its next one is.
    cpus: Vec<(Vec<(u32, u32)>, usize)>,
}

impl TimelinePass {
    pub(crate) fn new(record: &CopyRecord, base_ns: i64) -> TimelinePass {
        let thread = |of: &tardy_model::copy::CopyThread| ThreadLine {
            controller: of.controller,
            channel: of.channel,
            busy_ns: of.busy_ns,
            slices: Vec::new(),
        };
        TimelinePass {
            timeline: CopyTimeline {
                every_ns: SHORTEST_NS,
                pass_bytes: record.asked.pass_bytes(),
                threads: record.threads.iter().map(thread).collect(),
            },
            base_ns,
            cpus: record.threads.iter().map(|of| (of.cpus.clone(), 0)).collect(),
        }
    }

    /// Adds the next rows.
    pub(crate) fn push(&mut self, batch: &Batch) {
        let threads = self.cpus.len() as i64;
        for row in (0..batch.len()).filter(|_| threads > 0) {
            let Some((begin_ns, end_ns)) = batch
                .stamp_ns(row, Point::Begin)
                .zip(batch.stamp_ns(row, Point::End))
                .filter(|(begin, end)| end > begin)
            else {
                continue;
            };
            let (thread, pass) = (batch.seq[row].rem_euclid(threads) as usize, batch.seq[row] / threads);
            let (changes, at) = &mut self.cpus[thread];
            while changes.get(*at + 1).is_some_and(|(from, _)| i64::from(*from) <= pass) {
                *at += 1;
            }
            let cpu = changes.get(*at).map(|(_, cpu)| *cpu);
            self.add(thread, (begin_ns - self.base_ns, end_ns - self.base_ns), cpu);
        }
    }

    fn add(&mut self, thread: usize, (begin_ns, end_ns): (i64, i64), cpu: Option<u32>) {
        // What began before the trial did is drawn from there on.
        let begin_ns = begin_ns.max(0);
        if end_ns <= begin_ns {
            return;
        }
        while end_ns > self.timeline.every_ns.saturating_mul(MOST_SLICES as i64) {
            self.timeline = self.timeline.coarser(2);
        }
        let every_ns = self.timeline.every_ns;
        let (first, last) = (begin_ns / every_ns, (end_ns - 1) / every_ns);
        let slices = &mut self.timeline.threads[thread].slices;
        if slices.len() <= last as usize {
            slices.resize(last as usize + 1, Slice::default());
        }
        let part_of = |ns: i64| (i128::from(ns) * i128::from(PARTS) / i128::from(end_ns - begin_ns)) as u64;
        for at in first..=last {
            let from = begin_ns.max(at * every_ns);
            let to = end_ns.min((at + 1) * every_ns);
            // By differences, so that the parts of a pass are a pass.
            let parts = part_of(to - begin_ns) - part_of(from - begin_ns);
            slices[at as usize].add(parts, to - from, cpu);
        }
    }

    pub(crate) fn finish(self) -> CopyTimeline {
        self.timeline
    }
}
