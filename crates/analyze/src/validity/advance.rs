// SPDX-License-Identifier: MIT OR Apache-2.0
//! `advance`: the sender is to wake too late for etf: what it hands over less than `etf.delta`
//! before the launch time goes out at once, and what comes behind it is dropped. The ruler's timer
//! error is part of it.

use super::{Evidence, Rule, Spoils};
use crate::says;
use tardy_model::verdict::{Level, Verdict};

pub(super) const RULE: Rule = Rule { id: "advance", spoils: Spoils::Measuring, judge };

fn judge(evidence: &Evidence<'_>) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for (stream, record) in &evidence.record.streams {
        let launching = &record.launching;
        let Some(delta) = launching.delta_ns.filter(|_| launching.launch.is_some()) else { continue };
        let timer = launching.timer_p99_9_ns.unwrap_or(0);
        if launching.advance_ns > delta.saturating_add(timer) {
            if launching.timer_p99_9_ns.is_none() {
                let says = format!(
                    "whether {stream} wakes early enough for etf is not checked: the ruler has no figure of its thread's timer; its advance, {}, \
                     is above etf.delta, {}",
                    says::time(launching.advance_ns),
                    says::time(delta)
                );
                verdicts.push(
                    Verdict::new(RULE.id, Level::Note, says)
                        .with("stream", stream.as_str())
                        .with("advance_ns", launching.advance_ns)
                        .with("delta_ns", delta),
                );
            }
            continue;
        }
        let with = match launching.timer_p99_9_ns {
            Some(timer) => format!(" and what the timer of its thread is late by at p99.9, {}", says::time(timer)),
            None => String::new(),
        };
        let says = format!(
            "{stream} wakes {} before its launch times, which is not more than etf.delta, {}{with}: packets may come too late to be held",
            says::time(launching.advance_ns),
            says::time(delta)
        );
        let mut verdict = Verdict::new(RULE.id, Level::Warning, says)
            .with("stream", stream.as_str())
            .with("advance_ns", launching.advance_ns)
            .with("delta_ns", delta);
        if let Some(timer) = launching.timer_p99_9_ns {
            verdict = verdict.with("timer_p99_9_ns", timer);
        }
        verdicts.push(verdict);
    }
    verdicts
}
