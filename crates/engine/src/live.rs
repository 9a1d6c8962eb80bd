// SPDX-License-Identifier: MIT OR Apache-2.0
//! Figures while a trial runs: a coarse digest that the measuring thread fills without a lock and
//! the agent's control thread reads. It feeds the progress line, and shows that the thread lives.

use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

const SUB: u32 = 8;
const BINS: usize = 40 * SUB as usize;

/// Counters and a coarse histogram of the metric that leads, if this end can compute it
/// (`tardy_model::stream::live_end`; 8 bins an octave, so within 9 %).
pub struct Live {
    done: AtomicU64,
    turns: AtomicU64,
    bins: Box<[AtomicU32]>,
}

impl Default for Live {
    fn default() -> Self {
        Live { done: AtomicU64::new(0), turns: AtomicU64::new(0), bins: (0..BINS).map(|_| AtomicU32::new(0)).collect() }
    }
}

fn bin(ns: i64) -> usize {
    let ns = ns.max(1) as u64;
    let octave = 63 - ns.leading_zeros();
    let sub = if octave >= 3 { (ns >> (octave - 3)) & 7 } else { 0 };
    ((octave * SUB) as usize + sub as usize).min(BINS - 1)
}

fn bin_top(bin: usize) -> i64 {
    let (octave, sub) = (bin as u32 / SUB, i64::from(bin as u32 % SUB));
    (1i64 << octave) + ((sub + 1) << octave) / i64::from(SUB)
}

impl Live {
    /// Counts a packet; `lateness_ns` goes into the histogram. Only one thread writes, so a load
    /// and a store do.
    #[inline]
    pub fn count(&self, lateness_ns: Option<i64>) {
        self.count_if(true, lateness_ns);
    }

    /// The same if the packet `counts`; if not, the same work is done and nothing changes. A
    /// lead-in's packets come this way, so that the trial's first does not find this code and its
    /// memory cold.
    #[inline]
    pub fn count_if(&self, counts: bool, lateness_ns: Option<i64>) {
        self.done.store(self.done.load(Relaxed) + u64::from(counts), Relaxed);
        if let Some(ns) = lateness_ns {
            let cell = &self.bins[bin(ns)];
            cell.store(cell.load(Relaxed).wrapping_add(u32::from(counts)), Relaxed);
        }
    }

    /// Shows that the thread lives although no packet came: one of its waits ended. Only one thread
    /// writes.
    pub fn turn(&self) {
        self.turns.store(self.turns.load(Relaxed) + 1, Relaxed);
    }

    pub fn done(&self) -> u64 {
        self.done.load(Relaxed)
    }

    pub fn digest(&self) -> Digest {
        let bins: Vec<u32> = self.bins.iter().map(|cell| cell.load(Relaxed)).collect();
        let total: u64 = bins.iter().map(|n| u64::from(*n)).sum();
        let at = |q: f64| {
            let rank = (q * total as f64).ceil().max(1.0) as u64;
            let mut seen = 0;
            bins.iter().position(|n| {
                seen += u64::from(*n);
                seen >= rank
            })
        };
        Digest {
            done: self.done(),
            turns: self.turns.load(Relaxed),
            p50_ns: at(0.5).map(bin_top),
            p99_ns: at(0.99).map(bin_top),
        }
    }
}

/// What the progress line shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Digest {
    /// Packets that this end has counted so far.
    pub done: u64,
    /// Waits that ended without a packet, at the end that asks.
    pub turns: u64,
    /// Median, ns, within 9 %, of the metric that leads, if this end can compute it.
    pub p50_ns: Option<i64>,
    /// 99th percentile, ns, in the same way.
    pub p99_ns: Option<i64>,
}
