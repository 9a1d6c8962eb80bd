// SPDX-License-Identifier: MIT OR Apache-2.0
//! Quantiles, coverage, outcomes, clusters, the histogram and the moments against plain
//! computations of them.

use super::fixture::{LEAD, Packet, batches, healthy_packets, lost, noise, not_sent, received};
use proptest::prelude::*;
use tardy_analyze::clusters::{Beyond, INFINITE, Starts, gap_of, separate};
use tardy_analyze::digest::MetricDigest;
use tardy_analyze::distribution::{Wanted, distribution};
use tardy_analyze::statistics::{Moments, Quantile, packets_for, rank_of};
use tardy_model::expect::QUANTILES;
use tardy_model::histogram::{Bucket, Histogram};
use tardy_model::point::{Metric, Point};
use tardy_model::result::{MetricResult, Outcomes};
use tardy_model::sample::Flags;

const WAIT: Metric = Metric::Span(Point::RxKernel, Point::Receive);

fn digest(values: &[i64]) -> MetricDigest {
    digest_of(1, values, usize::MAX)
}

fn digest_of(trial: u32, values: &[i64], exact_rows: usize) -> MetricDigest {
    let seqs: Vec<i64> = (0..values.len() as i64).collect();
    let mut digest = MetricDigest::with_exact_rows(trial, exact_rows);
    for (values, seqs) in values.chunks(7).zip(seqs.chunks(7)) {
        digest.absorb(values, seqs);
    }
    digest.expect(values.iter().filter(|value| **value != INFINITE).count() as u64);
    digest
}

fn finish(values: &[i64]) -> MetricResult {
    digest(values).finish("kernel", None)
}

/// The quantile by sorting, and its clusters by their definition: an exceedance that has no other
/// among the `gap` before it.
pub(super) fn oracle(trials: &[Vec<i64>], q: f64) -> Quantile {
    let mut sorted: Vec<i64> = trials.concat();
    sorted.sort_unstable();
    let rank = ((q * 10_000.0).round() as usize * sorted.len()).div_ceil(10_000);
    let value = sorted[rank - 1];
    if value == INFINITE {
        return if sorted.len() - rank < 10 { Quantile::Unresolved } else { Quantile::Infinite };
    }
    let tied = sorted.iter().filter(|other| **other == value).count();
    let beyond = sorted[rank..].iter().filter(|other| **other == value).count();
    let mut met = 0;
    let mut exceeds = |other: i64| {
        if other != value {
            return other > value;
        }
        met += 1;
        // The j-th of the tied ones is taken if a multiple of tied/beyond lies in (j − 1, j].
        (met * beyond) / tied > ((met - 1) * beyond) / tied
    };
    let mut clusters = 0;
    for trial in trials {
        let marks: Vec<bool> = trial.iter().map(|other| exceeds(*other)).collect();
        clusters += (0..marks.len())
            .filter(|at| marks[*at] && !marks[at.saturating_sub(gap_of(q))..*at].contains(&true))
            .count();
    }
    if clusters < 10 { Quantile::Unresolved } else { Quantile::Value(value) }
}

fn trials() -> impl Strategy<Value = Vec<Vec<i64>>> {
    let value = prop_oneof![
        20 => -300i64..3_000,
        20 => 10_000i64..20_000_000,
        1 => Just(INFINITE),
        2 => Just(5_000_000i64),
    ];
    proptest::collection::vec(proptest::collection::vec(value, 1..700), 1..4)
}

#[test]
fn ranks_are_whole_numbers_without_rounding_errors() {
    assert_eq!(rank_of(0.9999, 10_000), 9_999);
    assert_eq!(rank_of(0.999, 1_000), 999);
    assert_eq!(rank_of(0.999, 1_001), 1_000);
    assert_eq!(rank_of(0.5, 5), 3);
    assert_eq!((rank_of(0.5, 1), rank_of(0.5, 0)), (1, 0));
    assert_eq!(rank_of(0.99, 1 << 60), (1u64 << 60) / 100 * 99 + ((1u64 << 60) % 100 * 99).div_ceil(100));
    assert_eq!((packets_for(0.5, 10), packets_for(0.9999, 10)), (20, 100_000));
    assert_eq!(QUANTILES.map(|(_, _, q)| gap_of(q)), [1, 1, 10, 10, 10]);
}

#[test]
fn percentiles_of_a_thousand_by_hand() {
    // 1 to 1000 µs, so mixed that neighbours in value stand far apart.
    let values: Vec<i64> = (0..1_000).map(|n| ((n * 387) % 1_000 + 1) * 1_000).collect();
    let result = finish(&values);
    let figures = &result.figures;
    assert_eq!(figures.quantiles.as_array(), [Some(500_000), Some(900_000), Some(990_000), None, None]);
    assert_eq!(result.unresolved, ["p99.9", "p99.99"]);
    assert_eq!((figures.min_ns, figures.max_ns, figures.mean_ns), (Some(1_000), Some(1_000_000), Some(500_500.0)));
    assert_eq!(result.max_seq, Some(values.iter().position(|value| *value == 1_000_000).unwrap() as i64));
    assert_eq!((result.count, result.coverage, result.percentiles.as_str()), (1_000, 1.0, "exact"));
    assert!(result.infinite.is_empty() && result.received_only.is_none());
}

#[test]
fn packets_without_a_stamp_are_not_taken_for_fast_ones() {
    // Of 120 000 packets the 80 slowest, scattered, have no stamp: what is left shows a p99.99
    // that is far too low.
    let mut packets = healthy_packets(5, 120_000);
    for (packet, n) in packets.iter_mut().step_by(100).zip(0..1_200) {
        *packet = received(1_000_000 + 1_000 * n);
    }
    let wanted = Wanted { metrics: vec![LEAD], ..Wanted::default() };
    let find = |packets: &[Packet]| {
        let mut found = distribution(1, &wanted, batches(packets, 4_096)).metrics;
        found.remove(&LEAD).expect("it was wanted").finish("kernel", None)
    };
    let whole = find(&packets).figures.quantiles;
    assert_eq!(whole.p99_99_ns, Some(2_187_000));
    packets.iter_mut().step_by(100).skip(1_120).for_each(|packet| packet.rx_kernel = None);
    let result = find(&packets);
    let found = &result.figures.quantiles;
    assert_eq!(found.p99_99_ns, None, "coverage {}", result.coverage);
    assert_eq!(result.unresolved, ["p99.9", "p99.99"]);
    let between = |name: &str| result.between_ns[name];
    assert!(between("p99.99")[1].is_none() && between("p99.99")[0] < whole.p99_99_ns);
    assert!(between("p99.9")[0] <= whole.p99_9_ns && between("p99.9")[1] >= whole.p99_9_ns);
    // Percentiles that they cannot change have a value.
    assert!(found.p50_ns.is_some() && found.p90_ns.is_some() && found.p99_ns.is_some(), "{found:?}");
}

#[test]
fn p99_of_1000_is_resolved_by_ten_separate_stragglers_and_not_by_one_stall() {
    let mut values = noise(1, 1_000);
    (0..10).for_each(|n| values[n * 97 + 5] = 1_000_000);
    assert!(finish(&values).figures.quantiles.p99_ns.is_some());
    let mut values = noise(1, 1_000);
    (500..510).for_each(|n| values[n] = 1_000_000);
    let result = finish(&values);
    assert_eq!(result.figures.quantiles.p99_ns, None);
    assert!(result.unresolved.contains(&"p99".to_owned()));
}

#[test]
fn equal_values_are_resolved_by_their_number() {
    let result = finish(&vec![11_000; 10_000]);
    assert_eq!(result.figures.quantiles.as_array(), [Some(11_000), Some(11_000), Some(11_000), Some(11_000), None]);
    assert_eq!(result.unresolved, ["p99.99"]);
    assert_eq!(result.figures.stddev_ns, Some(0.0));
}

#[test]
fn losing_the_worst_packets_does_not_improve_p99() {
    let mut packets = healthy_packets(3, 10_000);
    (0..200).for_each(|n| packets[n * 50] = if n % 2 == 0 { lost(0) } else { not_sent() });
    let wanted = Wanted { metrics: vec![LEAD], ..Wanted::default() };
    let digest = distribution(1, &wanted, batches(&packets, 999));
    let result = digest.metrics[&LEAD].finish("kernel", None);
    assert_eq!(
        digest.outcomes,
        Outcomes { intended: 10_000, received: 9_800, lost: 100, not_sent: 100, ..Outcomes::default() }
    );
    assert_eq!((result.count, result.coverage), (9_800, 1.0));
    assert_eq!(result.figures.quantiles.p99_ns, None);
    assert_eq!(result.infinite, ["p99", "p99.9", "max"]);
    assert_eq!(result.unresolved, ["p99.99"], "as of 10 000 packets that arrived");
    let received_only = result.received_only.unwrap();
    let mut sorted: Vec<i64> = packets.iter().filter_map(|packet| packet.rx_kernel).collect();
    sorted.sort_unstable();
    assert_eq!(received_only.p99_ns, Some(sorted[9_702 - 1]));
    assert_eq!(received_only.p50_ns, Some(sorted[4_900 - 1]));
    assert_eq!(result.figures.quantiles.p50_ns, Some(sorted[5_000 - 1]));
}

#[test]
fn a_missing_stamp_leaves_the_ranks_and_shows_in_the_coverage() {
    let mut packets = healthy_packets(4, 1_000);
    for packet in &mut packets[100..110] {
        packet.rx_kernel = None;
    }
    packets[500].rx_kernel = None;
    packets[3] = received(-700);
    packets[7].flags.set(Flags::LATE);
    packets[3].flags.set(Flags::EARLY);
    let span = Metric::Span(Point::TxKernel, Point::RxKernel);
    let absent = Metric::Span(Point::TxHw, Point::RxKernel);
    let wanted = Wanted {
        metrics: vec![LEAD, span, absent],
        points: vec![Point::RxKernel, Point::TxKernel],
        ..Wanted::default()
    };
    let digest = distribution(1, &wanted, batches(&packets, 105));
    let result = digest.metrics[&LEAD].finish("kernel", None);
    assert_eq!((result.count, result.coverage, result.negative), (989, 0.989, 1));
    let mut sorted: Vec<i64> = packets.iter().filter_map(|packet| packet.rx_kernel).collect();
    sorted.sort_unstable();
    // The eleven may all be faster than the rank 500 of 1 000, or all slower.
    assert_eq!(result.figures.quantiles.p50_ns, None);
    assert_eq!(result.between_ns["p50"], [Some(sorted[489 - 1]), Some(sorted[500 - 1])]);
    assert_eq!((digest.outcomes.early, digest.outcomes.late), (1, 1));
    let bursts = digest.coverage.points[&Point::RxKernel];
    assert_eq!((bursts.missing, bursts.bursts, bursts.longest, bursts.longest_from_seq), (11, 2, 10, 100));
    assert_eq!(digest.coverage.points[&Point::TxKernel].coverage(), 1.0);
    assert_eq!(digest.metrics[&span].finish("kernel", None).figures.max_ns, Some(400));
    let absent = digest.metrics[&absent].finish("", Some("no clock".to_owned()));
    assert_eq!((absent.count, absent.coverage, absent.why.as_deref()), (0, 0.0, Some("no clock")));
    assert_eq!(absent.figures, Default::default());
}

#[test]
fn twenty_packets_in_step_leave_p50_unresolved_and_two_hundred_do_not() {
    let values = noise(9, 200);
    assert_eq!(finish(&values[..15]).figures.quantiles.p50_ns, None);
    assert!(finish(&values).figures.quantiles.p50_ns.is_some());
}

#[test]
fn above_the_bound_the_histogram_stands_in_and_says_so() {
    let values = noise(5, 30_000);
    let exact = finish(&values);
    let result = digest_of(1, &values, 10_000).finish("kernel", None);
    assert_eq!((exact.percentiles.as_str(), result.percentiles.as_str()), ("exact", "hdr3"));
    assert_eq!(result.unresolved, exact.unresolved);
    for (got, exact) in result.figures.quantiles.as_array().into_iter().zip(exact.figures.quantiles.as_array()) {
        let (Some(got), Some(exact)) = (got, exact) else {
            assert_eq!(got, exact);
            continue;
        };
        assert!(got >= exact && (got - exact) as f64 <= exact as f64 / 1000.0);
    }
    assert_eq!(
        (result.figures.max_ns, result.max_seq, result.figures.mean_ns),
        (exact.figures.max_ns, exact.max_seq, exact.figures.mean_ns)
    );
    // Pooling two trials that each are small enough crosses the bound too.
    let mut pooled = digest_of(1, &values[..9_000], 10_000);
    pooled.merge(digest_of(2, &values[9_000..18_000], 10_000));
    assert_eq!(pooled.finish("kernel", None).percentiles, "hdr3");
    // Without values there is still a resolved answer for many equal ones, and none for one stall.
    let equal = digest_of(1, &vec![500_000; 30_000], 10_000).finish("kernel", None);
    assert_eq!(equal.figures.quantiles.p99_ns, Some(500_000));
    let mut stall = vec![1_000; 30_000];
    (0..300).for_each(|n| stall[20_000 + n] = 1_000_000 - 3_000 * n as i64);
    let stall = digest_of(1, &stall, 10_000).finish("kernel", None);
    assert!(stall.unresolved.contains(&"p99.9".to_owned()));
}

#[test]
fn the_maximum_names_its_packet_and_trial() {
    let mut pooled = digest_of(3, &[5, 9, 2], 100);
    pooled.merge(digest_of(1, &[4, 1, 9], 100));
    pooled.merge(digest_of(2, &[8, INFINITE], 100));
    let result = pooled.finish("kernel", None);
    assert_eq!((result.received_only_max_ns, result.max_trial, result.max_seq), (Some(9), Some(1), Some(2)));
    assert_eq!((result.figures.max_ns, result.infinite), (None, vec!["max".to_owned()]), "one never arrived");
}

proptest! {
    #[test]
    fn quantiles_and_clusters_are_those_of_the_sorted_values(trials in trials()) {
        let mut pooled: Option<MetricDigest> = None;
        for (n, values) in trials.iter().enumerate() {
            let digest = digest_of(n as u32 + 1, values, usize::MAX);
            match &mut pooled {
                Some(pooled) => pooled.merge(digest),
                None => pooled = Some(digest),
            }
        }
        let pooled = pooled.unwrap();
        for (_, name, q) in QUANTILES {
            prop_assert_eq!(pooled.quantile(q, true), oracle(&trials, q), "{}", name);
            let received: Vec<Vec<i64>> =
                trials.iter().map(|t| t.iter().copied().filter(|v| *v != INFINITE).collect()).collect();
            if received.iter().any(|trial| !trial.is_empty()) {
                prop_assert_eq!(pooled.quantile(q, false), oracle(&received, q), "{} of those received", name);
            }
        }
    }

    #[test]
    fn merging_is_the_same_as_one_pass(values in trials(), exact_rows in prop_oneof![Just(usize::MAX), 1usize..2_000]) {
        // Within one trial number, so that a border is the only difference: it can only add
        // clusters.
        let one = digest_of(1, &values.concat(), exact_rows);
        let mut merged = MetricDigest::with_exact_rows(1, exact_rows);
        values.iter().for_each(|values| merged.merge(digest_of(1, values, exact_rows)));
        let (one, merged) = (one.finish("kernel", None), merged.finish("kernel", None));
        prop_assert_eq!(&one.percentiles, &merged.percentiles);
        prop_assert_eq!((one.count, one.coverage, one.negative), (merged.count, merged.coverage, merged.negative));
        let moments =
            |r: &MetricResult| (r.figures.min_ns, r.figures.mean_ns, r.figures.stddev_ns, r.figures.max_ns, r.received_only_max_ns);
        prop_assert_eq!(moments(&one), moments(&merged));
        prop_assert_eq!(&one.infinite, &merged.infinite);
        for (one, merged) in one.figures.quantiles.as_array().into_iter().zip(merged.figures.quantiles.as_array()) {
            prop_assert!(one.is_none() || one == merged);
        }
    }

    #[test]
    fn counting_without_the_values_never_counts_too_many(trials in trials()) {
        // What shares the quantile's bucket is estimated, so values are spread to one a bucket.
        let spread: Vec<Vec<i64>> = trials.iter().map(|t| t.iter().map(|v| if *v == INFINITE { *v } else { v % 2_000 }).collect()).collect();
        let mut pooled = MetricDigest::with_exact_rows(1, 0);
        spread.iter().for_each(|values| pooled.merge(digest_of(1, values, 0)));
        for (_, name, q) in QUANTILES {
            let (got, exact) = (pooled.quantile(q, true), oracle(&spread, q));
            if let (Quantile::Value(got), Quantile::Value(exact)) = (got, exact) {
                prop_assert_eq!(got, exact, "{}", name);
            }
            prop_assert_eq!(got == Quantile::Infinite, exact == Quantile::Infinite);
        }
    }

    #[test]
    fn starts_over_all_thresholds_are_the_clusters_of_each(trials in trials(), at in 0usize..700, gap in prop_oneof![Just(1usize), Just(10), 2usize..10]) {
        let small: Vec<Vec<i64>> = trials.iter().map(|t| t.iter().map(|v| if *v == INFINITE { *v } else { v % 2_000 }).collect()).collect();
        let mut starts = Starts::new(gap, None);
        for values in &small {
            let mut one = Starts::new(gap, None);
            values.chunks(5).for_each(|values| one.add(values.iter().copied()));
            starts.merge(&one);
        }
        let threshold = small[0][at % small[0].len()];
        prop_assume!(threshold != INFINITE);
        let beyond = Beyond { value_ns: threshold, tied: 1, tied_beyond: 0, gap, with_infinite: true };
        let counted = separate(small.iter().map(Vec::as_slice), &beyond);
        prop_assert_eq!(starts.beyond(threshold, true).min(10), u64::from(counted));
        let received = separate(small.iter().map(Vec::as_slice), &Beyond { with_infinite: false, ..beyond });
        prop_assert!(starts.beyond(threshold, false).min(10) <= u64::from(received));
    }
}

#[test]
fn batches_may_be_cut_anywhere() {
    let packets: Vec<Packet> =
        healthy_packets(6, 3_000).into_iter().enumerate().map(|(n, p)| if n % 90 == 0 { lost(0) } else { p }).collect();
    let metrics = vec![LEAD, Metric::Delta, Metric::Span(Point::RxKernel, Point::Receive)];
    let wanted = Wanted { metrics, points: vec![Point::RxKernel], blocks_of: Some((LEAD, 3_000)), ..Wanted::default() };
    let whole = distribution(1, &wanted, batches(&packets, 3_000));
    for size in [1, 7, 1_024, 2_999] {
        let cut = distribution(1, &wanted, batches(&packets, size));
        assert_eq!(cut.metrics, whole.metrics, "cut into {size}");
        assert_eq!((cut.outcomes, &cut.coverage, &cut.blocks), (whole.outcomes, &whole.coverage, &whole.blocks));
    }
    assert_eq!(whole.blocks.unwrap().p50_ns.len(), 125);
}

/// Above a million rows distances are counted from the columns, without writing the values down
/// first.
#[test]
fn distances_counted_from_columns_are_those_of_written_values() {
    let rows = 1_100_000;
    let mut packets = healthy_packets(9, rows);
    // Chunks that are not whole, and one with a value that can have no counter of its own.
    packets[1_050_000] = lost(1_050_000);
    let metrics = [(LEAD, Point::Scheduled, Point::RxKernel), (WAIT, Point::RxKernel, Point::Receive)];
    let wanted = Wanted { metrics: metrics.iter().map(|(metric, ..)| *metric).collect(), ..Wanted::default() };
    let all = batches(&packets, 65_536);
    let from_columns = distribution(1, &wanted, all.iter());
    for (metric, from, to) in metrics {
        let mut written = MetricDigest::new(1);
        for batch in &all {
            let span = |row| batch.offset(row, to).zip(batch.offset(row, from)).map(|(later, earlier)| later - earlier);
            let values: Vec<i64> = (0..batch.len()).map(|row| span(row).unwrap_or(INFINITE)).collect();
            written.absorb(&values, &batch.seq);
        }
        written.expect(rows as u64 - 1);
        assert_eq!(from_columns.metrics[&metric], written, "{metric}");
        let p99_9 = written.quantile(0.999, true);
        assert!(metric == WAIT || matches!(p99_9, Quantile::Value(_)), "{metric}: {p99_9:?}");
    }
}

fn of(values: &[i64]) -> Histogram {
    let mut histogram = Histogram::new();
    values.iter().for_each(|value| histogram.record(*value));
    histogram
}

/// Values of every size and sign.
fn values() -> impl Strategy<Value = Vec<i64>> {
    let value = (0u32..63, any::<i64>()).prop_map(|(bits, value)| value >> bits);
    proptest::collection::vec(value, 0..400)
}

#[test]
fn values_below_2048_have_buckets_of_their_own() {
    let histogram = of(&[-2047, -1, 0, 0, 1, 2047]);
    let one = |value, count| Bucket { low_ns: value, high_ns: value, count };
    let expected = vec![one(-2047, 1), one(-1, 1), one(0, 2), one(1, 1), one(2047, 1)];
    assert_eq!(histogram.iter().collect::<Vec<_>>(), expected);
    assert_eq!(of(&[2049]).iter().next(), Some(Bucket { low_ns: 2048, high_ns: 2049, count: 1 }));
    assert_eq!(of(&[-4099]).iter().next(), Some(Bucket { low_ns: -4099, high_ns: -4096, count: 1 }));
}

#[test]
fn the_ends_of_the_range_are_counted() {
    let histogram = of(&[i64::MIN, i64::MAX]);
    assert_eq!((histogram.min(), histogram.max(), histogram.count()), (Some(i64::MIN), Some(i64::MAX), 2));
    assert_eq!(histogram.value_at_rank(2), Some(i64::MAX));
    assert_eq!(histogram.value_at_rank(0), None);
    assert_eq!(histogram.value_at_rank(3), None);
    assert_eq!((Histogram::new().min(), Histogram::new().value_at_rank(1)), (None, None));
}

#[test]
fn every_bucket_follows_the_last_without_a_gap() {
    for bucket in 0..20_000 {
        let ((low, high), (next, _)) = (Histogram::bounds_of(bucket), Histogram::bounds_of(bucket + 1));
        assert_eq!(high + 1, next, "after bucket {bucket}");
        assert_eq!((Histogram::bucket_of(low), Histogram::bucket_of(high)), (bucket, bucket));
        assert_eq!((Histogram::bucket_of(-low), Histogram::bucket_of(-high)), (-bucket, -bucket));
        assert!((high - low) as f64 <= low as f64 / 1024.0, "bucket {bucket} is too wide");
    }
}

#[test]
fn a_stored_histogram_that_is_none_is_refused() {
    let parse = |json: &str| serde_json::from_str::<Histogram>(json).map_err(|error| error.to_string());
    assert!(parse(r#"{"min_ns":5,"max_ns":5,"buckets":[[5,1]]}"#).is_ok());
    assert!(parse(r#"{"min_ns":5,"max_ns":5,"buckets":[[2000000000,1]]}"#).unwrap_err().contains("does not exist"));
    assert!(parse(r#"{"min_ns":5,"max_ns":6,"buckets":[[6,1],[5,1]]}"#).unwrap_err().contains("out of order"));
    assert!(
        parse(r#"{"min_ns":5,"max_ns":6,"buckets":[[5,18446744073709551615],[6,1]]}"#)
            .unwrap_err()
            .contains("overflow")
    );
    assert!(parse(r#"{"min_ns":4,"max_ns":5,"buckets":[[5,1]]}"#).unwrap_err().contains("min_ns"));
    assert!(parse(r#"{"min_ns":null,"max_ns":null,"buckets":[[5,1]]}"#).unwrap_err().contains("min_ns"));
}

proptest! {
    #[test]
    fn a_rank_errs_upwards_by_less_than_a_thousandth(mut values in values()) {
        let histogram = of(&values);
        values.sort_unstable();
        prop_assert_eq!(histogram.count(), values.len() as u64);
        prop_assert_eq!((histogram.min(), histogram.max()), (values.first().copied(), values.last().copied()));
        for (index, value) in values.iter().enumerate() {
            let got = histogram.value_at_rank(index as u64 + 1).unwrap();
            prop_assert!(got >= *value);
            prop_assert!((got as f64 - *value as f64) <= (*value as f64).abs() / 1000.0, "{} for {}", got, value);
            if value.abs() < 2048 {
                prop_assert_eq!(got, *value);
            }
        }
    }

    #[test]
    fn merging_is_the_same_in_any_order_and_as_one_pass(a in values(), b in values(), c in values()) {
        let merge = |mut x: Histogram, y: &Histogram| { x.merge(y); x };
        let (ha, hb, hc) = (of(&a), of(&b), of(&c));
        let left = merge(merge(ha.clone(), &hb), &hc);
        prop_assert_eq!(&left, &merge(ha.clone(), &merge(hb.clone(), &hc)));
        prop_assert_eq!(&left, &merge(merge(hc.clone(), &hb), &ha));
        prop_assert_eq!(&left, &of(&[a.clone(), b.clone(), c.clone()].concat()));
        let mut at_once = Histogram::new();
        at_once.record_all(&[c, a, b].concat());
        prop_assert_eq!(&left, &at_once);
    }

    #[test]
    fn it_is_read_back_as_it_was_written(values in values()) {
        let histogram = of(&values);
        let json = serde_json::to_string(&histogram).unwrap();
        prop_assert_eq!(serde_json::from_str::<Histogram>(&json).unwrap(), histogram);
    }

    #[test]
    fn moments_keep_small_spreads_about_large_means(values in proptest::collection::vec(-1_000i64..1_000, 2..200), far in -1i64 << 50..1 << 50) {
        let n = values.len() as f64;
        let mean = values.iter().sum::<i64>() as f64 / n;
        let stddev = (values.iter().map(|value| (*value as f64 - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt();
        let (near, away) = values.split_at(values.len() / 2);
        let mut moments = Moments::default();
        moments.add(&near.iter().map(|value| value + far).collect::<Vec<_>>());
        let mut rest = Moments::default();
        rest.add(&away.iter().map(|value| value + far).collect::<Vec<_>>());
        moments.merge(&rest);
        prop_assert!((moments.stddev().unwrap() - stddev).abs() <= 1e-9 * (1.0 + stddev));
        prop_assert!((moments.mean().unwrap() - (mean + far as f64)).abs() <= (far as f64).abs() * 1e-15 + 1e-9);
    }
}

#[test]
fn moments_of_few_values() {
    let of = |values: &[i64]| {
        let mut moments = Moments::default();
        moments.add(values);
        (moments.mean(), moments.stddev())
    };
    assert_eq!(of(&[]), (None, None));
    assert_eq!(of(&[7]), (Some(7.0), None));
    assert_eq!(of(&[-3, -4]), (Some(-3.5), Some(0.5f64.sqrt())));
    // 2, 4, 4, 4, 5, 5, 7, 9: mean 5, Σ(v − 5)² = 32.
    assert_eq!(of(&[2, 4, 4, 4, 5, 5, 7, 9]), (Some(5.0), Some((32.0f64 / 7.0).sqrt())));
    assert!(of(&[i64::MIN + 1, i64::MAX, i64::MAX]).1.unwrap().is_finite());
}
