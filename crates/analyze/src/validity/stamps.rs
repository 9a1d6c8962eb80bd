// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rules about stamps and records that are missing: the recorder was full or late, the error queue
//! overflowed, or the kernel gave too few stamps.

use super::{Evidence, Rule, Spoils};
use crate::outcomes::LEAST_COVERAGE;
use crate::says;
use tardy_model::verdict::{Level, Verdict};

/// `recorder`: packets arrived that the receiver had no room to record, so that rows are wrong.
pub(super) const RECORDER: Rule = Rule { id: "recorder", spoils: Spoils::Measuring, judge: recorder };

fn recorder(evidence: &Evidence<'_>) -> Vec<Verdict> {
    let full = evidence.ways().filter(|way| way.counters.records_dropped > 0);
    full.map(|way| {
        let dropped = way.counters.records_dropped;
        let arrivals = says::count(dropped, "arrival", "arrivals");
        let says = format!("{arrivals} of {} found no place in the recorder: the rows count them as lost", way.name);
        Verdict::new(RECORDER.id, Level::Invalid, says).with("stream", way.stream).with("records_dropped", dropped)
    })
    .collect()
}

/// `recorder-delay`: the sender had to drain its stamps between two packets without time for it.
/// The lateness of the packet behind is the recorder's and not the path's.
pub(super) const RECORDER_DELAY: Rule = Rule { id: "recorder-delay", spoils: Spoils::Measuring, judge: recorder_delay };

fn recorder_delay(evidence: &Evidence<'_>) -> Vec<Verdict> {
    let delayed = evidence.record.streams.iter().filter(|(_, record)| record.counters.forced_drains > 0);
    delayed
        .map(|(stream, record)| {
            let (drains, sent) = (record.counters.forced_drains, record.counters.sent);
            let share = (sent > 0).then(|| drains as f64 / sent as f64);
            let of = share.map_or_else(String::new, |share| format!(" ({} of the packets)", says::share(share)));
            let says = format!(
                "the sender of {stream} drained its stamps {} without slack before the next packet{of}: the lateness of \
                 those packets is the recorder's",
                says::count(drains, "time", "times")
            );
            let verdict = Verdict::new(RECORDER_DELAY.id, Level::Note, says)
                .with("stream", stream.as_str())
                .with("forced_drains", drains);
            match share {
                Some(share) => verdict.with("sent", sent).with("forced_drains_share", share),
                None => verdict,
            }
        })
        .collect()
}

/// `queue-overflow`: the sender's error queue was full, so that tx stamps were thrown away.
pub(super) const QUEUE_OVERFLOW: Rule = Rule { id: "queue-overflow", spoils: Spoils::Measuring, judge: queue_overflow };

fn queue_overflow(evidence: &Evidence<'_>) -> Vec<Verdict> {
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
        Verdict::new(QUEUE_OVERFLOW.id, Level::Invalid, says)
            .with("stream", way.stream)
            .with("overflows", c.error_queue_overflows)
            .with("high_bytes", c.error_queue_high_bytes)
            .with("queue_bytes", way.queue_bytes)
            .with("tx_stamps_missing", c.tx_stamps_missing)
    })
    .collect()
}

/// `late-stamps`: the first packets received have no stamp, and from some packet on stamps flow.
/// The kernel enables software stamps from a work item, which a spinning realtime thread can
/// starve.
pub(super) const LATE_STAMPS: Rule = Rule { id: "late-stamps", spoils: Spoils::Measuring, judge: late_stamps };

fn late_stamps(evidence: &Evidence<'_>) -> Vec<Verdict> {
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
        let mut verdict = Verdict::new(LATE_STAMPS.id, level, says)
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

/// `coverage`: too many received packets lack a stamp of a point that has a source. Where only the
/// trial's beginning lacks them, `late-stamps` says so instead.
pub(super) const COVERAGE: Rule = Rule { id: "coverage", spoils: Spoils::Measuring, judge: coverage };

fn coverage(evidence: &Evidence<'_>) -> Vec<Verdict> {
    if evidence.broke_off() {
        return Vec::new();
    }
    let short = evidence.bursts().filter(|(_, _, bursts)| bursts.is_short() && !bursts.started_late());
    short
        .map(|(stream, point, bursts)| {
            let (level, what) = evidence.lack(stream, point);
            let says = format!(
                "{stream}: {} of {} received packets have no {point} stamp, in {}, the longest {} from packet {} on{what}",
                bursts.missing,
                bursts.received,
                says::count(bursts.bursts, "burst", "bursts"),
                says::count(bursts.longest, "packet", "packets"),
                bursts.longest_from_seq
            );
            Verdict::new(COVERAGE.id, level, says)
                .with("stream", stream)
                .with("point", point.name())
                .with("received", bursts.received)
                .with("missing", bursts.missing)
                .with("coverage_share", bursts.coverage())
                .with("least_share", LEAST_COVERAGE)
                .with("bursts", bursts.bursts)
                .with("longest_burst", bursts.longest)
                .with("longest_from_seq", bursts.longest_from_seq)
        })
        .collect()
}

/// `warmup`: the warm-up ended before every stamp flowed. If the trial then really lacks
/// stamps, `late-stamps` or `coverage` reports the count, and this rule is silent.
pub(super) const WARMUP: Rule = Rule { id: "warmup", spoils: Spoils::Measuring, judge: warmup };

fn warmup(evidence: &Evidence<'_>) -> Vec<Verdict> {
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
            Verdict::new(WARMUP.id, Level::Warning, says)
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
