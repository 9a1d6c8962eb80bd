// SPDX-License-Identifier: MIT OR Apache-2.0
//! The first or the last packet of each trial compared with its neighbours.
//!
//! A packet's rank among values that hang together is not what chance makes of independent ones: a
//! trial that begins in a slow stretch has many slow packets at its beginning. So the neighbours
//! are taken so far apart that they no longer hang together, and if they do at every distance
//! that is tried, tardy reports nothing.

use super::{Difference, KEPT};
use crate::statistics::{fisher, median};
use tardy_model::sample::MaybeNanos;

/// Neighbours that a packet is ranked among, at most.
pub const NEIGHBOURS: usize = 256;
/// Fewer than this cannot be called its neighbourhood.
const LEAST_NEIGHBOURS: usize = 31;
/// With fewer trials nothing is reported.
pub const LEAST_TRIALS: u32 = 5;
/// Distances between neighbours that are tried, in packets.
const SPACINGS: [usize; 5] = [1, 2, 4, 8, 16];
/// Rows that are examined: the packet, and neighbours at the greatest distance.
pub const ROWS: usize = NEIGHBOURS * SPACINGS[SPACINGS.len() - 1] + 1;
/// Neighbours whose ranks correlate by more than this hang together.
const MOST_CORRELATED: f64 = 0.1;

/// Rank of the packet at one spacing.
#[derive(Clone, Copy, Debug, Default)]
struct Rank {
    upper_ln_p: f64,
    lower_ln_p: f64,
    neighbours_ns: i64,
}

/// Sums from which a correlation follows.
#[derive(Clone, Copy, Debug, Default)]
struct Products {
    products: f64,
    pairs: u64,
}

/// A packet in one trial, ranked among its neighbours there.
#[derive(Clone, Copy, Debug)]
pub struct OfTrial {
    value_ns: i64,
    ranks: [Option<Rank>; SPACINGS.len()],
    /// Of the ranks, and of their distances from the middle: bursts of noise hang together too.
    products: [[Products; SPACINGS.len()]; 2],
    squares: [Products; 2],
}

impl OfTrial {
    /// `values[0]` is the packet's, the others' come by their distance from it. `None` if it has
    /// no value, or too few have.
    pub fn new(values: &[MaybeNanos]) -> Option<OfTrial> {
        let (packet, beside) = values.split_first()?;
        let value_ns = packet.get()?;
        let rank = |spacing: usize| {
            let mut others: Vec<i64> =
                beside.iter().skip(spacing - 1).step_by(spacing).filter_map(|v| v.get()).take(NEIGHBOURS).collect();
            let count = |is: &dyn Fn(&i64) -> bool| others.iter().filter(|other| is(other)).count();
            if others.len() < LEAST_NEIGHBOURS {
                return None;
            }
            // Equal ones count against the claim on either side.
            let (above, below) = (count(&|other| *other >= value_ns), count(&|other| *other <= value_ns));
            let ln_p = |as_far: usize| ((1 + as_far) as f64 / (1 + others.len()) as f64).ln();
            let (upper_ln_p, lower_ln_p) = (ln_p(above), ln_p(below));
            Some(Rank { upper_ln_p, lower_ln_p, neighbours_ns: median(&mut others)? })
        };
        let ranks = SPACINGS.map(rank);
        ranks[0]?;
        let (mut products, mut squares) = ([[Products::default(); SPACINGS.len()]; 2], [Products::default(); 2]);
        let scores = scores(beside);
        for (kind, scores) in scores.iter().enumerate() {
            squares[kind] = Products::of(scores, 0);
            products[kind] = SPACINGS.map(|spacing| Products::of(scores, spacing));
        }
        Some(OfTrial { value_ns, ranks, products, squares })
    }
}

impl Products {
    fn of(scores: &[Option<f64>], lag: usize) -> Products {
        let pairs = scores.iter().zip(scores.iter().skip(lag)).filter_map(|(a, b)| Some((*a)? * (*b)?));
        pairs.fold(Products::default(), |all, product| Products {
            products: all.products + product,
            pairs: all.pairs + 1,
        })
    }

    fn add(&mut self, other: Products) {
        self.products += other.products;
        self.pairs += other.pairs;
    }

    fn mean(self) -> f64 {
        if self.pairs == 0 { 0.0 } else { self.products / self.pairs as f64 }
    }
}

/// The values' ranks from −½ to ½, and how far each is from the middle, less the mean of that.
/// Equal values share a rank.
fn scores(values: &[MaybeNanos]) -> [Vec<Option<f64>>; 2] {
    let mut sorted: Vec<(i64, usize)> = values.iter().enumerate().filter_map(|(at, v)| Some((v.get()?, at))).collect();
    sorted.sort_unstable();
    let mut ranks = vec![None; values.len()];
    let mut before = 0usize;
    for equal in sorted.chunk_by(|a, b| a.0 == b.0) {
        let rank = (before as f64 + equal.len() as f64 / 2.0) / sorted.len() as f64 - 0.5;
        equal.iter().for_each(|(_, at)| ranks[*at] = Some(rank));
        before += equal.len();
    }
    let mean = ranks.iter().flatten().map(|rank: &f64| rank.abs()).sum::<f64>() / sorted.len().max(1) as f64;
    let spread = ranks.iter().map(|rank| rank.map(|rank| rank.abs() - mean)).collect();
    [ranks, spread]
}

/// The trials of a cell.
#[derive(Clone, Debug, Default)]
pub struct EdgePool {
    ranked: [u32; SPACINGS.len()],
    upper_ln_p: [f64; SPACINGS.len()],
    lower_ln_p: [f64; SPACINGS.len()],
    /// The packets' values, and their neighbours' medians at each spacing.
    values: Vec<(i64, [Option<i64>; SPACINGS.len()])>,
    products: [[Products; SPACINGS.len()]; 2],
    squares: [Products; 2],
    ends_ns: Option<(i64, i64)>,
}

impl EdgePool {
    pub fn add(&mut self, trial: &OfTrial) {
        for (at, rank) in trial.ranks.iter().enumerate() {
            let Some(rank) = rank else { continue };
            self.ranked[at] += 1;
            self.upper_ln_p[at] += rank.upper_ln_p;
            self.lower_ln_p[at] += rank.lower_ln_p;
        }
        if self.values.len() < KEPT {
            self.values.push((trial.value_ns, trial.ranks.map(|rank| Some(rank?.neighbours_ns))));
        }
        for kind in 0..2 {
            self.squares[kind].add(trial.squares[kind]);
            let pairs = self.products[kind].iter_mut().zip(trial.products[kind]);
            pairs.for_each(|(all, one)| all.add(one));
        }
        let (least, greatest) = self.ends_ns.unwrap_or((trial.value_ns, trial.value_ns));
        self.ends_ns = Some((least.min(trial.value_ns), greatest.max(trial.value_ns)));
    }

    /// True if neighbours at this spacing hang together.
    fn hangs_together(&self, spacing: usize) -> bool {
        (0..2).any(|kind| {
            let variance = self.squares[kind].mean();
            variance > 0.0 && (self.products[kind][spacing].mean() / variance).abs() > MOST_CORRELATED
        })
    }

    /// What was found; `None` where it cannot be known.
    pub fn test(&self) -> Option<Difference> {
        let at = (0..SPACINGS.len()).find(|at| !self.hangs_together(*at))?;
        let trials = self.ranked[at];
        if trials < LEAST_TRIALS {
            return None;
        }
        let upper = fisher(-2.0 * self.upper_ln_p[at], trials);
        let lower = fisher(-2.0 * self.lower_ln_p[at], trials);
        let with: Vec<(i64, i64)> = self.values.iter().filter_map(|(value, of)| Some((*value, of[at]?))).collect();
        let mut differences: Vec<i64> = with.iter().map(|(value, beside)| value.saturating_sub(*beside)).collect();
        let (least_ns, greatest_ns) = self.ends_ns?;
        Some(Difference {
            p_value: (2.0 * upper.min(lower)).min(1.0),
            difference_ns: median(&mut differences)?,
            affected_ns: median(&mut with.iter().map(|(value, _)| *value).collect::<Vec<_>>())?,
            others_ns: median(&mut with.iter().map(|(_, beside)| *beside).collect::<Vec<_>>())?,
            packets: u64::from(trials),
            comparisons: u64::from(trials),
            least_ns,
            greatest_ns,
            class: None,
            from_each: None,
        })
    }
}
