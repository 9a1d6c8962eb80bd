// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is known of a port `xdp`: how the device gave its packets away, what was lost there, and
//! where the XDP program ran.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How packets come from the device to an AF_XDP socket, the fastest way first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum XdpMode {
    /// The driver runs the program, and the device writes packets into the socket's memory.
    ZeroCopy,
    /// The driver runs the program, and the kernel copies packets.
    Native,
    /// The kernel runs the program after the driver, on its own packet buffers, and copies.
    Generic,
}

impl XdpMode {
    /// The name in files.
    pub const fn name(self) -> &'static str {
        match self {
            XdpMode::ZeroCopy => "zero-copy",
            XdpMode::Native => "native",
            XdpMode::Generic => "generic",
        }
    }
}

/// A mode that was refused before a slower one was taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct XdpRefusal {
    pub mode: XdpMode,
    /// The kernel's reason.
    pub why: String,
}

/// The clock of the XDP program's stamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum XdpClock {
    Tai,
    /// Converted to TAI.
    Monotonic,
}

/// What the kernel counted at the sockets since they were bound, anybody's packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct XdpLosses {
    /// Dropped without a frame to put them in, or because they are longer than one.
    pub rx_dropped: u64,
    /// Dropped because the receive ring was full.
    pub rx_ring_full: u64,
    /// Times that the fill ring was empty. Such a packet counts in `rx_dropped` too.
    pub fill_ring_empty: u64,
    /// Frames in the fill ring that the kernel could not use.
    pub rx_invalid_descs: u64,
}

impl XdpLosses {
    /// Packets that were lost at the sockets, each once.
    pub const fn packets(self) -> u64 {
        self.rx_dropped + self.rx_ring_full
    }
}

/// A port `xdp` that receives, in one trial.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct XdpRecord {
    pub mode: XdpMode,
    /// Faster modes that were refused.
    pub refused: Vec<XdpRefusal>,
    /// Queues with a socket, of which all share one memory.
    pub queues: u32,
    /// Bytes of that memory.
    pub umem_bytes: u64,
    /// It is of huge pages.
    pub huge_pages: bool,
    pub clock: XdpClock,
    /// By how much the conversion of its stamps to TAI may be wrong, ns; 0 for those of TAI.
    pub clock_bound_ns: i64,
    pub losses: XdpLosses,
    /// What a receiver that waits by the schedule of its packets did; `None` of another.
    #[serde(default)]
    pub triggered: Option<TriggeredRecord>,
    /// What the program wrote before the trial's packets; empty where they were received, it is
    /// known when the rows are.
    pub seen: XdpSeen,
}

/// What a receiver did that sleeps until a bulk of packets should have arrived (`rx.wait =
/// "scheduled"`), from the first synchronisation frame on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TriggeredRecord {
    /// Every n-th packet was to be a synchronisation frame.
    pub sync: u32,
    /// Packets that one wake-up was to fetch.
    pub bulk: u32,
    /// Wake-ups at the instant at which a bulk should have arrived.
    pub wakeups: u64,
    /// Packets that they fetched.
    pub fetched: u64,
    /// The most packets that one of them fetched.
    pub most: u64,
    /// Those that found nothing.
    pub empty: u64,
    /// Times that it waited by `poll` instead and was woken, and packets that it received so.
    pub polls: u64,
    pub polled: u64,
    /// Synchronisation frames.
    pub marks: u64,
    /// Those that came far from where the schedule says.
    pub odd_marks: u64,
    /// Times that it gave the schedule up: nothing came when it should, the clock stepped, or no
    /// synchronisation frame came for long.
    pub lost: u64,
    /// How long after the last packet of a bulk was due it woke at last, on top of how late the
    /// frames are at the median, ns.
    pub margin_ns: i64,
}

/// What the XDP program wrote before the packets of a trial. Second arrivals are not counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct XdpSeen {
    /// Packets by the CPU that ran the program.
    pub by_cpu: BTreeMap<u32, u64>,
    /// Packets by the queue that they came to.
    pub by_queue: BTreeMap<u32, u64>,
    /// Packets before which it wrote nothing.
    pub unstamped: u64,
    /// Packets with a stamp that is later than their receive call, so that it is another's.
    pub implausible: u64,
}
