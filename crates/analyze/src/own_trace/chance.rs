// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tail probabilities that do not rest on large numbers of trials.

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
