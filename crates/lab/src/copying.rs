// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a copy needs of the machine: memory for its buffers, CPUs for its threads. Pure.

use std::fmt::Write as _;
use tardy_engine::copy::{CopyError, dmatest, needed_bytes};
use tardy_model::copy::{Bind, CopyBackend, Copying, Sizes};

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
    #[error("cell `{cell}`: {}", CopyError::NoDmatest)]
    Dmatest { cell: String },
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
pub struct Room<'a> {
    /// CPUs that this process may use.
    pub usable: &'a [u32],
    /// CPUs that the kernel keeps free of other tasks.
    pub isolated: &'a [u32],
    /// NUMA nodes that have memory.
    pub nodes: &'a [u32],
    /// Memory that may be taken; `None` leaves that out.
    pub available_bytes: Option<u64>,
    pub sizes: &'a Sizes,
}

/// Of what is available, so much may be taken: the rest is for what is recorded of other cells, and
/// for everybody else.
const PART: u64 = 4;
const OF: u64 = 5;

/// The CPUs of a copy's threads; `None` for one that is not bound.
///
/// # Errors
/// If there is no such CPU, or not the memory.
pub fn place(cell: &str, copy: &Copying, room: Room<'_>) -> Result<Vec<Option<u32>>, CopyRefused> {
    let Room { usable, isolated, nodes, available_bytes, sizes } = room;
    let needed = needed_bytes(copy, sizes);
    let threads = copy.all_threads();
    if let Some(available) = available_bytes.filter(|available| needed > available / OF * PART) {
        let (needed_mib, available_mib) = (needed >> 20, available >> 20);
        return Err(CopyRefused::Memory { cell: cell.to_owned(), threads, needed_mib, available_mib });
    }
    if copy.backend == CopyBackend::Dmatest && !dmatest::is_there() {
        return Err(CopyRefused::Dmatest { cell: cell.to_owned() });
    }
    let asked = ["from_node", "to_node"].into_iter().zip(copy.nodes);
    if let Some((key, node)) =
        asked.filter_map(|(key, node)| Some((key, node?))).find(|(_, node)| !nodes.contains(node))
    {
        return Err(CopyRefused::Node { cell: cell.to_owned(), key, node, known: nodes.to_vec() });
    }
    if copy.backend != CopyBackend::Cpu || copy.bind == Bind::Any {
        return Ok(vec![None; threads as usize]);
    }
    let mut cpus: Vec<u32> = if copy.cpus.is_empty() { usable.to_vec() } else { copy.cpus.clone() };
    if let Some(cpu) = cpus.iter().copied().find(|cpu| !usable.contains(cpu)) {
        return Err(CopyRefused::Cpu { cell: cell.to_owned(), cpu, usable: listed(usable) });
    }
    if copy.bind == Bind::Isolated {
        cpus.retain(|cpu| isolated.contains(cpu));
    }
    if cpus.is_empty() {
        return Err(CopyRefused::NotIsolated { cell: cell.to_owned() });
    }
    Ok((0..threads as usize).map(|thread| Some(cpus[thread % cpus.len()])).collect())
}
