// SPDX-License-Identifier: MIT OR Apache-2.0
//! `steal`: the hypervisor took CPUs away on which measuring threads ran.

use super::evidence::TICKS_NS;
use super::{Evidence, Rule, Spoils};
use crate::says;
use tardy_model::verdict::{Level, Verdict};

pub(super) const RULE: Rule = Rule { id: "steal", spoils: Spoils::Measuring, judge };

/// From this part of the limit on it is a warning: by default 1 % of the time, and p99.
const WARNS: f64 = 0.1;

fn judge(evidence: &Evidence<'_>) -> Vec<Verdict> {
    evidence.each_host(on_host)
}

fn on_host(evidence: &Evidence<'_>) -> Vec<Verdict> {
    let limit = evidence.settings.share(RULE.id);
    let mut verdicts = Vec::new();
    for cpu in evidence.cpus() {
        let Some(times) = evidence.cpu(cpu) else { continue };
        let total = times.busy_ns.saturating_add(times.idle_ns).saturating_add(times.steal_ns);
        if times.steal_ns <= TICKS_NS || total <= 0 {
            continue;
        }
        let share = times.steal_ns as f64 / total as f64;
        if share < limit * WARNS {
            continue;
        }
        let level = if share >= limit { Level::Invalid } else { Level::Warning };
        let says = format!("the hypervisor took {} of CPU {cpu} away during the trial", says::share(share));
        verdicts.push(
            Verdict::new(RULE.id, level, says)
                .with("cpu", cpu)
                .with("steal_share", share)
                .with("steal_ns", times.steal_ns)
                .with("limit_share", limit),
        );
    }
    verdicts
}
