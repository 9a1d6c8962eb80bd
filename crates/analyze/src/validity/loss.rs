// SPDX-License-Identifier: MIT OR Apache-2.0
//! `loss`: more packets were lost than the experiment allows. Where the receiver broke, or the
//! trial, that is told instead.

use super::{Evidence, Rule, Spoils};
use crate::says;
use tardy_model::verdict::{Level, Verdict};

pub(super) const RULE: Rule = Rule { id: "loss", spoils: Spoils::Path, judge };

fn judge(evidence: &Evidence<'_>) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    if evidence.broke_off() {
        return verdicts;
    }
    for (stream, record) in &evidence.record.streams {
        let Some(outcomes) = evidence.results.get(stream).map(|result| result.outcomes) else { continue };
        let lost = outcomes.lost;
        let reply_broke = record.reply.as_ref().is_some_and(|reply| reply.counters.receive_errno != 0);
        if lost == 0 || record.counters.receive_errno != 0 || reply_broke {
            continue;
        }
        // What had no place in the recorder arrived; `recorder` tells of it.
        let end = record.reply.as_ref().map_or(&record.counters, |reply| &reply.counters);
        let on_the_way = lost.saturating_sub(end.records_dropped);
        if on_the_way as f64 / outcomes.intended.max(1) as f64 <= record.max_loss {
            continue;
        }
        let share = lost as f64 / outcomes.intended.max(1) as f64;
        let dropped = record.counters.socket_drops;
        let replies = record.reply.as_ref().map(|reply| reply.counters.socket_drops);
        // The kernel counts from the socket's opening on, whosever packets they are.
        let packets = |n| says::count(n, "packet", "packets");
        let at = match (dropped, replies) {
            (0, None) => "none of them at the receiving socket".to_owned(),
            (0, Some(0)) => "none of them at a receiving socket, nor their replies".to_owned(),
            (dropped, None | Some(0)) => {
                format!("the receiving socket dropped {} since it was opened", packets(dropped))
            }
            (0, Some(replies)) => format!("the socket of who asked dropped {} since it was opened", packets(replies)),
            (dropped, Some(replies)) => format!(
                "since they were opened the receiving socket dropped {} and the socket of who asked {}",
                packets(dropped),
                packets(replies)
            ),
        };
        let says = format!(
            "{} of {} packets of {stream} were lost ({}, allowed {}), {at}",
            lost,
            outcomes.intended,
            says::share(share),
            says::share(record.max_loss)
        );
        let verdict = Verdict::new(RULE.id, Level::Invalid, says)
            .with("stream", stream.as_str())
            .with("lost", lost)
            .with("intended", outcomes.intended)
            .with("lost_share", share)
            .with("max_loss_share", record.max_loss)
            .with("socket_drops", dropped);
        verdicts.push(match replies {
            Some(replies) => verdict.with("reply_socket_drops", replies),
            None => verdict,
        });
    }
    verdicts
}
