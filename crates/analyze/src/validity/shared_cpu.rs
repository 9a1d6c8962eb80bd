// SPDX-License-Identifier: MIT OR Apache-2.0
//! `shared-cpu`: a thread was to have another CPU than somebody else, and actually they shared
//! one.

use super::{Evidence, Rule, Spoils};
use crate::host::{TrialCpu, TrialHost};
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

/// The threads on a host, by name, with the CPUs on which each was seen.
type Placed<'a> = BTreeMap<String, BTreeSet<TrialCpu<'a>>>;

fn placed<'a>(evidence: &Evidence<'a>, host: TrialHost<'a>) -> Placed<'a> {
    let mut placed: Placed<'a> = evidence.threads_on(host).map(|thread| (thread.name(), thread.cpus())).collect();
    for (load, record) in &evidence.record.loads {
        for (role, side) in record.sides_on(host.name()) {
            let cpus = side.thread.cpus_seen.iter().map(|cpu| host.cpu(*cpu));
            placed.entry(format!("{load}.{role}")).or_default().extend(cpus);
        }
    }
    placed
}

/// The stream or load that a thread is of.
fn owner(thread: &str) -> &str {
    thread.rsplit_once('.').map_or(thread, |(owner, _)| owner)
}

fn told(level: Level, at: TrialCpu<'_>, threads: &[&str], says: String) -> Verdict {
    Verdict::new(RULE.id, level, says)
        .with("cpu", at.cpu)
        .with("threads", Figure::List(threads.iter().map(|name| (*name).into()).collect()))
}

/// Threads that ran on the CPU of the very one from which they were to differ, and softirq there.
fn asked_apart(evidence: &Evidence<'_>, host: TrialHost<'_>, placed: &Placed<'_>) -> Vec<Verdict> {
    let asked = &evidence.record.placement;
    let threads = asked.asked.iter().filter_map(|(name, asked)| Some((name.clone(), asked, placed.get(name)?.clone())));
    let softirq = asked.softirq.iter().filter(|(_, softirq)| placement::host(evidence.record, softirq) == host);
    let softirq = softirq.map(|(station, softirq)| {
        let ran = softirq.threads.iter().filter(|thread| thread.switches > 0).filter_map(|thread| thread.cpu);
        let cpus = softirq.cpu.into_iter().chain(ran).map(|cpu| host.cpu(cpu)).collect();
        (format!("softirq of {station}"), &softirq.asked, cpus)
    });
    let mut verdicts = Vec::new();
    for (name, asked, cpus) in threads.chain(softirq).filter(|(_, asked, _)| asked.cpu == "different") {
        let Some(of) = &asked.of else { continue };
        let Some(other) = placed.get(of) else { continue };
        if let Some(at) = cpus.intersection(other).next() {
            let says = format!("{name} was asked to have another CPU than {of}, and both ran on CPU {}", at.cpu);
            verdicts.push(told(Level::Warning, *at, &[&name, of], says));
        }
    }
    verdicts
}

/// The threads that ran on a CPU.
fn on<'p>(placed: &'p Placed<'_>, at: TrialCpu<'_>) -> Vec<&'p str> {
    placed.iter().filter(|(_, cpus)| cpus.contains(&at)).map(|(name, _)| name.as_str()).collect()
}

/// Neighbours on one CPU of which one was asked to be apart from its own other end.
fn neighbours(evidence: &Evidence<'_>, placed: &Placed<'_>) -> Vec<Verdict> {
    let asked = &evidence.record.placement.asked;
    let all: BTreeSet<TrialCpu<'_>> = placed.values().flatten().copied().collect();
    let apart = |name: &str| asked.get(name).is_some_and(|asked| asked.cpu == "different");
    all.into_iter()
        .filter_map(|at| {
            let names = on(placed, at);
            let owners: BTreeSet<&str> = names.iter().map(|name| owner(name)).collect();
            // Who shares it with that very end was told so already, and has no CPU apart from it.
            let end = |name: &str| asked.get(name).and_then(|asked| asked.of.as_deref());
            let alone = |name: &str| apart(name) && end(name).is_none_or(|end| !names.contains(&end));
            let one = names.iter().find(|name| alone(name)).filter(|_| owners.len() > 1)?;
            let others: Vec<&str> = names.iter().copied().filter(|name| owner(name) != owner(one)).collect();
            let of = asked.get(*one).and_then(|asked| asked.of.as_deref()).unwrap_or("its other end");
            let says = format!(
                "{one} has a CPU apart from {of}, as asked, and shares it, CPU {}, with {}",
                at.cpu,
                says::list(&others)
            );
            Some(told(Level::Note, at, &names, says))
        })
        .collect()
}

/// CPUs of measuring threads that took in packets which are no stream's: more than the streams
/// could have sent them.
fn packets(evidence: &Evidence<'_>, host: TrialHost<'_>, placed: &Placed<'_>) -> Vec<Verdict> {
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
    let has_loads = evidence.record.loads.values().any(|load| load.is_on(host.name()));
    for at in evidence.cpus(host) {
        let Some(work) = placement::work_at(evidence.record, at) else { continue };
        let foreign = work.packets.saturating_sub(own);
        if foreign < FEW.max(own / OWN_SHARE) {
            continue;
        }
        let here = on(placed, at);
        // Who was to stay away from a thread that ran here, and is of somebody else.
        let away = |name: &str| {
            asked.iter().any(|(other, asked)| {
                asked.cpu == "different" && asked.of.as_deref() == Some(name) && owner(other) != owner(name)
            })
        };
        let level = if here.iter().any(|name| away(name)) { Level::Warning } else { Level::Note };
        let whose = if has_loads { ", those of the loads among them" } else { "" };
        let says = format!(
            "CPU {}, on which {} ran, also took in {foreign} packets that are no stream's{whose}: {} NET_RX softirqs in all",
            at.cpu,
            says::list(&here),
            work.net_rx
        );
        let verdict = told(level, at, &here, says).with("packets", work.packets).with("own_at_most", own);
        verdicts.push(verdict.with("net_rx", work.net_rx).with("interrupts", work.interrupts));
    }
    verdicts
}

fn judge(evidence: &Evidence<'_>) -> Vec<Verdict> {
    evidence.each_host(on_host)
}

fn on_host(evidence: &Evidence<'_>, host: TrialHost<'_>) -> Vec<Verdict> {
    let placed = placed(evidence, host);
    let mut verdicts = asked_apart(evidence, host, &placed);
    verdicts.extend(neighbours(evidence, &placed));
    verdicts.extend(packets(evidence, host, &placed));
    verdicts
}
