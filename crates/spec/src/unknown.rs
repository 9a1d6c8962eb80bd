// SPDX-License-Identifier: MIT OR Apache-2.0
//! A key that the table does not have: which one its author most likely wanted to write.

use crate::error::{At, Problem, Reason};
use crate::schema::{self, KeyOrTable};
use crate::synonyms;
use crate::tree::{Node, rows};

/// True if a full key, in which `*` may match a name, is a key or a table of an experiment.
pub(crate) fn is_there(key: &str) -> bool {
    matches!(key, "case" | "matrix") || !matches!(schema::lookup(&schema::split(key)), KeyOrTable::Unknown)
}

/// The table that a root which does not exist most likely was.
pub(crate) fn meant_root(root: &str) -> Option<String> {
    let known = schema::children(&[]);
    if known.contains(&root) {
        return None;
    }
    match synonyms::of_key(&[], root, is_there) {
        Some((meant, _)) => meant,
        None => synonyms::nearest(root, known.iter().copied()).map(str::to_owned),
    }
}

/// A key that the table does not have.
pub(crate) struct Unknown<'a> {
    /// The table that contains it.
    pub above: &'a [String],
    pub problem: Problem,
    /// The key that its author most likely wanted to write.
    pub meant: Option<String>,
}

pub(crate) fn unknown<'a>(path: &'a [String], at: &At) -> Unknown<'a> {
    // The first segment that fits nothing is the wrong one.
    let depth = (1..=path.len())
        .find(|depth| matches!(schema::lookup(&path[..*depth]), KeyOrTable::Unknown))
        .unwrap_or(path.len());
    let (above, wrong) = (&path[..depth - 1], path[depth - 1].as_str());
    let shown = path[..depth].join(".");
    if above.is_empty() && schema::LATER.contains(&wrong) {
        let help = format!("it has: {}, case, matrix", synonyms::list(schema::children(above)));
        let problem = Problem::new(Reason::NotBuilt, at, format!("`{wrong}` is not in this version"), help);
        return Unknown { above, problem, meant: Some(shown) };
    }
    let mut known = schema::children(above);
    if above.is_empty() {
        known.extend(["case", "matrix"]);
    }
    let (meant, help) = if let Some(synonym) = synonyms::of_key(above, wrong, is_there) {
        synonym
    } else if let Some(name) = synonyms::nearest(wrong, known.iter().copied()) {
        let meant = above.iter().map(String::as_str).chain([name]).collect::<Vec<_>>().join(".");
        (Some(meant), format!("did you mean `{name}`?"))
    } else if let Some(key) = elsewhere(above, wrong) {
        let says = format!("did you mean `{key}`?");
        (Some(key.replacen("NAME", "*", 1)), says)
    } else if known.is_empty() {
        (None, format!("`{}` has no keys below it", above.join(".")))
    } else {
        (None, format!("known here: {}", synonyms::list(known)))
    };
    Unknown { above, problem: Problem::new(Reason::UnknownKey, at, format!("there is no key `{shown}`"), help), meant }
}

/// The same word in another table, as `rx.wait` for a `wait` that was written one table too high.
fn elsewhere(above: &[String], wrong: &str) -> Option<String> {
    let named = |key: &&schema::Key| key.segments().last() == Some(wrong);
    let shared = |key: &&schema::Key| {
        key.segments().zip(above).take_while(|(segment, part)| *segment == "*" || segment == part).count()
    };
    let key = schema::KEYS.iter().filter(named).max_by_key(shared)?;
    let mut names = above.iter().map(String::as_str).skip(1);
    let same_root = key.segments().next() == above.first().map(String::as_str);
    // Who writes in a stream's table does not mean a load's key.
    if !same_root && !above.is_empty() {
        return None;
    }
    let segments: Vec<&str> = key
        .segments()
        .map(|segment| match segment {
            "*" => names.next().filter(|_| same_root).unwrap_or("NAME"),
            segment => segment,
        })
        .collect();
    Some(segments.join("."))
}

/// Most keys that one unknown key is guessed to mean; where there are more, a table is.
const MOST_MEANT: usize = 64;
/// Most rows of a table that are guessed one by one: its key table has fewer.
const MOST_ROWS: usize = 32;

/// The keys that the author of a key or table with a wrong name most likely wanted to set:
/// `meant`, or those of `node` below it.
pub(crate) fn meant_keys(meant: String, rest: &[String], node: &Node) -> Vec<String> {
    let mut keys = Vec::new();
    meant_below(meant.clone(), rest, node, &mut keys);
    if keys.len() < MOST_MEANT { keys } else { vec![meant] }
}

fn meant_below(meant: String, rest: &[String], node: &Node, keys: &mut Vec<String>) {
    if keys.len() >= MOST_MEANT {
        return;
    }
    if !matches!(schema::lookup(&schema::split(&meant)), KeyOrTable::Table) {
        return keys.push(meant);
    }
    let whole = std::iter::once(meant.as_str()).chain(rest.iter().map(String::as_str)).collect::<Vec<_>>().join(".");
    match rows(node) {
        [] => keys.push(whole),
        rows if rows.len() > MOST_ROWS => keys.push(whole),
        rows => rows.iter().for_each(|(key, node)| meant_below(format!("{whole}.{}", key.text), &[], node, keys)),
    }
}
