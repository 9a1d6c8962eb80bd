// SPDX-License-Identifier: MIT OR Apache-2.0
//! Samples with the body and the tail of a real run over veth: log-normal wake-ups, a short path,
//! an application that is woken, stalls that hold up many packets in a row, and a few losses.

use crate::record::{CYCLE_NS, base_ns};
use rand::{RngCore, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::f64::consts::TAU;
use tardy_model::point::Point;
use tardy_model::sample::{Batch, Flags, MaybeNanos, Outcome};

/// The points that a run over veth stamps.
pub const POINTS: [Point; 6] =
    [Point::Wakeup, Point::Send, Point::TxSched, Point::TxKernel, Point::RxKernel, Point::Receive];

/// Places of a table of a distribution, read at random and linearly between them.
const PLACES: usize = 4096;

struct Draw(Pcg64Mcg);

impl Draw {
    /// In 0..1, never 0.
    fn unit(&mut self) -> f64 {
        ((self.0.next_u64() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    /// Standard normal, by Box and Muller.
    fn normal(&mut self) -> f64 {
        (-2.0 * self.unit().ln()).sqrt() * (TAU * self.unit()).cos()
    }

    fn exponential(&mut self, mean: f64) -> f64 {
        -mean * self.unit().ln()
    }

    /// A draw from sorted draws.
    fn from(&mut self, table: &[f64]) -> f64 {
        let at = self.unit() * (table.len() - 1) as f64;
        let (low, part) = (at as usize, at.fract());
        table[low] + part * (table[low + 1] - table[low])
    }
}

/// Sorted draws of a log-normal distribution.
fn log_normal(seed: u64, median: f64, sigma: f64) -> Vec<f64> {
    let mut draw = Draw(Pcg64Mcg::seed_from_u64(seed));
    let mut table: Vec<f64> = (0..PLACES).map(|_| median * (sigma * draw.normal()).exp()).collect();
    table.sort_by(f64::total_cmp);
    table
}

/// `count` packets of a trial that all arrived, without stamps yet.
fn scheduled(n: u32, count: u32) -> Batch {
    let rows = count as usize;
    Batch {
        seq: (0..i64::from(count)).collect(),
        scheduled_ns: (0..i64::from(count)).map(|seq| base_ns(n) + seq * CYCLE_NS).collect(),
        outcome: vec![Outcome::Received; rows],
        flags: vec![Flags::default(); rows],
        ..Batch::default()
    }
}

/// One trial of `count` packets.
pub fn trial(seed: u64, n: u32, count: u32) -> Batch {
    let mut draw = Draw(Pcg64Mcg::seed_from_u64(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(n)));
    // Trials differ a little, as real ones do.
    let drift = 1.0 + 0.01 * draw.normal();
    let wakeups = log_normal(seed ^ 1, 15_000.0 * drift, 0.45);
    let sends = log_normal(seed ^ 2, 900.0, 0.25);
    let qdiscs = log_normal(seed ^ 3, 1_800.0, 0.25);
    let drivers = log_normal(seed ^ 4, 400.0, 0.2);
    let paths = log_normal(seed ^ 5, 420.0, 0.35);
    let receives = log_normal(seed ^ 6, 18_000.0, 0.4);

    let rows = count as usize;
    let column = || Vec::with_capacity(rows);
    let mut batch = scheduled(n, count);
    let mut stamps: [Vec<MaybeNanos>; POINTS.len()] = std::array::from_fn(|_| column());
    // How long the receiver still sleeps, and how long the sender does: what comes meanwhile waits.
    let (mut stalled_tx, mut stalled_rx) = (0.0f64, 0.0f64);
    for row in 0..rows {
        stalled_tx = (stalled_tx - CYCLE_NS as f64).max(0.0);
        stalled_rx = (stalled_rx - CYCLE_NS as f64).max(0.0);
        if draw.unit() < 1e-5 {
            stalled_tx = draw.exponential(1.5e6);
        }
        if draw.unit() < 2e-5 {
            stalled_rx = draw.exponential(2.5e6);
        }
        let wakeup = draw.from(&wakeups) + stalled_tx;
        let send = wakeup + draw.from(&sends);
        let tx_sched = send + draw.from(&qdiscs);
        let tx_kernel = tx_sched + draw.from(&drivers);
        let interrupted = if draw.unit() < 0.002 { draw.exponential(6_000.0) } else { 0.0 };
        let rx_kernel = tx_kernel + draw.from(&paths) + interrupted;
        let receive = rx_kernel + draw.from(&receives) + stalled_rx;
        for (column, at) in stamps.iter_mut().zip([wakeup, send, tx_sched, tx_kernel, rx_kernel, receive]) {
            column.push(MaybeNanos::some(at as i64));
        }
        if receive > CYCLE_NS as f64 {
            batch.flags[row].set(Flags::LATE);
        }
        if wakeup > CYCLE_NS as f64 {
            batch.flags[row].set(Flags::OVERRUN);
        }
        if draw.unit() < 2e-7 {
            batch.outcome[row] = Outcome::Lost;
            batch.flags[row] = Flags::default();
            for column in &mut stamps[4..] {
                column[row] = MaybeNanos::NONE;
            }
        }
    }
    for (point, column) in POINTS.into_iter().zip(stamps) {
        batch.offsets[point.index()] = Some(column);
    }
    batch
}
