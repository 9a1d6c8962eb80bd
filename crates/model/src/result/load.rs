// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a background load did, in `results.json`.

use crate::load::Series;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A background load: the sum over its instances, of a cell also over the trials that its figures
/// are of. What its kind does not have is left out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "load")]
pub struct LoadResult {
    /// Its kind: `tcp_stream`, `udp_flood` and so on.
    pub kind: String,
    /// Instances.
    pub count: u32,
    /// Payload bits a second that arrived, over the time from the first instance's start to the
    /// last one's end.
    pub achieved_bit_s: f64,
    /// Payload bytes that arrived.
    pub bytes: u64,
    /// What all instances together were asked for, bits a second.
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
    /// Share of a CPU that each instance was asked to take (`cpu`).
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
    /// Of a trial: bytes over time, of all instances, as they arrived where they do.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub series: Option<Series>,
    /// Each instance, where there are several.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub instances: Vec<LoadResult>,
}
