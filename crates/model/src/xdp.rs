// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is known of a port `xdp`: how the device gave its packets away and took them, what was lost
//! there, and where the XDP program ran.

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
    /// What the program wrote before the trial's packets; empty where they were received, it is
    /// known when the rows are.
    pub seen: XdpSeen,
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

/// How packets get from a socket of AF_XDP to the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum XdpSendMode {
    /// The driver reads the ring by itself, in its own NAPI context, and the device reads packets
    /// out of the socket's memory.
    ZeroCopy,
    /// The kernel makes a packet buffer of each, and the sender's own thread runs the driver, in
    /// its send call.
    Copy,
}

impl XdpSendMode {
    /// The name in files.
    pub const fn name(self) -> &'static str {
        match self {
            XdpSendMode::ZeroCopy => "zero-copy",
            XdpSendMode::Copy => "copy",
        }
    }
}

/// What was counted at a socket that sends, since it was bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct XdpSent {
    /// Packets whose frames came back, those of the warm-up too. In copy mode the kernel gives a
    /// frame back when it frees the packet buffer.
    pub completions: u64,
    /// Descriptors that the kernel passed over. Those that tardy made void are among them.
    pub tx_invalid_descs: u64,
    /// Times that the kernel looked for a packet and there was none.
    pub tx_ring_empty_descs: u64,
    /// Packets that tardy took back because the kernel had not taken them: each was refused.
    pub voided: u64,
}

/// A port `xdp` that sends, in one trial.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct XdpSendRecord {
    pub mode: XdpSendMode,
    /// Faster modes that were refused.
    pub refused: Vec<XdpRefusal>,
    /// The queue of the device that it sends through.
    pub queue: u32,
    /// Bytes of its memory.
    pub umem_bytes: u64,
    /// It is of huge pages.
    pub huge_pages: bool,
    pub counted: XdpSent,
}
