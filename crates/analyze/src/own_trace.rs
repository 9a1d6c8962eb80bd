// SPDX-License-Identifier: MIT OR Apache-2.0
//! Does tardy show in its own figures? The path does not know which packet of a trial is the first
//! or the last, nor how many stamps tardy takes at a time, nor when: where figures depend on that,
//! it is tardy that they show.
//!
//! Three comparisons, each with a test that holds for values that are skewed and hang together:
//! [`edge`], [`intervals`], [`residues`]. Formulas, limits and their sources are in
//! `docs/method/own-trace.md`.

mod cell;
mod edge;
mod intervals;
mod judge;
mod residues;

pub use cell::CellTrace;
pub(crate) use cell::OwnTracePass;
pub use judge::{judge, stamp_ns};

pub const ID: &str = "own-trace";
/// The chance that a run without any trace of tardy is reported to have one.
pub const MOST_P: f64 = 0.001;
/// A difference up to this share of the metric's median is no trace.
pub const LEAST_SHARE: f64 = 0.05;
/// Of each n-th round trip a difference up to n times this is no trace of tardy. The kernel fills
/// and empties its caches of packet heads by sixteen and by sixty-four, and the round trip at
/// which it does so takes longer, whoever makes it: in a C loop each 16th takes up to 0.9 µs
/// longer (`bench caches`). To fetch the stamps of n packets takes more: each is a message to be
/// received, which takes 200 ns or more on the fastest machine that was measured.
pub const CACHES_NS: i64 = 150;
/// Comparisons of which values are kept, for a cell's metric.
const KEPT: usize = 4096;

/// What a test found, whether it is a trace or not.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Difference {
    /// The chance of so much if these packets are like all others, of this test alone.
    pub p_value: f64,
    /// How much longer the affected packets take, the median over all comparisons, ns.
    pub difference_ns: i64,
    /// The median of the affected packets, ns.
    pub affected_ns: i64,
    /// The median of those they are compared with, ns.
    pub others_ns: i64,
    /// How many packets are affected.
    pub packets: u64,
    /// Independent comparisons that the test rests on.
    pub comparisons: u64,
    /// The least value of an affected packet, where single ones are examined.
    pub least_ns: i64,
    pub greatest_ns: i64,
    pub class: Option<(u64, u64)>,
    /// A modulus of which one remainder alone makes this difference: that is the batch that it
    /// comes from.
    pub from_each: Option<u64>,
}

/// Which packets are compared with the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// The first packet of each trial.
    First,
    /// The last packet of each trial.
    Last,
    /// Those under way while a measuring thread worked for tardy.
    Interval,
    /// The same, where that work had a cause outside tardy.
    Forced,
    /// Each n-th round trip.
    Residue,
}
