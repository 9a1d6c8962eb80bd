// SPDX-License-Identifier: MIT OR Apache-2.0
//! The parts of `results.json` that queue disciplines bring.

use crate::gates::Window;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Whether packets left when they should, by gates or launch times.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "gates")]
pub struct GateResult {
    /// Traffic class; null where there is none.
    #[schemars(range(max = 15))]
    pub class: Option<u8>,
    /// Who decides when packets leave: `taprio` in software lets a class's packets go while its
    /// gate is open; `txtime-assist` (taprio's launch times, kept by etf) and `etf` release them
    /// `release_before_ns` before their launch time; `etf-deadline` at once, and not after it.
    #[schemars(extend("enum" = ["taprio", "txtime-assist", "etf", "etf-deadline"]))]
    pub keeper: String,
    /// The point at which they are judged.
    pub at: String,
    /// Cycle of the gates, ns; null without gates.
    pub gate_cycle_ns: Option<i64>,
    /// Cycle of the stream, ns.
    pub stream_cycle_ns: i64,
    /// The class's windows in the gates' cycle; without gates, where releases should lie in the
    /// stream's.
    pub windows: Vec<Window>,
    /// How long before the launch time etf hands packets over, ns.
    pub release_before_ns: i64,
    /// A release counts as in time up to so much later than it should be, ns.
    pub tolerance_ns: i64,
    /// Packets judged.
    pub judged: u64,
    /// Packets that left inside their window.
    pub inside: u64,
    /// Packets that left too early.
    pub early: u64,
    /// Packets that left too late.
    pub late: u64,
    /// Packets that were sent, without the stamps to judge them by.
    pub unjudged: u64,
    /// Packets that were never sent: dropped by a queue discipline, or not handed over. They are
    /// in none of the other counts.
    #[serde(default)]
    pub not_sent: u64,
    /// The farthest outside before, ns; 0 or negative.
    #[schemars(range(max = 0))]
    pub most_early_ns: i64,
    /// The packet that was the farthest outside before; null if none was.
    pub most_early_seq: Option<i64>,
    /// The farthest outside after a window, ns; 0 or positive.
    #[schemars(range(min = 0))]
    pub most_late_ns: i64,
    /// The packet that was the farthest outside after a window; null if none was.
    pub most_late_seq: Option<i64>,
    /// Packets that left in, or nearest to, another window than their own, however well inside it;
    /// without gates, in another cycle of the stream. Null where taprio gives the launch times:
    /// there packets slip as `txtime_delay` asks for.
    #[serde(default)]
    pub slipped: Option<u64>,
    /// Packets by whole cycles of the gates from the window that they belong to until the one by
    /// which they left.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    #[schemars(with = "BTreeMap<String, u64>")]
    pub slips_gate_cycles: BTreeMap<i64, u64>,
    /// Packets by cycles of the stream, the nearest whole number, from the window that they belong
    /// to until the one by which they left.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    #[schemars(with = "BTreeMap<String, u64>")]
    pub slips_stream_cycles: BTreeMap<i64, u64>,
    /// When in a cycle packets came to that point.
    pub phases: PhaseCounts,
}

/// Departures by their phase in a cycle.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "phases")]
pub struct PhaseCounts {
    /// Whose cycle: the gates' or the stream's.
    #[schemars(extend("enum" = ["gates", "stream"]))]
    pub cycle: String,
    /// How long the cycle is, ns.
    pub cycle_ns: i64,
    /// Packets in equal parts of the cycle, from its beginning.
    pub counts: Vec<u64>,
}

/// A traffic class: its streams' departures together, and the counters of its queue disciplines.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "class")]
pub struct ClassResult {
    /// Its number; null for the root, or where there are no classes.
    #[schemars(range(max = 15))]
    pub class: Option<u8>,
    /// When its gate is open, in the gates' cycle; left out without gates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub windows: Vec<Window>,
    /// Kinds of its queue disciplines.
    pub qdiscs: Vec<String>,
    /// Packets that they let pass, anybody's.
    pub packets: u64,
    /// Packets that they dropped.
    pub drops: u64,
    /// Times over their limit; of etf, launch times missed.
    pub overlimits: u64,
    /// Packets of streams that were judged.
    pub judged: u64,
    /// Packets of streams that left inside their window.
    pub inside: u64,
    /// Packets of streams that left too early.
    pub early: u64,
    /// Packets of streams that left too late.
    pub late: u64,
}
