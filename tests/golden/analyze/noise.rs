// SPDX-License-Identifier: MIT OR Apache-2.0
//! The verdict `own-trace` on noise: whatever kind of noise is in the figures of a trial, it is a
//! trace of tardy not more often than once in a thousand runs. And on round trips that queue for
//! one another.

use super::fixture::{BASE_NS, CYCLE_NS};
use super::own_trace::{ONE_WAY, ROUND_TRIP, cell, cyclic, number, only, pingpong, reported, seeded, trials};
use rand::Rng;
use rand_pcg::Pcg64Mcg;
use std::collections::BTreeMap;
use tardy_analyze::own_trace::{MOST_P, Place};
use tardy_model::point::Metric;
use tardy_model::sample::Batch;
use tardy_model::stream::Side;
use tardy_model::trial::{OwnReason, OwnWork, TrialRecord};

/// How values of a process follow each other.
#[derive(Clone, Copy, Debug)]
pub(super) enum Noise {
    /// Normal, each with this correlation to the one before.
    Normal(f64),
    /// The same with log-normal values: a few are ten times the median.
    Tailed(f64),
    /// Pareto shocks (shape 1.5, which has no variance) that die away at this rate.
    Shocks(f64),
    /// White, with a slow wave of half the variance beneath.
    Wandering,
    /// Quiet and loud stretches of some 30 packets.
    Bursts,
    /// Each eighth packet of a trial meets the tick, at a phase of its trial.
    Tick,
    /// Each value is against the one before.
    Swinging,
}

/// With how many runs of each are judged.
const NOISES: [(Noise, u64); 12] = [
    (Noise::Normal(0.9), 500),
    (Noise::Tailed(0.5), 500),
    (Noise::Normal(0.0), 50),
    (Noise::Normal(0.5), 50),
    (Noise::Normal(0.99), 50),
    (Noise::Tailed(0.0), 50),
    (Noise::Tailed(0.9), 50),
    (Noise::Shocks(0.7), 50),
    (Noise::Wandering, 50),
    (Noise::Bursts, 50),
    (Noise::Tick, 50),
    (Noise::Swinging, 50),
];

pub(super) fn normal(random: &mut Pcg64Mcg) -> f64 {
    // Box and Muller 1958.
    let (a, b): (f64, f64) = (random.random(), random.random());
    (-2.0 * (1.0 - a).ln()).sqrt() * (std::f64::consts::TAU * b).cos()
}

impl Noise {
    /// Latencies around 30 µs.
    fn values(self, random: &mut Pcg64Mcg, count: usize) -> Vec<i64> {
        let mut ar = |rho: f64| {
            let mut x = normal(random);
            let step = (1.0 - rho * rho).sqrt();
            let mut next = || {
                x = rho * x + step * normal(random);
                x
            };
            (0..count).map(|_| next()).collect::<Vec<f64>>()
        };
        let values: Vec<f64> = match self {
            Noise::Normal(rho) => ar(rho).into_iter().map(|x| 30_000.0 + 5_000.0 * x).collect(),
            Noise::Tailed(rho) => ar(rho).into_iter().map(|x| 15_000.0 + 15_000.0 * x.exp()).collect(),
            Noise::Shocks(rho) => {
                let mut x = 0.0;
                let mut next = || {
                    x = rho * x + 2_000.0 * (1.0 - random.random::<f64>()).powf(-1.0 / 1.5);
                    20_000.0 + x
                };
                // Its own past comes first, or each trial would begin quiet.
                (0..count + 200).map(|_| next()).skip(200).collect()
            }
            Noise::Wandering => {
                let (slow, white) = (ar(0.995), ar(0.0));
                slow.into_iter().zip(white).map(|(slow, white)| 30_000.0 + 3_500.0 * (slow + white)).collect()
            }
            Noise::Bursts => {
                let mut loud = random.random::<bool>();
                let mut next = || {
                    loud ^= random.random_ratio(1, 30);
                    30_000.0 + normal(random) * if loud { 12_000.0 } else { 1_000.0 }
                };
                (0..count).map(|_| next()).collect()
            }
            Noise::Tick => {
                let phase = random.random_range(0..8);
                let hit = |at: usize| if at % 8 == phase { 9_000.0 } else { 0.0 };
                (0..count).map(|at| 30_000.0 + 1_500.0 * normal(random) + hit(at)).collect()
            }
            Noise::Swinging => ar(-0.7).into_iter().map(|x| 30_000.0 + 5_000.0 * x).collect(),
        };
        values.into_iter().map(|ns| ns.max(1_000.0) as i64).collect()
    }

    pub(super) fn received(self, random: &mut Pcg64Mcg, count: usize) -> Vec<Option<i64>> {
        self.values(random, count).into_iter().map(Some).collect()
    }
}

/// Work of a few µs at random instants, one in ten cycles.
pub(super) fn random_work(random: &mut Pcg64Mcg, span_ns: i64, every_ns: i64) -> Vec<OwnWork> {
    let work = |_| {
        let start_ns = BASE_NS + random.random_range(0..span_ns);
        let end_ns = start_ns + random.random_range(1_000..30_000);
        OwnWork { side: Side::Tx, cpu: Some(0), start_ns, end_ns, reason: OwnReason::Room }
    };
    let mut all: Vec<OwnWork> = (0..span_ns / every_ns).map(work).collect();
    all.sort_by_key(|work| work.start_ns);
    all
}

/// How often each kind of test gave a p-value below some levels, over many runs of noise: of 5
/// trials of 600 packets.
fn alarms(noise: Noise, closed: bool, runs: u64) -> (u64, BTreeMap<Place, [u64; 4]>) {
    let (mut verdicts, mut below) = (0, BTreeMap::<Place, [u64; 4]>::new());
    for run in 0..runs {
        let mut random = seeded(run * 31 + 7);
        let trial = |n: u32| {
            let values = noise.received(&mut random, 600);
            if closed {
                let span = values.iter().flatten().sum::<i64>();
                let work = random_work(&mut random, span, 300_000);
                pingpong(n, &values, work)
            } else {
                let work = random_work(&mut random, 600 * CYCLE_NS, 1_000_000);
                cyclic(n, &values, work)
            }
        };
        let trials: Vec<_> = (1..=5).map(trial).collect();
        let metrics = if closed { vec![ROUND_TRIP] } else { vec![ONE_WAY, Metric::Delta] };
        let answer = cell("all", &metrics, &trials);
        for (_, _, place, found) in answer.own_trace.tests() {
            let counts = below.entry(place).or_default();
            counts[0] += 1;
            for (at, level) in [0.05, 0.01, MOST_P].into_iter().enumerate() {
                counts[at + 1] += u64::from(found.p_value < level);
            }
        }
        verdicts += u64::from(!reported(&[answer]).is_empty());
    }
    (verdicts, below)
}

#[test]
fn noise_of_any_kind_is_no_trace_more_often_than_once_in_a_thousand_runs() {
    let of = |closed: bool| {
        let (mut runs_in_all, mut verdicts_in_all) = (0, 0);
        for (noise, runs) in NOISES {
            // No round trip of a closed loop is in step with the tick: there it would be a trace.
            if closed && matches!(noise, Noise::Tick) {
                continue;
            }
            let (verdicts, below) = alarms(noise, closed, runs);
            println!(
                "{noise:?}, closed loop {closed}: {verdicts} verdicts in {runs} runs, tests and p-values {below:?}"
            );
            (runs_in_all, verdicts_in_all) = (runs_in_all + runs, verdicts_in_all + verdicts);
            for (place, [tests, counts @ ..]) in below {
                for (level, count) in [0.05, 0.01, MOST_P].into_iter().zip(counts) {
                    // What is to be expected of that many tests, and four standard deviations of
                    // it.
                    let expected = level * tests as f64;
                    let most = expected + 4.0 * expected.sqrt() + 1.0;
                    assert!(count as f64 <= most, "{noise:?} {closed} {place:?}: {count} of {tests} below {level}");
                }
            }
        }
        (runs_in_all, verdicts_in_all)
    };
    std::thread::scope(|scope| {
        let both = [false, true].map(|closed| scope.spawn(move || of(closed)));
        for (runs, verdicts) in both.map(|thread| thread.join().expect("no run failed")) {
            assert!(verdicts as f64 <= runs as f64 * MOST_P, "{verdicts} verdicts in {runs} runs without a cause");
        }
    });
}

/// The same trials with this number of round trips in flight.
fn in_flight(number: u32, mut trials: Vec<(TrialRecord, Batch)>) -> Vec<(TrialRecord, Batch)> {
    let replies = trials.iter_mut().flat_map(|(record, _)| record.streams.values_mut().flat_map(|of| &mut of.reply));
    replies.for_each(|reply| reply.in_flight = number);
    trials
}

#[test]
fn places_of_round_trips_that_queue_for_one_another_were_called_tardys_own_trace() {
    for several in [2, 4, 16] {
        // Each waits for those before it in its bunch.
        let queues = move |_, values: &mut Vec<Option<i64>>| {
            values.iter_mut().enumerate().for_each(|(at, ns)| *ns = ns.map(|ns| ns + 5_000 * (at % several) as i64));
        };
        let of = |number: u32| cell("all", &[ROUND_TRIP], &in_flight(number, trials(8_000, true, queues)));
        assert!(reported(&[of(several as u32)]).is_empty(), "{several} in flight");
        assert!(!reported(&[of(1)]).is_empty(), "with one in flight nothing queues");
        // What tardy does to one of 64 shows at its place.
        let slow = move |n, values: &mut Vec<Option<i64>>| {
            queues(n, values);
            values.iter_mut().skip(3).step_by(64).flatten().for_each(|ns| *ns += 40_000);
        };
        let slow = in_flight(several as u32, trials(16_000, true, slow));
        let verdict = only(&[cell("all", &[ROUND_TRIP], &slow)]);
        assert_eq!((number(&verdict, "modulus"), number(&verdict, "remainder")), (64, 3), "{}", verdict.says);
        assert!(verdict.says.contains("where all at their place in flight take"), "{}", verdict.says);
    }
}
