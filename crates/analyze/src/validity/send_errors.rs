// SPDX-License-Identifier: MIT OR Apache-2.0
//! `send-errors`: the port refused packets.

use super::{Evidence, Rule, Spoils};
use crate::says;
use tardy_model::verdict::{Level, Verdict};

pub(super) const RULE: Rule = Rule { id: "send-errors", spoils: Spoils::Path, judge };

fn judge(evidence: &Evidence<'_>) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for way in evidence.ways() {
        let Some(record) = evidence.record.streams.get(way.stream) else { continue };
        let (refused, errno) = (way.counters.send_errors, way.counters.first_send_errno);
        if refused == 0 {
            continue;
        }
        let Some(intended) = evidence.results.get(way.stream).map(|result| result.outcomes.intended) else { continue };
        let share = refused as f64 / intended.max(1) as f64;
        let level = if share > record.max_loss { Level::Invalid } else { Level::Warning };
        let says = format!(
            "the port refused {refused} of {intended} packets of {} ({}), first with errno {errno}{}",
            way.name,
            says::share(share),
            meaning(errno)
        );
        verdicts.push(
            Verdict::new(RULE.id, level, says)
                .with("stream", way.stream)
                .with("refused", refused)
                .with("intended", intended)
                .with("refused_share", share)
                .with("max_loss_share", record.max_loss)
                .with("errno", i64::from(errno)),
        );
    }
    verdicts
}

/// What Linux means by the numbers that a send call gives; spelled out here, for the judging
/// machine need not be Linux.
fn meaning(errno: i32) -> &'static str {
    match errno {
        1 => " (not permitted: a firewall?)",
        11 => " (the send buffer was full)",
        19 | 6 => " (the device is gone)",
        32 => " (the connection is gone)",
        90 => " (longer than the path's MTU)",
        100 => " (the network is down)",
        101 => " (the network is unreachable: is the device gone?)",
        103 => " (the kernel ended the connection)",
        104 => " (the peer reset the connection)",
        105 => " (no buffer space: the queue discipline or the device was full)",
        111 => " (nobody has that port there any more)",
        113 => " (no route to the receiver)",
        _ => "",
    }
}
