// SPDX-License-Identifier: MIT OR Apache-2.0
//! How figures are written in a verdict's sentence.

use tardy_model::point::Metric;

/// A span of time in the unit that leaves few digits.
pub(crate) fn time(ns: i64) -> String {
    let (ns_each, sign) = unit(ns);
    if ns_each == 1 { format!("{ns} ns") } else { format!("{:.1} {sign}", ns as f64 / ns_each as f64) }
}

/// The same of a bound, which is never rounded down.
pub(crate) fn bound(ns: i64) -> String {
    let step = (unit(ns).0 / 10).max(1) as u64;
    time(ns.unsigned_abs().div_ceil(step).saturating_mul(step).try_into().unwrap_or(i64::MAX))
}

/// That unit, ns and how it is written.
fn unit(ns: i64) -> (i64, &'static str) {
    match ns.unsigned_abs() {
        0..100 => (1, "ns"),
        100..10_000_000 => (1_000, "µs"),
        10_000_000..10_000_000_000 => (1_000_000, "ms"),
        _ => (1_000_000_000, "s"),
    }
}

/// Spans of time of one statement, all in the unit of the greatest, with as many decimals as the
/// least that is not 0 needs to have two digits and as different ones need to be different.
pub(crate) fn times<const N: usize>(all_ns: [i64; N]) -> [String; N] {
    const UNITS: [(u64, u32, &str); 4] =
        [(1_000_000_000, 9, "s"), (1_000_000, 6, "ms"), (1_000, 3, "µs"), (1, 0, "ns")];
    let greatest = all_ns.iter().map(|ns| ns.unsigned_abs()).max().unwrap_or_default();
    let (ns_each, finest, sign) = *UNITS.iter().find(|unit| greatest >= unit.0).unwrap_or(&UNITS[3]);
    let with = |decimals: u32| all_ns.map(|ns| format!("{:.1$} {sign}", ns as f64 / ns_each as f64, decimals as usize));
    let least = all_ns.iter().map(|ns| ns.unsigned_abs()).filter(|ns| *ns > 0).min().unwrap_or_default();
    let is_enough = |decimals: &u32| {
        let shown = with(*decimals);
        let differ = |i: usize, j: usize| all_ns[i] == all_ns[j] || shown[i] != shown[j];
        least >= 10u64.pow(finest + 1 - decimals) && (0..N).all(|i| (0..i).all(|j| differ(i, j)))
    };
    with((finest.min(1)..finest).find(is_enough).unwrap_or(finest))
}

/// Why a percentile is not reported that packets without a stamp could change.
pub(crate) fn between(name: &str, [least, greatest]: &[Option<i64>; 2]) -> String {
    let why = "packets that were received without a stamp could change it";
    match (least, greatest) {
        (Some(least), Some(greatest)) => {
            format!("{name} lies between {} and {}: {why}", time(*least), time(*greatest))
        }
        (Some(least), None) => format!("{name} is {} or more: {why}", time(*least)),
        (None, Some(greatest)) => format!("{name} is {} or less: {why}", time(*greatest)),
        (None, None) => format!("{name} is not known: {why}"),
    }
}

/// A share as per cent, with more digits where it is small.
pub(crate) fn share(share: f64) -> String {
    let percent = share * 100.0;
    if percent != 0.0 && percent.abs() < 0.1 { format!("{percent:.3} %") } else { format!("{percent:.1} %") }
}

/// A count with its word.
pub(crate) fn count(n: u64, one: &str, more: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { more })
}

/// A small number as a word.
pub(crate) fn number(n: usize) -> String {
    const WORDS: [&str; 13] =
        ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"];
    WORDS.get(n).map_or_else(|| n.to_string(), |word| (*word).to_owned())
}

/// `a`, `a and b`, `a, b and c`.
pub(crate) fn list<T: ToString>(items: &[T]) -> String {
    let items: Vec<String> = items.iter().map(ToString::to_string).collect();
    match items.as_slice() {
        [] => "none".to_owned(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

/// `trial 3`, `trials 1, 2 and 4`.
pub(crate) fn trials(numbers: &[u32]) -> String {
    format!("{} {}", if numbers.len() == 1 { "trial" } else { "trials" }, list(numbers))
}

/// What a metric is measured of: a copying thread has passes.
pub(crate) fn of_what(metric: Metric) -> &'static str {
    if metric == Metric::PASS { "passes" } else { "packets" }
}
