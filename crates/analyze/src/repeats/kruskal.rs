// SPDX-License-Identifier: MIT OR Apache-2.0
//! The Kruskal–Wallis test: do several groups of values come from one distribution?
//!
//! Kruskal and Wallis 1952, "Use of ranks in one-criterion variance analysis", J. Am. Stat. Assoc. 47: H from the rank sums,
//! corrected for ties, against the chi-square distribution with groups − 1 degrees of freedom.

/// What the test found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KruskalWallis {
    /// The statistic, corrected for ties.
    pub h: f64,
    /// Degrees of freedom.
    pub degrees: u32,
    /// The chance of such an H or a greater one if all groups are alike.
    pub p_value: f64,
}

/// Tests groups of values; `None` with fewer than two groups that hold something.
pub fn kruskal_wallis(groups: &[&[i64]]) -> Option<KruskalWallis> {
    let groups: Vec<&[i64]> = groups.iter().copied().filter(|group| !group.is_empty()).collect();
    if groups.len() < 2 {
        return None;
    }
    let mut all: Vec<(i64, usize)> =
        groups.iter().enumerate().flat_map(|(group, values)| values.iter().map(move |value| (*value, group))).collect();
    all.sort_unstable();
    let n = all.len() as f64;
    let mut rank_sums = vec![0.0; groups.len()];
    let (mut ties, mut before) = (0.0, 0usize);
    for equal in all.chunk_by(|a, b| a.0 == b.0) {
        let t = equal.len() as f64;
        // Equal values share the mean of their ranks.
        let rank = before as f64 + (t + 1.0) / 2.0;
        equal.iter().for_each(|(_, group)| rank_sums[*group] += rank);
        ties += t * t * t - t;
        before += equal.len();
    }
    let degrees = groups.len() as u32 - 1;
    let correction = 1.0 - ties / (n * n * n - n);
    if correction <= 0.0 {
        // All values are equal: nothing speaks against one distribution.
        return Some(KruskalWallis { h: 0.0, degrees, p_value: 1.0 });
    }
    let between: f64 = rank_sums.iter().zip(&groups).map(|(sum, group)| sum * sum / group.len() as f64).sum();
    let h = ((12.0 / (n * (n + 1.0)) * between - 3.0 * (n + 1.0)) / correction).max(0.0);
    Some(KruskalWallis { h, degrees, p_value: chi_square_tail(h, degrees) })
}

/// The chance that a chi-square variable with `degrees` (at least 1) degrees of freedom is greater than `x`: the upper
/// regularised incomplete gamma function Q(degrees/2, x/2), by its series below a + 1 (Abramowitz and Stegun 6.5.29) and by
/// Lentz's evaluation of its continued fraction above (6.5.31).
pub fn chi_square_tail(x: f64, degrees: u32) -> f64 {
    let (a, x) = (f64::from(degrees.max(1)) / 2.0, x / 2.0);
    if x.is_nan() || x <= 0.0 {
        return 1.0;
    }
    let front = (a * x.ln() - x - ln_gamma_of_half(degrees.max(1))).exp();
    if x < a + 1.0 {
        let (mut term, mut sum, mut k) = (1.0 / a, 1.0 / a, a);
        while term > sum * f64::EPSILON {
            k += 1.0;
            term *= x / k;
            sum += term;
        }
        return (1.0 - front * sum).clamp(0.0, 1.0);
    }
    let mut b = x + 1.0 - a;
    let mut c = 1.0 / f64::MIN_POSITIVE;
    let mut d = 1.0 / b;
    let mut fraction = d;
    for i in 1..10_000u32 {
        let i = f64::from(i);
        let numerator = -i * (i - a);
        b += 2.0;
        d = 1.0 / (numerator * d + b);
        c = b + numerator / c;
        let step = d * c;
        fraction *= step;
        if (step - 1.0).abs() < f64::EPSILON {
            break;
        }
    }
    (front * fraction).clamp(0.0, 1.0)
}

/// ln Γ(n/2), from Γ(1/2) = √π, Γ(1) = 1 and Γ(z + 1) = z·Γ(z).
fn ln_gamma_of_half(n: u32) -> f64 {
    let (start, mut ln) = if n.is_multiple_of(2) { (2, 0.0) } else { (1, std::f64::consts::PI.ln() / 2.0) };
    let mut z = start;
    while z < n {
        ln += (f64::from(z) / 2.0).ln();
        z += 2;
    }
    ln
}
