// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a copy needs of the machine: memory for its buffers, CPUs for its threads. Pure.

use std::fmt::Write as _;
use tardy_engine::copy::{CopyError, background_bytes, is_loaded, needed_bytes, region_bytes};
use tardy_host::cpus::Cpus;
use tardy_model::copy::{Bind, CopyBackend, Copying, Sizes};
use tardy_model::machine::RtLimit;
use tardy_spec::schema::show_duration;

/// Why this machine cannot run a cell of copies as it is written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CopyRefused {
    #[error(
        "cell `{cell}`: its {threads} threads need {needed_mib} MiB of memory for their buffers and what is recorded, and \
         {available_mib} MiB are available: take fewer threads, fewer or smaller buffers, or fewer iterations"
    )]
    Memory { cell: String, threads: u32, needed_mib: u64, available_mib: u64 },
    #[error(
        "cell `{cell}`: copy.cpus names CPU {cpu}, and this process may use only {usable}: choose of those, or leave it out"
    )]
    Cpu { cell: String, cpu: u32, usable: String },
    #[error(
        "cell `{cell}`: copy.bind = \"isolated\", and the kernel keeps no CPU free that this process may use (isolcpus on its \
         command line): take \"spread\", or start with isolated CPUs"
    )]
    NotIsolated { cell: String },
    #[error(
        "cell `{cell}`: copy.policy = {policy} on all CPUs of this machine ({cpus}), and nothing here leaves other tasks any of the time \
         (kernel.sched_rt_runtime_us limits no realtime thread): it would answer nobody for up to copy.longest, {longest}; take fewer \
         threads than CPUs, write copy.bind = \"spread\" and leave one out in copy.cpus, or set the limit (sysctl \
         kernel.sched_rt_runtime_us=950000)"
    )]
    Standstill { cell: String, policy: String, cpus: String, longest: String },
    #[error("cell `{cell}`: {why}")]
    NotLoaded { cell: String, why: String },
    #[error("cell `{cell}`: copy.{key} = {node}, and {}: take one of those, or leave it out", nodes_of(.known))]
    Node { cell: String, key: &'static str, node: u32, known: Vec<u32> },
}

/// The memory of a machine, in words.
fn nodes_of(known: &[u32]) -> String {
    match known {
        [] => "this kernel tells no NUMA nodes apart".to_owned(),
        known => format!("this machine has memory on NUMA node {}", listed(known)),
    }
}

fn listed(numbers: &[u32]) -> String {
    numbers.iter().fold(String::new(), |mut list, number| {
        let _ = write!(list, "{}{number}", if list.is_empty() { "" } else { ", " });
        list
    })
}

/// What of a machine a copy is placed on.
#[derive(Clone, Copy, Debug)]
pub struct CopyRoom<'a> {
    /// CPUs that this process may use.
    pub cpus: Cpus<'a>,
    /// CPUs that the kernel keeps free of other tasks.
    pub isolated: &'a [u32],
    /// NUMA nodes that have memory.
    pub nodes: &'a [u32],
    /// Memory that may be taken; `None` leaves that out.
    pub available_bytes: Option<u64>,
    pub sizes: &'a Sizes,
    /// All CPUs of the machine that are online; empty where the kernel does not say.
    pub online: &'a [u32],
    /// True if realtime threads that never wait leave other tasks some of each CPU's time.
    pub is_limited: bool,
}

/// The first kernel with the fair server, which leaves other tasks 50 ms of each second whatever
/// the limit of realtime threads says.
const FAIR_SERVER: (u32, u32) = (6, 12);

/// True if realtime threads that never wait leave other tasks some of a CPU's time: by the limit of
/// such threads, or by the kernel's fair server.
pub fn is_limited(limit: Option<RtLimit>, release: Option<&str>) -> bool {
    let version = |release: &str| {
        let mut parts = release.split(|c: char| !c.is_ascii_digit());
        Some((parts.next()?.parse::<u32>().ok()?, parts.next()?.parse::<u32>().ok()?))
    };
    let is_fair = release.and_then(version).is_some_and(|version| version >= FAIR_SERVER);
    is_fair || limit.is_some_and(|limit| limit.runtime_ns < limit.period_ns)
}

/// Memory that the buffers of all cells together may hold at once, bytes: what one cell leaves may
/// be used by the next, and each cell was asked about as if it had all of the memory.
pub fn most_held_bytes<'c>(
    copies: impl Iterator<Item = (&'c Copying, Sizes)>,
    available_bytes: Option<u64>,
    cpus: usize,
) -> u64 {
    let (mut regions, mut others) = (0, 0);
    for (copy, sizes) in copies {
        let of_regions = region_bytes(copy, &sizes);
        regions = regions.max(of_regions);
        others = others.max(all_bytes(copy, &sizes, cpus).saturating_sub(of_regions));
    }
    let room = available_bytes.map_or(0, |available| (available / OF * PART).saturating_sub(others));
    regions.max(room)
}

/// All memory that a copy needs, that of its background on each CPU among it, bytes.
pub fn all_bytes(copy: &Copying, sizes: &Sizes, cpus: usize) -> u64 {
    needed_bytes(copy, sizes).saturating_add(background_bytes(copy, cpus))
}

/// Of what is available, so much may be taken: the rest is for what is recorded of other cells, and
/// for everybody else.
const PART: u64 = 4;
const OF: u64 = 5;

/// The CPUs of a copy's threads; `None` for one that is not bound.
///
/// # Errors
/// If there is no such CPU, or not the memory.
pub fn place(cell: &str, copy: &Copying, room: CopyRoom<'_>) -> Result<Vec<Option<u32>>, CopyRefused> {
    let CopyRoom { cpus: Cpus { usable, .. }, nodes, available_bytes, sizes, online, is_limited, .. } = room;
    let needed = all_bytes(copy, sizes, usable.len());
    let threads = copy.all_threads();
    if let Some(available) = available_bytes.filter(|available| needed > available / OF * PART) {
        let (needed_mib, available_mib) = (needed >> 20, available >> 20);
        return Err(CopyRefused::Memory { cell: cell.to_owned(), threads, needed_mib, available_mib });
    }
    if let Some(module) = copy.backend.module().filter(|module| !is_loaded(*module)) {
        let why = CopyError::NotLoaded { backend: copy.backend.name(), module: module.name() };
        return Err(CopyRefused::NotLoaded { cell: cell.to_owned(), why: why.to_string() });
    }
    let asked = ["from_node", "to_node"].into_iter().zip(copy.nodes);
    if let Some((key, node)) =
        asked.filter_map(|(key, node)| Some((key, node?))).find(|(_, node)| !nodes.contains(node))
    {
        return Err(CopyRefused::Node { cell: cell.to_owned(), key, node, known: nodes.to_vec() });
    }
    if copy.backend != CopyBackend::Cpu {
        return Ok(vec![None; threads as usize]);
    }
    let placed = if copy.bind == Bind::Any { vec![None; threads as usize] } else { bound(cell, copy, room)? };
    let mut cpus: Vec<u32> = placed.iter().copied().flatten().collect();
    cpus.sort_unstable();
    cpus.dedup();
    let busy = if copy.bind == Bind::Any { usable.len().min(threads as usize) } else { cpus.len() };
    if !is_limited && copy.policy.is_realtime() && !online.is_empty() && busy >= online.len() {
        let (policy, cpus, longest) = (copy.policy.to_string(), listed(online), show_duration(copy.longest));
        return Err(CopyRefused::Standstill { cell: cell.to_owned(), policy, cpus, longest });
    }
    Ok(placed)
}

/// The CPU of each thread of a copy that binds them.
fn bound(cell: &str, copy: &Copying, room: CopyRoom<'_>) -> Result<Vec<Option<u32>>, CopyRefused> {
    let CopyRoom { cpus: known, isolated, .. } = room;
    let mut cpus: Vec<u32> = match (copy.cpus.is_empty(), copy.bind) {
        (false, _) => copy.cpus.clone(),
        (true, Bind::Isolated) => known.all(),
        (true, _) => known.usable.to_vec(),
    };
    if let Some(cpu) = cpus.iter().copied().find(|cpu| !known.has(*cpu)) {
        return Err(CopyRefused::Cpu { cell: cell.to_owned(), cpu, usable: listed(&known.all()) });
    }
    if copy.bind == Bind::Isolated {
        cpus.retain(|cpu| isolated.contains(cpu));
    }
    if cpus.is_empty() {
        return Err(CopyRefused::NotIsolated { cell: cell.to_owned() });
    }
    Ok((0..copy.all_threads() as usize).map(|thread| Some(cpus[thread % cpus.len()])).collect())
}
