// SPDX-License-Identifier: MIT OR Apache-2.0
//! How a kernel steers its clock: by how much it makes the clock faster, and by how much two clocks
//! leave a line when that changes. Pure: adjtimex(2) gives the numbers.

use serde::{Deserialize, Serialize};

/// What the kernel adds to a clock's rate at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Steering {
    /// Frequency, tick, and what the slews under way add, in parts per billion.
    pub rate_ppb: i64,
    /// Of an offset that was handed to the kernel: what it has not slewed away yet, ns.
    pub left_ns: i64,
}

/// What adjtimex(2) reports, in the kernel's own units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timex {
    /// Parts per million, times 2^16.
    pub freq: i64,
    /// Microseconds by which the clock advances in a hundredth of a second.
    pub tick: i64,
    /// What the phase-locked loop still slews away: ns if `is_nano`, else µs.
    pub offset: i64,
    pub is_nano: bool,
    /// The loop's time constant: it slews away one part in 2^(2 + constant) each second.
    pub constant: i64,
    /// What adjtime(3) still slews away, µs: at most 500 µs each second.
    pub adjusting_us: i64,
}

/// A tick that changes nothing, µs.
const NOMINAL_TICK_US: i64 = 10_000;
/// A microsecond more in each tick makes the clock faster by this.
const PPB_OF_TICK_US: i64 = 1_000_000_000 / NOMINAL_TICK_US;
/// The loop's SHIFT_PLL of the kernel (`kernel/time/ntp.c`).
const SHIFT_PLL: i64 = 2;
/// The most that adjtime(3) slews in a second, µs.
const MOST_ADJUSTED_US: i64 = 500;

impl Steering {
    /// What these numbers come to; `None` of numbers that no kernel reports.
    pub fn of(timex: &Timex) -> Option<Steering> {
        if timex.tick <= 0 {
            return None;
        }
        let frequency_ppb = i128::from(timex.freq) * 1_000 / 65_536;
        let tick_ppb = (i128::from(timex.tick) - i128::from(NOMINAL_TICK_US)) * i128::from(PPB_OF_TICK_US);
        let offset_ns = timex.offset.saturating_mul(if timex.is_nano { 1 } else { 1_000 });
        // Nanoseconds in a second are parts per billion.
        let loop_ppb = offset_ns >> (SHIFT_PLL + timex.constant.clamp(0, 10));
        let adjust_ppb = timex.adjusting_us.clamp(-MOST_ADJUSTED_US, MOST_ADJUSTED_US) * 1_000;
        let rate_ppb = frequency_ppb + tick_ppb + i128::from(loop_ppb) + i128::from(adjust_ppb);
        let left_ns = offset_ns.saturating_add(timex.adjusting_us.saturating_mul(1_000));
        Some(Steering { rate_ppb: i64::try_from(rate_ppb).ok()?, left_ns })
    }

    /// By how much the rates of one clock differ among these readings, ppb; 0 where fewer than two
    /// are known.
    pub fn spread_ppb(readings: impl IntoIterator<Item = Option<Steering>>) -> i64 {
        let rates: Vec<i64> = readings.into_iter().flatten().map(|of| of.rate_ppb).collect();
        let ends = rates.iter().max().zip(rates.iter().min());
        ends.map_or(0, |(most, least)| most.saturating_sub(*least))
    }
}

/// By how much two clocks may leave the line through two readings `apart_ns` apart, ns, if their
/// rates against each other stay within `spread_ppb` of one another. With the slope of the line
/// between the least rate and the greatest, the farthest way from it is to run at the one for as
/// long as the line lets it and at the other for the rest: at most a quarter of the spread times
/// the time.
pub(super) fn bend_ns(spread_ppb: i64, apart_ns: i128) -> i128 {
    let product = i128::from(spread_ppb.max(0)).saturating_mul(apart_ns.max(0));
    // Rounded up: a bound is never less than what it is of.
    product.saturating_add(3_999_999_999) / 4_000_000_000
}
