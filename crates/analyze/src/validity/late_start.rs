// SPDX-License-Identifier: MIT OR Apache-2.0
//! `late-start`: a sender was told that its trial begins when its first packet was already due.
//! What came before it was told is late by tardy's own doing: the threads that pass the order on
//! are ordinary ones, and wait where a measuring thread does not.

use super::{Evidence, Rule, Spoils};
use crate::says;
use tardy_model::verdict::{Level, Verdict};

pub(super) const RULE: Rule = Rule { id: "late-start", spoils: Spoils::Measuring, judge };

fn judge(evidence: &Evidence<'_>) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for (stream, record) in evidence.record.streams.iter().filter(|(_, record)| record.cycle_ns > 0) {
        let Some(late_ns) = record.tx.told_ahead_ns.map(i64::saturating_neg).filter(|late| *late > 0) else { continue };
        let packets = (late_ns / record.cycle_ns).saturating_add(1);
        let says = format!(
            "{stream}.tx was told of its start {} after its first packet was due, so {} late by tardy's own doing: the threads that \
             pass the order on had no CPU in time",
            says::time(late_ns),
            says::count(packets.unsigned_abs(), "packet is", "packets are")
        );
        verdicts.push(
            Verdict::new(RULE.id, Level::Invalid, says)
                .with("stream", stream.as_str())
                .with("late_ns", late_ns)
                .with("packets", packets),
        );
    }
    verdicts
}
