// SPDX-License-Identifier: MIT OR Apache-2.0
//! `interrupted`: a signal ended the trial before its count.

use super::{Evidence, Rule, Spoils};
use tardy_model::verdict::{Level, Verdict};

pub(super) const RULE: Rule = Rule { id: "interrupted", spoils: Spoils::Measuring, judge };

fn judge(evidence: &Evidence<'_>) -> Vec<Verdict> {
    if !evidence.record.interrupted {
        return Vec::new();
    }
    let told = |(stream, record): (&String, &tardy_model::trial::StreamRecord)| {
        let rows = evidence.results.get(stream).map_or(0, |result| result.outcomes.intended);
        let says = format!("the trial was interrupted after {rows} of {} packets of {stream}", record.intended);
        Verdict::new(RULE.id, Level::Note, says)
            .with("stream", stream.as_str())
            .with("rows", rows)
            .with("intended", record.intended)
    };
    evidence.record.streams.iter().map(told).collect()
}
