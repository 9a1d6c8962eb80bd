// SPDX-License-Identifier: MIT OR Apache-2.0
//! `<stream>.hlog`: read back by the HdrHistogram library, to three digits, and the same as the
//! results.

use super::{FOUR, empty_batch, new_run, realistic, stamps};
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
use std::collections::BTreeMap;
use std::fs;
use tardy_analyze::digest::MetricDigest;
use tardy_analyze::distribution::{Wanted, distribution};
use tardy_model::point::{Metric, Point};
use tardy_model::result::QUANTILES;
use tardy_model::sample::{Batch, MaybeNanos, Outcome};
use tardy_model::time::Nanos;

/// Histograms of an interval log by tag.
fn histograms(log: &[u8]) -> BTreeMap<String, Histogram<u64>> {
    let mut out = BTreeMap::new();
    for entry in IntervalLogIterator::new(log) {
        if let LogEntry::Interval(interval) = entry.unwrap() {
            let bytes = base64(interval.encoded_histogram());
            let histogram = Deserializer::new().deserialize(&mut bytes.as_slice()).unwrap();
            assert!(interval.start_timestamp().is_zero());
            assert!(out.insert(interval.tag().unwrap().as_str().to_owned(), histogram).is_none());
        }
    }
    out
}

fn base64(text: &str) -> Vec<u8> {
    let sextet = |c: u8| match c {
        b'A'..=b'Z' => c - b'A',
        b'a'..=b'z' => c - b'a' + 26,
        b'0'..=b'9' => c - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => panic!("`{c}` in base64"),
    };
    let digits: Vec<u8> = text.trim_end_matches('=').bytes().map(sextet).collect();
    let group = |four: &[u8]| {
        let bits = four.iter().fold(0u32, |bits, digit| bits << 6 | u32::from(*digit)) << (6 * (4 - four.len()));
        bits.to_be_bytes()[1..four.len()].to_vec()
    };
    digits.chunks(4).flat_map(group).collect()
}

/// What the results are made of.
fn digests(batch: &Batch) -> BTreeMap<Metric, MetricDigest> {
    let wanted = Wanted { metrics: Metric::DEFAULT.to_vec(), ..Wanted::default() };
    distribution(1, &wanted, [batch]).metrics
}

fn written(batch: &Batch) -> Vec<u8> {
    let (_keep, run) = new_run();
    let trial = run.begin_trial("all", 1).unwrap();
    let values = digests(batch).iter().map(|(metric, digest)| (*metric, digest.histogram())).collect();
    trial.write_histograms("ctl", Nanos::from_secs(10), &values).unwrap();
    fs::read(trial.path().join("ctl.hlog")).unwrap()
}

#[test]
fn a_histogram_log_holds_every_metric_to_three_digits() {
    let mut batch = realistic(20_000, 7);
    // Early packets: three values below zero, which a log can only count at 0. One without a stamp.
    for row in [5, 6, 7] {
        stamps(&mut batch, Point::TxKernel)[row] = MaybeNanos::some(-40_000);
        stamps(&mut batch, Point::RxKernel)[row] = MaybeNanos::some(-39_000);
    }
    for point in [Point::RxKernel, Point::Receive] {
        stamps(&mut batch, point)[100] = MaybeNanos::NONE;
    }
    let log = written(&batch);
    assert_eq!(written(&batch), log, "the bytes depend on the samples alone");

    let text = String::from_utf8(log.clone()).unwrap();
    assert!(text.contains("#scheduled..rx_kernel: 19999 values, 3 negative ones counted at 0\n"), "{text:.900}");
    assert!(text.contains("#scheduled..wakeup: 0 values, 0 negative ones counted at 0\n"), "{text:.900}");
    assert!(text.contains("Tag=scheduled..rx_kernel,0.000,10.000,"), "{text:.900}");
    let histograms = histograms(&log);
    let names: Vec<&str> = histograms.keys().map(String::as_str).collect();
    assert_eq!(names, ["delta", "rx_kernel..receive", "scheduled..rx_kernel", "tx_kernel..rx_kernel"]);
    for (from, to) in
        [(Point::Scheduled, Point::RxKernel), (Point::TxKernel, Point::RxKernel), (Point::RxKernel, Point::Receive)]
    {
        let metric = Metric::Span(from, to);
        let mut exact: Vec<i64> =
            (0..batch.len()).filter_map(|row| batch.span_ns(row, metric)).map(|v| v.max(0)).collect();
        exact.sort_unstable();
        let histogram = &histograms[&metric.to_string()];
        assert_eq!(histogram.len(), exact.len() as u64);
        for q in [0.0, 0.5, 0.99, 0.999, 1.0] {
            let rank = ((q * exact.len() as f64).ceil() as usize).max(1) - 1;
            assert!(histogram.equivalent(histogram.value_at_quantile(q), exact[rank] as u64), "{metric} at {q}");
        }
    }
    // 20,000 arrivals make 19,999 differences; the one without a stamp has none, nor has the next.
    assert_eq!(histograms["delta"].len(), 19_997);
}

#[test]
fn a_histogram_log_does_not_disagree_with_the_results() {
    let mut batch = realistic(20_000, 9);
    // Packets that were lost or not sent keep what the sender stamped: no value of any metric.
    for row in (500..900).step_by(7) {
        batch.outcome[row] = if row % 2 == 0 { Outcome::Lost } else { Outcome::NotSent };
    }
    // Two that overtook each other, and a hole.
    stamps(&mut batch, Point::RxKernel)[1_000] = MaybeNanos::some(1_200_000);
    stamps(&mut batch, Point::RxKernel)[2_000] = MaybeNanos::NONE;
    let log = histograms(&written(&batch));
    let mut compared = 0;
    for (metric, digest) in digests(&batch) {
        let result = digest.finish("kernel", None);
        let Some(histogram) = log.get(&metric.to_string()) else {
            assert_eq!(result.count, 0, "{metric}");
            continue;
        };
        assert_eq!(histogram.len(), result.count, "{metric}");
        assert!(histogram.equivalent(histogram.max(), result.greatest_received_ns().unwrap() as u64), "{metric}");
        let quantiles = result.received_only.unwrap_or(result.figures.quantiles).as_array();
        for ((_, name, q), ns) in QUANTILES.iter().zip(quantiles) {
            let Some(ns) = ns else { continue };
            assert!(histogram.equivalent(histogram.value_at_quantile(*q), ns.max(0) as u64), "{metric} {name}");
            compared += 1;
        }
    }
    assert!(compared >= 10, "{compared}");
}

#[test]
fn an_empty_stream_has_an_empty_log() {
    let log = written(&empty_batch(&FOUR));
    assert!(histograms(&log).is_empty());
    assert!(String::from_utf8(log).unwrap().contains("#delta: 0 values"));
}
