// SPDX-License-Identifier: MIT OR Apache-2.0
//! Does the cell repeat: would another trial have given the same figures?
//!
//! Packets of one trial hang together, so trials are not compared packet by packet: each is cut
//! into blocks of time, and the blocks' medians (and 99th percentiles) are compared by a rank test
//! that reckons with blocks that hang together too ([`apart`]). A difference that is statistically
//! sure but too small to matter still counts as repeating.

pub mod apart;

use crate::clusters::INFINITE;
use crate::says;
use crate::statistics::rank_of;
use apart::{Apart, apart};
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

    fn repeats(&self) -> bool {
        self.p_value >= LEAST_P || (self.spread_ns != INFINITE && self.spread_ns as f64 <= self.allowed_ns)
    }

    /// How far the trials lie apart, in words.
    fn says(&self) -> String {
        if self.spread_ns == INFINITE { "infinitely far".to_owned() } else { says::time(self.spread_ns) }
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
    let undecided = |why: String| complete(Verdict::new("repeats", Level::Note, format!("not told: {why}")));
    if trials.len() < LEAST_TRIALS {
        let have = says::count(trials.len() as u64, "valid trial", "valid trials");
        return undecided(format!("{have}, at least {} are needed", says::number(LEAST_TRIALS)));
    }
    if let Some(short) = trials.iter().find(|trial| trial.blocks.p50_ns.len() < LEAST_BLOCKS) {
        return undecided(format!("trial {} has too few packets to cut into {LEAST_BLOCKS} blocks", short.n));
    }
    let p50_blocks: Vec<&[i64]> = trials.iter().map(|trial| trial.blocks.p50_ns.as_slice()).collect();
    let p99_blocks: Vec<&[i64]> = trials.iter().map(|trial| trial.blocks.p99_ns.as_slice()).collect();
    let p50s: Vec<Option<i64>> = trials.iter().map(|trial| trial.p50_ns).collect();
    let p99s: Vec<Option<i64>> = trials.iter().map(|trial| trial.p99_ns).collect();
    let p50 = Spread::of("p50", P50_SHARE, &p50s, &p50_blocks).filter(|p50| !p50.by_blocks);
    let p99 = Spread::of("p99", P99_SHARE, &p99s, &p99_blocks);
    let Some(p50) = p50 else {
        return undecided(format!("a trial has no p50 of {metric}"));
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
        let within: Vec<String> =
            spreads.iter().map(|spread| format!("{} at {}", spread.says(), spread.name)).collect();
        let says = format!("yes: {many} trials agree within {}{unresolved}", says::list(&within));
        Verdict::new("repeats", Level::Ok, says)
    } else {
        let apart: Vec<String> = differing
            .iter()
            .map(|spread| {
                let share = spread.share.map_or_else(String::new, |share| format!(" ({})", says::share(share)));
                format!("{}{share} at {}", spread.says(), spread.name)
            })
            .collect();
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

/// Blocks of a trial: many enough that how much neighbours hang together can be seen, and reckoned
/// with.
pub const BLOCKS: u64 = 128;
/// The fewest packets of a block.
const LEAST_PACKETS: u64 = 10;

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
