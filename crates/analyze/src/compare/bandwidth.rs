// SPDX-License-Identifier: MIT OR Apache-2.0
//! The bandwidth of a copy in two runs. Each trial has one, so a difference is judged by how the
//! trials of both lie to each other: nothing is known of how they are distributed, and if every one
//! of B is below every one of A, that comes by chance in few of the orders that all may have.

use tardy_model::comparison::{BandwidthComparison, Claim};
use tardy_model::result::StreamResult;

/// By chance alone all trials of one run are beyond all of the other, either way, in one comparison
/// of this number at most.
const SELDOM: f64 = 20.0;

/// Both bandwidths; `None` where one of the streams has none. `judged` is false where a run's
/// numbers must not be used.
pub(super) fn compared(both: [&StreamResult; 2], judged: bool) -> Option<BandwidthComparison> {
    let [a, b] = both.map(|stream| trials(stream).to_vec());
    let (a_bytes_s, b_bytes_s) = (median(&a)?, median(&b)?);
    let claim = match () {
        () if !judged => Claim::NotValid,
        () if !are_enough(a.len(), b.len()) => Claim::TooFew,
        () if is_beyond(&b, &a, 1.0) => Claim::Higher,
        () if is_beyond(&a, &b, 1.0) => Claim::Lower,
        () => Claim::None,
    };
    Some(BandwidthComparison {
        a_bytes_s,
        b_bytes_s,
        difference_share: b_bytes_s / a_bytes_s - 1.0,
        a_trials_bytes_s: a,
        b_trials_bytes_s: b,
        claim,
    })
}

/// Of each trial that counts, bytes a second.
fn trials(stream: &StreamResult) -> &[f64] {
    stream.copy.as_ref().map_or(&[], |copy| &copy.trials_bytes_s)
}

/// The middle one of the trials, the lower of two; `None` without a trial that copied.
fn median(trials: &[f64]) -> Option<f64> {
    let mut sorted = trials.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len().checked_sub(1)? / 2).copied().filter(|rate| *rate > 0.0)
}

/// True if these numbers of trials have enough orders for a claim to be made. Of the orders of
/// all, two have those of one run before those of the other.
pub(super) fn are_enough(a: usize, b: usize) -> bool {
    let orders = (1..=a.min(b)).map(|n| (a.max(b) + n) as f64 / n as f64).product::<f64>();
    a > 0 && b > 0 && orders >= 2.0 * SELDOM
}

/// How many trials each of two runs of as many needs.
pub(super) fn needed() -> usize {
    (1..).find(|n| are_enough(*n, *n)).unwrap_or(usize::MAX)
}

/// True if each of these is more than each of the others times this.
pub(super) fn is_beyond(these: &[f64], others: &[f64], times: f64) -> bool {
    let least = these.iter().copied().fold(f64::INFINITY, f64::min);
    let most = others.iter().copied().fold(0.0, f64::max);
    least > most * times
}
