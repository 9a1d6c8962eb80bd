// SPDX-License-Identifier: MIT OR Apache-2.0
//! `warmup`: the warm-up ended before every stamp flowed. Where stamps then really lack in the
//! trial, `late-stamps` or `coverage` tells it with the count, and this rule is silent.

use super::{Evidence, Rule, Spoils};
use crate::says;
use tardy_model::verdict::{Level, Verdict};

pub(super) const RULE: Rule = Rule { id: "warmup", spoils: Spoils::Measuring, judge };

fn judge(evidence: &Evidence<'_>) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for (stream, record) in &evidence.record.streams {
        let warmup = &record.warmup;
        let told = evidence.bursts().any(|(of, _, bursts)| of == stream && bursts.is_short());
        if warmup.flowed || warmup.sent == 0 || told {
            continue;
        }
        let says = format!(
            "the warm-up of {stream} gave up after {} and {}: stamps did not flow yet",
            says::count(warmup.sent.into(), "packet", "packets"),
            says::time(warmup.took_ns)
        );
        verdicts.push(
            Verdict::new(RULE.id, Level::Warning, says)
                .with("stream", stream.as_str())
                .with("sent", warmup.sent)
                .with("received", warmup.received)
                .with("without_rx_stamp", warmup.without_rx_stamp)
                .with("without_tx_stamp", warmup.without_tx_stamp)
                .with("took_ns", warmup.took_ns),
        );
    }
    verdicts
}
