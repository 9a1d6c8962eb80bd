// SPDX-License-Identifier: MIT OR Apache-2.0
//! `vlan-tags`: packets arrived with more or fewer VLAN tags than they were sent with, with one of
//! another type, or in another VLAN.

use super::{Evidence, Rule, Spoils};
use crate::says;
use tardy_model::ethernet::TAG;
use tardy_model::verdict::{Level, Verdict};

pub(super) const RULE: Rule = Rule { id: "vlan-tags", spoils: Spoils::Path, judge };

fn judge(evidence: &Evidence<'_>) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for way in evidence.ways() {
        let Some(tags) = way.tags else { continue };
        let sent = u8::from(tags.sent.is_some());
        let arrived: u64 = tags.by_count.values().sum();
        let others = tags.by_count.iter().filter(|(count, _)| **count != sent);
        let wrong: u64 = others.clone().map(|(_, packets)| packets).sum();
        let otherwise = wrong + tags.other_vlan + tags.other_tpid;
        if otherwise == 0 {
            continue;
        }
        let with = |count: u8| match count {
            0 => "no VLAN tag".to_owned(),
            count => says::count(count.into(), "VLAN tag", "VLAN tags"),
        };
        let mut told: Vec<String> = others.map(|(count, packets)| format!("{packets} with {}", with(*count))).collect();
        if let Some(tag) = tags.sent.filter(|_| tags.other_vlan > 0) {
            told.push(format!("{} in another VLAN than {}", tags.other_vlan, tag.vlan));
        }
        if tags.other_tpid > 0 {
            let others = tags.by_tpid.keys().filter(|tpid| **tpid != TAG).map(|tpid| format!("{tpid:#06x}"));
            let others: Vec<String> = others.collect();
            told.push(format!("{} with a tag of type {} instead of {TAG:#06x}", tags.other_tpid, others.join(" or ")));
        }
        let says = format!(
            "{otherwise} of {arrived} packets of {}, which were sent with {}, arrived otherwise: {}",
            way.name,
            with(sent),
            told.join(", ")
        );
        let mut verdict = Verdict::new(RULE.id, Level::Invalid, says)
            .with("stream", way.stream)
            .with("sent_tags", u32::from(sent))
            .with("arrived", arrived)
            .with("other_tags", wrong)
            .with("other_vlan", tags.other_vlan)
            .with("other_tpid", tags.other_tpid);
        if let Some(most) = tags.by_count.keys().max() {
            verdict = verdict.with("most_tags", u32::from(*most));
        }
        if let Some(first) = tags.first_seq {
            verdict = verdict.with("first_seq", first);
        }
        verdicts.push(verdict);
    }
    verdicts
}
