// SPDX-License-Identifier: MIT OR Apache-2.0
//! A condition on the difference of two runs, as `--fail-if` takes it: `scheduled..receive p50 >
//! +2%`. This file reads its words and knows when a pair of figures is beyond its limit;
//! `decide.rs` says what two runs come to.

use super::bandwidth::is_beyond;
use std::fmt;
use std::ops::Range;
use tardy_model::comparison::INFINITE;
use tardy_model::expect::{Count, QUANTILES};

/// The forms of a condition, for messages and pages.
pub const FORMS: [&str; 3] = [
    "[CELL:] [STREAM] METRIC FIGURE > +LIMIT (or < -LIMIT)",
    "[CELL:] [STREAM] COUNT > +LIMIT",
    "[CELL:] [STREAM] bandwidth < -LIMIT (or > +LIMIT), of a copy",
];

/// What the threads of a copy had together, as a condition names it.
pub const BANDWIDTH: &str = "bandwidth";

/// What a limit may be.
pub const LIMITS: &str = "a limit is a share of A's figure, as 2%, or a time in ns, us, ms or s, as 500ns; of a count a share or a number; of a bandwidth a share";

/// Units of a limit, in ns.
const UNITS: [(&str, i128); 5] = [("ns", 1), ("us", 1_000), ("µs", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)];

/// Numbers are kept as whole millionths.
const MILLION: i128 = 1_000_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// As it was given.
    pub text: String,
    /// The cell it is about; each one if it names none.
    pub cell: Option<Word>,
    /// The stream it is about; each one that has such a figure if it names none.
    pub stream: Option<Word>,
    /// The figure or count that is compared.
    pub what: What,
    /// True for `>`, B is greater than A by more; false for `<`, B is less by more.
    pub above: bool,
    /// By more than this.
    pub limit: Limit,
}

/// A word of a condition, and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    pub text: String,
    pub at: Range<usize>,
}

/// What two runs are compared by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// A figure of a metric, by their names in the results.
    Figure {
        metric: Word,
        /// `p50`, `max` and so on.
        of: &'static str,
    },
    /// Packets that met with something.
    Count(Count),
    /// What the threads of a copy had together.
    Bandwidth,
}

/// By how much B has to differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// By a number of ns.
    Ns(i64),
    /// By so much of A's figure, in millionths of one per cent.
    Share(i64),
    /// By a number of packets.
    Packets(u64),
}

/// A condition that cannot be read, or speaks of what neither run has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionError {
    text: String,
    at: Range<usize>,
    says: String,
}

impl ConditionError {
    /// What is wrong with these characters of the condition.
    pub(super) fn new(text: &str, at: Range<usize>, says: impl Into<String>) -> ConditionError {
        ConditionError { text: text.to_owned(), at, says: says.into() }
    }
}

impl fmt::Display for ConditionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A line each, or what is below would not be below its word.
        let line = self.text.replace(tardy_model::harmless::acts, " ");
        // Rust formats to no more than 65 535 columns.
        let (before, marks) = (self.at.start.min(1_000), self.at.len().clamp(1, 1_000));
        writeln!(f, "--fail-if: {}", self.says)?;
        writeln!(f, "  {line}\n  {:before$}{:^<marks$}", "", "")?;
        writeln!(f, "a condition is {}\n            or {}\n            or {}", FORMS[0], FORMS[1], FORMS[2])?;
        write!(f, "{LIMITS}")
    }
}

impl std::error::Error for ConditionError {}

/// Names of figures that two runs are compared by.
pub fn figures() -> impl Iterator<Item = &'static str> {
    QUANTILES.iter().map(|(_, name, _)| *name).chain(["max", "min", "mean"])
}

/// Counts that a condition may name: those that depend on no clock.
pub fn counts() -> impl Iterator<Item = Count> {
    Count::ALL.into_iter().filter(|count| count.needs_no_validity())
}

/// Reads a condition.
///
/// # Errors
/// [`ConditionError`], which points at the place and names what is accepted.
pub fn parse(text: &str) -> Result<Condition, ConditionError> {
    let chars: Vec<char> = text.chars().collect();
    let fault = |at: Range<usize>, says: String| Err(ConditionError::new(text, at, says));
    let Some(sign) = chars.iter().position(|c| matches!(c, '>' | '<')) else {
        return fault(chars.len()..chars.len(), "it has neither `>` nor `<`".to_owned());
    };
    let above = chars[sign] == '>';
    let colon = chars[..sign].iter().position(|c| *c == ':');
    let mut cell = words(&chars, 0..colon.unwrap_or(0));
    if cell.len() != usize::from(colon.is_some()) {
        return fault(0..colon.unwrap_or(0), "write the id of one cell before `:`".to_owned());
    }
    let from = colon.map_or(0, |colon| colon + 1);
    let mut named = words(&chars, from..sign);
    let Some(last) = named.pop() else {
        return fault(from..sign, "it names no figure and no count".to_owned());
    };
    let what = match (counts().find(|count| count.name() == last.text), figures().find(|of| *of == last.text)) {
        _ if last.text == BANDWIDTH => What::Bandwidth,
        (Some(count), _) => What::Count(count),
        (None, Some(of)) => match named.pop() {
            Some(metric) => What::Figure { metric, of },
            None => {
                return fault(last.at.clone(), format!("`{of}` of which metric? write as `scheduled..receive {of}`"));
            }
        },
        (None, None) if Count::ALL.iter().any(|count| count.name() == last.text) => {
            let says = format!("`{}` depends on a clock: limit it within one run, in `[expect.STREAM]`", last.text);
            return fault(last.at, says);
        }
        (None, None) => {
            let known = figures().collect::<Vec<_>>().join(", ");
            let counts = counts().map(Count::name).collect::<Vec<_>>().join(", ");
            let says = format!("`{}` is no figure ({known}), no count ({counts}) and not `{BANDWIDTH}`", last.text);
            return fault(last.at, says);
        }
    };
    let stream = named.pop();
    if let Some(more) = named.first() {
        return fault(
            more.at.clone(),
            format!("`{}` is one word too many before `{sign}`", more.text, sign = chars[sign]),
        );
    }
    let limit = limit(text, &chars, sign, &what)?;
    Ok(Condition { text: text.trim().to_owned(), cell: cell.pop(), stream, what, above, limit })
}

/// The words between two places.
fn words(chars: &[char], within: Range<usize>) -> Vec<Word> {
    let mut words: Vec<Word> = Vec::new();
    for at in within {
        match words.last_mut() {
            _ if chars[at].is_whitespace() => {}
            Some(word) if word.at.end == at => {
                word.text.push(chars[at]);
                word.at.end = at + 1;
            }
            _ => words.push(Word { text: chars[at].to_string(), at: at..at + 1 }),
        }
    }
    words
}

/// The limit that follows the `>` or `<` at this place.
fn limit(text: &str, chars: &[char], sign: usize, what: &What) -> Result<Limit, ConditionError> {
    let end = chars.len() - chars.iter().rev().take_while(|c| c.is_whitespace()).count();
    let fault = |at: Range<usize>, says: &str| Err(ConditionError::new(text, at, says));
    let skip = |from: usize| from + chars[from..end.max(from)].iter().take_while(|c| c.is_whitespace()).count();
    let begin = skip(sign + 1);
    let above = chars[sign] == '>';
    if !above && matches!(what, What::Count(_)) {
        return fault(sign..sign + 1, "a count takes `>`: fewer packets that met with something are no fault");
    }
    match (above, chars.get(begin)) {
        (true, Some('+')) | (false, Some('-')) => {}
        (true, Some('=')) => {
            return fault(sign..begin + 1, "write `>`: a condition is met beyond the limit, not at it");
        }
        (false, Some('=')) => {
            return fault(sign..begin + 1, "write `<`: a condition is met beyond the limit, not at it");
        }
        (true, _) => return fault(begin..end, "after `>`, write by how much B is greater, with its sign, as +2%"),
        (false, _) => return fault(begin..end, "after `<`, write by how much B is less, with its sign, as -2%"),
    }
    let number = begin + 1..begin + 1 + chars[begin + 1..].iter().take_while(|c| matches!(c, '0'..='9' | '.')).count();
    let Some(value) = millionths(&chars[number.clone()]) else {
        return fault(number, "a number is up to nine digits and, after a point, up to six: 2, 0.5");
    };
    let unit = skip(number.end);
    let named: String = chars[unit..end.max(unit)].iter().collect();
    let whole = |value: i128| (value % MILLION == 0).then_some(value / MILLION);
    match (named.as_str(), what) {
        ("%", _) => Ok(Limit::Share(i64::try_from(value).unwrap_or(i64::MAX))),
        (_, What::Bandwidth) => fault(unit.min(end)..end, "of a bandwidth the limit is per cent, as -5%"),
        ("", What::Count(_)) => match whole(value) {
            Some(n) => Ok(Limit::Packets(u64::try_from(n).unwrap_or(u64::MAX))),
            None => fault(number, "packets are counted in whole numbers"),
        },
        (_, What::Count(_)) => fault(unit..end, "of a count the limit is a number of packets, or per cent"),
        ("", What::Figure { .. }) => fault(number, "in which unit? %, ns, us, ms or s"),
        (named, What::Figure { .. }) => match UNITS.iter().find(|(name, _)| *name == named) {
            None => fault(unit..end, "a unit is %, ns, us, ms or s"),
            Some((_, ns)) => match whole(value * ns).map(i64::try_from) {
                Some(Ok(ns)) => Ok(Limit::Ns(ns)),
                _ => fault(number, "a time is a whole number of ns, and below 292 years"),
            },
        },
    }
}

/// A decimal number in millionths.
fn millionths(chars: &[char]) -> Option<i128> {
    let text: String = chars.iter().collect();
    let (whole, part) = text.split_once('.').unwrap_or((&text, "0"));
    if whole.is_empty() || part.is_empty() || whole.len() > 9 || part.len() > 6 || part.contains('.') {
        return None;
    }
    let part = format!("{part:0<6}");
    Some(whole.parse::<i128>().ok()? * MILLION + part.parse::<i128>().ok()?)
}

impl Condition {
    /// True if B's figure is beyond A's by more than the limit. [`INFINITE`] is the figure of a
    /// packet that never arrived: it is beyond each that did, and not beyond another such.
    pub fn beyond(&self, a: i64, b: i64) -> bool {
        let [low, high] = if self.above { [a, b] } else { [b, a] };
        match (low, high) {
            (INFINITE, _) => false,
            (_, INFINITE) => true,
            _ => self.exceeds(i128::from(high) - i128::from(low), a.into()),
        }
    }

    /// By how much B's figure is beyond the limit, ns; below 0 within it. A packet that never
    /// arrived is beyond it without end, and within it without end where only A has one.
    pub fn excess(&self, a: i64, b: i64) -> f64 {
        let [low, high] = if self.above { [a, b] } else { [b, a] };
        let limit = match self.limit {
            Limit::Ns(ns) => ns as f64,
            Limit::Packets(n) => n as f64,
            Limit::Share(share) => (a as f64).abs() * share as f64 / (MILLION * 100) as f64,
        };
        match (low, high) {
            (INFINITE, _) => f64::NEG_INFINITY,
            (_, INFINITE) => f64::INFINITY,
            _ => high as f64 - low as f64 - limit,
        }
    }

    /// Whether each of B's bandwidths is beyond each of A's by more than the limit, and whether
    /// their medians are.
    pub(super) fn rates_beyond(&self, [a, b]: [&[f64]; 2], medians: [f64; 2]) -> [bool; 2] {
        let Limit::Share(share) = self.limit else { return [false; 2] };
        let share = share as f64 / (MILLION * 100) as f64;
        let [of_a, of_b] = medians;
        match self.above {
            true => [is_beyond(b, a, 1.0 + share), of_b > of_a * (1.0 + share)],
            // Less than A by the share: A less it is still more than B.
            false => [
                is_beyond(&a.iter().map(|rate| rate * (1.0 - share)).collect::<Vec<_>>(), b, 1.0),
                of_b < of_a * (1.0 - share),
            ],
        }
    }

    /// True if B's count is more than A's by more than the limit.
    pub fn counts_beyond(&self, a: u64, b: u64) -> bool {
        self.exceeds(i128::from(b) - i128::from(a), a.into())
    }

    fn exceeds(&self, difference: i128, of_a: i128) -> bool {
        match self.limit {
            Limit::Ns(ns) => difference > ns.into(),
            Limit::Packets(n) => difference > n.into(),
            // Of a figure below 0, of what was early, its size counts.
            Limit::Share(share) => difference * MILLION * 100 > of_a.abs() * i128::from(share),
        }
    }
}
