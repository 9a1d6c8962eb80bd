// SPDX-License-Identifier: MIT OR Apache-2.0
//! `<stream>.hlog`: the distributions of a stream in a trial as an HdrHistogram interval log, which many tools plot.
//!
//! One line per metric, its name the tag, values in ns, three significant digits, V2 compressed encoding. A log knows no
//! values below zero: they are left out, and a comment says how many. Times are the schedule's own, from 0, so that the
//! bytes are a function of the samples alone.

use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, IntervalLogWriterError, Tag};
use std::fmt::Debug;
use std::io;
use std::time::{Duration, UNIX_EPOCH};
use tardy_model::point::{Metric, Point};
use tardy_model::sample::Batch;

/// Digits that a value keeps: an error of at most one in a thousand.
const DIGITS: u8 = 3;

/// The log's bytes. A metric without values has a comment and no line.
///
/// # Errors
/// `InvalidData` if a value cannot be encoded.
pub fn encode(batch: &Batch, metrics: &[Metric]) -> io::Result<Vec<u8>> {
    let span = batch.scheduled_ns.iter().max().zip(batch.scheduled_ns.iter().min());
    let interval = span.map_or(0, |(last, first)| last.abs_diff(*first));
    let mut out = Vec::new();
    let mut serializer = V2DeflateSerializer::new();
    let mut log = IntervalLogWriterBuilder::new();
    log.add_comment("[Histogram log format version 1.3]")
        .add_comment("tardy: values in ns, 3 significant digits, one line per metric, the metric is the tag")
        .with_start_time(UNIX_EPOCH);
    let mut log = log.begin_log_with(&mut out, &mut serializer)?;
    for metric in metrics {
        let name = metric.to_string();
        let values = values(batch, *metric);
        let mut histogram = Histogram::<u64>::new(DIGITS).map_err(invalid)?;
        for value in values.iter().filter_map(|value| u64::try_from(*value).ok()) {
            histogram.record(value).map_err(invalid)?;
        }
        let negative = values.len() as u64 - histogram.len();
        log.write_comment(&format!("{name}: {} values, {negative} negative ones left out", histogram.len()))?;
        if !histogram.is_empty() {
            let written =
                log.write_histogram(&histogram, Duration::ZERO, Duration::from_nanos(interval), Tag::new(&name));
            written.map_err(|error| match error {
                IntervalLogWriterError::IoError(error) => error,
                IntervalLogWriterError::SerializeError(error) => invalid(error),
            })?;
        }
    }
    Ok(out)
}

/// The metric's values in ns, those below zero too. `delta` is taken in the order of arrival.
fn values(batch: &Batch, metric: Metric) -> Vec<i64> {
    match metric {
        Metric::Span(from, to) => {
            let value = |row| Some(batch.offset(row, to)?.wrapping_sub(batch.offset(row, from)?));
            (0..batch.len()).filter_map(value).collect()
        }
        Metric::Delta => {
            let stamp = |row: usize| Some(batch.scheduled_ns[row].wrapping_add(batch.offset(row, Point::RxKernel)?));
            let mut arrivals: Vec<i64> = (0..batch.len()).filter_map(stamp).collect();
            arrivals.sort_unstable();
            arrivals.windows(2).map(|pair| pair[1].wrapping_sub(pair[0])).collect()
        }
    }
}

fn invalid(error: impl Debug) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{error:?}"))
}
