// SPDX-License-Identifier: MIT OR Apache-2.0
//! `launch-drops`: the queue discipline dropped packets before they came to the driver. They are
//! not_sent, not lost.

use super::{Evidence, Rule, Spoils};
use crate::says;
use tardy_model::verdict::{Level, Verdict};

pub(super) const RULE: Rule = Rule { id: "launch-drops", spoils: Spoils::Path, judge };

fn judge(evidence: &Evidence<'_>) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for (stream, record) in &evidence.record.streams {
        let counters = &record.counters;
        let (missed, invalid, silent) = (counters.launch_missed, counters.launch_invalid, counters.qdisc_dropped);
        let dropped = missed + invalid + silent;
        let Some(intended) = evidence.results.get(stream).map(|result| result.outcomes.intended) else { continue };
        if dropped == 0 {
            continue;
        }
        let share = dropped as f64 / intended.max(1) as f64;
        let level = if share > record.max_loss { Level::Invalid } else { Level::Warning };
        let delta = record.launching.delta_ns;
        let of_delta = delta.map_or_else(String::new, |delta| format!(", etf.delta being {}", says::time(delta)));
        let causes = [
            (missed, format!("of {missed} the launch time had passed when they could go{of_delta}")),
            (
                invalid,
                format!(
                    "of {invalid} it was refused when they came, having passed or not being what the queue discipline takes"
                ),
            ),
            (silent, format!("{silent} without a report, as its own counters own to")),
        ];
        let causes: Vec<String> = causes.into_iter().filter(|(n, _)| *n > 0).map(|(_, says)| says).collect();
        let says = format!(
            "the queue discipline dropped {dropped} of {intended} packets of {stream} ({}): {}",
            says::share(share),
            causes.join("; ")
        );
        let mut verdict = Verdict::new(RULE.id, level, says)
            .with("stream", stream.as_str())
            .with("dropped", dropped)
            .with("intended", intended)
            .with("dropped_share", share)
            .with("max_loss_share", record.max_loss)
            .with("launch_missed", missed)
            .with("launch_invalid", invalid)
            .with("qdisc_dropped", silent);
        if let Some(delta) = delta {
            verdict = verdict.with("delta_ns", delta);
        }
        verdicts.push(verdict);
    }
    verdicts
}
