// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where work was asked to be done and what the kernel reports about it: kept for each trial, so
//! that placement can be judged; and what `results.json` says of it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What one CPU did for the network and for devices since boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuWork {
    /// Times that it ran NET_RX (`/proc/softirqs`). A kernel thread that polls a device is no
    /// softirq and is not in it.
    pub net_rx: u64,
    /// Times that it ran NET_TX.
    pub net_tx: u64,
    /// Packets that it took in (`/proc/net/softnet_stat`, first column), by softirq or by a kernel
    /// thread.
    pub packets: u64,
    /// Interrupts of every kind (`/proc/interrupts`).
    pub interrupts: u64,
    /// Of these the CPU's own timer's: `LOC` on x86, `arch_timer` on arm64.
    #[serde(default)]
    pub timer: u64,
}

impl CpuWork {
    /// What was done since `earlier`.
    #[must_use]
    pub fn since(self, earlier: CpuWork) -> CpuWork {
        CpuWork {
            net_rx: self.net_rx.saturating_sub(earlier.net_rx),
            net_tx: self.net_tx.saturating_sub(earlier.net_tx),
            packets: self.packets.saturating_sub(earlier.packets),
            interrupts: self.interrupts.saturating_sub(earlier.interrupts),
            timer: self.timer.saturating_sub(earlier.timer),
        }
    }
}

/// What KVM counted for this run's virtual machines, all together, since they began. A count that
/// this kernel does not have is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KvmWork {
    /// Times that a virtual CPU left its guest's code.
    pub exits: Option<u64>,
    /// Of these, times that the guest halted.
    pub halt_exits: Option<u64>,
    /// Interrupts that KVM injected into a guest.
    pub irq_injections: Option<u64>,
}

impl KvmWork {
    fn with(self, other: KvmWork, each: impl Fn(u64, u64) -> u64) -> KvmWork {
        let both = |ours: Option<u64>, theirs: Option<u64>| ours.zip(theirs).map(|(ours, theirs)| each(ours, theirs));
        KvmWork {
            exits: both(self.exits, other.exits),
            halt_exits: both(self.halt_exits, other.halt_exits),
            irq_injections: both(self.irq_injections, other.irq_injections),
        }
    }

    /// What was counted since `earlier`.
    #[must_use]
    pub fn since(self, earlier: KvmWork) -> KvmWork {
        self.with(earlier, u64::saturating_sub)
    }

    /// What two machines were counted together.
    #[must_use]
    pub fn and(self, other: KvmWork) -> KvmWork {
        self.with(other, u64::saturating_add)
    }
}

/// What placement a trial asked for, and the evidence that is not in the threads' own records.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PlacementRecord {
    /// By thread, as `ctl.rx`.
    pub asked: BTreeMap<String, CpuAsked>,
    /// By station: those whose arriving packets were to be taken in in some way.
    pub softirq: BTreeMap<String, SoftirqRecord>,
    /// How deep idle CPUs might sleep, where the experiment says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wake_up: Option<WakeUpBound>,
    /// The threads by which the coordinator's host runs the virtual machines of this cell: virtual
    /// CPUs as `vm.vcpu0`, the kernel's threads as `vm.vhost0`, QEMU's main loop as `vm.emulator`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub machine_threads: BTreeMap<String, ThreadRecord>,
}

impl PlacementRecord {
    /// True if nothing is known.
    pub fn is_empty(&self) -> bool {
        self.asked.is_empty() && self.softirq.is_empty() && self.wake_up.is_none() && self.machine_threads.is_empty()
    }
}

/// The longest time that an idle CPU may take to wake up (`/dev/cpu_dma_latency`), held during the
/// trial. What the kernel then kept is in the states of the machine before and after it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WakeUpBound {
    pub asked_us: i32,
    /// Hosts without idle states, where it has no effect.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub without_idle_states: Vec<String>,
}

/// One of tardy's measuring threads: what it asked for, what it has, where it ran. Read back from
/// the kernel.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ThreadRecord {
    /// Thread id in the machine.
    pub tid: u32,
    /// Policy asked for, as in the experiment file.
    pub policy_asked: String,
    /// Policy that the kernel reports for it, in the same form.
    pub policy_granted: String,
    /// CPU asked for (`auto` and its like resolved); `None` if not pinned.
    pub cpu_asked: Option<u32>,
    /// CPUs in the affinity read back.
    pub affinity: Vec<u32>,
    /// CPU it was on at the trial's start and end, and at each look between, without repetition.
    pub cpus_seen: Vec<u32>,
    /// True if the process's memory is locked (VmLck covers it).
    pub memory_locked: bool,
    /// What was refused, and the kernel's reason.
    pub refused: Vec<String>,
    /// Time it ran during the trial, ns; `None` where the kernel does not say.
    pub run_ns: Option<i64>,
    /// Time it waited on a run queue during the trial, ns; `None` where the kernel does not say.
    pub wait_ns: Option<i64>,
    /// How long the trial was for it, ns: what it neither ran nor waited it was asleep. `None` in
    /// records of older versions.
    #[serde(default)]
    pub over_ns: Option<i64>,
    /// Involuntary context switches during the trial.
    pub involuntary_switches: u64,
    /// Voluntary context switches during the trial.
    pub voluntary_switches: u64,
    /// Times it was moved to another CPU during the trial; `None` where the kernel does not say.
    #[serde(default)]
    pub migrations: Option<u64>,
    /// How long before its first packet was due it learned that the trial begins, ns; negative if
    /// after. `None` for a thread without a schedule, or one that works already.
    #[serde(default)]
    pub told_ahead_ns: Option<i64>,
    /// Time that a wake-up of such a thread waits on the run queue at the median, measured by the
    /// ruler before the trials, ns; `None` where that was not measured.
    #[serde(default)]
    pub wake_wait_ns: Option<i64>,
    /// NAPI context of the socket that it receives from, as of the last packet; 0 for none, `None`
    /// if it does not receive.
    #[serde(default)]
    pub napi_id: Option<u32>,
    /// By how much the kernel may let its sleeps end late to save wake-ups, ns, as read back
    /// (PR_GET_TIMERSLACK). It does so for policy `other` alone, whatever this value is. `None`
    /// where it was not read.
    #[serde(default)]
    pub timer_slack_ns: Option<u64>,
}

/// The CPU that a thread was asked to have, in the experiment's words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuAsked {
    /// `auto`, `same`, `different`, `any` or a number.
    pub cpu: String,
    /// The thread that `same` and `different` mean.
    pub of: Option<String>,
}

/// By which means packets that arrive at a station are taken in on a chosen CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "softirq_by")]
pub enum SoftirqBy {
    /// Kernel threads that poll the device, one for each queue.
    Napi,
    /// Receive packet steering of the device's queues.
    Rps,
    /// Affinity of the device's interrupts.
    Irq,
}

impl SoftirqBy {
    /// The name in files.
    pub const fn name(self) -> &'static str {
        match self {
            SoftirqBy::Napi => "napi",
            SoftirqBy::Rps => "rps",
            SoftirqBy::Irq => "irq",
        }
    }
}

/// How packets that arrive at one station were taken in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SoftirqRecord {
    /// The station's device at which they arrive.
    pub device: String,
    pub by: SoftirqBy,
    /// What was asked for.
    pub asked: CpuAsked,
    /// The CPU that this came to; `None` where any will do.
    pub cpu: Option<u32>,
    /// At least this number of the trial's packets arrived here.
    pub packets: u64,
    /// The threads that receive from a socket here, as `ctl.rx`.
    pub receivers: Vec<String>,
    /// The device's kernel threads, where it has such.
    pub threads: Vec<NapiThread>,
}

/// A kernel thread that polls a device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NapiThread {
    pub tid: u32,
    /// Its name, as `napi/tardy0-1-264`.
    pub name: String,
    /// CPUs on which it may run, read back after the trial.
    pub affinity: Vec<u32>,
    /// CPU on which it ran last.
    pub cpu: Option<u32>,
    /// Context switches during the trial: it ran that often.
    pub switches: u64,
}

// Where work was done, in `results.json`: the measuring threads, arriving packets, every CPU.

/// Where a thread was asked to run, and what the kernel reports.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "placement")]
pub struct Placement {
    /// The thread: `ctl.tx`, `ctl.rx`.
    pub thread: String,
    /// The host that it is on; left out for the coordinator's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The CPU, as in the experiment file.
    pub cpu_asked: String,
    /// CPUs on which it was seen.
    pub cpus_seen: Vec<u32>,
    /// The scheduling policy, as in the experiment file.
    pub policy_asked: String,
    /// The policy that was read back from the kernel.
    pub policy_granted: String,
    /// Was the memory of its process locked? Null for threads of a virtual machine, of which nobody
    /// asks that.
    pub memory_locked: Option<bool>,
    /// Moves to another CPU, all trials together; null where the kernel does not say.
    #[serde(default)]
    pub migrations: Option<u64>,
    /// Time on a run queue, all trials together, ns; null where the kernel does not say.
    #[serde(default)]
    pub wait_ns: Option<i64>,
    /// CPU time that it used, all trials together, ns; null where the kernel does not say.
    #[serde(default)]
    pub run_ns: Option<i64>,
    /// How long the trials were for it together, ns; null in runs of older versions.
    #[serde(default)]
    pub over_ns: Option<i64>,
    /// Times that it slept and was woken (voluntary context switches), all trials together; null
    /// in runs of older versions.
    #[serde(default)]
    pub wakeups: Option<u64>,
    /// NAPI contexts of the socket that it received from, 0 for none; left out if it did not
    /// receive.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub napi_ids: Vec<u32>,
}

/// Where packets that arrive at a station were asked to be received, and what the kernel reports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "softirq")]
pub struct SoftirqPlacement {
    /// The station at which the packets arrive.
    pub station: String,
    /// The host that it is on; left out for the coordinator's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
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

/// Where an XDP program and the application that it hands packets to ran, all trials together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "xdp")]
pub struct XdpPlacement {
    /// The stream whose packets they handled.
    pub stream: String,
    /// The device's driver; empty if it does not say.
    pub driver: String,
    /// How packets came to the socket.
    #[schemars(extend("enum" = ["zero-copy", "native", "generic"]))]
    pub mode: String,
    /// How the receiver waited.
    pub wait: String,
    /// Where the application was asked to be, by the program's CPU; null where that was not asked.
    #[schemars(extend("enum" = ["same", "remote", null]))]
    pub core: Option<String>,
    /// Packets by the CPU that ran the program.
    pub packets_by_program_cpu: BTreeMap<u32, u64>,
    /// CPUs of the application: those on which its thread was pinned and stayed.
    pub receiver_cpus: Vec<u32>,
    /// Packets whose program ran on the application's CPU.
    pub same: u64,
    /// Packets whose program ran on another CPU.
    pub remote: u64,
    /// Packets of which that is not known, because the application was not on one CPU.
    pub unknown: u64,
    /// The bound on CPU wake-up latency (`/dev/cpu_dma_latency`) as it was read at the beginning of
    /// the trials, µs, each value once; 2 000 000 000 is no limit.
    pub dma_latency_before_us: Vec<i32>,
    /// The same at the end of the trials.
    pub dma_latency_after_us: Vec<i32>,
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
    /// NET_RX softirqs that the CPU ran.
    pub net_rx: u64,
    /// NET_TX softirqs that the CPU ran.
    pub net_tx: u64,
    /// Packets taken in, by softirq or by a kernel thread.
    pub packets: u64,
    /// Interrupts of every kind.
    pub interrupts: u64,
    /// Of these the CPU's own timer's.
    #[serde(default)]
    pub timer_interrupts: u64,
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

/// What the run's virtual machines cost during the trials, as KVM counts itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "machines")]
pub struct MachinesPlacement {
    /// Packets that the streams intended in these trials; of a ping-pong the requests.
    pub packets: u64,
    /// Times that a virtual CPU left its guest's code; null if KVM does not run the machines, or
    /// does not count them, as below.
    pub exits: Option<u64>,
    /// Of these, times that the guest halted.
    pub halt_exits: Option<u64>,
    /// Interrupts that KVM injected into a guest.
    pub irq_injections: Option<u64>,
}
