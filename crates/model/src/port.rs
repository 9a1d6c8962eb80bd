// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ports: what the engine sends and receives through. What a port *is* is one record here,
//! [`PortTraits`], and whoever has to know asks the record, not the port. What it *does* is a file
//! in `engine/src/port`.

use crate::point::Point;
use crate::time::Nanos;
use serde::{Deserialize, Serialize};

listed! {
    /// What the engine sends and receives through.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Port {
        Udp,
        Tcp,
        /// tardy's own Ethernet frames, through a packet socket.
        Packet,
        /// The same frames, through AF_XDP sockets, past the kernel's stack.
        Xdp,
        /// A simulated path on simulated clocks.
        Sim,
    }
}

/// What lies between a frame's Ethernet header, with its tag, and the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Headers {
    None,
    /// Those of IP and UDP.
    Udp,
    /// Those of IP and TCP.
    Tcp,
}

/// Who writes the VLAN tag of a stream that has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TagBy {
    /// A VLAN device that its packets pass before the path's device.
    Device,
    Port,
    /// Nobody: a stream on this port has none.
    Nobody,
}

/// What a port is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortTraits {
    /// The word for `stream.*.port`.
    pub name: &'static str,
    /// Time and path are simulated, and nothing is built.
    pub is_simulated: bool,
    /// It is a connection: made with the first packet, it brings every message, in order, and may
    /// join those that wait.
    pub is_connection: bool,
    /// What passes it are tardy's own Ethernet frames.
    pub is_frames: bool,
    /// One socket may serve both directions of an end.
    pub may_share_socket: bool,
    /// What comes before the payload.
    pub headers: Headers,
    /// Who writes a VLAN tag.
    pub tag: TagBy,
    /// What it sends passes the device's queue discipline, where the kernel stamps it too.
    pub passes_qdisc: bool,
    /// Where what arrives is stamped before it comes to the application.
    pub arrival: Point,
}

impl Port {
    /// The name in files.
    pub const fn name(self) -> &'static str {
        self.traits().name
    }

    /// True if the one receives what the other sends.
    pub fn receives_from(self, sender: Port) -> bool {
        self == sender || self.traits().is_frames && sender.traits().is_frames
    }

    /// True if what arrives passes an XDP program of tardy's first.
    pub fn passes_xdp(self) -> bool {
        self.traits().arrival == Point::RxXdp
    }

    #[inline]
    pub const fn traits(self) -> PortTraits {
        match self {
            Port::Udp => PortTraits {
                name: "udp",
                is_simulated: false,
                is_connection: false,
                is_frames: false,
                may_share_socket: true,
                headers: Headers::Udp,
                tag: TagBy::Device,
                passes_qdisc: true,
                arrival: Point::RxKernel,
            },
            Port::Tcp => PortTraits {
                name: "tcp",
                is_simulated: false,
                is_connection: true,
                is_frames: false,
                may_share_socket: false,
                headers: Headers::Tcp,
                tag: TagBy::Nobody,
                passes_qdisc: true,
                arrival: Point::RxKernel,
            },
            Port::Packet => PortTraits {
                name: "packet",
                is_simulated: false,
                is_connection: false,
                is_frames: true,
                may_share_socket: false,
                headers: Headers::None,
                tag: TagBy::Port,
                passes_qdisc: true,
                arrival: Point::RxKernel,
            },
            Port::Xdp => PortTraits {
                name: "xdp",
                is_simulated: false,
                is_connection: false,
                is_frames: true,
                may_share_socket: false,
                headers: Headers::None,
                tag: TagBy::Port,
                passes_qdisc: false,
                arrival: Point::RxXdp,
            },
            Port::Sim => PortTraits {
                name: "sim",
                is_simulated: true,
                is_connection: false,
                is_frames: false,
                may_share_socket: false,
                headers: Headers::Udp,
                tag: TagBy::Port,
                passes_qdisc: true,
                arrival: Point::RxKernel,
            },
        }
    }
}

/// What the kernel reports about one end of a TCP connection (TCP_INFO), at its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TcpRecord {
    pub retransmits: u64,
    /// Retransmission timeouts; `None` before Linux 6.7.
    pub timeouts: Option<u64>,
    /// Greatest segment that is sent, bytes.
    pub mss: u32,
    /// The kernel's own smoothed estimate of the round trip, µs.
    pub rtt_us: u32,
    /// The retransmission timeout at the end, µs.
    pub rto_us: u32,
}

/// The simulated path and its faults. Everything is drawn from `seed`, nothing from the machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sim {
    /// Share of packets lost, 0 to 1.
    pub loss: f64,
    /// Packets lost on purpose, by number.
    pub drop: Vec<u32>,
    /// From the sender's driver to the receiver's kernel.
    pub delay: Nanos,
    /// Added to the delay, uniform in 0..jitter.
    pub jitter: Nanos,
    /// Share of packets held back until the next one has passed, 0 to 1.
    pub reorder: f64,
    /// Share of packets that arrive twice, 0 to 1.
    pub duplicate: f64,
    /// Share of tagged packets whose priority is changed on the way, 0 to 1.
    pub remark: f64,
    /// Share of packets that get a further VLAN tag on the way, 0 to 1.
    pub retag: f64,
    /// The receiver's clock runs this many parts per billion fast.
    pub drift_ppb: i64,
    /// The sender's timer returns this much after it was asked to.
    pub wake: Nanos,
    /// Share of wake-ups that are late by `late`, 0 to 1.
    pub late_share: f64,
    /// How late those are.
    pub late: Nanos,
    /// From the receiver's kernel to the application.
    pub receive: Nanos,
    /// Packets, counted from the first, whose kernel stamps are missing at the receiver.
    pub stamps_after: u32,
    /// TAI − REALTIME of both stations' clocks, in seconds.
    pub tai_offset_s: i32,
    /// Both stations' REALTIME clock jumps by this much in the middle of the trial.
    pub step: Nanos,
    /// The kernel's TAI offset changes by this many seconds in the middle of the trial, REALTIME
    /// staying.
    pub tai_offset_change_s: i32,
    /// Share of the sender's CPU that others take.
    pub hog: f64,
    /// Share of the CPUs' time stolen by the hypervisor.
    pub steal: f64,
    /// The policy that was asked for is refused.
    pub refuse_policy: bool,
    /// A spinning receiver is stopped for this long in each second.
    pub throttle: Nanos,
    /// The queue discipline's timer fires this much late.
    pub hold: Nanos,
    /// Share of the packets that it holds for which it does, 0 to 1.
    pub hold_share: f64,
    /// Each end has a device with a clock of its own, by which it stamps; the stream is one-way.
    pub phc: bool,
    /// These clocks are ahead of true time by this.
    pub phc_ahead: Nanos,
    /// They run this many parts per billion fast.
    pub phc_drift_ppb: i64,
    /// They jump by this much in the middle of the trial.
    pub phc_step: Nanos,
    /// They count in steps of this.
    pub phc_tick: Nanos,
    /// It takes so long to read one next to the system's clock, and it shows what it showed first.
    pub phc_read: Nanos,
}

impl Default for Sim {
    fn default() -> Self {
        Sim {
            loss: 0.0,
            drop: Vec::new(),
            delay: Nanos(1_000),
            jitter: Nanos::ZERO,
            reorder: 0.0,
            duplicate: 0.0,
            remark: 0.0,
            retag: 0.0,
            drift_ppb: 0,
            wake: Nanos(10_000),
            late_share: 0.0,
            late: Nanos::ZERO,
            receive: Nanos(10_000),
            stamps_after: 0,
            tai_offset_s: 37,
            step: Nanos::ZERO,
            tai_offset_change_s: 0,
            hog: 0.0,
            steal: 0.0,
            refuse_policy: false,
            throttle: Nanos::ZERO,
            hold: Nanos::ZERO,
            hold_share: 1.0,
            phc: false,
            phc_ahead: Nanos::ZERO,
            phc_drift_ppb: 0,
            phc_step: Nanos::ZERO,
            phc_tick: Nanos(1),
            phc_read: Nanos(100),
        }
    }
}
