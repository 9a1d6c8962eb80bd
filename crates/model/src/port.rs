// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ports: what the engine sends and receives through. What a port *is* is one record here,
//! [`PortTraits`], and whoever has to know asks the record, not the port. What it *does* is a file
//! in `engine/src/port`.

use crate::point::Point;
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
