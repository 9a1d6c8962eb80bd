// SPDX-License-Identifier: MIT OR Apache-2.0
//! Trials whose blocks hang together, drawn from one seeded process, and how often `repeats` warns
//! of them. The example `repeats` makes the tables of docs/method/repeats.md of it.

use tardy_analyze::repeats::Blocks;
use tardy_analyze::repeats::{TrialBlocks, judge};
use tardy_model::point::{Metric, Point};
use tardy_model::verdict::Level;

/// Trials that are judged together.
pub const TRIALS: u32 = 5;

/// Standard deviation of a block, ns. The blocks lie around 0, so that no spread is too small to
/// matter.
const DEVIATION_NS: f64 = 1e6;

/// How blocks hang together: a part that falls off by `rho` from block to block, and a share of
/// the variance that is each block's own.
#[derive(Clone, Copy, Debug)]
pub struct Process {
    pub blocks: usize,
    pub rho: f64,
    pub noise: f64,
}

/// Numbers without pattern, the same ones for the same seed (SplitMix64, Steele et al. 2014).
struct Numbers(u64);

impl Numbers {
    /// Above 0, at most 1.
    fn even(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11).saturating_add(1) as f64 / (1u64 << 53) as f64
    }

    /// Standard normal (Box and Muller 1958).
    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.even().ln()).sqrt();
        radius * (std::f64::consts::TAU * self.even()).cos()
    }
}

impl Process {
    /// A trial's blocks of one figure, `shift` deviations above the others'.
    fn draw(&self, numbers: &mut Numbers, shift: f64) -> Vec<i64> {
        let mut slow = numbers.normal();
        let mut block = |at: usize| {
            if at > 0 {
                slow = self.rho * slow + (1.0 - self.rho * self.rho).sqrt() * numbers.normal();
            }
            let own = if self.noise > 0.0 { numbers.normal() } else { 0.0 };
            let value = (1.0 - self.noise).sqrt() * slow + self.noise.sqrt() * own + shift;
            (value * DEVIATION_NS).round() as i64
        };
        (0..self.blocks).map(&mut block).collect()
    }

    /// True if `repeats` warns of five trials of which the third's medians are shifted by
    /// `shifts[0]` deviations and its 99th percentiles by `shifts[1]`. Medians and percentiles
    /// vary independently: that leaves chance the most ways.
    pub fn is_warned(&self, seed: u64, shifts: [f64; 2]) -> bool {
        let mut numbers = Numbers(seed.wrapping_mul(0xd134_2543_de82_ef95));
        let trial = |n: u32| {
            let [p50, p99] = shifts.map(|shift| self.draw(&mut numbers, if n == 3 { shift } else { 0.0 }));
            let middle = |blocks: &[i64]| {
                let mut sorted = blocks.to_vec();
                sorted.sort_unstable();
                sorted.get(sorted.len() / 2).copied()
            };
            TrialBlocks { n, p50_ns: middle(&p50), p99_ns: middle(&p99), blocks: Blocks { p50_ns: p50, p99_ns: p99 } }
        };
        let trials: Vec<TrialBlocks> = (1..=TRIALS).map(trial).collect();
        judge("ctl", Metric::Span(Point::Scheduled, Point::RxKernel), &trials).level == Level::Warning
    }

    /// Of 1,000 seeded tries, how many are warned of.
    pub fn warnings(&self, shifts: [f64; 2]) -> usize {
        (1..=1_000).filter(|seed| self.is_warned(*seed, shifts)).count()
    }
}
