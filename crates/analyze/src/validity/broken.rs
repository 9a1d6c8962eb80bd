// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rules about trials that went wrong as a whole: one that failed, began too late, lost its
//! receiver or was interrupted.

use super::{Evidence, Rule, SPOILS, Spoils};
use crate::outcomes::{Broke, of_receive};
use crate::says;
use tardy_model::verdict::{Level, Verdict};

/// `failed`: something broke during the trial.
pub(super) const FAILED: Rule = Rule { id: "failed", spoils: Spoils::Measuring, judge: failed };

fn failed(evidence: &Evidence<'_>) -> Vec<Verdict> {
    let broken = |why: &String| {
        let says = format!("trial {} failed: {why}", evidence.record.n);
        Verdict::new(FAILED.id, Level::Invalid, says).with("reason", why.as_str())
    };
    evidence.record.failed.iter().map(broken).collect()
}

/// `late-start`: a sender got the order to begin when its first packet was already due. tardy
/// itself made the packets late that were due before the order: the threads that pass the order on
/// are ordinary ones, and wait where a measuring thread does not.
pub(super) const LATE_START: Rule = Rule { id: "late-start", spoils: Spoils::Measuring, judge: late_start };

fn late_start(evidence: &Evidence<'_>) -> Vec<Verdict> {
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
            Verdict::new(LATE_START.id, Level::Invalid, says)
                .with("stream", stream.as_str())
                .with("late_ns", late_ns)
                .with("packets", packets),
        );
    }
    verdicts
}

/// `receiver-broke`: the receive call failed and ended the receiver, so that what came later was
/// received by nobody. The errno says whether that was an outage, which is what the trial found,
/// or something of tardy's own, which spoilt the measuring.
pub(super) const RECEIVER_BROKE: Rule = Rule { id: "receiver-broke", spoils: Spoils::Told, judge: receiver_broke };

fn receiver_broke(evidence: &Evidence<'_>) -> Vec<Verdict> {
    let broke = evidence.ways().filter(|way| way.counters.receive_errno != 0);
    broke
        .map(|way| {
            let errno = way.counters.receive_errno;
            let lost = evidence.results.get(way.stream).map_or(0, |result| result.outcomes.lost);
            let then = match lost {
                0 => "from then on nobody received anything",
                _ => "later packets count as lost because nobody received them",
            };
            let says = match errno {
                ETIME => format!(
                    "no reply of {} came for a minute, or four timeouts if that is longer: what was not asked by then \
                     was not sent",
                    way.stream
                ),
                _ => format!(
                    "the receiver of {} ended in the trial, its receive call failing with errno {errno}{}: {then}",
                    way.name,
                    meaning_of_receive(errno)
                ),
            };
            let mut verdict = Verdict::new(RECEIVER_BROKE.id, Level::Invalid, says)
                .with("stream", way.stream)
                .with("errno", i64::from(errno));
            let spoils = match of_receive(errno) {
                Broke::Measuring => "measuring",
                Broke::Path => "path",
            };
            verdict = verdict.with(SPOILS, spoils);
            if let Some(result) = evidence.results.get(way.stream) {
                verdict = verdict.with("received", result.outcomes.received).with("lost", result.outcomes.lost);
            }
            verdict
        })
        .collect()
}

/// What a requester gives that hopes for replies no more.
const ETIME: i32 = 62;

/// What Linux means by the numbers that a receive call gives.
fn meaning_of_receive(errno: i32) -> &'static str {
    match errno {
        9 | 88 => " (the socket is gone)",
        12 | 105 => " (no memory for the packet)",
        19 | 6 => " (the device is gone)",
        74 => " (bytes came that are no message)",
        100 => " (the network is down)",
        103 => " (the kernel ended the connection)",
        104 => " (the peer reset the connection)",
        108 => " (the peer closed the connection)",
        110 => " (the connection timed out)",
        111 => " (the peer refused)",
        _ => "",
    }
}

/// `interrupted`: a signal ended the trial before its count.
pub(super) const INTERRUPTED: Rule = Rule { id: "interrupted", spoils: Spoils::Measuring, judge: interrupted };

fn interrupted(evidence: &Evidence<'_>) -> Vec<Verdict> {
    if !evidence.record.interrupted {
        return Vec::new();
    }
    let verdict = |(stream, record): (&String, &tardy_model::trial::StreamRecord)| {
        let rows = evidence.results.get(stream).map_or(0, |result| result.outcomes.intended);
        let says = format!("the trial was interrupted after {rows} of {} packets of {stream}", record.intended);
        Verdict::new(INTERRUPTED.id, Level::Note, says)
            .with("stream", stream.as_str())
            .with("rows", rows)
            .with("intended", record.intended)
    };
    evidence.record.streams.iter().map(verdict).collect()
}
