// SPDX-License-Identifier: MIT OR Apache-2.0
//! What tx stamps add to figures: the interval holds the truth, and the sentence names what was
//! measured.

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use tardy_lab::observer::added;

/// Latencies with a long tail.
fn draw(random: &mut Pcg64Mcg, count: usize, more: i64) -> Vec<i64> {
    let one = |random: &mut Pcg64Mcg| 10_000.0 - 3_000.0 * random.random::<f64>().max(1e-9).ln();
    (0..count).map(|_| one(random) as i64 + more).collect()
}

/// Four trials of 30 packets, whose own shifts lie as far apart as this.
fn trials(random: &mut Pcg64Mcg, apart: f64, more: i64) -> Vec<Vec<i64>> {
    let normal = |random: &mut Pcg64Mcg| {
        let [radius, angle] = [random.random::<f64>().max(1e-12), random.random::<f64>()];
        (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * angle).cos()
    };
    (0..4)
        .map(|_| (apart * normal(random)) as i64 + more)
        .collect::<Vec<_>>()
        .into_iter()
        .map(|shift| draw(random, 30, shift))
        .collect()
}

/// At least 950 are expected; the standard deviation of such a count is 7.
#[test]
fn the_interval_of_what_stamps_add_holds_the_truth_as_often_as_it_says() {
    let mut random = Pcg64Mcg::seed_from_u64(14);
    for (more, apart) in [(0, 0.0), (3_600, 0.0), (0, 2_000.0), (3_600, 20_000.0)] {
        let mut held = 0;
        for _ in 0..1_000 {
            let (with, without) = (trials(&mut random, apart, more), trials(&mut random, apart, 0));
            let (added, low, high) = added(&with, &without).expect("enough packets");
            assert!(low <= high, "{added}");
            held += u32::from((low..=high).contains(&more));
        }
        assert!(held >= 930, "{more}, trials {apart} ns apart: {held} of 1 000");
    }
}

#[test]
fn stamps_were_said_to_make_a_wake_up_earlier_where_two_trials_were_another_machine() {
    // As seen: a program that computed on the same CPU during some of the short trials.
    let with = [9_000, 15_000, 9_400, 15_200].map(|at| vec![at; 30]).to_vec();
    let without = [15_100, 14_900, 15_300, 9_100].map(|at| vec![at; 30]).to_vec();
    let (_, low, high) = added(&with, &without).expect("enough packets");
    assert!(low < 0 && high > 0, "{low} to {high}");
}

#[test]
fn of_few_packets_nothing_is_said() {
    let few = |of: &[usize], value: i64| of.iter().map(|packets| vec![value; *packets]).collect::<Vec<_>>();
    assert_eq!(added(&few(&[19, 19], 5), &few(&[400, 400], 3)), None);
    assert_eq!(added(&few(&[20], 5), &few(&[20], 3)), None, "one trial does not tell how far trials lie apart");
    assert_eq!(added(&few(&[20, 20], 5), &few(&[20, 20, 7], 3)), Some((2, 2, 2)));
}
