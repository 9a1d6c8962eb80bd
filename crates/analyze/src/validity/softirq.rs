// SPDX-License-Identifier: MIT OR Apache-2.0
//! `softirq`: packets that arrived at a station were not taken in as the experiment asked.

use super::{Evidence, Rule, Spoils};
use crate::{placement, says};
use tardy_model::placement::{SoftirqBy, SoftirqRecord};
use tardy_model::verdict::{Figure, Level, Verdict};

pub(super) const RULE: Rule = Rule { id: "softirq", spoils: Spoils::Measuring, judge };

/// The CPU that was asked for took in at least this part of the packets. The rest allows for what
/// the two readings miss.
const MOST: f64 = 0.9;

/// Why it is not sure that packets took NAPI and its kernel threads; `None` if it is: the sockets'
/// packets came from a NAPI context, and the device's threads ran.
fn no_napi(evidence: &Evidence<'_>, station: &SoftirqRecord) -> Option<String> {
    let device = &station.device;
    if station.threads.is_empty() {
        return Some(format!("no kernel thread napi/{device}-* was to be seen"));
    }
    if station.packets == 0 {
        return None;
    }
    let receives = |name: &String| station.receivers.contains(name);
    let none = evidence.threads().find(|thread| receives(&thread.name()) && thread.record.napi_id == Some(0));
    if let Some(thread) = none {
        return Some(format!("the socket of {} has NAPI id 0: its packets did not take NAPI", thread.name()));
    }
    let switches: u64 = station.threads.iter().map(|thread| thread.switches).sum();
    (switches == 0).then(|| format!("the kernel threads napi/{device}-* never ran"))
}

/// Threads that ran and may run elsewhere.
fn not_pinned(station: &SoftirqRecord) -> Option<String> {
    let cpu = station.cpu?;
    let thread = station.threads.iter().find(|thread| thread.affinity != [cpu])?;
    Some(format!("{} may run on CPU {}", thread.name, says::list(&thread.affinity)))
}

/// A CPU that took in fewer packets than came to the stations that asked for it.
fn elsewhere(evidence: &Evidence<'_>, station: &SoftirqRecord) -> Option<(String, u64, u64)> {
    let cpu = station.cpu?;
    let took = placement::work_at(evidence.record, station, cpu)?.packets;
    let host = |of| placement::host(evidence.record, of);
    let all = evidence.record.placement.softirq.values();
    let there = all.filter(|other| other.cpu == Some(cpu) && host(other) == host(station));
    let came = there.map(|other| other.packets).fold(0, u64::saturating_add);
    let says = || format!("CPU {cpu} took in {took} packets, and at least {came} came to who asked for it");
    ((took as f64) < came as f64 * MOST).then(|| (says(), took, came))
}

fn judge(evidence: &Evidence<'_>) -> Vec<Verdict> {
    if evidence.broke_off() {
        return Vec::new();
    }
    let told = evidence.record.placement.softirq.iter().filter_map(|(name, station)| {
        let napi = (station.by == SoftirqBy::Napi).then(|| no_napi(evidence, station).or_else(|| not_pinned(station)));
        let (why, counts) = match (napi.flatten(), elsewhere(evidence, station)) {
            (Some(why), counts) => (why, counts.map(|(_, took, came)| (took, came))),
            (None, Some((why, took, came))) => (why, Some((took, came))),
            (None, None) => return None,
        };
        let on = station.cpu.map_or_else(String::new, |cpu| format!(" on CPU {cpu}"));
        let by = match station.by {
            SoftirqBy::Napi => "by kernel threads that poll the device",
            SoftirqBy::Rps => "by packet steering",
            SoftirqBy::Irq => "by the device's interrupts",
        };
        let says = format!("packets that arrive at {name} were to be taken in{on}, {by}, and were not: {why}");
        let threads = station.threads.iter();
        let mut verdict = Verdict::new(RULE.id, Level::Invalid, says)
            .with("station", name.as_str())
            .with("device", station.device.as_str())
            .with("by", station.by.name())
            .with("asked", station.asked.cpu.as_str())
            .with("arrived", station.packets)
            .with("napi_threads", Figure::List(threads.clone().map(|thread| thread.name.as_str().into()).collect()))
            .with("napi_switches", Figure::List(threads.map(|thread| thread.switches.into()).collect()));
        if let Some(cpu) = station.cpu {
            verdict = verdict.with("cpu", cpu);
        }
        if let Some((took, came)) = counts {
            verdict = verdict.with("cpu_packets", took).with("at_least", came);
        }
        Some(verdict)
    });
    told.collect()
}
