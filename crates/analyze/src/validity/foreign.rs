// SPDX-License-Identifier: MIT OR Apache-2.0
//! `foreign`: packets came to the port that are not the trial's; they were counted and ignored.

use super::{Evidence, Rule, Spoils};
use crate::says;
use tardy_model::verdict::{Level, Verdict};

pub(super) const RULE: Rule = Rule { id: "foreign", spoils: Spoils::Measuring, judge };

fn judge(evidence: &Evidence<'_>) -> Vec<Verdict> {
    let strangers = evidence.record.streams.iter().filter(|(_, record)| record.counters.foreign > 0);
    strangers
        .map(|(stream, record)| {
            let foreign = record.counters.foreign;
            let packets = says::count(foreign, "foreign packet", "foreign packets");
            let says = format!("{packets} came to the port of {stream} and were ignored");
            Verdict::new(RULE.id, Level::Note, says).with("stream", stream.as_str()).with("foreign", foreign)
        })
        .collect()
}
