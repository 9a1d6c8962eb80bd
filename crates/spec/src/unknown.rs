// SPDX-License-Identifier: MIT OR Apache-2.0
//! A key that the table does not have, or that lacks a part: which one its author most likely
//! wanted to write.

use crate::error::{At, Problem, Reason};
use crate::schema::{self, KeyOrTable};
use crate::synonyms;
use crate::tree::{Node, Toml, rows};

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

/// The names that the file has below a root: of stations, streams or loads.
pub(crate) type Names<'n> = &'n dyn Fn(&str) -> Vec<&'n str>;

/// `node` is its value.
pub(crate) fn unknown<'a>(path: &'a [String], at: &At, node: &Node, names: Names<'_>) -> Unknown<'a> {
    // The first segment that fits nothing is the wrong one.
    let depth = (1..=path.len())
        .find(|depth| matches!(schema::lookup(&path[..*depth]), KeyOrTable::Unknown))
        .unwrap_or(path.len());
    let (above, wrong) = (&path[..depth - 1], path[depth - 1].as_str());
    let mut shown = path[..depth].join(".");
    let mut known = schema::children(above);
    if above.is_empty() {
        known.extend(["case", "matrix"]);
    }
    // A key that is there, and whose value shows that another one was meant.
    known.retain(|name| *name != wrong);
    let (meant, help) = if let Some(Meant { whole, meant, help }) = without_table(above, path, node, names) {
        shown = whole;
        (Some(meant), help)
    } else if let Some((meant, says)) = synonyms::of_key(above, wrong, is_there) {
        (meant, with_name(&says, names))
    } else if let Some(name) = synonyms::nearest(wrong, known.iter().copied()) {
        let meant = above.iter().map(String::as_str).chain([name]).collect::<Vec<_>>().join(".");
        (Some(meant), format!("did you mean `{name}`?"))
    } else if let Some((meant, says)) =
        synonyms::slip_of(above, wrong).and_then(|word| synonyms::of_key(above, word, is_there))
    {
        (meant, with_name(&says, names))
    } else if let Some(key) = elsewhere(above, wrong, node, names) {
        let help = format!("did you mean {}?", named(&key, names));
        (Some(only(&key, names)), help)
    } else if known.is_empty() {
        (None, format!("`{}` has no keys below it", above.join(".")))
    } else {
        (None, format!("known here: {}", synonyms::list(known)))
    };
    Unknown { above, problem: Problem::new(Reason::UnknownKey, at, format!("there is no key `{shown}`"), help), meant }
}

/// Names of the file that one message lists.
const MOST_NAMED: usize = 2;

/// A key in which `*` may be the name of a station, stream or load, with the names of the file.
pub(crate) fn named(key: &str, names: Names<'_>) -> String {
    let of_file = names(key.split('.').next().unwrap_or_default());
    let with = |name: &str| format!("`{}`", key.replacen('*', name, 1));
    match &of_file[..] {
        _ if !key.contains('*') => with(""),
        [] => with("NAME"),
        all => {
            let list: Vec<String> = all.iter().take(MOST_NAMED).map(|name| with(name)).collect();
            format!("{}{}", list.join(" or "), if all.len() > MOST_NAMED { ", or that of another" } else { "" })
        }
    }
}

/// The same as one key: `*` stays where the file has several names.
fn only(key: &str, names: Names<'_>) -> String {
    match names(key.split('.').next().unwrap_or_default())[..] {
        [one] => key.replacen('*', one, 1),
        _ => key.to_owned(),
    }
}

/// What to write, with the name of the file's only stream.
fn with_name(says: &str, names: Names<'_>) -> String {
    match names("stream")[..] {
        [one] => says.replace("stream.NAME", &format!("stream.{one}")),
        _ => says.to_owned(),
    }
}

/// A key of several parts that lacks its beginning.
struct Meant {
    /// As it was written.
    whole: String,
    /// What its first part was to be.
    meant: String,
    help: String,
}

/// The same key below a table or a name that was left out: `rx.wait` or `ctl.rx.wait` for
/// `stream.ctl.rx.wait`.
fn without_table(above: &[String], path: &[String], node: &Node, names: Names<'_>) -> Option<Meant> {
    if !above.is_empty() {
        return None;
    }
    let (mut parts, mut node) = (path.to_vec(), node);
    // TOML reads `rx.wait = "spin"` as a table with one row.
    while let [(key, below)] = rows(node) {
        parts.push(key.text.clone());
        node = below;
    }
    if parts.len() < 2 {
        return None;
    }
    let whole = parts.join(".");
    let meant = |key: String, first: String| {
        let help = format!("did you mean {}?", named(&key, names));
        Some(Meant { whole: whole.clone(), meant: only(&first, names), help })
    };
    let roots = ["stream", "load", "station"];
    for root in roots.iter().filter(|root| names(root).contains(&&*parts[0])) {
        let key = format!("{root}.{whole}");
        if is_there(&key) {
            return meant(key, format!("{root}.{}", parts[0]));
        }
    }
    let counts = schema::children(&schema::split("expect.*"));
    if parts.len() == 2 && counts.contains(&&*parts[1]) && names("stream").contains(&&*parts[0]) {
        return meant(format!("expect.{whole}"), format!("expect.{whole}"));
    }
    let mut tables = roots.map(|root| format!("{root}.*")).into_iter().chain(["shaper", "path"].map(str::to_owned));
    if let Some(table) = tables.find(|table| is_there(&format!("{table}.{whole}"))) {
        return meant(format!("{table}.{whole}"), format!("{table}.{}", parts[0]));
    }
    let table = format!("stream.*.{}", parts[0]);
    let fields = schema::children(&schema::split(&table));
    let field = synonyms::nearest(&parts[1], fields).filter(|_| parts.len() == 2)?;
    meant(format!("{table}.{field}"), format!("{table}.{field}"))
}

/// The same word in another table, as `rx.wait` for a `wait` that was written one table too high.
/// A name that is not known is `*`. Of several keys it is one that can have the value, and a
/// stream's rather than another.
fn elsewhere(above: &[String], wrong: &str, node: &Node, of_file: Names<'_>) -> Option<String> {
    let named = |key: &&schema::Key| key.segments().last() == Some(wrong);
    let shared = |key: &&schema::Key| {
        key.segments().zip(above).take_while(|(segment, part)| *segment == "*" || segment == part).count()
    };
    let value = if let Toml::List(items) = &node.value { items.first().unwrap_or(node) } else { node };
    let fits = |key: &&schema::Key| {
        let root = key.segments().next().unwrap_or_default();
        let is_here = !key.pattern.contains('*') || !of_file(root).is_empty();
        (key.kind.read(key.pattern, value).is_ok(), is_here, root == "stream")
    };
    let key = schema::KEYS.iter().filter(named).max_by_key(|key| (shared(key), fits(key)))?;
    let mut names = above.iter().map(String::as_str).skip(1);
    let same_root = key.segments().next() == above.first().map(String::as_str);
    // Who writes in a stream's table does not mean a load's key.
    if !same_root && !above.is_empty() {
        return None;
    }
    let segments: Vec<&str> = key
        .segments()
        .map(|segment| match segment {
            "*" => names.next().filter(|_| same_root).unwrap_or("*"),
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

/// The key with `*` where a name belongs.
pub(crate) fn nameless(path: &[String]) -> String {
    format!("{}.*.{}", path[0], path[1..].join("."))
}

/// True of a key in which a field, or the figure of a limit, is where a name belongs.
pub(crate) fn lacks_name(path: &[String]) -> bool {
    match path {
        [root, field, ..] if root == "expect" => schema::figure_called(field).is_some(),
        [root, _, ..] => ["station", "stream", "load"].contains(&root.as_str()) && is_there(&nameless(path)),
        _ => false,
    }
}

/// The metric of a limit that was written without its stream: its dots part the key.
pub(crate) fn without_stream(path: &[String]) -> Option<String> {
    match path {
        [root, from, to] if root == "expect" && to.starts_with('.') => Some(format!("{from}.{to}")),
        _ => None,
    }
}

/// What an expectation is about must be a metric; a count has a key of its own.
pub(crate) fn check_metric(pattern: &str, path: &[String], at: &At) -> Result<(), Problem> {
    // What is wrong is its stream, and that is reported.
    if pattern != "expect.*.*" || without_stream(path).is_some() {
        return Ok(());
    }
    let metric = path.last().map_or("", String::as_str);
    let Err(wrong) = schema::metric(metric) else { return Ok(()) };
    let counts = schema::children(&path[..2]);
    let other = synonyms::of_key(&path[..2], metric, is_there);
    let help = match (synonyms::nearest(metric, counts.iter().copied()), other) {
        (Some(count), _) => format!("did you mean `{count}`?"),
        (None, Some((_, says))) => says,
        (None, None) if schema::figure_called(metric).is_some() => {
            format!("a figure is a part of the limit: write \"scheduled..rx_kernel\" = \"{metric} < 80us\"")
        }
        (None, None) if metric.contains("..") => wrong.help,
        (None, None) => format!("{}, or a count: {}", wrong.help, synonyms::list(counts)),
    };
    Err(Problem::new(Reason::UnknownKey, at, wrong.message, help))
}
