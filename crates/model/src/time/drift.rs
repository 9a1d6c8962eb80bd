// SPDX-License-Identifier: MIT OR Apache-2.0
//! How far two clocks may have moved against each other within one trial. Two readings around the
//! trial bound that by their own errors. The readings of all trials of a cell bound it better: over
//! a long time the same errors leave a small part of the rate open. Pure.

use super::{ClockReading, EndOffsets, Offset, OffsetReading};

/// The rates of two crystals against each other change by at most this in a minute, ppb: what a
/// temperature that changes does.
pub const WANDER_PPB: i64 = 100;
const MINUTE_NS: i128 = 60_000_000_000;
/// Trials to either side of one, at most, whose readings bound its drift.
const MOST_TRIALS: usize = 512;

/// What a trial shows of how the clocks of a stream's ends moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drift {
    /// By how much more one value may be wrong than another by this trial's readings alone, ns.
    alone_ns: i64,
    /// What stamps and conversions of one host add, ns.
    of_one_host_ns: i64,
    /// Where one comparison bounds both clocks.
    line: Option<Line>,
}

/// The line by which a trial's instants were converted, and what else was read of the two clocks.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Line {
    /// Which ends were compared: the sender's, the receiver's with the coordinator's, or both.
    compared: Compared,
    first: OffsetReading,
    last: OffsetReading,
    /// By how much the offset changes along the line from the first reading to the last.
    moved_ns: i128,
    bend_ns: i64,
    steered_ppb: i64,
    /// Of both ends, before the trial and after it.
    ends: [[ClockReading; 2]; 2],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Compared {
    Sender,
    Receiver,
    Both,
}

impl Drift {
    /// What a trial with these clocks shows.
    pub fn of(offsets: &EndOffsets, clocks: [[ClockReading; 2]; 2], of_one_host_ns: i64) -> Drift {
        let alone_ns = offsets.drift_bound_ns();
        let one = match (&offsets.pair, &offsets.tx, &offsets.rx) {
            _ if offsets.are_of_one_host() => None,
            (Some(pair), _, _) => Some((Compared::Both, pair)),
            (None, Some(tx), None) => Some((Compared::Sender, tx)),
            (None, None, Some(rx)) => Some((Compared::Receiver, rx)),
            _ => None,
        };
        Drift { alone_ns, of_one_host_ns, line: one.map(|(compared, offset)| Line::of(compared, offset, clocks)) }
    }

    /// The same of a metric of which only one host's clocks took the stamps.
    pub fn of_one_host(of_one_host_ns: i64) -> Drift {
        Drift { alone_ns: 0, of_one_host_ns, line: None }
    }

    /// By how much more one value of a trial may be wrong than another of the same trial, ns, for
    /// each of a cell's trials.
    pub fn bounds_ns(trials: &[Drift]) -> Vec<i64> {
        let mut bounds: Vec<i64> = trials.iter().map(|of| of.alone_ns).collect();
        let mut lines: Vec<(usize, &Line)> =
            trials.iter().enumerate().filter_map(|(n, of)| Some((n, of.line.as_ref()?))).collect();
        lines.sort_by_key(|(_, line)| line.first.at_tai_ns);
        for compared in [Compared::Sender, Compared::Receiver, Compared::Both] {
            let same: Vec<(usize, &Line)> = lines.iter().copied().filter(|(_, of)| of.compared == compared).collect();
            let readings: Vec<&Line> = same.iter().map(|(_, line)| *line).collect();
            for (own, (trial, line)) in same.into_iter().enumerate() {
                let by_others = line.by_others(own, &readings);
                bounds[trial] = by_others.map_or(bounds[trial], |by_others| by_others.min(bounds[trial]));
            }
        }
        trials.iter().zip(bounds).map(|(of, of_hosts)| of_hosts.saturating_add(of.of_one_host_ns)).collect()
    }
}

impl Line {
    fn of(compared: Compared, offset: &Offset, ends: [[ClockReading; 2]; 2]) -> Line {
        let (first, last) = (offset.first, offset.last);
        let moved_ns = if offset.without_slope().is_some() { 0 } else { apart(last.ahead_ns, first.ahead_ns) };
        Line { compared, first, last, moved_ns, bend_ns: offset.bend_ns(), steered_ppb: offset.steered_ppb, ends }
    }

    /// The least that the readings around it show, of these trials in the order of time, of which
    /// it is one.
    fn by_others(&self, own: usize, all: &[&Line]) -> Option<i64> {
        let widths = std::iter::successors(Some(1), |width| Some(width * 2)).take_while(|width| *width <= MOST_TRIALS);
        let around = |width: usize| {
            let until = own.saturating_add(width).min(all.len() - 1);
            self.within(&all[own.saturating_sub(width)..=until])
        };
        widths.filter_map(around).min()
    }

    /// How far the error may move during this trial, ns, by the rate from the first reading of
    /// these trials to their last one. `None` where their readings exclude that the clocks ran
    /// evenly, or not all say how they were steered.
    fn within(&self, lines: &[&Line]) -> Option<i64> {
        let (begin, end) = (lines.first()?, lines.last()?);
        let (from, until) = (begin.first, end.last);
        let base = apart(until.at_tai_ns, from.at_tai_ns);
        let took = apart(self.last.at_tai_ns, self.first.at_tai_ns);
        if base <= 0 || took < 0 || took > base {
            return None;
        }
        let (mut steered_ppb, mut set_ns) = (0, 0);
        for of in 0..2 {
            let rates: Option<Vec<i64>> =
                lines.iter().flat_map(|line| line.ends[of]).map(|clock| Some(clock.steering?.rate_ppb)).collect();
            let rates = rates?;
            steered_ppb += apart(*rates.iter().max()?, *rates.iter().min()?);
            // Only a clock that was set leaves CLOCK_MONOTONIC; each is known to its bracket.
            let [was, is] = [begin.ends[of][0], end.ends[of][1]];
            let left = |clock: ClockReading| apart(clock.tai_ns, clock.monotonic_ns);
            set_ns += (left(is) - left(was)).abs() + bound(was.bound_ns) + bound(is.bound_ns) + 2;
        }
        // Each trial's kernels were also read at other moments.
        steered_ppb += 2 * lines.iter().map(|line| bound(line.steered_ppb)).max()?;
        let wander_ppb = |over: i128| (i128::from(WANDER_PPB) * over).div_euclid(MINUTE_NS) + 1;
        let off_ppb = steered_ppb + wander_ppb(base);
        let moved = apart(until.ahead_ns, from.ahead_ns);
        let wrong = bound(from.bound_ns) + bound(until.bound_ns) + set_ns;
        let part = |of: i128, time: i128| of.saturating_mul(time).div_euclid(base).saturating_add(1);
        let of_rate = |ppb: i128, time: i128| ppb.saturating_mul(time).div_euclid(1_000_000_000) + 1;
        // A reading that the rate does not explain shows that they did not run evenly.
        let is_explained = |reading: &OffsetReading| {
            let time = apart(reading.at_tai_ns, from.at_tai_ns);
            let off = (apart(reading.ahead_ns, from.ahead_ns) - part(moved, time)).abs();
            let known = bound(reading.bound_ns) + bound(from.bound_ns) + set_ns + 2;
            off <= known.saturating_add(part(wrong, time)).saturating_add(of_rate(off_ppb, time))
        };
        if !lines.iter().all(|line| is_explained(&line.first) && is_explained(&line.last)) {
            return None;
        }
        let off_the_rate = self.moved_ns.saturating_sub(part(moved, took)).abs();
        let of_rate_ns = part(wrong, took).saturating_add(of_rate(off_ppb + wander_ppb(took), took));
        let bends = 2 * bound(self.bend_ns);
        Some(super::clamped(off_the_rate.saturating_add(of_rate_ns).saturating_add(bends).saturating_add(2)))
    }
}

fn apart(one: i64, other: i64) -> i128 {
    i128::from(one) - i128::from(other)
}

/// A half-width: none is below 0.
fn bound(ns: i64) -> i128 {
    i128::from(ns.max(0))
}
