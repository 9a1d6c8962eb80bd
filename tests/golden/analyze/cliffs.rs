// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cliffs of a copy's bandwidth over the sizes of a buffer, against where they were put; and how
//! seldom one is named where there is none.

use tardy_analyze::copying::cliffs::{AtSize, Cause, Cliff, find};
use tardy_model::copy::Sizes;

fn is(got: f64, wanted: f64) {
    assert!((got - wanted).abs() < 1e-9, "{got} instead of {wanted}");
}

/// Bandwidths at these sizes, three repetitions with a noise of one in a hundred.
fn at(sizes: &[u64], rate: impl Fn(u64) -> f64) -> Vec<AtSize> {
    let noisy = |bytes: u64| [0.99, 1.0, 1.01].map(|noise| rate(bytes) * noise).to_vec();
    sizes.iter().map(|bytes| AtSize { bytes: *bytes, touched: 0, rates: noisy(*bytes) }).collect()
}

const AROUND_LINES: [u64; 9] = [6_500, 6_528, 6_560, 6_580, 6_592, 6_620, 6_656, 6_680, 6_720];

#[test]
fn a_cliff_at_the_cache_line_is_found_where_it_was_put() {
    let found = find(&at(&AROUND_LINES, |bytes| if bytes % 64 == 0 { 2e9 } else { 1e9 }), &Sizes::USUAL);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].cause, Cause::MultipleOf { what: "cache line", bytes: 64 });
    is(found[0].times, 2.0);
}

#[test]
fn a_cliff_at_the_page_is_found_where_it_was_put() {
    let sizes = [4_000, 4_096, 4_160, 8_128, 8_192, 8_256, 12_224, 12_288, 12_352];
    let found = find(&at(&sizes, |bytes| if bytes % 4_096 == 0 { 3e9 } else { 1e9 }), &Sizes::USUAL);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].cause, Cause::MultipleOf { what: "page", bytes: 4_096 });
}

#[test]
fn a_cliff_at_the_l2_size_is_found_where_it_was_put() {
    let sizes: Vec<u64> = (14..24).map(|power| 1 << power).collect();
    let l2 = Sizes::USUAL.cache_bytes[1];
    let found = find(&at(&sizes, |bytes| if bytes > l2 { 1e9 } else { 2e9 }), &Sizes::USUAL);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].cause, Cause::Beyond { what: "L2", bytes: l2 });
    assert_eq!(found[0].bytes, [2 << 20, 1 << 20]);
}

#[test]
fn a_cliff_over_two_sizes_is_one_and_is_of_all_that_passes_go_over() {
    // Four buffers of each side are touched again and again, and what is beyond L1 is slower.
    let sizes: Vec<u64> = (9..15).map(|power| 1 << power).collect();
    let l1 = Sizes::USUAL.cache_bytes[0];
    let mut sweep = at(&sizes, |bytes| match bytes * 8 {
        touched if touched < l1 => 4e9,
        touched if touched < 2 * l1 => 2e9,
        _ => 1e9,
    });
    sweep.iter_mut().for_each(|at| at.touched = at.bytes * 8);
    let found = find(&sweep, &Sizes::USUAL);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].cause, Cause::BothBeyond { what: "L1", bytes: l1 });
    assert_eq!(found[0].bytes, [8_192, 2_048]);
    is(found[0].times, 4.0);
}

#[test]
fn without_a_cliff_none_is_named() {
    assert_eq!(find(&at(&AROUND_LINES, |_| 1e9), &Sizes::USUAL), []);
    // Larger buffers are a little faster each time, as on most machines.
    let sizes: Vec<u64> = (10..20).map(|power| 1 << power).collect();
    assert_eq!(find(&at(&sizes, |bytes| 1e9 * (bytes as f64).powf(0.1)), &Sizes::USUAL), []);
}

#[test]
fn a_jump_of_which_one_repetition_knows_nothing_is_none() {
    let mut sweep = at(&AROUND_LINES, |bytes| if bytes % 64 == 0 { 2e9 } else { 1e9 });
    sweep[4].rates[0] = 0.9e9;
    let found = find(&sweep, &Sizes::USUAL);
    assert!(!found.iter().any(|cliff| matches!(cliff.cause, Cause::MultipleOf { .. })), "{found:?}");
}

#[test]
fn two_repetitions_are_too_few_to_name_a_cliff() {
    let mut sweep = at(&AROUND_LINES, |bytes| if bytes % 64 == 0 { 2e9 } else { 1e9 });
    sweep.iter_mut().for_each(|at| at.rates.truncate(2));
    assert_eq!(find(&sweep, &Sizes::USUAL), []);
}

/// The sizes of the ready-made sweep, with what its passes go over: four buffers of each side, in
/// windows of at most a quarter of the L2.
fn ready_made() -> Vec<AtSize> {
    let text = include_str!("../../../experiments/copy-sizes.toml");
    let list = text.split_once("\"copy.bytes\" = [").expect("its sizes").1;
    let size = |word: &str| {
        let (digits, unit) = word.split_at(word.find(|c: char| !c.is_ascii_digit()).expect("a unit"));
        let times = match unit {
            "B" => 1,
            "KiB" => 1 << 10,
            "MiB" => 1 << 20,
            _ => panic!("{word}"),
        };
        digits.parse::<u64>().expect("a number") * times
    };
    let at = |bytes: u64| {
        let step = bytes.next_multiple_of(64);
        let window = (4 * step).min((1 << 18) / step * step).max(step);
        AtSize { bytes, touched: 2 * window, rates: Vec::new() }
    };
    list.split('"').skip(1).step_by(2).map(|word| at(size(word))).collect()
}

/// Numbers from 0 to 1 that a seed gives (splitmix64).
struct Seeded(u64);

impl Seeded {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Near enough to a normal one.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.next()).sum::<f64>() - 6.0
    }
}

/// The ready-made sweep on a machine of these rates: five trials, with this noise, of which one in
/// twenty has half the bandwidth if it is a busy machine.
fn swept(seed: u64, noise: f64, is_busy: bool, rate: impl Fn(&AtSize) -> f64) -> Vec<Cliff> {
    let mut random = Seeded(seed);
    let mut sweep = ready_made();
    for at in &mut sweep {
        let usual = rate(at);
        let mut trial = || {
            let disturbed = if is_busy && random.next() < 0.05 { 0.5 } else { 1.0 };
            usual * (noise * random.normal()).exp() * disturbed
        };
        at.rates = (0..5).map(|_| trial()).collect();
    }
    find(&sweep, &Sizes::USUAL)
}

/// Bandwidth as it is on a machine without a cliff: larger buffers are a little faster each.
fn slope(at: &AtSize) -> f64 {
    1e10 * (at.bytes as f64 / 256.0).powf(0.05)
}

#[test]
fn in_a_thousand_runs_without_a_cliff_none_is_named() {
    // Noise of 15 % spreads the trials of one size over a half: then it is one run in fifty.
    for (noise, is_busy, most) in [(0.01, false, 0), (0.05, false, 0), (0.05, true, 2), (0.15, false, 20)] {
        let named: Vec<Vec<Cliff>> =
            (0..1_000).map(|seed| swept(seed, noise, is_busy, slope)).filter(|found| !found.is_empty()).collect();
        assert!(named.len() <= most, "{} runs with noise {noise}: {:?}", named.len(), named.first());
    }
}

#[test]
fn in_a_thousand_noisy_runs_cliffs_are_where_they_were_put_and_nowhere_else() {
    let l2 = Sizes::USUAL.cache_bytes[1];
    let line = |at: &AtSize| if at.bytes.is_multiple_of(64) { 2.0 } else { 1.0 };
    let page = |at: &AtSize| if at.bytes.is_multiple_of(4_096) { 2.0 } else { 1.0 };
    let beyond = |at: &AtSize| if at.bytes > l2 { 0.5 } else { 1.0 };
    let of_line = Cause::MultipleOf { what: "cache line", bytes: 64 };
    let of_page = Cause::MultipleOf { what: "page", bytes: 4_096 };
    let of_l2 = Cause::Beyond { what: "L2", bytes: l2 };
    type Times<'a> = &'a dyn Fn(&AtSize) -> f64;
    let both = |at: &AtSize| line(at) * beyond(at);
    let put: [(Times<'_>, Vec<Cause>); 4] =
        [(&line, vec![of_line]), (&page, vec![of_page]), (&beyond, vec![of_l2]), (&both, vec![of_line, of_l2])];
    for (times, causes) in put {
        for noise in [0.01, 0.05] {
            let wrong = |seed: &u64| {
                let found = swept(*seed, noise, false, |at| slope(at) * times(at));
                found.iter().map(|cliff| cliff.cause).collect::<Vec<_>>() != causes
            };
            let missed = (0..1_000).filter(wrong).count();
            assert!(missed <= 5, "{causes:?} with noise {noise}: {missed} of 1000 runs");
        }
    }
}

#[test]
fn a_line_and_an_l2_of_one_sweep_vetoed_each_other() {
    let l2 = Sizes::USUAL.cache_bytes[1];
    let rate =
        |at: &AtSize| if at.bytes.is_multiple_of(64) { 2e9 } else { 1e9 } * if at.bytes > l2 { 0.5 } else { 1.0 };
    let causes: Vec<Cause> = swept(1, 0.01, false, rate).iter().map(|cliff| cliff.cause).collect();
    assert_eq!(
        causes,
        [Cause::MultipleOf { what: "cache line", bytes: 64 }, Cause::Beyond { what: "L2", bytes: l2 }],
        "multiples far above had neighbours far below"
    );
}

#[test]
fn a_cache_that_overflows_bit_by_bit_was_no_cliff_or_several() {
    // From 0.9 to 1.8 times the L1 the rate halves; then it is flat.
    let l1 = Sizes::USUAL.cache_bytes[0] as f64;
    let rate = |touched: f64| 4e9 * 0.5_f64.powf(((touched / l1).log2() + 0.15).clamp(0.0, 1.0));
    for step in [1.08_f64, 1.2, 1.4, 2.0] {
        let touched = (0..40).map(|n| 4_096.0 * step.powi(n)).take_while(|touched| *touched < 1e6);
        let at = |touched: f64| AtSize {
            bytes: (touched / 8.0) as u64,
            touched: touched as u64,
            rates: [0.99, 1.0, 1.01].map(|noise| rate(touched) * noise).to_vec(),
        };
        let found = find(&touched.map(at).collect::<Vec<_>>(), &Sizes::USUAL);
        assert_eq!(found.len(), 1, "steps of {step}: {found:?}");
        assert_eq!(found[0].cause, Cause::BothBeyond { what: "L1", bytes: l1 as u64 }, "steps of {step}: {found:?}");
        assert!((1.8..=2.1).contains(&found[0].times), "steps of {step}: {found:?}");
    }
}

#[test]
fn a_jump_was_named_across_a_size_of_which_nothing_is_known() {
    let sizes: Vec<u64> = (17..24).map(|power| 1 << power).collect();
    let l2 = Sizes::USUAL.cache_bytes[1];
    let mut sweep = at(&sizes, |bytes| if bytes > l2 { 1e9 } else { 2e9 });
    assert_eq!(find(&sweep, &Sizes::USUAL).len(), 1);
    let unknown = sweep.iter_mut().find(|at| at.bytes == 2 << 20).expect("its size");
    unknown.rates.truncate(2);
    assert_eq!(find(&sweep, &Sizes::USUAL), [], "the fall may be anywhere from 1 MiB to 4 MiB");
}

#[test]
fn one_size_that_is_slow_is_no_cliff() {
    let sizes: Vec<u64> = (10..20).map(|power| 1 << power).collect();
    assert_eq!(find(&at(&sizes, |bytes| if bytes == 1 << 14 { 0.5e9 } else { 1e9 }), &Sizes::USUAL), []);
}
