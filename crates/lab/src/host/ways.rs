// SPDX-License-Identifier: MIT OR Apache-2.0
//! How far another host's clock is ahead, by packets that went one way and packets that went the
//! other way. Nothing answers them, so each may have the stamps of devices. Pure.

use tardy_model::time::OffsetReading;

/// The kernel adjusts a clock's frequency by at most 500 ppm, so two clocks move by at most this
/// against each other, in parts per million.
pub(super) const FASTEST_PPM: i64 = 1_000;

/// A packet from one host to the other, by CLOCK_TAI of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OneWay {
    /// When it left, on the sender's clock, ns.
    pub left_ns: i64,
    /// When it came, on the receiver's clock, ns.
    pub came_ns: i64,
    /// The two instants together may be wrong by so much, ns: by the conversion of a device's
    /// clock.
    pub bound_ns: i64,
}

/// What packets `there` and packets `back` show together. No packet takes less than no time, so
/// the other clock is ahead by at most *came* − *left* of one that went there, and at least by
/// *left* − *came* of one that went back; either is as wrong as the packet's own bound, and wider
/// by what two clocks can drift from one packet to the other. Of all pairs the narrowest counts.
/// `None` if no packet came of one of the ways, or if a clock was set meanwhile: then two packets
/// exclude each other.
pub fn best_of_ways(there: &[OneWay], back: &[OneWay]) -> Option<OffsetReading> {
    let pairs = there.iter().flat_map(|there| back.iter().map(move |back| between(there, back)));
    let agree: Option<Vec<OffsetReading>> = pairs.collect();
    agree?.into_iter().min_by_key(|reading| reading.bound_ns)
}

/// The offset by a packet there from above and by one back from below.
fn between(there: &OneWay, back: &OneWay) -> Option<OffsetReading> {
    let wide = |ns: i64| i128::from(ns);
    let drift = |ns: i128| ns.abs() * i128::from(FASTEST_PPM) / 1_000_000 + 1;
    let greatest = wide(there.came_ns) - wide(there.left_ns) + wide(there.bound_ns);
    let least = wide(back.left_ns) - wide(back.came_ns) - wide(back.bound_ns);
    // On this host's clock the one left and the other came at a known instant. Where the other end
    // of either lies follows from the offset, and that from the other packet.
    let apart = drift(wide(there.left_ns) - wide(back.came_ns));
    let from = wide(there.left_ns) - wide(there.bound_ns);
    let to = wide(back.came_ns) + wide(back.bound_ns);
    let under_way = [
        (from, (wide(there.came_ns) + wide(there.bound_ns) - least + apart).max(from)),
        ((wide(back.left_ns) - wide(back.bound_ns) - greatest - apart).min(to), to),
    ];
    let [one, other] = under_way.map(|(from, to)| from + (to - from) / 2);
    let at = one.min(other) + (one.max(other) - one.min(other)) / 2;
    // Each is valid at some instant while its packet was under way.
    let [above, below] = under_way.map(|(from, to)| drift((at - from).abs().max((to - at).abs())));
    let (greatest, least) = (greatest + above, least - below);
    let width = greatest - least;
    // Half of an odd time is rounded down, and the bound up.
    let found = [at, least + width.div_euclid(2), (width + 1) / 2].map(i64::try_from);
    let [Ok(at_tai_ns), Ok(ahead_ns), Ok(bound_ns)] = found else { return None };
    (width >= 0).then_some(OffsetReading { at_tai_ns, ahead_ns, bound_ns })
}
