// SPDX-License-Identifier: MIT OR Apache-2.0
//! `receiver-broke`: the receive call failed and ended the receiver, so that what came later was
//! received by nobody. The errno says whether that was an outage, which is what the trial found,
//! or something of tardy's own, which spoilt the measuring.

use super::{Evidence, Rule, SPOILS, Spoils};
use crate::outage::{Broke, of_receive};
use tardy_model::verdict::{Level, Verdict};

pub(super) const RULE: Rule = Rule { id: "receiver-broke", spoils: Spoils::Told, judge };

fn judge(evidence: &Evidence<'_>) -> Vec<Verdict> {
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
                    meaning(errno)
                ),
            };
            let mut verdict =
                Verdict::new(RULE.id, Level::Invalid, says).with("stream", way.stream).with("errno", i64::from(errno));
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
fn meaning(errno: i32) -> &'static str {
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
