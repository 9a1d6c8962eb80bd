// SPDX-License-Identifier: MIT OR Apache-2.0
//! The file sorted by the table of keys: what holds for all cells, the cases, the axes. `--set` is laid over all three.

use crate::error::{At, Origin, Problem, Reason};
use crate::near;
use crate::schema::{self, KeyOrTable, Value};
use crate::tree::{self, Node, Toml, WrittenKey};
use std::collections::BTreeMap;
use tardy_model::validity;

/// A key with the value that somebody wrote.
#[derive(Clone, Debug)]
pub(crate) struct Assignment {
    /// Full dotted key.
    pub key: String,
    /// Its line in the table.
    pub schema: &'static schema::Key,
    /// As written.
    pub node: Node,
    /// As read.
    pub value: Value,
    /// Where the key stands.
    pub key_at: At,
}

/// Assignments by full dotted key.
pub(crate) type Layer = BTreeMap<String, Assignment>;

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

/// Most streams, since the frame numbers them in one byte; and more stations than any path joins.
const MOST_NAMES: usize = 255;

/// The sorted file.
#[derive(Debug, Default)]
pub(crate) struct Sheet {
    pub base: Layer,
    pub stations: Vec<Named>,
    pub streams: Vec<Named>,
    pub loads: Vec<Named>,
    pub cases: Vec<Case>,
    pub axes: Vec<Axis>,
}

/// A key of the table with what was written for it, not yet read as a value.
struct Leaf<'a> {
    path: Vec<String>,
    schema: &'static schema::Key,
    key_at: At,
    node: &'a Node,
}

impl Leaf<'_> {
    fn read(&self, node: &Node) -> Result<Assignment, Problem> {
        let key = self.path.join(".");
        let value = self.schema.kind.read(&key, node)?;
        Ok(Assignment { key, schema: self.schema, node: node.clone(), value, key_at: self.key_at.clone() })
    }
}

impl Sheet {
    /// Sorts a parsed file.
    pub(crate) fn new(document: &Node) -> Result<Sheet, Problem> {
        let mut sheet = Sheet::default();
        let rows = rows(document);
        let (special, plain): (Vec<_>, Vec<_>) =
            rows.iter().partition(|(key, _)| matches!(key.text.as_str(), "case" | "matrix"));
        // Names first: the order of tables in a file means nothing, `[expect.ctl]` may stand before `[stream.ctl]`.
        for (key, node) in plain.iter().filter(|(key, _)| matches!(key.text.as_str(), "station" | "stream" | "load")) {
            sheet.name_all(key, node)?;
        }
        let mut leaves = Vec::new();
        for (key, node) in plain {
            sheet.walk(&[], key, node, &mut leaves)?;
        }
        sheet.base = layer(&leaves)?;
        for (key, node) in special {
            match key.text.as_str() {
                "case" => sheet.read_cases(node)?,
                _ => sheet.read_matrix(key, node)?,
            }
        }
        Ok(sheet)
    }

    /// Lays `KEY=VALUE` over everything: over the file's own value, over cases, and over an axis, which it pins.
    pub(crate) fn pin(&mut self, argument: &str, n: usize) -> Result<(), Problem> {
        let whole = At { origin: Origin::Set(n), span: 0..argument.len() };
        let Some((dotted, text)) = argument.split_once('=') else {
            let help = "write KEY=VALUE, as stream.ctl.count=400";
            return Err(Problem::new(Reason::Syntax, &whole, "this is not KEY=VALUE", help));
        };
        let node = tree::override_value(text, n, dotted.len() + 1)?;
        let key =
            WrittenKey { text: dotted.trim().to_owned(), at: At { origin: Origin::Set(n), span: 0..dotted.len() } };
        if matches!(key.text.split('.').next(), Some("case" | "matrix")) {
            let help = "set the key itself, as stream.ctl.cycle=1ms: that pins its axis";
            return Err(Problem::new(Reason::Value, &key.at, "cases and axes cannot be set", help));
        }
        let mut leaves = Vec::new();
        self.walk(&[], &key, &node, &mut leaves)?;
        for (key, assignment) in layer(&leaves)? {
            for gone in assignment.schema.rival_of(&key).iter().chain([&key]) {
                self.base.remove(gone);
                self.cases.iter_mut().for_each(|case| drop(case.set.remove(gone)));
                self.axes.retain(|axis| axis.key != *gone);
            }
            self.base.insert(key, assignment);
        }
        Ok(())
    }

    /// Notes the names in `[station.NAME]`, `[stream.NAME]` or `[load.NAME]`.
    fn name_all(&mut self, table: &WrittenKey, node: &Node) -> Result<(), Problem> {
        for (key, _) in rows(node) {
            let is_station = table.text == "station";
            let allowed = |c: char| match !is_station {
                true => c.is_ascii_alphanumeric() || c == '_' || c == '-',
                false => c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-',
            };
            schema::checked_name(&key.text, 32, allowed).map_err(|wrong| {
                let message = format!("name of a {}: {}", table.text, wrong.message);
                Problem::new(Reason::Value, &key.at, message, wrong.help)
            })?;
            if is_station && key.text.starts_with(|c: char| c.is_ascii_digit()) {
                let message = format!("name of a station: `{}` begins with a digit", key.text);
                return Err(Problem::new(Reason::Value, &key.at, message, format!("write `s{}`", key.text)));
            }
            let names = match table.text.as_str() {
                "station" => &mut self.stations,
                "stream" => &mut self.streams,
                _ => &mut self.loads,
            };
            if names.len() == MOST_NAMES {
                let message = format!("there are more than {MOST_NAMES} of `{}`", table.text);
                return Err(Problem::new(Reason::Combination, &key.at, message, "leave some out"));
            }
            names.push(Named { name: key.text.clone(), at: key.at.clone() });
        }
        Ok(())
    }

    /// Walks down to the keys of the table, and refuses what is not in it.
    fn walk<'a>(
        &self,
        above: &[String],
        key: &WrittenKey,
        node: &'a Node,
        leaves: &mut Vec<Leaf<'a>>,
    ) -> Result<(), Problem> {
        let mut path = above.to_vec();
        // Only the root of a dotted key tells whether a metric's dots are in it.
        path.extend(if above.first().is_some_and(|root| root == "expect") && above.len() == 2 {
            vec![key.text.clone()]
        } else if above.is_empty() {
            schema::split(&key.text)
        } else if above == ["expect"] {
            schema::split(&format!("expect.{}", key.text)).split_off(1)
        } else {
            key.text.split('.').map(str::to_owned).collect()
        });
        self.check_names(&path, &key.at)?;
        if let ([root, _], Toml::Text(_)) = (path.as_slice(), &node.value)
            && root == "validity"
        {
            // A word alone is the level.
            path.push("level".to_owned());
        }
        match schema::lookup(&path) {
            KeyOrTable::Unknown => Err(unknown(&path, &key.at)),
            KeyOrTable::Table => match &node.value {
                Toml::Table(rows) => {
                    rows.iter().try_for_each(|(key, node)| self.walk(&path, key, node, leaves)).map_err(|problem| {
                        not_built(&path, rows).filter(|_| problem.reason == Reason::UnknownKey).unwrap_or(problem)
                    })
                }
                _ => {
                    let dotted = path.join(".");
                    let header = if path.len() == 1 && schema::children(&path).is_empty() {
                        format!("[{dotted}.NAME]")
                    } else {
                        format!("[{dotted}]")
                    };
                    let message = format!("`{dotted}` is a table, this is {}", node.what());
                    Err(Problem::new(Reason::Value, &node.at, message, format!("write {header}, its keys below it")))
                }
            },
            KeyOrTable::Key(schema) => {
                if schema.pattern == "expect.*.*" {
                    let metric = path.last().map_or("", String::as_str);
                    schema::metric(metric).map_err(|wrong| {
                        let counts = schema::children(&path[..2]);
                        let help = match near::nearest(metric, counts.iter().copied()) {
                            Some(count) => format!("did you mean `{count}`?"),
                            None if metric.contains("..") => wrong.help,
                            None => format!("{}, or a count: {}", wrong.help, near::list(counts)),
                        };
                        Problem::new(Reason::UnknownKey, &key.at, wrong.message, help)
                    })?;
                }
                leaves.push(Leaf { path, schema, key_at: key.at.clone(), node });
                Ok(())
            }
        }
    }

    /// The station, stream or load in a key must be one of the file's.
    fn check_names(&self, path: &[String], at: &At) -> Result<(), Problem> {
        let (what, names) = match path {
            [root, ..] if root == "station" => ("station", &self.stations),
            [root, ..] if root == "stream" || root == "expect" => ("stream", &self.streams),
            [root, ..] if root == "load" => ("load", &self.loads),
            [root, id, ..] if root == "validity" => {
                let ids = validity::RULES.iter().map(|rule| rule.id);
                if ids.clone().any(|known| known == id) {
                    return Ok(());
                }
                let message = format!("there is no rule of validity `{id}`");
                return Err(Problem::new(Reason::UnknownKey, at, message, near::mend(id, ids)));
            }
            _ => return Ok(()),
        };
        let Some(name) = path.get(1) else { return Ok(()) };
        if names.iter().any(|known| known.name == *name) {
            return Ok(());
        }
        let help = match names.as_slice() {
            [] => format!("write [{what}.{name}]"),
            names => near::mend(name, names.iter().map(|known| known.name.as_str())),
        };
        Err(Problem::new(Reason::UnknownKey, at, format!("there is no {what} `{name}`"), help))
    }

    fn overrides<'a>(&self, node: &'a Node, what: &str) -> Result<Vec<Leaf<'a>>, Problem> {
        let mut leaves = Vec::new();
        for (key, node) in rows(node) {
            self.walk(&[], key, node, &mut leaves)?;
        }
        match leaves.iter().find(|leaf| leaf.schema.whole) {
            Some(leaf) => {
                let message = format!("`{}` holds for the whole experiment and cannot be {what}", leaf.path.join("."));
                let help = "write it at the top of the file, or use --set";
                Err(Problem::new(Reason::Combination, &leaf.key_at, message, help))
            }
            None => Ok(leaves),
        }
    }

    fn read_cases(&mut self, node: &Node) -> Result<(), Problem> {
        let Toml::List(items) = &node.value else {
            return Err(Problem::new(Reason::Value, &node.at, "`case` is a list of tables", "write [[case]]"));
        };
        for item in items {
            if !matches!(item.value, Toml::Table(_)) {
                return Err(Problem::new(Reason::Value, &item.at, "a case is a table", "write [[case]]"));
            }
            let (mut name, mut set, mut optional) = (None, Layer::new(), false);
            for (key, node) in rows(item) {
                match (key.text.as_str(), &node.value) {
                    ("name", Toml::Text(text)) => {
                        let allowed = |c: char| !c.is_control();
                        let checked = schema::checked_name(text, 100, allowed).map_err(|wrong| {
                            Problem::new(
                                Reason::Value,
                                &node.at,
                                format!("name of a case: {}", wrong.message),
                                wrong.help,
                            )
                        })?;
                        name = Some((checked, node.at.clone()));
                    }
                    ("name", _) => {
                        let message = format!("the name of a case is text, this is {}", node.what());
                        return Err(Problem::new(Reason::Value, &node.at, message, "write name = \"idle\""));
                    }
                    ("set", Toml::Table(_)) => set = layer(&self.overrides(node, "set by a case")?)?,
                    ("set", _) => {
                        let message = format!("`set` is a table, this is {}", node.what());
                        let help = "write set = { \"path.queues\" = 2 }";
                        return Err(Problem::new(Reason::Value, &node.at, message, help));
                    }
                    ("optional", Toml::Flag(flag)) => optional = *flag,
                    ("optional", _) => {
                        let message = format!("`optional` of a case is {}; it must be true or false", node.what());
                        return Err(Problem::new(Reason::Value, &node.at, message, "write optional = true"));
                    }
                    (other, _) => {
                        let message = format!("a case has no key `{other}`");
                        let help = near::mend(other, ["name", "set", "optional"]);
                        return Err(Problem::new(Reason::UnknownKey, &key.at, message, help));
                    }
                }
            }
            let Some((name, at)) = name else {
                let help = "write name = \"idle\" in it";
                return Err(Problem::new(Reason::MissingKey, &item.at, "this case has no name", help));
            };
            self.cases.push(Case { name, at, set, optional });
        }
        Ok(())
    }

    fn read_matrix(&mut self, key: &WrittenKey, node: &Node) -> Result<(), Problem> {
        if !matches!(node.value, Toml::Table(_)) {
            let message = format!("`matrix` is a table of axes, this is {}", node.what());
            return Err(Problem::new(Reason::Value, &key.at, message, "write [matrix]"));
        }
        for leaf in self.overrides(node, "an axis")? {
            let key = leaf.path.join(".");
            let Toml::List(items) = &leaf.node.value else {
                let message = format!("the axis `{key}` is {}; it must be a list of values", leaf.node.what());
                let help = format!("write [{}]", leaf.node.toml());
                return Err(Problem::new(Reason::Value, &leaf.node.at, message, help));
            };
            if items.is_empty() {
                let message = format!("the axis `{key}` has no value");
                return Err(Problem::new(Reason::Value, &leaf.node.at, message, "give it one, or leave the axis out"));
            }
            let values = items.iter().map(|item| leaf.read(item)).collect::<Result<Vec<_>, _>>()?;
            if self.axes.iter().any(|axis| axis.key == key) {
                return Err(twice(&key, &leaf.key_at));
            }
            let rival = leaf.schema.rival_of(&key);
            if let Some(axis) = self.axes.iter().find(|axis| Some(&axis.key) == rival.as_ref()) {
                return Err(both(&axis.key, &key, &leaf.key_at));
            }
            self.axes.push(Axis { key, schema: leaf.schema, at: leaf.key_at.clone(), values });
        }
        Ok(())
    }
}

fn rows(node: &Node) -> &[(WrittenKey, Node)] {
    match &node.value {
        Toml::Table(rows) => rows,
        _ => &[],
    }
}

/// Leaves as one layer, in which nothing is said twice.
fn layer(leaves: &[Leaf<'_>]) -> Result<Layer, Problem> {
    let mut layer = Layer::new();
    for leaf in leaves {
        let assignment = leaf.read(leaf.node)?;
        let key = assignment.key.clone();
        if let Some(rival) = leaf.schema.rival_of(&key).filter(|rival| layer.contains_key(rival)) {
            return Err(both(&rival, &key, &leaf.key_at));
        }
        if layer.insert(key.clone(), assignment).is_some() {
            return Err(twice(&key, &leaf.key_at));
        }
    }
    Ok(layer)
}

fn twice(key: &str, at: &At) -> Problem {
    Problem::new(Reason::Combination, at, format!("`{key}` is set twice"), "leave one of the two out")
}

fn both(first: &str, second: &str, at: &At) -> Problem {
    let message = format!("`{first}` and `{second}` say the same in two ways");
    Problem::new(Reason::Combination, at, message, "leave one of the two out")
}

/// A kind that this version does not have, in a table. Its keys are then unknown too, and that is not what its author must know first.
fn not_built(table: &[String], rows: &[(WrittenKey, Node)]) -> Option<Problem> {
    let (key, node) = rows.iter().find(|(key, _)| key.text == "kind")?;
    let path: Vec<String> = table.iter().chain([&key.text]).cloned().collect();
    let KeyOrTable::Key(schema) = schema::lookup(&path) else { return None };
    schema.kind.read(&path.join("."), node).err().filter(|problem| problem.reason == Reason::NotBuilt)
}

/// Words that other tools have for a key: of which table, the words, the key, and how it says the same.
const OTHER_WORDS: &[(&str, &[&str], &str, &str)] = &[
    (
        "stream",
        &["rate", "frequency", "interval", "period"],
        "cycle",
        "the time from one packet to the next: cycle = \"1ms\" is 1000 packets a second",
    ),
    ("stream", &["payload", "len", "length"], "size", "a packet's payload: size = \"200B\""),
];

/// What another tool's word means here.
fn other_word(above: &[String], wrong: &str) -> Option<String> {
    let [root, name] = above else { return None };
    let (_, _, key, says) = OTHER_WORDS.iter().find(|(of, words, ..)| of == root && words.contains(&wrong))?;
    Some(format!("write `{root}.{name}.{key}`, {says}"))
}

/// A key that the table does not have.
fn unknown(path: &[String], at: &At) -> Problem {
    // The first segment that fits nothing is the wrong one.
    let depth = (1..=path.len())
        .find(|depth| matches!(schema::lookup(&path[..*depth]), KeyOrTable::Unknown))
        .unwrap_or(path.len());
    let (above, wrong) = (&path[..depth - 1], path[depth - 1].as_str());
    let shown = path[..depth].join(".");
    if above.is_empty() && schema::LATER.contains(&wrong) {
        let help = format!("it has: {}, case, matrix", near::list(schema::children(above)));
        return Problem::new(Reason::NotBuilt, at, format!("`{wrong}` is not in this version"), help);
    }
    let mut known = schema::children(above);
    if above.is_empty() {
        known.extend(["case", "matrix"]);
    }
    let help = match near::nearest(wrong, known.iter().copied()) {
        _ if other_word(above, wrong).is_some() => other_word(above, wrong).unwrap_or_default(),
        Some(name) => format!("did you mean `{name}`?"),
        None => match elsewhere(above, wrong) {
            Some(key) => format!("did you mean `{key}`?"),
            None if known.is_empty() => format!("`{}` has no keys below it", above.join(".")),
            None => format!("known here: {}", near::list(known)),
        },
    };
    Problem::new(Reason::UnknownKey, at, format!("there is no key `{shown}`"), help)
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
