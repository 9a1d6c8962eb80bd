// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the kernel reports about a TCP connection.

use serde::{Deserialize, Serialize};

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
