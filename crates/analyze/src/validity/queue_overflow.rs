// SPDX-License-Identifier: MIT OR Apache-2.0
//! `queue-overflow`: the sender's error queue was full, so that tx stamps were thrown away.

use super::{Evidence, Rule, Spoils};
use crate::says;
use tardy_model::verdict::{Level, Verdict};

pub(super) const RULE: Rule = Rule { id: "queue-overflow", spoils: Spoils::Measuring, judge };

fn judge(evidence: &Evidence<'_>) -> Vec<Verdict> {
    let full = evidence.record.streams.iter().filter(|(_, record)| record.counters.error_queue_overflows > 0);
    full.map(|(stream, record)| {
        let c = &record.counters;
        let says = format!(
            "the error queue of {stream}, where its tx stamps arrive, was found full {}: up to {} of {} bytes waited",
            says::count(c.error_queue_overflows, "time", "times"),
            c.error_queue_high_bytes,
            record.error_queue_bytes
        );
        Verdict::new(RULE.id, Level::Invalid, says)
            .with("stream", stream.as_str())
            .with("overflows", c.error_queue_overflows)
            .with("high_bytes", c.error_queue_high_bytes)
            .with("queue_bytes", record.error_queue_bytes)
            .with("tx_stamps_missing", c.tx_stamps_missing)
    })
    .collect()
}
