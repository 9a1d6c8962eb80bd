// SPDX-License-Identifier: MIT OR Apache-2.0
//! `results.json`: what a run found. Times are nanoseconds; what is not available is null, with the
//! reason next to it. The comments of the fields are the descriptions in its JSON Schema
//! ([`crate::schema`]).

mod gates;
mod load;
mod metric;
mod placement;

pub use gates::{ClassResult, GateResult, PhaseCounts};
pub use load::LoadResult;
pub use metric::{Figures, MAX, MetricResult, QUANTILES, Quantiles};
pub use placement::{CpuPlacement, CpuUser, Placement, SoftirqPlacement};

use crate::FORMAT;
use crate::expect::Count;
use crate::qdisc::RxKernelAt;
use crate::validity::Validity;
use crate::verdict::Verdict;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a run found. Times are integers in nanoseconds; means are decimal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(title = "tardy results", extend("$id" = format!("urn:tardy:results:{FORMAT}")))]
pub struct Results {
    /// Version of the run folder.
    #[schemars(extend("const" = FORMAT))]
    pub format: u32,
    /// The experiment's name.
    pub name: String,
    /// May the numbers be used at all?
    pub valid: bool,
    /// Were the user's limits kept? False if one was broken, true if all were kept; null when
    /// there are none, or when one was not judged and none was broken. Limits of `lost`,
    /// `not_sent`, `duplicate` and `reordered` are judged whatever the validity.
    pub expectations_met: Option<bool>,
    /// Each limit with what was got.
    pub expectations: Vec<ExpectationResult>,
    /// A hash over all raw samples; only of a run in exact virtual time. See the chapter on
    /// guests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
    /// The cells, in the experiment's order.
    pub cells: Vec<CellResult>,
    /// What the experiment file sets of the rules of validity, by rule; left out where it sets
    /// nothing.
    #[serde(default, skip_serializing_if = "Validity::is_empty")]
    pub validity: Validity,
    /// Verdicts on the whole run.
    pub verdicts: Vec<Verdict>,
}

/// A limit of the user's and what was got.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "expectation")]
pub struct ExpectationResult {
    /// Cell id.
    pub cell: String,
    /// Stream.
    pub stream: String,
    /// A metric, as `scheduled..rx_kernel`, or an outcome, as `lost`.
    pub metric: String,
    /// Which figure of a metric: `p50`, `p90`, `p99`, `p99.9`, `p99.99`, `min`, `mean`, `max` or
    /// `stddev`; `count` for an outcome.
    pub of: String,
    /// The limit of a metric, ns.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub limit_ns: Option<i64>,
    /// The metric's measured value, ns; left out if it is not available, or is infinite because
    /// packets were lost.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub got_ns: Option<i64>,
    /// The limit of a count.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub limit: Option<u64>,
    /// What was counted; of `lost`, `not_sent`, `duplicate` and `reordered` over every finished
    /// trial, also those left out of the figures. Packets that an outage kept from being sent are
    /// among the lost.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub got: Option<u64>,
    /// Was it kept? Null where it was not judged: figures need a valid cell; of `lost`, `not_sent`,
    /// `duplicate` and `reordered`, tardy did not see what became of all packets. `why` gives the
    /// reason.
    pub met: Option<bool>,
    /// Why it was not judged, or was not kept although no figure is over the limit.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub why: Option<String>,
}

impl ExpectationResult {
    /// True if it limits what became of the packets ([`Count::needs_no_validity`]): it is judged
    /// whatever the validity.
    pub fn needs_no_validity(&self) -> bool {
        self.of == "count" && Count::ALL.iter().any(|count| count.name() == self.metric && count.needs_no_validity())
    }
}

/// One combination of cases and axes, pooled over its finished trials but for those left out
/// because the measuring was spoilt; over all of them if it was in each.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "cell")]
pub struct CellResult {
    /// Cell id.
    pub id: String,
    /// Full dotted key to value.
    pub axes: BTreeMap<String, String>,
    /// May its numbers be used?
    pub valid: bool,
    /// Why the machine could not set up the cell of an optional case, which then has no figures,
    /// is not valid, and does not make the run invalid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_available: Option<String>,
    /// A hash over the raw samples of its finished trials; only of a run in exact virtual time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
    /// Streams by name, pooled.
    pub streams: BTreeMap<String, StreamResult>,
    /// Background loads by name.
    pub loads: BTreeMap<String, LoadResult>,
    /// Where each measuring thread was asked to run, and ran.
    pub placement: Vec<Placement>,
    /// Where arriving packets were asked to be taken in, by station; left out where that was left
    /// to the kernel.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub softirq: Vec<SoftirqPlacement>,
    /// What each CPU did for the network and for devices during the trials.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cpus: Vec<CpuPlacement>,
    /// What each traffic class did, where a queue discipline was asked for; the one without a
    /// number is the root itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<ClassResult>,
    /// Each trial by itself.
    pub trials: Vec<TrialResult>,
    /// Verdicts on this cell.
    pub verdicts: Vec<Verdict>,
}

/// One trial of a cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "trial")]
pub struct TrialResult {
    /// Number in the cell, from 1.
    #[schemars(range(min = 1))]
    pub n: u32,
    /// May its numbers be used?
    pub valid: bool,
    /// Streams by name.
    pub streams: BTreeMap<String, StreamResult>,
    /// Background loads by name.
    #[serde(default)]
    #[schemars(!default)]
    pub loads: BTreeMap<String, LoadResult>,
    /// Verdicts on this trial alone.
    pub verdicts: Vec<Verdict>,
}

/// One stream's outcomes and metrics.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "stream")]
pub struct StreamResult {
    /// What became of the packets.
    pub outcomes: Outcomes,
    /// Metrics by name, as `scheduled..rx_kernel`.
    pub metrics: BTreeMap<String, MetricResult>,
    /// Rates and events of the replies, of a stream that is answered.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub replies: Option<RepliesResult>,
    /// Packets that the queue discipline dropped, by the reason for which they are
    /// `not_sent`: `launch_missed`, `launch_invalid`, `qdisc_dropped` (unreported).
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub not_sent_why: BTreeMap<String, u64>,
    /// Whether packets left when they should, where something decides it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub gates: Option<GateResult>,
    /// Where `rx_kernel` was taken; left out for packets without launch times, if that was at their
    /// arrival.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schemars(with = "Option<RxKernelAt>")]
    pub rx_kernel_at: Option<String>,
    /// The metric that leads, if the experiment names one: by the key `lead`, or by its first limit
    /// on a latency.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub lead: Option<String>,
}

impl StreamResult {
    /// Where `rx_kernel` was taken, also where that is the usual place and the field is left out.
    pub fn rx_kernel_point(&self) -> &str {
        self.rx_kernel_at.as_deref().unwrap_or(RxKernelAt::Arrival.name())
    }
}

/// Rates and events of a stream that is answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "replies")]
pub struct RepliesResult {
    /// Replies a second, from the first request to the last reply of each trial; null without a
    /// reply.
    pub transactions_s: Option<f64>,
    /// TCP segments that either end sent again; null without a connection.
    pub retransmits: Option<u64>,
    /// TCP retransmission timeouts of either end; null without a connection, or before Linux 6.7.
    pub timeouts: Option<u64>,
}

/// What became of the packets: intended = received + lost + not_sent; the rest are flags on top.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "outcomes")]
pub struct Outcomes {
    /// Packets that were to be sent: each is a row of the samples.
    pub intended: u64,
    /// Packets that arrived.
    pub received: u64,
    /// Packets that were sent and never arrived.
    pub lost: u64,
    /// Packets that were never sent.
    pub not_sent: u64,
    /// Packets that arrived before their scheduled instant.
    pub early: u64,
    /// Packets that were received after their scheduled instant and the deadline.
    pub late: u64,
    /// Packets that arrived more than once.
    pub duplicate: u64,
    /// Packets that arrived after a later one.
    pub reordered: u64,
}
