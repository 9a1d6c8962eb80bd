// SPDX-License-Identifier: MIT OR Apache-2.0
//! `launch-ignored`: packets bear launch times, and the queue discipline that was read back does
//! not look at them. A socket option that is accepted says nothing.

use super::{Evidence, Rule, Spoils};
use tardy_model::qdisc::Keeper;
use tardy_model::verdict::{Level, Verdict};

pub(super) const RULE: Rule = Rule { id: "launch-ignored", spoils: Spoils::Measuring, judge };

fn judge(evidence: &Evidence<'_>) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for (stream, record) in &evidence.record.streams {
        let launching = &record.launching;
        let Some(shaper) = evidence.record.shapers.get(&launching.station).filter(|_| launching.launch.is_some())
        else {
            continue;
        };
        let by_device = launching.gate.as_ref().is_some_and(|gate| gate.keeper == Keeper::Device);
        let root = shaper.root();
        // Of what could not be read back nothing is known, and `shaper` says so.
        if root.is_empty() || shaper.honours_launch(launching.class) || by_device {
            continue;
        }
        let does = match root {
            "taprio" => "drops those outside the windows of their class and holds none until its own",
            _ => "does not look at them",
        };
        let says = format!("the launch times of {stream} hold no packet: {root} on {} {does}", shaper.device);
        verdicts.push(
            Verdict::new(RULE.id, Level::Note, says)
                .with("stream", stream.as_str())
                .with("station", launching.station.as_str())
                .with("root", root)
                .with("launch", launching.launch.name()),
        );
    }
    verdicts
}
