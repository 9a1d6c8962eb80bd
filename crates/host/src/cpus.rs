// SPDX-License-Identifier: MIT OR Apache-2.0
//! CPUs that may be used, the choice of one for each measuring thread, and how deep they may sleep.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use tardy_model::stream::CpuChoice;

/// CPUs that this process may run on, ascending.
pub fn usable() -> Vec<u32> {
    tardy_sys::thread::affinity().unwrap_or_default()
}

/// CPUs that the kernel keeps apart (`isolcpus`) and that a thread of this process can be bound to
/// all the same, without those in [`usable`]: whoever was not started on them has none of them
/// among the CPUs that it may run on. A control group may keep them away.
pub fn apart() -> Vec<u32> {
    let (usable, online) = (usable(), kernel_list("online").unwrap_or_default());
    let isolated = kernel_list("isolated").unwrap_or_default();
    let others = isolated.into_iter().filter(|cpu| online.contains(cpu) && !usable.contains(cpu));
    let can_be_bound = |cpu: &u32| {
        let cpu = *cpu;
        std::thread::spawn(move || tardy_sys::thread::pin(cpu).is_ok()).join().unwrap_or(false)
    };
    others.filter(can_be_bound).collect()
}

/// The CPUs on which a machine can place threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cpus<'a> {
    /// Those of which one is taken for a thread that says nothing more exact than `auto`.
    pub usable: &'a [u32],
    /// And those that are taken only by their numbers ([`apart`]).
    pub apart: &'a [u32],
}

impl Cpus<'_> {
    /// True if a thread can be placed on this CPU.
    pub fn has(&self, cpu: u32) -> bool {
        self.usable.contains(&cpu) || self.apart.contains(&cpu)
    }

    /// All of them, ascending.
    pub fn all(&self) -> Vec<u32> {
        let mut all = [self.usable, self.apart].concat();
        all.sort_unstable();
        all
    }

    /// Says that a CPU is none of them.
    pub fn lacks(&self, cpu: u32) -> NoSuchCpu {
        NoSuchCpu { cpu, usable: self.all().iter().map(u32::to_string).collect::<Vec<_>>().join(", ") }
    }
}

/// Reads a kernel list such as `0-3,7`.
pub fn parse_list(text: &str) -> Vec<u32> {
    let range = |part: &str| {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        Some(from.trim().parse::<u32>().ok()?..=to.trim().parse::<u32>().ok()?)
    };
    text.trim().split(',').filter_map(range).flatten().collect()
}

/// A list that the kernel keeps under `/sys/devices/system/cpu`; `None` if it keeps no such list.
pub fn kernel_list(name: &str) -> Option<Vec<u32>> {
    fs::read_to_string(format!("/sys/devices/system/cpu/{name}")).ok().map(|text| parse_list(&text))
}

/// NUMA nodes that have memory; none where the kernel tells no nodes apart.
pub fn nodes() -> Vec<u32> {
    fs::read_to_string("/sys/devices/system/node/has_memory").map(|text| parse_list(&text)).unwrap_or_default()
}

/// The CPUs of the two ends of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// The sender's; `None` if it is not to be pinned.
    pub tx: Option<u32>,
    /// The receiver's; `None` if it is not to be pinned.
    pub rx: Option<u32>,
    /// What was not available and what was taken instead.
    pub short: Vec<String>,
}

/// A CPU that was asked for by number and is not there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("CPU {cpu} was asked for and this process may use only {usable}: choose one of those, or `auto`")]
pub struct NoSuchCpu {
    pub cpu: u32,
    pub usable: String,
}

/// Chooses the CPUs of both ends, pure. `taken` counts threads already put on each CPU. `auto`
/// takes the least used CPU, the highest number first, since CPU 0 gets most of a machine's
/// interrupts.
pub fn choose(
    tx: CpuChoice,
    rx: CpuChoice,
    cpus: Cpus<'_>,
    taken: &mut BTreeMap<u32, u32>,
) -> Result<Chosen, NoSuchCpu> {
    let mut short = Vec::new();
    let mut place = |choice, other, taken: &mut BTreeMap<u32, u32>| {
        let (cpu, lacking) = beside(choice, other, cpus, taken)?;
        short.extend(lacking);
        Ok(cpu)
    };
    // The end with a choice of its own comes first, then the one that is relative to it.
    let relative = |choice: CpuChoice| matches!(choice, CpuChoice::Same | CpuChoice::Different);
    let (tx, rx) = if relative(tx) && !relative(rx) {
        let rx = place(rx, None, taken)?;
        (place(tx, rx, taken)?, rx)
    } else {
        let tx = place(tx, None, taken)?;
        (tx, place(rx, tx, taken)?)
    };
    Ok(Chosen { tx, rx, short })
}

/// Chooses one thread's CPU, `other` being the one that `same` and `different` mean. Also what was
/// not available.
///
/// # Errors
/// A CPU that does not exist.
pub fn beside(
    choice: CpuChoice,
    other: Option<u32>,
    cpus: Cpus<'_>,
    taken: &mut BTreeMap<u32, u32>,
) -> Result<(Option<u32>, Option<String>), NoSuchCpu> {
    let mut lacking = None;
    let free = |not: Option<u32>, taken: &BTreeMap<u32, u32>| {
        let load = |cpu: &u32| (taken.get(cpu).copied().unwrap_or(0), std::cmp::Reverse(*cpu));
        cpus.usable.iter().copied().filter(|cpu| Some(*cpu) != not).min_by_key(load)
    };
    let cpu = match choice {
        CpuChoice::Any => return Ok((None, None)),
        CpuChoice::Number(cpu) if cpus.has(cpu) => Some(cpu),
        CpuChoice::Number(cpu) => return Err(cpus.lacks(cpu)),
        CpuChoice::Same if other.is_some() => other,
        CpuChoice::Different if other.is_some() => free(other, taken).or_else(|| {
            lacking = Some("its two ends were to have different CPUs, and there is one: they share it".to_owned());
            other
        }),
        CpuChoice::Auto | CpuChoice::Same | CpuChoice::Different => free(None, taken),
    };
    if let Some(cpu) = cpu {
        *taken.entry(cpu).or_default() += 1;
    }
    Ok((cpu, lacking))
}

// The idle states (C-states) of the first CPU, as cpuidle lists them: how deep it may sleep, and
// how long it then takes to wake up.

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdleState {
    pub name: String,
    /// Time to leave it, µs.
    pub exit_latency_us: u64,
    /// The kernel enters it only if it expects to stay so long, µs.
    pub residency_us: u64,
    pub is_disabled: bool,
}

/// The states, the shallowest first; none where the kernel has no cpuidle driver.
pub fn states() -> Vec<IdleState> {
    states_in(Path::new("/sys/devices/system/cpu/cpu0/cpuidle"))
}

/// The same, of a folder with one folder for each state.
pub fn states_in(folder: &Path) -> Vec<IdleState> {
    let state = |number: u32| {
        let read = |file: &str| fs::read_to_string(folder.join(format!("state{number}")).join(file)).ok();
        let figure = |file: &str| read(file)?.trim().parse::<u64>().ok();
        Some(IdleState {
            name: read("name")?.trim().to_owned(),
            exit_latency_us: figure("latency")?,
            residency_us: figure("residency").unwrap_or_default(),
            is_disabled: figure("disable").is_some_and(|flag| flag != 0),
        })
    };
    (0..).map_while(state).collect()
}

impl IdleState {
    /// In words, for the manifest.
    pub fn describe(&self) -> String {
        let off = if self.is_disabled { ", disabled" } else { "" };
        format!("{}: leaves in {} µs, stays {} µs{off}", self.name, self.exit_latency_us, self.residency_us)
    }
}
