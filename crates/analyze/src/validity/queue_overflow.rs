// SPDX-License-Identifier: MIT OR Apache-2.0
//! `queue-overflow`: the sender's error queue was full, so that tx stamps were thrown away.

use super::{Evidence, Rule, Spoils};
use crate::says;
use tardy_model::verdict::{Level, Verdict};

pub(super) const RULE: Rule = Rule { id: "queue-overflow", spoils: Spoils::Measuring, judge };

fn judge(evidence: &Evidence<'_>) -> Vec<Verdict> {
    let full = evidence.ways().filter(|way| way.counters.error_queue_overflows > 0);
    full.map(|way| {
        let c = way.counters;
        let says = format!(
            "the error queue of {}, where its tx stamps arrive, was found full {}: up to {} of {} bytes waited",
            way.name,
            says::count(c.error_queue_overflows, "time", "times"),
            c.error_queue_high_bytes,
            way.queue_bytes
        );
        Verdict::new(RULE.id, Level::Invalid, says)
            .with("stream", way.stream)
            .with("overflows", c.error_queue_overflows)
            .with("high_bytes", c.error_queue_high_bytes)
            .with("queue_bytes", way.queue_bytes)
            .with("tx_stamps_missing", c.tx_stamps_missing)
    })
    .collect()
}
