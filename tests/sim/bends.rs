// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two clocks of which one is steered otherwise in the middle of a trial: they leave the line
//! between the readings before it and after it.

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use tardy_lab::host::clocks::{Exchange, best};
use tardy_model::time::{Instant, Offset, OffsetReading, OtherSource, Steering, Timex};

const SECOND: i64 = 1_000_000_000;

/// A clock whose rate against this one's changes at some instants, ns and ppb; each rate holds from
/// its instant on.
struct Bent {
    ahead_ns: i64,
    rates: Vec<(i64, i64)>,
}

impl Bent {
    /// What it shows when this one's clock shows that.
    fn shows(&self, ours: i64) -> i64 {
        let ends = self.rates.iter().skip(1).map(|(from, _)| *from).chain([i64::MAX]);
        let gained = self.rates.iter().zip(ends).map(|((from, ppb), until)| {
            let passed = ours.min(until).saturating_sub(*from).max(0);
            i128::from(passed) * i128::from(*ppb)
        });
        ours + self.ahead_ns + (gained.sum::<i128>() / 1_000_000_000) as i64
    }

    /// What 64 exchanges from then on show of it.
    fn read(&self, from_ns: i64, least: [i64; 2], random: &mut Pcg64Mcg) -> OffsetReading {
        let (mut now, mut all) = (from_ns, Vec::new());
        for _ in 0..64 {
            let ways: [i64; 2] =
                std::array::from_fn(|way| least[way] + (-random.random::<f64>().max(1e-9).ln() * 20_000.0) as i64);
            let answered_ns = now + ways[0] + ways[1];
            let reached_ns = self.shows(now + ways[0]);
            let returned_ns = reached_ns;
            all.push(Exchange { asked_ns: now, reached_ns, returned_ns, answered_ns, counters: None });
            now = answered_ns + 1_000;
        }
        best(&all).expect("a reading")
    }
}

/// The farthest that instants of the clock are converted from the truth, of the whole trial, ns.
fn farthest(offset: &Offset, clock: &Bent) -> i64 {
    let (from, until) = (offset.first.at_tai_ns, offset.last.at_tai_ns);
    let at = (0..=400).map(|n| from + (until - from) / 400 * n);
    at.map(|at| (offset.to_here(Instant::from_ns(clock.shows(at))).ns() - at).abs()).max().unwrap_or(0)
}

#[test]
fn a_clock_that_was_steered_otherwise_within_a_trial_left_its_bound() {
    let (mut left, mut farther) = (0, 0);
    for seed in 0..1_000 {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let least: [i64; 2] = std::array::from_fn(|_| random.random_range(1_000..40_000));
        let until = random.random_range(2..20) * SECOND;
        // From one rate to another in steps, all of them in one direction.
        let ends: [i64; 2] = std::array::from_fn(|_| random.random_range(-400_000..400_000_i64));
        let steps = random.random_range(1..6);
        let mut instants: Vec<i64> = (0..steps).map(|_| random.random_range(SECOND..SECOND + until)).collect();
        instants.sort_unstable();
        let rate = |n: usize| ends[0] + (ends[1] - ends[0]) * n as i64 / steps as i64;
        let bends = instants.into_iter().enumerate().map(|(n, at)| (at, rate(n + 1)));
        let ahead_ns = random.random_range(-5_000_000..5_000_000);
        let clock = Bent { ahead_ns, rates: [(0, ends[0])].into_iter().chain(bends).collect() };
        let first = clock.read(SECOND - 40_000_000, least, &mut random);
        let last = clock.read(SECOND + until, least, &mut random);
        let straight = Offset { host: "b".into(), first, last, ..Offset::default() };
        let at = |rate_ppb| Some(Steering { rate_ppb, left_ns: 0 });
        let steered_ppb = Steering::spread_ppb([at(ends[0]), None, at(ends[1])]);
        assert_eq!(steered_ppb, (ends[1] - ends[0]).abs());
        let bent = Offset { steered_ppb, ..straight.clone() };
        let wrong_ns = farthest(&bent, &clock);
        // Instants are rounded to nanoseconds.
        assert!(wrong_ns <= bent.bound_ns() + 2, "{seed}: {wrong_ns} {bent:?}");
        // Two instants of one trial: one may be as far to one side as another to the other side.
        assert!(bent.drift_bound_ns() >= 2 * bent.bend_ns(), "{seed}: {bent:?}");
        left += u32::from(wrong_ns > straight.bound_ns() + 2);
        // One change in the middle of the time takes all of it.
        farther += u32::from(wrong_ns * 2 > bent.bound_ns());
    }
    assert!(left > 500, "in {left} of 1000 it left the bound of two readings alone");
    assert!(farther > 200, "in {farther} of 1000 it used half of the bound: a bound that says nothing");
}

#[test]
fn five_ppm_faster_and_then_five_ppm_slower_was_25_us_beyond_the_bound() {
    let clock = Bent { ahead_ns: 0, rates: vec![(0, 5_000), (5 * SECOND, -5_000)] };
    let reading = |at: i64| OffsetReading { at_tai_ns: at, ahead_ns: clock.shows(at) - at, bound_ns: 20_000 };
    let straight = Offset { first: reading(0), last: reading(10 * SECOND), ..Offset::default() };
    assert_eq!((straight.bound_ns(), farthest(&straight, &clock)), (20_000, 25_000));
    let bent = Offset { steered_ppb: 10_000, ..straight };
    assert_eq!((bent.bend_ns(), bent.bound_ns()), (25_000, 45_000));
    assert_eq!(bent.drift_bound_ns(), 40_000 + 50_000);
    // Another source of the same two clocks does not exclude it, wherever its readings are.
    let source = |from: i64, until: i64| {
        let reading = |at: i64| OffsetReading { bound_ns: 25_000, ..reading(at) };
        OtherSource { method: "other".into(), first: reading(from), last: reading(until), is_reported: false }
    };
    assert_eq!(bent.clone().with(source(-SECOND, 5 * SECOND)).disagreement(), None);
    // Whoever says that clocks were steered by less than nothing makes no bound less.
    assert_eq!(Offset { steered_ppb: i64::MIN, ..bent.clone() }.bound_ns(), 20_000);
    assert_eq!(Offset { steered_ppb: i64::MAX, ..bent }.bound_ns(), i64::MAX);
}

#[test]
fn what_the_kernel_reports_of_its_clock_is_a_rate() {
    let straight = Timex { tick: 10_000, ..Timex::default() };
    let rate = |timex: Timex| Steering::of(&timex).expect("a kernel reports this").rate_ppb;
    assert_eq!(rate(straight), 0);
    // 50 ppm, as adjtimex(2) takes them; and a tick of a microsecond more.
    assert_eq!(rate(Timex { freq: 50 << 16, ..straight }), 50_000);
    assert_eq!(rate(Timex { freq: -50 << 16, tick: 10_001, ..straight }), 50_000);
    // The loop slews away a quarter of 8 µs in the next second, or less with a time constant.
    let handed = Timex { offset: 8_000, is_nano: true, ..straight };
    assert_eq!(Steering::of(&handed), Some(Steering { rate_ppb: 2_000, left_ns: 8_000 }));
    assert_eq!(rate(Timex { constant: 3, ..handed }), 250);
    assert_eq!(rate(Timex { offset: 8, is_nano: false, ..handed }), 2_000);
    // adjtime(3) slews away 500 µs in a second.
    let adjusted = Steering::of(&Timex { adjusting_us: -2_000, ..straight });
    assert_eq!(adjusted, Some(Steering { rate_ppb: -500_000, left_ns: -2_000_000 }));
    assert_eq!(rate(Timex { adjusting_us: 30, ..straight }), 30_000);
    // A kernel that may not be asked reports nothing, and what none reports has no value.
    assert_eq!(Steering::of(&Timex::default()), None);
    let ends = [i64::MIN, -1, 0, 1, i64::MAX];
    for (of, more) in ends.into_iter().flat_map(|of| ends.into_iter().map(move |more| (of, more))) {
        let wild = Timex { freq: of, tick: more, offset: of, is_nano: false, constant: more, adjusting_us: of };
        assert!(Steering::of(&wild).is_none_or(|_| more > 0), "{wild:?}");
    }
    // Of one reading nothing is known to differ.
    let at = |rate_ppb| Some(Steering { rate_ppb, left_ns: 0 });
    assert_eq!((Steering::spread_ppb([at(7)]), Steering::spread_ppb([None, None])), (0, 0));
    assert_eq!(Steering::spread_ppb([at(-7), None, at(3), at(1)]), 10);
    assert_eq!(Steering::spread_ppb([at(i64::MIN), at(i64::MAX)]), i64::MAX);
}
