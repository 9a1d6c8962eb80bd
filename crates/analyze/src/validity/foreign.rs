// SPDX-License-Identifier: MIT OR Apache-2.0
//! `foreign`: packets came to the port that are not the trial's; they were counted and ignored.

use super::{Evidence, Rule, Spoils};
use crate::says;
use tardy_model::verdict::{Level, Verdict};

pub(super) const RULE: Rule = Rule { id: "foreign", spoils: Spoils::Measuring, judge };

fn judge(evidence: &Evidence<'_>) -> Vec<Verdict> {
    let strangers = evidence.ways().filter(|way| way.counters.foreign > 0);
    strangers
        .map(|way| {
            let foreign = way.counters.foreign;
            let packets = says::count(foreign, "foreign packet", "foreign packets");
            let mut says = format!("{packets} came to the port of {} and were ignored", way.name);
            // The socket's buffer does not tell whose packets it dropped.
            let dropped = way.counters.socket_drops;
            if dropped > 0 {
                says += &format!("; {dropped} of all packets to that port were dropped at the receiving socket");
            }
            Verdict::new(RULE.id, Level::Note, says)
                .with("stream", way.stream)
                .with("foreign", foreign)
                .with("socket_drops", dropped)
        })
        .collect()
}
