// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values that only loads have: rates, distributions, a program's words.

use super::units::{self, SIZE_UNITS, TIME_UNITS, Wrong, quantity};
use crate::error::{Problem, Reason};
use crate::synonyms;
use crate::tree::{Node, Toml};
use tardy_model::load::Distribution;

/// Least and greatest buffer, bytes.
pub(super) const BUFFER: (i64, i64) = (1 << 10, 1 << 30);
/// Least and greatest rate, bits a second.
pub(super) const RATE: (i64, i64) = (1_000, 1_000_000_000_000);
/// Units of rate, in bits a second.
const BITS: &[(&str, i128)] = &[("bit", 1), ("kbit", 1_000), ("Mbit", 1_000_000), ("Gbit", 1_000_000_000)];
/// Units of rate as they are listed for a person.
pub(super) const RATE_UNITS: &str = "bit, kbit, Mbit, Gbit";
/// The greatest value of a distribution: a gap of an hour, a burst of 1 GiB.
const MOST: [i64; 2] = [1 << 30, 3_600_000_000_000];
const NAMES: [&str; 4] = ["fixed", "uniform", "exponential", "pareto"];

/// Bits a second: `100Mbit`.
pub(super) fn rate(text: &str) -> Result<i64, Wrong> {
    let bits = quantity(text, BITS, "a rate", "100Mbit", RATE_UNITS)?;
    i64::try_from(bits)
        .map_err(|_| Wrong { message: format!("\"{text}\" is too fast"), help: "write at most \"1000Gbit\"".into() })
}

/// How a distribution is written.
pub(super) const fn example(time: bool) -> &'static str {
    match time {
        true => "write \"fixed:50ms\", \"uniform:10ms..1s\", \"exponential:50ms\" or \"pareto:20ms/1.5\"",
        false => "write \"fixed:64KiB\", \"uniform:10kB..1MB\", \"exponential:256KiB\" or \"pareto:64KiB/1.5\"",
    }
}

/// A distribution: `fixed:64KiB`, `uniform:10ms..1s`, `exponential:50ms`, `pareto:64KiB/1.5`.
pub(super) fn read(text: &str, time: bool) -> Result<Distribution, Wrong> {
    let wrong = |message: String| Wrong { message, help: example(time).to_owned() };
    let one = |part: &str| {
        let value = if time { units::duration(part)?.0 } else { units::size(part)? };
        let units = if time { TIME_UNITS } else { SIZE_UNITS };
        match u64::try_from(value) {
            Ok(value @ 1..) if value <= MOST[usize::from(time)] as u64 => Ok(value),
            // A gap may be none at all.
            Ok(0) if time => Ok(0),
            _ => Err(wrong(format!("\"{part}\" in \"{text}\" is out of its range ({units})"))),
        }
    };
    let Some((name, rest)) = text.split_once(':') else {
        return Err(wrong(format!("\"{text}\" is not a distribution")));
    };
    match name {
        "fixed" => Ok(Distribution::Fixed(one(rest)?)),
        "uniform" => {
            let Some((low, high)) = rest.split_once("..") else {
                return Err(wrong(format!("\"{text}\" lacks its two ends")));
            };
            match (one(low)?, one(high)?) {
                (low, high) if low <= high => Ok(Distribution::Uniform(low, high)),
                _ => Err(wrong(format!("\"{text}\": the lower end comes first"))),
            }
        }
        "exponential" => Ok(Distribution::Exponential(one(rest)?)),
        "pareto" => {
            let Some((scale, shape)) = rest.split_once('/') else {
                return Err(wrong(format!("\"{text}\" lacks its exponent")));
            };
            match shape.parse::<f64>() {
                Ok(shape) if (0.1..=100.0).contains(&shape) => Ok(Distribution::Pareto { scale: one(scale)?, shape }),
                _ => Err(wrong(format!("\"{text}\": the exponent is a number from 0.1 to 100"))),
            }
        }
        _ => Err(match synonyms::nearest(name, NAMES) {
            Some(near) => Wrong {
                message: format!("\"{text}\": `{name}` is not a distribution"),
                help: format!("did you mean `{near}`? {}", example(time)),
            },
            None => wrong(format!("\"{text}\": `{name}` is not a distribution")),
        }),
    }
}

/// One word of a command.
pub(super) fn word(key: &str, item: &Node) -> Result<String, Problem> {
    match &item.value {
        // A plan shows it in a line of a script, and no program needs one there.
        Toml::Text(text) => match text.chars().find(|c| c.is_control()) {
            None => Ok(text.clone()),
            Some(c) => {
                let message = format!("`{key}`: a word holds the control character U+{:04X}", u32::from(c));
                let help = "leave it out; put what needs it into a script, and name that";
                Err(Problem::new(Reason::Value, &item.at, message, help))
            }
        },
        _ => {
            let message = format!("`{key}`: a word of a command is text, this is {}", item.what());
            Err(Problem::new(Reason::Value, &item.at, message, "write it in quotes"))
        }
    }
}
