// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a ptp4l that steers nothing measured of two simulated clocks: the bound that follows covers
//! the truth, whatever makes its Syncs late.

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use tardy_host::timekeeper::{Keeper, Kept, LEAST_SYNCS, Reports, SYNCS, Sync, Syncs};
use tardy_model::time::PhcReading;

const INTERVAL_NS: i64 = 62_500_000;
const TAI_NS: i64 = 37_000_000_000;

/// Syncs of a clock that is the system's.
fn syncs(syncs: Vec<Sync>) -> Syncs {
    let read = |at_ns| PhcReading { phc_ns: at_ns, realtime_ns: at_ns, bound_ns: 0 };
    let [from, until] = [syncs.first(), syncs.last()].map(|sync| sync.map_or(0, |sync| sync.at_ns));
    Syncs {
        grandmaster: "01".to_owned(),
        read: [read(from - 1_000), read(until + 1_000)],
        tai_offset_ns: TAI_NS,
        syncs,
    }
}

/// By how much a clock is ahead that was ahead by 3 ms and is faster by this number of ppm.
fn truth(at_ns: i64, ppm: f64) -> i64 {
    3_000_000 + (at_ns as f64 * ppm / 1e6).round() as i64
}

/// By how much what follows is wrong, before and behind.
fn wrong(both: &[Kept; 2], truth: impl Fn(i64) -> i64) -> [i64; 2] {
    // The clock is the system's: by its CLOCK_TAI it is ahead by 37 s more.
    both.each_ref().map(|of| of.ahead_ns - TAI_NS - truth(of.at_tai_ns.expect("an instant") - TAI_NS))
}

/// A way of 2 µs, whose Syncs come late by this, as a share of 200 µs.
fn with_lateness(late: impl Fn(i64) -> f64, from_ns: i64, count: usize, ppm: f64) -> Syncs {
    let sync = |n: usize| {
        let at_ns = from_ns + n as i64 * INTERVAL_NS;
        let late_ns = (200_000.0 * late(n as i64)) as i64;
        Sync { at_ns, ahead_ns: truth(at_ns, ppm) + late_ns, delay_ns: 2_000 }
    };
    syncs((0..count).map(sync).collect())
}

#[test]
fn syncs_that_came_ever_less_late_were_taken_for_drift() {
    // 200 µs late, and on time 0.94 s later: a line through them is as straight as one can be, and
    // is none of the clocks'.
    let (falls, rises) = (|n: i64| 1.0 - n as f64 / 15.0, |n: i64| n as f64 / 15.0);
    let none = |_: i64| 0.0;
    let shapes: [[&dyn Fn(i64) -> f64; 2]; 6] =
        [[&falls, &none], [&falls, &falls], [&rises, &falls], [&falls, &rises], [&rises, &rises], [&none, &rises]];
    for (n, [first, last]) in shapes.into_iter().enumerate() {
        for (ppm, trial_s) in [(0.0, 10), (50.0, 10), (-120.0, 3), (30.0, 1)] {
            let before = with_lateness(first, 1_000_000_000, SYNCS, ppm);
            let behind = with_lateness(last, (2 + trial_s) * 1_000_000_000, SYNCS, ppm);
            let both = Syncs::around(&before, &behind).unwrap_or_else(|why| panic!("{n}: {why}"));
            let wrong = wrong(&both, |at_ns| truth(at_ns, ppm));
            for (wrong, of) in wrong.iter().zip(&both) {
                assert!(wrong.abs() <= of.bound_ns, "{n}, {ppm} ppm, {trial_s} s: {wrong} {of:?}");
                assert_eq!((of.by, of.reference.as_str()), (Keeper::OnTheWire, "PTP grandmaster 01"));
            }
            // Whatever is late is in the bound, and nothing that is not.
            let bounds = both.each_ref().map(|of| of.bound_ns);
            let late = [first, last].map(|late| (0..16).any(|n| late(n) > 0.0));
            for (late, bound_ns) in late.into_iter().zip(bounds).filter(|_| trial_s == 10) {
                let (least, most) = if late { (200_000, 300_000) } else { (2_000, 40_000) };
                assert!((least..most).contains(&bound_ns), "{n}, {ppm} ppm: {bounds:?}");
            }
        }
    }
}

#[test]
fn two_syncs_had_no_spread_and_a_bound_of_a_delay() {
    // Both are late by 200 µs, and nothing shows it.
    let late = |_: i64| 1.0;
    for count in [2, 3, LEAST_SYNCS - 1] {
        let (few, whole) =
            (with_lateness(late, 0, count, 0.0), with_lateness(|_| 0.0, 11_000_000_000, LEAST_SYNCS, 0.0));
        let before = Syncs::around(&few, &whole).expect_err("too few");
        assert_eq!(before, format!("{count} Syncs came before the trial, and a bound needs 8"));
        let few = with_lateness(late, 12_000_000_000, count, 0.0);
        let behind = Syncs::around(&with_lateness(|_| 0.0, 0, SYNCS, 0.0), &few).expect_err("too few");
        assert_eq!(behind, format!("{count} Syncs came after the trial, and a bound needs 8"));
    }
    let [least, none] = [LEAST_SYNCS, 0].map(|count| with_lateness(|_| 0.0, 0, count, 0.0));
    let later = with_lateness(|_| 0.0, 5_000_000_000, LEAST_SYNCS, 0.0);
    assert!(Syncs::around(&least, &later).is_ok());
    assert_eq!(Syncs::around(&none, &later), Err("no Sync came before the trial".to_owned()));
    // What a machine reports keeps what else keeps its clock, and the reason.
    let chrony =
        Kept { by: Keeper::Chrony, reference: "UTC".into(), ahead_ns: 0, bound_ns: 9, at_tai_ns: None, later: None };
    let of = |syncs: &[&Syncs]| Reports {
        kept: vec![chrony.clone()],
        syncs: syncs.iter().map(|of| (*of).clone()).collect(),
    };
    let (kept, why) = Reports::around(&of(&[&least]), &of(&[&later]));
    assert_eq!((kept.map(|of| of.len()), why), ([2, 2], Vec::new()));
    let (kept, why) = Reports::around(&of(&[&none]), &of(&[&later]));
    assert_eq!(
        (kept, why),
        ([vec![chrony.clone()], vec![chrony.clone()]], vec!["no Sync came before the trial".to_owned()])
    );
    let (kept, why) = Reports::around(&of(&[&least]), &of(&[]));
    assert_eq!((kept.map(|of| of.len()), why.len()), ([1, 1], 1), "it was gone after the trial");
}

#[test]
fn a_clock_that_was_set_between_the_syncs_is_no_line() {
    let early = || with_lateness(|_| 0.0, 0, SYNCS, 10.0);
    for step_ns in [-1_000_000_000, -20_000_000, 20_000_000, 1_000_000_000] {
        let mut late = with_lateness(|_| 0.0, 9_000_000_000, SYNCS, 10.0);
        late.syncs.iter_mut().for_each(|sync| sync.ahead_ns += step_ns);
        let why = Syncs::around(&early(), &late).expect_err("it was set");
        assert!(why.starts_with("a clock was set between"), "{step_ns}: {why}");
    }
    assert!(Syncs::around(&early(), &early()).is_err(), "no time passed");
    let other = Syncs { grandmaster: "02".into(), ..with_lateness(|_| 0.0, 9_000_000_000, SYNCS, 10.0) };
    assert_eq!(Syncs::around(&early(), &other), Err("another clock led after the trial than before it".to_owned()));
    // Nothing that another machine reports overflows, or makes a bound below 0.
    let later = || with_lateness(|_| 0.0, 9_000_000_000, SYNCS, 10.0);
    for odd in [i64::MIN, -1, 0, i64::MAX - 1, i64::MAX] {
        for part in 0..9 {
            for n in [0, 7, 15] {
                let [mut before, mut behind] = [early(), later()];
                let of = if part % 2 == 0 { &mut before } else { &mut behind };
                match part {
                    0 | 1 => of.syncs[n].at_ns = odd,
                    2 | 3 => of.syncs[n].ahead_ns = odd,
                    4 | 5 => of.syncs[n].delay_ns = odd,
                    6 => of.read[0].bound_ns = odd,
                    7 => of.read[1].realtime_ns = odd,
                    _ => of.tai_offset_ns = odd,
                }
                if let Ok(both) = Syncs::around(&before, &behind) {
                    assert!(both.iter().all(|of| of.bound_ns >= 2_000), "{part} {odd}: {both:?}");
                }
            }
        }
    }
}

/// Half of the time that a message takes there and back, as ptp4l has it: the median of the latest
/// ten, each with half of the drift in it between the two messages that it was measured by.
struct Delays(Vec<i64>);

impl Delays {
    fn add(&mut self, there_ns: i64, back_ns: i64, drift_ns: f64) -> i64 {
        self.0.push((there_ns + back_ns) / 2 + (drift_ns / 2.0) as i64);
        let mut latest: Vec<i64> = self.0.iter().rev().take(10).copied().collect();
        latest.sort_unstable();
        latest[latest.len() / 2].max(1)
    }
}

/// How late a Sync comes that is at this share of its second, ns.
type Lateness = dyn Fn(f64, &mut Pcg64Mcg) -> f64;

/// How late the Syncs come of one second.
fn lateness(random: &mut Pcg64Mcg) -> Box<Lateness> {
    let most = random.random_range(1_000.0..300_000.0);
    let up = random.random::<bool>();
    match random.random_range(0..6) {
        0 => Box::new(|_, _| 0.0),
        1 => Box::new(move |_, _| most),
        2 => Box::new(move |at, _| most * if up { at } else { 1.0 - at }),
        3 => Box::new(move |at, _| most * (-8.0 * if up { 1.0 - at } else { at }).exp()),
        4 => Box::new(move |at, _| if (at < 0.5) == up { most } else { 0.0 }),
        _ => Box::new(move |_, random| if random.random_range(0..4) == 0 { most } else { 0.0 }),
    }
}

#[test]
fn what_a_thousand_pairs_of_clocks_show_by_ptp_is_within_its_bound() {
    let mut shares = Vec::new();
    for seed in 0..1_000 {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let (theta_ns, ppm) = (random.random_range(-5_000_000..5_000_000_i64), random.random_range(-200.0..200.0_f64));
        // Cables and devices that stamp, or software on busy machines.
        let (least_ns, jitter_ns) = if seed % 2 == 0 { (300..3_000, 20.0) } else { (5_000..50_000, 5_000.0) };
        let least: [i64; 2] = std::array::from_fn(|_| random.random_range(least_ns.clone()));
        let truth = |at_ns: i64| theta_ns + (at_ns as f64 * ppm / 1e6).round() as i64;
        let trial_ns = random.random_range(200_000_000..60_000_000_000_i64);
        let (mut late_ns, mut delay_ns) = ([0.0_f64; 2], [0; 2]);
        let mut window = |n: usize, from_ns: i64, random: &mut Pcg64Mcg| {
            let (late, mut delays, mut all) = (lateness(random), Delays(Vec::new()), Vec::new());
            // It had run for a while before anybody looked.
            for number in -24..SYNCS as i64 {
                let at_ns = from_ns + number * INTERVAL_NS;
                let late = if number < 0 { 0.0 } else { late(number as f64 / 15.0, random) };
                late_ns[n] = late_ns[n].max(late);
                let jitter = |random: &mut Pcg64Mcg| (-random.random::<f64>().max(1e-9).ln() * jitter_ns) as i64;
                let [there, back] = [least[0] + late as i64 + jitter(random), least[1] + jitter(random)];
                let between = random.random_range(0.0..INTERVAL_NS as f64);
                let of_delay = delays.add(there, back, ppm / 1e6 * between);
                // Some are lost.
                if number >= 0 && (all.len() < 4 || random.random_range(0..10) > 0) {
                    delay_ns[n] = delay_ns[n].max(of_delay);
                    all.push(Sync { at_ns, ahead_ns: truth(at_ns) + there - of_delay, delay_ns: of_delay });
                }
            }
            syncs(all)
        };
        let [before, behind] = [(0, 0), (1, 1_000_000_000 + trial_ns)].map(|(n, from)| window(n, from, &mut random));
        let both = match Syncs::around(&before, &behind) {
            Ok(both) => both,
            Err(why) => {
                let came = before.syncs.len().min(behind.syncs.len());
                assert!(came < LEAST_SYNCS, "{seed}: {why}, {came}");
                continue;
            }
        };
        for (n, wrong) in wrong(&both, truth).into_iter().enumerate() {
            let of = &both[n];
            assert!(wrong.abs() <= of.bound_ns, "{seed}: {wrong} {of:?} {ppm} ppm {least:?}");
            // It says something. Each reading knows the way, what came late, the jitter and what
            // drift adds to each delay; the slope knows as much of both over the time between them,
            // or what clocks drift at most.
            let known = |n: usize| {
                delay_ns[n] as f64 + 1.5 * late_ns[n] + jitter_ns * 20.0 + 3.0 * ppm.abs() * 62.5 / 2.0 + 500.0
            };
            let rest_s = trial_ns as f64 / 1e9 - 1.1;
            let slope = if rest_s > 0.0 { 2.0 * (known(0) + known(1)) / rest_s } else { f64::MAX };
            let most_ns = known(n) + slope.min(1_400_000.0);
            assert!((of.bound_ns as f64) < most_ns, "{seed}: {of:?} {ppm} ppm {least:?} {trial_ns} {most_ns}");
            if trial_ns > 10_000_000_000 {
                shares.push(of.bound_ns as f64 / (delay_ns[n] as f64 + late_ns[n]));
            }
        }
    }
    shares.sort_unstable_by(f64::total_cmp);
    // Of trials of ten seconds and more: what is known of the way, and little more.
    let median = shares[shares.len() / 2];
    assert!(shares.len() > 1_000 && (1.0..2.5).contains(&median), "{median}, {} of them", shares.len());
}
