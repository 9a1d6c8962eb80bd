// SPDX-License-Identifier: MIT OR Apache-2.0
//! All that is kept of one trial apart from its samples (`trial.json`): the evidence from which
//! validity is judged, so that a run that was killed can still be judged from its folder.

use crate::copy::CopyRecord;
use crate::ethernet::Tag;
use crate::load::LoadRecord;
use crate::machine::MachineState;
use crate::passed::Passing;
use crate::placement::{PlacementRecord, ThreadRecord};
use crate::point::{Metric, Point, Source};
use crate::port::TcpRecord;
use crate::qdisc::{LaunchRecord, ShaperRecord};
use crate::stream::Side;
use crate::time::{ClockReading, Conversion, Drift, EndOffsets};
use crate::xdp::{Inspection, XdpRecord, XdpSendRecord};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Bytes of tardy's own messages, without what carries them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnTraffic {
    pub to_bytes: u64,
    pub from_bytes: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrialRecord {
    /// Version of this file.
    pub format: u32,
    pub cell: String,
    /// Number in the cell, from 1.
    pub n: u32,
    /// Place in the run's random order, from 0.
    pub order: u32,
    /// The frames' random number, hexadecimal.
    pub nonce: String,
    /// Seeded shift of the first stream's schedule against the aligned base, ns.
    pub phase_ns: i64,
    /// Scheduled instant of packet 0, TAI ns.
    pub base_tai_ns: i64,
    /// True if a signal ended it before its count.
    pub interrupted: bool,
    /// What failed in it, if something did; what had been measured is in the samples.
    pub failed: Option<String>,
    /// State of the machine before.
    pub before: MachineState,
    /// State of the machine after.
    pub after: MachineState,
    /// The states of the other hosts, before the trial and after it, by the hosts' names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub hosts: BTreeMap<String, [MachineState; 2]>,
    /// What tardy itself sent to stations on other hosts and had from them while the trial ran, by
    /// the hosts' names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub own_traffic: BTreeMap<String, OwnTraffic>,
    pub streams: BTreeMap<String, StreamRecord>,
    /// Background loads by name.
    #[serde(default)]
    pub loads: BTreeMap<String, LoadRecord>,
    /// What placement was asked for, and the result.
    #[serde(default, skip_serializing_if = "PlacementRecord::is_empty")]
    pub placement: PlacementRecord,
    /// Queue disciplines of the devices that streams leave by, by station; empty where none was
    /// asked for.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub shapers: BTreeMap<String, ShaperRecord>,
    /// What tx stamps added to the figures, measured just before this trial; only of the first
    /// trial on a path and port.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub observer: Vec<ObserverRecord>,
    /// What was found on the path before its first packet; `None` where none was built.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inspection: Option<Inspection>,
    /// What the devices counted that all packets pass, from the probes to the end of the trial;
    /// `None` where the path has no such device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passed: Option<Passing>,
}

/// What tx stamps add to a metric: its median in short trials with the stamps that the experiment
/// asks for, less that in short trials with receive stamps only.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ObserverRecord {
    pub stream: String,
    pub metric: Metric,
    /// Packets in either kind of trial.
    pub packets: u32,
    /// The difference of the medians, ns.
    pub added_ns: i64,
    /// Its least value with a confidence of at least 95 %, ns.
    pub low_ns: i64,
    pub high_ns: i64,
}

/// The replies of a stream in one trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReplyRecord {
    /// Round trips that may be in flight; 0 of versions that did not keep it.
    #[serde(default)]
    pub in_flight: u32,
    /// The thread that receives the replies, where it is one of its own.
    pub thread: Option<ThreadRecord>,
    /// Events; those of sending are the reflector's.
    pub counters: Counters,
    /// Gaps that a spinning wait for replies saw.
    pub spin_gaps: Option<SpinGaps>,
    /// From the first request to the last reply, ns; `None` without one.
    pub span_ns: Option<i64>,
    /// Of the connection, at the end that asks.
    pub tcp: Option<TcpRecord>,
    /// Of the connection, at the reflector.
    pub tcp_reflector: Option<TcpRecord>,
    /// The reflector's error queue was sized to this many bytes, read back.
    pub error_queue_bytes: u64,
    /// The same of replies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tags: Option<TagRecord>,
}

/// The VLAN tags that the packets of one way arrived with. Second arrivals are not counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TagRecord {
    /// What they were sent with.
    pub sent: Option<Tag>,
    /// Packets by the number of tags that they arrived with: in the frame, and taken out by the
    /// kernel.
    pub by_count: BTreeMap<u8, u64>,
    /// Tagged packets by the priority of their outermost tag.
    pub by_pcp: BTreeMap<u8, u64>,
    /// Tagged packets by the VLAN id of their outermost tag.
    pub by_vlan: BTreeMap<u16, u64>,
    /// Tagged packets by the EtherType (TPID) of their outermost tag.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub by_tpid: BTreeMap<u16, u64>,
    /// Packets with as many tags as they were sent with, of another EtherType than the one that is
    /// sent.
    #[serde(default)]
    pub other_tpid: u64,
    /// Packets with as many tags as they were sent with, of the EtherType that is sent and another
    /// VLAN.
    pub other_vlan: u64,
    /// Packets with as many tags as they were sent with, and another priority.
    pub other_pcp: u64,
    /// The first packet whose tags were not as they were sent.
    pub first_seq: Option<u32>,
}

/// One stream in one trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StreamRecord {
    /// Packets that the experiment intended.
    pub intended: u32,
    /// Time between its packets, ns; 0 without a schedule.
    pub cycle_ns: i64,
    /// Seeded shift of its schedule against the aligned base, ns; `None` in runs of versions that
    /// noted the first stream's alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase_ns: Option<i64>,
    /// From the first to the last scheduled instant that was reached, ns.
    pub intended_span_ns: i64,
    /// From the first to the last send, ns; `None` below two.
    pub sent_span_ns: Option<i64>,
    /// How late packets were sent, median of each tenth of the stream's packets, ns: whether the
    /// sender fell behind its schedule. Empty for fewer than 20 packets, without a stamp of the
    /// sending, and for a closed loop.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lateness_by_tenth_ns: Vec<i64>,
    /// Share of packets that may be lost.
    pub max_loss: f64,
    /// Who stamped which point.
    pub sources: BTreeMap<Point, Source>,
    /// Points that were asked for and have no source, with the reason.
    pub absent: BTreeMap<Point, String>,
    /// From REALTIME to TAI at the sender.
    pub tx_conversion: Conversion,
    /// By how much more stamps at `tx_hw` may be wrong, ns: they come from the device's clock.
    #[serde(default)]
    pub tx_hw_bound_ns: i64,
    /// The same of stamps at `rx_hw`.
    #[serde(default)]
    pub rx_hw_bound_ns: i64,
    /// From REALTIME to TAI at the receiver.
    pub rx_conversion: Conversion,
    /// Clocks of the sending station before and after.
    pub tx_clocks: [ClockReading; 2],
    /// Clocks of the receiving station before and after.
    pub rx_clocks: [ClockReading; 2],
    pub tx: ThreadRecord,
    pub rx: ThreadRecord,
    pub warmup: WarmUp,
    pub counters: Counters,
    /// Gaps that a spinning receiver saw in its own loop; `None` if it did not spin.
    pub spin_gaps: Option<SpinGaps>,
    /// The same of a sender that spins for the last stretch.
    pub tx_spin_gaps: Option<SpinGaps>,
    /// The sender's error queue (where tx stamps arrive) was sized to this many bytes, read back.
    pub error_queue_bytes: u64,
    /// The VLAN tags that packets were sent with, and those that they arrived with where the port
    /// sees them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tags: Option<TagRecord>,
    /// Replies, where the stream is answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply: Option<ReplyRecord>,
    /// Launch times and gates.
    #[serde(default)]
    pub launching: LaunchRecord,
    /// What the measuring threads did for tardy itself while the stream's packets were under way,
    /// in the order of time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub own_work: Vec<OwnWork>,
    /// When they fetched stamps while no packet of the stream should have been under way: in the
    /// middle between two packets, and in the pauses of a ping-pong.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub own_between: Vec<Between>,
    /// Intervals of either kind that found no room.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub own_work_left_out: u64,
    /// What its port `xdp` was and saw, where packets were received through one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub xdp: Option<XdpRecord>,
    /// What the port `xdp` was that packets were sent through, where that was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub xdp_sent: Option<XdpSendRecord>,
    /// How far the clocks of the ends' hosts were ahead of the coordinator's, where these are
    /// other hosts. The stream's instants are of the coordinator's clock; those of `tx_clocks` and
    /// `rx_clocks` are of the hosts' own.
    #[serde(default, skip_serializing_if = "EndOffsets::are_none")]
    pub offsets: EndOffsets,
    /// What copied, where the rows are the passes of copying threads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copy: Option<CopyRecord>,
}

/// Why a measuring thread took stamps out of its error queue between two packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OwnReason {
    /// The queue has no room for the stamps of the whole trial, so the thread emptied it in the
    /// middle of a cycle.
    Room,
    /// The sender was a whole batch behind its schedule.
    Behind,
    /// The port refused a packet, and the keys of stamps had to become unambiguous again.
    Refused,
    /// A stamp that came back ended the wait for a packet, and would have ended each further one.
    Woken,
}

/// A stretch of time in which a measuring thread worked for tardy itself while a packet of the
/// trial could be under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnWork {
    /// The end whose thread it was.
    pub side: Side,
    /// The CPU that it ran on; `None` where nobody knows.
    pub cpu: Option<u32>,
    /// Its beginning, TAI, ns.
    pub start_ns: i64,
    /// Its end, TAI, ns.
    pub end_ns: i64,
    pub reason: OwnReason,
}

/// Intervals in which a thread fetched stamps between two packets. There is one for each packet,
/// so they are written short.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Between {
    /// The end whose thread it was.
    pub side: Side,
    /// The CPU that it ran on; `None` where nobody knows.
    pub cpu: Option<u32>,
    /// The first one's beginning, TAI, ns.
    pub start_ns: i64,
    /// Of each, in ns: how long after the beginning of the one before it began (of the first: 0),
    /// and how long it took.
    pub spans: Vec<(u32, u32)>,
}

impl Between {
    /// Beginnings and ends, TAI, ns.
    pub fn intervals(&self) -> impl Iterator<Item = (i64, i64)> {
        self.spans.iter().scan(self.start_ns, |start, (after, took)| {
            *start = start.saturating_add(i64::from(*after));
            Some((*start, start.saturating_add(i64::from(*took))))
        })
    }
}

/// What the measuring threads of a stream did for tardy itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnNotes {
    /// While packets could be under way.
    pub work: Vec<OwnWork>,
    /// While none should have been.
    pub between: Vec<Between>,
    /// Intervals of either kind that found no room.
    pub left_out: u64,
}

impl OwnNotes {
    /// Adds another thread's; the work stays in the order of time.
    pub fn add(&mut self, other: OwnNotes) {
        self.work.extend(other.work);
        self.work.sort_by_key(|work| work.start_ns);
        self.between.extend(other.between);
        self.left_out += other.left_out;
    }

    /// Keeps the first `most` intervals between packets, so that a trial's record stays one that
    /// can be read.
    pub fn keep_between(&mut self, most: usize) {
        let mut left = most;
        for of in &mut self.between {
            let over = of.spans.len().saturating_sub(left);
            of.spans.truncate(left);
            left -= of.spans.len();
            self.left_out += over as u64;
        }
        self.between.retain(|of| !of.spans.is_empty());
    }
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl StreamRecord {
    /// True if its receiver slept until a bulk of packets should have arrived: `receive` is late by
    /// design, and when a packet arrived is known by the XDP program's stamp.
    pub fn is_triggered(&self) -> bool {
        self.xdp.as_ref().is_some_and(|port| port.triggered.is_some())
    }

    /// By how much a value of a metric may be wrong, ns: the bounds of the clocks that took its
    /// stamps.
    pub fn bound_ns(&self, metric: Metric) -> i64 {
        // The clocks of two hosts are in question only where a metric has an end on each.
        let of_hosts = if metric.crosses_stations() { self.offsets.bound_ns() } else { 0 };
        of_hosts.saturating_add(self.bound_of_one_host_ns(metric))
    }

    /// The same where two clocks took the stamps, those of two hosts or a device's and its host's;
    /// `None` where one did.
    pub fn clock_bound_ns(&self, metric: Metric) -> Option<i64> {
        let crosses = metric.crosses_stations() && self.offsets.bound_ns() > 0;
        (crosses || self.bound_of_devices_ns(metric) > 0).then(|| self.bound_ns(metric))
    }

    /// What the trial shows of by how much more one value of a metric may be wrong than another of
    /// it. What is constant in the clocks' distance is no part of it.
    pub fn drift(&self, metric: Metric) -> Drift {
        // Each of the two values may be wrong by the others, one way and the other way.
        let of_one_host_ns = self.bound_of_one_host_ns(metric).saturating_mul(2);
        if !metric.crosses_stations() {
            return Drift::of_one_host(of_one_host_ns);
        }
        Drift::of(&self.offsets, [self.tx_clocks, self.rx_clocks], of_one_host_ns)
    }

    /// The bounds of conversions that stamps need on any number of hosts, ns.
    fn bound_of_one_host_ns(&self, metric: Metric) -> i64 {
        let bounds = [self.tx_conversion.bound_ns, self.rx_conversion.bound_ns];
        bounds.into_iter().fold(self.bound_of_devices_ns(metric), i64::saturating_add)
    }

    /// The bounds of clocks that only a device or an XDP program stamps by, ns: each is in question
    /// only where its stamp is.
    fn bound_of_devices_ns(&self, metric: Metric) -> i64 {
        let of_xdp = self.xdp.as_ref().map_or(0, |port| port.clock_bound_ns);
        let bounds = [(Point::TxHw, self.tx_hw_bound_ns), (Point::RxHw, self.rx_hw_bound_ns), (Point::RxXdp, of_xdp)];
        let has = |(point, bound_ns): (Point, i64)| metric.points().contains(&point).then_some(bound_ns);
        bounds.into_iter().filter_map(has).fold(0, i64::saturating_add)
    }

    /// How long the stream's packets took, ns: from the first to the last scheduled instant; of a
    /// closed loop, which has no schedule, from the first request to the last send or reply.
    pub fn span_ns(&self) -> i64 {
        if self.cycle_ns > 0 {
            return self.intended_span_ns;
        }
        let replied = self.reply.as_ref().and_then(|reply| reply.span_ns);
        replied.max(self.sent_span_ns).unwrap_or(self.intended_span_ns)
    }
}

/// The warm-up before a trial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WarmUp {
    pub sent: u32,
    pub received: u32,
    /// Received without a kernel stamp.
    pub without_rx_stamp: u32,
    /// Sent without a driver stamp coming back.
    pub without_tx_stamp: u32,
    /// True if the last of them had every stamp that the trial wants.
    pub flowed: bool,
    /// How long it took, ns.
    pub took_ns: i64,
}

/// Events that were survived and counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Test packets handed to the port.
    pub sent: u64,
    /// Other packets that tardy sent on the same way and does not measure.
    #[serde(default)]
    pub beside: u64,
    /// Test packets that the port refused.
    pub send_errors: u64,
    /// errno of the first refusal, 0 if none.
    pub first_send_errno: i32,
    /// The sender woke after the packet's slot.
    pub overruns: u64,
    /// Packets left not_sent because of that.
    pub skipped: u64,
    /// Packets that the queue discipline reported as dropped because their launch time had passed
    /// when it could send them.
    #[serde(default)]
    pub launch_missed: u64,
    /// Packets that it reported as dropped because their launch time could not be kept from the
    /// start, or their socket's way to give it is another.
    #[serde(default)]
    pub launch_invalid: u64,
    /// Packets that never reached the driver and for which its counters account, without a report.
    #[serde(default)]
    pub qdisc_dropped: u64,
    /// Packets on the port that are not this trial's.
    pub foreign: u64,
    pub duplicates: u64,
    /// The wait reported that something is there, and nothing was.
    pub empty_wakeups: u64,
    /// errno that broke the receive call and ended the receiver, 0 if none did.
    pub receive_errno: i32,
    /// Packets that went out in batches by one call, because the sender was a whole batch behind
    /// its schedule.
    pub batched: u64,
    /// The error queue had to be drained between two packets without time for it: the sender was
    /// held up by its own recorder.
    pub forced_drains: u64,
    /// Arrivals that had no place in the recorder.
    pub records_dropped: u64,
    /// Requests of a ping-pong that went out after the last one in flight had been given up.
    #[serde(default)]
    pub after_silence: u64,
    /// Packets dropped at the receiving socket's buffer (SO_RXQ_OVFL).
    pub socket_drops: u64,
    /// Sent packets whose driver stamp never came.
    pub tx_stamps_missing: u64,
    /// tx stamps whose key belongs to no packet of the trial.
    pub tx_stamps_unmatched: u64,
    /// The error queue was found full when it was drained.
    pub error_queue_overflows: u64,
    /// Most bytes seen waiting in the error queue.
    pub error_queue_high_bytes: u64,
}

/// Gaps in a spinning loop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpinGaps {
    /// Gaps longer than 1 ms.
    pub over_1ms: u32,
    pub longest_ns: i64,
    /// Sum of those longer than 1 ms, ns.
    pub total_ns: i64,
}
