// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every figure of a metric against a reckoning that sorts a list and looks at one value after the
//! other.

use super::fixture::{BASE_NS, CYCLE_NS, LEAD, Packet, batch, lost, noise, not_sent, received};
use super::quantiles::oracle;
use proptest::prelude::*;
use tardy_analyze::clusters::{INFINITE, gap_of};
use tardy_analyze::digest::{EXACT_ROWS, KEPT_ROWS, MetricDigest};
use tardy_analyze::distribution::{StreamDigest, Wanted, distribution};
use tardy_analyze::statistics::Quantile;
use tardy_model::expect::QUANTILES;
use tardy_model::histogram::Histogram;
use tardy_model::point::{Metric, Point};
use tardy_model::result::{MetricResult, Quantiles};
use tardy_model::sample::Outcome;

const SENT: Metric = Metric::Span(Point::Scheduled, Point::TxKernel);
const PATH: Metric = Metric::Span(Point::TxKernel, Point::RxKernel);

/// A metric of one trial: each packet's number and value in scheduled order, [`INFINITE`] if it
/// never arrived.
struct Trial {
    n: u32,
    rows: Vec<(i64, i64)>,
    possible: usize,
}

impl Trial {
    fn of_span(n: u32, packets: &[Packet], from: fn(&Packet) -> Option<i64>, to: fn(&Packet) -> Option<i64>) -> Self {
        let value = |packet: &Packet| match packet.outcome {
            Outcome::Received => Some(to(packet)? - from(packet)?),
            _ => Some(INFINITE),
        };
        let rows = (0..).zip(packets).filter_map(|(seq, packet)| Some((seq, value(packet)?))).collect();
        Trial { n, rows, possible: arrived(packets).count() }
    }

    /// As docs/method/points.md says of delta: the stamped in their order, each other behind the
    /// one scheduled before it.
    fn of_delta(n: u32, packets: &[Packet]) -> Self {
        let mut stamped: Vec<(i64, i64, i64)> = arrived(packets)
            .filter_map(|(seq, p)| {
                let scheduled = BASE_NS + seq * CYCLE_NS;
                Some((scheduled + p.rx_kernel?, p.receive.map_or(i64::MAX, |receive| scheduled + receive), seq))
            })
            .collect();
        stamped.sort_unstable();
        // What came behind each packet, by its number.
        let mut broken = vec![false; packets.len()];
        let mut before = None;
        for (seq, packet) in arrived(packets) {
            match (packet.rx_kernel, before) {
                (Some(_), _) => before = Some(seq),
                (None, Some(before)) => broken[before as usize] = true,
                (None, None) => {}
            }
        }
        let mut rows: Vec<(i64, i64)> = (0..)
            .zip(packets)
            .filter(|(_, packet)| packet.outcome != Outcome::Received)
            .map(|(seq, _)| (seq, INFINITE))
            .collect();
        for pair in stamped.windows(2) {
            if !broken[pair[0].2 as usize] {
                rows.push((pair[1].2, pair[1].0 - pair[0].0));
            }
        }
        rows.sort_unstable();
        Trial { n, rows, possible: arrived(packets).count().saturating_sub(1) }
    }

    fn all(n: u32, packets: &[Packet]) -> Vec<(Metric, Trial)> {
        vec![
            (LEAD, Trial::of_span(n, packets, |_| Some(0), |p| p.rx_kernel)),
            (SENT, Trial::of_span(n, packets, |_| Some(0), |p| p.tx_kernel)),
            (PATH, Trial::of_span(n, packets, |p| p.tx_kernel, |p| p.rx_kernel)),
            (Metric::Delta, Trial::of_delta(n, packets)),
        ]
    }
}

fn arrived(packets: &[Packet]) -> impl Iterator<Item = (i64, &Packet)> {
    (0..).zip(packets).filter(|(_, packet)| packet.outcome == Outcome::Received)
}

/// Compares all figures. `kept` and `exact` are the bounds up to which clusters and percentiles
/// are exact.
fn check(digest: &MetricDigest, trials: &[&Trial], kept: usize, exact: usize) {
    let (result, histogram) = digest.finish_with_histogram("kernel", Some("nothing there".to_owned()));
    let intended: Vec<Vec<i64>> = trials.iter().map(|t| t.rows.iter().map(|(_, value)| *value).collect()).collect();
    let only: Vec<Vec<i64>> =
        intended.iter().map(|t| t.iter().copied().filter(|value| *value != INFINITE).collect()).collect();
    let mut values = only.concat();
    values.sort_unstable();
    let (count, n) = (values.len(), intended.iter().map(Vec::len).sum::<usize>());
    let possible: usize = trials.iter().map(|trial| trial.possible).sum();
    assert_eq!((result.count as usize, histogram.count() as usize), (count, count));
    assert_eq!(result.coverage, if possible == 0 { 0.0 } else { count as f64 / possible as f64 });
    assert_eq!(result.percentiles, if n <= exact { "exact" } else { "hdr3" });
    check_histogram(&histogram, &values);
    if count == 0 {
        let named = |wanted: Quantile| {
            let is = |q: f64| n > 0 && oracle(&intended, q) == wanted;
            QUANTILES.into_iter().filter(|(.., q)| is(*q)).map(|(_, name, _)| name.to_owned()).collect::<Vec<_>>()
        };
        let max = (n > 0).then(|| "max".to_owned());
        let nothing = MetricResult {
            infinite: named(Quantile::Infinite).into_iter().chain(max).collect(),
            unresolved: named(Quantile::Unresolved),
            clock: "tai".to_owned(),
            source: "kernel".to_owned(),
            percentiles: result.percentiles.clone(),
            why: Some("nothing there".to_owned()),
            ..MetricResult::default()
        };
        assert_eq!(result, nothing);
        return;
    }
    let (all, received) = if n > count { (None, values.last().copied()) } else { (values.last().copied(), None) };
    assert_eq!((result.figures.min_ns, result.figures.max_ns), (values.first().copied(), all));
    assert_eq!((result.received_only_max_ns, result.is_unbounded()), (received, n > count));
    assert_eq!((result.source.as_str(), result.why.as_ref()), ("kernel", None));
    assert_eq!(result.negative as usize, values.iter().filter(|value| **value < 0).count());
    check_moments(&result, &values);
    let greatest = |trial: &Trial| {
        let row = trial.rows.iter().find(|(_, value)| Some(value) == values.last())?;
        Some((trial.n, row.0))
    };
    let first = trials.iter().filter_map(|trial| greatest(trial)).min();
    assert_eq!(result.max_trial.zip(result.max_seq), first);
    check_quantiles(&result, &intended, &only, possible - count.min(possible), (kept, exact));
}

fn check_histogram(histogram: &Histogram, values: &[i64]) {
    let mut seen = 0;
    for bucket in histogram.iter() {
        let from = values.partition_point(|value| *value < bucket.low_ns);
        let to = values.partition_point(|value| *value <= bucket.high_ns);
        assert_eq!((from, to - from), (seen, bucket.count as usize), "{bucket:?}");
        seen = to;
    }
    assert_eq!(seen, values.len());
    assert_eq!((histogram.min(), histogram.max()), (values.first().copied(), values.last().copied()));
}

fn check_moments(result: &MetricResult, values: &[i64]) {
    let n = values.len() as i128;
    let sum: i128 = values.iter().map(|value| i128::from(*value)).sum();
    let mean = result.figures.mean_ns.unwrap();
    assert!((mean - sum as f64 / n as f64).abs() <= mean.abs() * 1e-12, "mean {mean}");
    // Σ(n·v − Σv)², each difference exact.
    let squares: f64 =
        values.iter().map(|value| (n * i128::from(*value) - sum) as f64).map(|about| about * about).sum();
    let Some(stddev) = result.figures.stddev_ns else { return assert_eq!(n, 1) };
    let exact = (squares / (n as f64).powi(2) / (n - 1) as f64).sqrt();
    assert!((stddev - exact).abs() <= exact * 1e-9, "standard deviation {stddev}, not {exact}");
}

fn check_quantiles(
    result: &MetricResult,
    intended: &[Vec<i64>],
    only: &[Vec<i64>],
    holes: usize,
    bounds: (usize, usize),
) {
    let n: usize = intended.iter().map(Vec::len).sum();
    let figures = result.figures.quantiles.as_array();
    // Left out where it would say the same.
    let received = result.received_only.as_ref().unwrap_or(&result.figures.quantiles).as_array();
    let never = n > only.iter().map(Vec::len).sum();
    assert!(never || result.received_only.is_none());
    assert!(result.received_only.as_ref() != Some(&result.figures.quantiles));
    for (at, (_, name, q)) in QUANTILES.into_iter().enumerate() {
        let named = |list: &[String]| list.iter().any(|listed| listed == name);
        let got = match (figures[at], named(&result.infinite), named(&result.unresolved)) {
            (Some(ns), false, false) => Quantile::Value(ns),
            (None, true, false) => Quantile::Infinite,
            (None, false, true) => result.between_ns.get(name).map_or(Quantile::Unresolved, |b| Quantile::Between(*b)),
            other => panic!("{name}: {other:?}"),
        };
        check_quantile(got, intended, q, holes, n, bounds);
        // Figures of the received packets alone come without a reason.
        let got = match (received[at], with_holes(only, q, holes)) {
            (Some(ns), _) => Quantile::Value(ns),
            (None, between @ Quantile::Between(_)) if n <= bounds.0 => between,
            (None, _) => Quantile::Unresolved,
        };
        check_quantile(got, only, q, holes, n, bounds);
    }
}

/// The quantile, and where it lies if it depends on as many packets more, which are all the
/// fastest or all the slowest.
fn with_holes(trials: &[Vec<i64>], q: f64, holes: usize) -> Quantile {
    let found = oracle(trials, q);
    if holes == 0 || found == Quantile::Unresolved {
        return found;
    }
    let at = |hole: i64| {
        let mut sorted: Vec<i64> = trials.concat().into_iter().chain(std::iter::repeat_n(hole, holes)).collect();
        sorted.sort_unstable();
        sorted[((q * 10_000.0).round() as usize * sorted.len()).div_ceil(10_000) - 1]
    };
    let [least, greatest] = [at(i64::MIN), at(INFINITE)];
    let apart = i128::from(greatest) - i128::from(least);
    let same = greatest != INFINITE && least != i64::MIN && apart * 1024 <= i128::from(least.unsigned_abs().max(1024));
    if same || (least == INFINITE && greatest == INFINITE) {
        return found;
    }
    Quantile::Between([least, greatest].map(|ns| (ns != INFINITE && ns != i64::MIN).then_some(ns)))
}

/// `n` is the number of all intended, which the bounds hold for.
fn check_quantile(got: Quantile, trials: &[Vec<i64>], q: f64, holes: usize, n: usize, (kept, exact): (usize, usize)) {
    let naive = with_holes(trials, q, holes);
    if n <= kept {
        return assert_eq!(got, naive, "of {q}");
    }
    assert_eq!(got == Quantile::Infinite, naive == Quantile::Infinite, "of {q}");
    if n <= exact {
        assert!(
            !matches!((got, naive), (Quantile::Value(_), Quantile::Between(_))),
            "{q} is printed: {got:?}, {naive:?}"
        );
    }
    let Quantile::Value(got) = got else { return };
    let mut sorted = trials.concat();
    sorted.sort_unstable();
    let rank = ((q * 10_000.0).round() as usize * sorted.len()).div_ceil(10_000);
    let value = sorted[rank - 1];
    if n <= exact {
        assert_eq!(got, value, "of {q}");
    } else {
        let above = i128::from(got) - i128::from(value);
        let most = i128::from(got.unsigned_abs().max(value.unsigned_abs())) / 1000;
        assert!((0..=most).contains(&above), "{got} stands for {value} of {q}");
    }
    // Ten clusters of packets in higher buckets, or of those and of the ones that share the
    // bucket, which then are equal.
    let high = |ns: i64| if ns == INFINITE { ns } else { Histogram::bounds_of(Histogram::bucket_of(ns)).1 };
    let above: usize = trials.iter().map(|trial| clusters_above(trial, high(value), gap_of(q))).sum();
    let in_buckets: Vec<Vec<i64>> = trials.iter().map(|trial| trial.iter().map(|ns| high(*ns)).collect()).collect();
    let is_grounded = above >= 10 || matches!(oracle(&in_buckets, q), Quantile::Value(_));
    assert!(is_grounded, "{q} is printed with {above} clusters beyond");
}

fn clusters_above(values: &[i64], limit: i64, gap: usize) -> usize {
    let starts = |at: usize| values[at] > limit && values[at.saturating_sub(gap)..at].iter().all(|v| *v <= limit);
    (0..values.len()).filter(|at| starts(*at)).count()
}

/// A part of a trial whose packets are of one kind.
fn part(kind: u8, length: usize, seed: u64) -> Vec<Packet> {
    let far = i64::MAX / 4;
    let of = |ns: i64| match kind {
        0 | 1 => received(ns),
        2 => received(11_000),
        3 => Packet { rx_kernel: None, ..received(ns) },
        4 => Packet { tx_kernel: None, receive: None, ..received(ns) },
        5 => lost(ns),
        6 => not_sent(),
        7 => received(10_000 - ns),
        // In the opposite order, many of them within the 100 ms that arrivals are waited for.
        8 => received(ns * 3_000),
        // Ties: stamped at the end of the slot and at the start of the next one.
        9 => received(if ns % 2 == 0 { CYCLE_NS } else { 0 }),
        10 => Packet { receive: None, ..received(if ns % 2 == 0 { CYCLE_NS } else { 0 }) },
        11 => Packet { rx_kernel: Some(ns / 5_000), ..received(ns) },
        12 if ns % 3 == 0 => received(far - ns),
        12 if ns % 3 == 1 => received(ns - far),
        // Some of everything.
        _ => match ns % 7 {
            0 => lost(ns),
            1 => Packet { rx_kernel: None, ..received(ns) },
            2 => received(ns * 100),
            _ => received(ns),
        },
    };
    noise(seed, length).into_iter().map(of).collect()
}

fn trial() -> impl Strategy<Value = Vec<Packet>> {
    let length = prop_oneof![6 => 1usize..20, 2 => 900usize..1_100, 1 => Just(1_024usize), 1 => 2_000usize..2_100];
    let kind = prop_oneof![4 => Just(0u8), 1 => 0u8..14];
    let part = (kind, length, any::<u64>()).prop_map(|(kind, length, seed)| part(kind, length, seed));
    proptest::collection::vec(part, 0..9).prop_map(|parts| parts.concat())
}

/// The packets' figures, their batches as long as `sizes` says, again and again.
fn cut(n: u32, packets: &[Packet], sizes: &[usize]) -> StreamDigest {
    let (mut batches, mut at, mut sizes) = (Vec::new(), 0, sizes.iter().cycle());
    while at < packets.len() {
        let end = packets.len().min(at + sizes.next().unwrap());
        batches.push(batch(at as i64, &packets[at..end]));
        at = end;
    }
    let wanted = Wanted { metrics: vec![LEAD, SENT, PATH, Metric::Delta], ..Wanted::default() };
    distribution(n, &wanted, batches)
}

/// Merges neighbours until one is left, in the order that `which` says.
fn merged(mut digests: Vec<MetricDigest>, which: &[usize]) -> MetricDigest {
    let mut which = which.iter().cycle();
    while digests.len() > 1 {
        let at = which.next().unwrap() % (digests.len() - 1);
        let later = digests.remove(at + 1);
        digests[at].merge(later);
    }
    digests.remove(0)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_figure_of_any_trials_is_the_naive_one(
        trials in proptest::collection::vec(trial(), 1..5),
        sizes in proptest::collection::vec(prop_oneof![1usize..60, 1_000usize..5_000], 1..6),
        which in proptest::collection::vec(0usize..5, 1..5),
    ) {
        // Numbered backwards, so that the first of equal maxima is not the first that was merged.
        let numbered: Vec<(u32, &Vec<Packet>)> = (1..=trials.len() as u32).rev().zip(&trials).collect();
        let mut digests: Vec<StreamDigest> = numbered.iter().map(|(n, packets)| cut(*n, packets, &sizes)).collect();
        let naive: Vec<Vec<(Metric, Trial)>> = numbered.iter().map(|(n, packets)| Trial::all(*n, packets)).collect();
        for (at, (metric, _)) in naive[0].iter().enumerate() {
            let of_metric: Vec<&Trial> = naive.iter().map(|trial| &trial[at].1).collect();
            let found: Vec<MetricDigest> = digests.iter_mut().map(|d| d.metrics.remove(metric).unwrap()).collect();
            check(&found[0], &of_metric[..1], KEPT_ROWS, EXACT_ROWS);
            check(&merged(found, &which), &of_metric, KEPT_ROWS, EXACT_ROWS);
        }
    }

    #[test]
    fn every_figure_of_any_values_is_the_naive_one_on_both_sides_of_a_bound(
        parts in proptest::collection::vec((0u8..7, prop_oneof![1usize..30, 1_000usize..3_000], any::<u64>()), 1..6),
        exact_rows in prop_oneof![Just(0usize), 1usize..200, 1_000usize..9_000, Just(EXACT_ROWS)],
        size in prop_oneof![1usize..40, 1_000usize..3_000],
        which in proptest::collection::vec(0usize..5, 1..5),
    ) {
        let trials: Vec<Trial> = (1..).zip(&parts).map(|(n, (kind, length, seed))| {
            let value = |ns: i64| match kind {
                0 => ns,
                1 => ns % 40,
                2 if ns % 50 == 0 => INFINITE,
                2 => ns * 1_000 % (1 << 25) - (1 << 22),
                // 0.4 s and more before and after: no value has a page.
                3 => (ns - 20_000) * 44_000,
                4 if ns % 2 == 0 => i64::MAX / 4 - ns,
                4 => ns - i64::MAX / 4,
                5 => if ns % 100 == 0 { 5_000_000 } else { 12_345 },
                _ => -ns,
            };
            let rows: Vec<(i64, i64)> = (0..).zip(noise(*seed, *length).into_iter().map(value)).collect();
            let possible = rows.iter().filter(|(_, value)| *value != INFINITE).count();
            Trial { n, rows, possible }
        }).collect();
        let digests = trials.iter().map(|trial| digest_of(trial, exact_rows, size)).collect();
        check(&merged(digests, &which), &trials.iter().collect::<Vec<_>>(), exact_rows, exact_rows);
    }
}

fn digest_of(trial: &Trial, exact_rows: usize, size: usize) -> MetricDigest {
    let mut digest = MetricDigest::with_exact_rows(trial.n, exact_rows);
    for rows in trial.rows.chunks(size) {
        let (seqs, values): (Vec<i64>, Vec<i64>) = rows.iter().copied().unzip();
        digest.absorb(&values, &seqs);
    }
    digest.expect(trial.possible as u64);
    digest
}

#[test]
fn every_figure_is_the_naive_one_around_the_lengths_of_the_list_of_values() {
    for length in [32_767, 32_768, 32_769, 65_535, 65_536, 65_537, 140_001] {
        // Wide apart, so that all stay listed; in pages with as many as make them; both.
        let spreads: [fn(i64, i64) -> i64; 3] =
            [|_, ns| ns * 7_919, |_, ns| ns, |row, ns| ns * if row % 3 == 0 { 900 } else { 1 }];
        for (n, spread) in (1..).zip(spreads) {
            let values = noise(length as u64, length);
            let rows: Vec<(i64, i64)> = (0..).zip(values).map(|(row, ns)| (row, spread(row, ns))).collect();
            let trial = Trial { n, possible: rows.len(), rows };
            for exact in [20_000, EXACT_ROWS] {
                check(&digest_of(&trial, exact, 4_096), &[&trial], exact, exact);
            }
        }
    }
}

/// Many packets: losses, a stall now and then, a tail.
fn long(seed: u64, length: usize) -> Vec<Packet> {
    let of = |(row, ns): (usize, i64)| match (row % 100_000, ns % 5_003) {
        (50_000..50_400, _) => received(2_000_000 + ns),
        (_, 0) => lost(ns),
        (_, 1..6) => received(ns * 40),
        (_, 6) => Packet { rx_kernel: None, ..received(ns) },
        _ => received(ns),
    };
    noise(seed, length).into_iter().enumerate().map(of).collect()
}

#[test]
fn three_hundred_thousand_rows_are_judged_exactly() {
    let packets = long(1, 300_000);
    let digest = cut(1, &packets, &[16_384]);
    for (metric, trial) in Trial::all(1, &packets) {
        check(&digest.metrics[&metric], &[&trial], KEPT_ROWS, EXACT_ROWS);
    }
}

#[test]
fn more_rows_than_are_kept_never_print_a_percentile_without_ground() {
    let packets = long(2, KEPT_ROWS + 200_000);
    let naive = Trial::all(1, &packets);
    let whole = cut(1, &packets, &[16_384]);
    let other = cut(1, &packets, &[5_000, 77, 16_384]);
    for (metric, trial) in naive.iter().filter(|(metric, _)| [LEAD, Metric::Delta].contains(metric)) {
        check(&whole.metrics[metric], &[trial], KEPT_ROWS, EXACT_ROWS);
        assert_eq!(whole.metrics[metric], other.metrics[metric], "{metric} depends on where batches are cut");
    }
    // There is ground for the lower ones.
    let lead = whole.metrics[&LEAD].finish("kernel", None).figures.quantiles;
    assert!(lead.p50_ns.is_some() && lead.p90_ns.is_some() && lead.p99_ns.is_some(), "{lead:?}");
}

#[test]
fn trials_pooled_to_more_rows_than_are_kept_never_print_a_percentile_without_ground() {
    let trials: Vec<Trial> =
        (1..5).map(|n| Trial::of_span(n, &long(n.into(), KEPT_ROWS * 3 / 10), |_| Some(0), |p| p.rx_kernel)).collect();
    let naive: Vec<&Trial> = trials.iter().collect();
    for which in [[0, 0, 0], [2, 1, 0], [0, 1, 0]] {
        let digests = trials.iter().map(|trial| digest_of(trial, EXACT_ROWS, 16_384)).collect();
        check(&merged(digests, &which), &naive, KEPT_ROWS, EXACT_ROWS);
    }
}

#[test]
fn nine_stalls_among_more_rows_than_are_kept_resolve_nothing_beyond_them() {
    let mut values = noise(7, KEPT_ROWS + 50_000);
    for stall in 0..9 {
        values[100_000 * stall + 50_000..][..200]
            .iter_mut()
            .zip(0..)
            .for_each(|(value, n)| *value = 3_000_000 - 9_000 * n);
    }
    let rows: Vec<(i64, i64)> = (0..).zip(values).collect();
    let trial = Trial { n: 1, possible: rows.len(), rows };
    let digest = digest_of(&trial, EXACT_ROWS, 16_384);
    check(&digest, &[&trial], KEPT_ROWS, EXACT_ROWS);
    let result = digest.finish("kernel", None);
    assert_eq!(result.unresolved, ["p99.9", "p99.99"]);
    assert_ne!(result.figures.quantiles, Quantiles::default());
}

#[test]
fn one_stall_that_fills_a_bucket_is_not_ten_events() {
    let (low, high) = Histogram::bounds_of(Histogram::bucket_of(1_000_000));
    let mut values = noise(7, 200_000);
    for (value, n) in values[100_000..100_300].iter_mut().zip(0..) {
        *value = low + n % (high - low + 1);
    }
    let digest = |values: &[i64]| {
        let rows: Vec<(i64, i64)> = (0..).zip(values.iter().copied()).collect();
        digest_of(&Trial { n: 1, possible: rows.len(), rows }, 20_000, 4_096)
    };
    // 200 of its 300 packets rank beyond p99.9.
    assert_eq!(digest(&values).quantile(0.999, true), Quantile::Unresolved);
    assert!(matches!(digest(&values).quantile(0.99, true), Quantile::Value(_)));
    // Latencies that hardly differ are no stall: they resolve as many percentiles as any.
    let alike: Vec<i64> = (0..200_000).map(|n| low + n % 2).collect();
    assert!(matches!(digest(&alike).quantile(0.999, true), Quantile::Value(_)));
}

#[test]
fn a_spread_of_years_was_reckoned_from_squares_that_no_longer_fitted() {
    // A clock never set, 50 years off; and one set in mid-trial.
    let unset: Vec<i64> = noise(3, 5_000).into_iter().map(|ns| ns - 1_600_000_000_000_000_000).collect();
    let set: Vec<i64> = unset.iter().zip(0..).map(|(ns, row)| if row < 2_500 { *ns } else { 10_000 }).collect();
    for values in [unset, set] {
        let rows: Vec<(i64, i64)> = (0..).zip(values).collect();
        let trial = Trial { n: 1, possible: rows.len(), rows };
        check(&digest_of(&trial, EXACT_ROWS, 1_000), &[&trial], KEPT_ROWS, EXACT_ROWS);
    }
}
