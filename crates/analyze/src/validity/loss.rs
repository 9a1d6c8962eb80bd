// SPDX-License-Identifier: MIT OR Apache-2.0
//! `loss`: more packets were lost than the experiment allows. Where the receiver broke, or the trial, that is told instead.

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
        let share = lost as f64 / outcomes.intended.max(1) as f64;
        if share <= record.max_loss {
            continue;
        }
        let dropped = record.counters.socket_drops;
        let replies = record.reply.as_ref().map(|reply| reply.counters.socket_drops);
        let at = match (dropped, replies) {
            (0, None) => "none of them at the receiving socket".to_owned(),
            (0, Some(0)) => "none of them at a receiving socket, nor their replies".to_owned(),
            (dropped, None | Some(0)) => format!("{dropped} of them dropped at the receiving socket"),
            (0, Some(replies)) => format!("the replies to {replies} of them dropped at the socket of who asked"),
            (dropped, Some(replies)) => format!(
                "{dropped} of them dropped at the receiving socket and the replies to {replies} at the socket of who asked"
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
