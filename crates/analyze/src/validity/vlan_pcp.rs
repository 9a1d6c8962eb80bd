// SPDX-License-Identifier: MIT OR Apache-2.0
//! `vlan-pcp`: packets arrived with another priority in their VLAN tag than they were sent with.
//! Of those that have another number of tags `vlan-tags` speaks: their outermost tag is not the
//! one that was sent. Where the port sees no tags it is said that nothing was looked at.

use super::{Evidence, Rule, Spoils};
use tardy_model::verdict::{Level, Verdict};

pub(super) const RULE: Rule = Rule { id: "vlan-pcp", spoils: Spoils::Path, judge };

fn judge(evidence: &Evidence<'_>) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for way in evidence.ways() {
        let Some(tags) = way.tags else { continue };
        let Some(sent) = tags.sent else { continue };
        let received = evidence.results.get(way.stream).map_or(0, |result| result.outcomes.received);
        if tags.by_count.is_empty() && received > 0 {
            let says = format!(
                "packets of {} were sent with PCP {} in VLAN {}, and with which they arrived went unchecked: a receiver of this port sees no \
                 tags; port = \"packet\" does",
                way.name, sent.pcp, sent.vlan
            );
            let verdict = Verdict::new(RULE.id, Level::Note, says).with("stream", way.stream);
            verdicts.push(verdict.with("sent_pcp", u32::from(sent.pcp)).with("sent_vlan", u32::from(sent.vlan)));
            continue;
        }
        if tags.other_pcp == 0 {
            continue;
        }
        let arrived: u64 = tags.by_count.values().sum();
        let came: Vec<String> =
            tags.by_pcp.iter().filter(|(pcp, _)| **pcp != sent.pcp).map(|(pcp, n)| format!("{n} with {pcp}")).collect();
        let says = format!(
            "{} of {arrived} packets of {} were sent with PCP {} and arrived with another ({})",
            tags.other_pcp,
            way.name,
            sent.pcp,
            came.join(", ")
        );
        let mut verdict = Verdict::new(RULE.id, Level::Invalid, says)
            .with("stream", way.stream)
            .with("sent_pcp", u32::from(sent.pcp))
            .with("arrived", arrived)
            .with("other_pcp", tags.other_pcp);
        if let Some(first) = tags.first_seq {
            verdict = verdict.with("first_seq", first);
        }
        verdicts.push(verdict);
    }
    verdicts
}
