// SPDX-License-Identifier: MIT OR Apache-2.0
//! Nearest ranks, and what is said of a quantile that has no figure.

use std::collections::BTreeMap;
use tardy_model::result::{QUANTILES, Quantiles};

/// A quantile as parts of ten thousand, so that ranks are whole-number arithmetic: `0.9999 × n` in
/// floating point may lie just above the rank that is meant.
fn parts(q: f64) -> u64 {
    (q * 10_000.0).round() as u64
}

/// Nearest rank `ceil(q·n)`, from 1; 0 if `n` is 0.
pub fn rank_of(q: f64, n: u64) -> u64 {
    let rank = (u128::from(parts(q)) * u128::from(n)).div_ceil(10_000);
    u64::try_from(rank).unwrap_or(u64::MAX).max(u64::from(n > 0))
}

/// Packets below which a percentile cannot have `clusters` separate packets beyond it.
pub fn packets_for(q: f64, clusters: u32) -> u64 {
    (u64::from(clusters) * 10_000).div_ceil(10_000u64.saturating_sub(parts(q)).max(1))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantile {
    /// Its value, ns.
    Value(i64),
    /// Its rank falls on a packet that never arrived.
    Infinite,
    /// Too few separate clusters lie beyond it.
    Unresolved,
    /// It depends on packets that were received without a stamp: the least and the greatest that
    /// it can be, ns; `None` where nothing is known.
    Between([Option<i64>; 2]),
}

/// Figures, and the names of those that are null with the reason.
pub(crate) struct Named {
    pub quantiles: Quantiles,
    pub infinite: Vec<String>,
    pub unresolved: Vec<String>,
    pub between_ns: BTreeMap<String, [Option<i64>; 2]>,
}

pub(crate) fn named(found: [Quantile; QUANTILES.len()]) -> Named {
    let each = || QUANTILES.iter().zip(found).map(|((_, name, _), q)| ((*name).to_owned(), q));
    let names = |is: fn(&Quantile) -> bool| each().filter(|(_, q)| is(q)).map(|(name, _)| name).collect();
    Named {
        quantiles: Quantiles::from_array(found.map(|q| match q {
            Quantile::Value(ns) => Some(ns),
            Quantile::Infinite | Quantile::Unresolved | Quantile::Between(_) => None,
        })),
        infinite: names(|q| *q == Quantile::Infinite),
        unresolved: names(|q| matches!(q, Quantile::Unresolved | Quantile::Between(_))),
        between_ns: each()
            .filter_map(|(name, q)| match q {
                Quantile::Between(bounds) => Some((name, bounds)),
                _ => None,
            })
            .collect(),
    }
}
