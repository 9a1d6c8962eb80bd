// SPDX-License-Identifier: MIT OR Apache-2.0
//! Digests of several trials pooled, and results made of digests.

use crate::digest::MetricDigest;
use crate::distribution::{Dropped, StreamDigest};
use crate::{gates, outcomes};
use std::collections::BTreeMap;
use tardy_model::histogram::Histogram;
use tardy_model::point::{Metric, Point};
use tardy_model::port::TcpRecord;
use tardy_model::result::{GateResult, MetricResult, Outcomes, RepliesResult, StreamResult};
use tardy_model::trial::StreamRecord;

/// One metric pooled, with whose stamp the later one is and why there are no values.
#[derive(Clone, Debug)]
struct Pooled {
    digest: MetricDigest,
    source: String,
    why: Option<String>,
}

/// A stream's trials pooled.
#[derive(Clone, Debug, Default)]
struct PooledStream {
    counts: Outcomes,
    metrics: BTreeMap<Metric, Pooled>,
    replies: Option<Replies>,
    dropped: Dropped,
    gates: Option<GateResult>,
    rx_kernel_at: Option<String>,
}

/// By stream: counts and metrics.
#[derive(Clone, Debug, Default)]
pub(super) struct Pool {
    streams: BTreeMap<String, PooledStream>,
}

/// Replies of one trial or several.
#[derive(Clone, Copy, Debug, Default)]
struct Replies {
    received: u64,
    span_ns: i64,
    retransmits: Option<u64>,
    timeouts: Option<u64>,
}

impl Replies {
    fn of(record: &StreamRecord, received: u64) -> Option<Replies> {
        let reply = record.reply.as_ref()?;
        let ends = || [reply.tcp, reply.tcp_reflector].into_iter().flatten();
        let sum = |of: fn(&TcpRecord) -> Option<u64>| ends().map(|tcp| of(&tcp)).try_fold(0, |all, n| Some(all + n?));
        let is_tcp = ends().next().is_some();
        Some(Replies {
            received,
            span_ns: reply.span_ns.unwrap_or(0),
            retransmits: sum(|tcp| Some(tcp.retransmits)).filter(|_| is_tcp),
            timeouts: sum(|tcp| tcp.timeouts).filter(|_| is_tcp),
        })
    }

    fn merge(&mut self, other: Replies) {
        self.received += other.received;
        self.span_ns += other.span_ns;
        let add = |a: Option<u64>, b: Option<u64>| a.zip(b).map(|(a, b)| a + b);
        self.retransmits = add(self.retransmits, other.retransmits);
        self.timeouts = add(self.timeouts, other.timeouts);
    }

    fn result(self) -> RepliesResult {
        let rate = || self.received as f64 * 1e9 / self.span_ns as f64;
        RepliesResult {
            transactions_s: (self.received > 0 && self.span_ns > 0).then(rate),
            retransmits: self.retransmits,
            timeouts: self.timeouts,
        }
    }
}

impl Pool {
    /// Adds a trial's stream.
    pub(super) fn add(&mut self, stream: String, digest: StreamDigest, record: &StreamRecord, delta_of: Point) {
        let StreamDigest { outcomes: counts, metrics, gates: found_gates, dropped: found_dropped, .. } = digest;
        let PooledStream { counts: pooled_counts, metrics: pooled, replies, dropped, gates, rx_kernel_at } =
            self.streams.entry(stream).or_default();
        outcomes::merge(pooled_counts, &counts);
        dropped.merge(found_dropped);
        match (&mut *gates, found_gates) {
            (Some(sum), Some(found)) => gates::merge(sum, &found),
            (None, found) => *gates = found,
            (Some(_), None) => {}
        }
        *rx_kernel_at = rx_kernel_at.take().or_else(|| rx_kernel_at_of(record));
        if let Some(found) = Replies::of(record, counts.received) {
            match replies {
                Some(replies) => replies.merge(found),
                None => *replies = Some(found),
            }
        }
        for (metric, digest) in metrics {
            let (source, why) = (source(metric, record, delta_of), why(metric, record, delta_of, counts.received));
            match pooled.get_mut(&metric) {
                Some(pooled) => {
                    pooled.digest.merge(digest);
                    if pooled.source.is_empty() {
                        pooled.source = source;
                    }
                    pooled.why = Some(why);
                }
                None => {
                    pooled.insert(metric, Pooled { digest, source, why: Some(why) });
                }
            }
        }
    }

    /// Results by stream, histograms by stream and metric.
    pub(super) fn finish(self) -> (BTreeMap<String, StreamResult>, BTreeMap<(String, Metric), Histogram>) {
        let (mut results, mut histograms) = (BTreeMap::new(), BTreeMap::new());
        for (stream, pooled) in self.streams {
            let replies = pooled.replies.map(Replies::result);
            let mut result = StreamResult {
                outcomes: pooled.counts,
                replies,
                not_sent_why: pooled.dropped.named(),
                gates: pooled.gates,
                rx_kernel_at: pooled.rx_kernel_at,
                ..StreamResult::default()
            };
            for (metric, pooled) in pooled.metrics {
                let (found, histogram) = pooled.digest.finish_with_histogram(&pooled.source, pooled.why);
                result.metrics.insert(metric.to_string(), found);
                histograms.insert((stream.clone(), metric), histogram);
            }
            results.insert(stream, result);
        }
        (results, histograms)
    }
}

/// One trial's stream, and its histograms.
pub(super) fn stream_result(
    digest: &StreamDigest,
    record: &StreamRecord,
    delta_of: Point,
) -> (StreamResult, BTreeMap<Metric, Histogram>) {
    let StreamDigest { outcomes: counts, metrics, .. } = digest;
    let mut result = StreamResult {
        outcomes: *counts,
        replies: Replies::of(record, counts.received).map(Replies::result),
        not_sent_why: digest.dropped.named(),
        gates: digest.gates.clone(),
        rx_kernel_at: rx_kernel_at_of(record),
        ..StreamResult::default()
    };
    let mut histograms = BTreeMap::new();
    for (metric, digest) in metrics {
        let why = why(*metric, record, delta_of, counts.received);
        let (found, histogram) = digest.finish_with_histogram(&source(*metric, record, delta_of), Some(why));
        result.metrics.insert(metric.to_string(), found);
        histograms.insert(*metric, histogram);
    }
    (result, histograms)
}

/// Where `rx_kernel` was taken, where that is worth saying: packets bear launch times.
fn rx_kernel_at_of(record: &StreamRecord) -> Option<String> {
    let at = record.launching.rx_kernel_at.filter(|_| record.sources.contains_key(&Point::RxKernel))?;
    (record.launching.launch.is_some() || at.is_moved()).then(|| at.name().to_owned())
}

/// A metric that was requested and is not available.
pub(super) fn absent(why: &str) -> MetricResult {
    MetricResult {
        clock: "tai".to_owned(),
        percentiles: "exact".to_owned(),
        why: Some(why.to_owned()),
        ..MetricResult::default()
    }
}

/// Points whose stamps a metric is made of, the earliest first.
fn points(metric: Metric, delta_of: Point) -> Vec<Point> {
    if metric == Metric::Delta { vec![delta_of] } else { metric.points() }
}

/// Who took the later stamp; empty if nobody did.
fn source(metric: Metric, record: &StreamRecord, delta_of: Point) -> String {
    let later = points(metric, delta_of).into_iter().next_back();
    later.and_then(|later| record.sources.get(&later)).map_or_else(String::new, |source| source.name().to_owned())
}

/// Why a metric has no values, if it has none.
fn why(metric: Metric, record: &StreamRecord, delta_of: Point, received: u64) -> String {
    let points = points(metric, delta_of);
    let absent = points.iter().find_map(|point| Some((point, record.absent.get(point)?)));
    let without = points.iter().find(|point| **point != Point::Scheduled && !record.sources.contains_key(point));
    match (absent, without) {
        (Some((point, why)), _) => format!("no {point} stamp: {why}"),
        (None, Some(point)) => format!("nobody stamps {point} in this set-up"),
        (None, None) if received == 0 => "no packet was received".to_owned(),
        (None, None) if metric == Metric::Delta && received == 1 => "only one packet was received".to_owned(),
        (None, None) => "no received packet has both stamps".to_owned(),
    }
}
