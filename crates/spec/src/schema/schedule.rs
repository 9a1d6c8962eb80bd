// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values that only queue disciplines have: lists of classes, their queues, the entries of a
//! schedule.

use super::units;
use crate::error::{Problem, Reason};
use crate::tree::{Node, Toml};
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
