// SPDX-License-Identifier: MIT OR Apache-2.0
//! `recorder`: packets arrived that the receiver had no room to record, so that rows are wrong.

use super::{Evidence, Rule, Spoils};
use crate::says;
use tardy_model::verdict::{Level, Verdict};

pub(super) const RULE: Rule = Rule { id: "recorder", spoils: Spoils::Measuring, judge };

fn judge(evidence: &Evidence<'_>) -> Vec<Verdict> {
    let full = evidence.ways().filter(|way| way.counters.records_dropped > 0);
    full.map(|way| {
        let dropped = way.counters.records_dropped;
        let arrivals = says::count(dropped, "arrival", "arrivals");
        let says = format!("{arrivals} of {} found no place in the recorder: the rows count them as lost", way.name);
        Verdict::new(RULE.id, Level::Invalid, says).with("stream", way.stream).with("records_dropped", dropped)
    })
    .collect()
}
