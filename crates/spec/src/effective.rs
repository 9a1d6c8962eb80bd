// SPDX-License-Identifier: MIT OR Apache-2.0
//! The effective file: every default and override written out. Loading it gives the same
//! experiment again.

use crate::experiment::Cell;
use crate::load;
use crate::schema::{Default, KEYS, Key, show_duration};
use crate::sheet::{Assignment, Layer, Sheet};
use crate::tree::quoted;
use std::fmt::Write as _;
use tardy_model::copy::COPY;
use tardy_model::load::Load;
use tardy_model::station::StationKind;
use tardy_model::stream::{Kind, Stream};
use tardy_model::validity;

pub(crate) fn effective(sheet: &Sheet, name: &str, cells: &[Cell]) -> String {
    let mut out = String::from("# As it was run: every default and override written out.\n");
    let mut roots: Vec<&str> = Vec::new();
    for key in KEYS {
        let root = key.segments().next().filter(|_| key.pattern.contains('.')).unwrap_or("");
        if !roots.contains(&root) {
            roots.push(root);
        }
    }
    for root in roots.into_iter().filter(|root| *root != "expect") {
        for name_of in names_under(root, sheet) {
            let keys = KEYS.iter().filter(|key| match root {
                "" => !key.pattern.contains('.'),
                root => key.segments().next() == Some(root) && key.pattern.contains('.'),
            });
            let written = keys.filter_map(|key| {
                let full = key.pattern.replacen('*', name_of, 1);
                let value = match full.as_str() {
                    "name" => Some(quoted(name)),
                    _ => value(sheet, cells, key, &full),
                };
                Some((full, value?))
            });
            tables(&mut out, written);
        }
    }
    expectations(&mut out, sheet);
    cases(&mut out, sheet, cells);
    matrix(&mut out, sheet);
    out
}

/// The names in place of the `*` of keys that begin with `root`; an empty one for keys without.
fn names_under<'a>(root: &str, sheet: &'a Sheet) -> Vec<&'a str> {
    match root {
        "station" => sheet.stations.iter().map(|named| named.name.as_str()).collect(),
        "stream" => sheet.streams.iter().map(|named| named.name.as_str()).collect(),
        "load" => sheet.loads.iter().map(|named| named.name.as_str()).collect(),
        "validity" => {
            let set = |id: &str| sheet.base.keys().any(|key| key.starts_with(&format!("validity.{id}.")));
            validity::RULES.iter().map(|rule| rule.id).filter(|id| set(id)).collect()
        }
        _ => vec![""],
    }
}

/// Writes full keys with their values. A table's head comes before its first key.
fn tables(out: &mut String, written: impl Iterator<Item = (String, String)>) {
    let mut section = String::new();
    for (full, value) in written {
        let (table, field) = full.rsplit_once('.').unwrap_or(("", &full));
        if table != section {
            let _ = write!(out, "\n[{table}]\n");
            table.clone_into(&mut section);
        }
        let _ = writeln!(out, "{field} = {value}");
    }
}

fn cases(out: &mut String, sheet: &Sheet, cells: &[Cell]) {
    for case in &sheet.cases {
        let _ = write!(out, "\n[[case]]\nname = {}\n", quoted(&case.name));
        if case.optional {
            out.push_str("optional = true\n");
        }
        // What `--set shaper.kind` left without a use is not written.
        let kept: Layer =
            case.set.iter().filter(|(key, _)| has_use(key, cells)).map(|(k, v)| (k.clone(), v.clone())).collect();
        if !kept.is_empty() {
            let _ = writeln!(out, "set = {{ {} }}", in_one_line(&kept));
        }
    }
}

fn matrix(out: &mut String, sheet: &Sheet) {
    if !sheet.axes.is_empty() {
        out.push_str("\n[matrix]\n");
        for axis in &sheet.axes {
            let values: Vec<String> = axis.values.iter().map(|value| value.node.toml()).collect();
            let _ = writeln!(out, "{} = [{}]", quoted(&axis.key), values.join(", "));
        }
    }
}

/// A key's value for all cells, as TOML; `None` if it is not to be written.
fn value(sheet: &Sheet, cells: &[Cell], key: &Key, full: &str) -> Option<String> {
    let written = sheet.base.get(full);
    let root = key.segments().next().filter(|_| key.pattern.contains('.'));
    match (root, full) {
        // A copy has no table of packets, and packets have none of a copy.
        (Some("validity"), _) => {}
        (Some(root), _) if (root == COPY) != sheet.is_copy() => return None,
        (None, "kind") if !sheet.is_copy() => return None,
        _ => {}
    }
    let name = full.split('.').nth(1).unwrap_or("");
    let streams = || streams_of(cells, name);
    let loads = || loads_of(cells, name);
    if !has_use(full, cells) {
        return None;
    }
    // A word that means a value is resolved where it means the same in all cells.
    let resolved = match key.pattern {
        "stream.*.deadline" => the_same(streams().map(|stream| quoted(&show_duration(stream.deadline)))),
        "stream.*.metrics" => the_same(streams().map(metrics)),
        "stream.*.lead" => {
            the_same(streams().map(|stream| stream.lead)).flatten().map(|lead| quoted(&lead.to_string()))
        }
        "load.*.size" => the_same(loads().filter_map(load::size)),
        _ => None,
    };
    let is_set_elsewhere =
        || sheet.axes.iter().any(|axis| axis.key == full) || sheet.cases.iter().any(|case| case.set.contains_key(full));
    if is_word(written)
        && let Some(resolved) = resolved.filter(|_| !is_set_elsewhere())
    {
        return Some(resolved);
    }
    if let Some(assignment) = written {
        return Some(assignment.node.toml());
    }
    if key.rival_of(full).is_some_and(|rival| sheet.base.contains_key(&rival))
        || matches!(key.default, Default::Required)
    {
        return None;
    }
    if !is_of_use(cells, key, name) {
        return None;
    }
    // The path of a cell may say what its stations are. If cells differ in it, each says so again.
    let kinds = || cells.iter().filter_map(|cell| cell.setup.stations.get(name)).map(|station| station.kind);
    if key.pattern == "station.*.kind" && kinds().any(|kind| kind == StationKind::Host) {
        return the_same(kinds()).map(|kind| quoted(kind.name()));
    }
    key.default.node().map(|node| node.toml())
}

/// True if a key that nobody wrote, of the stream or load of this name if it is of one, has a
/// meaning in some cell.
fn is_of_use(cells: &[Cell], key: &Key, name: &str) -> bool {
    let streams = || streams_of(cells, name);
    let loads = || loads_of(cells, name);
    if let Some(field) = key.pattern.strip_prefix("stream.*.") {
        if !streams().any(|stream| crate::check::belongs(field, stream)) {
            // No cell has a use for it.
            return false;
        }
        if field == "reflect" && streams().all(|stream| stream.kind == Kind::Pingpong) {
            return false;
        }
    }
    if key.pattern.starts_with("stream.*.sim.") && streams().any(|stream| !stream.port.traits().is_simulated) {
        return false;
    }
    // What belongs to the path of one kind has no meaning where no cell has one.
    let of_no_path =
        |field: &str| !cells.iter().any(|cell| crate::check::belongs_to_path(field, &cell.setup.path.traits()));
    if key.pattern.strip_prefix("path.").is_some_and(of_no_path)
        || (key.pattern == "path.pcp_queues" && !cells.iter().any(|cell| cell.setup.softirq.by_pcp))
    {
        return false;
    }
    let is_of_no_station = |field: &str| {
        let kinds = cells.iter().filter_map(|cell| cell.setup.stations.get(name)).map(|station| station.kind);
        !kinds.into_iter().any(|kind| crate::machines::belongs_to_station(field, kind))
    };
    if key.pattern.strip_prefix("station.*.").is_some_and(is_of_no_station) {
        return false;
    }
    let mut of_name = cells.iter().filter_map(|cell| cell.setup.stations.get(name));
    if key.pattern == "station.*.sudo" && of_name.all(|station| station.remote.is_none()) {
        return false;
    }
    if let Some(field) = key.pattern.strip_prefix("load.*.")
        && !loads().any(|load| load::has(load.kind.word(), field))
        && !load::ALWAYS.contains(&field)
    {
        return false;
    }
    true
}

/// The stream of this name in each cell.
fn streams_of<'a>(cells: &'a [Cell], name: &'a str) -> impl Iterator<Item = &'a Stream> {
    cells.iter().filter_map(move |cell| cell.setup.streams.iter().find(|stream| stream.name == name))
}

/// The load of this name in each cell.
fn loads_of<'a>(cells: &'a [Cell], name: &'a str) -> impl Iterator<Item = &'a Load> {
    cells.iter().filter_map(move |cell| cell.setup.loads.iter().find(|load| load.name == name))
}

/// True unless it is a key of `[shaper]` or `[path]` and no cell has one of a kind that has it.
fn has_use(key: &str, cells: &[Cell]) -> bool {
    let of = |field: &str| cells.iter().any(|cell| crate::shaper::belongs(field, cell.setup.shaper.word()));
    let of_path =
        |field: &str| cells.iter().any(|cell| crate::check::belongs_to_path(field, &cell.setup.path.traits()));
    // A station's device is that of an end of the path.
    let is_nic = key.starts_with("station.") && key.ends_with(".nic");
    key.strip_prefix("shaper.").is_none_or(of)
        && key.strip_prefix("path.").is_none_or(of_path)
        && (!is_nic || of_path("a"))
}

/// True if the value was left out, or is the word that replaces one.
fn is_word(written: Option<&Assignment>) -> bool {
    written.is_none_or(|assignment| assignment.value == crate::schema::Value::Word)
}

fn metrics(stream: &Stream) -> String {
    let names: Vec<String> = stream.metrics.iter().map(|metric| quoted(&metric.to_string())).collect();
    format!("[{}]", names.join(", "))
}

fn the_same<T: PartialEq>(mut values: impl Iterator<Item = T>) -> Option<T> {
    let first = values.next()?;
    values.all(|value| value == first).then_some(first)
}

fn expectations(out: &mut String, sheet: &Sheet) {
    for stream in sheet.streams.iter().chain(&sheet.copies) {
        let prefix = format!("expect.{}.", stream.name);
        let rows = sheet.base.iter().filter_map(|(key, row)| Some((key.strip_prefix(&prefix)?, row)));
        let mut rows: Vec<_> = rows.collect();
        // As they were written: the first limit on a latency decides which metric leads.
        rows.sort_by_key(|(_, row)| row.key_at.place());
        if !rows.is_empty() {
            let _ = write!(out, "\n[expect.{}]\n", stream.name);
        }
        for (field, row) in rows {
            let field = if field.contains('.') { quoted(field) } else { field.to_owned() };
            let _ = writeln!(out, "{field} = {}", row.node.toml());
        }
    }
}

fn in_one_line(layer: &Layer) -> String {
    let mut rows: Vec<_> = layer.iter().collect();
    rows.sort_by_key(|(_, row)| row.key_at.place());
    let rows: Vec<String> = rows.iter().map(|(key, row)| format!("{} = {}", quoted(key), row.node.toml())).collect();
    rows.join(", ")
}
