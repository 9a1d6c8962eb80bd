// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table of keys: every key that an experiment file may hold, with its kind, default and
//! meaning.
//!
//! Reading, defaults, "did you mean", the effective file and the JSON Schema all follow from
//! [`KEYS`]. A new key is one line there, and its use.

mod json;
mod key;
mod parts;
mod table;
pub(crate) mod units;
mod written;

pub use json::json_schema;
pub use key::{Default, Key, Kind, metric_meant};
pub use table::KEYS;
pub use units::show_duration;

pub(crate) use key::{Value, checked_name, figure_called, limit_meant, metric};

/// What `optional` of a case means, in one line.
pub const OPTIONAL: &str = "If a machine cannot set the case up, its cells are not available, and that does not make the run invalid; whatever was measured counts as usual.";

/// What a dotted key is in the table.
pub(crate) enum KeyOrTable {
    /// A key, with what the table has about it.
    Key(&'static Key),
    /// A table of keys.
    Table,
    /// Nothing in the table has this key.
    Unknown,
}

/// Looks a path up. A literal segment is preferred to `*`.
pub(crate) fn lookup(path: &[String]) -> KeyOrTable {
    let fits = |key: &Key| {
        let mut segments = key.segments();
        path.iter().all(|part| segments.next().is_some_and(|segment| segment == "*" || segment == part))
    };
    let mut found = KeyOrTable::Unknown;
    for key in KEYS.iter().filter(|key| fits(key)) {
        if key.segments().count() > path.len() {
            return KeyOrTable::Table;
        }
        match found {
            KeyOrTable::Key(earlier) if !earlier.pattern.ends_with('*') => {}
            _ => found = KeyOrTable::Key(key),
        }
    }
    found
}

/// What follows `above` in the keys that begin with it, in the order of the table.
pub(crate) fn fields(above: &str) -> impl Iterator<Item = &'static str> {
    KEYS.iter().filter_map(move |key| key.pattern.strip_prefix(above))
}

/// The literal names that may follow `path`, each once, in the table's order.
pub(crate) fn children(path: &[String]) -> Vec<&'static str> {
    let mut names = Vec::new();
    for key in KEYS {
        let mut segments = key.segments();
        let fits = path.iter().all(|part| segments.next().is_some_and(|segment| segment == "*" || segment == part));
        if let (true, Some(name)) = (fits, segments.next())
            && name != "*"
            && !names.contains(&name)
        {
            names.push(name);
        }
    }
    names
}

/// Splits a dotted key by the table: a metric's name contains dots itself, and may be in quotes.
pub(crate) fn split(dotted: &str) -> Vec<String> {
    let most = if dotted.starts_with("expect.") { 3 } else { usize::MAX };
    let bare = |part: &str| {
        let part = part.trim();
        part.strip_prefix('"').and_then(|part| part.strip_suffix('"')).unwrap_or(part).to_owned()
    };
    dotted.splitn(most, '.').map(bare).collect()
}
