// SPDX-License-Identifier: MIT OR Apache-2.0
//! The file sorted by the table of keys: what holds for all cells, the cases, the axes. `--set` is
//! laid over all three.

mod layer;

use crate::error::{At, Faults, Origin, Problem, Reason};
use crate::schema::{self, KeyOrTable, Value};
use crate::synonyms;
use crate::tree::{self, Node, Toml, WrittenKey, rows};
use crate::unknown::{
    Unknown, check_metric, lacks_name, meant_keys, meant_root, named, nameless, unknown, without_stream,
};
pub(crate) use layer::{Assignment, Layer};
use layer::{Leaf, both, layer, settle, too_many_axes, twice};
use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};
use tardy_model::copy::COPY;
use tardy_model::validity;

/// A name that the user gave to a station, stream or load.
#[derive(Clone, Debug)]
pub(crate) struct Named {
    pub name: String,
    pub at: At,
}

/// A named bundle of overrides.
#[derive(Debug)]
pub(crate) struct Case {
    pub name: String,
    /// False if it has no name of its own, and is called by its number.
    pub is_named: bool,
    /// From 0, in the order of the file.
    pub number: usize,
    pub at: At,
    pub set: Layer,
    /// A machine that cannot do it makes no run invalid.
    pub optional: bool,
}

/// An axis of the matrix: each assignment sets the same key.
#[derive(Debug)]
pub(crate) struct Axis {
    pub key: String,
    pub schema: &'static schema::Key,
    pub at: At,
    pub values: Vec<Assignment>,
}

/// The other kind of an experiment than a copy.
const PACKETS: &str = "packets";

/// True if the value of the experiment's kind is one of these words.
fn is_kind(node: &Node, words: &[&str]) -> bool {
    matches!(&node.value, Toml::Text(kind) if words.contains(&kind.as_str()))
}

/// Tables in which the user names what he has.
const HAS_NAMES: [&str; 3] = ["station", "stream", "load"];
/// Most streams, since the frame numbers them in one byte; and more stations than any path joins.
const MOST_NAMES: usize = 255;

/// An experiment file, sorted by what its tables are for.
#[derive(Debug, Default)]
pub(crate) struct Sheet {
    pub base: Layer,
    pub stations: Vec<Named>,
    pub streams: Vec<Named>,
    pub loads: Vec<Named>,
    /// The copy of an experiment of kind `copy`, which is called so.
    pub copies: Vec<Named>,
    pub cases: Vec<Case>,
    pub axes: Vec<Axis>,
    /// Keys that cases and axes set, and the words among their values. It is put together once,
    /// when all is read: each key of each cell is looked for in it.
    varied: OnceCell<HashMap<String, HashSet<String>>>,
}

impl Sheet {
    /// The words that cases and axes have for the key; `None` if they do not set it.
    pub(crate) fn varied_words(&self, key: &str) -> Option<&HashSet<String>> {
        let all = || {
            let mut varied: HashMap<String, HashSet<String>> = HashMap::new();
            let of_axes = self.axes.iter().flat_map(|axis| &axis.values);
            for row in self.cases.iter().flat_map(|case| case.set.values()).chain(of_axes) {
                let words = varied.entry(row.key.clone()).or_default();
                if let Value::Text(word) = &row.value {
                    words.insert(word.clone());
                }
            }
            varied
        };
        self.varied.get_or_init(all).get(key)
    }

    /// True if the experiment copies memory.
    pub(crate) fn is_copy(&self) -> bool {
        !self.copies.is_empty()
    }

    /// Sorts a parsed file, as far as it is right.
    pub(crate) fn new(document: &Node, faults: &mut Faults) -> Sheet {
        let mut sheet = Sheet::default();
        let rows = rows(document);
        let (special, plain): (Vec<_>, Vec<_>) =
            rows.iter().partition(|(key, _)| matches!(key.text.as_str(), "case" | "matrix"));
        // Names first: the order of tables in a file means nothing, `[expect.ctl]` may come before
        // `[stream.ctl]`.
        for (key, node) in plain.iter().filter(|(key, _)| HAS_NAMES.contains(&key.text.as_str())) {
            sheet.name_all(key, node, faults);
        }
        for (key, node) in plain.iter().filter(|(key, _)| key.text == "kind") {
            let has_copy = plain.iter().any(|(key, _)| key.text == COPY);
            // What somebody wrote with a table of a copy is one, whatever is wrong with the word.
            if is_kind(node, &[COPY]) || (has_copy && !is_kind(node, &[PACKETS])) {
                sheet.copies.push(Named { name: COPY.to_owned(), at: key.at.clone() });
            }
        }
        // Each reference to those beyond would be reported one by one.
        if plain.iter().any(|(key, node)| HAS_NAMES.contains(&key.text.as_str()) && self::rows(node).len() > MOST_NAMES)
        {
            return sheet;
        }
        // A user who misspelled the table of streams has none that is called `ctl`, and must not
        // get that message for each `expect.ctl`.
        for (key, _) in &plain {
            let path = schema::split(&key.text);
            if let Some(meant) = path.first().and_then(|root| meant_root(root)) {
                faults.leave_open(meant);
            }
        }
        let mut leaves = Vec::new();
        for (key, node) in plain {
            sheet.walk(&[], key, node, &mut leaves, faults);
        }
        sheet.base = layer(&leaves, faults);
        for (key, node) in special {
            match key.text.as_str() {
                "case" => sheet.read_cases(node, faults),
                _ => sheet.read_matrix(key, node, faults),
            }
        }
        sheet
    }

    /// The names below a root, if it has any.
    pub(crate) fn names(&self, root: &str) -> &[Named] {
        match root {
            "station" => &self.stations,
            "stream" => &self.streams,
            "load" => &self.loads,
            _ => &[],
        }
    }

    fn called(&self, root: &str) -> Vec<&str> {
        self.names(root).iter().map(|named| named.name.as_str()).collect()
    }

    /// Makes `KEY=VALUE` win over everything: over the file's own value, over cases, and over an
    /// axis, which it pins.
    pub(crate) fn pin(&mut self, argument: &str, n: usize, faults: &mut Faults) {
        let whole = At { origin: Origin::Set(n), span: 0..argument.len() };
        let Some((dotted, text)) = argument.split_once('=') else {
            let help = "write KEY=VALUE, as stream.ctl.count=400";
            return faults.add(Problem::new(Reason::Syntax, &whole, "this is not KEY=VALUE", help));
        };
        let node = tree::override_value(text, n, dotted.len() + 1, faults);
        let key =
            WrittenKey { text: dotted.trim().to_owned(), at: At { origin: Origin::Set(n), span: 0..dotted.len() } };
        if matches!(key.text.split('.').next(), Some("case" | "matrix")) {
            let help = "set the key itself, as stream.ctl.cycle=1ms: that pins its axis";
            return faults.add(Problem::new(Reason::Value, &key.at, "cases and axes cannot be set", help));
        }
        let mut leaves = Vec::new();
        self.walk(&[], &key, &node, &mut leaves, faults);
        for (key, assignment) in layer(&leaves, faults) {
            for gone in assignment.schema.rival_of(&key).iter().chain([&key]) {
                self.base.remove(gone);
                self.cases.iter_mut().for_each(|case| drop(case.set.remove(gone)));
                self.axes.retain(|axis| axis.key != *gone);
            }
            self.base.insert(key, assignment);
        }
    }

    /// Notes the names in `[station.NAME]`, `[stream.NAME]` or `[load.NAME]`; wrong ones too, for
    /// what refers to them is not wrong.
    fn name_all(&mut self, table: &WrittenKey, node: &Node, faults: &mut Faults) {
        if !matches!(node.value, Toml::Table(_)) {
            faults.broke(table.text.clone());
        }
        for (key, _) in rows(node) {
            let is_station = table.text == "station";
            let allowed = |c: char| match !is_station {
                true => c.is_ascii_alphanumeric() || c == '_' || c == '-',
                false => c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-',
            };
            let full = format!("{}.{}", table.text, key.text);
            if let Err(wrong) = schema::checked_name(&key.text, 32, allowed) {
                let message = format!("name of a {}: {}", table.text, wrong.message);
                faults.add_value(&full, Problem::new(Reason::Value, &key.at, message, wrong.help));
            } else if is_station && key.text.starts_with(|c: char| c.is_ascii_digit()) {
                let message = format!("name of a station: `{}` begins with a digit", key.text);
                let help = format!("write `s{}`", key.text);
                faults.add_value(&full, Problem::new(Reason::Value, &key.at, message, help));
            }
            let names = match table.text.as_str() {
                "station" => &mut self.stations,
                "stream" => &mut self.streams,
                _ => &mut self.loads,
            };
            if names.len() == MOST_NAMES {
                let message = format!("there are more than {MOST_NAMES} of `{}`", table.text);
                faults.add(Problem::new(Reason::Combination, &key.at, message, "leave some out"));
                return faults.broke(table.text.clone());
            }
            names.push(Named { name: key.text.clone(), at: key.at.clone() });
        }
    }

    /// Walks down to the keys of the table, and refuses what is not in it.
    fn walk<'a>(
        &self,
        above: &[String],
        key: &WrittenKey,
        node: &'a Node,
        leaves: &mut Vec<Leaf<'a>>,
        faults: &mut Faults,
    ) {
        if faults.is_full() {
            return;
        }
        let mut path = above.to_vec();
        path.extend(parts(above, &key.text));
        // Below a name that is not there, keys and values may be wrong all the same.
        if above.len() < 2
            && let Err(problem) = self.check_names(&path, &key.at, faults)
        {
            if lacks_name(&path) {
                return faults.add_unknown(problem, vec![nameless(&path)]);
            }
            let is_known = !problem.knock_on;
            faults.add(problem);
            if is_known {
                let mut nameless = Vec::new();
                self.walk_named(path, key, node, &mut nameless, faults);
                // A list may be the values of an axis.
                let single = nameless.iter().filter(|leaf| !matches!(leaf.node.value, Toml::List(_)));
                single.for_each(|leaf| drop(leaf.read(leaf.node, faults)));
            }
            return;
        }
        self.walk_named(path, key, node, leaves, faults);
    }

    /// The same for a key whose names are known, or were reported.
    fn walk_named<'a>(
        &self,
        mut path: Vec<String>,
        key: &WrittenKey,
        node: &'a Node,
        leaves: &mut Vec<Leaf<'a>>,
        faults: &mut Faults,
    ) {
        if let ([root, _], Toml::Text(_)) = (path.as_slice(), &node.value)
            && root == "validity"
        {
            // A word alone is the level.
            path.push("level".to_owned());
        }
        let is_other_kind = path == ["kind"] && !self.is_copy() && !is_kind(node, &[PACKETS, COPY]);
        match schema::lookup(&path) {
            // Of a path, a stream or another table that has a kind.
            KeyOrTable::Unknown | KeyOrTable::Key(_) if is_other_kind => {
                let Unknown { problem, .. } = unknown(&path, &key.at, node, &|root| self.called(root));
                faults.add_unknown(problem, Vec::new());
            }
            KeyOrTable::Unknown => {
                let Unknown { above, problem, meant } = unknown(&path, &key.at, node, &|root| self.called(root));
                let keys = meant.map_or_else(Vec::new, |meant| meant_keys(meant, &path[above.len() + 1..], node));
                faults.add_unknown(problem, keys);
            }
            KeyOrTable::Table => match &node.value {
                Toml::Table(rows) => rows.iter().for_each(|(key, node)| self.walk(&path, key, node, leaves, faults)),
                Toml::Unreadable => faults.broke(path.join(".")),
                _ => faults.add_value(&path.join("."), no_table(&path, node)),
            },
            KeyOrTable::Key(schema) => match check_metric(schema.pattern, &path, &key.at) {
                Err(problem) => {
                    faults.add(problem);
                    // A metric that is misspelled has a limit all the same; a list may be an axis.
                    if path.last().is_some_and(|metric| metric.contains("..")) && !matches!(node.value, Toml::List(_)) {
                        drop(Leaf { path, schema, key_at: key.at.clone(), node }.read(node, faults));
                    }
                }
                Ok(()) => leaves.push(Leaf { path, schema, key_at: key.at.clone(), node }),
            },
        }
    }

    /// The station, stream or load in a key must be one of the file's.
    fn check_names(&self, path: &[String], at: &At, faults: &Faults) -> Result<(), Problem> {
        let (what, names) = match path {
            [root, ..] if HAS_NAMES.contains(&root.as_str()) => (root.as_str(), self.names(root)),
            [root, ..] if root == "expect" && self.is_copy() => ("copy", &self.copies[..]),
            [root, ..] if root == "expect" => ("stream", self.names("stream")),
            [root, id, ..] if root == "validity" => {
                let ids = validity::RULES.iter().map(|rule| rule.id);
                if ids.clone().any(|known| known == id) {
                    return Ok(());
                }
                let message = format!("there is no rule of validity `{id}`");
                return Err(Problem::new(Reason::UnknownKey, at, message, synonyms::suggestion(id, ids)));
            }
            _ => return Ok(()),
        };
        let Some(name) = path.get(1) else { return Ok(()) };
        // Where its table could not be read nobody knows.
        if names.iter().any(|known| known.name == *name) || faults.is_lost(what) {
            return Ok(());
        }
        if let Some(metric) = without_stream(path) {
            let message = format!("`{metric}` is a limit, and a limit belongs to a stream");
            let stream = names.first().map_or("NAME", |known| known.name.as_str());
            return Err(Problem::new(Reason::UnknownKey, at, message, format!("write it below [expect.{stream}]")));
        }
        // The first part of a name that has a dot in it, which was reported.
        let knock_on = names.iter().any(|known| known.name.split('.').next() == Some(name));
        let help = match names {
            // The user never sees it.
            _ if knock_on => String::new(),
            [] => format!("write [{what}.{name}]"),
            [one, ..] if lacks_name(path) && path[0] == "expect" => {
                format!("write \"scheduled..rx_kernel\" = \"{name} < 80us\" below [expect.{}]", one.name)
            }
            _ if lacks_name(path) => format!("did you mean {}?", named(&nameless(path), &|root| self.called(root))),
            names => synonyms::suggestion(name, names.iter().map(|known| known.name.as_str())),
        };
        let message = format!("there is no {what} `{name}`");
        Err(Problem { knock_on, ..Problem::new(Reason::UnknownKey, at, message, help) })
    }

    /// What a case sets, or the axes.
    fn overrides<'a>(&self, node: &'a Node, what: &str, faults: &mut Faults) -> Vec<Leaf<'a>> {
        let mut leaves = Vec::new();
        for (key, node) in rows(node) {
            self.walk(&[], key, node, &mut leaves, faults);
        }
        leaves.retain(|leaf| {
            if leaf.schema.whole {
                let message = format!("`{}` holds for the whole experiment and cannot be {what}", leaf.key());
                let help = "write it at the top of the file, or use --set";
                faults.add(Problem::new(Reason::Combination, &leaf.key_at, message, help));
            }
            !leaf.schema.whole
        });
        leaves
    }

    fn read_cases(&mut self, node: &Node, faults: &mut Faults) {
        if node.is_unreadable() {
            return;
        }
        let Toml::List(items) = &node.value else {
            return faults.add(Problem::new(Reason::Value, &node.at, "`case` is a list of tables", "write [[case]]"));
        };
        for item in items.iter().take_while(|_| !faults.is_full()).collect::<Vec<_>>() {
            faults.within(Some(self.cases.len()));
            self.cases.extend(self.read_case(item, self.cases.len(), faults));
            faults.within(None);
        }
    }

    /// The `n`-th case. One that has no name, or a wrong one, is called by its number, so that what
    /// it sets is checked.
    fn read_case(&self, item: &Node, n: usize, faults: &mut Faults) -> Option<Case> {
        if !matches!(item.value, Toml::Table(_)) {
            faults.add(Problem::new(Reason::Value, &item.at, "a case is a table", "write [[case]]"));
            return None;
        }
        let (mut name, mut set, mut optional) = (None, Layer::new(), false);
        // A name that is wrong, or whose key is, was reported; it is not missing.
        let mut named = false;
        for (key, node) in rows(item) {
            match (key.text.as_str(), &node.value) {
                ("name", Toml::Text(text)) => {
                    named = true;
                    let allowed = |c: char| !c.is_control();
                    match schema::checked_name(text, 100, allowed) {
                        Ok(checked) => name = Some((checked, node.at.clone())),
                        Err(wrong) => {
                            let message = format!("name of a case: {}", wrong.message);
                            faults.add(Problem::new(Reason::Value, &node.at, message, wrong.help));
                        }
                    }
                }
                (_, Toml::Unreadable) => named |= key.text == "name",
                ("name", _) => {
                    named = true;
                    let message = format!("the name of a case is text, this is {}", node.what());
                    faults.add(Problem::new(Reason::Value, &node.at, message, "write name = \"idle\""));
                }
                ("set", Toml::Table(_)) => set = self.set_by_case(node, faults),
                ("set", _) => {
                    let message = format!("`set` is a table, this is {}", node.what());
                    let help = "write set = { \"path.queues\" = 2 }";
                    faults.add(Problem::new(Reason::Value, &node.at, message, help));
                }
                ("optional", Toml::Flag(flag)) => optional = *flag,
                ("optional", _) => {
                    let message = format!("`optional` of a case is {}; it must be true or false", node.what());
                    faults.add(Problem::new(Reason::Value, &node.at, message, "write optional = true"));
                }
                (other, _) => {
                    let meant = synonyms::nearest(other, ["name", "set", "optional"]);
                    named |= meant == Some("name");
                    if meant == Some("set") && set.is_empty() {
                        set = self.set_by_case(node, faults);
                    }
                    let message = format!("a case has no key `{other}`");
                    let help = match schema::lookup(&schema::split(other)) {
                        KeyOrTable::Unknown => synonyms::suggestion(other, ["name", "set", "optional"]),
                        _ => format!("write it into set: set = {{ \"{other}\" = … }}"),
                    };
                    faults.add(Problem::new(Reason::UnknownKey, &key.at, message, help));
                }
            }
        }
        if name.is_none() && !named {
            let help = "write name = \"idle\" in it";
            faults.add(Problem::new(Reason::MissingKey, &item.at, "this case has no name", help));
        }
        let is_named = name.is_some();
        let (name, at) = name.unwrap_or_else(|| (format!("case-{}", n + 1), item.at.clone()));
        Some(Case { name, is_named, number: n, at, set, optional })
    }

    fn set_by_case(&self, node: &Node, faults: &mut Faults) -> Layer {
        let leaves = self.overrides(node, "set by a case", faults);
        layer(&leaves, faults)
    }

    fn read_matrix(&mut self, key: &WrittenKey, node: &Node, faults: &mut Faults) {
        if node.is_unreadable() {
            return;
        }
        if !matches!(node.value, Toml::Table(_)) {
            let message = format!("`matrix` is a table of axes, this is {}", node.what());
            return faults.add(Problem::new(Reason::Value, &key.at, message, "write [matrix]"));
        }
        let leaves = self.overrides(node, "an axis", faults);
        if let Some(problem) = too_many_axes(leaves.len(), &key.at) {
            return faults.add(problem);
        }
        settle(&leaves, faults);
        for leaf in leaves {
            let axis = self.axis(&leaf, faults);
            // What an axis that is wrong would have set nobody knows.
            match axis {
                Ok(axis) if axis.values.is_empty() => {}
                Ok(axis) => self.axes.push(axis),
                Err(problem) => faults.add_value(&leaf.key(), problem),
            }
        }
    }

    fn axis(&self, leaf: &Leaf<'_>, faults: &mut Faults) -> Result<Axis, Problem> {
        let key = leaf.key();
        let Toml::List(items) = &leaf.node.value else {
            let knock_on = leaf.node.is_unreadable();
            let message = format!("the axis `{key}` is {}; it must be a list of values", leaf.node.what());
            let help = format!("write [{}]", leaf.node.toml());
            return Err(Problem { knock_on, ..Problem::new(Reason::Value, &leaf.node.at, message, help) });
        };
        if items.is_empty() {
            let message = format!("the axis `{key}` has no value");
            return Err(Problem::new(Reason::Value, &leaf.node.at, message, "give it one, or leave the axis out"));
        }
        if self.axes.iter().any(|axis| axis.key == key) {
            return Err(twice(&key, &leaf.key_at));
        }
        let rival = leaf.schema.rival_of(&key);
        if let Some(axis) = self.axes.iter().find(|axis| Some(&axis.key) == rival.as_ref()) {
            return Err(both(&axis.key, &key, &leaf.key_at));
        }
        let values = items.iter().filter_map(|item| leaf.read(item, faults)).collect();
        Ok(Axis { key, schema: leaf.schema, at: leaf.key_at.clone(), values })
    }
}

/// The parts of a written key below `above`. Only the root of a dotted key shows whether it
/// contains a metric's dots.
fn parts(above: &[String], key: &str) -> Vec<String> {
    if above.is_empty() {
        schema::split(key)
    } else if above == ["expect"] {
        schema::split(&format!("expect.{key}")).split_off(1)
    } else if above[0] == "expect" && above.len() == 2 {
        vec![key.to_owned()]
    } else {
        key.split('.').map(str::to_owned).collect()
    }
}

/// How to fix a limit that lacks its metric.
fn lacks_metric(path: &[String], node: &Node) -> Option<String> {
    let ([root, stream], Toml::Text(text)) = (path, &node.value) else { return None };
    let help = schema::limit_meant(text).filter(|_| root == "expect")?;
    let limit = help.trim_start_matches("write ");
    Some(format!("name the metric too: \"scheduled..rx_kernel\" = {limit}, below [expect.{stream}]"))
}

/// How to write an axis of a load that runs or not.
fn with_and_without(path: &[String], node: &Node) -> Option<String> {
    let ([root, load], Toml::List(_)) = (path, &node.value) else { return None };
    (root == "load").then(|| format!("to run with it and without it, write \"load.{load}.count\" = [0, 1]"))
}

/// A value where a table belongs.
fn no_table(path: &[String], node: &Node) -> Problem {
    let dotted = path.join(".");
    let header = if path.len() == 1 && schema::children(path).is_empty() {
        format!("[{dotted}.NAME]")
    } else {
        format!("[{dotted}]")
    };
    let message = format!("`{dotted}` is a table, this is {}", node.what());
    let help = match synonyms::table_as_value(path, node)
        .or_else(|| lacks_metric(path, node))
        .or_else(|| with_and_without(path, node))
    {
        Some(help) => help,
        None => format!("write {header}, its keys below it"),
    };
    Problem::new(Reason::Value, &node.at, message, help)
}
