// SPDX-License-Identifier: MIT OR Apache-2.0
//! `late-stamps`: the first packets received have no stamp, and from some packet on stamps flow.
//! The kernel enables software stamps from a work item, which a spinning realtime thread can
//! starve.

use super::{Evidence, Rule, Spoils};
use crate::says;
use tardy_model::verdict::Verdict;

pub(super) const RULE: Rule = Rule { id: "late-stamps", spoils: Spoils::Measuring, judge };

fn judge(evidence: &Evidence<'_>) -> Vec<Verdict> {
    if evidence.broke_off() {
        return Vec::new();
    }
    let late = evidence.bursts().filter(|(_, _, bursts)| bursts.started_late());
    late.map(|(stream, point, bursts)| {
        let (level, what) = evidence.lack(stream, point);
        let says = format!(
            "{stream}: the first {} received have no {point} stamp ({} of all): stamps started late{what}",
            says::count(bursts.leading, "packet", "packets"),
            says::share(bursts.leading as f64 / bursts.received as f64)
        );
        let mut verdict = Verdict::new(RULE.id, level, says)
            .with("stream", stream)
            .with("point", point.name())
            .with("leading", bursts.leading)
            .with("received", bursts.received)
            .with("coverage_share", bursts.coverage());
        if let Some(record) = evidence.record.streams.get(stream) {
            verdict = verdict
                .with("warmup_sent", record.warmup.sent)
                .with("warmup_without_rx_stamp", record.warmup.without_rx_stamp)
                .with("warmup_without_tx_stamp", record.warmup.without_tx_stamp);
        }
        verdict
    })
    .collect()
}
