// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes the tables of docs/method/repeats.md: of how many of 1,000 seeded cells `repeats` warns.
//! Run it with `cargo run --release --locked -p tardy-tests --example repeats`.

#[path = "../golden/analyze/process.rs"]
mod process;

use process::{Process, TRIALS};
use tardy_analyze::statistics::normal_quantile;

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
