// SPDX-License-Identifier: MIT OR Apache-2.0
//! HdrHistogram interval logs (version 1.3, V2 compressed encoding), which many tools read:
//! `<stream>.hlog` of a trial, and [`Log`] for others.
//!
//! In `<stream>.hlog` there is one line per metric, its name the tag, values in ns, three
//! significant digits. The values are those of the results, bucket by bucket: the buckets of
//! [`tardy_model::histogram`] are HdrHistogram's own. A log knows no values below zero: they are
//! counted at 0, so that the quantiles above stay what they are, and a comment says how many.
//! Times are the schedule's own, from 0, so that the bytes are a function of the samples alone.

use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{
    IntervalLogWriter, IntervalLogWriterBuilder, IntervalLogWriterError, Tag,
};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::io::{self, Write};
use std::time::{Duration, UNIX_EPOCH};
use tardy_model::histogram::Histogram;
use tardy_model::point::Metric;
use tardy_model::time::Nanos;

/// Digits that a value of a trial's log keeps: an error of at most one in a thousand.
const DIGITS: u8 = 3;

/// The greatest value of [`Values`], ns: an hour, the bound that tools commonly set.
pub const GREATEST_NS: i64 = 3_600_000_000_000;

/// Digits that [`Values`] keep. With five a histogram has 27 MiB, which would be all that a fuzzer
/// does.
const FINE: u8 = if cfg!(fuzzing) { 2 } else { 5 };

/// A distribution for a log with five significant digits: every ns has a bucket of its own below
/// 262 144 ns, above that a bucket is at most 1/131 072 of its value wide.
#[derive(Clone, Debug)]
pub struct Values {
    histogram: hdrhistogram::Histogram<u64>,
    negative: u64,
    least_ns: i64,
}

impl Values {
    /// None yet.
    ///
    /// # Errors
    /// `InvalidData` if there cannot be such a histogram.
    pub fn new() -> io::Result<Self> {
        let histogram = hdrhistogram::Histogram::new_with_bounds(1, GREATEST_NS as u64, FINE).map_err(invalid)?;
        Ok(Values { histogram, negative: 0, least_ns: 0 })
    }

    /// Counts a value: below 0 at 0, above [`GREATEST_NS`] there.
    pub fn record(&mut self, value_ns: i64) {
        if value_ns < 0 {
            self.negative += 1;
            self.least_ns = self.least_ns.min(value_ns);
        }
        self.histogram.saturating_record(value_ns.clamp(0, GREATEST_NS) as u64);
    }

    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// How many of them were below 0, and the least of those, ns.
    pub fn negative(&self) -> (u64, i64) {
        (self.negative, self.least_ns)
    }
}

/// A log that is being written.
pub struct Log<'a, W: Write> {
    log: IntervalLogWriter<'a, 'a, W, V2DeflateSerializer>,
}

impl<W: Write> Log<'_, W> {
    /// Writes a comment.
    ///
    /// # Errors
    /// The sink's.
    pub fn comment(&mut self, says: &str) -> io::Result<()> {
        // A line feed would end the comment.
        self.log.write_comment(&tardy_model::harmless::blanked(says))
    }

    /// Writes a line: `start` after the log's start, `length` long. No values, no line.
    ///
    /// # Errors
    /// The sink's; `InvalidData` if the values cannot be encoded or the tag has a space, a comma
    /// or a line feed.
    pub fn interval(&mut self, tag: &str, start: Duration, length: Duration, values: &Values) -> io::Result<()> {
        self.line(tag, start, length, &values.histogram)
    }

    fn line(
        &mut self,
        tag: &str,
        start: Duration,
        length: Duration,
        histogram: &hdrhistogram::Histogram<u64>,
    ) -> io::Result<()> {
        if histogram.is_empty() {
            return Ok(());
        }
        let tag = Tag::new(tag).ok_or_else(|| invalid(format!("`{tag}` cannot be a tag")))?;
        self.log.write_histogram(histogram, start, length, Some(tag)).map_err(|error| match error {
            IntervalLogWriterError::IoError(error) => error,
            IntervalLogWriterError::SerializeError(error) => invalid(error),
        })
    }
}

/// Writes a log: its head, then what `fill` writes. `start` is seconds since 1970; lines count
/// from it.
///
/// # Errors
/// The sink's, and those of `fill`.
pub fn write<W: Write, E: From<io::Error>>(
    out: &mut W,
    about: &[&str],
    start: Duration,
    fill: impl FnOnce(&mut Log<'_, W>) -> Result<(), E>,
) -> Result<(), E> {
    let mut serializer = V2DeflateSerializer::new();
    let mut log = IntervalLogWriterBuilder::new();
    log.add_comment("[Histogram log format version 1.3]");
    about.iter().for_each(|line| _ = log.add_comment(line));
    log.with_start_time(UNIX_EPOCH + start);
    if !start.is_zero() {
        // Said outright, for readers guess else whether the lines' times count from it.
        log.with_base_time(UNIX_EPOCH + start);
    }
    fill(&mut Log { log: log.begin_log_with(out, &mut serializer)? })
}

/// The bytes of a trial's log: `span` from the first to the last scheduled instant, a metric
/// without values with a comment and no line.
///
/// # Errors
/// `InvalidData` if a value cannot be encoded.
pub fn encode(span: Nanos, histograms: &BTreeMap<Metric, Histogram>) -> io::Result<Vec<u8>> {
    let interval = Duration::from_nanos(u64::try_from(span.0).unwrap_or(0));
    let about = "tardy: values in ns, 3 significant digits, one line per metric, the metric is the tag";
    let mut out = Vec::new();
    write(&mut out, &[about], Duration::ZERO, |log| {
        for (metric, values) in histograms {
            let name = metric.to_string();
            let mut histogram = hdrhistogram::Histogram::<u64>::new(DIGITS).map_err(invalid)?;
            let mut negative = 0;
            for bucket in values.iter() {
                // Of a bucket its greatest value, at most the maximum: as the quantiles of the
                // results are read.
                let value = bucket.high_ns.min(values.max().unwrap_or(bucket.high_ns));
                negative += if value < 0 { bucket.count } else { 0 };
                histogram.record_n(value.max(0) as u64, bucket.count).map_err(invalid)?;
            }
            log.comment(&format!("{name}: {} values, {negative} negative ones counted at 0", histogram.len()))?;
            log.line(&name, Duration::ZERO, interval, &histogram)?;
        }
        Ok::<(), io::Error>(())
    })?;
    Ok(out)
}

fn invalid(error: impl Debug) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{error:?}"))
}
