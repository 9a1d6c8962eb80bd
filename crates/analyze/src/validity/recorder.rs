// SPDX-License-Identifier: MIT OR Apache-2.0
//! `recorder`: packets arrived that the receiver had no room to record, so that rows are wrong.

use super::{Evidence, Rule, Spoils};
use crate::says;
use tardy_model::verdict::{Level, Verdict};

pub(super) const RULE: Rule = Rule { id: "recorder", spoils: Spoils::Measuring, judge };

fn judge(evidence: &Evidence<'_>) -> Vec<Verdict> {
    let full = evidence.record.streams.iter().filter(|(_, record)| record.counters.records_dropped > 0);
    full.map(|(stream, record)| {
        let dropped = record.counters.records_dropped;
        let arrivals = says::count(dropped, "arrival", "arrivals");
        let says = format!("{arrivals} of {stream} found no place in the recorder: the rows count them as lost");
        Verdict::new(RULE.id, Level::Invalid, says).with("stream", stream.as_str()).with("records_dropped", dropped)
    })
    .collect()
}
