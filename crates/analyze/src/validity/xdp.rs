// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is worth knowing of a port `xdp`: a faster way for packets than the one that was taken.

use super::evidence::Evidence;
use super::{Rule, Spoils};
use tardy_model::verdict::{Level, Verdict};

/// `xdp-mode`: the driver or the device could not do what would have been faster.
pub(super) const MODE: Rule = Rule { id: "xdp-mode", spoils: Spoils::Measuring, judge: mode };

fn mode(evidence: &Evidence<'_>) -> Vec<Verdict> {
    let ports = evidence.record.streams.iter().filter_map(|(stream, record)| Some((stream, record.xdp.as_ref()?)));
    let fell_back = ports.filter(|(_, port)| !port.refused.is_empty());
    let told = fell_back.map(|(stream, port)| {
        let refused: Vec<String> = port.refused.iter().map(|of| format!("{} ({})", of.mode.name(), of.why)).collect();
        let mode = port.mode.name();
        let says = format!(
            "packets of {stream} come to AF_XDP in {mode} mode, because what is faster was refused: {}",
            refused.join(", ")
        );
        let modes: Vec<&str> = port.refused.iter().map(|of| of.mode.name()).collect();
        Verdict::new(MODE.id, Level::Note, says)
            .with("stream", stream.as_str())
            .with("mode", mode)
            .with("refused", modes.join(" "))
    });
    told.collect()
}
