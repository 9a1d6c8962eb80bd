// SPDX-License-Identifier: MIT OR Apache-2.0
//! How long the locks of a copy's submission path took, in a thread and over all of them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a lock of the submission path is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "lock-of")]
pub enum LockOf {
    /// A controller's list of free descriptors, which all its threads share.
    Descriptors,
    /// The queues of a channel, which its threads share.
    Queues,
}

impl LockOf {
    pub const ALL: [LockOf; 2] = [LockOf::Descriptors, LockOf::Queues];

    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            LockOf::Descriptors => "descriptor lists",
            LockOf::Queues => "queues of the channels",
        }
    }
}

/// How long a thread took to get locks of one kind, each time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LockTimes {
    pub of: LockOf,
    /// All of them together, ns.
    pub sum_ns: i64,
    /// The longest of them, ns.
    pub max_ns: i64,
    /// The greatest time of a bucket, ns, and how often one was in it; ascending, at most 6 %
    /// apart.
    pub buckets: Vec<(i64, u64)>,
}

/// How long it took to get locks of one kind, over all threads.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "lock")]
pub struct LockResult {
    /// What it is the lock of.
    pub of: LockOf,
    /// How often one was taken.
    pub taken: u64,
    /// Median, ns; one reading of the counter is in it.
    pub p50_ns: i64,
    /// Of a hundred, one took longer, ns.
    pub p99_ns: i64,
    /// The longest that a thread waited, ns.
    pub max_ns: i64,
    /// All together, as a share of the threads' time in passes.
    pub share: f64,
}
