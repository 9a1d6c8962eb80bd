// SPDX-License-Identifier: MIT OR Apache-2.0
//! `recorder-delay`: the sender had to drain its stamps between two packets without time for it.
//! The lateness of the packet behind is the recorder's and not the path's.

use super::{Evidence, Rule, Spoils};
use crate::says;
use tardy_model::verdict::{Level, Verdict};

pub(super) const RULE: Rule = Rule { id: "recorder-delay", spoils: Spoils::Measuring, judge };

fn judge(evidence: &Evidence<'_>) -> Vec<Verdict> {
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
            let verdict = Verdict::new(RULE.id, Level::Note, says)
                .with("stream", stream.as_str())
                .with("forced_drains", drains);
            match share {
                Some(share) => verdict.with("sent", sent).with("forced_drains_share", share),
                None => verdict,
            }
        })
        .collect()
}
