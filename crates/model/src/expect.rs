// SPDX-License-Identifier: MIT OR Apache-2.0
//! Expectations: limits that the user wrote.

use crate::point::Metric;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The quantiles that are printed: field stem in the results, name in tables and `of`, q as a
/// fraction.
pub const QUANTILES: [(&str, &str, f64); 5] = [
    ("p50", "p50", 0.5),
    ("p90", "p90", 0.9),
    ("p99", "p99", 0.99),
    ("p99_9", "p99.9", 0.999),
    ("p99_99", "p99.99", 0.9999),
];

/// A figure of a metric's distribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Of {
    Min,
    Mean,
    Stddev,
    Max,
    /// The quantile with this index in [`QUANTILES`].
    Quantile(usize),
}

impl fmt::Display for Of {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Of::Min => "min",
            Of::Mean => "mean",
            Of::Stddev => "stddev",
            Of::Max => "max",
            Of::Quantile(i) => QUANTILES[*i].1,
        })
    }
}

/// A count that can be limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Count {
    Lost,
    NotSent,
    Early,
    /// Received after scheduled + deadline.
    Late,
    /// Arrived more than once.
    Duplicate,
    /// Arrived after a later one.
    Reordered,
}

impl Count {
    /// All, in the order of the results.
    pub const ALL: [Count; 6] =
        [Count::Lost, Count::NotSent, Count::Early, Count::Late, Count::Duplicate, Count::Reordered];
    /// The name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Count::Lost => "lost",
            Count::NotSent => "not_sent",
            Count::Early => "early",
            Count::Late => "late",
            Count::Duplicate => "duplicate",
            Count::Reordered => "reordered",
        }
    }
    /// True if it counts what became of the packets, for which no clock and no stamp is needed: it
    /// is judged over every finished trial, whatever the validity. `early` and `late` compare
    /// instants.
    pub const fn needs_no_validity(self) -> bool {
        !matches!(self, Count::Early | Count::Late)
    }
}

/// What is limited, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Limit {
    /// `"scheduled..rx_kernel" = "p99.9 < 80us"`.
    Metric {
        metric: Metric,
        /// Which figure of it.
        of: Of,
        limit_ns: i64,
        /// True for `<=`, false for `<`.
        inclusive: bool,
    },
    /// `lost = 0`: at most this number.
    Count {
        count: Count,
        /// The most there may be, over all of the cell's finished trials together; of `early` and
        /// `late` but for those left out.
        at_most: u64,
    },
    /// `bandwidth = "10Gbit"`: what the threads of a copy have together over the wall time, in the
    /// median trial.
    Bandwidth {
        /// The least that it may be, bits a second.
        at_least_bits_s: u64,
    },
}

/// What a limit of a bandwidth is of, in files.
pub const BANDWIDTH: &str = "bandwidth";
/// Which figure of it is limited, in files.
pub const AT_LEAST: &str = "at_least";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expectation {
    /// The stream it is about.
    pub stream: String,
    pub limit: Limit,
}
