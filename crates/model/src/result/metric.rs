// SPDX-License-Identifier: MIT OR Apache-2.0
//! The distribution of a metric in `results.json`.

use crate::point::Source;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The distribution of one metric; quantiles over intended packets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "metric")]
pub struct MetricResult {
    /// Clock of both stamps after conversion; empty if there is none.
    #[schemars(extend("enum" = ["tai", ""]))]
    pub clock: String,
    /// Who took the later stamp; empty if nobody.
    #[schemars(extend("enum" = sources()))]
    pub source: String,
    /// Rows with both stamps over rows received; for `delta` over received − 1.
    pub coverage: f64,
    /// Values.
    pub count: u64,
    /// How the percentiles were found: `hdr3`, from a histogram that is within 0.1 %, above 10
    /// million rows; empty if there are none.
    #[schemars(extend("enum" = ["exact", "hdr3", ""]))]
    pub percentiles: String,
    /// Why it is not available.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub why: Option<String>,
    /// The figures. Quantiles are over intended packets.
    #[serde(flatten)]
    pub figures: Figures,
    /// The packet of the maximum, of those received; null without values.
    pub max_seq: Option<i64>,
    /// The trial of the maximum, of the packets received; null without values.
    pub max_trial: Option<u32>,
    /// Percentiles that are null because the rank falls on a lost or unsent packet; `max` where
    /// there is one at all.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub infinite: Vec<String>,
    /// Percentiles that are null because fewer than 10 separate events lie beyond, or for a reason
    /// that is in `between_ns`.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub unresolved: Vec<String>,
    /// Percentiles that are null because packets which were received without a stamp could change
    /// them: the least and the greatest that each can be, ns; null where nothing is known.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub between_ns: BTreeMap<String, [Option<i64>; 2]>,
    /// Quantiles over received packets only, where they differ.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub received_only: Option<Quantiles>,
    /// The greatest of the received packets, where `max_ns` is null because something never
    /// arrived.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub received_only_max_ns: Option<i64>,
    /// Negative values: `early` if the metric counts from `scheduled`, else faults of a clock;
    /// left out where there are none.
    #[serde(skip_serializing_if = "is_zero", default)]
    pub negative: u64,
}

/// What `source` may be.
fn sources() -> Vec<&'static str> {
    Source::ALL.into_iter().map(Source::name).chain([""]).collect()
}

/// The name of the maximum among figures that are infinite.
pub const MAX: &str = "max";

impl MetricResult {
    /// True if a packet never arrived, so that no figure over all intended packets bounds how late
    /// they were.
    pub fn is_unbounded(&self) -> bool {
        self.infinite.iter().any(|name| name == MAX)
    }

    /// The greatest value among the received packets.
    pub fn greatest_received_ns(&self) -> Option<i64> {
        self.figures.max_ns.or(self.received_only_max_ns)
    }
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// Moments and quantiles.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Figures {
    /// The least value; null without values.
    pub min_ns: Option<i64>,
    /// The mean of the values; null without values.
    pub mean_ns: Option<f64>,
    /// The standard deviation of the values, by n − 1; null of fewer than two.
    pub stddev_ns: Option<f64>,
    /// The greatest over intended packets; null where one never arrived, or without values: see
    /// `infinite`, `why`.
    pub max_ns: Option<i64>,
    /// Quantiles.
    #[serde(flatten)]
    pub quantiles: Quantiles,
}

/// Nearest-rank quantiles, `ceil(q·n)`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "quantiles")]
pub struct Quantiles {
    /// Median; null: see `infinite`, `unresolved`, `why`.
    pub p50_ns: Option<i64>,
    /// 90th percentile; null: see `infinite`, `unresolved`, `why`.
    pub p90_ns: Option<i64>,
    /// 99th percentile; null: see `infinite`, `unresolved`, `why`.
    pub p99_ns: Option<i64>,
    /// 99.9th percentile; null: see `infinite`, `unresolved`, `why`.
    pub p99_9_ns: Option<i64>,
    /// 99.99th percentile; null: see `infinite`, `unresolved`, `why`.
    pub p99_99_ns: Option<i64>,
}

/// The quantiles that are printed: field stem in the results, name in tables and `of`, q as a
/// fraction.
pub const QUANTILES: [(&str, &str, f64); 5] = [
    ("p50", "p50", 0.5),
    ("p90", "p90", 0.9),
    ("p99", "p99", 0.99),
    ("p99_9", "p99.9", 0.999),
    ("p99_99", "p99.99", 0.9999),
];

impl Quantiles {
    /// In the order of [`QUANTILES`].
    pub fn as_array(&self) -> [Option<i64>; 5] {
        [self.p50_ns, self.p90_ns, self.p99_ns, self.p99_9_ns, self.p99_99_ns]
    }
    /// From the order of [`QUANTILES`].
    pub fn from_array(q: [Option<i64>; 5]) -> Self {
        Quantiles { p50_ns: q[0], p90_ns: q[1], p99_ns: q[2], p99_9_ns: q[3], p99_99_ns: q[4] }
    }
}
