// SPDX-License-Identifier: MIT OR Apache-2.0
//! What this kernel can do for packets, by what was tried.

use crate::check::{Area, Check, Fix};
use crate::seen::Seen;
use crate::tried::QDISCS;
use std::collections::BTreeMap;
use tardy_bpf::types::ProgramSupport;

const AREA: Area = Area::Kernel;

pub(crate) fn checks(seen: &Seen, _: &[u32]) -> Vec<Check> {
    let tried = match &seen.tried {
        None => return Vec::new(),
        Some(Err(why)) => {
            let shows = "call it as root, with iproute2 installed";
            return vec![Check::unknown(
                "kernel-tried",
                AREA,
                format!("what this kernel can do was not tried: {why}"),
                shows,
            )];
        }
        Some(Ok(tried)) => tried,
    };
    vec![qdiscs(&tried.qdiscs), xdp(&tried.xdp), programs(&tried.programs, seen)]
}

fn qdiscs(tried: &[(String, Result<(), String>)]) -> Check {
    const ID: &str = "qdiscs";
    let has: Vec<&str> = tried.iter().filter(|(_, result)| result.is_ok()).map(|(kind, _)| kind.as_str()).collect();
    let lacks: Vec<&(String, Result<(), String>)> = tried.iter().filter(|(_, result)| result.is_err()).collect();
    let has = if has.is_empty() {
        "no queue discipline could be set".to_owned()
    } else {
        format!("queue disciplines {}", has.join(", "))
    };
    if lacks.is_empty() {
        return Check::fine(ID, AREA, has);
    }
    let mut by_reason: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (kind, result) in &lacks {
        by_reason.entry(result.as_ref().err().map_or("", String::as_str)).or_default().push(kind);
    }
    let said = by_reason.iter().map(|(why, kinds)| format!("{} ({why})", kinds.join(", ")));
    let fact = format!("{has}; the kernel refuses {}", said.collect::<Vec<_>>().join(", and "));
    let names: Vec<&str> = lacks.iter().map(|(kind, _)| kind.as_str()).collect();
    let needed = QDISCS.iter().filter(|(kind, ..)| names.contains(kind)).map(|(.., config)| format!("CONFIG_{config}"));
    let fix = Fix::by(format!(
        "use a kernel with {}, or measure them in a guest that has one: tardy run --in guest:exact",
        needed.collect::<Vec<_>>().join(", ")
    ));
    Check::note(ID, AREA, fact, "experiments that set them are refused here", fix)
}

fn xdp(tried: &[(String, Result<(), String>)]) -> Check {
    const ID: &str = "xdp-modes";
    let words = |(mode, result): &(String, Result<(), String>)| match result {
        Ok(()) => format!("{mode} works"),
        Err(why) => format!("{mode} does not: {why}"),
    };
    let fact = format!("XDP on a virtual device: {}", tried.iter().map(words).collect::<Vec<_>>().join(", "));
    if tried.iter().all(|(_, result)| result.is_ok()) {
        return Check::fine(ID, AREA, fact);
    }
    let fix =
        Fix::by("call it as root, on a kernel with CONFIG_BPF_SYSCALL, CONFIG_XDP_SOCKETS and CONFIG_DEBUG_INFO_BTF");
    Check::note(ID, AREA, fact, "port xdp and path xdp are refused here", fix)
}

/// Where programs of a type that the kernel loads may be attached, and the settings that it takes
/// on any processor. That a program loads does not show it.
const HOOKS: [(&str, &[&str]); 3] = [
    ("kprobe", &["KPROBES", "KPROBE_EVENTS", "BPF_EVENTS"]),
    ("uprobe", &["UPROBE_EVENTS", "BPF_EVENTS"]),
    ("fentry", &["FUNCTION_TRACER", "DYNAMIC_FTRACE_WITH_DIRECT_CALLS", "DEBUG_INFO_BTF", "BPF_JIT"]),
];

/// Hooks that there are, and those that there are not with what is missing, by the kernel's
/// configuration.
fn hooks(seen: &Seen) -> (Vec<&'static str>, Vec<String>) {
    let (mut has, mut lacks) = (Vec::new(), Vec::new());
    for (hook, needs) in HOOKS.iter().filter(|_| seen.config.is_some()) {
        let missing: Vec<String> =
            needs.iter().filter(|of| seen.has(of) == Some(false)).map(|of| format!("CONFIG_{of}")).collect();
        if missing.is_empty() { has.push(*hook) } else { lacks.push(format!("{hook} ({})", missing.join(", "))) }
    }
    (has, lacks)
}

fn programs(tried: &[ProgramSupport], seen: &Seen) -> Check {
    const ID: &str = "bpf-programs";
    let of =
        |is: Option<bool>| tried.iter().filter(move |of| of.is_supported == is).map(|of| of.name).collect::<Vec<_>>();
    let (has, lacks, unknown) = (of(Some(true)), of(Some(false)), of(None));
    let mut fact = format!("BPF programs of types {}", if has.is_empty() { "none".to_owned() } else { has.join(", ") });
    if !lacks.is_empty() {
        fact += &format!("; not {}", lacks.join(", "));
    }
    let (attach, not_built) = hooks(seen);
    if !attach.is_empty() {
        fact += &format!("; by its configuration it has {}", attach.join(", "));
    }
    if !not_built.is_empty() {
        fact += &format!("; it is built without {}", not_built.join(", "));
    }
    if !unknown.is_empty() {
        let fact = format!("{fact}; {} could not be tried", unknown.join(", "));
        return Check::unknown(ID, AREA, fact, "call it as root");
    }
    if lacks.is_empty() && not_built.is_empty() {
        return Check::fine(ID, AREA, fact);
    }
    let costs = "programs of these types, yours or a tracer's, cannot be loaded here";
    Check::note(ID, AREA, fact, costs, Fix::by("use a kernel that is built with them"))
}
