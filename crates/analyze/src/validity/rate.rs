// SPDX-License-Identifier: MIT OR Apache-2.0
//! `rate`: the stream was sent slower than intended, or left out too many slots.

use super::{Evidence, Rule, Spoils};
use crate::says;
use tardy_model::trial::StreamRecord;
use tardy_model::verdict::{Level, Verdict};

pub(super) const RULE: Rule = Rule { id: "rate", spoils: Spoils::Path, judge };

/// A shortfall up to this is kept: the traffic is what was asked for, to two digits.
const MOST_SHORT: f64 = 0.01;
/// The last packet's lateness alone lengthens the span: so many cycles of it are no matter of rate.
const LATE_CYCLES: i64 = 2;

/// How much longer the sending took than intended, as a share of what it took.
fn slow(record: &StreamRecord) -> f64 {
    match record.sent_span_ns {
        Some(sent) if sent > 0 && sent.saturating_sub(record.intended_span_ns) > LATE_CYCLES * record.cycle_ns => {
            1.0 - record.intended_span_ns as f64 / sent as f64
        }
        _ => 0.0,
    }
}

fn judge(evidence: &Evidence<'_>) -> Vec<Verdict> {
    if evidence.clock_jumped() || evidence.broke_off() {
        return Vec::new();
    }
    let mut verdicts = Vec::new();
    for (stream, record) in &evidence.record.streams {
        if record.cycle_ns <= 0 {
            continue;
        }
        let reached = evidence.results.get(stream).map_or(0, |result| result.outcomes.intended).max(1);
        let (slow, skipped) = (slow(record), record.counters.skipped as f64 / reached as f64);
        if slow <= MOST_SHORT && skipped <= MOST_SHORT {
            continue;
        }
        let short = 1.0 - (1.0 - slow) * (1.0 - skipped);
        let intended_per_s = 1e9 / record.cycle_ns as f64;
        let achieved_per_s = intended_per_s * (1.0 - short);
        let cause = if slow > MOST_SHORT {
            let cycle = (record.cycle_ns as f64 / (1.0 - slow)).round() as i64;
            format!("the cycle of {} took {}", says::time(record.cycle_ns), says::time(cycle))
        } else {
            format!("{} of {reached} slots were skipped", record.counters.skipped)
        };
        let says = format!(
            "{stream} sent {achieved_per_s:.0} packets/s instead of {intended_per_s:.0}, {} short: {cause}",
            says::share(short)
        );
        let mut verdict = Verdict::new(RULE.id, Level::Invalid, says)
            .with("stream", stream.as_str())
            .with("intended_per_s", intended_per_s)
            .with("achieved_per_s", achieved_per_s)
            .with("shortfall_share", short)
            .with("intended_span_ns", record.intended_span_ns)
            .with("overruns", record.counters.overruns)
            .with("skipped", record.counters.skipped);
        if let Some(sent_span_ns) = record.sent_span_ns {
            verdict = verdict.with("sent_span_ns", sent_span_ns);
        }
        verdicts.push(verdict);
    }
    verdicts
}
