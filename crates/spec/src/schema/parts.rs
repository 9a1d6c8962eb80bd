// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values that only some parts of an experiment have. Of queue disciplines: lists of classes, their
//! queues, the entries of a schedule. Of loads: rates, distributions, a program's words.

use super::units::{self, SIZE_UNITS, TIME_UNITS, Wrong, quantity};
use crate::error::{Problem, Reason};
use crate::synonyms;
use crate::tree::{Node, Toml};
use tardy_model::load::Distribution;
use tardy_model::shaper::{Entry, MOST_CLASSES, MOST_ENTRIES, Queues};

/// How an entry is written.
pub(super) const ENTRY: &str =
    "write the classes whose gates are open, then how long: \"1 100us\", \"0,2 200us\", \"all 1ms\" or \"none 50us\"";
const QUEUES: &str = "write how many queues each class has and its first: [\"1@0\", \"2@1\"]";

/// A list of traffic classes; with `exactly`, a map of that length, which may name a class more
/// than once.
pub(super) fn classes(key: &str, node: &Node, exactly: Option<usize>) -> Result<Vec<u8>, Problem> {
    let wrong = |at: &Node, message: String, help: String| Problem::new(Reason::Value, &at.at, message, help);
    let example = match exactly {
        Some(_) => "write the class of each priority from 0 on: [3, 3, 2, 1, …]".to_owned(),
        None => "write [0, 1]".to_owned(),
    };
    let Toml::List(items) = &node.value else {
        let message = format!("`{key}` is {}; it must be a list of classes", node.what());
        return Err(wrong(node, message, example));
    };
    let most = i64::from(MOST_CLASSES) - 1;
    let mut out = Vec::new();
    for item in items {
        let class = match item.value {
            Toml::Integer(number) if (0..=most).contains(&number) => number as u8,
            Toml::Integer(number) => {
                let message = format!("`{key}`: {number} is no class");
                return Err(wrong(item, message, format!("write a number from 0 to {most}")));
            }
            _ => {
                let message = format!("`{key}`: a class is a number, this is {}", item.what());
                return Err(wrong(item, message, example));
            }
        };
        if exactly.is_none() && out.contains(&class) {
            let message = format!("`{key}`: class {class} is there twice");
            return Err(wrong(item, message, "leave one of the two out".to_owned()));
        }
        out.push(class);
    }
    match exactly {
        Some(needed) if out.len() != needed => {
            let message = format!("`{key}` has {} entries; there are {needed} priorities", out.len());
            Err(wrong(node, message, format!("write {needed} classes, one for each priority from 0 on")))
        }
        _ => Ok(out),
    }
}

/// Texts of a list, each read by `read`.
fn texts<T>(
    key: &str,
    node: &Node,
    help: &str,
    read: impl Fn(&str) -> Result<T, (String, String)>,
) -> Result<Vec<T>, Problem> {
    let wrong = |at: &Node, message: String, help: String| Problem::new(Reason::Value, &at.at, message, help);
    let Toml::List(items) = &node.value else {
        return Err(wrong(node, format!("`{key}` is {}; it must be a list", node.what()), help.to_owned()));
    };
    items
        .iter()
        .map(|item| match &item.value {
            Toml::Text(text) => read(text).map_err(|(message, help)| wrong(item, format!("`{key}`: {message}"), help)),
            _ => Err(wrong(item, format!("`{key}` holds {}; it must hold texts", item.what()), help.to_owned())),
        })
        .collect()
}

/// Queues of each class, as tc writes them: `1@0`.
pub(super) fn queues(key: &str, node: &Node) -> Result<Vec<Queues>, Problem> {
    let one = |text: &str| {
        let (count, offset) = text.split_once('@')?;
        let (count, offset) = (count.trim().parse::<u16>().ok()?, offset.trim().parse::<u16>().ok()?);
        (count > 0).then_some(Queues { count: count.into(), offset: offset.into() })
    };
    texts(key, node, QUEUES, |text| one(text).ok_or((format!("\"{text}\" are no queues"), QUEUES.to_owned())))
}

/// Entries of a schedule: `1 100us`.
pub(super) fn entries(key: &str, node: &Node) -> Result<Vec<Entry>, Problem> {
    if let Toml::List(items) = &node.value
        && items.len() > MOST_ENTRIES
    {
        let message = format!("`{key}` has {} entries; a schedule has at most {MOST_ENTRIES}", items.len());
        return Err(Problem::new(Reason::Value, &node.at, message, "write fewer entries"));
    }
    texts(key, node, ENTRY, |text| {
        let wrong = |what: &str| (format!("\"{text}\" {what}"), ENTRY.to_owned());
        let Some((open, length)) = text.trim().rsplit_once(' ') else { return Err(wrong("is no entry")) };
        let open = match open.trim() {
            "none" => 0,
            "all" => (1 << MOST_CLASSES) - 1,
            list => list.split(',').try_fold(0u32, |open, class| match class.trim().parse::<u8>() {
                Ok(class) if class < MOST_CLASSES => Ok(open | 1 << class),
                _ => Err(wrong(&format!("names `{}`, which is no class", class.trim()))),
            })?,
        };
        let length = units::duration(length).map_err(|wrong| (wrong.message, wrong.help))?;
        if length.0 <= 0 || length.0 > u32::MAX.into() {
            // taprio's interval is 32 bits wide.
            return Err((format!("\"{text}\" lasts no time, or longer than 4.2s"), ENTRY.to_owned()));
        }
        Ok(Entry { open, length })
    })
}

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
