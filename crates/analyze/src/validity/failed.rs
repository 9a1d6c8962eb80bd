// SPDX-License-Identifier: MIT OR Apache-2.0
//! `failed`: something broke during the trial.

use super::{Evidence, Rule, Spoils};
use tardy_model::verdict::{Level, Verdict};

pub(super) const RULE: Rule = Rule { id: "failed", spoils: Spoils::Measuring, judge };

fn judge(evidence: &Evidence<'_>) -> Vec<Verdict> {
    let told = |why: &String| {
        let says = format!("trial {} failed: {why}", evidence.record.n);
        Verdict::new(RULE.id, Level::Invalid, says).with("reason", why.as_str())
    };
    evidence.record.failed.iter().map(told).collect()
}
