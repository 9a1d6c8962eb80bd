// SPDX-License-Identifier: MIT OR Apache-2.0
//! Does the cell repeat: would another trial have given the same figures?
//!
//! Packets of one trial hang together, so trials are not compared packet by packet: each is cut
//! into blocks of time, and the blocks' medians (and 99th percentiles) are compared by a rank test
//! that reckons with blocks that hang together too ([`apart`]). A difference that is statistically
//! sure but too small to matter still counts as repeating.

use crate::clusters::INFINITE;
use crate::says;
use crate::statistics::{Student, rank_of, scores};
use tardy_model::histogram::Histogram;
use tardy_model::point::Metric;
use tardy_model::verdict::{Figure, Level, Verdict};

/// Fewer valid trials than this say nothing of repeatability.
pub const LEAST_TRIALS: usize = 5;
/// Fewer blocks than this in a trial say too little of how much they hang together.
pub const LEAST_BLOCKS: usize = 5;
/// Below this chance the trials differ by more than luck. It is the chance for both figures of a
/// cell together: of cells whose trials do not differ, one in fifty gets a warning.
pub const LEAST_P: f64 = 0.02;
/// A spread of the trials' medians up to this share of their median does not matter in practice.
pub const P50_SHARE: f64 = 0.10;
/// The same for the 99th percentiles, which are noisier by nature.
pub const P99_SHARE: f64 = 0.25;
/// A spread up to this never matters, ns: a few times the cost of taking a stamp.
pub const LEAST_SPREAD_NS: i64 = 100;

/// One valid trial's part in the judgement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrialBlocks {
    /// Number in the cell.
    pub n: u32,
    pub blocks: Blocks,
    /// Median of the whole trial, ns.
    pub p50_ns: Option<i64>,
    /// 99th percentile of the whole trial, ns, [`INFINITE`] on a packet that never arrived; `None`
    /// if it is not resolved.
    pub p99_ns: Option<i64>,
}

/// How one figure varies over the trials.
struct Spread {
    name: &'static str,
    values: Vec<i64>,
    spread_ns: i64,
    /// Of the middle one; `None` if that is 0.
    share: Option<f64>,
    /// The greatest spread that does not matter, ns.
    allowed_ns: f64,
    test: Apart,
    /// The test's chance, for several figures are tested.
    p_value: f64,
    /// True if some trial has no such figure of its own, so that the medians of the trials' blocks
    /// are used instead.
    by_blocks: bool,
}

impl Spread {
    fn of(name: &'static str, share: f64, of_trials: &[Option<i64>], blocks: &[&[i64]]) -> Option<Spread> {
        let own: Option<Vec<i64>> = of_trials.iter().copied().collect();
        let by_blocks = own.is_none();
        // Nearest rank, as of the figure itself.
        let middle = |blocks: &[i64]| {
            let mut sorted = blocks.to_vec();
            sorted.sort_unstable();
            sorted.get(sorted.len().checked_sub(1)? / 2).copied()
        };
        let values = own.or_else(|| blocks.iter().map(|blocks| middle(blocks)).collect())?;
        let mut sorted = values.clone();
        sorted.sort_unstable();
        let (first, last, middle) = (*sorted.first()?, *sorted.last()?, *sorted.get(sorted.len() / 2)?);
        let spread_ns = if last == INFINITE && first != INFINITE { INFINITE } else { last.saturating_sub(first) };
        let test = apart(blocks)?;
        let allowed_ns = (middle.unsigned_abs() as f64 * share).max(LEAST_SPREAD_NS as f64);
        let share = (middle != 0 && spread_ns != INFINITE).then(|| spread_ns as f64 / middle.unsigned_abs() as f64);
        Some(Spread { name, values, spread_ns, share, allowed_ns, test, p_value: test.p_value, by_blocks })
    }

    /// So close that it would not matter if it were sure.
    fn is_small(&self) -> bool {
        self.spread_ns != INFINITE && self.spread_ns as f64 <= self.allowed_ns
    }

    fn repeats(&self) -> bool {
        self.p_value >= LEAST_P || self.is_small()
    }

    /// How far the trials lie apart at this figure, in words.
    fn says(&self) -> String {
        let far = if self.spread_ns == INFINITE { "infinitely far".to_owned() } else { says::time(self.spread_ns) };
        let share = self.share.map_or_else(String::new, |share| format!(" ({})", says::share(share)));
        format!("{far}{share} at {}", self.name)
    }

    fn tells(&self, verdict: Verdict) -> Verdict {
        let figure = |ns: i64| if ns == INFINITE { Figure::from("infinite") } else { Figure::Int(ns) };
        let values = self.values.iter().map(|value| figure(*value)).collect();
        let verdict = match self.share {
            Some(share) => verdict.with(&format!("{}_spread_share", self.name), share),
            None => verdict,
        };
        verdict
            .with(&format!("{}_spread_ns", self.name), figure(self.spread_ns))
            .with(&format!("{}_p_value", self.name), self.p_value)
            .with(&format!("{}_correlation", self.name), self.test.correlation)
            .with(&format!("{}_by_trial_ns", self.name), Figure::List(values))
    }
}

/// Makes up for testing several figures (Hochberg 1988): the least chance counts as many times as
/// there are figures, but none counts for more than a greater one.
fn adjust(spreads: &mut [Spread]) {
    spreads.sort_by(|a, b| b.test.p_value.total_cmp(&a.test.p_value));
    let mut least = 1.0_f64;
    for (at, spread) in spreads.iter_mut().enumerate() {
        least = least.min(spread.test.p_value * (at + 1) as f64);
        spread.p_value = least;
    }
    spreads.sort_by_key(|spread| spread.name);
}

/// Judges a cell by one span metric of one stream. The trials are the valid ones.
pub fn judge(stream: &str, metric: Metric, trials: &[TrialBlocks]) -> Verdict {
    let numbers = || Figure::List(trials.iter().map(|trial| Figure::from(trial.n)).collect());
    let complete =
        |verdict: Verdict| verdict.with("stream", stream).with("metric", metric.to_string()).with("trials", numbers());
    let not_judged = |why: String| complete(Verdict::new("repeats", Level::Note, format!("not judged: {why}")));
    if trials.len() < LEAST_TRIALS {
        let have = says::count(trials.len() as u64, "valid trial", "valid trials");
        return not_judged(format!("{have}, at least {} are needed", says::number(LEAST_TRIALS)));
    }
    if let Some(short) = trials.iter().find(|trial| trial.blocks.p50_ns.len() < LEAST_BLOCKS) {
        let what = says::of_what(metric);
        return not_judged(format!("trial {} has too few {what} to cut into {LEAST_BLOCKS} blocks", short.n));
    }
    let p50_blocks: Vec<&[i64]> = trials.iter().map(|trial| trial.blocks.p50_ns.as_slice()).collect();
    let p99_blocks: Vec<&[i64]> = trials.iter().map(|trial| trial.blocks.p99_ns.as_slice()).collect();
    let p50s: Vec<Option<i64>> = trials.iter().map(|trial| trial.p50_ns).collect();
    let p99s: Vec<Option<i64>> = trials.iter().map(|trial| trial.p99_ns).collect();
    let p50 = Spread::of("p50", P50_SHARE, &p50s, &p50_blocks).filter(|p50| !p50.by_blocks);
    let p99 = Spread::of("p99", P99_SHARE, &p99s, &p99_blocks);
    let Some(p50) = p50 else {
        return not_judged(format!("a trial has no p50 of {metric}"));
    };
    let unresolved = match p99.as_ref().map(|p99| p99.by_blocks) {
        Some(false) => "",
        Some(true) => " (p99 is not resolved in every trial: the medians of its blocks are used instead)",
        None => " (p99 is not resolved in every trial)",
    };
    let many = says::number(trials.len());
    let mut spreads: Vec<Spread> = std::iter::once(p50).chain(p99).collect();
    adjust(&mut spreads);
    let differing: Vec<&Spread> = spreads.iter().filter(|spread| !spread.repeats()).collect();
    let mut verdict = if differing.is_empty() {
        let within: Vec<String> = spreads.iter().map(Spread::says).collect();
        let within = says::list(&within);
        let says = match spreads.iter().all(Spread::is_small) {
            true => format!("yes: {many} trials agree within {within}{unresolved}"),
            false => format!(
                "yes: {many} trials lie {within} apart, no more than the changes within a trial explain{unresolved}"
            ),
        };
        Verdict::new("repeats", Level::Ok, says)
    } else {
        let apart: Vec<String> = differing.iter().map(|spread| spread.says()).collect();
        let p = differing.iter().map(|spread| spread.p_value).fold(1.0, f64::min);
        let says = format!(
            "no: {many} trials of {metric} lie {} apart, more than the changes within a trial explain (p = {p:.1e}){unresolved}",
            says::list(&apart)
        );
        Verdict::new("repeats", Level::Warning, says)
    };
    for spread in &spreads {
        verdict = spread.tells(verdict);
    }
    complete(verdict).with("blocks_per_trial", p50_blocks.iter().map(|blocks| blocks.len()).min().unwrap_or(0) as u64)
}

/// Of a metric that a rule refuses: there are no figures that could repeat.
pub fn refused(stream: &str, metric: Metric, rule: &str) -> Verdict {
    let says = format!("not judged: {metric} is refused ({rule})");
    Verdict::new("repeats", Level::Note, says).with("stream", stream).with("metric", metric.to_string())
}

/// Blocks of a trial: many enough that how much neighbours hang together can be seen, and reckoned
/// with.
pub const BLOCKS: u64 = 128;
/// The fewest packets of a block.
const LEAST_PACKETS: u64 = 10;

/// Block values of one trial, in the order of time. What never arrived counts as infinite
/// ([`INFINITE`]).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Blocks {
    /// The median of each block, ns.
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
        let size = intended.div_ceil(BLOCKS).max(LEAST_PACKETS);
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

// Does one of several trials lie apart from the others by more than the changes within a trial
// explain?
//
// Blocks of a trial that follow each other resemble each other if something lasts longer than a
// block: a throttled CPU, a busy neighbour. A test that takes them as independent then finds
// differences that are none. How much blocks hang together is not known, so the test is made for
// many degrees of it, each exact by generalised least squares, and the chances are averaged by how
// well each degree fits the blocks (the restricted likelihood: Patterson and Thompson 1971,
// Harville 1974).
//
// A degree is a pair: what is slow falls off by `rho` from block to block, and a share `noise` of
// the variance is each block's own. `docs/method/repeats.md` shows the results.

/// Correlation of the slow part from block to block. An even prior over these: each weighs as much
/// as the stretch around it.
const RHO: [f64; 17] = [-0.4, -0.2, -0.1, 0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.94, 0.97, 0.99];
/// Shares of the variance that are each block's own, all as likely before the blocks are seen.
const NOISE: [f64; 4] = [0.0, 0.3, 0.6, 0.85];
/// In fewer blocks a trial, something slow below noise looks like no correlation at all,
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
