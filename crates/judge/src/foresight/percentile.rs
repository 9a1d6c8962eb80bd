// SPDX-License-Identifier: MIT OR Apache-2.0
//! Limits of percentiles that so many packets cannot resolve: such an expectation is never met.

use super::foreseen::{Foreseen, Machine, number};
use std::collections::BTreeMap;
use tardy_analyze::clusters::NEEDED;
use tardy_analyze::quantiles::packets_for;
use tardy_model::expect::{Limit, Of};
use tardy_model::result::QUANTILES;
use tardy_model::verdict::Level;
use tardy_spec::experiment::{Cell, Experiment};

pub(super) fn of(experiment: &Experiment, cell: &Cell, _: &Machine) -> Vec<Foreseen> {
    // Of several limits of a stream the farthest percentile says what all of them need.
    let mut farthest: BTreeMap<(&str, String), usize> = BTreeMap::new();
    for expectation in &cell.expect {
        if let Limit::Metric { metric, of: Of::Quantile(index), .. } = expectation.limit {
            let of = farthest.entry((&expectation.stream, metric.to_string())).or_default();
            *of = index.max(*of);
        }
    }
    let trials = u64::from(experiment.trials);
    let one = |((stream, metric), index): ((&str, String), usize)| {
        let count = u64::from(cell.setup.streams.iter().find(|of| of.name == stream)?.count);
        let (_, name, q) = QUANTILES.get(index)?;
        let needed = packets_for(*q, NEEDED);
        if count.saturating_mul(trials) >= needed {
            return None;
        }
        let why = format!(
            "{name} cannot be told from {} packets in each of {} trials, so the expectation cannot be met: {NEEDED} separate events must lie \
             beyond it, for which it takes about {} packets, more if they come in bursts",
            number(count),
            number(trials),
            number(needed)
        );
        let help = format!(
            "write stream.{stream}.count = {}, or trials = {}",
            number(needed.div_ceil(trials.max(1))),
            number(needed.div_ceil(count.max(1)))
        );
        Some(Foreseen::new(Level::Warning, format!("expect.{stream}.{metric}"), why, help))
    };
    farthest.into_iter().filter_map(one).collect()
}
