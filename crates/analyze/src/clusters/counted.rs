// SPDX-License-Identifier: MIT OR Apache-2.0
//! Clusters beyond the printed quantiles when there are too many values to keep. At least as many
//! as counted are there.

use super::starts::Starts;
use crate::counts::Places;
use std::ops::Range;

/// Values of a block of which all or none are looked at.
const BLOCK: usize = 1024;
/// One block in so many is looked at for the lower quantiles, beyond which there are clusters
/// everywhere.
const SAMPLED: usize = 64;
/// One in so many for p99.
const SAMPLED_TAIL: usize = 16;

/// For the quantiles whose clusters end after one packet (p50, p90), and for those with the
/// longest gap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Counted {
    /// In the sampled blocks only.
    low: Starts,
    /// For each trial, for each has its own floors; the last one is being added to.
    trials: Vec<Tail>,
    /// Values seen in the trial.
    seen: usize,
}

/// The long-gapped clusters of a trial.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Tail {
    /// In the sampled blocks only, above a floor well below p99.
    sampled: Starts,
    /// Of all values, above a floor near p99.
    all: Starts,
}

/// Below these, values are passed over.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Floors {
    pub sampled_ns: Option<i64>,
    pub all_ns: Option<i64>,
}

impl Counted {
    /// Values below the floors are passed over for p99 and higher.
    pub fn new(floors: Floors) -> Self {
        let starts = |floor_ns| Starts::new(super::LONGEST_GAP, floor_ns);
        let tail = Tail { sampled: starts(floors.sampled_ns), all: starts(floors.all_ns) };
        Counted { low: Starts::new(1, None), trials: vec![tail], seen: 0 }
    }

    /// What comes next is another trial.
    pub fn next_trial(&mut self) {
        self.low.apart();
        for tail in &mut self.trials {
            tail.sampled.apart();
            tail.all.apart();
        }
        self.seen = 0;
    }

    pub fn add(&mut self, values: &[i64]) {
        if let Some(tail) = self.trials.last_mut() {
            tail.all.add(values.iter().copied());
        }
        self.sample(values.len(), |some| values[some].iter().copied());
    }

    /// Continues a trial with values that have places.
    pub fn add_places(&mut self, places: &Places) {
        if let Some(tail) = self.trials.last_mut() {
            tail.all.add_places(places);
        }
        self.sample(places.len(), |some| places.values(some));
    }

    /// Hands the sampled blocks their share of so many values.
    fn sample<V: ExactSizeIterator<Item = i64>>(&mut self, count: usize, values: impl Fn(Range<usize>) -> V) {
        let Some(tail) = self.trials.last_mut() else { return };
        let mut start = 0;
        while start < count {
            let (block, inside) = (self.seen / BLOCK, self.seen % BLOCK);
            let now = start..count.min(start + BLOCK - inside);
            for (starts, one_in) in [(&mut self.low, SAMPLED), (&mut tail.sampled, SAMPLED_TAIL)] {
                if block.is_multiple_of(one_in) {
                    let values = values(now.clone());
                    if inside == 0 { starts.add_after_unseen(values) } else { starts.add(values) }
                }
            }
            self.seen += now.len();
            start = now.end;
        }
    }

    pub fn merge(&mut self, other: Counted) {
        self.low.merge(&other.low);
        self.trials.extend(other.trials);
        self.seen = 0;
    }

    /// Clusters beyond a quantile's value whose clusters end after `gap` packets, at least.
    pub fn beyond(&self, value_ns: i64, gap: usize, with_infinite: bool) -> u64 {
        if gap <= 1 {
            return self.low.beyond(value_ns, with_infinite);
        }
        // Neither counts one that is not there, so the greater is right.
        let of = |tail: &Tail| [&tail.sampled, &tail.all].map(|starts| starts.beyond(value_ns, with_infinite));
        self.trials.iter().map(|tail| of(tail).into_iter().max().unwrap_or(0)).sum()
    }
}
