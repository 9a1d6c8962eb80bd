// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a machine was doing at one moment, and which machine it was.

use crate::placement::{CpuWork, KvmWork};
use crate::time::ClockReading;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Counters of one CPU since boot (`/proc/stat`), in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuTimes {
    /// Not idle: user, system, interrupts.
    pub busy_ns: i64,
    /// Idle or waiting for I/O.
    pub idle_ns: i64,
    /// Taken by the hypervisor.
    pub steal_ns: i64,
    /// Of the busy time, that in interrupts. A kernel without exact accounting of it samples it at
    /// its tick.
    #[serde(default)]
    pub irq_ns: i64,
    /// Of the busy time, that in softirqs, sampled in the same way.
    #[serde(default)]
    pub softirq_ns: i64,
}

/// A task that is not tardy's measuring thread, at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskTime {
    /// The kernel's `comm`: at most 15 bytes.
    pub name: String,
    /// When it started: clock ticks since boot. With the thread id it names a task for good; its
    /// name may change.
    pub start: u64,
    /// CPU it last ran on.
    pub cpu: u32,
    /// Time it has run since it started, ns.
    pub run_ns: i64,
    /// It comes before all tasks of an ordinary policy (SCHED_FIFO, SCHED_RR, SCHED_DEADLINE).
    #[serde(default, skip_serializing_if = "is_false")]
    pub realtime: bool,
}

fn is_false(it: &bool) -> bool {
    !it
}

/// The tasks of one name that ended on one CPU while a trial ran.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndedTasks {
    /// The kernel's `comm`: at most 15 bytes.
    pub name: String,
    /// CPU on which they ended.
    pub cpu: u32,
    pub count: u64,
    /// Time that they ran in the trial, all together, ns.
    pub run_ns: i64,
}

/// What the kernel reported about tasks that ended while a trial ran (taskstats).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// By name and CPU, those that ran longest first.
    pub tasks: Vec<EndedTasks>,
    /// True if more ended than there was room for, so that some are missing here.
    pub incomplete: bool,
}

/// Machine-wide state, read at the start and at the end of each trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MachineState {
    pub clocks: ClockReading,
    /// How each CPU spent its time, by its number.
    pub cpus: BTreeMap<u32, CpuTimes>,
    /// What they did for the network and for devices, by CPU number; empty in a folder of an older
    /// version.
    #[serde(default)]
    pub work: BTreeMap<u32, CpuWork>,
    /// Every task of the machine by thread id.
    pub tasks: BTreeMap<u32, TaskTime>,
    /// Of these, the threads of programs that this run's loads started, by thread id.
    #[serde(default)]
    pub load_tasks: BTreeSet<u32>,
    /// And the threads of this run's own virtual machines, of QEMU and of the kernel for it, and of
    /// a path's switch in user space.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub machine_tasks: BTreeSet<u32>,
    /// What KVM counted for these machines; `None` where it runs none of them, or shows nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kvm: Option<KvmWork>,
    /// Tasks that ended since the reading before; `None` where the kernel does not report them, and
    /// in the first reading.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Ended>,
    /// `/proc/sys/kernel/sched_rt_period_us` and `…_runtime_us` in ns; `None` if unlimited or
    /// unreadable.
    pub rt_limit: Option<RtLimit>,
    /// Value of PM QoS `/dev/cpu_dma_latency`, µs; `None` if unreadable.
    pub cpu_dma_latency_us: Option<i32>,
    /// Whether the kernel compiles BPF programs as it loads them (`net.core.bpf_jit_enable`).
    /// `None` outside the machine's first network namespace, and of versions that did not keep it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bpf_jit: Option<u8>,
    /// Other runs of tardy that hold a slot.
    pub other_runs: u32,
}

impl MachineState {
    /// A machine of which nothing but its clocks is known.
    pub fn of(clocks: ClockReading) -> MachineState {
        MachineState {
            clocks,
            cpus: BTreeMap::new(),
            work: BTreeMap::new(),
            tasks: BTreeMap::new(),
            load_tasks: BTreeSet::new(),
            machine_tasks: BTreeSet::new(),
            kvm: None,
            ended: None,
            rt_limit: None,
            cpu_dma_latency_us: None,
            bpf_jit: None,
            other_runs: 0,
        }
    }
}

/// The RT bandwidth limit: realtime tasks run at most `runtime` in each `period`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RtLimit {
    pub period_ns: i64,
    /// Realtime tasks may run this long in it, ns.
    pub runtime_ns: i64,
}

/// The ruler's figures for one CPU of one station, taken by a thread of the stream's policy there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ruler")]
pub struct RulerRecord {
    /// The station whose CPU it is.
    pub station: String,
    /// The host that it is of; null for the coordinator's.
    #[serde(default)]
    pub host: Option<String>,
    /// False if it was taken before the first trial, true if after the last one.
    #[serde(default)]
    pub after: bool,
    /// The measuring threads that this was measured for: `ctl.tx`, `ctl.rx`.
    #[serde(default)]
    pub threads: Vec<String>,
    /// Number of the CPU; null if the thread was not pinned.
    pub cpu: Option<u32>,
    /// Policy read back while measuring.
    pub policy: String,
    /// Cost of one stamp (reading CLOCK_TAI), median of blocks, ns.
    pub stamp_ns: i64,
    /// Wake-ups of which the error of `clock_nanosleep` was measured.
    pub timer_count: u32,
    /// Error of `clock_nanosleep`, median, ns.
    pub timer_p50_ns: i64,
    /// Error of `clock_nanosleep`, 99th percentile, ns.
    pub timer_p99_ns: i64,
    /// Error of `clock_nanosleep`, 99.9th percentile, ns; null of fewer wake-ups than it needs.
    #[serde(default)]
    pub timer_p99_9_ns: Option<i64>,
    /// Error of `clock_nanosleep`, the greatest, ns.
    pub timer_max_ns: i64,
    /// Time that the thread waited on the run queue at a wake-up, median, ns; null where the
    /// kernel does not say.
    #[serde(default)]
    pub wake_wait_ns: Option<i64>,
    /// Time spent in the empty loop, ns.
    pub loop_ns: i64,
    /// Gaps longer than 10 µs between two readings of the clock in the empty loop.
    pub gaps_over_10us: u32,
    /// The longest gap, ns; null where the policy's own budget would interrupt the loop
    /// (`deadline`), so there was no loop.
    pub longest_gap_ns: Option<i64>,
}

// The number of a host of a run: a machine with its own kernel, CPUs and clocks.

/// A host of a run. Its clock is its own, and its CPUs are numbered by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(u16);

impl HostId {
    /// The machine that the coordinator runs on. All instants of a trial are of its clock in the
    /// end.
    pub const HERE: HostId = HostId(0);

    /// The host of this number; 0 is [`HostId::HERE`].
    pub const fn numbered(number: u16) -> HostId {
        HostId(number)
    }

    /// The number that it was made with; 0 for [`HostId::HERE`].
    pub const fn number(self) -> u16 {
        self.0
    }
}

const THIS_MACHINE: &str = "this machine";
const HOST: &str = "host ";

impl fmt::Display for HostId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            HostId::HERE => f.write_str(THIS_MACHINE),
            HostId(number) => write!(f, "{HOST}{number}"),
        }
    }
}

impl Serialize for HostId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for HostId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let number = if text == THIS_MACHINE { Some(0) } else { text.strip_prefix(HOST).and_then(|n| n.parse().ok()) };
        number.map(HostId).ok_or_else(|| serde::de::Error::custom(format!("`{text}` names no host")))
    }
}
