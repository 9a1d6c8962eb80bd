// SPDX-License-Identifier: MIT OR Apache-2.0
//! Trials compared with each other. Repeatability: the test against textbook figures, the judgement
//! against trials that agree and that do not. And what tx stamps add to figures: the interval holds
//! the truth, and the sentence names what was measured.

use super::fixture::{LEAD, noise, record};
use super::process::Process;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use tardy_analyze::clusters::INFINITE;
use tardy_analyze::observer;
use tardy_analyze::repeats::{BLOCKS, BlockPass, Blocks, apart};
use tardy_analyze::repeats::{TrialBlocks, judge};
use tardy_analyze::statistics::{Student, normal_quantile, scores};
use tardy_lab::observer::{added, within};
use tardy_model::point::{Metric, Point};
use tardy_model::trial::ObserverRecord;
use tardy_model::verdict::{Figure, Level};

#[test]
fn students_tails_are_those_of_the_tables() {
    // The critical values of any table of the distribution, two-sided.
    for (t, degrees, p) in [
        (12.706205, 1, 0.05),
        (4.302653, 2, 0.05),
        (2.570582, 5, 0.05),
        (4.032143, 5, 0.01),
        (2.085963, 20, 0.05),
        (3.849516, 20, 0.001),
        (1.983972, 100, 0.05),
        (0.676951, 100, 0.5),
        (1.9599664, 1_000_000, 0.05),
    ] {
        let found = Student::new(degrees).beyond(t);
        assert!((found / p - 1.0).abs() < 2e-6, "{t} with {degrees}: {found}");
    }
    // With one degree it is the Cauchy distribution, with two it is algebraic.
    assert!((Student::new(1).beyond(3.0) - (1.0 - 2.0 / std::f64::consts::PI * 3f64.atan())).abs() < 1e-12);
    assert!((Student::new(2).beyond(30.0) - (1.0 - 30.0 / 902f64.sqrt())).abs() < 1e-12);
    assert_eq!((Student::new(7).beyond(0.0), Student::new(7).beyond(f64::INFINITY)), (1.0, 0.0));
}

#[test]
fn normal_scores_are_those_of_the_tables() {
    for (p, z) in [(0.5, 0.0), (0.975, 1.959963985), (0.841344746, 1.0), (0.001, -3.090232306), (1e-9, -5.997807015)] {
        assert!((normal_quantile(p) - z).abs() < 1e-7, "{p}: {}", normal_quantile(p));
    }
    // Ranks 1 and 4 are mirrored, the two equal values share the rank 2.5 in the middle; what
    // never arrived is the greatest.
    let found = scores(&[&[5, 7], &[7, INFINITE]]);
    assert_eq!(found[0][0], -found[1][1]);
    assert!((found[1][1] - normal_quantile(3.625 / 4.25)).abs() < 1e-12 && found[0][1].abs() < 1e-12);
    assert_eq!(found[0][1], found[1][0]);
}

#[test]
fn trials_at_the_edges_of_the_test() {
    assert_eq!(apart(&[&[1, 2, 3]]), None);
    assert_eq!(apart(&[&[1, 2], &[]]), None);
    assert_eq!(apart(&[&[1], &[2]]), None);
    assert_eq!(apart(&[&[4, 4], &[4, 4, 4]]).map(|found| found.p_value), Some(1.0));
    // Trials without any change within them, one of them elsewhere.
    let still = [4i64; 20];
    let p_value = apart(&[&still, &still, &[5; 20], &still, &still]).map(|found| found.p_value);
    assert!(p_value.is_some_and(|p| p < 1e-9), "{p_value:?}");
    // How long they are does not matter: a short one that is like the others is.
    let long = noise(3, 128);
    let alike = apart(&[&long[..40], &long[40..50], &long[50..]]).map(|found| found.p_value);
    assert!(alike.is_some_and(|p| p > 0.05), "{alike:?}");
}

#[test]
fn the_correlation_of_neighbours_is_seen() {
    let seen = |rho| {
        let mut last = 0i64;
        let mut block = |value: &i64| {
            last = (rho * last as f64) as i64 + value - 20_000;
            last
        };
        let trials: Vec<Vec<i64>> = (1..=5).map(|n| noise(n, 128).iter().map(&mut block).collect()).collect();
        let trials: Vec<&[i64]> = trials.iter().map(Vec::as_slice).collect();
        apart(&trials).expect("five trials").correlation
    };
    for rho in [0.0, 0.3, 0.7, 0.9] {
        assert!((seen(rho) - rho).abs() < 0.1, "{rho}: {}", seen(rho));
    }
}

/// Of 1,000 seeded cells whose trials are equal, at most 30 get a warning. Of 1,000 in which one
/// trial of five is shifted by one standard deviation of a block, at least 800 do.
#[track_caller]
fn assert_rates(process: Process, is_found: bool) {
    let equal = process.warnings([0.0, 0.0]);
    assert!(equal <= 30, "{process:?}: {equal} of 1,000 cells whose trials are equal");
    if is_found {
        let shifted = process.warnings([1.0, 1.0]);
        assert!(shifted >= 800, "{process:?}: {shifted} of 1,000 cells with a shifted trial");
    }
}

#[test]
fn blocks_that_hang_together_are_not_taken_for_trials_that_differ() {
    for rho in [0.0, 0.3, 0.5, 0.7] {
        assert_rates(Process { blocks: BLOCKS as usize, rho, noise: 0.0 }, true);
    }
}

#[test]
fn few_blocks_that_hang_together_are_not_taken_for_trials_that_differ() {
    // docs/method/repeats.md says how much can be found at all where blocks are correlated: no test
    // finds 80 %.
    for rho in [0.0, 0.3, 0.5, 0.7] {
        assert_rates(Process { blocks: 20, rho, noise: 0.0 }, rho == 0.0);
        assert_rates(Process { blocks: 5, rho, noise: 0.0 }, false);
    }
}

#[test]
fn a_slow_disturbance_below_noise_is_not_taken_for_trials_that_differ() {
    for (rho, noise) in [(0.7, 0.5), (0.9, 0.5), (0.95, 0.8)] {
        let process = Process { blocks: BLOCKS as usize, rho, noise };
        let equal = process.warnings([0.0, 0.0]);
        assert!(equal <= 40, "{process:?}: {equal} of 1,000 cells whose trials are equal");
    }
}

#[test]
fn the_documents_table_is_what_the_code_gives() {
    let document = include_str!("../../../docs/method/repeats.md");
    let process = Process { blocks: BLOCKS as usize, rho: 0.7, noise: 0.0 };
    let line = document.lines().find(|line| line.starts_with("| 128 | 0.7 |")).expect("the line");
    let told: Vec<f64> =
        line.split('|').filter_map(|cell| cell.trim().strip_suffix('%')?.trim().parse().ok()).collect();
    for (told, shifts) in told.iter().zip([[0.0, 0.0], [1.0, 1.0], [1.0, 0.0]]) {
        // Another machine's logarithm may differ in its last digit, and so a try in its outcome.
        let made = process.warnings(shifts) as f64 / 10.0;
        assert!((told - made).abs() <= 0.3, "{shifts:?}: the document says {told} %, the code gives {made} %");
    }
    assert_eq!(told.len(), 4);
}

#[test]
fn one_of_two_figures_must_be_twice_as_sure() {
    // Of a cell whose medians differ and whose tails do not, the chance is doubled; where both are
    // as sure, it is not.
    let trials: Vec<TrialBlocks> = (1..=5).map(|n| trial(n, if n == 3 { 1_500 } else { 0 }, 10)).collect();
    let with_tails = |blocks: fn(&Blocks) -> Vec<i64>| {
        let change = |of: &TrialBlocks| {
            let blocks = Blocks { p50_ns: of.blocks.p50_ns.clone(), p99_ns: blocks(&of.blocks) };
            TrialBlocks { blocks, ..of.clone() }
        };
        let verdict = judge("ctl", LEAD, &trials.iter().map(change).collect::<Vec<_>>());
        ["p50_p_value", "p99_p_value"].map(|name| match verdict.evidence[name] {
            Figure::Float(p) => p,
            _ => f64::NAN,
        })
    };
    let p50_blocks: Vec<&[i64]> = trials.iter().map(|trial| trial.blocks.p50_ns.as_slice()).collect();
    let alone = apart(&p50_blocks).expect("five trials").p_value;
    assert_eq!(with_tails(|blocks| vec![9; blocks.p50_ns.len()]), [2.0 * alone, 1.0]);
    assert_eq!(with_tails(|blocks| blocks.p50_ns.clone()), [alone, alone]);
}

#[test]
fn a_trial_is_cut_into_blocks_of_equally_many_packets() {
    let values: Vec<i64> = (1..=6_400).collect();
    let mut pass = BlockPass::new(6_400);
    values.chunks(33).for_each(|values| pass.absorb(values));
    let blocks = pass.finish();
    let near = |found: &[i64], exact: Vec<i64>| {
        found.len() == exact.len() && found.iter().zip(&exact).all(|(found, exact)| (0..8).contains(&(found - exact)))
    };
    assert!(near(&blocks.p50_ns, (0..128).map(|block| block * 50 + 25).collect()), "{:?}", blocks.p50_ns);
    assert!(near(&blocks.p99_ns, (1..=128).map(|block| block * 50).collect()), "{:?}", blocks.p99_ns);
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
    assert_eq!(verdict.evidence["blocks_per_trial"], Figure::Int(125));
}

#[test]
fn a_trial_that_lies_apart_does_not_repeat() {
    let trials: Vec<TrialBlocks> = (1..=5).map(|n| trial(n, if n == 3 { 15_000 } else { 0 }, 10)).collect();
    let verdict = judge("ctl", LEAD, &trials);
    assert_eq!(verdict.level, Level::Warning);
    assert!(verdict.says.starts_with("no: five trials of scheduled..rx_kernel lie "), "{}", verdict.says);
    assert!(matches!(verdict.evidence["p50_p_value"], Figure::Float(p) if p < 0.001));
}

#[test]
fn a_sure_but_small_difference_does_not_matter() {
    // One per cent apart with hardly any noise: the test is sure, the user need not care.
    let trials: Vec<TrialBlocks> = (1..=6).map(|n| trial(n, 50_000 + i64::from(n) * 100, 0)).collect();
    let verdict = judge("ctl", LEAD, &trials);
    assert!(matches!(verdict.evidence["p50_p_value"], Figure::Float(p) if p < 0.001));
    let says = "yes: six trials agree within 0.5 µs (1.0 %) at p50 and 0.5 µs (1.0 %) at p99";
    assert_eq!((verdict.level, verdict.says.as_str()), (Level::Ok, says));
}

#[test]
fn trials_agreed_within_767_us_and_nobody_saw_that_it_was_a_quarter() {
    let of = |n: u32| TrialBlocks { n, p99_ns: Some(2_500_000 + i64::from(n) * 191_775), ..trial(1, 50_000, 0) };
    let verdict = judge("ctl", LEAD, &(1..=5).map(of).collect::<Vec<_>>());
    let says = "yes: five trials agree within 0 ns (0.0 %) at p50 and 767.1 µs (24.9 %) at p99";
    assert_eq!((verdict.level, verdict.says.as_str()), (Level::Ok, says));
}

#[test]
fn trials_that_lay_131_per_cent_apart_were_said_to_agree() {
    // In each trial p99 comes and goes as far as it does from trial to trial.
    let of = |n: u32| TrialBlocks { n, p99_ns: Some(60_000 + i64::from(n) * 30_000), ..trial(1, 50_000, 0) };
    let verdict = judge("ctl", LEAD, &(1..=5).map(of).collect::<Vec<_>>());
    let says = "yes: five trials lie 0 ns (0.0 %) at p50 and 120.0 µs (80.0 %) at p99 apart, no more than the changes within \
                a trial explain";
    assert_eq!((verdict.level, verdict.says.as_str()), (Level::Ok, says));
}

#[test]
fn too_few_trials_or_blocks_tell_nothing() {
    let mut trials: Vec<TrialBlocks> = (1..=4).map(|n| trial(n, 0, 10)).collect();
    let verdict = judge("ctl", LEAD, &trials);
    assert_eq!(
        (verdict.level, verdict.says.as_str()),
        (Level::Note, "not judged: 4 valid trials, at least five are needed")
    );
    trials.push(TrialBlocks { blocks: Blocks { p50_ns: vec![1], p99_ns: vec![1] }, ..trial(5, 0, 10) });
    assert!(judge("ctl", LEAD, &trials).says.contains("trial 5 has too few packets"));
    trials[4] = TrialBlocks { p99_ns: None, ..trial(5, 0, 10) };
    assert!(judge("ctl", LEAD, &trials).says.contains("p99 is not resolved"));
    trials[4] = TrialBlocks { p50_ns: None, ..trial(5, 0, 10) };
    assert_eq!(judge("ctl", LEAD, &trials).level, Level::Note);
}

#[test]
fn a_p99_that_one_trial_does_not_have_does_not_hide_that_its_tails_are_others() {
    // In trial 3 every 50th packet comes 1 ms late: its p99 may be resolved or not, its blocks
    // tell.
    let tailed = |n: u32| {
        let values: Vec<i64> = noise(u64::from(n) + 40, 4_000)
            .iter()
            .enumerate()
            .map(|(at, ns)| ns + i64::from(n == 3 && at % 50 == 0) * 1_000_000)
            .collect();
        let mut pass = BlockPass::new(4_000);
        pass.absorb(&values);
        TrialBlocks { p99_ns: trial(n, 0, 10).p99_ns.filter(|_| n != 3), blocks: pass.finish(), ..trial(n, 0, 10) }
    };
    let trials: Vec<TrialBlocks> = (1..=5).map(tailed).collect();
    let verdict = judge("ctl", LEAD, &trials);
    assert_eq!(verdict.level, Level::Warning, "{}", verdict.says);
    assert!(verdict.says.contains(" at p99 apart"), "{}", verdict.says);
    assert!(
        verdict.says.ends_with("(p99 is not resolved in every trial: the medians of its blocks are used instead)"),
        "{}",
        verdict.says
    );
    // One that falls on packets that never arrived lies infinitely far from the others.
    let mut trials = trials;
    trials[2].p99_ns = Some(INFINITE);
    let verdict = judge("ctl", LEAD, &trials);
    assert_eq!(
        (verdict.level, &verdict.evidence["p99_spread_ns"]),
        (Level::Warning, &"infinite".into()),
        "{}",
        verdict.says
    );
    assert!(verdict.says.contains("infinitely far at p99 apart"), "{}", verdict.says);
}

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

#[test]
fn what_stamps_add_to_a_figure_that_was_refused_was_given_next_to_it() {
    let trials = |ns: i64| vec![vec![ns; 30]; 4];
    let more = added(&trials(376_200), &trials(400_000)).expect("trials of both kinds");
    assert_eq!(more, (-23_800, -23_800, -23_800));
    // Two clocks took the stamps of both kinds, each within 263.6 µs.
    let (added_ns, low_ns, high_ns) = within(more, [263_600, 263_600]);
    let says = observed(&[(LEAD, [added_ns, low_ns, high_ns])]).expect("a note");
    let open = "what tx stamps add to scheduled..rx_kernel of ctl cannot be distinguished from 0 (it is at most 551.0 µs either way)";
    assert!(says.contains(open), "{says}");
    // Where one clock took them there is no such bound, and one beyond all time has no value.
    assert_eq!(within(more, [0, 0]), more);
    assert_eq!(within(more, [i64::MAX, i64::MAX]).2, i64::MAX - 23_800);
}

/// What the note says of these metrics: by how much, and from where to where.
fn observed(of: &[(Metric, [i64; 3])]) -> Option<String> {
    let one = |(metric, [added_ns, low_ns, high_ns]): &(Metric, [i64; 3])| ObserverRecord {
        stream: "ctl".to_owned(),
        metric: *metric,
        packets: 120,
        added_ns: *added_ns,
        low_ns: *low_ns,
        high_ns: *high_ns,
    };
    let mut record = record(1, 10);
    record.observer = of.iter().map(one).collect();
    observer::judge(&record).map(|verdict| verdict.says)
}

#[test]
fn what_stamps_add_lay_between_a_figure_and_the_same_figure() {
    let end = "by the medians of short trials with them and without";
    for (of, wanted) in [
        ([112, 104, 121], "112 ns to scheduled..rx_kernel of ctl (104 ns to 121 ns)"),
        ([82, 69, 101], "82 ns to scheduled..rx_kernel of ctl (69 ns to 101 ns)"),
        ([950, 990, 1_002], "0.95 µs to scheduled..rx_kernel of ctl (0.99 µs to 1.00 µs)"),
        ([1_510, 1_490, 1_530], "1.51 µs to scheduled..rx_kernel of ctl (1.49 µs to 1.53 µs)"),
        ([12_000_000, 40_000, 23_000_000], "12.000 ms to scheduled..rx_kernel of ctl (0.040 ms to 23.000 ms)"),
    ] {
        assert_eq!(observed(&[(LEAD, of)]), Some(format!("all: tx stamps add {wanted}, {end}")));
    }
}

#[test]
fn nothing_at_all_could_not_be_told_from_nothing() {
    let end = "by the medians of short trials with them and without";
    let woke = Metric::Span(Point::Scheduled, Point::Wakeup);
    let (nothing, open) = ((LEAD, [0, 0, 0]), (woke, [0, -50, 30]));
    assert_eq!(
        observed(&[nothing]),
        Some(format!("all: what tx stamps add to scheduled..rx_kernel of ctl is 0, {end}"))
    );
    assert_eq!(observed(&[nothing, nothing]), Some(format!("all: what tx stamps add to 2 metrics is 0, {end}")));
    let unknown =
        "what they add to scheduled..wakeup of ctl cannot be distinguished from 0 (it is at most 50 ns either way)";
    let both = format!("all: what tx stamps add to scheduled..rx_kernel of ctl is 0; {unknown}, {end}");
    assert_eq!(observed(&[nothing, open]), Some(both));
    let some =
        "all: tx stamps add 30 ns to scheduled..wakeup of ctl (20 ns to 40 ns); what they add to scheduled..rx_kernel";
    assert_eq!(observed(&[nothing, (woke, [30, 20, 40])]), Some(format!("{some} of ctl is 0, {end}")));
}

#[test]
fn stamps_that_made_a_wake_up_earlier_were_said_to_add_a_negative_time() {
    let woke = Metric::Span(Point::Scheduled, Point::Wakeup);
    let takes = (woke, [-22_600, -38_600, -1_300]);
    let adds = (LEAD, [1_500, 1_400, 1_600]);
    let end = "by the medians of short trials with them and without";
    let off = "take 22.6 µs off scheduled..wakeup of ctl (1.3 µs to 38.6 µs)";
    assert_eq!(observed(&[takes]), Some(format!("all: tx stamps {off}, {end}")));
    let to = "add 1.5 µs to scheduled..rx_kernel of ctl (1.4 µs to 1.6 µs)";
    assert_eq!(observed(&[takes, adds]), Some(format!("all: tx stamps {to}; they {off}, {end}")));
    let open =
        "what they add to scheduled..wakeup of ctl cannot be distinguished from 0 (it is at most 5.0 µs either way)";
    assert_eq!(observed(&[adds, (woke, [0, -5_000, 3_000])]), Some(format!("all: tx stamps {to}; {open}, {end}")));
    assert_eq!(observed(&[]), None);
}
