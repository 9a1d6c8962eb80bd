// SPDX-License-Identifier: MIT OR Apache-2.0
//! `<stream>.hlog`: read back by the HdrHistogram library, to three digits.

use super::{FOUR, empty_batch, new_run, realistic, stamps};
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
use std::collections::BTreeMap;
use std::fs;
use tardy_model::point::{Metric, Point};
use tardy_model::sample::MaybeNanos;

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

#[test]
fn a_histogram_log_holds_every_metric_to_three_digits() {
    let (_keep, run) = new_run();
    let mut batch = realistic(20_000, 7);
    // Early packets: three values below zero, which a log cannot hold. One without a stamp.
    for row in [5, 6, 7] {
        stamps(&mut batch, Point::TxKernel)[row] = MaybeNanos::some(-40_000);
        stamps(&mut batch, Point::RxKernel)[row] = MaybeNanos::some(-39_000);
    }
    for point in [Point::RxKernel, Point::Receive] {
        stamps(&mut batch, point)[100] = MaybeNanos::NONE;
    }
    let trial = run.begin_trial("all", 1).unwrap();
    trial.write_histograms("ctl", &batch, &Metric::DEFAULT).unwrap();
    let log = fs::read(trial.path().join("ctl.hlog")).unwrap();
    trial.write_histograms("again", &batch, &Metric::DEFAULT).unwrap();
    assert_eq!(fs::read(trial.path().join("again.hlog")).unwrap(), log, "the bytes depend on the samples alone");

    let text = String::from_utf8(log.clone()).unwrap();
    assert!(text.contains("#scheduled..rx_kernel: 19996 values, 3 negative ones left out\n"), "{text:.900}");
    assert!(text.contains("#scheduled..wakeup: 0 values, 0 negative ones left out\n"), "{text:.900}");
    let histograms = histograms(&log);
    let names: Vec<&str> = histograms.keys().map(String::as_str).collect();
    assert_eq!(names, ["delta", "rx_kernel..receive", "scheduled..rx_kernel", "tx_kernel..rx_kernel"]);
    for (from, to) in
        [(Point::Scheduled, Point::RxKernel), (Point::TxKernel, Point::RxKernel), (Point::RxKernel, Point::Receive)]
    {
        let metric = Metric::Span(from, to);
        let mut exact: Vec<i64> =
            (0..batch.len()).filter_map(|row| batch.span_ns(row, metric)).filter(|v| *v >= 0).collect();
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
fn an_empty_stream_has_an_empty_log() {
    let (_keep, run) = new_run();
    let trial = run.begin_trial("all", 1).unwrap();
    trial.write_histograms("ctl", &empty_batch(&FOUR), &Metric::DEFAULT).unwrap();
    let log = fs::read(trial.path().join("ctl.hlog")).unwrap();
    assert!(histograms(&log).is_empty());
    assert!(String::from_utf8(log).unwrap().contains("#delta: 0 values"));
}
