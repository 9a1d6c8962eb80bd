// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two clocks over the trials of a cell: how far the error moves within one trial is known better
//! by the readings of all of them, whatever was steered and set between.

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use tardy_lab::host::clocks::{Exchange, best};
use tardy_model::time::{ClockReading, Drift, EndOffsets, Instant, Offset, OffsetReading, Steering, WANDER_PPB};

const SECOND: i64 = 1_000_000_000;
/// Half the bracket in which a machine reads its clocks, ns.
const BRACKET: i64 = 60;

/// Another clock. From each instant on it has this rate, and from each of the others on it is this
/// much further ahead, because it was set.
struct Clock {
    ahead_ns: i64,
    spans: Vec<Span>,
    sets: Vec<(i64, i64)>,
}

/// A time of one rate, with what the clock had gained before, in billionths of a nanosecond.
struct Span {
    from: i64,
    ppb: i64,
    gained: i128,
}

impl Clock {
    /// With these rates, each from its instant on.
    fn new(ahead_ns: i64, rates: &[(i64, i64)], sets: Vec<(i64, i64)>) -> Clock {
        let mut gained = 0_i128;
        let next = rates.iter().skip(1).map(|(from, _)| *from);
        let ends = next.chain(rates.last().map(|(from, _)| *from));
        let spans = rates.iter().zip(ends).map(|((from, ppb), until)| {
            let span = Span { from: *from, ppb: *ppb, gained };
            gained += i128::from(until - from) * i128::from(*ppb);
            span
        });
        Clock { ahead_ns, spans: spans.collect(), sets }
    }

    /// By how much it was slewed and drifted away since the beginning.
    fn gained(&self, ours: i64) -> i64 {
        let span = &self.spans[self.spans.partition_point(|span| span.from <= ours) - 1];
        ((span.gained + i128::from(ours - span.from) * i128::from(span.ppb)) / 1_000_000_000) as i64
    }

    fn set_by(&self, ours: i64) -> i64 {
        self.sets.iter().filter(|(at, _)| *at <= ours).map(|(_, by)| by).sum()
    }

    fn shows(&self, ours: i64) -> i64 {
        ours + self.ahead_ns + self.gained(ours) + self.set_by(ours)
    }

    /// What its kernel is asked, whose own rate is that of the steering alone.
    fn read(&self, ours: i64, rate_ppb: i64, random: &mut Pcg64Mcg) -> ClockReading {
        let tai_ns = self.shows(ours);
        let monotonic_ns = ours + self.gained(ours) + random.random_range(-BRACKET..=BRACKET);
        let steering = Some(Steering { rate_ppb, left_ns: 0 });
        ClockReading { tai_ns, realtime_ns: tai_ns, monotonic_ns, bound_ns: BRACKET, tai_offset_s: 0, steering }
    }

    /// What 64 exchanges from then on show of it.
    fn exchanged(&self, from_ns: i64, least: [i64; 2], random: &mut Pcg64Mcg) -> OffsetReading {
        let (mut now, mut all) = (from_ns, Vec::new());
        for _ in 0..64 {
            let ways: [i64; 2] =
                std::array::from_fn(|way| least[way] + (-random.random::<f64>().max(1e-9).ln() * 20_000.0) as i64);
            let answered_ns = now + ways[0] + ways[1];
            let reached_ns = self.shows(now + ways[0]);
            all.push(Exchange { asked_ns: now, reached_ns, returned_ns: reached_ns, answered_ns, counters: None });
            now = answered_ns + 1_000;
        }
        best(&all).expect("a reading")
    }
}

/// How far the error of converted instants moves within a trial, ns.
fn moves(offset: &Offset, clock: &Clock) -> i64 {
    let (from, until) = (offset.first.at_tai_ns, offset.last.at_tai_ns);
    let at = (0..=100).map(|n| from + (until - from) / 100 * n);
    let errors: Vec<i64> = at.map(|at| offset.to_here(Instant::from_ns(clock.shows(at))).ns() - at).collect();
    errors.iter().max().expect("one") - errors.iter().min().expect("one")
}

/// What a seed's clock did, and what was read of it around each of its trials.
fn trials(seed: u64, is_steered: bool) -> (Clock, Vec<Offset>, Vec<Drift>) {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let least: [i64; 2] = std::array::from_fn(|_| random.random_range(1_000..40_000));
    let trials = random.random_range(2..30_i64);
    let took = random.random_range(SECOND..10 * SECOND);
    let apart = took + random.random_range(SECOND / 5..3 * SECOND);
    let whole = trials * apart;
    // Its crystal drifts by a temperature that rises, at most as fast as tardy assumes.
    let crystal_ppb = random.random_range(-50_000..50_000_i64);
    let wander_ppb = random.random_range(-WANDER_PPB..=WANDER_PPB);
    // Its kernel makes it faster or slower in steps, all of them in one direction.
    let ends: [i64; 2] = std::array::from_fn(|_| if is_steered { random.random_range(-50_000..50_000) } else { 0 });
    let steps = random.random_range(1..6);
    let mut instants: Vec<i64> = (0..steps).map(|_| random.random_range(0..whole)).collect();
    instants.sort_unstable();
    let steered = |at: i64| {
        let done = instants.iter().filter(|instant| **instant <= at).count() as i64;
        ends[0] + (ends[1] - ends[0]) * done / steps
    };
    let mut changes: Vec<i64> = instants.iter().copied().chain((0..whole / SECOND).map(|n| n * SECOND)).collect();
    changes.sort_unstable();
    let rate = |at: i64| crystal_ppb + steered(at) + wander_ppb * (at / SECOND) / 60;
    let rates: Vec<(i64, i64)> =
        [(-SECOND, rate(0))].into_iter().chain(changes.iter().map(|at| (*at, rate(*at)))).collect();
    // Set between two trials, by little or by much.
    let gap = |n: i64| n * apart + took + (apart - took) / 2;
    let sets = if is_steered && seed.is_multiple_of(3) {
        let far = [500, 50_000, 3_000_000][(seed / 3 % 3) as usize];
        let set = (0..random.random_range(1..4))
            .map(|_| (gap(random.random_range(0..trials)), random.random_range(-far..far)));
        set.collect()
    } else {
        Vec::new()
    };
    let clock = Clock::new(random.random_range(-5_000_000..5_000_000), &rates, sets);
    let here = Clock::new(37, &[(-SECOND, 0)], Vec::new());
    let (mut offsets, mut drifts) = (Vec::new(), Vec::new());
    for n in 0..trials {
        let (from, until) = (n * apart, n * apart + took);
        let first = clock.exchanged(from, least, &mut random);
        let theirs = [from, until].map(|at| clock.read(at, steered(at), &mut random));
        let ours = [from, until].map(|at| here.read(at, 0, &mut random));
        let last = clock.exchanged(until, least, &mut random);
        let after = until + SECOND / 20;
        let steered_ppb = (steered(after) - steered(from)).abs();
        let offset = Offset { host: "b".into(), first, last, steered_ppb, ..Offset::default() };
        // Either end may be the one elsewhere.
        let (ends, clocks) = match seed % 2 {
            0 => (EndOffsets { rx: Some(offset.clone()), ..EndOffsets::default() }, [ours, theirs]),
            _ => (EndOffsets { tx: Some(offset.clone()), ..EndOffsets::default() }, [theirs, ours]),
        };
        drifts.push(Drift::of(&ends, clocks, 0));
        offsets.push(offset);
    }
    (clock, offsets, drifts)
}

#[test]
fn how_far_clocks_drift_in_a_trial_was_known_no_better_than_how_far_they_are_apart() {
    let (mut all, mut half, mut used) = (0_u32, 0_u32, 0_u32);
    for seed in 0..1_000 {
        let (clock, offsets, drifts) = trials(seed, seed % 4 != 0);
        let bounds = Drift::bounds_ns(&drifts);
        for (offset, bound_ns) in offsets.iter().zip(bounds) {
            let moved_ns = moves(offset, &clock);
            // Instants are rounded to nanoseconds.
            assert!(moved_ns <= bound_ns + 4, "{seed}: {moved_ns} {bound_ns} {offset:?}");
            assert!(bound_ns <= offset.drift_bound_ns(), "{seed}: worse than by its own readings");
            all += 1;
            half += u32::from(bound_ns * 2 < offset.drift_bound_ns());
            used += u32::from(moved_ns * 4 > bound_ns);
        }
    }
    assert!(half * 3 > all, "in {half} of {all} trials the bound is less than half");
    assert!(used > 100, "in {used} of {all} trials a quarter of the bound is used: a bound that says nothing");
}

#[test]
fn a_clock_that_was_set_between_trials_or_whose_steering_nobody_knows_has_its_trials_own_bound() {
    let (_, offsets, drifts) = trials(4, false);
    let alone: Vec<i64> = offsets.iter().map(Offset::drift_bound_ns).collect();
    assert!(Drift::bounds_ns(&drifts).iter().zip(&alone).all(|(bound, alone)| bound < alone));
    // One trial alone has nothing more to say than its two readings.
    assert!(Drift::bounds_ns(&drifts[..1])[0] <= alone[0]);
    // The same readings, and nobody knows how the clocks were steered in one of them.
    let unknown = |offset: &Offset, n: usize| {
        let mut random = Pcg64Mcg::seed_from_u64(n as u64);
        let still = Clock::new(0, &[(-SECOND, 0)], Vec::new());
        let at = |reading: &OffsetReading| reading.at_tai_ns;
        let known = [at(&offset.first), at(&offset.last)].map(|at| still.read(at, 0, &mut random));
        let not = known.map(|reading| ClockReading { steering: None, ..reading });
        Drift::of(&EndOffsets { rx: Some(offset.clone()), ..EndOffsets::default() }, [known, not], 0)
    };
    let unknown: Vec<Drift> = offsets.iter().enumerate().map(|(n, offset)| unknown(offset, n)).collect();
    assert_eq!(Drift::bounds_ns(&unknown), alone);
}
