// SPDX-License-Identifier: MIT OR Apache-2.0
//! `shaper`: the queue discipline that was read back is not the one that was asked for.

use super::{Evidence, Rule, Spoils};
use tardy_model::verdict::{Figure, Level, Verdict};

pub(super) const RULE: Rule = Rule { id: "shaper", spoils: Spoils::Measuring, judge };

fn judge(evidence: &Evidence<'_>) -> Vec<Verdict> {
    let differs = evidence.record.shapers.iter().filter(|(_, shaper)| !shaper.differs.is_empty());
    let told = differs.map(|(station, shaper)| {
        let says = format!(
            "the queue discipline of {} at {station} is not what was asked for: {}",
            shaper.device,
            shaper.differs.join("; ")
        );
        Verdict::new(RULE.id, Level::Invalid, says)
            .with("station", station.as_str())
            .with("asked", shaper.asked.as_str())
            .with("root", shaper.root())
            .with("differs", Figure::List(shaper.differs.iter().map(|what| what.as_str().into()).collect()))
    });
    told.collect()
}
