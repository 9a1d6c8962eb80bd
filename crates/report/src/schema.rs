// SPDX-License-Identifier: MIT OR Apache-2.0
//! JSON Schema (2020-12) of `results.json` and `manifest.json`. What is not `required` is left out where it has nothing to say;
//! readers must bear keys that they do not know, for later versions add some.

mod gates;

use serde_json::{Map, Value, json};
use tardy_model::FORMAT;
use tardy_model::expect::Count;
use tardy_model::point::Source;
use tardy_model::result::QUANTILES;

const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// The schema of `results.json`.
pub fn results_schema() -> Value {
    json!({
        "$schema": DIALECT,
        "$id": "urn:tardy:results:1",
        "title": "tardy results",
        "description": "What a run found. Times are integers in nanoseconds; means are decimal.",
        "type": "object",
        "properties": {
            "format": format_version(),
            "name": text("The experiment's name."),
            "valid": {"type": "boolean", "description": "May the numbers be used at all?"},
            "expectations_met": {"type": ["boolean", "null"], "description": "False if one was broken; null when there are none, or when one was not judged and none was broken. Limits of lost, not_sent, duplicate and reordered are judged whatever the validity."},
            "expectations": {"type": "array", "items": {"$ref": "#/$defs/expectation"}},
            "fingerprint": text("A hash over all raw samples; only of a run in exact virtual time. See the chapter on guests."),
            "cells": {"type": "array", "items": {"$ref": "#/$defs/cell"}},
            "validity": validity(),
            "verdicts": {"type": "array", "items": {"$ref": "#/$defs/verdict"}}
        },
        "required": ["format", "name", "valid", "expectations_met", "expectations", "cells", "verdicts"],
        "$defs": {
            "expectation": expectation(),
            "cell": cell(),
            "trial": trial(),
            "stream": stream(),
            "load": load(),
            "series": series(),
            "outcomes": outcomes(),
            "metric": metric(),
            "quantiles": {
                "description": "Nearest-rank quantiles, ceil(q·n).",
                "type": "object",
                "properties": quantiles(),
                "required": quantile_names()
            },
            "placement": placement(),
            "softirq": softirq(),
            "cpu": cpu(),
            "class": gates::class_of_cell(),
            "gates": gates::gates(),
            "verdict": verdict(),
            "figure": figure()
        }
    })
}

/// The schema of `manifest.json`.
pub fn manifest_schema() -> Value {
    json!({
        "$schema": DIALECT,
        "$id": "urn:tardy:manifest:1",
        "title": "tardy manifest",
        "description": "What the machine and the tools were.",
        "type": "object",
        "properties": {
            "format": format_version(),
            "tardy": text("Version of tardy."),
            "name": text("The experiment's name."),
            "started_utc": text("RFC 3339."),
            "ended_utc": {"type": ["string", "null"], "description": "RFC 3339; null if the run was killed."},
            "seed": {"type": "integer", "minimum": 0, "description": "Of the order of trials, the phases and the nonces."},
            "command": {"type": "array", "items": {"type": "string"}, "description": "The command line."},
            "cells": {"type": "array", "items": {"$ref": "#/$defs/cell"}},
            "machine": {
                "type": "object",
                "additionalProperties": {"$ref": "#/$defs/figure"},
                "description": "Facts of the coordinator's machine, by dotted name."
            },
            "stations": {"type": "object", "additionalProperties": {"$ref": "#/$defs/station"}},
            "ruler": {"type": "array", "items": {"$ref": "#/$defs/ruler"}},
            "read_back": {"type": "array", "items": {"$ref": "#/$defs/read_back"}},
            "programs": {
                "type": "object",
                "additionalProperties": {"type": "string"},
                "description": "Programs that were run, with their versions."
            },
            "guest": {"$ref": "#/$defs/guest"}
        },
        "required": [
            "format", "tardy", "name", "started_utc", "ended_utc", "seed", "command", "cells", "machine", "stations", "ruler",
            "read_back", "programs"
        ],
        "$defs": {
            "cell": {
                "type": "object",
                "properties": {
                    "id": text("Cell id."),
                    "axes": axes(),
                    "trials": {"type": "integer", "minimum": 0, "description": "Trials that were asked for."},
                    "refused": {"type": ["string", "null"], "description": "Why the machine could not run it."},
                    "short": {
                        "type": "array",
                        "items": {"type": "string"},
                        "description": "What it asked for and could not have, and what was taken instead."
                    }
                },
                "required": ["id", "axes", "trials"]
            },
            "station": {
                "type": "object",
                "properties": {
                    "kind": text("netns."),
                    "netns": {"type": ["string", "null"], "description": "Its name in the machine."},
                    "agent": text("Version of the agent there.")
                },
                "required": ["kind", "netns", "agent"]
            },
            "ruler": ruler(),
            "guest": guest(),
            "read_back": {
                "type": "object",
                "properties": {
                    "cell": text("The cell whose path it was; only of queue disciplines, which differ from cell to cell."),
                    "command": text("What was run."),
                    "says": {"description": "What it printed, JSON if it printed JSON."}
                },
                "required": ["command", "says"]
            },
            "figure": figure()
        }
    })
}

fn text(description: &str) -> Value {
    json!({"type": "string", "description": description})
}

fn format_version() -> Value {
    json!({"type": "integer", "const": FORMAT, "description": "Version of the run folder."})
}

fn nanos(description: &str) -> Value {
    json!({"type": ["integer", "null"], "description": description})
}

fn axes() -> Value {
    json!({"type": "object", "additionalProperties": {"type": "string"}, "description": "Full dotted key to value."})
}

fn counted(description: &str) -> Value {
    json!({"type": "integer", "minimum": 0, "description": description})
}

fn quantiles() -> Map<String, Value> {
    QUANTILES
        .iter()
        .map(|(stem, name, _)| (format!("{stem}_ns"), nanos(&format!("{name}; null: see infinite, unresolved, why."))))
        .collect()
}

fn quantile_names() -> Vec<String> {
    QUANTILES.iter().map(|(stem, ..)| format!("{stem}_ns")).collect()
}

fn expectation() -> Value {
    json!({
        "type": "object",
        "properties": {
            "cell": text("Cell id."),
            "stream": text("Stream."),
            "metric": text("A metric, or an outcome."),
            "of": text("p50, p90, p99, p99.9, p99.99, min, mean, max, stddev; count for an outcome."),
            "limit_ns": {"type": "integer"},
            "got_ns": {"type": "integer"},
            "limit": counted("The limit of a count."),
            "got": counted("What was counted; of lost, not_sent, duplicate and reordered over every finished trial, also those left out of the figures. Packets that an outage kept from being sent are among the lost."),
            "met": {"type": ["boolean", "null"], "description": "Null where it was not judged: figures need a valid cell; of lost, not_sent, duplicate and reordered, tardy did not see what became of all packets."},
            "why": text("Why it was not judged, or was not kept although no figure is over the limit.")
        },
        "required": ["cell", "stream", "metric", "of", "met"]
    })
}

fn cell() -> Value {
    json!({
        "description": "One combination of cases and axes, pooled over its finished trials but for those left out.",
        "type": "object",
        "properties": {
            "id": text("Cell id."),
            "axes": axes(),
            "valid": {"type": "boolean"},
            "fingerprint": text("A hash over the raw samples of its finished trials; only of a run in exact virtual time."),
            "streams": {"type": "object", "additionalProperties": {"$ref": "#/$defs/stream"}},
            "loads": {"type": "object", "additionalProperties": {"$ref": "#/$defs/load"}},
            "placement": {"type": "array", "items": {"$ref": "#/$defs/placement"}},
            "softirq": {"type": "array", "items": {"$ref": "#/$defs/softirq"}, "description": "By station, where it was asked for."},
            "cpus": {"type": "array", "items": {"$ref": "#/$defs/cpu"}, "description": "What each CPU did during the trials."},
            "classes": {"type": "array", "items": {"$ref": "#/$defs/class"}, "description": "Where a queue discipline was asked for."},
            "trials": {"type": "array", "items": {"$ref": "#/$defs/trial"}},
            "verdicts": {"type": "array", "items": {"$ref": "#/$defs/verdict"}}
        },
        "required": ["id", "axes", "valid", "streams", "loads", "placement", "trials", "verdicts"]
    })
}

fn trial() -> Value {
    json!({
        "type": "object",
        "properties": {
            "n": {"type": "integer", "minimum": 1, "description": "Number in the cell."},
            "valid": {"type": "boolean"},
            "streams": {"type": "object", "additionalProperties": {"$ref": "#/$defs/stream"}},
            "loads": {"type": "object", "additionalProperties": {"$ref": "#/$defs/load"}},
            "verdicts": {"type": "array", "items": {"$ref": "#/$defs/verdict"}}
        },
        "required": ["n", "valid", "streams", "loads", "verdicts"]
    })
}

fn stream() -> Value {
    json!({
        "type": "object",
        "properties": {
            "outcomes": {"$ref": "#/$defs/outcomes"},
            "metrics": {"type": "object", "additionalProperties": {"$ref": "#/$defs/metric"}},
            "replies": {
                "description": "Of a stream that is answered.",
                "type": "object",
                "properties": {
                    "transactions_s": {
                        "type": ["number", "null"],
                        "description": "Replies a second, from the first request to the last reply of each trial."
                    },
                    "retransmits": {
                        "type": ["integer", "null"], "minimum": 0,
                        "description": "TCP segments that either end sent again; null without a connection."
                    },
                    "timeouts": {
                        "type": ["integer", "null"], "minimum": 0,
                        "description": "TCP retransmission timeouts; null without a connection, or before Linux 6.7."
                    }
                },
                "required": ["transactions_s", "retransmits", "timeouts"]
            },
            "not_sent_why": gates::not_sent_why(),
            "gates": {"$ref": "#/$defs/gates"},
            "rx_kernel_at": {
                "enum": ["arrival", "local-delivery", "packet-socket"],
                "description": "Where rx_kernel was taken, of packets that bear launch times."
            }
        },
        "required": ["outcomes", "metrics"]
    })
}

fn load() -> Value {
    let number = |description: &str| json!({"type": "number", "description": description});
    json!({
        "description": "A background load: the sum over its instances, of a cell also over its trials. What its kind does not have is left out.",
        "type": "object",
        "properties": {
            "kind": text("tcp_stream, udp_flood and so on."),
            "count": counted("Instances."),
            "achieved_bit_s": number("Payload bits a second that arrived."),
            "bytes": counted("Payload bytes that arrived."),
            "asked_bit_s": counted("What was asked of all instances together."),
            "sent_bit_s": number("Payload bits a second that were sent."),
            "sent_bytes": counted("Payload bytes that were sent."),
            "sends": counted("Send calls; of datagrams, datagrams."),
            "bytes_a_send": number("Bytes a send call, mean."),
            "receives": counted("Receive calls that brought something; of datagrams, datagrams."),
            "bytes_a_receive": number("Bytes a receive call, mean."),
            "lost": counted("Datagrams sent and not received."),
            "retransmits": counted("TCP segments sent again, by both sides."),
            "timeouts": counted("TCP retransmission timeouts; left out where the kernel does not count them."),
            "transactions_per_s": number("tcp_rr."),
            "asked_duty": number("Share of a CPU that each instance was asked to take."),
            "duty": number("Share that it had, mean of the instances."),
            "copied_bytes_per_s": number("memory."),
            "exits": {"type": "array", "items": {"type": "string"}, "description": "How the programs ended (command)."},
            "span_ns": {"type": "integer", "description": "Time that achieved_bit_s is over."},
            "series": {"$ref": "#/$defs/series"},
            "instances": {
                "type": "array",
                "items": {"$ref": "#/$defs/load"},
                "description": "Each instance, where there are several."
            }
        },
        "required": ["kind", "count", "achieved_bit_s", "bytes", "span_ns"]
    })
}

fn series() -> Value {
    json!({
        "description": "Of a trial: bytes over time, all instances, as they arrived where they do.",
        "type": "object",
        "properties": {
            "every_ns": {"type": "integer", "description": "Length of a stretch."},
            "first_ns": {"type": "integer", "description": "Where the first begins, after the trial's base time."},
            "bytes": {"type": "array", "items": {"type": "integer", "minimum": 0}, "description": "Bytes in each."}
        },
        "required": ["every_ns", "first_ns", "bytes"]
    })
}

fn outcomes() -> Value {
    let names: Vec<&str> = ["intended", "received"].into_iter().chain(Count::ALL.map(Count::name)).collect();
    let properties: Map<String, Value> = names.iter().map(|name| ((*name).to_owned(), counted("Packets."))).collect();
    json!({
        "description": "intended = received + lost + not_sent; the rest are flags on top.",
        "type": "object",
        "properties": properties,
        "required": names
    })
}

fn metric() -> Value {
    let sources =
        [Source::App, Source::Kernel, Source::Driver, Source::Hardware, Source::Bpf, Source::Emulated, Source::Sim];
    // A metric that cannot be had has neither clock nor source.
    let sources: Vec<&str> = sources.into_iter().map(Source::name).chain([""]).collect();
    let mut properties = json!({
        "clock": {"enum": ["tai", ""], "description": "Of both stamps after conversion; empty if there is none."},
        "source": {"enum": sources, "description": "Who took the later stamp; empty if nobody."},
        "coverage": {"type": "number", "description": "Rows with both stamps over rows received; for delta over received - 1."},
        "count": counted("Values."),
        "percentiles": {"enum": ["exact", "hdr3", ""], "description": "hdr3 above 10 million rows; empty if there are none."},
        "why": text("Why it cannot be had."),
        "min_ns": nanos("Least."),
        "mean_ns": {"type": ["number", "null"]},
        "stddev_ns": {"type": ["number", "null"], "description": "n - 1."},
        "max_ns": nanos("Greatest over intended packets; null: see infinite, why."),
        "max_seq": {"type": ["integer", "null"], "description": "The packet of the maximum, of those received."},
        "max_trial": {"type": ["integer", "null"], "description": "The trial of the maximum, of the packets received."},
        "infinite": {
            "type": "array",
            "items": {"type": "string"},
            "description": "Percentiles that are null because the rank falls on a lost or unsent packet; max where there is one at all."
        },
        "unresolved": {
            "type": "array",
            "items": {"type": "string"},
            "description": "Percentiles that are null because fewer than 10 separate events lie beyond, or for a reason that stands in between_ns."
        },
        "between_ns": {
            "type": "object",
            "additionalProperties": {"type": "array", "items": {"type": ["integer", "null"]}, "minItems": 2, "maxItems": 2},
            "description": "Percentiles that are null because packets which were received without a stamp could change them: the least and \
                            the greatest that each can be; null where nothing is known."
        },
        "received_only": {"$ref": "#/$defs/quantiles"},
        "received_only_max_ns": nanos("The greatest of the received packets, where max_ns is null because something never arrived."),
        "negative": counted("Negative values: early if the metric counts from scheduled, else faults of a clock.")
    });
    if let Value::Object(properties) = &mut properties {
        properties.extend(quantiles());
    }
    let mut required: Vec<String> =
        ["clock", "source", "coverage", "count", "percentiles", "min_ns", "mean_ns", "stddev_ns", "max_ns"]
            .map(str::to_owned)
            .to_vec();
    required.extend(["max_seq", "max_trial"].map(str::to_owned));
    required.extend(quantile_names());
    json!({
        "description": "The distribution of one metric; quantiles over intended packets.",
        "type": "object",
        "properties": properties,
        "required": required
    })
}

fn placement() -> Value {
    json!({
        "type": "object",
        "properties": {
            "thread": text("ctl.tx, ctl.rx."),
            "cpu_asked": text("As in the experiment file."),
            "cpus_seen": {"type": "array", "items": {"type": "integer", "minimum": 0}},
            "policy_asked": text("As in the experiment file."),
            "policy_granted": text("Read back from the kernel."),
            "memory_locked": {"type": "boolean"},
            "migrations": {"type": ["integer", "null"], "minimum": 0, "description": "Moves to another CPU, all trials together; null where the kernel does not say."},
            "wait_ns": {"type": ["integer", "null"], "description": "Time on a run queue, all trials together; null where the kernel does not say."},
            "napi_ids": {"type": "array", "items": {"type": "integer", "minimum": 0}, "description": "NAPI contexts of the socket that it received from, 0 for none; left out if it did not receive."}
        },
        "required": ["thread", "cpu_asked", "cpus_seen", "policy_asked", "policy_granted", "memory_locked"]
    })
}

fn softirq() -> Value {
    let count = |says: &str| json!({"type": ["integer", "null"], "minimum": 0, "description": says});
    json!({
        "description": "Where packets that arrive at a station were to be taken in.",
        "type": "object",
        "properties": {
            "station": text("Station."),
            "by": {"enum": ["napi", "rps", "irq"], "description": "Kernel threads that poll the device, packet steering, or the device's interrupts."},
            "cpu_asked": text("The CPU's number, or any."),
            "cpus_seen": {"type": "array", "items": {"type": "integer", "minimum": 0}, "description": "Where the device's kernel threads ran."},
            "packets": {"type": "integer", "minimum": 0, "description": "So many arrived at least."},
            "packets_on_cpu": count("Packets that the CPU asked for took in, whoever's; null where none was asked for."),
            "napi_switches": count("Context switches of the device's kernel threads; null where it has none.")
        },
        "required": ["station", "by", "cpu_asked", "cpus_seen", "packets", "packets_on_cpu", "napi_switches"]
    })
}

fn cpu() -> Value {
    let count = |says: &str| json!({"type": "integer", "minimum": 0, "description": says});
    json!({
        "description": "What one CPU did during the trials, whoever's work it was.",
        "type": "object",
        "properties": {
            "cpu": count("CPU."),
            "net_rx": count("NET_RX softirqs."),
            "net_tx": count("NET_TX softirqs."),
            "packets": count("Packets taken in, by softirq or by a kernel thread."),
            "interrupts": count("Interrupts of every kind."),
            "elapsed_ns": count("Time that the trials took."),
            "irq_ns": count("Time in interrupts, the streams' own among them; a kernel without exact accounting samples it at its tick."),
            "softirq_ns": count("Time in softirqs, in the same way."),
            "others_ns": {
                "type": ["integer", "null"],
                "minimum": 0,
                "description": "Time that tasks ran there which are neither tardy's measuring threads nor loads; null where it is not known."
            },
            "others": {
                "type": "array",
                "description": "Who they were, those that ran longest first.",
                "items": {
                    "type": "object",
                    "properties": {
                        "name": text("Name of the tasks."),
                        "run_ns": count("Time that they ran; some of it may have been on another CPU, for only the last one is known."),
                        "ended": count("So many of them ended during the trials.")
                    },
                    "required": ["name", "run_ns", "ended"]
                }
            }
        },
        "required": ["cpu", "net_rx", "net_tx", "packets", "interrupts"]
    })
}

fn validity() -> Value {
    json!({
        "description": "What the experiment file sets of the rules of validity, by rule; left out where it sets nothing.",
        "type": "object",
        "additionalProperties": {
            "type": "object",
            "properties": {
                "limit": {
                    "type": "object",
                    "description": "From where on a verdict has its full weight: a share, or a span of time.",
                    "properties": {"share": {"type": "number", "minimum": 0}, "ns": {"type": "integer", "minimum": 1}}
                },
                "level": {"enum": ["note", "warning", "invalid"], "description": "The most that its verdicts weigh."}
            }
        }
    })
}

fn verdict() -> Value {
    json!({
        "type": "object",
        "properties": {
            "id": text("The rule's name; stable."),
            "level": {"enum": ["ok", "note", "warning", "invalid"]},
            "says": text("One sentence."),
            "evidence": {"type": "object", "additionalProperties": {"$ref": "#/$defs/figure"}}
        },
        "required": ["id", "level", "says", "evidence"]
    })
}

fn figure() -> Value {
    json!({
        "description": "A measured figure; its name carries the unit. Null where it is not a number.",
        "type": ["integer", "number", "string", "array", "null"],
        "items": {"$ref": "#/$defs/figure"}
    })
}

fn guest() -> Value {
    json!({
        "description": "The guest that it ran in, if it did; `machine` then tells of that.",
        "type": "object",
        "properties": {
            "mode": {"enum": ["guest", "guest:exact"], "description": "Its time goes with the host's, or is counted instructions."},
            "accelerator": {"enum": ["tcg", "kvm"], "description": "What ran its instructions: emulated, or the processor itself."},
            "cpus": counted("Processors."),
            "memory_mib": counted("Memory, MiB."),
            "kernel": text("As it was asked for."),
            "kernel_release": text("Its release."),
            "kernel_sha256": text("Of its image."),
            "boots_sha256": text("Of the file that QEMU was given: the kernel unpacked out of its image, or the image. Absent in older runs."),
            "initramfs_sha256": text("Of what it booted: tardy, programs, modules, the experiment."),
            "proc_version": {"type": ["string", "null"], "description": "Its `/proc/version`; null if it never came up."},
            "qemu": text("QEMU's version."),
            "arguments": {"type": "array", "items": {"type": "string"}, "description": "QEMU's arguments."},
            "tai_offset_s": {"type": "integer", "description": "TAI − UTC in it."},
            "boot_cpu_ns": {"type": ["integer", "null"], "description": "Processor time that QEMU had used when the first trial's warm-up was over and its packets were about to go."},
            "boot_ns": {"type": ["integer", "null"], "description": "How long that took."},
            "cpu_ns": {"type": ["integer", "null"], "description": "Processor time that QEMU had used when the run was over."},
            "host": {
                "type": "object",
                "additionalProperties": {"$ref": "#/$defs/figure"},
                "description": "Facts of the host, by dotted name."
            }
        },
        "required": [
            "mode", "accelerator", "cpus", "memory_mib", "kernel", "kernel_release", "kernel_sha256", "initramfs_sha256",
            "proc_version", "qemu", "arguments", "tai_offset_s", "boot_cpu_ns", "boot_ns", "cpu_ns", "host"
        ]
    })
}

fn ruler() -> Value {
    json!({
        "description": "The ruler's figures for one CPU of one station.",
        "type": "object",
        "properties": {
            "station": text("Station."),
            "after": {"type": "boolean", "description": "False if taken before the first trial, true if after the last one."},
            "threads": {
                "type": "array",
                "items": {"type": "string"},
                "description": "The measuring threads for which it stands: ctl.tx, ctl.rx."
            },
            "cpu": {"type": ["integer", "null"], "description": "Null if not pinned."},
            "policy": text("Read back while measuring."),
            "stamp_ns": {"type": "integer", "description": "Cost of one stamp, median."},
            "timer_count": counted("Wake-ups measured."),
            "timer_p50_ns": {"type": "integer"},
            "timer_p99_ns": {"type": "integer"},
            "timer_p99_9_ns": {"type": ["integer", "null"]},
            "timer_max_ns": {"type": "integer"},
            "wake_wait_ns": {"type": ["integer", "null"], "description": "Wait on the run queue at a wake-up, median; null where the kernel does not say."},
            "loop_ns": {"type": "integer", "description": "Time spent in the empty loop."},
            "gaps_over_10us": counted("Gaps in it."),
            "longest_gap_ns": {"type": ["integer", "null"]}
        },
        "required": [
            "station", "cpu", "policy", "stamp_ns", "timer_count", "timer_p50_ns", "timer_p99_ns", "timer_max_ns", "loop_ns",
            "gaps_over_10us", "longest_gap_ns"
        ]
    })
}
