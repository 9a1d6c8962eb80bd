// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rules about CPUs on which a thread, a load or others were not alone: one that was to be apart
//! and was not, others that ran there, and a load that was left too little.

use super::cpu_use::{CpuUse, Harm, ran_ns};
use super::{Evidence, Rule, Spoils, TICKS_NS, Thread, TrialCpu, TrialHost, cpu_use};
use crate::{placement, says};
use std::collections::{BTreeMap, BTreeSet};
use tardy_model::load::{LoadRecord, SideRecord};
use tardy_model::placement::CpuAsked;
use tardy_model::result::{CpuUser, TrialResult};
use tardy_model::stream::Policy;
use tardy_model::verdict::{Figure, Level, Verdict};

// `shared-cpu`: a thread was to have another CPU than somebody else, and actually they shared
// one.

pub(super) const SHARED_CPU: Rule = Rule { id: "shared-cpu", spoils: Spoils::Measuring, judge: shared_cpu };

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

fn verdict(level: Level, at: TrialCpu<'_>, threads: &[&str], says: String) -> Verdict {
    Verdict::new(SHARED_CPU.id, level, says)
        .with("cpu", at.cpu)
        .with("threads", Figure::List(threads.iter().map(|name| (*name).into()).collect()))
}

/// The CPUs on which the plan put the threads of a host, by the threads' names.
fn planned(evidence: &Evidence<'_>, host: TrialHost<'_>) -> BTreeMap<String, u32> {
    let pinned = |thread: Thread<'_>| Some((thread.name(), thread.record.cpu_asked?));
    let mut planned: BTreeMap<String, u32> = evidence.threads_on(host).filter_map(pinned).collect();
    for (load, record) in &evidence.record.loads {
        let sides = record.sides_on(host.name());
        planned.extend(sides.filter_map(|(role, side)| Some((format!("{load}.{role}"), side.thread.cpu_asked?))));
    }
    planned
}

/// Threads that ran on the CPU of the very one from which they were to differ, and softirq there.
/// Where the plan itself gave both one CPU there was no other, which the run says once.
fn asked_apart(evidence: &Evidence<'_>, host: TrialHost<'_>, placed: &Placed<'_>) -> Vec<Verdict> {
    let asked = &evidence.record.placement;
    let planned = planned(evidence, host);
    let threads = asked
        .asked
        .iter()
        .filter_map(|(name, asked)| Some((name.clone(), asked, planned.get(name).copied(), placed.get(name)?.clone())));
    let softirq = asked.softirq.iter().filter(|(_, softirq)| placement::host(evidence.record, softirq) == host);
    let softirq = softirq.map(|(station, softirq)| {
        let ran = softirq.threads.iter().filter(|thread| thread.switches > 0).filter_map(|thread| thread.cpu);
        let cpus = softirq.cpu.into_iter().chain(ran).map(|cpu| host.cpu(cpu)).collect();
        (format!("softirq of {station}"), &softirq.asked, softirq.cpu, cpus)
    });
    let mut verdicts = Vec::new();
    for (name, asked, own, cpus) in threads.chain(softirq).filter(|(_, asked, ..)| asked.cpu == "different") {
        let Some(of) = &asked.of else { continue };
        if own.is_some() && own == planned.get(of).copied() {
            continue;
        }
        let Some(other) = placed.get(of) else { continue };
        if let Some(at) = cpus.intersection(other).next() {
            let says = format!("{name} is to have another CPU than {of}, and both ran on CPU {}", at.cpu);
            verdicts.push(verdict(Level::Warning, *at, &[&name, of], says));
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
            // Who shares it with that very end was named already, and has no CPU apart from it.
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
            Some(verdict(Level::Note, at, &names, says))
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
        let verdict = verdict(level, at, &here, says).with("packets", work.packets).with("own_at_most", own);
        verdicts.push(verdict.with("net_rx", work.net_rx).with("interrupts", work.interrupts));
    }
    verdicts
}

fn shared_cpu(evidence: &Evidence<'_>) -> Vec<Verdict> {
    evidence.each_host(shared_on_host)
}

fn shared_on_host(evidence: &Evidence<'_>, host: TrialHost<'_>) -> Vec<Verdict> {
    let placed = placed(evidence, host);
    let mut verdicts = asked_apart(evidence, host, &placed);
    verdicts.extend(neighbours(evidence, &placed));
    verdicts.extend(packets(evidence, host, &placed));
    verdicts
}

// `competing-cpu`: others ran on the CPUs of the measuring threads. That they were there is worth
// a note; how much it weighs follows from how long the threads waited for them.

pub(super) const COMPETING_CPU: Rule = Rule { id: COMPETING, spoils: Spoils::Measuring, judge: competing_cpu };
pub(crate) const COMPETING: &str = "competing-cpu";

/// From this share of a CPU on others are worth knowing: a fiftieth is what a desktop's services
/// take.
const NOTED: f64 = 0.02;
/// From this part of the limit on it is a warning. With the default limit that is 1 % of the time,
/// and p99.
const WARNS: f64 = 0.1;
/// The sentence names at most this many tasks.
const NAMED: usize = 3;
/// If the tasks that are named explain less than this part, the rest is named too.
const MOST: f64 = 0.75;
/// A task below this part of what others ran explains nothing.
const PART: f64 = 0.1;

/// The tasks that explain most of what others ran.
fn named(used: &CpuUse) -> Vec<&CpuUser> {
    let explains = |user: &&CpuUser| user.run_ns as f64 >= used.others_ns as f64 * PART;
    used.users.iter().filter(explains).take(NAMED).collect()
}

fn name(user: &CpuUser) -> String {
    match user.ended {
        0 => user.name.clone(),
        ended => format!("{} ({ended} of them ended)", user.name),
    }
}

/// Who ran, each with its share of the time.
fn who(cpu: u32, used: &CpuUse) -> String {
    let share = |ns: i64| says::share(ns as f64 / used.elapsed_ns as f64);
    let users = named(used);
    // A task may have run elsewhere too: here it ran no longer than all others together.
    let mut who: Vec<(String, i64)> = users.iter().map(|user| (name(user), user.run_ns.min(used.others_ns))).collect();
    // The rest must not be blamed on those that are known.
    let known = users.iter().map(|user| user.run_ns).fold(0, i64::saturating_add);
    if (known as f64) < used.others_ns as f64 * MOST {
        let rest = if used.ended_known { "unnamed work" } else { "tasks that have ended" };
        who.push((rest.to_owned(), used.others_ns.saturating_sub(known)));
    }
    let all = share(used.others_ns);
    match who.as_slice() {
        [(one, _)] => format!("CPU {cpu} also ran {one} for {all} of the time"),
        // Some of that was elsewhere, and how much of each is not known.
        several if known > used.others_ns => {
            let names: Vec<&str> = several.iter().map(|(name, _)| name.as_str()).collect();
            format!("CPU {cpu} also ran others for {all} of the time: {}, which ran elsewhere too", names.join(", "))
        }
        several => {
            let each: Vec<String> = several.iter().map(|(name, ran)| format!("{name} {}", share(*ran))).collect();
            format!("CPU {cpu} also ran others for {all} of the time: {}", each.join(", "))
        }
    }
}

/// What that did to the thread that waited longest.
fn harmed(harm: &Harm<'_>, used: &CpuUse) -> String {
    let share = |ns: i64| says::share(ns as f64 / used.elapsed_ns as f64);
    let (name, policy) = (harm.thread.name(), &harm.thread.record.policy_granted);
    match harm.thread.record.wait_ns {
        Some(waited) => {
            // It is a limit from above: what else it waited for is not known.
            let theirs = match harm.waited_ns {
                0 => "none of it because of them: this run's own threads and loads account for it".to_owned(),
                ns if share(ns) == share(waited) => "possibly all of it because of them".to_owned(),
                ns => format!("up to {} because of them", share(ns)),
            };
            format!("{name} ({policy}) waited for a CPU for {} of the time, {theirs}", share(waited))
        }
        None => format!("how long {name} ({policy}) waited for them is not known"),
    }
}

/// The share of the time, over these trials, in which threads of a stream waited for others at
/// most. Each CPU names the thread that waited longest, and ends on two CPUs wait for themselves.
pub(crate) fn waited_share<'t>(stream: &str, trials: impl Iterator<Item = &'t TrialResult>) -> f64 {
    let is_of_stream = |verdict: &&Verdict| match verdict.evidence.get("thread") {
        Some(Figure::Text(thread)) => verdict.id == COMPETING && owner(thread) == stream,
        _ => false,
    };
    let share = |verdict: &Verdict| match verdict.evidence.get("waited_share") {
        Some(Figure::Float(share)) => *share,
        _ => 0.0,
    };
    let of_trial = |trial: &TrialResult| trial.verdicts.iter().filter(is_of_stream).map(share).sum::<f64>();
    let (sum, count) = trials.fold((0.0, 0u32), |(sum, count), trial| (sum + of_trial(trial), count + 1));
    sum / f64::from(count.max(1))
}

fn competing_cpu(evidence: &Evidence<'_>) -> Vec<Verdict> {
    evidence.each_host(competing_on_host)
}

fn competing_on_host(evidence: &Evidence<'_>, host: TrialHost<'_>) -> Vec<Verdict> {
    let limit = evidence.settings.share(COMPETING);
    let mut found: Vec<(i64, Verdict)> = Vec::new();
    for at in evidence.cpus(host) {
        let Some(used) = cpu_use::of(evidence, at) else { continue };
        if used.elapsed_ns <= 0 {
            continue;
        }
        if used.others_ns <= TICKS_NS {
            // Who ran is not known so exactly. How long a copying thread waited is.
            let waited = cpu_use::waited_unseen(evidence, at, &used).filter(|(_, share)| *share >= limit * WARNS);
            found.extend(waited.map(|(harm, share)| (harm.waited_ns, unseen(at, &harm, share, limit))));
            continue;
        }
        let share = |ns: i64| ns as f64 / used.elapsed_ns as f64;
        let Some(harm) = cpu_use::worst(evidence, at, &used) else { continue };
        // Where the wait is not known, it may have been as long as others ran, and also none.
        let noted = share(used.others_ns) >= NOTED;
        let level = match share(harm.waited_ns) {
            waited if waited >= limit => Level::Invalid,
            waited if waited >= limit * WARNS && (noted || harm.thread.record.wait_ns.is_some()) => Level::Warning,
            _ if noted => Level::Note,
            _ => continue,
        };
        let says = format!("{}; {}", who(at.cpu, &used), harmed(&harm, &used));
        let users = named(&used);
        let list = |of: fn(&CpuUser) -> Figure| Figure::List(users.iter().map(|user| of(user)).collect());
        let mut verdict = Verdict::new(COMPETING, level, says)
            .with("cpu", at.cpu)
            .with("others_share", share(used.others_ns))
            .with("others_ns", used.others_ns)
            .with("irq_ns", used.irq_ns)
            .with("softirq_ns", used.softirq_ns)
            .with("tasks", list(|user| user.name.as_str().into()))
            .with("tasks_ns", list(|user| user.run_ns.into()))
            .with("tasks_ended", list(|user| user.ended.into()))
            .with("thread", harm.thread.name())
            .with("policy", harm.thread.record.policy_granted.as_str())
            .with("own_ns", harm.own_ns)
            .with("waited_for_others_ns", harm.waited_ns)
            .with("waited_share", share(harm.waited_ns))
            .with("limit_share", limit);
        if let Some(waited) = harm.thread.record.wait_ns {
            verdict = verdict.with("wait_ns", waited);
        }
        found.push((harm.waited_ns, verdict));
    }
    // The worst first.
    found.sort_by_key(|(waited_ns, _)| std::cmp::Reverse(*waited_ns));
    found.into_iter().map(|(_, verdict)| verdict).collect()
}

/// A copying thread waited for others that the kernel's ticks do not show.
fn unseen(at: TrialCpu<'_>, harm: &Harm<'_>, share: f64, limit: f64) -> Verdict {
    let (name, record) = (harm.thread.name(), harm.thread.record);
    let wait_ns = record.wait_ns.unwrap_or(0);
    let says = format!(
        "{name} ({}) waited for CPU {} for {} of its {}, {} of it for others than this run's threads and loads; who they are is not to \
         be seen in so short a trial: take more iterations, or keep others off that CPU",
        record.policy_granted,
        at.cpu,
        says::time(wait_ns),
        says::time(record.over_ns.unwrap_or(0)),
        says::time(harm.waited_ns),
    );
    let level = if share >= limit { Level::Invalid } else { Level::Warning };
    Verdict::new(COMPETING, level, says)
        .with("cpu", at.cpu)
        .with("thread", name)
        .with("policy", record.policy_granted.as_str())
        .with("own_ns", harm.own_ns)
        .with("waited_for_others_ns", harm.waited_ns)
        .with("waited_share", share)
        .with("limit_share", limit)
        .with("wait_ns", wait_ns)
}

/// The evidence of several trials on one CPU, in that of the worst: all the tasks that were named
/// in any, with the time that they ran in all, and between which shares others ran. `others` are
/// the numbers of the other trials.
pub(crate) fn gather(worst: &mut Verdict, all: &[&Verdict], others: &[u32]) {
    let share = |verdict: &&Verdict| match verdict.evidence.get("others_share") {
        Some(Figure::Float(share)) => *share,
        _ => 0.0,
    };
    let (least, most) =
        (all.iter().map(share).fold(f64::INFINITY, f64::min), all.iter().map(share).fold(0.0, f64::max));
    let mut tasks: BTreeMap<&str, i64> = BTreeMap::new();
    for verdict in all {
        let (Some(Figure::List(names)), Some(Figure::List(times))) =
            (verdict.evidence.get("tasks"), verdict.evidence.get("tasks_ns"))
        else {
            continue;
        };
        for (name, time) in names.iter().zip(times) {
            if let (Figure::Text(name), Figure::Int(ns)) = (name, time) {
                let sum = tasks.entry(name).or_default();
                *sum = sum.saturating_add(*ns);
            }
        }
    }
    let mut tasks: Vec<(&str, i64)> = tasks.into_iter().collect();
    tasks.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    let is_named = |name: &str| match worst.evidence.get("tasks") {
        Some(Figure::List(named)) => named.contains(&Figure::from(name)),
        _ => false,
    };
    let more: Vec<&str> = tasks.iter().map(|(name, _)| *name).filter(|name| !is_named(name)).collect();
    if !others.is_empty() {
        let also = if more.is_empty() { String::new() } else { format!(", {} among them", says::list(&more)) };
        let (least, most, trials) = (says::share(least), says::share(most), says::trials(others));
        worst.says = format!(
            "{}; others ran there in {trials} too{also}, over all these trials for {least} to {most} of the time",
            worst.says
        );
    }
    worst.evidence.insert("others_share_least".into(), least.into());
    worst.evidence.insert("others_share_most".into(), most.into());
    worst.evidence.insert("tasks".into(), Figure::List(tasks.iter().map(|(name, _)| (*name).into()).collect()));
    worst.evidence.insert("tasks_ns".into(), Figure::List(tasks.iter().map(|(_, ns)| (*ns).into()).collect()));
    // It is of one trial alone.
    worst.evidence.remove("tasks_ended");
}

// `starved-load`: a background load that is to do as much as it can waited most of its time for a
// CPU that measuring threads had. Figures with it and without it are then the same, and do not
// show what such a load does.

pub(super) const STARVED_LOAD: Rule = Rule { id: "starved-load", spoils: Spoils::Measuring, judge: starved_load };

/// A load is starved if it waited for this part of its time or more.
const STARVED: f64 = 0.5;
/// Measuring threads are the reason if they ran for this part of that wait or more.
const EXPLAINED: f64 = 0.5;

/// A side of an instance that waited.
struct Wait<'a> {
    role: &'static str,
    share: f64,
    wait_ns: i64,
    /// The measuring threads on its CPUs, and what they ran.
    threads: Vec<(Thread<'a>, i64)>,
}

fn starved_load(evidence: &Evidence<'_>) -> Vec<Verdict> {
    if evidence.broke_off() {
        return Vec::new();
    }
    evidence.record.loads.iter().filter_map(|(name, record)| of_load(evidence, name, record)).collect()
}

fn of_load(evidence: &Evidence<'_>, name: &str, record: &LoadRecord) -> Option<Verdict> {
    let asked = record.kind.asked();
    // The background of a copy may fall short by all of it.
    if asked.bit_s.is_some() || (asked.duty.is_some() && record.shortfall < 1.0) {
        // Whether it reached what it was asked for, the rule `load` says.
        return None;
    }
    let sides = record.instances.iter().flat_map(|instance| instance.sides());
    let host = |role: &str| match role {
        "from" => TrialHost::called(record.hosts.from.as_deref()),
        _ => TrialHost::called(record.hosts.to.as_deref()),
    };
    let waits = sides.filter_map(|(role, side)| waited(evidence, host(role), role, side));
    let worst = waits.max_by(|a, b| a.share.total_cmp(&b.share))?;
    let Wait { role, share, wait_ns, threads } = worst;
    let cpus: BTreeSet<TrialCpu<'_>> = threads.iter().flat_map(|(thread, _)| thread.cpus()).collect();
    let names: Vec<String> =
        threads.iter().map(|(thread, _)| format!("{} ({})", thread.name(), thread.record.policy_granted)).collect();
    let are_realtime = threads.iter().any(|(thread, _)| thread.record.policy_granted != Policy::Other.to_string());
    let says = format!(
        "load {name} ({}) waited at `{role}` for {} of its time for a CPU that {} had: it disturbed less than it could; give it or \
         them another CPU{}",
        record.kind.name(),
        says::share(share),
        says::list(&names),
        if are_realtime { ", or the threads policy other" } else { "" },
    );
    let list = |items: Vec<Figure>| Figure::List(items);
    Some(
        Verdict::new(STARVED_LOAD.id, Level::Warning, says)
            .with("load", name)
            .with("kind", record.kind.name())
            .with("side", role)
            .with("wait_ns", wait_ns)
            .with("wait_share", share)
            .with("cpus", list(cpus.into_iter().map(|at| Figure::from(at.cpu)).collect()))
            .with("threads", list(names.into_iter().map(Figure::from).collect()))
            .with("threads_ns", list(threads.iter().map(|(_, ran)| Figure::from(*ran)).collect())),
    )
}

/// `None` if it did not wait for long, or not for measuring threads.
fn waited<'a>(evidence: &Evidence<'a>, host: TrialHost<'_>, role: &'static str, side: &SideRecord) -> Option<Wait<'a>> {
    let wait_ns = side.thread.wait_ns?;
    let worked_ns = side.ended_ns.saturating_sub(side.began_ns?);
    let share = wait_ns as f64 / worked_ns.max(1) as f64;
    if worked_ns <= 0 || share < STARVED {
        return None;
    }
    let is_on_its_cpu = |thread: &Thread<'_>| thread.cpus().iter().any(|at| side.thread.cpus_seen.contains(&at.cpu));
    let [before, after] = evidence.states(host)?;
    let elapsed_ns = after.clocks.monotonic_ns.saturating_sub(before.clocks.monotonic_ns);
    let on_it = evidence.threads_on(host).filter(is_on_its_cpu);
    let threads: Vec<(Thread<'a>, i64)> =
        on_it.filter_map(|thread| Some((thread, ran_ns(&thread, elapsed_ns)?))).collect();
    let ran = threads.iter().map(|(_, ran)| *ran).fold(0, i64::saturating_add);
    let share = share.min(1.0);
    (ran as f64 >= wait_ns as f64 * EXPLAINED).then_some(Wait { role, share, wait_ns, threads })
}
