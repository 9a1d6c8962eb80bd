// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where what is sent away from a CPU goes on a machine with several NUMA nodes: to a CPU of the
//! same node, if there is one.

use crate::check::list;
use crate::seen::Seen;

/// CPUs for what is sent away from these ones, on this node if there are any, and what is to be
/// said of that.
pub(crate) fn near(seen: &Seen, cpus: &[u32], node: Option<u32>) -> (Vec<u32>, String) {
    let others = seen.others(cpus);
    let Some((node, on_node)) = node.and_then(|node| Some((node, seen.nodes.get(&node)?))) else {
        return (others, String::new());
    };
    if seen.nodes.len() < 2 || others.is_empty() {
        return (others, String::new());
    }
    let near: Vec<u32> = others.iter().filter(|cpu| on_node.contains(cpu)).copied().collect();
    if near.is_empty() {
        return (others, format!("; NUMA node {node}, where that belongs, has no other CPU for it"));
    }
    let says = format!("; CPU {} is on the same NUMA node ({node})", list(&near));
    (near, says)
}

/// The NUMA node of a CPU.
pub(crate) fn node_of(seen: &Seen, cpu: u32) -> Option<u32> {
    seen.nodes.iter().find(|(_, cpus)| cpus.contains(&cpu)).map(|(node, _)| *node)
}
