// SPDX-License-Identifier: MIT OR Apache-2.0
//! `moved-point`: a launch time stays with the packet in the place of its arrival's stamp, so
//! `rx_kernel` is taken further on the way.

use super::{Evidence, Rule, Spoils};
use tardy_model::point::Point;
use tardy_model::verdict::{Level, Verdict};

pub(super) const RULE: Rule = Rule { id: "moved-point", spoils: Spoils::Measuring, judge };

fn judge(evidence: &Evidence<'_>) -> Vec<Verdict> {
    let moved = evidence.record.streams.iter().filter_map(|(stream, record)| {
        let at = record.launching.rx_kernel_at.filter(|at| at.is_moved())?;
        record.sources.contains_key(&Point::RxKernel).then_some((stream, record, at))
    });
    let told = moved.map(|(stream, record, at)| {
        let says = format!(
            "rx_kernel of {stream} is taken {}, for its packets bear launch times: compare it only with streams of the same port that \
             bear them too",
            at.says()
        );
        Verdict::new(RULE.id, Level::Note, says)
            .with("stream", stream.as_str())
            .with("rx_kernel_at", at.name())
            .with("launch", record.launching.launch.name())
    });
    told.collect()
}
