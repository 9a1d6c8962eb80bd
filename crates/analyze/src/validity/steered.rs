// SPDX-License-Identifier: MIT OR Apache-2.0
//! What kernels do to the rates of two hosts' clocks while a trial runs: whoever steers a clock
//! otherwise, or faster than bounds assume, makes their comparison worse than its bound says.

use super::stamps::offsets;
use super::{Evidence, Rule, Spoils};
use crate::says;
use tardy_model::time::{ClockReading, Offset};
use tardy_model::validity;
use tardy_model::verdict::{Level, Verdict};

/// `clock-bend`: a kernel steered its clock otherwise after the trial than before it, so that two
/// clocks did not run evenly against each other, and what they may have left the line by is a good
/// part of the bound.
pub(super) const CLOCK_BEND: Rule = Rule { id: validity::CLOCK_BEND, spoils: Spoils::Measuring, judge: clock_bend };

fn clock_bend(evidence: &Evidence<'_>) -> Vec<Verdict> {
    let limit = evidence.settings.share(CLOCK_BEND.id);
    let of = |(host, offset): (String, &Offset)| {
        let (bend_ns, bound_ns) = (offset.bend_ns(), offset.bound_ns());
        if bend_ns == 0 || bend_ns as f64 <= limit * bound_ns as f64 {
            return None;
        }
        let says = format!(
            "{host}: kernels steered the clocks otherwise after the trial than before, by {:.3} ppm: the clocks may have left the \
             line between their readings by {}, which is {} of the bound",
            offset.steered_ppb as f64 / 1_000.0,
            says::bound(bend_ns),
            says::share(bend_ns as f64 / bound_ns as f64),
        );
        let verdict = Verdict::new(CLOCK_BEND.id, Level::Warning, says).with("host", host.as_str());
        let verdict = verdict.with("steered_ppb", offset.steered_ppb).with("bend_ns", bend_ns);
        Some(verdict.with("bound_ns", bound_ns).with("limit_share", limit))
    };
    let bends = offsets(evidence).into_iter().filter_map(of);
    bends.chain(steered_beyond(evidence)).collect()
}

/// A clock is steered by this at most, ppb: two of them then drift by the 1000 ppm that bounds of
/// exchanges have in them.
const MOST_STEERED_PPB: i64 = 500_000;

/// The clock that a kernel steers the most, where two hosts' clocks were compared and it is beyond
/// what their bounds assume.
fn steered_beyond(evidence: &Evidence<'_>) -> Option<Verdict> {
    if offsets(evidence).values().all(|offset| offset.is_one_clock()) {
        return None;
    }
    let of = |(who, readings): (String, [ClockReading; 2])| {
        let rates = readings.into_iter().filter_map(|reading| Some(reading.steering?.rate_ppb));
        Some((who, rates.max_by_key(|rate| rate.unsigned_abs())?))
    };
    let (who, rate_ppb) = evidence.clocks().filter_map(of).max_by_key(|(_, rate)| rate.unsigned_abs())?;
    let is_beyond = rate_ppb.unsigned_abs() > MOST_STEERED_PPB.unsigned_abs();
    let says = format!(
        "{who}: its kernel steers the clock by {:.1} ppm, and the bounds of two hosts' clocks assume {} ppm at most: let the clocks \
         settle, or have what steers them go slower (chrony's maxslewrate)",
        rate_ppb as f64 / 1_000.0,
        MOST_STEERED_PPB / 1_000,
    );
    let verdict = Verdict::new(CLOCK_BEND.id, Level::Warning, says).with("clock", who.as_str());
    is_beyond.then(|| verdict.with("rate_ppb", rate_ppb).with("limit_ppb", MOST_STEERED_PPB))
}
