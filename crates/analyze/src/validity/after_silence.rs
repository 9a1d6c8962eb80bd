// SPDX-License-Identifier: MIT OR Apache-2.0
//! `after-silence`: requests of a ping-pong went out after everything in flight had been given up.
//! While nobody sends, CPUs go to sleep, so the answers to these requests take longer for a reason
//! that the others do not have.

use super::{Evidence, Rule, Spoils};
use crate::says;
use tardy_model::verdict::{Level, Verdict};

pub(super) const RULE: Rule = Rule { id: "after-silence", spoils: Spoils::Path, judge };

fn judge(evidence: &Evidence<'_>) -> Vec<Verdict> {
    let asking = evidence.ways().filter(|way| way.counters.after_silence > 0);
    asking
        .map(|way| {
            let requests = way.counters.after_silence;
            let says = format!(
                "{} of {} went out after the one before was given up: the machines had been idle for that long, so the \
                 slowest round trips may be these",
                says::count(requests, "request", "requests"),
                way.stream
            );
            Verdict::new(RULE.id, Level::Note, says).with("stream", way.stream).with("after_silence", requests)
        })
        .collect()
}
