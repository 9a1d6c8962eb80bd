// SPDX-License-Identifier: MIT OR Apache-2.0
//! Normal scores of ranks: what a value would be if all of them came from a normal distribution.
//!
//! A test of means on the scores is a rank test that loses little where the values are normal and
//! is not led astray where one is far out or infinite (van der Waerden 1952; scores by Blom 1958,
//! (rank − 3/8) / (n + 1/4)).

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
