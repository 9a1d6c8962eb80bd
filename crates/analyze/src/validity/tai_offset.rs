// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tai-offset`: the kernel's TAI − UTC offset was changed during the trial, so that CLOCK_TAI jumped.

use super::{Evidence, Rule, Spoils};
use tardy_model::verdict::{Level, Verdict};

pub(super) const RULE: Rule = Rule { id: "tai-offset", spoils: Spoils::Measuring, judge };

fn judge(evidence: &Evidence<'_>) -> Vec<Verdict> {
    let record = evidence.record;
    let stations = record.streams.iter().flat_map(|(stream, s)| {
        [
            (format!("{stream}.tx"), s.tx_clocks[0], s.tx_clocks[1]),
            (format!("{stream}.rx"), s.rx_clocks[0], s.rx_clocks[1]),
        ]
    });
    let machine = ("machine".to_owned(), record.before.clocks, record.after.clocks);
    let changed = std::iter::once(machine).chain(stations).find(|(_, a, b)| a.tai_offset_s != b.tai_offset_s);
    let Some((at, before, after)) = changed else { return Vec::new() };
    let says = format!(
        "the kernel's TAI offset went from {} s to {} s during the trial: CLOCK_TAI, the schedule's clock, jumped",
        before.tai_offset_s, after.tai_offset_s
    );
    vec![
        Verdict::new(RULE.id, Level::Invalid, says)
            .with("at", at)
            .with("before_s", i64::from(before.tai_offset_s))
            .with("after_s", i64::from(after.tai_offset_s)),
    ]
}
