// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the machine is doing at this moment, for the comparison of before and after a trial.

use crate::cpus::parse_list;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use tardy_model::machine::{CpuTimes, Ended, EndedTasks, HostId, MachineState, RtLimit, TaskTime};
use tardy_model::placement::{KvmWork, ThreadRecord};
use tardy_model::station::MachinePart;
use tardy_model::time::{Instant, Monotonic};
use tardy_sys::exits::{Exit, Exits};
use tardy_sys::proc::{self, Schedstat, Stat, Status, TICK_NS, Task};
use tardy_sys::{clock, thread};

/// The most names of ended tasks that are kept, those that ran longest.
const MOST_NAMES: usize = 256;

/// On which side of a trial a reading is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Moment {
    Before,
    Behind,
}

/// A part of a reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Every task of the machine: with two thousand of them this takes 50 ms.
    Tasks,
    Settings,
    /// The CPUs' times and work, and the clocks.
    Cpus,
}

/// In which order the parts are read. What happens between the two readings of the clocks counts as
/// the trial, so tardy reads the tasks before the first and after the second.
pub const fn order(moment: Moment) -> [Part; 3] {
    match moment {
        Moment::Before => [Part::Tasks, Part::Settings, Part::Cpus],
        Moment::Behind => [Part::Cpus, Part::Settings, Part::Tasks],
    }
}

/// Reads the machine's state before a trial and after it. In between it listens for tasks that end,
/// if the kernel reports them.
pub struct Reader {
    marks: Vec<Vec<u8>>,
    machines: BTreeSet<u32>,
    counted: BTreeSet<u32>,
    exits: Option<Exits>,
    before: BTreeMap<u32, TaskTime>,
}

impl Reader {
    /// Begins to listen. Processes that have one of the `marks` in their environment, as
    /// `NAME=value`, are the loads'.
    pub fn new(marks: Vec<Vec<u8>>) -> Reader {
        Reader {
            machines: BTreeSet::new(),
            counted: BTreeSet::new(),
            marks,
            exits: Exits::listen(&crate::cpus::usable()).ok(),
            before: BTreeMap::new(),
        }
    }

    /// Also knows these processes for the run's own virtual machines and switches, and gives what
    /// KVM counted for some of them.
    #[must_use]
    pub fn with_machines(self, machines: BTreeSet<u32>, counted: BTreeSet<u32>) -> Reader {
        Reader { machines, counted, ..self }
    }

    /// Reads it all. What the kernel does not offer stays empty.
    pub fn read(&mut self, moment: Moment, other_runs: u32) -> MachineState {
        let mut state = MachineState { other_runs, ..MachineState::of(clock::read_clocks()) };
        for part in order(moment) {
            match part {
                Part::Tasks => {
                    state.ended = self.ended(moment);
                    (state.tasks, state.load_tasks) = tasks(moment, &self.marks);
                    state.machine_tasks = of_machines(&self.machines, &state.tasks);
                }
                Part::Settings => {
                    state.rt_limit = rt_limit();
                    state.cpu_dma_latency_us = cpu_dma_latency();
                    state.bpf_jit = proc::bpf_jit();
                }
                Part::Cpus => {
                    state.clocks = clock::read_clocks();
                    state.cpus = cpus(&fs::read_to_string("/proc/stat").unwrap_or_default());
                    state.work = crate::softirq::work();
                    state.kvm = proc::in_first_pid_namespace().then(|| kvm(Path::new(KVM), &self.counted)).flatten();
                }
            }
        }
        if moment == Moment::Before {
            // What ended until now is not the trial's.
            self.exits.iter().for_each(|exits| drop(exits.take()));
            self.before.clone_from(&state.tasks);
        }
        state
    }

    fn ended(&self, moment: Moment) -> Option<Ended> {
        let exits = self.exits.as_ref().filter(|_| moment == Moment::Behind)?;
        let (exits, incomplete) = exits.take();
        Some(ended(&exits, incomplete, &self.before))
    }
}

/// Where KVM shows what it counts, in a folder for each machine: `PID-DESCRIPTOR`.
pub const KVM: &str = "/sys/kernel/debug/kvm";

/// What it counted for the machines of these processes; `None` if it has none of them.
pub fn kvm(folder: &Path, machines: &BTreeSet<u32>) -> Option<KvmWork> {
    if machines.is_empty() {
        return None;
    }
    let entries = fs::read_dir(folder).ok()?.flatten();
    let of_ours = entries.filter(|entry| {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.split_once('-')?.0.parse().ok());
        process.is_some_and(|process| machines.contains(&process))
    });
    let counts = of_ours.map(|entry| {
        let count = |file: &str| fs::read_to_string(entry.path().join(file)).ok()?.trim().parse().ok();
        KvmWork { exits: count("exits"), halt_exits: count("halt_exits"), irq_injections: count("irq_injections") }
    });
    counts.reduce(KvmWork::and)
}

/// The tasks that ended, by name and CPU: what each ran since the reading `before`. One that is
/// not in it had run for less than a tick then, or is new, and counts from 0.
pub fn ended(exits: &[Exit], incomplete: bool, before: &BTreeMap<u32, TaskTime>) -> Ended {
    let mut sums: BTreeMap<(&str, u32), EndedTasks> = BTreeMap::new();
    for exit in exits {
        let earlier = before.get(&exit.tid).map_or(0, |task| task.run_ns);
        let sum = sums.entry((&exit.name, exit.cpu)).or_insert_with(|| EndedTasks {
            name: exit.name.clone(),
            cpu: exit.cpu,
            ..EndedTasks::default()
        });
        sum.count += 1;
        sum.run_ns = sum.run_ns.saturating_add(exit.run_ns.saturating_sub(earlier).max(0));
    }
    let mut tasks: Vec<EndedTasks> = sums.into_values().collect();
    tasks.sort_by_key(|task| std::cmp::Reverse(task.run_ns));
    tasks.truncate(MOST_NAMES);
    Ended { tasks, incomplete }
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
            irq_ns: irq * TICK_NS,
            softirq_ns: softirq * TICK_NS,
        };
        Some((cpu, times))
    };
    // The sum line `cpu ` has an empty number and drops out.
    stat.lines().filter(|text| !text.starts_with("cpu ")).filter_map(line).collect()
}

/// The threads of these processes, and those by which the kernel moves packets for one of them,
/// which it calls `vhost-` and the process's number.
fn of_machines(machines: &BTreeSet<u32>, tasks: &BTreeMap<u32, TaskTime>) -> BTreeSet<u32> {
    let threads = |pid: &u32| {
        let entries = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect::<Vec<u32>>()
    };
    let of_kernel = |pid: &u32| {
        let name = format!("vhost-{pid}");
        let named = tasks.iter().filter(move |(_, task)| task.name == name).map(|(tid, _)| *tid);
        named.filter(|tid| is_of_kernel(*tid)).collect::<Vec<u32>>()
    };
    machines.iter().flat_map(|pid| [threads(pid), of_kernel(pid)].concat()).collect()
}

/// The processes that these have started.
pub fn children(parents: &BTreeSet<u32>) -> Vec<u32> {
    let all = if parents.is_empty() { Vec::new() } else { proc::processes() };
    let parent = |pid: u32| Status::of(Task::Process(pid)).ok()?.parent();
    all.into_iter().filter(|pid| parent(*pid).is_some_and(|parent| parents.contains(&parent))).collect()
}

/// True for a thread that the kernel started for itself: anybody may call his own process as the
/// kernel calls its threads.
fn is_of_kernel(pid: u32) -> bool {
    Status::of(Task::Process(pid)).is_ok_and(|status| status.parent() == Some(proc::KTHREADD))
}

/// A thread by which this host runs a virtual machine, at one moment. It ran for so long since it
/// started; what the kernel does not say is `None`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MachineThread {
    pub machine: HostId,
    pub part: MachinePart,
    pub record: ThreadRecord,
    /// CLOCK_MONOTONIC when it was read.
    pub read: Instant<Monotonic>,
}

/// The threads of the virtual machines that these processes run: each virtual CPU, each of the
/// kernel's threads that moves packets for one, and QEMU's main loop. The virtual CPUs come in the
/// order of their numbers in the machine, the kernel's threads as they were made. The kernel shows
/// its own threads among the process's, before Linux 6.4 as processes of their own.
pub fn machine_threads(machines: &BTreeMap<u32, HostId>) -> Vec<MachineThread> {
    let mut all = Vec::new();
    let processes = if machines.is_empty() { Vec::new() } else { proc::processes() };
    for (pid, machine) in machines {
        let mut tids = proc::threads(*pid);
        let of_kernel = format!("vhost-{pid}");
        let is_called = |pid: &u32| Task::Process(*pid).name().is_ok_and(|name| name == of_kernel);
        tids.extend(processes.iter().copied().filter(|pid| is_called(pid) && is_of_kernel(*pid)));
        let mut named = Vec::new();
        for tid in tids {
            let task = if tid == *pid { Task::Process(tid) } else { Task::Thread { pid: *pid, tid } };
            let Ok(name) = task.name().or_else(|_| Task::Process(tid).name()) else { continue };
            named.push((MachinePart::number(&name), tid, name));
        }
        named.sort_unstable();
        for (_, tid, name) in named {
            let part = MachinePart::of_thread(&name);
            if part == MachinePart::Emulator && tid != *pid {
                continue;
            }
            let Some(record) = machine_thread(tid) else { continue };
            all.push(MachineThread { machine: *machine, part, record, read: clock::now() });
        }
    }
    all
}

/// What a thread has and did so far; `None` of one that has ended.
fn machine_thread(tid: u32) -> Option<ThreadRecord> {
    // A number below /proc need not be a process's.
    let task = Task::Process(tid);
    let (stat, status) = (Stat::of(task).ok()?, Status::of(task).ok()?);
    let times = Schedstat::of(task).ok();
    Some(ThreadRecord {
        tid,
        policy_granted: thread::policy_of(tid).ok()?.to_string(),
        affinity: status.allowed_cpus().map(parse_list).unwrap_or_default(),
        cpus_seen: vec![stat.cpu],
        memory_locked: status.locked_kib().is_some_and(|kib| kib > 0),
        run_ns: times.map(|times| times.run_ns),
        wait_ns: times.map(|times| times.wait_ns),
        involuntary_switches: status.involuntary_switches().unwrap_or(0),
        voluntary_switches: status.voluntary_switches().unwrap_or(0),
        migrations: task.migrations(),
        ..ThreadRecord::default()
    })
}

/// Every task with the time it has run. Tasks that ran less than a tick so far are left out: they
/// explain nothing. This process is read on the trial's side of the others, so that reading them
/// does not count as its work in the trial.
fn tasks(moment: Moment, marks: &[Vec<u8>]) -> (BTreeMap<u32, TaskTime>, BTreeSet<u32>) {
    let (mut all, mut marked) = (BTreeMap::new(), BTreeSet::new());
    let mut pids = proc::processes();
    let own = std::process::id();
    pids.sort_by_key(|pid| (*pid == own) == (moment == Moment::Before));
    for pid in pids {
        let ours = !marks.is_empty() && is_marked(pid, marks);
        for tid in proc::threads(pid) {
            let task = Task::Thread { pid, tid };
            let Ok(Schedstat { run_ns, .. }) = Schedstat::of(task) else { continue };
            if run_ns < TICK_NS {
                continue;
            }
            if let Ok(stat) = Stat::of(task) {
                let realtime = stat.is_realtime();
                let Stat { name, started_ticks: start, cpu, .. } = stat;
                all.insert(tid, TaskTime { name, start, cpu, run_ns, realtime });
                if ours {
                    marked.insert(tid);
                }
            }
        }
    }
    (all, marked)
}

/// True if the process has one of the marks in its environment and runs as this one's user:
/// anybody may set a mark in what is his. One that is gone has none.
pub fn is_marked(pid: u32, marks: &[Vec<u8>]) -> bool {
    // Whose it is comes first: to read an environment touches the process's own memory, and
    // another user's may never answer.
    let user_of = |task: Task| Status::of(task).ok()?.real_user();
    if user_of(Task::Own).is_none_or(|own| user_of(Task::Process(pid)) != Some(own)) {
        return false;
    }
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    environment.split(|byte| *byte == 0).any(|entry| marks.iter().any(|mark| mark == entry))
}

/// How long realtime tasks may run; `None` if there is no limit, or it cannot be read.
pub fn rt_limit() -> Option<RtLimit> {
    let read = |name: &str| fs::read_to_string(format!("/proc/sys/kernel/{name}")).ok()?.trim().parse::<i64>().ok();
    let (period, runtime) = (read("sched_rt_period_us")?, read("sched_rt_runtime_us")?);
    (runtime >= 0).then_some(RtLimit { period_ns: period * 1_000, runtime_ns: runtime * 1_000 })
}

/// Reading the device gives the limit in force, a binary 32-bit number of µs; opening it for
/// reading asks for nothing.
fn cpu_dma_latency() -> Option<i32> {
    let bytes = fs::read("/dev/cpu_dma_latency").ok()?;
    Some(i32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?))
}
