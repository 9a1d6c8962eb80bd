// SPDX-License-Identifier: MIT OR Apache-2.0
//! The run folder: what is written is read back exactly, costs no more than it may, and breaks
//! with a clear error.

mod folder;
mod naive;
mod samples;

use rand::{RngCore, SeedableRng};
use rand_pcg::Pcg64;
use tardy_model::point::Point;
use tardy_model::sample::{Batch, Flags, MaybeNanos, Outcome};
use tardy_store::RunFolder;

const FOUR: [Point; 3] = [Point::TxKernel, Point::RxKernel, Point::Receive];

/// Seeded draws that look like a real path.
struct Draw(Pcg64);

impl Draw {
    fn new(seed: u64) -> Self {
        Draw(Pcg64::seed_from_u64(seed))
    }
    /// In 0..1, never 0.
    fn unit(&mut self) -> f64 {
        ((self.0.next_u64() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }
    /// Standard normal, by Box and Muller.
    fn normal(&mut self) -> f64 {
        (-2.0 * self.unit().ln()).sqrt() * (std::f64::consts::TAU * self.unit()).cos()
    }
    fn log_normal(&mut self, median: f64, sigma: f64) -> f64 {
        median * (sigma * self.normal()).exp()
    }
    /// Added to a `share` of the draws, exponential of this mean.
    fn outlier(&mut self, share: f64, mean: f64) -> f64 {
        if self.unit() < share { -mean * self.unit().ln() } else { 0.0 }
    }
}

/// The four-stamp case: wake-up p50 14 µs, p99 40 µs, rare 1 ms; driver to kernel 400 ± 150 ns;
/// kernel to application 19 µs.
fn realistic(rows: usize, seed: u64) -> Batch {
    let mut draw = Draw::new(seed);
    let mut batch = empty_batch(&FOUR);
    let base = 1_763_000_000_123_456_789;
    for row in 0..rows {
        let wakeup = draw.log_normal(14_000.0, 0.451) + draw.outlier(0.001, 1e6);
        let tx_kernel = wakeup + draw.log_normal(1_000.0, 0.2);
        let rx_kernel = tx_kernel + (400.0 + 150.0 * draw.normal()).abs() + draw.outlier(0.003, 1e4);
        let receive = rx_kernel + draw.log_normal(19_000.0, 0.35) + draw.outlier(0.002, 3e5);
        push(&mut batch, row as i64, base + row as i64 * 500_000, Outcome::Received, Flags::default());
        for (point, value) in FOUR.into_iter().zip([tx_kernel, rx_kernel, receive]) {
            stamps(&mut batch, point).push(MaybeNanos::some(value as i64));
        }
    }
    batch
}

fn empty_batch(points: &[Point]) -> Batch {
    let mut batch = Batch::default();
    for point in points {
        batch.offsets[point.index()] = Some(Vec::new());
    }
    batch
}

fn push(batch: &mut Batch, seq: i64, scheduled: i64, outcome: Outcome, flags: Flags) {
    batch.seq.push(seq);
    batch.scheduled_ns.push(scheduled);
    batch.outcome.push(outcome);
    batch.flags.push(flags);
}

fn stamps(batch: &mut Batch, point: Point) -> &mut Vec<MaybeNanos> {
    batch.offsets[point.index()].get_or_insert_default()
}

fn new_run() -> (tempfile::TempDir, RunFolder) {
    let folder = tempfile::tempdir().unwrap();
    let run = RunFolder::create(folder.path().join("deep/run")).unwrap();
    (folder, run)
}
