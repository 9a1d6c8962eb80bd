// SPDX-License-Identifier: MIT OR Apache-2.0
//! How many separate events lie beyond a quantile: one stall makes many late packets and is still
//! one event.
//!
//! Runs declustering (Smith and Weissman 1994, "Estimating the extremal index"; Coles 2001,
//! §5.3.2): packets of a trial in scheduled order; those beyond the quantile are exceedances; a
//! cluster ends after `r` packets in a row that are none.

pub(crate) mod counted;
pub mod starts;

/// Fewer separate clusters than this beyond a percentile, and the percentile is not resolved.
pub const NEEDED: u32 = 10;

/// Stands for a packet that never arrived: beyond every quantile.
pub const INFINITE: i64 = i64::MAX;

/// The longest gap that a run may have: with more, independent rare events would be merged.
pub(crate) const LONGEST_GAP: usize = 10;

/// Non-exceedances in a row that end a cluster: `round(0.1 / (1 − q))`, at least 1, at most 10.
///
/// A tenth of the mean distance between exceedances, so that of independent ones nine in ten stay
/// separate; never above 10, so that a stall that leaves a few packets in time is one cluster and
/// two stalls are two.
pub fn gap_of(q: f64) -> usize {
    ((0.1 / (1.0 - q)).round() as usize).clamp(1, LONGEST_GAP)
}

/// What lies beyond a quantile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beyond {
    /// The quantile's value, ns.
    pub value_ns: i64,
    /// Values equal to it.
    pub tied: u64,
    /// Of those, how many have a higher rank than the quantile.
    pub tied_beyond: u64,
    /// Non-exceedances in a row that end a cluster.
    pub gap: usize,
    /// False to pass over what never arrived.
    pub with_infinite: bool,
}

/// Clusters beyond a quantile, counted up to [`NEEDED`]. `trials` are the values of each trial in
/// scheduled order.
///
/// Where values tie with the quantile, as many of them as rank beyond it are exceedances, taken
/// evenly spaced: a distribution with equal values is resolved by as many packets as one without.
pub fn separate<'a>(trials: impl Iterator<Item = &'a [i64]>, beyond: &Beyond) -> u32 {
    let (mut clusters, mut share) = (0, 0u64);
    for values in trials {
        // Trials lie far apart: the first exceedance of each starts a cluster.
        let mut since = beyond.gap;
        for &value in values {
            let exceeds = if value > beyond.value_ns {
                if value == INFINITE && !beyond.with_infinite {
                    continue;
                }
                true
            } else if value == beyond.value_ns && beyond.tied_beyond > 0 {
                share += beyond.tied_beyond;
                let taken = share >= beyond.tied;
                if taken {
                    share -= beyond.tied;
                }
                taken
            } else {
                false
            };
            if !exceeds {
                since += 1;
                continue;
            }
            if since >= beyond.gap {
                clusters += 1;
                if clusters >= NEEDED {
                    return clusters;
                }
            }
            since = 0;
        }
    }
    clusters
}
