// SPDX-License-Identifier: MIT OR Apache-2.0
//! What one end of a stream is ordered to do in one trial. All choices are made by then; a station decides nothing.

use serde::{Deserialize, Serialize};
use std::net::Ipv4Addr;
use tardy_model::point::Point;
use tardy_model::stream::{Overrun, Policy, Wait};
use tardy_model::time::Nanos;

/// How a measuring thread is to run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ThreadOrder {
    /// CPU to pin to; `None` leaves the thread free.
    pub cpu: Option<u32>,
    /// Scheduling policy.
    pub policy: Policy,
}

/// What both ends know of a stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StreamOrder {
    /// Its number in the experiment.
    pub stream: u8,
    /// The trial's random number.
    pub nonce: u64,
    /// Time between packets.
    pub cycle: Nanos,
    /// Packets.
    pub count: u32,
    /// Payload bytes.
    pub size: u16,
    /// Points to stamp.
    pub stamps: Vec<Point>,
}

impl StreamOrder {
    /// True if this point is to be stamped.
    pub fn wants(&self, point: Point) -> bool {
        self.stamps.contains(&point)
    }
}

/// The sending end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SendOrder {
    /// Of the stream.
    pub order: StreamOrder,
    /// Of the thread.
    pub thread: ThreadOrder,
    /// Local address.
    pub local: Ipv4Addr,
    /// The receiver's address.
    pub peer: Ipv4Addr,
    /// The receiver's UDP port.
    pub udp_port: u16,
    /// The network device, to ask what it can stamp.
    pub device: String,
    /// SO_PRIORITY.
    pub priority: u32,
    /// Wake so long before a packet is due.
    pub advance: Nanos,
    /// Spin for this last stretch.
    pub spin: Nanos,
    /// What to do with packets whose slot has passed.
    pub overrun: Overrun,
}

/// The receiving end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReceiveOrder {
    /// Of the stream.
    pub order: StreamOrder,
    /// Of the thread.
    pub thread: ThreadOrder,
    /// Local address.
    pub local: Ipv4Addr,
    /// UDP port to bind.
    pub udp_port: u16,
    /// The network device, to ask what it can stamp.
    pub device: String,
    /// How to wait.
    pub wait: Wait,
}
