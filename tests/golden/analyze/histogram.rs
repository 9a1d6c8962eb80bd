// SPDX-License-Identifier: MIT OR Apache-2.0
//! The histogram against sorted values, and the moments against a plain reckoning.

use proptest::prelude::*;
use tardy_analyze::statistics::Moments;
use tardy_model::histogram::{Bucket, Histogram};

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
