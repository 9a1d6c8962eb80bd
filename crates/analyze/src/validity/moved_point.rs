// SPDX-License-Identifier: MIT OR Apache-2.0
//! `moved-point`: a launch time stays with the packet in the place of its arrival's stamp, so `rx_kernel` is taken at local delivery.

use super::{Evidence, Rule, Spoils};
use tardy_model::point::Point;
use tardy_model::qdisc::RxKernelAt;
use tardy_model::verdict::{Level, Verdict};

pub(super) const RULE: Rule = Rule { id: "moved-point", spoils: Spoils::Measuring, judge };

fn judge(evidence: &Evidence<'_>) -> Vec<Verdict> {
    let moved = evidence.record.streams.iter().filter(|(_, record)| {
        record.launching.rx_kernel_at == Some(RxKernelAt::LocalDelivery)
            && record.sources.contains_key(&Point::RxKernel)
    });
    let told = moved.map(|(stream, record)| {
        let says = format!(
            "rx_kernel of {stream} is taken at local delivery, behind the protocols, for its packets bear launch times: compare it only \
             with streams that bear them too"
        );
        Verdict::new(RULE.id, Level::Note, says)
            .with("stream", stream.as_str())
            .with("rx_kernel_at", RxKernelAt::LocalDelivery.name())
            .with("launch", record.launching.launch.name())
    });
    told.collect()
}
