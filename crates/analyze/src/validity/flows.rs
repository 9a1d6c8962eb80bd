// SPDX-License-Identifier: MIT OR Apache-2.0
//! A rule about paths that hand packets on by flows: packets without one take another way.

use super::{Evidence, Rule, Spoils};
use crate::says;
use tardy_model::passed::Lookups;
use tardy_model::verdict::{Level, Verdict};

/// `flow-misses`: Open vSwitch's datapath had no flow for packets of the trial, and asked a program
/// about each, or dropped it.
pub(super) const RULE: Rule = Rule { id: "flow-misses", spoils: Spoils::Path, judge: flow_misses };

fn flow_misses(evidence: &Evidence<'_>) -> Vec<Verdict> {
    let lookups = evidence.record.passed.as_ref().and_then(|passed| passed.lookups);
    let Some(Lookups { hit, missed, lost }) = lookups.filter(|of| of.missed > 0 || of.lost > 0) else {
        return Vec::new();
    };
    let says = format!(
        "Open vSwitch's datapath had a flow for {}, and none for {missed} more, about which it asks a program (upcall); it \
         dropped {lost} of them because it could not ask: these took another way than the others, or none",
        says::count(hit, "packet", "packets")
    );
    let verdict = Verdict::new(RULE.id, Level::Warning, says);
    vec![verdict.with("hit", hit).with("missed", missed).with("lost", lost)]
}
