// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who takes packets in: counts of softirqs, packets and interrupts by CPU, the kernel threads
//! that poll a device, and what a device's interrupts and queues are set to.

use crate::cpus::parse_list;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use tardy_model::placement::{CpuWork, NapiThread};
use tardy_sys::proc::{self, Stat, Status, Task};

/// What each CPU has done for the network and for devices since boot.
pub fn work() -> BTreeMap<u32, CpuWork> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    count(&read("/proc/softirqs"), &read("/proc/net/softnet_stat"), &read("/proc/interrupts"))
}

/// The CPUs that the head of a table names: `CPU0 CPU1`.
fn head(table: &str) -> Vec<u32> {
    let words = table.lines().next().unwrap_or_default().split_whitespace();
    words.filter_map(|word| word.strip_prefix("CPU")?.parse().ok()).collect()
}

/// The same out of the three files' texts.
pub fn count(softirqs: &str, softnet: &str, interrupts: &str) -> BTreeMap<u32, CpuWork> {
    let mut work: BTreeMap<u32, CpuWork> = BTreeMap::new();
    let cpus = head(softirqs);
    for line in softirqs.lines().skip(1) {
        let mut fields = line.split_whitespace();
        let kind = fields.next().unwrap_or_default();
        for (cpu, count) in cpus.iter().zip(fields.map_while(|field| field.parse::<u64>().ok())) {
            let of = work.entry(*cpu).or_default();
            match kind {
                "NET_RX:" => of.net_rx = count,
                "NET_TX:" => of.net_tx = count,
                _ => {}
            }
        }
    }
    for (line, text) in softnet.lines().enumerate() {
        let fields: Vec<u64> = text.split_whitespace().map_while(|field| u64::from_str_radix(field, 16).ok()).collect();
        // The 13th field is the CPU's number; older kernels leave it out, and then lines follow the
        // CPUs.
        let cpu = fields.get(12).copied().unwrap_or(line as u64) as u32;
        if let Some(packets) = fields.first() {
            work.entry(cpu).or_default().packets = *packets;
        }
    }
    let cpus = head(interrupts);
    for line in interrupts.lines().skip(1) {
        let counts: Vec<u64> = line.split_whitespace().skip(1).map_while(|field| field.parse().ok()).collect();
        let is_timer = line.trim_start().starts_with("LOC:") || line.trim_end().ends_with("arch_timer");
        // A line with fewer figures counts for the machine as a whole (ERR, MIS).
        if counts.len() >= cpus.len() {
            for (cpu, count) in cpus.iter().zip(counts) {
                let of = work.entry(*cpu).or_default();
                of.interrupts = of.interrupts.saturating_add(count);
                of.timer = of.timer.saturating_add(if is_timer { count } else { 0 });
            }
        }
    }
    work
}

/// The kernel threads that poll a device, with their context switches since they started. They
/// belong to the machine: their names contain the device, not its namespace.
pub fn napi_threads(device: &str) -> Vec<NapiThread> {
    let prefix = format!("napi/{device}-");
    let thread = |tid: u32| {
        let task = Task::Process(tid);
        let name = task.name().ok()?;
        name.starts_with(&prefix).then_some(())?;
        let status = Status::of(task).ok()?;
        Some(NapiThread {
            tid,
            name,
            affinity: status.allowed_cpus().map(parse_list).unwrap_or_default(),
            cpu: Stat::of(task).ok().map(|stat| stat.cpu),
            switches: status.voluntary_switches().unwrap_or(0) + status.involuntary_switches().unwrap_or(0),
        })
    };
    let mut threads: Vec<NapiThread> = proc::processes().into_iter().filter_map(thread).collect();
    threads.sort_by_key(|thread| thread.tid);
    threads
}

/// What a device's interrupts and queues are set to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Steering {
    /// Its message-signalled interrupts, each with the CPUs that may take it (`smp_affinity_list`).
    pub irqs: BTreeMap<u32, String>,
    /// Its receive queues, each with the CPUs that packets are steered to (`rps_cpus`).
    pub queues: BTreeMap<String, String>,
}

/// Reads them for a device of this process's network namespace. What the kernel does not offer is
/// left out.
pub fn steering(device: &str) -> Steering {
    let class = Path::new("/sys/class/net").join(device);
    let value = |path: PathBuf| fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
    let names = |folder: &Path| {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().to_str().map(str::to_owned)).collect::<Vec<_>>()
    };
    // A virtio device has its interrupts one step up, at the PCI device that carries it.
    let own = class.join("device");
    let places = [own.join("msi_irqs"), own.canonicalize().unwrap_or(own).join("../msi_irqs")];
    let numbers = places.iter().map(|place| names(place)).find(|names| !names.is_empty()).unwrap_or_default();
    let irq = |number: String| {
        let number = number.parse::<u32>().ok()?;
        Some((number, value(format!("/proc/irq/{number}/smp_affinity_list").into())?))
    };
    let queues = class.join("queues");
    let queue = |name: String| {
        let set = value(queues.join(&name).join("rps_cpus"))?;
        name.starts_with("rx-").then_some((name, set))
    };
    Steering {
        irqs: numbers.into_iter().filter_map(irq).collect(),
        queues: names(&queues).into_iter().filter_map(queue).collect(),
    }
}
