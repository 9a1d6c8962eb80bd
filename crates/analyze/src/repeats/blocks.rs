// SPDX-License-Identifier: MIT OR Apache-2.0
//! A trial cut into blocks of time, each with its median and its 99th percentile.

use crate::clusters::INFINITE;
use crate::quantiles::rank_of;
use tardy_model::histogram::Histogram;

/// Blocks of a trial: many enough that how much neighbours hang together can be seen, and reckoned
/// with.
pub const BLOCKS: u64 = 128;
/// The fewest packets of a block.
const LEAST: u64 = 10;

/// Block values of one trial, in the order of time. What never arrived counts as infinite
/// ([`INFINITE`]).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Blocks {
    /// Medians, ns.
    pub p50_ns: Vec<i64>,
    /// 99th percentiles by nearest rank, ns: the maximum where a block has fewer than 100 packets.
    pub p99_ns: Vec<i64>,
}

/// Cuts a trial into blocks while it passes by.
#[derive(Debug)]
pub struct BlockPass {
    size: u64,
    filled: u64,
    histogram: Histogram,
    blocks: Blocks,
}

impl BlockPass {
    /// For a trial of `intended` packets: up to [`BLOCKS`] blocks, equally long in time because
    /// the stream is cyclic.
    pub fn new(intended: u64) -> Self {
        let size = intended.div_ceil(BLOCKS).max(LEAST);
        BlockPass { size, filled: 0, histogram: Histogram::new(), blocks: Blocks::default() }
    }

    /// Adds the next packets.
    pub fn absorb(&mut self, mut values: &[i64]) {
        while !values.is_empty() {
            let room = usize::try_from(self.size - self.filled).unwrap_or(usize::MAX);
            let (now, later) = values.split_at(values.len().min(room));
            let ends = |(min, max): (i64, i64), value: &i64| (min.min(*value), max.max(*value));
            let (min, max) = now.iter().fold((INFINITE, i64::MIN), ends);
            if max == INFINITE {
                now.iter().filter(|value| **value != INFINITE).for_each(|value| self.histogram.record(*value));
            } else {
                self.histogram.record_within(now, min, max);
            }
            self.filled += now.len() as u64;
            if self.filled == self.size {
                self.close();
            }
            values = later;
        }
    }

    fn close(&mut self) {
        let value = |q: f64| self.histogram.value_at_rank(rank_of(q, self.filled)).unwrap_or(INFINITE);
        let (p50, p99) = (value(0.5), value(0.99));
        self.blocks.p50_ns.push(p50);
        self.blocks.p99_ns.push(p99);
        self.filled = 0;
        self.histogram = Histogram::new();
    }

    /// The blocks. One that is less than half full is left out.
    pub fn finish(mut self) -> Blocks {
        if self.filled * 2 >= self.size {
            self.close();
        }
        self.blocks
    }
}
