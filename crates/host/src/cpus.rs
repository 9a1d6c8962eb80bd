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
    usable: &[u32],
    taken: &mut BTreeMap<u32, u32>,
) -> Result<Chosen, NoSuchCpu> {
    let mut short = Vec::new();
    let mut place = |choice, other, taken: &mut BTreeMap<u32, u32>| {
        let (cpu, lacking) = beside(choice, other, usable, taken)?;
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
    usable: &[u32],
    taken: &mut BTreeMap<u32, u32>,
) -> Result<(Option<u32>, Option<String>), NoSuchCpu> {
    let mut lacking = None;
    let free = |not: Option<u32>, taken: &BTreeMap<u32, u32>| {
        let load = |cpu: &u32| (taken.get(cpu).copied().unwrap_or(0), std::cmp::Reverse(*cpu));
        usable.iter().copied().filter(|cpu| Some(*cpu) != not).min_by_key(load)
    };
    let cpu = match choice {
        CpuChoice::Any => return Ok((None, None)),
        CpuChoice::Number(cpu) if usable.contains(&cpu) => Some(cpu),
        CpuChoice::Number(cpu) => {
            let usable = usable.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
            return Err(NoSuchCpu { cpu, usable });
        }
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
