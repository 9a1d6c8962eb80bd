// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which types of BPF programs this kernel takes. An empty program of each type is loaded and
//! dropped again.

use libbpf_rs::ProgramType;

/// Types that networking and tracing use.
const TYPES: [(&str, ProgramType); 15] = [
    ("xdp", ProgramType::Xdp),
    ("tc", ProgramType::SchedCls),
    ("socket", ProgramType::SocketFilter),
    ("sk_lookup", ProgramType::SkLookup),
    ("sk_skb", ProgramType::SkSkb),
    ("sockops", ProgramType::SockOps),
    ("cgroup/skb", ProgramType::CgroupSkb),
    ("lwt_xmit", ProgramType::LwtXmit),
    ("netfilter", ProgramType::Netfilter),
    ("kprobe", ProgramType::Kprobe),
    ("tracepoint", ProgramType::Tracepoint),
    ("raw_tracepoint", ProgramType::RawTracepoint),
    ("perf_event", ProgramType::PerfEvent),
    ("tracing", ProgramType::Tracing),
    ("struct_ops", ProgramType::StructOps),
];

/// Whether the kernel takes programs of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramSupport {
    /// As sections of objects are named.
    pub name: &'static str,
    /// `None` if it could not be tried.
    pub is_supported: Option<bool>,
}

/// Tries each type. Without CAP_BPF nothing can be tried.
pub fn probe() -> Vec<ProgramSupport> {
    TYPES.iter().map(|(name, of)| ProgramSupport { name, is_supported: of.is_supported().ok() }).collect()
}
