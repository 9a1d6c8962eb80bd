// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is known of a port `xdp`: how the device gave its packets away, what was lost there, and
//! where the XDP program ran.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

listed! {
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

listed! {
    /// Where an AF_XDP application runs, by the CPU that runs the XDP program.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Core {
        /// On that CPU.
        Same,
        /// On another one.
        Remote,
    }
}

impl Core {
    /// The name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Core::Same => "same",
            Core::Remote => "remote",
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
    /// The device's driver; empty if it does not say.
    #[serde(default)]
    pub driver: String,
    /// How the receiver waited, as `rx.wait` has it.
    #[serde(default)]
    pub wait: String,
    /// The application's CPU compared with the program's, packet by packet.
    #[serde(default)]
    pub core: CoreRecord,
}

/// The CPU of an AF_XDP application compared with the CPU that ran the XDP program, over the
/// packets of a trial that have the program's stamp. Empty where they were received: it is known
/// when the rows are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoreRecord {
    /// What the experiment asks for.
    pub asked: Option<Core>,
    /// The receiving thread's CPU, if it was on one during the whole trial: it may run on no other,
    /// and did not move.
    pub cpu: Option<u32>,
    /// Packets whose program ran on that CPU.
    pub same: u64,
    /// Packets whose program ran on another one.
    pub remote: u64,
    /// Packets of which that is not known, because the thread's CPU is not.
    pub unknown: u64,
}

impl CoreRecord {
    /// Of a thread on `cpu`, and packets by the CPU that ran the program.
    pub fn of(asked: Option<Core>, cpu: Option<u32>, by_cpu: &BTreeMap<u32, u64>) -> CoreRecord {
        let mut record = CoreRecord { asked, cpu, ..CoreRecord::default() };
        for (program, packets) in by_cpu {
            let count = match cpu {
                Some(cpu) if cpu == *program => &mut record.same,
                Some(_) => &mut record.remote,
                None => &mut record.unknown,
            };
            *count += packets;
        }
        record
    }

    /// Packets that are not where the experiment asks for them, those of which nothing is known
    /// among them.
    pub fn elsewhere(&self) -> u64 {
        match self.asked {
            Some(Core::Same) => self.remote + self.unknown,
            Some(Core::Remote) => self.same + self.unknown,
            None => 0,
        }
    }

    /// Packets that have the program's stamp.
    pub fn packets(&self) -> u64 {
        self.same + self.remote + self.unknown
    }
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
