// SPDX-License-Identifier: MIT OR Apache-2.0
//! The live test: a thread that does nothing but read the clock on one CPU. What it does not get of
//! it somebody else had: the tick, interrupts by their names, softirqs, other tasks, or the
//! hypervisor.

use crate::check::{Area, Check, Fix, micros};
use crate::quota;
use crate::seen::{Seen, count};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use tardy_model::time::Monotonic;
use tardy_sys::proc::{Schedstat, Status, Task};
use tardy_sys::{SysError, clock, thread};

const AREA: Area = Area::Live;
/// Between two readings of the clock in a row nobody was away for less than this, ns.
const GAP_NS: i64 = 1_000;
/// One that spoils figures, ns.
const LONG_NS: i64 = 50_000;
/// Kinds of interrupts that are named.
const SHOWN: usize = 6;
/// Rows of /proc/interrupts that count timers of a CPU: of x86, arm64, and Hyper-V.
const TIMERS: [&str; 3] = ["LOC", "arch_timer", "HVS"];
/// Ticks of the clock by which /proc/stat counts, in a second.
const USER_HZ: u64 = 100;

/// What was counted on a CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Watched {
    /// By the names of /proc/interrupts.
    pub interrupts: BTreeMap<String, u64>,
    pub softirqs: BTreeMap<String, u64>,
    /// What a hypervisor took, ticks of 10 ms.
    pub stolen_ticks: u64,
}

/// What the watching thread saw.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Live {
    pub cpu: u32,
    pub for_ns: i64,
    /// Times when the clock had moved on by more than a microsecond, and how long together, ns.
    pub gaps: u64,
    pub gaps_ns: i64,
    pub longest_ns: i64,
    /// When the longest one began, from the start, ns.
    pub longest_at_ns: i64,
    /// Other tasks ran in the thread's place.
    pub switches: u64,
    /// How long it waited for the CPU, ns.
    pub waited_ns: i64,
    /// For so long the thread's control group had no CPU time left, ns.
    pub stopped_ns: i64,
    pub counted: Watched,
}

/// Watches a CPU for so long.
///
/// # Errors
/// If no thread may run there.
pub fn watch(cpu: u32, for_ns: i64) -> Result<Live, SysError> {
    std::thread::scope(|scope| {
        scope.spawn(|| watching(cpu, for_ns)).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn watching(cpu: u32, for_ns: i64) -> Result<Live, SysError> {
    thread::pin(cpu)?;
    let now = || clock::now::<Monotonic>().ns();
    let of_thread = || {
        let task = Task::OwnThread(thread::id());
        let status = Status::of(task).ok();
        let switches = status.map_or(0, |status| status.involuntary_switches().unwrap_or(0));
        (switches, Schedstat::of(task).map_or(0, |stat| stat.wait_ns))
    };
    let stopped = || quota::stopped_ns(Path::new("/"));
    let (counted, own, was_stopped_ns) = (read(cpu), of_thread(), stopped());
    let mut live = Live { cpu, for_ns, ..Live::default() };
    let began = now();
    let mut before = began;
    while before - began < for_ns {
        let at = now();
        let gap = at - before;
        if gap >= GAP_NS {
            live.gaps += 1;
            live.gaps_ns += gap;
            if gap > live.longest_ns {
                (live.longest_ns, live.longest_at_ns) = (gap, before - began);
            }
        }
        before = at;
    }
    // The last time away may have ended later than was asked for.
    live.for_ns = before - began;
    let after = of_thread();
    live.stopped_ns = stopped().saturating_sub(was_stopped_ns).max(0);
    live.switches = after.0.saturating_sub(own.0);
    live.waited_ns = after.1.saturating_sub(own.1).max(0);
    live.counted = read(cpu).since(&counted);
    Ok(live)
}

impl Watched {
    /// Interrupts of devices, by their numbers.
    pub fn of_devices(&self) -> BTreeMap<u32, u64> {
        let number = |(name, n): (&String, &u64)| Some((name.split(':').next()?.parse().ok()?, *n));
        self.interrupts.iter().filter_map(number).collect()
    }

    /// What was added since another reading.
    #[must_use]
    pub fn since(self, before: &Watched) -> Watched {
        let more = |now: BTreeMap<String, u64>, before: &BTreeMap<String, u64>| {
            let more = now.into_iter().map(|(name, n)| {
                let n = n.saturating_sub(before.get(&name).copied().unwrap_or(0));
                (name, n)
            });
            more.filter(|(_, n)| *n > 0).collect()
        };
        Watched {
            interrupts: more(self.interrupts, &before.interrupts),
            softirqs: more(self.softirqs, &before.softirqs),
            stolen_ticks: self.stolen_ticks.saturating_sub(before.stolen_ticks),
        }
    }
}

fn read(cpu: u32) -> Watched {
    let text = |file: &str| fs::read_to_string(file).unwrap_or_default();
    let stat = text("/proc/stat");
    let line = stat.lines().find_map(|line| line.strip_prefix(&format!("cpu{cpu} ")));
    // user nice system idle iowait irq softirq steal (proc(5)).
    let stolen = line.and_then(|line| line.split_whitespace().nth(7)?.parse().ok());
    Watched {
        interrupts: column(&text("/proc/interrupts"), cpu),
        softirqs: column(&text("/proc/softirqs"), cpu),
        stolen_ticks: stolen.unwrap_or(0),
    }
}

/// The counts of one CPU in a table of the kernel's, by the names of its rows. The head names the
/// CPUs: those that are off have no column.
pub fn column(table: &str, cpu: u32) -> BTreeMap<String, u64> {
    let mut lines = table.lines();
    let head = lines.next().unwrap_or_default();
    let all = head.split_whitespace().count();
    let Some(at) = head.split_whitespace().position(|name| name == format!("CPU{cpu}")) else { return BTreeMap::new() };
    let mut counts = BTreeMap::new();
    for line in lines {
        let Some((number, rest)) = line.split_once(':') else { continue };
        let words: Vec<&str> = rest.split_whitespace().collect();
        let Some(n) = words.get(at).and_then(|word| word.parse::<u64>().ok()) else { continue };
        let says = words.get(all..).map(|words| words.join(" ")).unwrap_or_default();
        let name = if says.is_empty() { number.trim().to_owned() } else { format!("{}: {says}", number.trim()) };
        *counts.entry(name).or_default() += n;
    }
    counts
}

/// The most frequent ones first.
fn most(counts: &BTreeMap<String, u64>) -> String {
    let mut all: Vec<(&String, &u64)> = counts.iter().collect();
    all.sort_by(|one, other| other.1.cmp(one.1).then(one.0.cmp(other.0)));
    let shown = all.iter().take(SHOWN).map(|(name, n)| format!("{n} × {name}"));
    let mut text = shown.collect::<Vec<_>>().join(", ");
    if all.len() > SHOWN {
        text += &format!(" and {} kinds more", all.len() - SHOWN);
    }
    text
}

/// What the watched CPU shows.
pub fn check(seen: &Seen, live: &Live) -> Check {
    const ID: &str = "live";
    let Live { cpu, for_ns, gaps, gaps_ns, longest_ns, longest_at_ns, switches, waited_ns, stopped_ns, counted } = live;
    // Other groups of the process may have been stopped longer than this thread waited.
    let stopped_ns = *stopped_ns.min(waited_ns);
    let share = *gaps_ns as f64 / (*for_ns).max(1) as f64 * 100.0;
    let interrupts: u64 = counted.interrupts.values().sum();
    let softirqs: u64 = counted.softirqs.values().sum();
    let timers = counted.interrupts.iter().filter(|(name, _)| TIMERS.iter().any(|timer| name.contains(timer)));
    let ticks = timers.map(|(_, n)| n).sum::<u64>();
    let mut fact = format!(
        "a loop on CPU {cpu} was away {gaps} times in {:.1} s, {share:.3} % of the time, the longest {} (at {:.3} s); {ticks} timer \
         interrupts, {interrupts} interrupts in all",
        *for_ns as f64 / 1e9,
        micros(*longest_ns),
        *longest_at_ns as f64 / 1e9,
    );
    if interrupts > 0 {
        fact += &format!(" ({})", most(&counted.interrupts));
    }
    fact += &format!("; {}", count(softirqs as usize, "softirq"));
    if softirqs > 0 {
        fact += &format!(" ({})", most(&counted.softirqs));
    }
    fact += &format!("; other tasks ran {switches} times, {} in all", micros(waited_ns - stopped_ns));
    if stopped_ns > 0 {
        fact += &format!("; the control group had used up its CPU time for {}", micros(stopped_ns));
    }
    if counted.stolen_ticks > 0 {
        fact += &format!("; a hypervisor took {} ms", counted.stolen_ticks * 1_000 / USER_HZ);
    }
    if *longest_ns < LONG_NS {
        return Check::fine(ID, AREA, fact).on(*cpu);
    }
    let costs = format!("a packet that comes meanwhile is up to {} late", micros(*longest_ns));
    let says = match (switches, counted.stolen_ticks, seen.is_virtual) {
        _ if stopped_ns > waited_ns / 2 => "take the limit of CPU time off (see `cpu-quota`)",
        (1.., _, _) => {
            "keep other tasks away from this CPU (see `tasks` and `isolcpus`), or measure with a realtime policy"
        }
        (_, 1.., _) | (_, _, true) => {
            "this machine is virtual, and its hypervisor may take the CPU: have the host pin and isolate the virtual CPU"
        }
        _ => {
            "find out who by the interrupts and softirqs above; if there are none, the firmware may take the CPU (SMI): see hwlatdetect"
        }
    };
    Check::spoils(ID, AREA, fact, costs, Fix::by(says)).on(*cpu)
}
