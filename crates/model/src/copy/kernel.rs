// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is known of a copy that threads of the kernel have DMA controllers do: which module they
//! are of, what it reports of each of them, and what the kernel's tracepoints show of its locks.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A kernel module whose threads have DMA controllers copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "module")]
pub enum CopyModule {
    /// The kernel's own test, which copies one buffer at a time.
    Dmatest,
    /// tardy's own test module, which chains several descriptors. The kernel has no such test.
    TardySgtest,
}

impl CopyModule {
    /// The name in the kernel, and in files.
    pub const fn name(self) -> &'static str {
        match self {
            CopyModule::Dmatest => "dmatest",
            CopyModule::TardySgtest => "tardy_sgtest",
        }
    }

    /// Whose it is, in words.
    pub const fn says(self) -> &'static str {
        match self {
            CopyModule::Dmatest => "the kernel's dmatest",
            CopyModule::TardySgtest => "tardy's own test module tardy_sgtest, which is not the kernel's dmatest,",
        }
    }
}

/// What a test in the kernel says of one of its threads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "dmatest")]
pub struct KernelFigures {
    /// Buffers that it copied.
    pub tests: u64,
    /// Those that went wrong; of sgtest, chains that did and buffers that differ afterwards.
    pub failures: u64,
    /// Buffers a second, without the time in which it fills or verifies them.
    pub iops: f64,
    /// KiB a second, likewise.
    pub kb_s: u64,
    /// As the kernel printed it, without the time.
    pub line: String,
}

/// The most locks of [`Contention::locks`].
pub const MOST_LOCKS: usize = 16;

/// Waits for the kernel's own locks, as its tracepoints showed them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "contention")]
pub struct Contention {
    /// The kernel's tracepoints by which waits were seen.
    pub source: String,
    /// Why nothing was recorded; null where it was.
    pub why: Option<String>,
    /// Unit of the times, ns: the kernel prints microseconds, or the readings of its counter.
    pub unit_ns: i64,
    /// Those with the longest waits in all, at most 16.
    pub locks: Vec<KernelLock>,
    /// Waits for all others.
    pub other_waits: u64,
    /// Waits of which only the beginning or only the end was recorded.
    pub half: u64,
    /// Events that the kernel had no room for: waits among them are missing.
    pub lost: u64,
}

/// Waits for one lock of the kernel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "kernel-lock")]
pub struct KernelLock {
    /// As the kernel prints its address: hashed, so it only tells locks apart.
    pub lock: String,
    /// What it is, by the kernel's flags: `spin`, `mutex`, `read`, `write`, `rt`.
    pub kind: String,
    /// How often one of the threads waited for it.
    pub waits: u64,
    /// All of them together, ns.
    pub sum_ns: i64,
    /// The longest of them, ns.
    pub max_ns: i64,
}
