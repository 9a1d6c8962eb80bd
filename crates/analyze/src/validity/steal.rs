// SPDX-License-Identifier: MIT OR Apache-2.0
//! `steal`: the hypervisor took CPUs away on which measuring threads ran.

use super::evidence::TICKS_NS;
use super::{Evidence, Rule, Spoils};
use crate::says;
use tardy_model::verdict::{Level, Verdict};

pub(super) const RULE: Rule = Rule { id: "steal", spoils: Spoils::Measuring, judge };

/// From this share on it is seen in p99.
const WARNS: f64 = 0.01;
/// From this share on it is the hypervisor that is measured.
const SPOILS: f64 = 0.10;

fn judge(evidence: &Evidence<'_>) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for cpu in evidence.cpus() {
        let Some(times) = evidence.cpu(cpu) else { continue };
        let total = times.busy_ns.saturating_add(times.idle_ns).saturating_add(times.steal_ns);
        if times.steal_ns <= TICKS_NS || total <= 0 {
            continue;
        }
        let share = times.steal_ns as f64 / total as f64;
        if share < WARNS {
            continue;
        }
        let level = if share >= SPOILS { Level::Invalid } else { Level::Warning };
        let says = format!("the hypervisor took {} of CPU {cpu} away during the trial", says::share(share));
        verdicts.push(
            Verdict::new(RULE.id, level, says)
                .with("cpu", cpu)
                .with("steal_share", share)
                .with("steal_ns", times.steal_ns),
        );
    }
    verdicts
}
