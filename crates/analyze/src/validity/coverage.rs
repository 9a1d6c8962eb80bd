// SPDX-License-Identifier: MIT OR Apache-2.0
//! `coverage`: too many received packets lack a stamp of a point that has a source. Where only the
//! trial's beginning lacks them, `late-stamps` says so instead.

use super::{Evidence, Rule, Spoils};
use crate::coverage::LEAST_COVERAGE;
use crate::says;
use tardy_model::verdict::Verdict;

pub(super) const RULE: Rule = Rule { id: "coverage", spoils: Spoils::Measuring, judge };

fn judge(evidence: &Evidence<'_>) -> Vec<Verdict> {
    if evidence.broke_off() {
        return Vec::new();
    }
    let short = evidence.bursts().filter(|(_, _, bursts)| bursts.is_short() && !bursts.started_late());
    short
        .map(|(stream, point, bursts)| {
            let (level, what) = evidence.lack(stream, point);
            let says = format!(
                "{stream}: {} of {} received packets have no {point} stamp, in {}, the longest {} from packet {} on{what}",
                bursts.missing,
                bursts.received,
                says::count(bursts.bursts, "burst", "bursts"),
                says::count(bursts.longest, "packet", "packets"),
                bursts.longest_from_seq
            );
            Verdict::new(RULE.id, level, says)
                .with("stream", stream)
                .with("point", point.name())
                .with("received", bursts.received)
                .with("missing", bursts.missing)
                .with("coverage_share", bursts.coverage())
                .with("least_share", LEAST_COVERAGE)
                .with("bursts", bursts.bursts)
                .with("longest_burst", bursts.longest)
                .with("longest_from_seq", bursts.longest_from_seq)
        })
        .collect()
}
