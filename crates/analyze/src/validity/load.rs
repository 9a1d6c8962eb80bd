// SPDX-License-Identifier: MIT OR Apache-2.0
//! `load`: a background load died, never began, was not given its CPU or policy, or fell short of
//! what it was asked for. What was measured then is not what the experiment names.

use super::{Evidence, Rule, Spoils, TrialHost};
use crate::says;
use std::collections::BTreeSet;
use tardy_model::load::{InstanceRecord, LoadKind, LoadRecord, SideRecord};
use tardy_model::machine::TaskTime;
use tardy_model::verdict::{Figure, Level, Verdict};

pub(super) const RULE: Rule = Rule { id: "load", spoils: Spoils::Measuring, judge };

fn judge(evidence: &Evidence<'_>) -> Vec<Verdict> {
    // Where something broke the trial off, its loads were cut too.
    if evidence.broke_off() {
        return Vec::new();
    }
    evidence.record.loads.iter().filter_map(|(name, record)| of_load(name, record)).collect()
}

/// One verdict for each load: the fault of its first faulty instance, with how many have one.
fn of_load(name: &str, record: &LoadRecord) -> Option<Verdict> {
    let faults: Vec<(usize, Fault)> =
        record.instances.iter().enumerate().filter_map(|(n, instance)| Some((n, fault(record, instance)?))).collect();
    let (n, first) = faults.first()?;
    let which = if record.instances.len() > 1 { format!(", instance {}", n + 1) } else { String::new() };
    let others = match faults.len() - 1 {
        0 => String::new(),
        others => format!("; {others} more of its {} instances have a fault too", record.instances.len()),
    };
    let says = format!("load {name} ({}{which}) {}{others}", record.kind.name(), first.says);
    let verdict = Verdict::new(RULE.id, Level::Invalid, says)
        .with("load", name)
        .with("kind", record.kind.name())
        .with("instance", (n + 1) as u64)
        .with("instances_at_fault", faults.len() as u64);
    Some(first.evidence.iter().fold(verdict, |verdict, (name, figure)| verdict.with(name, figure.clone())))
}

struct Fault {
    says: String,
    evidence: Vec<(&'static str, Figure)>,
}

fn fault(record: &LoadRecord, instance: &InstanceRecord) -> Option<Fault> {
    broke(instance)
        .or_else(|| exited(instance))
        .or_else(|| never(record, instance))
        .or_else(|| threads(record, instance))
        .or_else(|| nothing(record, instance))
        .or_else(|| duty(record, instance))
        .or_else(|| short(record, instance))
}

/// An instant of the trial, by its base time.
fn when(ns: i64) -> String {
    format!("{:.3} s {} the base time", ns.unsigned_abs() as f64 / 1e9, if ns < 0 { "before" } else { "after" })
}

/// A connection or a program that failed.
fn broke(instance: &InstanceRecord) -> Option<Fault> {
    let (role, broke) = instance.sides().find_map(|(role, side)| Some((role, side.broke.as_ref()?)))?;
    let errno = match broke.errno {
        0 => String::new(),
        errno => format!(" with errno {errno}{}", meaning(errno)),
    };
    Some(Fault {
        says: format!("broke at `{role}` {}: {}{errno}", when(broke.at_ns), broke.what),
        evidence: vec![
            ("side", role.into()),
            ("errno", i64::from(broke.errno).into()),
            ("at_ns", broke.at_ns.into()),
            ("what", broke.what.as_str().into()),
        ],
    })
}

/// What Linux means by the numbers that sockets and programs give.
fn meaning(errno: i32) -> &'static str {
    match errno {
        2 => " (there is no such program)",
        13 => " (not permitted to run it)",
        32 => " (the other side is gone)",
        100 | 101 => " (the network is down)",
        103 => " (the connection was aborted)",
        104 => " (the connection was reset)",
        110 => " (the connection timed out)",
        111 => " (the other side refused)",
        113 => " (no route to the other side)",
        _ => "",
    }
}

/// A program that ended before its stop. The one at `to` may end when its caller was stopped.
fn exited(instance: &InstanceRecord) -> Option<Fault> {
    let early = |(role, side): &(&'static str, &SideRecord)| {
        let caller_stopped = instance.from.exit.as_ref().is_some_and(|exit| exit.stopped);
        let behind_it = *role == "to" && caller_stopped && side.ended_ns >= instance.from.ended_ns;
        side.exit.as_ref().is_some_and(|exit| !exit.stopped) && !behind_it
    };
    let (role, side) = instance.sides().find(early)?;
    let exit = side.exit.as_ref()?;
    let how = match (exit.code, exit.signal) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "an unknown status".to_owned(),
    };
    let said = exit.last_lines.last().map(|line| format!("; its last line: {line}")).unwrap_or_default();
    Some(Fault {
        says: format!("ended by itself at `{role}` {}, before its stop, with {how}{said}", when(side.ended_ns)),
        evidence: vec![
            ("side", role.into()),
            ("exit_code", exit.code.map_or(Figure::from("none"), |code| i64::from(code).into())),
            ("at_ns", side.ended_ns.into()),
            ("last_lines", Figure::List(exit.last_lines.iter().map(|line| line.as_str().into()).collect())),
        ],
    })
}

fn never(record: &LoadRecord, instance: &InstanceRecord) -> Option<Fault> {
    if instance.span(&record.kind).is_some() {
        return None;
    }
    Some(Fault {
        says: format!("never began: the trial ended before its start, {}", when(record.start_ns)),
        evidence: vec![("start_ns", record.start_ns.into())],
    })
}

/// A thread that was not given what was asked.
fn threads(record: &LoadRecord, instance: &InstanceRecord) -> Option<Fault> {
    instance.sides().find_map(|(role, side)| {
        // A CPU's number means something on its host only.
        let on = record.host(role).map_or_else(String::new, |host| format!(" on {host}"));
        let thread = &side.thread;
        let class = |policy: &str| policy.split(':').next().unwrap_or("").to_owned();
        let deadline = class(&thread.policy_asked) == "deadline";
        let policy = match deadline {
            true => class(&thread.policy_asked) == class(&thread.policy_granted),
            false => thread.policy_asked == thread.policy_granted,
        };
        let cpu = thread.cpu_asked.is_none_or(|cpu| thread.affinity == [cpu]);
        if policy && cpu {
            return None;
        }
        let what = match policy {
            false => format!("asked for policy {} and has {}", thread.policy_asked, thread.policy_granted),
            true => {
                let asked = thread.cpu_asked.map_or("any".to_owned(), |cpu| cpu.to_string());
                format!("asked for CPU {asked} and may run on CPU {}", says::list(&thread.affinity))
            }
        };
        Some(Fault {
            says: format!("was not given its place at `{role}`{on}: it {what}"),
            evidence: vec![
                ("side", role.into()),
                ("policy_asked", thread.policy_asked.as_str().into()),
                ("policy_granted", thread.policy_granted.as_str().into()),
                ("refused", Figure::List(thread.refused.iter().map(|why| why.as_str().into()).collect())),
            ],
        })
    })
}

/// Traffic of which nothing arrived. One that comes in bursts may have had none.
fn nothing(record: &LoadRecord, instance: &InstanceRecord) -> Option<Fault> {
    let kind = &record.kind;
    let sent = instance.sender(kind).sent_bytes;
    let received = instance.receiver(kind)?.received_bytes;
    let moves = match kind {
        LoadKind::TcpStream { .. }
        | LoadKind::TcpMaerts { .. }
        | LoadKind::TcpRr { .. }
        | LoadKind::UdpFlood { .. }
        | LoadKind::Camera { .. } => true,
        LoadKind::Sporadic { .. } => sent > 0,
        LoadKind::Cpu { .. } | LoadKind::Memory { .. } | LoadKind::Command { .. } => false,
    };
    (moves && received == 0).then(|| Fault {
        says: format!("moved nothing: none of the {sent} bytes that it sent arrived"),
        evidence: vec![("sent_bytes", sent.into()), ("received_bytes", received.into())],
    })
}

fn duty(record: &LoadRecord, instance: &InstanceRecord) -> Option<Fault> {
    let (asked, busy) = (record.kind.asked().duty?, instance.from.busy_ns?);
    let LoadKind::Cpu { period, .. } = record.kind else { return None };
    let (began, ended) = instance.span(&record.kind)?;
    let worked = ended.saturating_sub(began);
    // The last period may be cut off in its idle part or in its busy one.
    let least = asked * (1.0 - record.shortfall) * (worked.saturating_sub(period.0)) as f64;
    if worked <= 0 || busy as f64 >= least {
        return None;
    }
    let got = busy as f64 / worked as f64;
    Some(Fault {
        says: format!("computed for {} of the time, {} were asked for", says::share(got), says::share(asked)),
        evidence: vec![
            ("asked_share", asked.into()),
            ("got_share", got.into()),
            ("shortfall_share", record.shortfall.into()),
        ],
    })
}

fn short(record: &LoadRecord, instance: &InstanceRecord) -> Option<Fault> {
    let asked = record.kind.asked();
    let bit_s = asked.bit_s?;
    let (began, ended) = instance.span(&record.kind)?;
    let worked = ended.saturating_sub(began);
    // Over TCP a socket's buffer swallows a little that never goes out; all that does arrives.
    let sent = instance.sender(&record.kind).sent_bytes;
    let sent = match (record.kind.is_tcp(), instance.receiver(&record.kind)) {
        (true, Some(receiver)) => sent.min(receiver.received_bytes),
        _ => sent,
    };
    let due = bit_s as f64 / 8.0 * worked as f64 / 1e9;
    // What is sent at once may just not have been due, or been under way.
    if (sent.saturating_add(asked.grain_bytes)) as f64 >= due * (1.0 - record.shortfall) {
        return None;
    }
    let got = sent as f64 * 8e9 / worked.max(1) as f64;
    Some(Fault {
        says: format!("sent {:.1} Mbit/s of the {:.1} Mbit/s that were asked for", got / 1e6, bit_s as f64 / 1e6),
        evidence: vec![
            ("asked_bit_s", bit_s.into()),
            ("got_bit_s", got.into()),
            ("shortfall_share", record.shortfall.into()),
            ("sent_bytes", sent.into()),
            ("worked_ns", worked.into()),
        ],
    })
}

/// Whose time on a measuring thread's CPU is no surprise in a trial with loads: theirs, that of
/// what they started, and that of the kernel's threads that carry their packets.
pub(super) struct Expected {
    tids: BTreeSet<u32>,
}

/// Those of a host; `None` if no load has a side there.
pub(super) fn expected(evidence: &Evidence<'_>, host: TrialHost<'_>) -> Option<Expected> {
    let name = host.name();
    let loads = evidence.record.loads.values().filter(|load| load.is_on(name));
    loads.clone().next()?;
    let sides = loads.flat_map(|load| load.sides_on(name));
    let of_programs = evidence.states(host).into_iter().flat_map(|[_, after]| after.load_tasks.iter().copied());
    Some(Expected { tids: sides.map(|(_, side)| side.thread.tid).chain(of_programs).collect() })
}

impl Expected {
    /// True if the task is one of those.
    pub fn holds(&self, tid: u32, task: &TaskTime) -> bool {
        self.tids.contains(&tid)
            || ["ksoftirqd/", "napi/", "kworker/"].iter().any(|kernel| task.name.starts_with(kernel))
    }
}
