// SPDX-License-Identifier: MIT OR Apache-2.0
//! Repeatability: the test against textbook figures, the judgement against trials that agree and that do not.

use super::fixture::{LEAD, noise};
use tardy_analyze::clusters::INFINITE;
use tardy_analyze::repeats::blocks::{BlockPass, Blocks};
use tardy_analyze::repeats::kruskal::{chi_square_tail, kruskal_wallis};
use tardy_analyze::repeats::{TrialBlocks, judge};
use tardy_model::verdict::{Figure, Level};

#[test]
fn chi_square_tails_are_those_of_the_tables() {
    // The critical values of any table of the distribution.
    for (x, degrees, p) in [
        (3.841459, 1, 0.05),
        (5.991465, 2, 0.05),
        (9.487729, 4, 0.05),
        (13.276704, 4, 0.01),
        (18.307038, 10, 0.05),
        (0.710723, 4, 0.95),
        (124.342113, 100, 0.05),
        (10.827566, 1, 0.001),
    ] {
        assert!((chi_square_tail(x, degrees) - p).abs() < 1e-7, "{x} with {degrees}: {}", chi_square_tail(x, degrees));
    }
    // With two degrees it is exp(−x/2).
    assert!((chi_square_tail(50.0, 2) / (-25.0f64).exp() - 1.0).abs() < 1e-12);
    assert_eq!((chi_square_tail(0.0, 3), chi_square_tail(1e6, 3)), (1.0, 0.0));
}

#[test]
fn kruskal_wallis_gives_the_textbooks_h() {
    // Weights of pigs of eight litters have no ties to speak of; these three groups are the usual classroom case:
    // rank sums 61, 63.5 and 28.5 over six values each, H = 4.36 without the ties' correction.
    let groups: [&[i64]; 3] = [&[68, 93, 123, 83, 108, 122], &[119, 116, 101, 103, 113, 84], &[70, 68, 54, 73, 81, 68]];
    let test = kruskal_wallis(&groups).unwrap();
    let ranks = oracle_ranks(&groups);
    let plain = 12.0 / (18.0 * 19.0) * ranks.iter().map(|sum| sum * sum / 6.0).sum::<f64>() - 3.0 * 19.0;
    // One value stands thrice: the correction is 1 − 24/(18³ − 18).
    assert!((test.h - plain / (1.0 - 24.0 / 5_814.0)).abs() < 1e-9);
    assert_eq!(test.degrees, 2);
    assert!((test.p_value - (-test.h / 2.0).exp()).abs() < 1e-12);
}

fn oracle_ranks(groups: &[&[i64]]) -> Vec<f64> {
    let all: Vec<i64> = groups.concat();
    let rank = |value: i64| {
        let less = all.iter().filter(|other| **other < value).count() as f64;
        less + (all.iter().filter(|other| **other == value).count() as f64 + 1.0) / 2.0
    };
    groups.iter().map(|group| group.iter().map(|value| rank(*value)).sum()).collect()
}

#[test]
fn kruskal_wallis_by_hand_and_at_its_edges() {
    // Ranks 1 to 9 in three groups apart: rank sums 6, 15, 24; H = 12/90 · (36 + 225 + 576)/3 − 30 = 7.2.
    let test = kruskal_wallis(&[&[1, 2, 3], &[4, 5, 6], &[7, 8, 9]]).unwrap();
    assert!((test.h - 7.2).abs() < 1e-12 && (test.p_value - (-3.6f64).exp()).abs() < 1e-12);
    let equal = kruskal_wallis(&[&[4, 4], &[4, 4, 4]]).unwrap();
    assert_eq!((equal.h, equal.p_value), (0.0, 1.0));
    assert_eq!(kruskal_wallis(&[&[1, 2]]), None);
    assert_eq!(kruskal_wallis(&[&[1, 2], &[]]), None);
}

#[test]
fn a_trial_is_cut_into_twenty_blocks() {
    let values: Vec<i64> = (1..=1_000).collect();
    let mut pass = BlockPass::new(1_000);
    values.chunks(33).for_each(|values| pass.absorb(values));
    let blocks = pass.finish();
    assert_eq!(blocks.p50_ns, (0..20).map(|block| block * 50 + 25).collect::<Vec<i64>>());
    assert_eq!(blocks.p99_ns, (1..=20).map(|block| block * 50).collect::<Vec<i64>>());
    // The last block counts from half full on; what never arrived is infinite.
    let mut pass = BlockPass::new(200);
    pass.absorb(&[7; 14]);
    pass.absorb(&[INFINITE; 11]);
    assert_eq!(pass.finish(), Blocks { p50_ns: vec![7, INFINITE, INFINITE], p99_ns: vec![7, INFINITE, INFINITE] });
}

fn trial(n: u32, shift: i64, scale: i64) -> TrialBlocks {
    let values: Vec<i64> = noise(u64::from(n) + 40, 4_000).iter().map(|value| value * scale / 10 + shift).collect();
    let mut pass = BlockPass::new(4_000);
    pass.absorb(&values);
    let mut sorted = values;
    sorted.sort_unstable();
    TrialBlocks { n, blocks: pass.finish(), p50_ns: Some(sorted[1_999]), p99_ns: Some(sorted[3_959]) }
}

#[test]
fn trials_of_one_distribution_repeat() {
    let trials: Vec<TrialBlocks> = (1..=5).map(|n| trial(n, 0, 10)).collect();
    let verdict = judge("ctl", LEAD, &trials);
    assert_eq!((verdict.id.as_str(), verdict.level), ("repeats", Level::Ok), "{}", verdict.says);
    assert!(verdict.says.starts_with("yes: five trials agree within "), "{}", verdict.says);
    assert!(verdict.says.contains(" at p50 and ") && verdict.says.ends_with(" at p99"), "{}", verdict.says);
    assert_eq!(verdict.evidence["blocks_per_trial"], Figure::Int(20));
}

#[test]
fn a_trial_that_lies_apart_does_not_repeat() {
    let trials: Vec<TrialBlocks> = (1..=5).map(|n| trial(n, if n == 3 { 15_000 } else { 0 }, 10)).collect();
    let verdict = judge("ctl", LEAD, &trials);
    assert_eq!(verdict.level, Level::Warning);
    assert!(verdict.says.starts_with("no: five trials of scheduled..rx_kernel lie "), "{}", verdict.says);
    assert!(matches!(verdict.evidence["p50_p_value"], Figure::Float(p) if p < 0.01));
}

#[test]
fn a_sure_but_small_difference_does_not_matter() {
    // One per cent apart with hardly any noise: the test is sure, the user need not care.
    let trials: Vec<TrialBlocks> = (1..=6).map(|n| trial(n, 50_000 + i64::from(n) * 100, 0)).collect();
    let verdict = judge("ctl", LEAD, &trials);
    assert!(matches!(verdict.evidence["p50_p_value"], Figure::Float(p) if p < 0.01));
    assert_eq!(
        (verdict.level, verdict.says.as_str()),
        (Level::Ok, "yes: six trials agree within 0.5 µs at p50 and 0.5 µs at p99")
    );
}

#[test]
fn too_few_trials_or_blocks_tell_nothing() {
    let mut trials: Vec<TrialBlocks> = (1..=4).map(|n| trial(n, 0, 10)).collect();
    let verdict = judge("ctl", LEAD, &trials);
    assert_eq!(
        (verdict.level, verdict.says.as_str()),
        (Level::Note, "not told: 4 valid trials, at least five are needed")
    );
    trials.push(TrialBlocks { blocks: Blocks { p50_ns: vec![1], p99_ns: vec![1] }, ..trial(5, 0, 10) });
    assert!(judge("ctl", LEAD, &trials).says.contains("trial 5 has too few packets"));
    trials[4] = TrialBlocks { p99_ns: None, ..trial(5, 0, 10) };
    assert!(judge("ctl", LEAD, &trials).says.contains("p99 is not resolved"));
    trials[4] = TrialBlocks { p50_ns: None, ..trial(5, 0, 10) };
    assert_eq!(judge("ctl", LEAD, &trials).level, Level::Note);
}
