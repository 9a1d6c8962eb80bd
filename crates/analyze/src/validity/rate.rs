// SPDX-License-Identifier: MIT OR Apache-2.0
//! `rate`: the stream was sent slower than intended, or left out too many slots.

use super::{Evidence, Rule, Spoils};
use crate::says;
use tardy_model::trial::StreamRecord;
use tardy_model::verdict::{Figure, Level, Verdict};

pub(super) const RULE: Rule = Rule { id: "rate", spoils: Spoils::Path, judge };

/// A backlog of fewer cycles is no matter of rate: the traffic was on time but for its jitter.
const LATE_CYCLES: i64 = 1;

const TENTHS: usize = 10;

/// One packet in so many must have been late where there are no tenths.
const OFTEN: u64 = 10;

/// What says how late each tenth of a stream's packets was; a record that holds another number of
/// them says nothing.
fn tenths(record: &StreamRecord) -> &[i64] {
    if record.lateness_by_tenth_ns.len() == TENTHS { &record.lateness_by_tenth_ns } else { &[] }
}

/// How much the sender fell behind from the first tenth of its packets to the last, ns: nine times
/// the median of the slopes between all pairs of tenths (Theil and Sen). A stall, also of the last
/// packet, is in few of these pairs and does not move it; a backlog that grows is in all.
fn behind_ns(late: &[i64]) -> Option<i64> {
    let last = late.len().checked_sub(1).filter(|last| *last > 0)?;
    let pairs = (0..last).flat_map(|a| (a + 1..=last).map(move |b| (a, b)));
    let mut slopes: Vec<f64> = pairs.map(|(a, b)| (late[b].saturating_sub(late[a])) as f64 / (b - a) as f64).collect();
    slopes.sort_by(f64::total_cmp);
    Some((slopes[slopes.len() / 2] * last as f64) as i64)
}

/// How much slower than intended was sent, as a share of what the sending took.
fn slow(record: &StreamRecord) -> f64 {
    let tenths = tenths(record);
    // From the middle of the first tenth to that of the last. Without tenths from end to end, and
    // then one late packet at the end must not be taken for a rate: a sender that falls behind
    // wakes late again and again.
    let (behind, over) = match behind_ns(tenths) {
        Some(behind) => (behind, record.intended_span_ns / TENTHS as i64 * (TENTHS as i64 - 1)),
        None if record.counters.overruns.saturating_mul(OFTEN) > u64::from(record.intended) => {
            let sent = record.sent_span_ns.unwrap_or(record.intended_span_ns);
            (sent.saturating_sub(record.intended_span_ns), record.intended_span_ns)
        }
        None => (0, 0),
    };
    if behind > LATE_CYCLES * record.cycle_ns && over > 0 {
        behind as f64 / behind.saturating_add(over) as f64
    } else {
        0.0
    }
}

fn judge(evidence: &Evidence<'_>) -> Vec<Verdict> {
    if evidence.clock_jumped() || evidence.broke_off() {
        return Vec::new();
    }
    let limit = evidence.settings.share(RULE.id);
    let mut verdicts = Vec::new();
    for (stream, record) in &evidence.record.streams {
        if record.cycle_ns <= 0 {
            continue;
        }
        let reached = evidence.results.get(stream).map_or(0, |result| result.outcomes.intended).max(1);
        let (slow, skipped) = (slow(record), record.counters.skipped as f64 / reached as f64);
        if slow <= limit && skipped <= limit {
            continue;
        }
        let short = 1.0 - (1.0 - slow) * (1.0 - skipped);
        let intended_per_s = 1e9 / record.cycle_ns as f64;
        let achieved_per_s = intended_per_s * (1.0 - short);
        let cause = if slow > limit {
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
            .with("limit_share", limit)
            .with("intended_span_ns", record.intended_span_ns)
            .with("overruns", record.counters.overruns)
            .with("skipped", record.counters.skipped);
        if !tenths(record).is_empty() {
            let late = tenths(record).iter().map(|ns| (*ns).into()).collect();
            verdict = verdict.with("lateness_by_tenth_ns", Figure::List(late));
        }
        if let Some(sent_span_ns) = record.sent_span_ns {
            verdict = verdict.with("sent_span_ns", sent_span_ns);
        }
        verdicts.push(verdict);
    }
    verdicts
}
