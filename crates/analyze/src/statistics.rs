// SPDX-License-Identifier: MIT OR Apache-2.0
//! Moments, nearest ranks, and chances for tests that do not rest on large numbers of trials or on
//! normal values: combined and binomial chances, normal scores of ranks, the tails of Student's t
//! distribution.

use std::collections::BTreeMap;
use tardy_model::expect::QUANTILES;
use tardy_model::result::Quantiles;

/// Count, sum and sum of squares of nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moments {
    count: u64,
    sum: i128,
    /// Of the sum of squares, what fits, and how often it did not.
    squares: u128,
    carries: u64,
}

impl Moments {
    pub fn add(&mut self, values_ns: &[i64]) {
        values_ns.iter().for_each(|value_ns| self.add_n(*value_ns, 1));
    }

    /// Counts a value `n` times.
    #[inline]
    pub fn add_n(&mut self, value_ns: i64, n: u64) {
        let square = u128::from(value_ns.unsigned_abs()).pow(2);
        self.count += n;
        self.sum = self.sum.saturating_add(i128::from(value_ns) * i128::from(n));
        // At most 126 and 64 bits: the upper half by itself, so that nothing overflows.
        let upper = (square >> 64) * u128::from(n);
        self.add_squares(u128::from(square as u64) * u128::from(n), 0);
        self.add_squares(upper << 64, (upper >> 64) as u64);
    }

    fn add_squares(&mut self, squares: u128, carries: u64) {
        let (sum, carry) = self.squares.overflowing_add(squares);
        self.squares = sum;
        self.carries += carries + u64::from(carry);
    }

    pub fn merge(&mut self, other: &Moments) {
        self.count += other.count;
        self.sum = self.sum.saturating_add(other.sum);
        self.add_squares(other.squares, other.carries);
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    /// Mean, ns; `None` without values.
    pub fn mean(&self) -> Option<f64> {
        if self.count == 0 {
            return None;
        }
        let (whole, rest) = self.floor_mean();
        Some(whole as f64 + rest as f64 / self.count as f64)
    }

    /// Standard deviation with n − 1, ns; `None` below two values.
    pub fn stddev(&self) -> Option<f64> {
        if self.count < 2 {
            return None;
        }
        // Σ(v−m)² = Σv² − 2mΣv + nm² about the integer m below the mean: exact if it is below
        // 2^128 itself, for what the terms have above that cancels out.
        let (m, rest) = self.floor_mean();
        let n = i128::from(self.count);
        let terms = m.wrapping_mul(self.sum).wrapping_mul(2).wrapping_sub(m.wrapping_mul(m).wrapping_mul(n));
        let exact = self.squares.wrapping_sub(terms as u128);
        let squares = self.carries as f64 * 2f64.powi(128) + self.squares as f64;
        let near = squares - (m as f64) * (m as f64) * n as f64 - 2.0 * m as f64 * rest as f64;
        // Only spreads of many years come near it; then rounded terms are good enough.
        let about = if near < 2f64.powi(125) { exact as f64 } else { near };
        let variance = (about - (rest as f64).powi(2) / n as f64) / (n - 1) as f64;
        Some(variance.max(0.0).sqrt())
    }

    fn floor_mean(&self) -> (i128, i128) {
        let n = i128::from(self.count.max(1));
        (self.sum.div_euclid(n), self.sum.rem_euclid(n))
    }
}

/// A quantile as parts of ten thousand, so that ranks are whole-number arithmetic: `0.9999 × n` in
/// floating point may lie just above the rank that is meant.
fn parts(q: f64) -> u64 {
    (q * 10_000.0).round() as u64
}

/// Nearest rank `ceil(q·n)`, from 1; 0 if `n` is 0.
pub fn rank_of(q: f64, n: u64) -> u64 {
    let rank = (u128::from(parts(q)) * u128::from(n)).div_ceil(10_000);
    u64::try_from(rank).unwrap_or(u64::MAX).max(u64::from(n > 0))
}

/// Packets below which a percentile cannot have `clusters` separate packets beyond it.
pub fn packets_for(q: f64, clusters: u32) -> u64 {
    (u64::from(clusters) * 10_000).div_ceil(10_000u64.saturating_sub(parts(q)).max(1))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantile {
    /// It has this value, ns.
    Value(i64),
    /// Its rank falls on a packet that never arrived.
    Infinite,
    /// Too few separate clusters lie beyond it.
    Unresolved,
    /// It depends on packets that were received without a stamp: the least and the greatest that
    /// it can be, ns; `None` where nothing is known.
    Between([Option<i64>; 2]),
}

/// Figures, and the names of those that are null with the reason.
pub(crate) struct Named {
    pub quantiles: Quantiles,
    pub infinite: Vec<String>,
    pub unresolved: Vec<String>,
    pub between_ns: BTreeMap<String, [Option<i64>; 2]>,
}

pub(crate) fn named(found: [Quantile; QUANTILES.len()]) -> Named {
    let each = || QUANTILES.iter().zip(found).map(|((_, name, _), q)| ((*name).to_owned(), q));
    let names = |is: fn(&Quantile) -> bool| each().filter(|(_, q)| is(q)).map(|(name, _)| name).collect();
    Named {
        quantiles: Quantiles::from_array(found.map(|q| match q {
            Quantile::Value(ns) => Some(ns),
            Quantile::Infinite | Quantile::Unresolved | Quantile::Between(_) => None,
        })),
        infinite: names(|q| *q == Quantile::Infinite),
        unresolved: names(|q| matches!(q, Quantile::Unresolved | Quantile::Between(_))),
        between_ns: each()
            .filter_map(|(name, q)| match q {
                Quantile::Between(bounds) => Some((name, bounds)),
                _ => None,
            })
            .collect(),
    }
}

/// Fisher's way to combine independent tests (Fisher 1932, "Statistical Methods for Research
/// Workers", section 21.1): −2 Σ ln p follows chi-square with twice as many degrees of freedom as
/// there are tests. Where the p-values are discrete the answer is too large rather than too small.
/// With an even number of degrees of freedom the tail of chi-square is a sum of as many terms as
/// there are tests (Abramowitz and Stegun 26.4.21).
pub fn fisher(minus_two_ln_p: f64, tests: u32) -> f64 {
    let half = minus_two_ln_p / 2.0;
    if tests == 0 || half.is_nan() || half <= 0.0 {
        return 1.0;
    }
    let (mut ln_term, mut sum) = (-half, 0.0);
    for i in 1..=tests {
        sum += ln_term.exp();
        ln_term += half.ln() - f64::from(i).ln();
    }
    sum.min(1.0)
}

/// The chance of at least `k` hits in `n` independent tries that each hit with the chance `p`,
/// summed term by term. It is 1 where `k` is no more than what is to be expected.
pub fn binomial_tail(n: u64, k: u64, p: f64) -> f64 {
    if k as f64 <= n as f64 * p || !(0.0..1.0).contains(&p) {
        return 1.0;
    }
    if p == 0.0 || k > n {
        return 0.0;
    }
    let choose: f64 = (1..=k).map(|i| ((n - k + i) as f64 / i as f64).ln()).sum();
    let mut term = (choose + k as f64 * p.ln() + (n - k) as f64 * (-p).ln_1p()).exp();
    let (mut sum, odds) = (0.0, p / (1.0 - p));
    for j in k..=n {
        sum += term;
        term *= (n - j) as f64 / (j + 1) as f64 * odds;
        if term <= sum * f64::EPSILON {
            break;
        }
    }
    sum.min(1.0)
}

/// The middle of some values, of an even number the mean of the two; changes their order. `None`
/// of none.
pub fn median(values: &mut [i64]) -> Option<i64> {
    let half = values.len() / 2;
    if values.is_empty() {
        return None;
    }
    let odd = values.len() % 2 == 1;
    let (below, upper, _) = values.select_nth_unstable(half);
    let upper = *upper;
    let lower = if odd { upper } else { below.iter().copied().max()? };
    Some(((i128::from(lower) + i128::from(upper)) / 2) as i64)
}

/// The scores of groups of values, ranked all together. Equal values have one score, that of the
/// mean of their ranks.
pub fn scores(groups: &[&[i64]]) -> Vec<Vec<f64>> {
    let mut order: Vec<(i64, usize, usize)> = Vec::new();
    for (group, values) in groups.iter().enumerate() {
        order.extend(values.iter().enumerate().map(|(at, value)| (*value, group, at)));
    }
    order.sort_unstable();
    let n = order.len() as f64;
    let mut scores: Vec<Vec<f64>> = groups.iter().map(|values| vec![0.0; values.len()]).collect();
    let mut before = 0usize;
    for equal in order.chunk_by(|a, b| a.0 == b.0) {
        let rank = before as f64 + (equal.len() as f64 + 1.0) / 2.0;
        let score = normal_quantile((rank - 0.375) / (n + 0.25));
        equal.iter().for_each(|(_, group, at)| scores[*group][*at] = score);
        before += equal.len();
    }
    scores
}

/// The value below which a standard normal variable lies with probability `p`, strictly between 0
/// and 1, to nine digits: the rational approximations of P. J. Acklam, "An algorithm for computing
/// the inverse normal cumulative distribution function".
pub fn normal_quantile(p: f64) -> f64 {
    const A: [f64; 6] = [
        -3.969_683_028_665_376e1,
        2.209_460_984_245_205e2,
        -2.759_285_104_469_687e2,
        1.383_577_518_672_69e2,
        -3.066_479_806_614_716e1,
        2.506_628_277_459_239,
    ];
    const B: [f64; 6] = [
        -5.447_609_879_822_406e1,
        1.615_858_368_580_409e2,
        -1.556_989_798_598_866e2,
        6.680_131_188_771_972e1,
        -1.328_068_155_288_572e1,
        1.0,
    ];
    const C: [f64; 6] = [
        -7.784_894_002_430_293e-3,
        -3.223_964_580_411_365e-1,
        -2.400_758_277_161_838,
        -2.549_732_539_343_734,
        4.374_664_141_464_968,
        2.938_163_982_698_783,
    ];
    const D: [f64; 5] =
        [7.784_695_709_041_462e-3, 3.224_671_290_700_398e-1, 2.445_134_137_142_996, 3.754_408_661_907_416, 1.0];
    const TAIL: f64 = 0.02425;
    let polynomial = |by: &[f64], x: f64| by.iter().fold(0.0, |sum, factor| sum * x + factor);
    if p > 0.5 {
        return -normal_quantile(1.0 - p);
    }
    if p < TAIL {
        let q = (-2.0 * p.ln()).sqrt();
        return polynomial(&C, q) / polynomial(&D, q);
    }
    let q = p - 0.5;
    q * polynomial(&A, q * q) / polynomial(&B, q * q)
}

/// Student's t distribution for a number of degrees of freedom.
#[derive(Clone, Copy, Debug)]
pub struct Student {
    degrees: f64,
    /// ln B(degrees/2, 1/2), by which the incomplete beta function is normalised.
    ln_beta: f64,
}

impl Student {
    /// With `degrees` degrees of freedom, at least 1.
    pub fn new(degrees: u32) -> Self {
        let degrees = degrees.max(1);
        let ln_beta = ln_gamma_of_half(degrees) + ln_gamma_of_half(1) - ln_gamma_of_half(degrees + 1);
        Student { degrees: f64::from(degrees), ln_beta }
    }

    /// The chance of a value farther from 0 than `t`, on either side: the regularised incomplete
    /// beta function I_x(degrees/2, 1/2) at x = degrees / (degrees + t²) (Abramowitz and Stegun
    /// 26.7.1 and 26.5.27).
    pub fn beyond(&self, t: f64) -> f64 {
        let squared = t * t;
        if !squared.is_finite() {
            return 0.0;
        }
        let (x, rest) = (self.degrees / (self.degrees + squared), squared / (self.degrees + squared));
        let (a, b) = (self.degrees / 2.0, 0.5);
        if rest <= 0.0 {
            return 1.0;
        }
        let front = (a * x.ln() + b * rest.ln() - self.ln_beta).exp();
        let tail = if x < (a + 1.0) / (a + b + 2.0) {
            front * fraction(a, b, x) / a
        } else {
            1.0 - front * fraction(b, a, rest) / b
        };
        tail.clamp(0.0, 1.0)
    }
}

/// The continued fraction of the incomplete beta function (Abramowitz and Stegun 26.5.8) by
/// Lentz's method.
fn fraction(a: f64, b: f64, x: f64) -> f64 {
    let away_from_zero = |value: f64| if value.abs() < f64::MIN_POSITIVE { f64::MIN_POSITIVE } else { value };
    let mut c = 1.0;
    let mut d = 1.0 / away_from_zero(1.0 - (a + b) * x / (a + 1.0));
    let mut value = d;
    for m in 1..1_000u32 {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        for numerator in [even, odd] {
            d = 1.0 / away_from_zero(1.0 + numerator * d);
            c = away_from_zero(1.0 + numerator / c);
            value *= c * d;
        }
        if (c * d - 1.0).abs() < 1e-14 {
            break;
        }
    }
    value
}

/// ln Γ(n/2), from Γ(1/2) = √π, Γ(1) = 1 and Γ(z + 1) = z·Γ(z).
fn ln_gamma_of_half(n: u32) -> f64 {
    let (start, first) = if n.is_multiple_of(2) { (2, 0.0) } else { (1, std::f64::consts::PI.ln() / 2.0) };
    (start..n).step_by(2).fold(first, |ln, z| ln + (f64::from(z) / 2.0).ln())
}
