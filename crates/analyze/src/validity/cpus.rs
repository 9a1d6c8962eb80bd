// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rules about what the CPUs and the kernel gave tardy: the policy of its threads, the CPU of a
//! softirq, the time that a hypervisor took, the wake-up latency, and other runs.

use super::{Evidence, Rule, Spoils, TICKS_NS, Thread, TrialHost};
use crate::{placement, says};
use tardy_model::placement::{SoftirqBy, SoftirqRecord, ThreadRecord};
use tardy_model::verdict::{Figure, Level, Verdict};

/// `policy`: a thread did not get the scheduling policy, priority or CPU it asked for, or its
/// memory is not locked.
pub(super) const POLICY: Rule = Rule { id: "policy", spoils: Spoils::Measuring, judge: policy };

/// True if class and priority are the same; a deadline's parameters are rounded by the kernel, so
/// its class is compared.
fn same(asked: &str, granted: &str) -> bool {
    let parts = |policy: &str| {
        let (class, parameter) = policy.trim().split_once(':').unwrap_or((policy.trim(), ""));
        let class = class.to_ascii_lowercase();
        let parameter = if class == "deadline" { String::new() } else { parameter.trim().to_owned() };
        (class, parameter)
    };
    parts(asked) == parts(granted)
}

fn cpus(affinity: &[u32]) -> String {
    if affinity.is_empty() { "none".to_owned() } else { says::list(affinity) }
}

/// What a thread was not given.
fn missing(name: &str, record: &ThreadRecord) -> Option<String> {
    let mut parts = Vec::new();
    if !same(&record.policy_asked, &record.policy_granted) {
        let granted = if record.policy_granted.is_empty() { "nothing" } else { &record.policy_granted };
        parts.push(format!("asked for policy {} and has {granted}", record.policy_asked));
    }
    if let Some(cpu) = record.cpu_asked.filter(|cpu| record.affinity != [*cpu]) {
        parts.push(format!("asked for CPU {cpu} and may run on CPU {}", cpus(&record.affinity)));
    }
    (!parts.is_empty()).then(|| format!("{name} {}", parts.join(", ")))
}

fn policy(evidence: &Evidence<'_>) -> Vec<Verdict> {
    let ours: Vec<(String, &ThreadRecord)> = evidence.threads().map(|thread| (thread.name(), thread.record)).collect();
    // QEMU locks no memory, and nobody asks it to.
    let of_machines = evidence.record.placement.machine_threads.iter().map(|(name, record)| (name.clone(), record));
    let all = ours.iter().cloned().chain(of_machines);
    let (spoilt, whys): (Vec<_>, Vec<_>) =
        all.filter_map(|(name, record)| missing(&name, record).map(|why| ((name, record), why))).unzip();
    let unlocked: Vec<_> = ours.into_iter().filter(|(_, record)| !record.memory_locked).collect();
    let (level, threads, mut says) = if !spoilt.is_empty() {
        (Level::Invalid, spoilt, whys.join("; "))
    } else if !unlocked.is_empty() {
        let names: Vec<String> = unlocked.iter().map(|(name, _)| name.clone()).collect();
        let says = format!("the memory of {} is not locked: the tail may contain a page fault", says::list(&names));
        (Level::Warning, unlocked, says)
    } else {
        return Vec::new();
    };
    let refused: Vec<&String> = threads.iter().flat_map(|(_, record)| &record.refused).collect();
    if let Some(first) = refused.first() {
        says = format!("{says} ({first})");
    }
    let each = |of: &dyn Fn(&str, &ThreadRecord) -> Figure| {
        Figure::List(threads.iter().map(|(name, record)| of(name, record)).collect())
    };
    let cpu_asked = |record: &ThreadRecord| record.cpu_asked.map_or_else(|| "any".into(), Figure::from);
    vec![
        Verdict::new(POLICY.id, level, says)
            .with("threads", each(&|name, _| name.into()))
            .with("policy_asked", each(&|_, record| record.policy_asked.as_str().into()))
            .with("policy_granted", each(&|_, record| record.policy_granted.as_str().into()))
            .with("cpu_asked", each(&|_, record| cpu_asked(record)))
            .with("cpus_granted", each(&|_, record| cpus(&record.affinity).into()))
            .with("memory_locked", each(&|_, record| record.memory_locked.to_string().into()))
            .with("refused", Figure::List(refused.into_iter().map(|why| why.as_str().into()).collect())),
    ]
}

/// `softirq`: packets that arrived at a station were not taken in as the experiment asked.
pub(super) const SOFTIRQ: Rule = Rule { id: "softirq", spoils: Spoils::Measuring, judge: softirq };

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
    // A socket of AF_XDP on a veth has no NAPI id although its packets take NAPI: the XDP program
    // runs in nothing else there.
    let has_id = |thread: &Thread<'_>| thread.of.xdp.is_none();
    let receives = |thread: &Thread<'_>| station.receivers.contains(&thread.name()) && has_id(thread);
    let none = evidence.threads().find(|thread| receives(thread) && thread.record.napi_id == Some(0));
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
    let host = |of| placement::host(evidence.record, of);
    let (cpu, on) = (station.cpu?, host(station));
    let took = placement::work_at(evidence.record, on.cpu(cpu))?.packets;
    let all = evidence.record.placement.softirq.values();
    let there = all.filter(|other| other.cpu == Some(cpu) && host(other) == on);
    let came = there.map(|other| other.packets).fold(0, u64::saturating_add);
    let says = || {
        format!("CPU {cpu} took in {took} packets, and at least {came} came to the receivers that asked for this CPU")
    };
    ((took as f64) < came as f64 * MOST).then(|| (says(), took, came))
}

fn softirq(evidence: &Evidence<'_>) -> Vec<Verdict> {
    if evidence.broke_off() {
        return Vec::new();
    }
    let found = evidence.record.placement.softirq.iter().filter_map(|(name, station)| {
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
        let mut verdict = Verdict::new(SOFTIRQ.id, Level::Invalid, says)
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
    found.collect()
}

/// `steal`: the hypervisor took CPUs away on which measuring threads ran.
pub(super) const STEAL: Rule = Rule { id: "steal", spoils: Spoils::Measuring, judge: steal };

/// From this part of the limit on it is a warning: by default 1 % of the time, and p99.
const STEAL_WARNS: f64 = 0.1;

fn steal(evidence: &Evidence<'_>) -> Vec<Verdict> {
    evidence.each_host(steal_on_host)
}

fn steal_on_host(evidence: &Evidence<'_>, host: TrialHost<'_>) -> Vec<Verdict> {
    let limit = evidence.settings.share(STEAL.id);
    let mut verdicts = Vec::new();
    for at in evidence.cpus(host) {
        let Some(times) = evidence.cpu(at) else { continue };
        let total = times.busy_ns.saturating_add(times.idle_ns).saturating_add(times.steal_ns);
        if times.steal_ns <= TICKS_NS || total <= 0 {
            continue;
        }
        let share = times.steal_ns as f64 / total as f64;
        if share < limit * STEAL_WARNS {
            continue;
        }
        let mut says = format!("the hypervisor took {} of CPU {} away during the trial", says::share(share), at.cpu);
        let level = match evidence.exact {
            // The hypervisor is the guest here: its one CPU had the rest of the path to do.
            true => {
                says += ", for the guest's own part of the path: it has one CPU, and nothing else runs there";
                Level::Note
            }
            false if share >= limit => Level::Invalid,
            false => Level::Warning,
        };
        verdicts.push(
            Verdict::new(STEAL.id, level, says)
                .with("cpu", at.cpu)
                .with("steal_share", share)
                .with("steal_ns", times.steal_ns)
                .with("limit_share", limit),
        );
    }
    verdicts
}

/// `other-runs`: another run of tardy went on at the same time.
pub(super) const OTHER_RUNS: Rule = Rule { id: "other-runs", spoils: Spoils::Measuring, judge: other_runs };

fn other_runs(evidence: &Evidence<'_>) -> Vec<Verdict> {
    evidence.each_host(other_runs_on_host)
}

fn other_runs_on_host(evidence: &Evidence<'_>, host: TrialHost<'_>) -> Vec<Verdict> {
    let others = evidence.states(host).map_or(0, |[before, after]| before.other_runs.max(after.other_runs));
    if others == 0 {
        return Vec::new();
    }
    let says = format!("{} of tardy shared the machine", says::count(others.into(), "other run", "other runs"));
    vec![Verdict::new(OTHER_RUNS.id, Level::Note, says).with("other_runs", others)]
}

/// `pm-qos`: the bound on the CPUs' wake-up latency was changed during the trial.
pub(super) const PM_QOS: Rule = Rule { id: "pm-qos", spoils: Spoils::Measuring, judge: pm_qos };

fn pm_qos(evidence: &Evidence<'_>) -> Vec<Verdict> {
    let mut verdicts = evidence.each_host(pm_qos_on_host);
    let bound = evidence.record.placement.wake_up.as_ref();
    if let Some(bound) = bound.filter(|bound| !bound.without_idle_states.is_empty()) {
        let hosts = bound.without_idle_states.join(", ");
        let says = format!("cpu.dma_latency has no effect on {hosts}, which has no idle states (cpuidle)");
        verdicts.push(Verdict::new(PM_QOS.id, Level::Note, says).with("asked_us", i64::from(bound.asked_us)));
    }
    verdicts
}

/// A bound was asked for, and the one in effect could not be read.
fn unread_bound(asked_us: i32) -> Option<Verdict> {
    let says = format!(
        "cpu.dma_latency asks for {asked_us} µs, and /dev/cpu_dma_latency could not be read before and after the trial: nothing \
         shows that the bound was in effect"
    );
    Some(Verdict::new(PM_QOS.id, Level::Warning, says).with("asked_us", i64::from(asked_us)))
}

/// `bpf-jit`: whether the kernel compiles BPF programs was changed during the trial.
pub(super) const BPF_JIT: Rule = Rule { id: "bpf-jit", spoils: Spoils::Measuring, judge: bpf_jit };

fn bpf_jit(evidence: &Evidence<'_>) -> Vec<Verdict> {
    evidence.each_host(|evidence, host| {
        let found = evidence.states(host).map(|states| states.map(|state| state.bpf_jit));
        let Some([Some(before), Some(after)]) = found else { return Vec::new() };
        if before == after {
            return Vec::new();
        }
        let says = format!(
            "net.core.bpf_jit_enable went from {before} to {after}: programs that were loaded before stay as they were, and \
             what is loaded now is not like them"
        );
        let verdict = Verdict::new(BPF_JIT.id, Level::Warning, says);
        vec![verdict.with("before", i64::from(before)).with("after", i64::from(after))]
    })
}

/// `PM_QOS_CPU_LATENCY_DEFAULT_VALUE` in include/linux/pm_qos.h, µs: nobody asks for a bound.
const NO_BOUND_US: i32 = 2_000_000_000;

/// A bound for a sentence.
fn bound(us: i32) -> String {
    if us == NO_BOUND_US { "no bound".to_owned() } else { format!("{us} µs") }
}

fn pm_qos_on_host(evidence: &Evidence<'_>, host: TrialHost<'_>) -> Vec<Verdict> {
    let bounds = evidence.states(host).map(|states| states.map(|state| state.cpu_dma_latency_us));
    let asked = evidence.record.placement.wake_up.as_ref();
    // Where there are no idle states the bound has no effect, and that is reported.
    let unread = || unread_bound(asked.filter(|bound| bound.without_idle_states.is_empty())?.asked_us);
    let Some([Some(before), Some(after)]) = bounds else { return unread().into_iter().collect() };
    let verdict = |says: String| {
        let verdict = Verdict::new(PM_QOS.id, Level::Warning, says);
        verdict.with("before_us", i64::from(before)).with("after_us", i64::from(after))
    };
    if before != after {
        let says = format!("the bound on CPU wake-up latency (PM QoS) went from {} to {}", bound(before), bound(after));
        return vec![verdict(says)];
    }
    match asked.map(|bound| bound.asked_us).filter(|asked| *asked != after) {
        // The kernel takes the least of all bounds: somebody else asks for less.
        Some(asked) => vec![verdict(format!(
            "the bound on CPU wake-up latency (PM QoS) was {}, and cpu.dma_latency asks for {asked} µs",
            bound(after)
        ))],
        None => Vec::new(),
    }
}
