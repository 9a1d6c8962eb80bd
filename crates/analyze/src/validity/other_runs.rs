// SPDX-License-Identifier: MIT OR Apache-2.0
//! `other-runs`: another run of tardy went on at the same time.

use super::{Evidence, Rule, Spoils};
use crate::says;
use tardy_model::verdict::{Level, Verdict};

pub(super) const RULE: Rule = Rule { id: "other-runs", spoils: Spoils::Measuring, judge };

fn judge(evidence: &Evidence<'_>) -> Vec<Verdict> {
    evidence.each_host(on_host)
}

fn on_host(evidence: &Evidence<'_>) -> Vec<Verdict> {
    let others = evidence.before().other_runs.max(evidence.after().other_runs);
    if others == 0 {
        return Vec::new();
    }
    let says = format!("{} of tardy shared the machine", says::count(others.into(), "other run", "other runs"));
    vec![Verdict::new(RULE.id, Level::Note, says).with("other_runs", others)]
}
