// SPDX-License-Identifier: MIT OR Apache-2.0
//! Quantities with their units. Arithmetic is exact: what cannot be held exactly is refused, never
//! rounded.

use crate::synonyms;
use tardy_model::time::Nanos;

/// What is wrong with a quantity, and how to fix it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wrong {
    pub message: String,
    pub help: String,
}

fn wrong(message: impl Into<String>, help: impl Into<String>) -> Wrong {
    Wrong { message: message.into(), help: help.into() }
}

/// Units of time, in nanoseconds.
const TIME: &[(&str, i128)] = &[
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("min", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("µs", 1_000),
    ("μs", 1_000),
];

/// Units of size, in bytes.
const SIZE: &[(&str, i128)] = &[
    ("B", 1),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
];

/// Units of how often, in millionths of a hertz, the least that can be written.
const RATE: &[(&str, i128)] = &[
    ("µHz", 1),
    ("Hz", 1_000_000),
    ("kHz", 1_000_000_000),
    ("MHz", 1_000_000_000_000),
    ("GHz", 1_000_000_000_000_000),
];
/// Nanoseconds in a second, in millionths, as rates are.
const SECOND: i128 = 1_000_000_000_000_000;

/// Units of a cycle as they are listed for a person.
pub(crate) const CYCLE_UNITS: &str = "ns, us, ms, s, min, h, or Hz, kHz, MHz";
/// Units of time as they are listed for a person.
pub(crate) const TIME_UNITS: &str = "ns, us, ms, s, min, h";
/// Units of size as they are listed for a person.
pub(crate) const SIZE_UNITS: &str = "B, KiB, MiB, GiB, kB, MB, GB";

/// A span of time: `500us`, `1.5ms`, `10_000ns`.
pub(crate) fn duration(text: &str) -> Result<Nanos, Wrong> {
    let ns = quantity(text, TIME, "a duration", "500us", TIME_UNITS)?;
    Ok(Nanos(
        i64::try_from(ns).map_err(|_| wrong(format!("\"{text}\" is too long"), "write a duration below 292 years"))?,
    ))
}

/// The time from one to the next of what is repeated: that span, or how many there are a second,
/// `1kHz`. What is no whole number of nanoseconds is refused with the cycles on both sides of it.
pub(crate) fn cycle(text: &str) -> Result<Nanos, Wrong> {
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit() || "._-".contains(c)).trim();
    let is_rate = unit.to_ascii_lowercase().ends_with("hz") || unit.ends_with("pps") || unit.ends_with("/s");
    if !is_rate {
        let ns = quantity(text, TIME, "a duration", "500us", CYCLE_UNITS)?;
        let long = || wrong(format!("\"{text}\" is too long"), "write a duration below 292 years");
        return Ok(Nanos(i64::try_from(ns).map_err(|_| long())?));
    }
    let rate = quantity(text, RATE, "a rate", "1kHz", CYCLE_UNITS)?;
    if rate <= 0 {
        return Err(wrong(format!("\"{text}\": nothing is sent at this rate"), "write a rate as \"1kHz\""));
    }
    let below = SECOND / rate;
    if SECOND % rate == 0 {
        return Ok(Nanos(i64::try_from(below).unwrap_or(i64::MAX)));
    }
    let near = |ns: i128| format!("\"{ns}ns\" ({})", show_rate(ns));
    let help = match below {
        0 => format!("write a cycle of {}", near(1)),
        below => format!("write {} or {}", near(below), near(below + 1)),
    };
    Err(wrong(format!("\"{text}\" is a cycle of {}ns, no whole number of them", decimal(SECOND, rate)), help))
}

/// How often a cycle of `ns` nanoseconds comes, to seven digits.
fn show_rate(ns: i128) -> String {
    let (name, unit) = RATE.iter().rev().find(|(_, unit)| unit * ns <= SECOND).unwrap_or(&RATE[0]);
    match decimal(SECOND, ns * unit).strip_suffix('…') {
        Some(cut) => format!("about {cut}{name}"),
        None => format!("{}{name}", decimal(SECOND, ns * unit)),
    }
}

/// A quotient in at most six decimals; cut off, not rounded.
fn decimal(of: i128, by: i128) -> String {
    let (whole, rest) = (of / by, of % by);
    let places = format!("{:06}", rest * 1_000_000 / by);
    let exact = rest * 1_000_000 % by == 0;
    match places.trim_end_matches('0') {
        "" if exact => whole.to_string(),
        _ if exact => format!("{whole}.{}", places.trim_end_matches('0')),
        _ => format!("{whole}.{places}…"),
    }
}

/// A size in bytes: `64B`, `1KiB`.
pub(crate) fn size(text: &str) -> Result<i64, Wrong> {
    let bytes = quantity(text, SIZE, "a size", "64B", SIZE_UNITS)?;
    i64::try_from(bytes).map_err(|_| wrong(format!("\"{text}\" is too large"), "write a size below 8 EiB"))
}

/// A share of all: `0.1%`.
pub(crate) fn percent(text: &str) -> Result<f64, Wrong> {
    let Some(number) = text.strip_suffix('%') else {
        return Err(wrong(format!("\"{text}\" is not a share"), "write a percentage \"0.1%\" or a fraction 0.001"));
    };
    let digits = number.trim().replace('_', "");
    match digits.parse::<f64>() {
        Ok(share) if share.is_finite() && digits.starts_with(|c: char| c.is_ascii_digit()) => Ok(share / 100.0),
        _ => Err(wrong(format!("\"{text}\" is not a percentage"), "write a percentage \"0.1%\" or a fraction 0.001")),
    }
}

/// A whole number between these two that is shortened by a letter, in full: `10_000` for `10k`.
pub(super) fn in_full(text: &str, min: i64, max: i64) -> Option<String> {
    let text = text.trim();
    let (digits, thousands) = match text.chars().last()? {
        'k' | 'K' => (&text[..text.len() - 1], 1),
        'm' | 'M' => (&text[..text.len() - 1], 2),
        _ => return None,
    };
    let number = digits.parse::<u16>().ok().filter(|number| (1..1_000).contains(number) && !digits.starts_with('0'))?;
    let whole = i64::from(number) * if thousands == 1 { 1_000 } else { 1_000_000 };
    (min..=max).contains(&whole).then(|| format!("{number}{}", "_000".repeat(thousands)))
}

/// A span of time in the largest unit that holds it exactly.
pub fn show_duration(span: Nanos) -> String {
    let whole = |(name, ns): &&(&str, i128)| name.is_ascii() && *ns <= 1_000_000_000 && i128::from(span.0) % ns == 0;
    match TIME.iter().filter(whole).max_by_key(|(_, ns)| *ns) {
        Some((name, ns)) if span.0 != 0 => format!("{}{name}", i128::from(span.0) / ns),
        _ => "0us".to_owned(),
    }
}

pub(super) fn quantity(
    text: &str,
    units: &[(&str, i128)],
    what: &str,
    example: &str,
    list: &str,
) -> Result<i128, Wrong> {
    let (sign, rest) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text),
    };
    let split = rest.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_').unwrap_or(rest.len());
    let (number, unit) = rest.split_at(split);
    let not_one = || wrong(format!("\"{text}\" is not {what}"), format!("write \"{example}\"; units: {list}"));
    let (int, frac) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |part: &str| {
        let digits = part.replace('_', "");
        let ok = part.starts_with(|c: char| c.is_ascii_digit()) && !digits.is_empty() && digits.len() <= 18;
        ok.then(|| digits.parse::<i128>().ok().map(|value| (value, digits.len() as u32))).flatten()
    };
    let (Some((int, _)), Some((frac, places))) = (digits(int), digits(frac)) else { return Err(not_one()) };
    if unit.is_empty() {
        // Which one is meant, nobody knows.
        return Err(wrong(format!("\"{text}\" has no unit"), format!("add one: {list}")));
    }
    let Some((_, factor)) = units.iter().find(|(name, _)| *name == unit) else {
        let names = units.iter().map(|(name, _)| *name);
        if let Some(written) = synonyms::of_unit(number, unit.trim(), names.clone()) {
            let sign = if sign < 0 { "-" } else { "" };
            let message = format!("\"{text}\": `{unit}` is not a unit");
            return Err(wrong(message, format!("did you mean \"{sign}{written}\"?")));
        }
        let in_another_case = names.clone().find(|name| name.eq_ignore_ascii_case(unit.trim()));
        return Err(match in_another_case.or_else(|| synonyms::nearest(unit.trim(), names)) {
            Some(name) => wrong(
                format!("\"{text}\": `{unit}` is not a unit"),
                format!("did you mean \"{}{name}\"?", text.trim_end_matches(unit)),
            ),
            None => wrong(format!("\"{text}\": `{unit}` is not a unit"), format!("units: {list}")),
        });
    };
    let scale = 10_i128.pow(places);
    if frac * factor % scale != 0 {
        let least = units[0].0;
        return Err(wrong(format!("\"{text}\" is finer than 1{least}"), format!("write whole {least}")));
    }
    Ok(sign * (int * factor + frac * factor / scale))
}
