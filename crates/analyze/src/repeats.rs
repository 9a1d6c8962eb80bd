// SPDX-License-Identifier: MIT OR Apache-2.0
//! Does the cell repeat: would another trial have given the same figures?
//!
//! Packets of one trial hang together, so trials are not compared packet by packet: each is cut into blocks of time, and the
//! blocks' medians (and 99th percentiles) are compared by the Kruskal–Wallis test. A difference that is statistically sure
//! but too small to matter still counts as repeating.

pub mod blocks;
pub mod kruskal;

use crate::says;
use blocks::Blocks;
use kruskal::{KruskalWallis, kruskal_wallis};
use tardy_model::point::Metric;
use tardy_model::verdict::{Figure, Level, Verdict};

/// Fewer valid trials than this say nothing of repeatability.
pub const LEAST_TRIALS: usize = 5;
/// Fewer blocks than this in a trial cannot be ranked against the others'.
pub const LEAST_BLOCKS: usize = 5;
/// Below this chance the trials differ by more than luck. One in a hundred, for every cell of a matrix is tested.
pub const LEAST_P: f64 = 0.01;
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
    /// Its blocks.
    pub blocks: Blocks,
    /// Median of the whole trial, ns.
    pub p50_ns: Option<i64>,
    /// 99th percentile of the whole trial, ns; `None` if it is not resolved.
    pub p99_ns: Option<i64>,
}

/// How one figure varies over the trials.
struct Spread {
    name: &'static str,
    values: Vec<i64>,
    spread_ns: i64,
    /// Of the middle one; `None` if that is 0.
    share: Option<f64>,
    test: KruskalWallis,
    repeats: bool,
}

impl Spread {
    fn of(name: &'static str, share: f64, values: Option<Vec<i64>>, blocks: &[&[i64]]) -> Option<Spread> {
        let values = values?;
        let mut sorted = values.clone();
        sorted.sort_unstable();
        let (first, last, middle) = (*sorted.first()?, *sorted.last()?, *sorted.get(sorted.len() / 2)?);
        let spread_ns = last.saturating_sub(first);
        let test = kruskal_wallis(blocks)?;
        let allowed = (middle.unsigned_abs() as f64 * share).max(LEAST_SPREAD_NS as f64);
        let repeats = test.p_value >= LEAST_P || spread_ns as f64 <= allowed;
        let share = (middle != 0).then(|| spread_ns as f64 / middle.unsigned_abs() as f64);
        Some(Spread { name, values, spread_ns, share, test, repeats })
    }

    fn tells(&self, verdict: Verdict) -> Verdict {
        let values = self.values.iter().map(|value| Figure::Int(*value)).collect();
        let verdict = match self.share {
            Some(share) => verdict.with(&format!("{}_spread_share", self.name), share),
            None => verdict,
        };
        verdict
            .with(&format!("{}_spread_ns", self.name), self.spread_ns)
            .with(&format!("{}_p_value", self.name), self.test.p_value)
            .with(&format!("{}_by_trial_ns", self.name), Figure::List(values))
    }
}

/// Judges a cell by one span metric of one stream. The trials are the valid ones.
pub fn judge(stream: &str, metric: Metric, trials: &[TrialBlocks]) -> Verdict {
    let numbers = || Figure::List(trials.iter().map(|trial| Figure::from(trial.n)).collect());
    let complete =
        |verdict: Verdict| verdict.with("stream", stream).with("metric", metric.to_string()).with("trials", numbers());
    let not_told = |why: String| complete(Verdict::new("repeats", Level::Note, format!("not told: {why}")));
    if trials.len() < LEAST_TRIALS {
        let have = says::count(trials.len() as u64, "valid trial", "valid trials");
        return not_told(format!("{have}, at least {} are needed", says::number(LEAST_TRIALS)));
    }
    if let Some(short) = trials.iter().find(|trial| trial.blocks.p50_ns.len() < LEAST_BLOCKS) {
        return not_told(format!("trial {} has too few packets to cut into {LEAST_BLOCKS} blocks", short.n));
    }
    let p50_blocks: Vec<&[i64]> = trials.iter().map(|trial| trial.blocks.p50_ns.as_slice()).collect();
    let p99_blocks: Vec<&[i64]> = trials.iter().map(|trial| trial.blocks.p99_ns.as_slice()).collect();
    let p50 = Spread::of("p50", P50_SHARE, trials.iter().map(|trial| trial.p50_ns).collect(), &p50_blocks);
    let p99 = Spread::of("p99", P99_SHARE, trials.iter().map(|trial| trial.p99_ns).collect(), &p99_blocks);
    let Some(p50) = p50 else {
        return not_told(format!("a trial has no p50 of {metric}"));
    };
    let many = says::number(trials.len());
    let spreads: Vec<&Spread> = [Some(&p50), p99.as_ref()].into_iter().flatten().collect();
    let differing: Vec<&&Spread> = spreads.iter().filter(|spread| !spread.repeats).collect();
    let mut verdict = if differing.is_empty() {
        let within: Vec<String> =
            spreads.iter().map(|spread| format!("{} at {}", says::time(spread.spread_ns), spread.name)).collect();
        let unresolved = if p99.is_none() { " (p99 is not resolved in every trial)" } else { "" };
        let says = format!("yes: {many} trials agree within {}{unresolved}", says::list(&within));
        Verdict::new("repeats", Level::Ok, says)
    } else {
        let apart: Vec<String> = differing
            .iter()
            .map(|spread| {
                let share = spread.share.map_or_else(String::new, |share| format!(" ({})", says::share(share)));
                format!("{}{share} at {}", says::time(spread.spread_ns), spread.name)
            })
            .collect();
        let p = differing.iter().map(|spread| spread.test.p_value).fold(1.0, f64::min);
        let says = format!(
            "no: {many} trials of {metric} lie {} apart, which is not chance (p = {p:.1e})",
            says::list(&apart)
        );
        Verdict::new("repeats", Level::Warning, says)
    };
    for spread in spreads {
        verdict = spread.tells(verdict);
    }
    complete(verdict).with("blocks_per_trial", p50_blocks.iter().map(|blocks| blocks.len()).min().unwrap_or(0) as u64)
}
