// SPDX-License-Identifier: MIT OR Apache-2.0
//! `results.json`: what a run found. Times are nanoseconds; what could not be had is null, with the reason beside it.

mod gates;
mod load;
mod metric;
mod placement;

pub use gates::{ClassResult, GateResult, PhaseCounts};
pub use load::LoadResult;
pub use metric::{Figures, MAX, MetricResult, QUANTILES, Quantiles};
pub use placement::{CpuPlacement, CpuUser, Placement, SoftirqPlacement};

use crate::expect::Count;
use crate::qdisc::RxKernelAt;
use crate::validity::Validity;
use crate::verdict::Verdict;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The whole run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// Version of this file.
    pub format: u32,
    /// The experiment's name.
    pub name: String,
    /// May the numbers be used at all?
    pub valid: bool,
    /// Did they keep the user's limits? False if one was broken, true if all were kept; null when there are none, or when one could
    /// not be judged and none was broken.
    pub expectations_met: Option<bool>,
    /// Each limit with what was got.
    pub expectations: Vec<ExpectationResult>,
    /// A hash over all raw samples, of a run in exact virtual time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
    /// By cell, in the experiment's order.
    pub cells: Vec<CellResult>,
    /// What the experiment file set of the rules of validity, where that is not the default.
    #[serde(default, skip_serializing_if = "Validity::is_empty")]
    pub validity: Validity,
    /// Of the whole run.
    pub verdicts: Vec<Verdict>,
}

/// A limit of the user's and what was got.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExpectationResult {
    /// Cell id.
    pub cell: String,
    /// Stream.
    pub stream: String,
    /// `scheduled..rx_kernel`, or an outcome: `lost`.
    pub metric: String,
    /// `p50`, `p99`, `p99.9`, `min`, `mean`, `max`, `stddev`; `count` for an outcome.
    pub of: String,
    /// The limit in ns, for a metric.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub limit_ns: Option<i64>,
    /// What was got in ns; null if it could not be had, or is infinite because packets were lost.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub got_ns: Option<i64>,
    /// The limit, for a count.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub limit: Option<u64>,
    /// What was got, for a count.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub got: Option<u64>,
    /// Was it kept? Null if that was not judged: `why` says the reason.
    pub met: Option<bool>,
    /// Why it was not judged, or was not kept although no figure is over the limit.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub why: Option<String>,
}

impl ExpectationResult {
    /// True if it limits what became of the packets ([`Count::needs_no_validity`]): it is judged whatever the validity.
    pub fn needs_no_validity(&self) -> bool {
        self.of == "count" && Count::ALL.iter().any(|count| count.name() == self.metric && count.needs_no_validity())
    }
}

/// One cell: pooled over its finished trials but for those left out because the measuring was spoilt; over all of them if it was in
/// each.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CellResult {
    /// Cell id.
    pub id: String,
    /// Full dotted key → value.
    pub axes: BTreeMap<String, String>,
    /// May its numbers be used?
    pub valid: bool,
    /// A hash over the raw samples of its finished trials, of a run in exact virtual time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
    /// Pooled, by stream.
    pub streams: BTreeMap<String, StreamResult>,
    /// Loads, by name.
    pub loads: BTreeMap<String, LoadResult>,
    /// Where each thread was asked to run and ran.
    pub placement: Vec<Placement>,
    /// Where arriving packets were asked to be taken in, by station; empty where that was left to the kernel.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub softirq: Vec<SoftirqPlacement>,
    /// What each CPU did for the network and for devices during the trials.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cpus: Vec<CpuPlacement>,
    /// What each traffic class did, where a queue discipline was asked for; the one without a number is the root's own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<ClassResult>,
    /// Each trial.
    pub trials: Vec<TrialResult>,
    /// Of this cell.
    pub verdicts: Vec<Verdict>,
}

/// One trial of a cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrialResult {
    /// Number in the cell, from 1.
    pub n: u32,
    /// May its numbers be used?
    pub valid: bool,
    /// By stream.
    pub streams: BTreeMap<String, StreamResult>,
    /// Loads, by name.
    #[serde(default)]
    pub loads: BTreeMap<String, LoadResult>,
    /// Of this trial alone.
    pub verdicts: Vec<Verdict>,
}

/// One stream's outcomes and metrics.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StreamResult {
    /// What became of the packets.
    pub outcomes: Outcomes,
    /// By metric name.
    pub metrics: BTreeMap<String, MetricResult>,
    /// Replies, where the stream is answered.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub replies: Option<RepliesResult>,
    /// Why packets are `not_sent`, where the queue discipline did it: `launch_missed`, `launch_invalid`, `qdisc_dropped`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub not_sent_why: BTreeMap<String, u64>,
    /// Whether packets left when they should, where something decides it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub gates: Option<GateResult>,
    /// Where `rx_kernel` was taken: `arrival`, or `local-delivery` or `packet-socket` where a launch time moved it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub rx_kernel_at: Option<String>,
}

impl StreamResult {
    /// Where `rx_kernel` was taken, also where that is the usual place and nothing is said of it.
    pub fn rx_kernel_point(&self) -> &str {
        self.rx_kernel_at.as_deref().unwrap_or(RxKernelAt::Arrival.name())
    }
}

/// Rates and events of a stream that is answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RepliesResult {
    /// Replies a second, from the first request to the last reply of each trial; null without a reply.
    pub transactions_s: Option<f64>,
    /// TCP segments that either end sent again; null where there is no connection.
    pub retransmits: Option<u64>,
    /// TCP retransmission timeouts of either end; null before Linux 6.7.
    pub timeouts: Option<u64>,
}

/// Counts of rows: intended = received + lost + not_sent; the rest are flags on top.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcomes {
    /// Rows.
    pub intended: u64,
    /// Arrived.
    pub received: u64,
    /// Sent, never arrived.
    pub lost: u64,
    /// Never sent.
    pub not_sent: u64,
    /// Arrived before scheduled.
    pub early: u64,
    /// Received after scheduled + deadline.
    pub late: u64,
    /// Arrived more than once.
    pub duplicate: u64,
    /// Arrived after a later one.
    pub reordered: u64,
}
