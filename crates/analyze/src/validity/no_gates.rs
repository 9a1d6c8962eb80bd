// SPDX-License-Identifier: MIT OR Apache-2.0
//! `no-gates`: the device takes a schedule and reports it, and keeps none: netdevsim has no
//! hardware behind it. Nothing that is measured tells of gates, so no figure is given.

use super::{Evidence, Rule, Spoils};
use tardy_model::qdisc::Keeper;
use tardy_model::verdict::{Level, Verdict};

pub(super) const RULE: Rule = Rule { id: "no-gates", spoils: Spoils::Measuring, judge };

/// A driver that accepts every offload and does none.
const SIMULATED: &str = "netdevsim";

fn judge(evidence: &Evidence<'_>) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for (stream, record) in &evidence.record.streams {
        let launching = &record.launching;
        let by_device = launching.gate.as_ref().is_some_and(|gate| gate.keeper == Keeper::Device);
        let shaper = evidence.record.shapers.get(&launching.station);
        let Some(shaper) = shaper.filter(|shaper| by_device && shaper.driver.as_deref() == Some(SIMULATED)) else {
            continue;
        };
        let says = format!(
            "{} takes the schedule of {stream} and keeps none: its driver is {SIMULATED}, which has no gates; figures would tell nothing of them",
            shaper.device
        );
        let verdict = Verdict::new(RULE.id, Level::Invalid, says).with("stream", stream.as_str());
        verdicts.push(verdict.with("device", shaper.device.as_str()).with("driver", SIMULATED));
    }
    verdicts
}
