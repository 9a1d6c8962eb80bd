// SPDX-License-Identifier: MIT OR Apache-2.0
//! Does one of several trials lie apart from the others by more than the changes within a trial
//! explain?
//!
//! Blocks of a trial that follow each other resemble each other if something lasts longer than a
//! block: a throttled CPU, a busy neighbour. A test that takes them as independent then finds
//! differences that are none. How much blocks hang together is not known, so the test is made for
//! many degrees of it, each exact by generalised least squares, and the chances are averaged by how
//! well each degree fits the blocks (the restricted likelihood: Patterson and Thompson 1971,
//! Harville 1974).
//!
//! A degree is a pair: what is slow falls off by `rho` from block to block, and a share `noise` of
//! the variance is each block's own. `docs/method/repeats.md` shows the results.

use crate::statistics::{Student, scores};

/// Correlation of the slow part from block to block. An even prior over these: each weighs as much
/// as the stretch around it.
const RHO: [f64; 17] = [-0.4, -0.2, -0.1, 0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.94, 0.97, 0.99];
/// Shares of the variance that are each block's own, all as likely before the blocks are seen.
const NOISE: [f64; 4] = [0.0, 0.3, 0.6, 0.85];
/// In fewer blocks a trial, something slow below noise cannot be told from no correlation at all,
/// and a test that reckons with it finds nothing any more: only the slow part is reckoned with.
pub const LEAST_FOR_NOISE: usize = 40;

/// What the test found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Apart {
    /// The chance that the trial that is farthest out lies so far out, or farther, if all are
    /// from one distribution.
    pub p_value: f64,
    /// The correlation of neighbouring blocks, as far as it is known.
    pub correlation: f64,
}

/// One degree of hanging together, as the filter that makes blocks independent of each other
/// (Kalman 1960): each becomes its difference from what those before it foretell, in units of that
/// difference's deviation.
struct Model {
    rho: f64,
    noise: f64,
    weight: f64,
    /// For each block in a trial: one over the deviation, how much of the difference is carried
    /// on, and what a constant 1 becomes.
    steps: Vec<(f64, f64, f64)>,
    /// The sum of the variances' logarithms up to each block, and of the squares of what a
    /// constant 1 becomes.
    sums: Vec<(f64, f64)>,
}

impl Model {
    fn new(rho: f64, noise: f64, weight: f64, blocks: usize) -> Self {
        let mut model =
            Model { rho, noise, weight, steps: Vec::with_capacity(blocks), sums: Vec::with_capacity(blocks) };
        let slow = 1.0 - noise;
        let (mut variance, mut foretold, mut logs, mut squares) = (slow, 0.0, 0.0, 0.0);
        for _ in 0..blocks {
            let spread = variance + noise;
            let gain = rho * variance / spread;
            let scale = 1.0 / spread.sqrt();
            let one = (1.0 - foretold) * scale;
            foretold = rho * foretold + gain * (1.0 - foretold);
            variance = rho * rho * (variance - variance * variance / spread) + (1.0 - rho * rho) * slow;
            logs += spread.ln();
            squares += one * one;
            model.steps.push((scale, gain, one));
            model.sums.push((logs, squares));
        }
        model
    }

    /// What a trial comes to: its mean, how much that weighs, the squares that remain, and the
    /// logarithms' sum.
    fn trial(&self, blocks: &[f64]) -> Option<Fitted> {
        let (logs, weight) = *self.sums.get(blocks.len().checked_sub(1)?)?;
        let (mut foretold, mut product, mut squares) = (0.0, 0.0, 0.0);
        for (block, (scale, gain, one)) in blocks.iter().zip(&self.steps) {
            let difference = block - foretold;
            let white = difference * scale;
            foretold = self.rho * foretold + gain * difference;
            product += white * one;
            squares += white * white;
        }
        let mean = product / weight;
        Some(Fitted { mean, weight, rest: squares - product * mean, logs })
    }

    fn correlation(&self) -> f64 {
        (1.0 - self.noise) * self.rho
    }
}

struct Fitted {
    mean: f64,
    weight: f64,
    rest: f64,
    logs: f64,
}

/// Every degree that is reckoned with.
fn models(most_blocks: usize, least_blocks: usize) -> Vec<Model> {
    let mut models = Vec::new();
    for (at, rho) in RHO.iter().enumerate() {
        let (before, after) = (RHO[at.saturating_sub(1)], RHO[(at + 1).min(RHO.len() - 1)]);
        let width = if at == 0 || at + 1 == RHO.len() { after - before } else { (after - before) / 2.0 };
        // Noise below what is no slow part is the same as none.
        let noise = if *rho > 0.0 && least_blocks >= LEAST_FOR_NOISE { &NOISE[..] } else { &NOISE[..1] };
        let weight = width / noise.len() as f64;
        models.extend(noise.iter().map(|noise| Model::new(*rho, *noise, weight, most_blocks)));
    }
    models
}

/// Tests trials of several blocks each, in the order of time; `None` where there are fewer than
/// two trials with blocks, or no more blocks than trials.
pub fn apart(trials: &[&[i64]]) -> Option<Apart> {
    let trials: Vec<&[i64]> = trials.iter().copied().filter(|blocks| !blocks.is_empty()).collect();
    let blocks: usize = trials.iter().map(|blocks| blocks.len()).sum();
    let (least, most) = (trials.iter().map(|b| b.len()).min()?, trials.iter().map(|b| b.len()).max()?);
    if trials.len() < 2 || blocks <= trials.len() {
        return None;
    }
    let scores = scores(&trials);
    if scores.iter().flatten().all(|score| *score == scores[0][0]) {
        // All are equal: nothing suggests that one differs.
        return Some(Apart { p_value: 1.0, correlation: 0.0 });
    }
    let degrees = (blocks - trials.len()) as u32;
    let student = Student::new(degrees);
    let found: Vec<(f64, f64, f64)> = models(most, least)
        .iter()
        .filter_map(|model| {
            let fitted: Vec<Fitted> = scores.iter().map(|blocks| model.trial(blocks)).collect::<Option<_>>()?;
            // Where no trial varies, rounding must not make it less than nothing.
            let rest = fitted.iter().map(|trial| trial.rest).sum::<f64>().max(f64::EPSILON * blocks as f64);
            let logs: f64 = fitted.iter().map(|trial| trial.logs + trial.weight.ln()).sum();
            let likelihood = -0.5 * (f64::from(degrees) * rest.ln() + logs);
            let p_value = chance(&fitted, rest / f64::from(degrees), &student);
            Some((likelihood + model.weight.ln(), p_value, model.correlation()))
        })
        .collect();
    let best = found.iter().map(|(likelihood, ..)| *likelihood).fold(f64::NEG_INFINITY, f64::max);
    let (mut all, mut p_value, mut correlation) = (0.0, 0.0, 0.0);
    for (likelihood, p, r) in found {
        let weight = (likelihood - best).exp();
        (all, p_value, correlation) = (all + weight, p_value + weight * p, correlation + weight * r);
    }
    Some(Apart { p_value: p_value / all, correlation: correlation / all })
}

/// The chance of the farthest trial's distance from the mean of the others, by Student's t and as
/// often as there are trials that might be the farthest (Bonferroni).
fn chance(trials: &[Fitted], variance: f64, student: &Student) -> f64 {
    let all: f64 = trials.iter().map(|trial| trial.weight).sum();
    let sum: f64 = trials.iter().map(|trial| trial.weight * trial.mean).sum();
    let distances = trials.iter().map(|trial| {
        let others = all - trial.weight;
        let distance = trial.mean - (sum - trial.weight * trial.mean) / others;
        distance.abs() / (variance * (1.0 / trial.weight + 1.0 / others)).sqrt()
    });
    let farthest = distances.fold(0.0, f64::max);
    (student.beyond(farthest) * trials.len() as f64).min(1.0)
}
