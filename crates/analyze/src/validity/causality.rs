// SPDX-License-Identifier: MIT OR Apache-2.0
//! `causality`: a later point was stamped before an earlier one by more than the clocks' bounds: a
//! fault of a clock. What counts from `scheduled` may be early and is not looked at.

use super::{Evidence, Rule, Spoils};
use crate::says;
use tardy_model::point::{Metric, Point};
use tardy_model::verdict::{Level, Verdict};

pub(super) const RULE: Rule = Rule { id: "causality", spoils: Spoils::Measuring, judge };

fn judge(evidence: &Evidence<'_>) -> Vec<Verdict> {
    if evidence.clock_jumped() {
        return Vec::new();
    }
    let mut verdicts = Vec::new();
    for (stream, result) in evidence.results {
        let Some(record) = evidence.record.streams.get(stream) else { continue };
        let both_ns = record.tx_conversion.bound_ns.saturating_add(record.rx_conversion.bound_ns);
        // The worst pair speaks for all that one clock spoilt.
        let worst = result
            .metrics
            .iter()
            .filter_map(|(name, metric)| {
                let pair = name.parse::<Metric>().ok().filter(|pair| pair.is_causal())?;
                // The device's clock is in question only where its stamp is.
                let of_device = if pair.points().contains(&Point::TxHw) { record.tx_hw_bound_ns } else { 0 };
                // The clocks of two hosts are in question only where a pair has an end on each.
                let of_hosts = if pair.crosses_stations() { record.offsets.bound_ns() } else { 0 };
                let bound_ns = both_ns.saturating_add(of_device).saturating_add(of_hosts);
                Some((metric.figures.min_ns?, name, metric.negative, bound_ns))
            })
            .filter(|(min_ns, _, _, bound_ns)| *min_ns < bound_ns.saturating_neg())
            .min();
        let Some((min_ns, metric, negative, bound_ns)) = worst else { continue };
        let says = format!(
            "{stream}: {metric} is negative in {}, down to {}, which the clocks' bound of {} does not explain",
            says::count(negative, "packet", "packets"),
            says::time(min_ns),
            says::time(bound_ns)
        );
        verdicts.push(
            Verdict::new(RULE.id, Level::Invalid, says)
                .with("stream", stream.as_str())
                .with("metric", metric.as_str())
                .with("negative", negative)
                .with("min_ns", min_ns)
                .with("bound_ns", bound_ns),
        );
    }
    verdicts
}
