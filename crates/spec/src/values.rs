// SPDX-License-Identifier: MIT OR Apache-2.0
//! What every table of an experiment file reads in the same way: values of each kind, and the two
//! stations between which something runs.

use crate::cell::{Table, View};
use crate::error::Problem;
use crate::near;
use crate::schema::Value;
use tardy_model::stream::{CpuChoice, Policy};
use tardy_model::time::Nanos;

/// The station that a key names.
pub(crate) fn station(view: &View<'_>, table: &Table<'_>, field: &str) -> Result<String, Problem> {
    let name = table.get(field, text)?;
    let known = view.stations().iter().map(|station| station.name.as_str());
    if known.clone().any(|known| known == name) || view.is_lost("station") {
        return Ok(name);
    }
    let message = format!("`{}`: there is no station `{name}`", table.key(field));
    // Nothing goes from a station to itself: the one at the other end is no advice.
    let other = if field == "from" { "to" } else { "from" };
    let taken = table.find(other).and_then(text);
    let free = known.clone().filter(|known| Some(*known) != taken.as_deref());
    Err(table.wrong(&[field], message, near::mend(&name, free)))
}

/// Where something starts and ends. What is wrong is kept, and the key is then lost: what rests on
/// it is not checked.
pub(crate) fn ends(view: &View<'_>, table: &Table<'_>) -> (String, String) {
    let end = |field: &str| {
        let found = view.keep(station(view, table, field));
        if found.is_none() {
            view.lose(table.key(field));
        }
        found.unwrap_or_default()
    };
    let (from, to) = (end("from"), end("to"));
    table.check(&["from", "to"], || {
        if from != to {
            return Ok(());
        }
        let message = format!("`{}` sends from `{from}` to itself", table.key("to"));
        let other = view.stations().iter().find(|station| station.name != from);
        let other = other.map_or("b", |station| station.name.as_str());
        Err(table.wrong(&["to", "from"], message, format!("write to = \"{other}\"")))
    });
    (from, to)
}

pub(crate) fn text(value: &Value) -> Option<String> {
    if let Value::Text(text) = value { Some(text.clone()) } else { None }
}

pub(crate) fn integer(value: &Value) -> Option<i64> {
    if let Value::Integer(number) = value { Some(*number) } else { None }
}

pub(crate) fn span(value: &Value) -> Option<Nanos> {
    if let Value::Span(span) = value { Some(*span) } else { None }
}

pub(crate) fn flag(value: &Value) -> Option<bool> {
    if let Value::Flag(flag) = value { Some(*flag) } else { None }
}

pub(crate) fn share(value: &Value) -> Option<f64> {
    if let Value::Share(share) = value { Some(*share) } else { None }
}

pub(crate) fn cpu(value: &Value) -> Option<CpuChoice> {
    if let Value::Cpu(cpu) = value { Some(*cpu) } else { None }
}

pub(crate) fn policy(value: &Value) -> Option<Policy> {
    if let Value::Policy(policy) = value { Some(*policy) } else { None }
}

/// Bits a second.
pub(crate) fn rate(value: &Value) -> Option<u64> {
    integer(value).and_then(|rate| u64::try_from(rate).ok())
}
