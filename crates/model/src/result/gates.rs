// SPDX-License-Identifier: MIT OR Apache-2.0
//! The parts of `results.json` that queue disciplines bring.

use crate::gates::Window;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Departures against gates or launch times.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GateResult {
    /// Traffic class, where there are any.
    pub class: Option<u8>,
    /// Who decides: `taprio`, `txtime-assist`, `etf`, `etf-deadline`.
    pub keeper: String,
    /// The point at which packets are judged.
    pub at: String,
    /// Cycle of the gates, ns; null without gates.
    pub gate_cycle_ns: Option<i64>,
    /// Cycle of the stream, ns.
    pub stream_cycle_ns: i64,
    /// The class's windows in the gates' cycle; without gates, where releases should lie in the stream's cycle.
    pub windows: Vec<Window>,
    /// etf hands packets over so long before their launch time, ns.
    pub release_before_ns: i64,
    /// And a release counts as in time up to so much later, ns.
    pub tolerance_ns: i64,
    /// Packets judged.
    pub judged: u64,
    /// Inside.
    pub inside: u64,
    /// Too early.
    pub early: u64,
    /// Too late.
    pub late: u64,
    /// Sent and without the stamps to judge them by.
    pub unjudged: u64,
    /// Never sent: dropped by a queue discipline, or not handed over. In none of the other counts.
    #[serde(default)]
    pub not_sent: u64,
    /// The farthest outside before, ns; 0 or negative.
    pub most_early_ns: i64,
    /// Its packet.
    pub most_early_seq: Option<i64>,
    /// The farthest outside behind, ns; 0 or positive.
    pub most_late_ns: i64,
    /// Its packet.
    pub most_late_seq: Option<i64>,
    /// Packets that left in, or nearest to, another window than their own, however well inside it; without gates, in another cycle of
    /// the stream. Null where taprio gives the launch times: there they slip as `txtime_delay` asks for.
    #[serde(default)]
    pub slipped: Option<u64>,
    /// Packets by the cycles of the gates that passed from the window that they belong to until the one by which they left.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub slips_gate_cycles: BTreeMap<i64, u64>,
    /// Packets by the same in cycles of the stream, the nearest whole number of them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub slips_stream_cycles: BTreeMap<i64, u64>,
    /// When in the cycle packets came to the driver.
    pub phases: PhaseCounts,
}

/// Departures by phase.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhaseCounts {
    /// Whose cycle: `gates` or `stream`.
    pub cycle: String,
    /// How long it is, ns.
    pub cycle_ns: i64,
    /// Packets in equal parts of it, from its beginning.
    pub counts: Vec<u64>,
}

/// One traffic class: its streams' departures together, and the counters of its queue disciplines.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassResult {
    /// Its number; null for the root, or where there are no classes.
    pub class: Option<u8>,
    /// When its gate is open, in the gates' cycle; empty without gates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub windows: Vec<Window>,
    /// Kinds of its queue disciplines.
    pub qdiscs: Vec<String>,
    /// Packets that they let pass, whoever's.
    pub packets: u64,
    /// Packets that they dropped.
    pub drops: u64,
    /// Times over their limit.
    pub overlimits: u64,
    /// Packets of streams that were judged.
    pub judged: u64,
    /// Inside.
    pub inside: u64,
    /// Too early.
    pub early: u64,
    /// Too late.
    pub late: u64,
}
