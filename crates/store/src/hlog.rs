// SPDX-License-Identifier: MIT OR Apache-2.0
//! `<stream>.hlog`: the distributions of a stream in a trial as an HdrHistogram interval log, which many tools plot.
//!
//! One line per metric, its name the tag, values in ns, three significant digits, V2 compressed encoding. The values are those
//! of the results, bucket by bucket: the buckets of [`tardy_model::histogram`] are HdrHistogram's own. A log knows no values
//! below zero: they are left out, and a comment says how many. Times are the schedule's own, from 0, so that the bytes are a
//! function of the samples alone.

use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, IntervalLogWriterError, Tag};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::io;
use std::time::{Duration, UNIX_EPOCH};
use tardy_model::histogram::Histogram;
use tardy_model::point::Metric;
use tardy_model::time::Nanos;

/// Digits that a value keeps: an error of at most one in a thousand.
const DIGITS: u8 = 3;

/// The log's bytes: `span` from the first to the last scheduled instant, a metric without values with a comment and no line.
///
/// # Errors
/// `InvalidData` if a value cannot be encoded.
pub fn encode(span: Nanos, histograms: &BTreeMap<Metric, Histogram>) -> io::Result<Vec<u8>> {
    let interval = Duration::from_nanos(u64::try_from(span.0).unwrap_or(0));
    let mut out = Vec::new();
    let mut serializer = V2DeflateSerializer::new();
    let mut log = IntervalLogWriterBuilder::new();
    log.add_comment("[Histogram log format version 1.3]")
        .add_comment("tardy: values in ns, 3 significant digits, one line per metric, the metric is the tag")
        .with_start_time(UNIX_EPOCH);
    let mut log = log.begin_log_with(&mut out, &mut serializer)?;
    for (metric, values) in histograms {
        let name = metric.to_string();
        let mut histogram = hdrhistogram::Histogram::<u64>::new(DIGITS).map_err(invalid)?;
        for bucket in values.iter() {
            // Of a bucket its greatest value, at most the maximum: as the quantiles of the results are read.
            let value = bucket.high_ns.min(values.max().unwrap_or(bucket.high_ns));
            if let Ok(value) = u64::try_from(value) {
                histogram.record_n(value, bucket.count).map_err(invalid)?;
            }
        }
        let negative = values.count() - histogram.len();
        log.write_comment(&format!("{name}: {} values, {negative} negative ones left out", histogram.len()))?;
        if !histogram.is_empty() {
            let written = log.write_histogram(&histogram, Duration::ZERO, interval, Tag::new(&name));
            written.map_err(|error| match error {
                IntervalLogWriterError::IoError(error) => error,
                IntervalLogWriterError::SerializeError(error) => invalid(error),
            })?;
        }
    }
    Ok(out)
}

fn invalid(error: impl Debug) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{error:?}"))
}
