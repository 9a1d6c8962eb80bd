// SPDX-License-Identifier: MIT OR Apache-2.0
//! The parts of `results.json` that queue disciplines bring.

use super::text;
use serde_json::{Value, json};

fn count(description: &str) -> Value {
    json!({"type": "integer", "minimum": 0, "description": description})
}

fn class() -> Value {
    json!({"type": ["integer", "null"], "minimum": 0, "maximum": 15, "description": "Traffic class; null where there is none."})
}

fn windows(description: &str) -> Value {
    json!({
        "type": "array",
        "description": description,
        "items": {
            "type": "object",
            "properties": {"open_ns": {"type": "integer"}, "close_ns": {"type": "integer"}},
            "required": ["open_ns", "close_ns"]
        }
    })
}

/// Departures of a stream against gates or launch times.
pub(super) fn gates() -> Value {
    let slips = |cycles: &str| {
        json!({
            "type": "object", "additionalProperties": count("Packets."),
            "description": format!("Packets by {cycles} from the window that they belong to until the one by which they left.")
        })
    };
    json!({
        "description": "Whether packets left when they should.",
        "type": "object",
        "properties": {
            "class": class(),
            "keeper": {"enum": ["taprio", "txtime-assist", "etf", "etf-deadline"], "description": "Who decides when they leave."},
            "at": text("The point at which they are judged."),
            "gate_cycle_ns": {"type": ["integer", "null"], "description": "Cycle of the gates; null without gates."},
            "stream_cycle_ns": {"type": "integer", "description": "Cycle of the stream."},
            "windows": windows("The class's windows in the gates' cycle; without gates, where releases should lie in the stream's."),
            "release_before_ns": {"type": "integer", "description": "etf hands over so long before the launch time."},
            "tolerance_ns": {"type": "integer", "description": "A release counts as in time up to so much later."},
            "judged": count("Packets judged."),
            "inside": count("Inside."),
            "early": count("Too early."),
            "late": count("Too late."),
            "unjudged": count("Sent, without the stamps to judge them by."),
            "not_sent": count("Never sent: dropped by a queue discipline, or not handed over. In none of the other counts."),
            "most_early_ns": {"type": "integer", "maximum": 0, "description": "The farthest outside before."},
            "most_early_seq": {"type": ["integer", "null"], "description": "Its packet."},
            "most_late_ns": {"type": "integer", "minimum": 0, "description": "The farthest outside behind."},
            "most_late_seq": {"type": ["integer", "null"], "description": "Its packet."},
            "slipped": {
                "type": ["integer", "null"], "minimum": 0,
                "description": "Packets that left in, or nearest to, another window than their own; without gates, in another cycle of the stream. \
                    Null where taprio gives the launch times."
            },
            "slips_gate_cycles": slips("whole cycles of the gates"),
            "slips_stream_cycles": slips("cycles of the stream, the nearest whole number,"),
            "phases": {
                "type": "object",
                "description": "When in a cycle packets came to that point.",
                "properties": {
                    "cycle": {"enum": ["gates", "stream"], "description": "Whose cycle."},
                    "cycle_ns": {"type": "integer"},
                    "counts": {"type": "array", "items": count("Packets."), "description": "In equal parts of it."}
                },
                "required": ["cycle", "cycle_ns", "counts"]
            }
        },
        "required": ["class", "keeper", "at", "gate_cycle_ns", "stream_cycle_ns", "windows", "release_before_ns", "tolerance_ns", "judged",
            "inside", "early", "late", "unjudged", "most_early_ns", "most_late_ns", "phases"]
    })
}

/// A traffic class of a cell.
pub(super) fn class_of_cell() -> Value {
    json!({
        "description": "A traffic class: its streams' departures together, and the counters of its queue disciplines.",
        "type": "object",
        "properties": {
            "class": class(),
            "windows": windows("When its gate is open, in the gates' cycle."),
            "qdiscs": {"type": "array", "items": {"type": "string"}, "description": "Kinds of its queue disciplines."},
            "packets": count("Packets that they let pass, whoever's."),
            "drops": count("Packets that they dropped."),
            "overlimits": count("Times over their limit; of etf, launch times missed."),
            "judged": count("Packets of streams that were judged."),
            "inside": count("Inside."),
            "early": count("Too early."),
            "late": count("Too late.")
        },
        "required": ["class", "qdiscs", "packets", "drops", "overlimits", "judged", "inside", "early", "late"]
    })
}

/// Why packets were not sent, where the queue discipline did it.
pub(super) fn not_sent_why() -> Value {
    json!({
        "type": "object",
        "description": "Packets that the queue discipline dropped: launch_missed, launch_invalid, qdisc_dropped (unreported).",
        "additionalProperties": count("Packets.")
    })
}
