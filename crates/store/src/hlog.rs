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
use tardy_model::sample::{Batch, Outcome};

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
        Metric::Delta => deltas(batch),
    }
}

/// Arrivals without a stamp stand right behind the stamped packet that was scheduled before them: what came next has no
/// `delta` either, for its predecessor's stamp is not known.
fn deltas(batch: &Batch) -> Vec<i64> {
    let mut last = i64::MIN;
    let mut arrivals = Vec::new();
    for row in (0..batch.len()).filter(|row| batch.outcome[*row] == Outcome::Received) {
        let stamp = batch.offset(row, Point::RxKernel).map(|offset| batch.scheduled_ns[row].wrapping_add(offset));
        last = stamp.unwrap_or(last);
        arrivals.push((last, stamp.is_none(), batch.seq[row]));
    }
    arrivals.sort_unstable();
    let stamped = |pair: &&[(i64, bool, i64)]| !pair[0].1 && !pair[1].1;
    arrivals.windows(2).filter(stamped).map(|pair| pair[1].0.wrapping_sub(pair[0].0)).collect()
}

fn invalid(error: impl Debug) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{error:?}"))
}
