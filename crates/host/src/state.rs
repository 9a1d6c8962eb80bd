// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the machine is doing at this moment, for the comparison of before and after a trial.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use tardy_model::machine::{CpuTimes, MachineState, RtLimit, TaskTime};
use tardy_sys::clock;

/// One tick of `/proc/stat` (USER_HZ is 100 on every Linux that Rust runs on), ns.
const TICK_NS: i64 = 10_000_000;

/// Reads it all. What the kernel does not offer stays empty. Processes that bear one of the `marks` in their environment, as
/// `NAME=value`, are the loads'.
pub fn read(other_runs: u32, marks: &[Vec<u8>]) -> MachineState {
    let (tasks, load_tasks) = tasks(marks);
    MachineState {
        tasks,
        load_tasks,
        cpus: cpus(&fs::read_to_string("/proc/stat").unwrap_or_default()),
        work: crate::softirq::work(),
        rt_limit: rt_limit(),
        cpu_dma_latency_us: cpu_dma_latency(),
        other_runs,
        clocks: clock::read_clocks(),
    }
}

/// The `cpuN` lines of `/proc/stat`.
pub fn cpus(stat: &str) -> BTreeMap<u32, CpuTimes> {
    let line = |line: &str| {
        let mut fields = line.strip_prefix("cpu")?.split_whitespace();
        let cpu = fields.next()?.parse::<u32>().ok()?;
        let ticks: Vec<i64> = fields.map_while(|field| field.parse().ok()).collect();
        let [user, nice, system, idle, iowait, irq, softirq, steal] = *ticks.get(..8)? else { return None };
        let times = CpuTimes {
            busy_ns: (user + nice + system + irq + softirq) * TICK_NS,
            idle_ns: (idle + iowait) * TICK_NS,
            steal_ns: steal * TICK_NS,
        };
        Some((cpu, times))
    };
    // The sum line `cpu ` has an empty number and drops out.
    stat.lines().filter(|text| !text.starts_with("cpu ")).filter_map(line).collect()
}

/// Name, start (ticks since boot, field 22) and last CPU (field 39) out of `/proc/PID/task/TID/stat`.
pub fn task(stat: &str) -> Option<(String, u64, u32)> {
    let (head, tail) = stat.rsplit_once(')')?;
    let name = head.split_once('(')?.1.to_owned();
    let field = |n: usize| tail.split_whitespace().nth(n - 3);
    Some((name, field(22)?.parse().ok()?, field(39)?.parse().ok()?))
}

/// Every task with the time it has run. Tasks that ran less than a tick so far are left out: they explain nothing.
fn tasks(marks: &[Vec<u8>]) -> (BTreeMap<u32, TaskTime>, BTreeSet<u32>) {
    let numbers = |folder: &str| {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()).collect::<Vec<_>>()
    };
    let (mut all, mut marked) = (BTreeMap::new(), BTreeSet::new());
    for pid in numbers("/proc") {
        let ours = !marks.is_empty() && is_marked(pid, marks);
        for tid in numbers(&format!("/proc/{pid}/task")) {
            let read = |file: &str| fs::read_to_string(format!("/proc/{pid}/task/{tid}/{file}")).ok();
            let Some(run_ns) = read("schedstat").and_then(|text| text.split_whitespace().next()?.parse::<i64>().ok())
            else {
                continue;
            };
            if run_ns < TICK_NS {
                continue;
            }
            if let Some((name, start, cpu)) = read("stat").as_deref().and_then(task) {
                all.insert(tid, TaskTime { name, start, cpu, run_ns });
                if ours {
                    marked.insert(tid);
                }
            }
        }
    }
    (all, marked)
}

/// True if the process has one of the marks in its environment. One that is gone, or another user's, has none.
pub fn is_marked(pid: u32, marks: &[Vec<u8>]) -> bool {
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    environment.split(|byte| *byte == 0).any(|entry| marks.iter().any(|mark| mark == entry))
}

/// Memory that programs can still have (MemAvailable); `None` if unreadable.
pub fn available_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib * 1_024)
}

fn rt_limit() -> Option<RtLimit> {
    let read = |name: &str| fs::read_to_string(format!("/proc/sys/kernel/{name}")).ok()?.trim().parse::<i64>().ok();
    let (period, runtime) = (read("sched_rt_period_us")?, read("sched_rt_runtime_us")?);
    (runtime >= 0).then_some(RtLimit { period_ns: period * 1_000, runtime_ns: runtime * 1_000 })
}

/// Reading the device gives the limit in force, a binary 32-bit number of µs; opening it for reading asks for nothing.
fn cpu_dma_latency() -> Option<i32> {
    let bytes = fs::read("/dev/cpu_dma_latency").ok()?;
    Some(i32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?))
}
