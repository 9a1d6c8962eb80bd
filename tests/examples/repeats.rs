// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes the tables of docs/method/repeats.md: of how many of 1,000 seeded cells `repeats` warns,
//! whose trials' blocks hang together. The golden layer holds some of them.
//! Run it with `cargo run --release --locked -p tardy-tests --example repeats`.

use tardy_analyze::repeats::{Blocks, TrialBlocks, judge};
use tardy_analyze::statistics::normal_quantile;
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

/// What any test could find at most, of trials that are shifted at their medians alone: one that
/// knows which trial is shifted, which way, by how much, and how blocks hang together, and warns
/// of 3 % of the cells whose trials are equal (Neyman and Pearson 1933).
fn attainable(process: &Process) -> f64 {
    let (n, rho) = (process.blocks as f64, process.rho);
    // What a trial's blocks of deviation 1 tell of its mean, and that against the mean of the
    // other trials.
    let known = ((n - 2.0) * (1.0 - rho) + 2.0) / (1.0 + rho);
    let distance = (known * f64::from(TRIALS - 1) / f64::from(TRIALS)).sqrt();
    below(distance + normal_quantile(0.03))
}

/// The share of a standard normal variable that lies below `z`.
fn below(z: f64) -> f64 {
    let (mut low, mut high) = (1e-12, 1.0 - 1e-12);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if normal_quantile(middle) < z { low = middle } else { high = middle }
    }
    low
}

fn percent(of_1000: usize) -> String {
    format!("{:.1} %", of_1000 as f64 / 10.0)
}

fn main() {
    println!(
        "| blocks a trial | ρ | warned of, all equal | found, p50 and p99 shifted | found, p50 alone | any test, p50 alone |"
    );
    println!("| --- | --- | --- | --- | --- | --- |");
    for (blocks, rhos) in [
        (128, &[0.0, 0.3, 0.5, 0.7, 0.9, 0.95][..]),
        (40, &[0.0, 0.3, 0.5, 0.7]),
        (20, &[0.0, 0.3, 0.5, 0.7]),
        (10, &[0.0, 0.3, 0.5, 0.7]),
        (5, &[0.0, 0.3, 0.5, 0.7]),
    ] {
        for rho in rhos {
            let process = Process { blocks, rho: *rho, noise: 0.0 };
            let [equal, both, p50] =
                [[0.0, 0.0], [1.0, 1.0], [1.0, 0.0]].map(|shifts| percent(process.warnings(shifts)));
            println!("| {blocks} | {rho} | {equal} | {both} | {p50} | {:.0} % |", 100.0 * attainable(&process));
        }
    }
    println!("\n| blocks a trial | ρ | noise | warned of, all equal | found, p50 and p99 shifted |");
    println!("| --- | --- | --- | --- | --- |");
    for blocks in [128, 64, 40, 20] {
        for (rho, noise) in [(0.7, 0.5), (0.9, 0.5), (0.95, 0.8)] {
            let process = Process { blocks, rho, noise };
            let [equal, both] = [[0.0, 0.0], [1.0, 1.0]].map(|shifts| percent(process.warnings(shifts)));
            println!("| {blocks} | {rho} | {noise} | {equal} | {both} |");
        }
    }
}
