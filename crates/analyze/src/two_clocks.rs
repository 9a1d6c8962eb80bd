// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a cell keeps of a metric whose stamps two clocks took: how wrong a value may be, and what
//! of it is above the least one of its trial, where what is constant in the error cancels.

use crate::digest::MetricDigest;
use tardy_model::point::Metric;
use tardy_model::result::MetricResult;
use tardy_model::time::Drift;
use tardy_model::trial::StreamRecord;

/// A metric whose stamps two clocks took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TwoClocks {
    /// By how much a value may be wrong, ns.
    pub bound_ns: i64,
    /// What each trial shows of by how much more one may be wrong than another of the same trial.
    drifts: Vec<Drift>,
    /// The values less the least one of their trial, if they are known of every trial.
    pub above: Option<MetricDigest>,
}

impl TwoClocks {
    pub fn of(metric: Metric, record: &StreamRecord, digest: &MetricDigest) -> Option<TwoClocks> {
        let bound_ns = record.clock_bound_ns(metric)?;
        Some(TwoClocks { bound_ns, drifts: vec![record.drift(metric)], above: digest.above_minimum() })
    }

    pub fn merge(&mut self, other: TwoClocks) {
        self.bound_ns = self.bound_ns.max(other.bound_ns);
        self.drifts.extend(other.drifts);
        self.above = match (self.above.take(), other.above) {
            (Some(mut above), Some(more)) => {
                above.merge(more);
                Some(above)
            }
            _ => None,
        };
    }

    /// What is above the minimum, with what is left of the bound: the largest of the trials.
    pub fn above(&self, source: &str) -> Option<MetricResult> {
        let found = self.above.as_ref()?.finish(source, None);
        let drift_bound_ns = Drift::bounds_ns(&self.drifts).into_iter().max();
        Some(MetricResult { clock_bound_ns: drift_bound_ns, ..found })
    }
}
