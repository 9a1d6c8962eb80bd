// SPDX-License-Identifier: MIT OR Apache-2.0
//! Clusters beyond the printed quantiles when there are too many values to keep. At least as many as counted are there.

use super::starts::Starts;

/// Values of a block of which all or none are looked at.
const BLOCK: usize = 1024;
/// One block in so many is looked at for the lower quantiles, beyond which there are clusters everywhere.
const SAMPLED: usize = 16;

/// For the quantiles whose clusters end after one packet (p50, p90), and for those with the longest gap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Counted {
    /// In the sampled blocks only.
    low: Starts,
    /// Above the floor only; one for each trial, for each has its own floor. The last one is being added to.
    high: Vec<Starts>,
    /// Values seen in the trial.
    seen: usize,
}

impl Counted {
    /// Values below `floor_ns` are passed over for p99 and higher.
    pub fn new(floor_ns: Option<i64>) -> Self {
        Counted { low: Starts::new(1, None), high: vec![Starts::new(super::LONGEST_GAP, floor_ns)], seen: 0 }
    }

    /// What comes next is another trial.
    pub fn next_trial(&mut self) {
        self.low.apart();
        self.high.iter_mut().for_each(Starts::apart);
        self.seen = 0;
    }

    /// Continues a trial.
    pub fn add(&mut self, mut values: &[i64]) {
        if let Some(high) = self.high.last_mut() {
            high.add(values);
        }
        while !values.is_empty() {
            let (block, inside) = (self.seen / BLOCK, self.seen % BLOCK);
            let (now, later) = values.split_at(values.len().min(BLOCK - inside));
            if block.is_multiple_of(SAMPLED) {
                if inside == 0 { self.low.add_after_unseen(now) } else { self.low.add(now) }
            }
            self.seen += now.len();
            values = later;
        }
    }

    /// Adds other trials.
    pub fn merge(&mut self, other: Counted) {
        self.low.merge(&other.low);
        self.high.extend(other.high);
        self.seen = 0;
    }

    /// Clusters beyond a quantile's value whose clusters end after `gap` packets, at least.
    pub fn beyond(&self, value_ns: i64, gap: usize, with_infinite: bool) -> u64 {
        let starts = if gap <= 1 { std::slice::from_ref(&self.low) } else { &self.high };
        starts.iter().map(|starts| starts.beyond(value_ns, with_infinite)).sum()
    }
}
