// SPDX-License-Identifier: MIT OR Apache-2.0
//! `results.json`: what a run found. Times are nanoseconds; what could not be had is null, with the reason beside it.

use crate::expect::Count;
use crate::gates::Window;
use crate::load::Series;
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

/// Departures against gates or launch times.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GateResult {
    /// Traffic class, where there are any.
    pub class: Option<u8>,
    /// Who decides: `taprio`, `txtime-assist`, `etf`, `etf-deadline`.
    pub keeper: String,
    /// The point at which packets are judged.
    pub at: String,
    /// Cycle of the gates, ns; null without gates.
    pub gate_cycle_ns: Option<i64>,
    /// Cycle of the stream, ns.
    pub stream_cycle_ns: i64,
    /// The class's windows in the gates' cycle; without gates, where releases should lie in the stream's cycle.
    pub windows: Vec<Window>,
    /// etf hands packets over so long before their launch time, ns.
    pub release_before_ns: i64,
    /// And a release counts as in time up to so much later, ns.
    pub tolerance_ns: i64,
    /// Packets judged.
    pub judged: u64,
    /// Inside.
    pub inside: u64,
    /// Too early.
    pub early: u64,
    /// Too late.
    pub late: u64,
    /// Sent and without the stamps to judge them by.
    pub unjudged: u64,
    /// Never sent: dropped by a queue discipline, or not handed over. In none of the other counts.
    #[serde(default)]
    pub not_sent: u64,
    /// The farthest outside before, ns; 0 or negative.
    pub most_early_ns: i64,
    /// Its packet.
    pub most_early_seq: Option<i64>,
    /// The farthest outside behind, ns; 0 or positive.
    pub most_late_ns: i64,
    /// Its packet.
    pub most_late_seq: Option<i64>,
    /// Packets that left in, or nearest to, another window than their own, however well inside it; without gates, in another cycle of
    /// the stream. Null where taprio gives the launch times: there they slip as `txtime_delay` asks for.
    #[serde(default)]
    pub slipped: Option<u64>,
    /// Packets by the cycles of the gates that passed from the window that they belong to until the one by which they left.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub slips_gate_cycles: BTreeMap<i64, u64>,
    /// Packets by the same in cycles of the stream, the nearest whole number of them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub slips_stream_cycles: BTreeMap<i64, u64>,
    /// When in the cycle packets came to the driver.
    pub phases: PhaseCounts,
}

/// Departures by phase.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhaseCounts {
    /// Whose cycle: `gates` or `stream`.
    pub cycle: String,
    /// How long it is, ns.
    pub cycle_ns: i64,
    /// Packets in equal parts of it, from its beginning.
    pub counts: Vec<u64>,
}

/// One traffic class: its streams' departures together, and the counters of its queue disciplines.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassResult {
    /// Its number; null for the root, or where there are no classes.
    pub class: Option<u8>,
    /// When its gate is open, in the gates' cycle; empty without gates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub windows: Vec<Window>,
    /// Kinds of its queue disciplines.
    pub qdiscs: Vec<String>,
    /// Packets that they let pass, whoever's.
    pub packets: u64,
    /// Packets that they dropped.
    pub drops: u64,
    /// Times over their limit.
    pub overlimits: u64,
    /// Packets of streams that were judged.
    pub judged: u64,
    /// Inside.
    pub inside: u64,
    /// Too early.
    pub early: u64,
    /// Too late.
    pub late: u64,
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

/// A background load: the sum over its instances, of a cell also over the trials that its figures are of. What a kind does not
/// have is left out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadResult {
    /// `tcp_stream`, `udp_flood`…
    pub kind: String,
    /// Instances.
    pub count: u32,
    /// Payload bits a second that arrived, over the time from the first instance's start to the last one's end.
    pub achieved_bit_s: f64,
    /// Payload bytes that arrived.
    pub bytes: u64,
    /// What was asked of all instances together, bits a second.
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
    /// Share of a CPU that was asked for (`cpu`), of each instance.
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
    /// Of a trial: bytes over time, all instances.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub series: Option<Series>,
    /// Each instance, where there are several.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub instances: Vec<LoadResult>,
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

/// The distribution of one metric.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MetricResult {
    /// Clock of both stamps after conversion: `tai`.
    pub clock: String,
    /// Who took the later stamp.
    pub source: String,
    /// Rows with both stamps over rows received; for `delta` over received − 1.
    pub coverage: f64,
    /// Values.
    pub count: u64,
    /// `exact`, or `hdr3` above 10 M rows.
    pub percentiles: String,
    /// Why it cannot be had, if it cannot.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub why: Option<String>,
    /// The figures. Quantiles are over intended packets.
    #[serde(flatten)]
    pub figures: Figures,
    /// The packet of the maximum, of those received.
    pub max_seq: Option<i64>,
    /// The trial of the maximum.
    pub max_trial: Option<u32>,
    /// Percentiles that are null because the rank falls on a lost or unsent packet; `max` where there is such a packet at all.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub infinite: Vec<String>,
    /// Percentiles that are null because fewer than 10 separate events lie beyond, or for a reason that stands in `between_ns`.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub unresolved: Vec<String>,
    /// Percentiles that packets which were received without a stamp could change: the least and the greatest that each can be,
    /// ns; null where nothing is known.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub between_ns: BTreeMap<String, [Option<i64>; 2]>,
    /// Quantiles over received packets only, where they differ.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub received_only: Option<Quantiles>,
    /// The greatest of the received packets, where `max_ns` is null because something never arrived.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub received_only_max_ns: Option<i64>,
    /// Negative values: `early` if the metric counts from `scheduled`, else faults of a clock.
    #[serde(skip_serializing_if = "is_zero", default)]
    pub negative: u64,
}

/// The name of the maximum among figures that are infinite.
pub const MAX: &str = "max";

impl MetricResult {
    /// True if a packet never arrived, so that no figure over all intended packets bounds how late they were.
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

/// Moments and quantiles.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Least.
    pub min_ns: Option<i64>,
    /// Mean.
    pub mean_ns: Option<f64>,
    /// Standard deviation, n − 1.
    pub stddev_ns: Option<f64>,
    /// Greatest of all intended packets; null where one never arrived.
    pub max_ns: Option<i64>,
    /// Quantiles.
    #[serde(flatten)]
    pub quantiles: Quantiles,
}

/// Nearest-rank quantiles, `ceil(q·n)`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quantiles {
    /// Median.
    pub p50_ns: Option<i64>,
    /// 90 %.
    pub p90_ns: Option<i64>,
    /// 99 %.
    pub p99_ns: Option<i64>,
    /// 99.9 %.
    pub p99_9_ns: Option<i64>,
    /// 99.99 %.
    pub p99_99_ns: Option<i64>,
}

/// The quantiles that are printed: field stem in the results, name in tables and `of`, q as a fraction.
pub const QUANTILES: [(&str, &str, f64); 5] = [
    ("p50", "p50", 0.5),
    ("p90", "p90", 0.9),
    ("p99", "p99", 0.99),
    ("p99_9", "p99.9", 0.999),
    ("p99_99", "p99.99", 0.9999),
];

impl Quantiles {
    /// In the order of [`QUANTILES`].
    pub fn as_array(&self) -> [Option<i64>; 5] {
        [self.p50_ns, self.p90_ns, self.p99_ns, self.p99_9_ns, self.p99_99_ns]
    }
    /// From the order of [`QUANTILES`].
    pub fn from_array(q: [Option<i64>; 5]) -> Self {
        Quantiles { p50_ns: q[0], p90_ns: q[1], p99_ns: q[2], p99_9_ns: q[3], p99_99_ns: q[4] }
    }
}

/// Where a thread was asked to run, and what the kernel says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Placement {
    /// `ctl.tx`, `ctl.rx`.
    pub thread: String,
    /// As in the experiment file.
    pub cpu_asked: String,
    /// Where it was seen.
    pub cpus_seen: Vec<u32>,
    /// As in the experiment file.
    pub policy_asked: String,
    /// Read back.
    pub policy_granted: String,
    /// Memory locked.
    pub memory_locked: bool,
    /// Times it was moved to another CPU, all trials together; null where the kernel does not say.
    #[serde(default)]
    pub migrations: Option<u64>,
    /// Time it waited on a run queue, all trials together, ns; null where the kernel does not say.
    #[serde(default)]
    pub wait_ns: Option<i64>,
    /// NAPI contexts of the socket that it received from, 0 for none; left out if it did not receive.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub napi_ids: Vec<u32>,
}

/// Where packets that arrive at a station were asked to be taken in, and what the kernel says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SoftirqPlacement {
    /// Station.
    pub station: String,
    /// `napi`, `rps` or `irq`.
    pub by: String,
    /// The CPU's number, or `any`.
    pub cpu_asked: String,
    /// CPUs on which the device's kernel threads ran; empty where it has none.
    pub cpus_seen: Vec<u32>,
    /// At least so many packets of the trials arrived.
    pub packets: u64,
    /// Packets that the CPU asked for took in during the trials, whoever's; null where none was asked for.
    pub packets_on_cpu: Option<u64>,
    /// Context switches of the device's kernel threads; null where it has none.
    pub napi_switches: Option<u64>,
}

/// Others that used a CPU: the tasks of one name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuUser {
    /// `comm`.
    pub name: String,
    /// Time that they ran during the trials, ns; some of it may have been on another CPU, for only the last one is known.
    pub run_ns: i64,
    /// So many of them ended during the trials.
    #[serde(default)]
    pub ended: u64,
}

/// What one CPU did during the trials, counted by the kernel, whoever's work it was.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuPlacement {
    /// CPU.
    pub cpu: u32,
    /// NET_RX softirqs.
    pub net_rx: u64,
    /// NET_TX softirqs.
    pub net_tx: u64,
    /// Packets taken in.
    pub packets: u64,
    /// Interrupts of every kind.
    pub interrupts: u64,
    /// Time that the trials took, ns.
    #[serde(default)]
    pub elapsed_ns: i64,
    /// Time in interrupts, ns, the streams' own among them. A kernel without exact accounting samples it at its tick.
    #[serde(default)]
    pub irq_ns: i64,
    /// Time in softirqs, ns, in the same way.
    #[serde(default)]
    pub softirq_ns: i64,
    /// Time that tasks ran there which are neither tardy's measuring threads nor loads, ns; null where it is not known.
    #[serde(default)]
    pub others_ns: Option<i64>,
    /// Who they were, those that ran longest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<CpuUser>,
}
