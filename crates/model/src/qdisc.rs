// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a queue discipline actually was and what it did during a trial, read back; and the facts
//! from which the judge decides whether a stream's packets left when they should.

use crate::gates::Gates;
use crate::shaper::Schedule;
use crate::stream::Launch;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One queue discipline of a device, with what its counters grew by during a trial.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QdiscRecord {
    /// What tc calls it: `taprio`, `etf`, `noqueue`…
    pub kind: String,
    /// `100:`; `0:` where the kernel made it by itself.
    pub handle: String,
    /// Where it hangs, as `100:1`; `None` for the root.
    pub parent: Option<String>,
    /// The traffic class that it serves, where the root has classes and this is a child.
    pub class: Option<u8>,
    /// Bytes that it let pass.
    pub bytes: u64,
    /// Packets that it let pass.
    pub packets: u64,
    /// Packets that it dropped.
    pub drops: u64,
    /// Times it was over its limit; of etf, launch times that were missed.
    pub overlimits: u64,
    /// Packets that the driver gave back.
    pub requeues: u64,
}

/// The queue disciplines of the device by which a station's streams leave.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShaperRecord {
    /// What was asked for: `taprio`.
    pub asked: String,
    pub device: String,
    /// Its driver, of a device of the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// Its gates, where it has any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<Schedule>,
    /// Those of the device, the root first.
    pub qdiscs: Vec<QdiscRecord>,
    /// What was read back and is not what was asked for, a sentence each.
    pub differs: Vec<String>,
}

impl QdiscRecord {
    /// True for a root whose counters are the sums of its children's (mqprio_dump in
    /// net/sched/sch_mqprio.c); taprio's are its own.
    pub fn is_sum(&self) -> bool {
        self.parent.is_none() && matches!(self.kind.as_str(), "mq" | "mqprio")
    }
}

impl ShaperRecord {
    /// The kind of the root; empty if nothing was read.
    pub fn root(&self) -> &str {
        self.qdiscs.iter().find(|qdisc| qdisc.parent.is_none()).map_or("", |root| &root.kind)
    }
    /// Packets that were dropped.
    pub fn drops(&self) -> u64 {
        self.qdiscs.iter().filter(|qdisc| !qdisc.is_sum()).map(|qdisc| qdisc.drops).sum()
    }
    /// True if what was read back holds or orders packets of this class by their launch time.
    pub fn honours_launch(&self, class: Option<u8>) -> bool {
        let serves = |qdisc: &QdiscRecord| qdisc.parent.is_none() || class.is_none() || qdisc.class == class;
        self.qdiscs.iter().any(|qdisc| qdisc.kind == "etf" && serves(qdisc))
    }
}

/// Who decides when a packet leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Keeper {
    /// taprio in software: packets of a class leave while its gate is open.
    Taprio,
    /// taprio gives launch times in the class's windows, and etf releases `etf.delta` before.
    TxtimeAssist,
    /// etf releases `etf.delta` before the launch time.
    Etf,
    /// etf in deadline mode: at once, and not after the launch time.
    EtfDeadline,
    /// The device: no stamp taken in software shows when.
    Device,
}

impl Keeper {
    /// The name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Keeper::Taprio => "taprio",
            Keeper::TxtimeAssist => "txtime-assist",
            Keeper::Etf => "etf",
            Keeper::EtfDeadline => "etf-deadline",
            Keeper::Device => "device",
        }
    }
}

/// When a stream's packets should leave.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateRecord {
    pub keeper: Keeper,
    /// The stream's traffic class, where there are classes.
    pub class: Option<u8>,
    /// Its windows, where there is a schedule.
    pub gates: Option<Gates>,
    /// What etf hands over early by, ns; 0 without etf.
    pub delta_ns: i64,
    /// A release may be so much later than it should, ns.
    pub tolerance_ns: i64,
    /// taprio gives a launch time at least this long after the packet was enqueued, ns; `None`
    /// where packets bring their own.
    pub assigned_after_ns: Option<i64>,
    /// What taprio gives launch times by, each entry by itself ([`Gates::by_entry`]); `None` where
    /// packets bring their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entries: Option<Gates>,
    /// What a packet takes on the wire, ns: where taprio gives launch times, all of it must fit
    /// into the window, after the previous packet. 0 where that is not known.
    #[serde(default)]
    pub frame_ns: i64,
}

/// Where `rx_kernel` was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "rx_kernel_at")]
pub enum RxKernelAt {
    /// Where the packet arrives, before any protocol looks at it.
    Arrival,
    /// At local delivery, after the IP layer: the packet kept its launch time on the way, in the
    /// place where the stamp would have been.
    LocalDelivery,
    /// Where a packet socket is given the packet, before the IP layer; for the same reason.
    PacketSocket,
}

impl RxKernelAt {
    /// The name in files.
    pub const fn name(self) -> &'static str {
        match self {
            RxKernelAt::Arrival => "arrival",
            RxKernelAt::LocalDelivery => "local-delivery",
            RxKernelAt::PacketSocket => "packet-socket",
        }
    }

    /// The same in a sentence, after "taken".
    pub const fn says(self) -> &'static str {
        match self {
            RxKernelAt::Arrival => "at arrival",
            RxKernelAt::LocalDelivery => "at local delivery, behind the IP layer",
            RxKernelAt::PacketSocket => "where the packet socket is served, before the IP layer",
        }
    }

    /// True where it is not taken at arrival.
    pub const fn is_moved(self) -> bool {
        !matches!(self, RxKernelAt::Arrival)
    }
}

/// A stream's launch times in one trial.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaunchRecord {
    /// Whether packets had one.
    pub launch: Launch,
    /// How long before it the sender was to wake, ns.
    pub advance_ns: i64,
    /// `etf.delta` of the etf that they came to, ns; `None` without one.
    pub delta_ns: Option<i64>,
    /// The 99.9th percentile of the timer's error on the sender's CPU, by the ruler, ns.
    pub timer_p99_9_ns: Option<i64>,
    /// The traffic class that they come to, where there are classes, whether or not something
    /// there decides when they leave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<u8>,
    /// When they should leave; `None` where nothing decides it.
    pub gate: Option<GateRecord>,
    /// Where `rx_kernel` was taken; `None` where it was not, or it is not known of this kernel.
    pub rx_kernel_at: Option<RxKernelAt>,
    /// The station that sends, by which its queue disciplines are found.
    pub station: String,
}
