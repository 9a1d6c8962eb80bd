// SPDX-License-Identifier: MIT OR Apache-2.0
//! `shared-cpu`: a thread was to have another CPU than somebody else, and actually they shared
//! one.

use super::{Evidence, Of, Rule, Spoils};
use crate::{placement, says};
use std::collections::{BTreeMap, BTreeSet};
use tardy_model::placement::CpuAsked;
use tardy_model::verdict::{Figure, Level, Verdict};

pub(super) const RULE: Rule = Rule { id: "shared-cpu", spoils: Spoils::Measuring, judge };

/// A CPU that took in fewer packets of others than this was not disturbed by them.
const FEW: u64 = 1_000;
/// Packets other than the streams' own count as theirs too, up to this share of them: TCP's
/// retransmissions, a router's message.
const OWN_SHARE: u64 = 10;

/// Whose CPUs are checked: name, CPUs seen.
fn placed(evidence: &Evidence<'_>) -> BTreeMap<String, BTreeSet<u32>> {
    let mut placed: BTreeMap<String, BTreeSet<u32>> =
        evidence.threads().map(|thread| (thread.name(), thread.cpus())).collect();
    // Loads run on the coordinator's host.
    let loads = evidence.record.loads.iter().filter(|_| !matches!(evidence.of, Of::Host(_)));
    for (load, record) in loads {
        for (role, side) in record.instances.iter().flat_map(|instance| instance.sides()) {
            placed.entry(format!("{load}.{role}")).or_default().extend(&side.thread.cpus_seen);
        }
    }
    placed
}

/// The stream or load that a thread is of.
fn owner(thread: &str) -> &str {
    thread.rsplit_once('.').map_or(thread, |(owner, _)| owner)
}

fn told(level: Level, cpu: u32, threads: &[&str], says: String) -> Verdict {
    Verdict::new(RULE.id, level, says)
        .with("cpu", cpu)
        .with("threads", Figure::List(threads.iter().map(|name| (*name).into()).collect()))
}

/// Threads that ran on the CPU of the very one from which they were to differ, and softirq there.
fn asked_apart(evidence: &Evidence<'_>, placed: &BTreeMap<String, BTreeSet<u32>>) -> Vec<Verdict> {
    let asked = &evidence.record.placement;
    let threads = asked.asked.iter().filter_map(|(name, asked)| Some((name.clone(), asked, placed.get(name)?.clone())));
    let softirq = asked.softirq.iter().map(|(station, softirq)| {
        let ran = softirq.threads.iter().filter(|thread| thread.switches > 0).filter_map(|thread| thread.cpu);
        (format!("softirq of {station}"), &softirq.asked, softirq.cpu.into_iter().chain(ran).collect())
    });
    let mut verdicts = Vec::new();
    for (name, asked, cpus) in threads.chain(softirq).filter(|(_, asked, _)| asked.cpu == "different") {
        let Some(of) = &asked.of else { continue };
        let other: &BTreeSet<u32> = placed.get(of).unwrap_or(const { &BTreeSet::new() });
        if let Some(cpu) = cpus.intersection(other).next() {
            let says = format!("{name} was asked to have another CPU than {of}, and both ran on CPU {cpu}");
            verdicts.push(told(Level::Warning, *cpu, &[&name, of], says));
        }
    }
    verdicts
}

/// Neighbours on one CPU of which one was asked to be apart from its own other end.
fn neighbours(evidence: &Evidence<'_>, placed: &BTreeMap<String, BTreeSet<u32>>) -> Vec<Verdict> {
    let asked = &evidence.record.placement.asked;
    let all: BTreeSet<u32> = placed.values().flatten().copied().collect();
    let on = |cpu: u32| placed.iter().filter(move |(_, cpus)| cpus.contains(&cpu)).map(|(name, _)| name.as_str());
    let apart = |name: &str| asked.get(name).is_some_and(|asked| asked.cpu == "different");
    all.into_iter()
        .filter_map(|cpu| {
            let names: Vec<&str> = on(cpu).collect();
            let owners: BTreeSet<&str> = names.iter().map(|name| owner(name)).collect();
            // Who shares it with that very end was told so already, and has no CPU apart from it.
            let end = |name: &str| asked.get(name).and_then(|asked| asked.of.as_deref());
            let alone = |name: &str| apart(name) && end(name).is_none_or(|end| !names.contains(&end));
            let one = names.iter().find(|name| alone(name)).filter(|_| owners.len() > 1)?;
            let others: Vec<&str> = names.iter().copied().filter(|name| owner(name) != owner(one)).collect();
            let of = asked.get(*one).and_then(|asked| asked.of.as_deref()).unwrap_or("its other end");
            let says = format!(
                "{one} has a CPU apart from {of}, as asked, and shares it, CPU {cpu}, with {}",
                says::list(&others)
            );
            Some(told(Level::Note, cpu, &names, says))
        })
        .collect()
}

/// CPUs of measuring threads that took in packets which are no stream's: more than the streams
/// could have sent them.
fn packets(evidence: &Evidence<'_>, placed: &BTreeMap<String, BTreeSet<u32>>) -> Vec<Verdict> {
    let asked = &evidence.record.placement.asked;
    // Where all were put there by number or together, that is what was asked for.
    let put = |asked: &CpuAsked| asked.cpu == "same" || asked.cpu.parse::<u32>().is_ok();
    if asked.values().all(put) {
        return Vec::new();
    }
    // Over TCP each packet may be acknowledged by one of its own.
    let connected =
        evidence.record.streams.values().any(|stream| {
            stream.reply.as_ref().is_some_and(|reply| reply.tcp.is_some() || reply.tcp_reflector.is_some())
        });
    let ways = evidence.ways().map(|way| way.counters.sent.saturating_add(way.counters.beside));
    let own = ways.fold(0u64, u64::saturating_add).saturating_mul(if connected { 2 } else { 1 });
    let mut verdicts = Vec::new();
    for cpu in evidence.cpus() {
        let Some(work) = placement::work_between([evidence.before(), evidence.after()], cpu) else { continue };
        let foreign = work.packets.saturating_sub(own);
        if foreign < FEW.max(own / OWN_SHARE) {
            continue;
        }
        let here: Vec<&str> =
            placed.iter().filter(|(_, cpus)| cpus.contains(&cpu)).map(|(name, _)| name.as_str()).collect();
        // Who was to stay away from a thread that ran here, and is of somebody else.
        let away = |name: &str| {
            asked.iter().any(|(other, asked)| {
                asked.cpu == "different" && asked.of.as_deref() == Some(name) && owner(other) != owner(name)
            })
        };
        let level = if here.iter().any(|name| away(name)) { Level::Warning } else { Level::Note };
        let whose = if evidence.record.loads.is_empty() { "" } else { ", those of the loads among them" };
        let says = format!(
            "CPU {cpu}, on which {} ran, also took in {foreign} packets that are no stream's{whose}: {} NET_RX softirqs in all",
            says::list(&here),
            work.net_rx
        );
        let verdict = told(level, cpu, &here, says).with("packets", work.packets).with("own_at_most", own);
        verdicts.push(verdict.with("net_rx", work.net_rx).with("interrupts", work.interrupts));
    }
    verdicts
}

fn judge(evidence: &Evidence<'_>) -> Vec<Verdict> {
    evidence.each_host(on_host)
}

fn on_host(evidence: &Evidence<'_>) -> Vec<Verdict> {
    let placed = placed(evidence);
    let mut verdicts = asked_apart(evidence, &placed);
    verdicts.extend(neighbours(evidence, &placed));
    verdicts.extend(packets(evidence, &placed));
    verdicts
}
