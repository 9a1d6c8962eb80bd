// SPDX-License-Identifier: MIT OR Apache-2.0
//! `narrow-windows`: taprio in software opens its gates by a timer of the kernel's, and the sender
//! wakes by one. A window that is over before they are there lets nothing go, and packets wait
//! cycle after cycle. How late such timers are, the ruler knows.

use super::{Evidence, Rule, Spoils};
use crate::says;
use tardy_model::gates::Window;
use tardy_model::qdisc::Keeper;
use tardy_model::verdict::{Level, Verdict};

pub(super) const RULE: Rule = Rule { id: "narrow-windows", spoils: Spoils::Measuring, judge };

fn judge(evidence: &Evidence<'_>) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for (stream, record) in &evidence.record.streams {
        let launching = &record.launching;
        let Some(gate) = launching.gate.as_ref().filter(|gate| gate.keeper == Keeper::Taprio) else { continue };
        // A gate that never closes waits for no timer.
        let Some(gates) = gate.gates.as_ref().filter(|gates| !gates.always_open()) else { continue };
        let Some(shortest_ns) = gates.windows.iter().copied().map(Window::length_ns).min() else { continue };
        let class = gate.class.map_or_else(String::new, |class| format!(" of class {class}"));
        let (level, says) = match launching.timer_p99_9_ns {
            Some(timer_ns) if shortest_ns - gate.frame_ns > timer_ns => continue,
            Some(timer_ns) => (
                Level::Warning,
                format!(
                    "the shortest window{class} lasts {}, of which a frame of {stream} takes {}, and the timer of its thread is late by {} at \
                     p99.9: when packets come, or the timer by which taprio in software opens it, it may be over; they then wait for another, and are \
                     dropped when the queue is full; write longer windows",
                    says::time(shortest_ns),
                    says::time(gate.frame_ns),
                    says::time(timer_ns)
                ),
            ),
            None => (
                Level::Note,
                format!(
                    "whether taprio in software meets the windows{class} is not checked: the ruler has no figure of the timer of {stream}'s \
                     thread; the shortest lasts {}",
                    says::time(shortest_ns)
                ),
            ),
        };
        let mut verdict = Verdict::new(RULE.id, level, says)
            .with("stream", stream.as_str())
            .with("window_ns", shortest_ns)
            .with("frame_ns", gate.frame_ns);
        if let Some(class) = gate.class {
            verdict = verdict.with("class", u32::from(class));
        }
        if let Some(timer_ns) = launching.timer_p99_9_ns {
            verdict = verdict.with("timer_p99_9_ns", timer_ns);
        }
        verdicts.push(verdict);
    }
    verdicts
}
