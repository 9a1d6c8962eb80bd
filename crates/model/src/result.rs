// SPDX-License-Identifier: MIT OR Apache-2.0
//! `results.json`: what a run found. Times are nanoseconds; what is not available is null, with the
//! reason next to it. The comments of the fields are the descriptions in its JSON Schema
//! ([`crate::schema`]).

pub use crate::gates::{ClassResult, GateResult, PhaseCounts};
pub use crate::placement::{CpuPlacement, CpuUser, MachinesPlacement, Placement, SoftirqPlacement, XdpPlacement};

use crate::FORMAT;
use crate::copy::CopyResult;
use crate::expect::Count;
use crate::load::Series;
use crate::point::Source;
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
    /// The experiment's `name`, as its file has it.
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
    /// Id of the cell that the limit is of.
    pub cell: String,
    /// Name of the stream that the limit is of.
    pub stream: String,
    /// A metric, as `scheduled..rx_kernel`, an outcome, as `lost`, or the `bandwidth` of a copy.
    pub metric: String,
    /// Which figure of a metric: `p50`, `p90`, `p99`, `p99.9`, `p99.99`, `min`, `mean`, `max` or
    /// `stddev`; `count` for an outcome, `at_least` for a bandwidth.
    pub of: String,
    /// The limit of a metric, ns.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub limit_ns: Option<i64>,
    /// The metric's measured value, ns; left out if it is not available, or is infinite because
    /// packets were lost.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub got_ns: Option<i64>,
    /// The limit of a count, or of a bandwidth, bits a second.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub limit: Option<u64>,
    /// What was counted; of `lost`, `not_sent`, `duplicate` and `reordered` over every finished
    /// trial, also those left out of the figures. Packets that an outage kept from being sent are
    /// among the lost. Of a bandwidth, that of the median trial, bits a second.
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
    /// Id of the cell: the name of its case and the values of its axes, or `all`.
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
    /// Where the XDP program and its application ran, of each stream that is received on port
    /// `xdp`; left out where there is none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub xdp: Vec<XdpPlacement>,
    /// What each CPU did for the network and for devices during the trials.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cpus: Vec<CpuPlacement>,
    /// What the run's own virtual machines cost during the trials; left out where there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machines: Option<MachinesPlacement>,
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
    /// The figures of each stream, by its name.
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
    /// Metrics by name, as `scheduled..rx_kernel`; `MEMBER..receive` of a time in the hints of a
    /// user's own XDP program; `METRIC above its minimum` where the rule `clock-bound` refuses
    /// METRIC: each value less the least one of its trial.
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
    /// How the threads of a copy went together, whose passes are the rows here.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub copy: Option<CopyResult>,
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
    /// Packets that arrived, each counted once.
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

/// The distribution of one metric; quantiles over intended packets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "metric")]
pub struct MetricResult {
    /// Clock of both stamps after conversion; empty if there is none.
    #[schemars(extend("enum" = ["tai", ""]))]
    pub clock: String,
    /// Who took the later stamp; empty if nobody.
    #[schemars(extend("enum" = sources()))]
    pub source: String,
    /// Rows with both stamps over rows received; for `delta` over received − 1; for a time in hints
    /// over those received whose struct has it, or that have none.
    pub coverage: f64,
    /// How many values the figures are of.
    pub count: u64,
    /// How the percentiles were found: `hdr3`, from a histogram that is within 0.1 %, above 10
    /// million rows; empty if there are none.
    #[schemars(extend("enum" = ["exact", "hdr3", ""]))]
    pub percentiles: String,
    /// Why it is not available.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub why: Option<String>,
    /// The figures. Quantiles are over intended packets.
    #[serde(flatten)]
    pub figures: Figures,
    /// The packet of the maximum, of those received; null without values.
    pub max_seq: Option<i64>,
    /// The trial of the maximum, of the packets received; null without values.
    pub max_trial: Option<u32>,
    /// Percentiles that are null because the rank falls on a lost or unsent packet; `max` where
    /// there is one at all.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub infinite: Vec<String>,
    /// Percentiles that are null because fewer than 10 separate events lie beyond, or for a reason
    /// that is in `between_ns`.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub unresolved: Vec<String>,
    /// Percentiles that are null because packets which were received without a stamp could change
    /// them: the least and the greatest that each can be, ns; null where nothing is known.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub between_ns: BTreeMap<String, [Option<i64>; 2]>,
    /// Quantiles over received packets only, where they differ.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub received_only: Option<Quantiles>,
    /// The greatest of the received packets, where `max_ns` is null because something never
    /// arrived.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub received_only_max_ns: Option<i64>,
    /// Negative values: `early` if the metric counts from `scheduled`, else faults of a clock;
    /// left out where there are none.
    #[serde(skip_serializing_if = "is_zero", default)]
    pub negative: u64,
    /// Values of a time in hints that are no time of their packet and in no figure: later than
    /// `receive`, or more than a second before the trial's first packet was due; left out where
    /// there are none.
    #[serde(skip_serializing_if = "is_zero", default)]
    pub not_of_packet: u64,
    /// By how much each figure may be wrong, ns, because two clocks took its stamps;
    /// of a cell the greatest bound of its trials. Left out where the clocks of one host took them.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub clock_bound_ns: Option<i64>,
    /// The rule that refuses the figures, which are null then; `why` gives the reason. Left out
    /// where none does.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub refused_by: Option<String>,
}

/// Follows a metric's name where its figures are of each value less the least one of its trial.
pub const ABOVE_MINIMUM: &str = " above its minimum";

/// What `source` may be.
fn sources() -> Vec<&'static str> {
    Source::ALL.into_iter().map(Source::name).chain([""]).collect()
}

/// The name of the maximum among figures that are infinite.
pub const MAX: &str = "max";

impl MetricResult {
    /// A metric that was requested and is not available.
    pub fn absent(why: &str) -> Self {
        MetricResult {
            clock: "tai".to_owned(),
            percentiles: "exact".to_owned(),
            why: Some(why.to_owned()),
            ..MetricResult::default()
        }
    }

    /// True if a packet never arrived, so that no figure over all intended packets bounds how late
    /// they were.
    pub fn is_unbounded(&self) -> bool {
        self.infinite.iter().any(|name| name == MAX)
    }

    /// The greatest value among the received packets.
    pub fn greatest_received_ns(&self) -> Option<i64> {
        self.figures.max_ns.or(self.received_only_max_ns)
    }
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// Moments and quantiles of one distribution, ns.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Figures {
    /// The least value; null without values.
    pub min_ns: Option<i64>,
    /// The mean of the values; null without values.
    pub mean_ns: Option<f64>,
    /// The standard deviation of the values, by n − 1; null of fewer than two.
    pub stddev_ns: Option<f64>,
    /// The greatest over intended packets; null where one never arrived, or without values: see
    /// `infinite`, `why`.
    pub max_ns: Option<i64>,
    #[serde(flatten)]
    pub quantiles: Quantiles,
}

/// Quantiles by nearest rank: the value whose rank is `ceil(q·n)`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "quantiles")]
pub struct Quantiles {
    /// Median; null: see `infinite`, `unresolved`, `why`.
    pub p50_ns: Option<i64>,
    /// 90th percentile; null: see `infinite`, `unresolved`, `why`.
    pub p90_ns: Option<i64>,
    /// 99th percentile; null: see `infinite`, `unresolved`, `why`.
    pub p99_ns: Option<i64>,
    /// 99.9th percentile; null: see `infinite`, `unresolved`, `why`.
    pub p99_9_ns: Option<i64>,
    /// 99.99th percentile; null: see `infinite`, `unresolved`, `why`.
    pub p99_99_ns: Option<i64>,
}

impl Quantiles {
    /// In the order of [`QUANTILES`](crate::expect::QUANTILES).
    pub fn as_array(&self) -> [Option<i64>; 5] {
        [self.p50_ns, self.p90_ns, self.p99_ns, self.p99_9_ns, self.p99_99_ns]
    }
    /// From the order of [`QUANTILES`](crate::expect::QUANTILES).
    pub fn from_array(q: [Option<i64>; 5]) -> Self {
        Quantiles { p50_ns: q[0], p90_ns: q[1], p99_ns: q[2], p99_9_ns: q[3], p99_99_ns: q[4] }
    }
}

/// A background load: the sum over its instances, of a cell also over the trials that its figures
/// are of. What its kind does not have is left out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "load")]
pub struct LoadResult {
    /// Its kind: `tcp_stream`, `udp_flood` and so on.
    pub kind: String,
    /// How many instances it has.
    pub count: u32,
    /// Payload bits a second that arrived, over the time from the first instance's start to the
    /// last one's end.
    pub achieved_bit_s: f64,
    /// Payload bytes that arrived.
    pub bytes: u64,
    /// What all instances together were asked for, bits a second.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub asked_bit_s: Option<u64>,
    /// Payload bits a second that were sent.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub sent_bit_s: Option<f64>,
    /// Payload bytes that were sent.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub sent_bytes: Option<u64>,
    /// Send calls; of datagrams, datagrams.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub sends: Option<u64>,
    /// Bytes a send call, mean.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub bytes_a_send: Option<f64>,
    /// Receive calls that brought something; of datagrams, datagrams.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub receives: Option<u64>,
    /// Bytes a receive call, mean.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub bytes_a_receive: Option<f64>,
    /// Datagrams sent and not received.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub lost: Option<u64>,
    /// TCP segments sent again, by both sides.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub retransmits: Option<u64>,
    /// TCP retransmission timeouts; left out where the kernel does not count them.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub timeouts: Option<u64>,
    /// Transactions a second (`tcp_rr`).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub transactions_per_s: Option<f64>,
    /// Share of a CPU that each instance was asked to take (`cpu`).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub asked_duty: Option<f64>,
    /// Share of a CPU that it had, mean of the instances.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub duty: Option<f64>,
    /// Bytes copied a second (`memory`).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub copied_bytes_per_s: Option<f64>,
    /// How the programs ended (`command`), in one line each.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub exits: Vec<String>,
    /// Time that `achieved_bit_s` is over, ns.
    pub span_ns: i64,
    /// Of a trial: bytes over time, of all instances, as they arrived where they do.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub series: Option<Series>,
    /// Each instance, where there are several.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub instances: Vec<LoadResult>,
}
