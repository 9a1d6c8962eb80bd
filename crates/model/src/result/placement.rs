// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where work was done, in `results.json`: the measuring threads, arriving packets, every CPU.

use crate::placement::SoftirqBy;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where a thread was asked to run, and what the kernel reports.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "placement")]
pub struct Placement {
    /// The thread: `ctl.tx`, `ctl.rx`.
    pub thread: String,
    /// The CPU, as in the experiment file.
    pub cpu_asked: String,
    /// CPUs on which it was seen.
    pub cpus_seen: Vec<u32>,
    /// The scheduling policy, as in the experiment file.
    pub policy_asked: String,
    /// The policy that was read back from the kernel.
    pub policy_granted: String,
    /// Was the memory of its process locked?
    pub memory_locked: bool,
    /// Moves to another CPU, all trials together; null where the kernel does not say.
    #[serde(default)]
    pub migrations: Option<u64>,
    /// Time on a run queue, all trials together, ns; null where the kernel does not say.
    #[serde(default)]
    pub wait_ns: Option<i64>,
    /// NAPI contexts of the socket that it received from, 0 for none; left out if it did not
    /// receive.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub napi_ids: Vec<u32>,
}

/// Where packets that arrive at a station were asked to be received, and what the kernel reports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "softirq")]
pub struct SoftirqPlacement {
    /// Station.
    pub station: String,
    /// By which means they were to be taken in there.
    #[schemars(with = "SoftirqBy")]
    pub by: String,
    /// The CPU's number, or `any`.
    pub cpu_asked: String,
    /// CPUs on which the device's kernel threads ran; empty where it has none.
    pub cpus_seen: Vec<u32>,
    /// At least this number of the trials' packets arrived.
    pub packets: u64,
    /// Packets that the CPU asked for received during the trials, anybody's; null where none was
    /// asked for.
    pub packets_on_cpu: Option<u64>,
    /// Context switches of the device's kernel threads; null where it has none.
    pub napi_switches: Option<u64>,
}

/// Others that used a CPU: the tasks of one name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "cpu_user")]
pub struct CpuUser {
    /// Name of the tasks (`comm`).
    pub name: String,
    /// Time that they ran during the trials, ns; some of it may have been on another CPU, for only
    /// the last one is known.
    #[schemars(range(min = 0))]
    pub run_ns: i64,
    /// How many of them ended during the trials.
    #[serde(default)]
    #[schemars(!default)]
    pub ended: u64,
}

/// What one CPU did during the trials, counted by the kernel, for any process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "cpu")]
pub struct CpuPlacement {
    /// The host that it is of; left out for the coordinator's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Number of the CPU.
    pub cpu: u32,
    /// NET_RX softirqs.
    pub net_rx: u64,
    /// NET_TX softirqs.
    pub net_tx: u64,
    /// Packets taken in, by softirq or by a kernel thread.
    pub packets: u64,
    /// Interrupts of every kind.
    pub interrupts: u64,
    /// Time that the trials took, ns.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub elapsed_ns: i64,
    /// Time in interrupts, the streams' own among them, ns; a kernel without exact accounting
    /// samples it at its tick.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub irq_ns: i64,
    /// Time in softirqs, ns; a kernel without exact accounting samples it at its tick.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub softirq_ns: i64,
    /// Time that tasks ran there which are neither tardy's measuring threads nor loads, ns; null
    /// where it is not known.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub others_ns: Option<i64>,
    /// The tasks that ran there and are neither tardy's measuring threads nor loads, those that
    /// ran longest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<CpuUser>,
}
