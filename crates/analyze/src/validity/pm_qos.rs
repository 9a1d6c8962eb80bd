// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pm-qos`: the bound on the CPUs' wake-up latency was changed during the trial.

use super::{Evidence, Rule, Spoils};
use tardy_model::verdict::{Level, Verdict};

pub(super) const RULE: Rule = Rule { id: "pm-qos", spoils: Spoils::Measuring, judge };

fn judge(evidence: &Evidence<'_>) -> Vec<Verdict> {
    evidence.each_host(on_host)
}

fn on_host(evidence: &Evidence<'_>) -> Vec<Verdict> {
    let (before, after) = (evidence.before().cpu_dma_latency_us, evidence.after().cpu_dma_latency_us);
    match (before, after) {
        (Some(before), Some(after)) if before != after => {
            let says = format!("the bound on CPU wake-up latency (PM QoS) went from {before} µs to {after} µs");
            let verdict = Verdict::new(RULE.id, Level::Warning, says);
            vec![verdict.with("before_us", i64::from(before)).with("after_us", i64::from(after))]
        }
        _ => Vec::new(),
    }
}
