// SPDX-License-Identifier: MIT OR Apache-2.0
//! `policy`: a thread did not get the scheduling policy, priority or CPU it asked for, or its
//! memory is not locked.

use super::{Evidence, Rule, Spoils, evidence::Thread};
use crate::says;
use tardy_model::verdict::{Figure, Level, Verdict};

pub(super) const RULE: Rule = Rule { id: "policy", spoils: Spoils::Measuring, judge };

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

/// What one thread was not given.
fn missing(thread: &Thread<'_>) -> Option<String> {
    let record = thread.record;
    let mut parts = Vec::new();
    if !same(&record.policy_asked, &record.policy_granted) {
        let granted = if record.policy_granted.is_empty() { "nothing" } else { &record.policy_granted };
        parts.push(format!("asked for policy {} and has {granted}", record.policy_asked));
    }
    if let Some(cpu) = record.cpu_asked.filter(|cpu| record.affinity != [*cpu]) {
        parts.push(format!("asked for CPU {cpu} and may run on CPU {}", cpus(&record.affinity)));
    }
    (!parts.is_empty()).then(|| format!("{} {}", thread.name(), parts.join(", ")))
}

fn judge(evidence: &Evidence<'_>) -> Vec<Verdict> {
    let spoilt: Vec<(Thread<'_>, String)> =
        evidence.threads().filter_map(|thread| missing(&thread).map(|what| (thread, what))).collect();
    let unlocked: Vec<Thread<'_>> = evidence.threads().filter(|thread| !thread.record.memory_locked).collect();
    let (level, threads, mut says) = if !spoilt.is_empty() {
        let says: Vec<String> = spoilt.iter().map(|(_, what)| what.clone()).collect();
        (Level::Invalid, spoilt.iter().map(|(thread, _)| *thread).collect::<Vec<_>>(), says.join("; "))
    } else if !unlocked.is_empty() {
        let names: Vec<String> = unlocked.iter().map(Thread::name).collect();
        let says = format!("the memory of {} is not locked: a page fault may stand in the tail", says::list(&names));
        (Level::Warning, unlocked, says)
    } else {
        return Vec::new();
    };
    let refused: Vec<&String> = threads.iter().flat_map(|thread| &thread.record.refused).collect();
    if let Some(first) = refused.first() {
        says = format!("{says} ({first})");
    }
    let each = |of: &dyn Fn(&Thread<'_>) -> Figure| Figure::List(threads.iter().map(of).collect());
    vec![
        Verdict::new(RULE.id, level, says)
            .with("threads", each(&|thread| thread.name().into()))
            .with("policy_asked", each(&|thread| thread.record.policy_asked.as_str().into()))
            .with("policy_granted", each(&|thread| thread.record.policy_granted.as_str().into()))
            .with(
                "cpu_asked",
                each(&|thread| match thread.record.cpu_asked {
                    Some(cpu) => cpu.into(),
                    None => "any".into(),
                }),
            )
            .with("cpus_granted", each(&|thread| cpus(&thread.record.affinity).into()))
            .with("memory_locked", each(&|thread| thread.record.memory_locked.to_string().into()))
            .with("refused", Figure::List(refused.into_iter().map(|why| why.as_str().into()).collect())),
    ]
}
