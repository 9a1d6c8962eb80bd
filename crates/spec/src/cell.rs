// SPDX-License-Identifier: MIT OR Apache-2.0
//! One cell while it is worked out: the file's values with its case's and its axes' laid over them.

use crate::error::{At, Broken, Faults, Origin, Problem, Reason};
use crate::schema::{Default, KEYS, Key, Kind, Value};
use crate::sheet::{Assignment, Case, Named, Sheet};
use crate::synonyms;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;
use tardy_model::stream::{CpuChoice, Policy};
use tardy_model::time::Nanos;

/// Defaults by pattern, read once.
static DEFAULTS: LazyLock<HashMap<&'static str, Value>> = LazyLock::new(|| {
    KEYS.iter()
        .filter_map(|key| {
            let node = key.default.node()?;
            Some((key.pattern, key.kind.read(key.pattern, &node).ok()?))
        })
        .collect()
});

/// Who set a value; the later one wins, and is blamed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum By {
    Default,
    File,
    Case,
    Axis,
    Set,
}

/// The values of one cell.
pub(crate) struct View<'a> {
    sheet: &'a Sheet,
    values: BTreeMap<&'a str, (By, &'a Assignment)>,
    /// The number of its case.
    case: Option<usize>,
    /// What is added to messages, so that a fault of one cell among many is found.
    cell: Option<&'a str>,
    /// What is wrong with the file, whatever the cell.
    faults: &'a Faults,
    /// What is wrong with this cell.
    found: RefCell<Vec<Problem>>,
    /// Keys, and what is below them, that this cell could not use.
    lost: RefCell<Broken>,
}

impl<'a> View<'a> {
    pub(crate) fn new(
        sheet: &'a Sheet,
        faults: &'a Faults,
        case: Option<&'a Case>,
        axes: &[&'a Assignment],
        id: Option<&'a str>,
    ) -> Self {
        let (found, lost) = (RefCell::default(), RefCell::default());
        let mut view =
            View { sheet, values: BTreeMap::new(), case: case.map(|case| case.number), cell: id, faults, found, lost };
        for assignment in sheet.base.values() {
            let by = if matches!(assignment.key_at.origin, Origin::Set(_)) { By::Set } else { By::File };
            view.lay(by, assignment);
        }
        for assignment in case.into_iter().flat_map(|case| case.set.values()) {
            view.lay(By::Case, assignment);
        }
        for assignment in axes {
            view.lay(By::Axis, assignment);
        }
        view
    }

    fn lay(&mut self, by: By, assignment: &'a Assignment) {
        if let Some(rival) = assignment.schema.rival_of(&assignment.key) {
            self.values.remove(rival.as_str());
        }
        self.values.insert(&assignment.key, (by, assignment));
    }

    /// What a check returned; a fault is kept, and the next check goes on.
    pub(crate) fn keep<T>(&self, result: Result<T, Problem>) -> Option<T> {
        result.map_err(|problem| self.found.borrow_mut().push(problem)).ok()
    }

    /// Runs a check that depends on these keys, in which `*` matches any name, if all of them have
    /// values that somebody meant.
    pub(crate) fn check(&self, rests_on: &[&str], check: impl FnOnce() -> Result<(), Problem>) {
        if rests_on.iter().all(|key| self.is_sound(key)) {
            self.keep(check());
        }
    }

    /// True if the key and what is above and below it have values that somebody meant.
    pub(crate) fn is_sound(&self, key: &str) -> bool {
        self.faults.is_sound(key, self.case) && !self.lost.borrow().touches(key, None)
    }

    /// True if every key has the value that somebody meant.
    fn has_all(&self) -> bool {
        self.faults.has_all(self.case) && self.lost.borrow().is_empty()
    }

    /// True if the key itself, or something above it, has no value that somebody meant.
    pub(crate) fn is_lost(&self, key: &str) -> bool {
        self.faults.is_lost(key)
    }

    /// Notes that a key, and what is below it, cannot be used.
    pub(crate) fn lose(&self, key: String) {
        self.lost.borrow_mut().insert(key, None);
    }

    /// What was found wrong with this cell, but for what only follows from something else.
    pub(crate) fn found(self) -> Vec<Problem> {
        self.found.into_inner().into_iter().filter(|problem| !problem.knock_on).collect()
    }

    /// True if the experiment copies memory.
    pub(crate) fn is_copy(&self) -> bool {
        self.sheet.is_copy()
    }

    pub(crate) fn stations(&self) -> &'a [Named] {
        &self.sheet.stations
    }

    pub(crate) fn streams(&self) -> &'a [Named] {
        &self.sheet.streams
    }

    pub(crate) fn loads(&self) -> &'a [Named] {
        &self.sheet.loads
    }

    /// What was written for keys that begin with `prefix`, with the rest of the key.
    pub(crate) fn below(&self, prefix: &str) -> impl Iterator<Item = (&'a str, &'a Assignment)> {
        let prefix = prefix.to_owned();
        let rows: Vec<_> = self
            .values
            .iter()
            .filter_map(|(key, (_, assignment))| Some((key.strip_prefix(prefix.as_str())?, *assignment)))
            .collect();
        rows.into_iter()
    }

    /// The same in their order: in the file, in `--set`, in the case, in the axes.
    pub(crate) fn as_written(&self, prefix: &str) -> Vec<(&'a str, &'a Assignment)> {
        let mut rows: Vec<_> = self.values.iter().filter(|(key, _)| key.starts_with(prefix)).collect();
        rows.sort_by_key(|(_, (by, assignment))| {
            (matches!(by, By::Axis), matches!(by, By::Case), assignment.key_at.place())
        });
        rows.into_iter().filter_map(|(key, (_, assignment))| Some((key.strip_prefix(prefix)?, *assignment))).collect()
    }

    /// True if some cell of the experiment has `word` for `key`.
    pub(crate) fn is_somewhere(&self, key: &str, word: &str) -> bool {
        let sheet = self.sheet;
        let written = sheet.base.get(key);
        let varies = || sheet.varied_words(key).is_some_and(|words| words.contains(word));
        let by_default = || written.is_none() && DEFAULTS.get(key) == Some(&Value::Text(word.to_owned()));
        written.is_some_and(|row| row.value == Value::Text(word.to_owned())) || varies() || by_default()
    }

    /// True if cells of the experiment may have different values of `key`.
    pub(crate) fn differs(&self, key: &str) -> bool {
        self.sheet.varied_words(key).is_some()
    }

    /// True if `--set` gave the key its value.
    pub(crate) fn is_pinned(&self, key: &str) -> bool {
        self.values.get(key).is_some_and(|(by, _)| *by == By::Set)
    }

    /// True if `--set` chose the kind, and the key of another kind is in the file that it changes.
    pub(crate) fn is_of_former_kind(&self, key: &str, kind: &str) -> bool {
        self.is_pinned(kind) && self.values.get(key).is_some_and(|(by, _)| *by == By::File)
    }

    /// The keys of one table of the file; `name` replaces the pattern's `*`.
    pub(crate) fn table(&'a self, pattern: &'static str, name: Option<&'a Named>) -> Table<'a> {
        Table { view: self, pattern, name }
    }

    /// A fault of a cell, blamed on the key that was set last.
    pub(crate) fn combination(&self, keys: &[String], message: String, help: String) -> Problem {
        let mut blamed: (By, At) = (By::Default, At::START);
        let mut one_cell = false;
        for key in keys {
            let found = self.values.get(key.as_str()).copied();
            let (by, at) = match found {
                Some((by, assignment)) => (by, assignment.node.at.clone()),
                None => (By::Default, self.header(key)),
            };
            one_cell |= matches!(by, By::Case | By::Axis);
            if by > blamed.0 || blamed.1 == At::START {
                blamed = (by, at);
            }
        }
        let cell = self.cell.filter(|_| one_cell).map(str::to_owned);
        let knock_on = !keys.iter().all(|key| self.is_sound(key));
        Problem { cell, knock_on, ..Problem::new(Reason::Combination, &blamed.1, message, help) }
    }

    /// Where the station, stream or load of a key is.
    fn header(&self, key: &str) -> At {
        let mut parts = key.split('.');
        let names = match parts.next() {
            Some("station") => &self.sheet.stations,
            Some("expect") if self.is_copy() => &self.sheet.copies,
            Some("stream" | "expect") => &self.sheet.streams,
            Some("load") => &self.sheet.loads,
            _ => return At::START,
        };
        let name = parts.next().unwrap_or_default();
        names.iter().find(|named| named.name == name).map_or(At::START, |named| named.at.clone())
    }
}

/// Keys of one table, as `stream.ctl`.
#[derive(Clone, Copy)]
pub(crate) struct Table<'a> {
    view: &'a View<'a>,
    pattern: &'static str,
    name: Option<&'a Named>,
}

impl Table<'_> {
    /// The full dotted key of one of its keys.
    pub(crate) fn key(&self, field: &str) -> String {
        let full = if self.pattern.is_empty() { field.to_owned() } else { format!("{}.{field}", self.pattern) };
        match self.name {
            Some(named) => full.replacen('*', &named.name, 1),
            None => full,
        }
    }

    /// Checks what rests on these of its keys, if all of them have values that somebody meant.
    pub(crate) fn check(&self, rests_on: &[&str], check: impl FnOnce() -> Result<(), Problem>) {
        if self.are_sound(rests_on) {
            self.view.keep(check());
        }
    }

    /// What a check returned; a fault is kept, and then nothing is concluded from `field`.
    pub(crate) fn keep<T>(&self, field: &str, result: Result<T, Problem>) -> Option<T> {
        let kept = self.view.keep(result);
        if kept.is_none() {
            self.view.lose(self.key(field));
        }
        kept
    }

    /// True if these of its keys have values that somebody meant.
    pub(crate) fn are_sound(&self, fields: &[&str]) -> bool {
        // Most files have nothing wrong, and a key costs memory.
        self.view.has_all() || fields.iter().all(|field| self.view.is_sound(&self.key(field)))
    }

    /// True if it was written somewhere.
    pub(crate) fn is_written(&self, field: &str) -> bool {
        self.view.values.contains_key(self.key(field).as_str())
    }

    /// True if somebody wrote it, perhaps with a value that it cannot have.
    pub(crate) fn is_meant(&self, field: &str) -> bool {
        self.is_written(field) || self.view.faults.value_of(&self.key(field), self.view.case).is_some()
    }

    /// A key that has no meaning for tables of this kind, whatever its value is: whoever corrects a
    /// wrong value would otherwise meet this only then.
    pub(crate) fn meaningless(&self, field: &str, message: String, help: &str) -> Problem {
        match self.view.faults.value_of(&self.key(field), self.view.case) {
            Some(at) => {
                Problem { knock_on: !self.are_sound(&["kind"]), ..Problem::new(Reason::Combination, at, message, help) }
            }
            None => self.wrong(&[field, "kind"], message, help),
        }
    }

    /// The value as written or by default; `None` if it was left out and has no default.
    pub(crate) fn find(&self, field: &str) -> Option<&Value> {
        if let Some((_, assignment)) = self.view.values.get(self.key(field).as_str()) {
            return Some(&assignment.value);
        }
        let pattern = if self.pattern.is_empty() { field.to_owned() } else { format!("{}.{field}", self.pattern) };
        DEFAULTS.get(pattern.as_str())
    }

    /// True if its value is another than the default. The file that a guest is given has all
    /// defaults written out.
    pub(crate) fn is_changed(&self, field: &str) -> bool {
        let written = self.view.values.get(self.key(field).as_str()).map(|(_, assignment)| &assignment.value);
        written.is_some_and(|value| DEFAULTS.get(format!("{}.{field}", self.pattern).as_str()) != Some(value))
    }

    /// The value, taken apart by `take`.
    pub(crate) fn get<T>(&self, field: &str, take: impl Fn(&Value) -> Option<T>) -> Result<T, Problem> {
        let key = self.key(field);
        let Some(value) = self.find(field) else {
            let message = format!("`{key}` is missing");
            let required =
                KEYS.iter().find(|k| k.segments().last() == Some(field) && matches!(k.default, Default::Required));
            let help = match (required, self.view.stations().first(), self.view.stations().last()) {
                (Some(Key { kind: Kind::Choice { built }, .. }), ..) => {
                    format!("write {field} = one of: \"{}\"", built.join("\", \""))
                }
                (Some(_), Some(first), Some(last)) => {
                    format!("write {field} = \"{}\"", if field == "to" { &last.name } else { &first.name })
                }
                _ => format!("write {field} = …"),
            };
            let knock_on = !self.view.is_sound(&key);
            return Err(Problem {
                knock_on,
                ..Problem::new(Reason::MissingKey, &self.view.header(&key), message, help)
            });
        };
        take(value).ok_or_else(|| {
            let message = format!("the table of keys and its reader disagree on `{key}`");
            Problem::new(Reason::Internal, &self.view.header(&key), message, "this is a fault of tardy: report it")
        })
    }

    /// A fault that only follows from a wrong key, which was already reported.
    pub(crate) fn follows(&self, field: &str) -> Problem {
        let message = format!("`{}` is wrong", self.key(field));
        Problem { knock_on: true, ..self.wrong(&[field], message, "") }
    }

    /// A key that others of the table need and that is not there.
    pub(crate) fn missing(
        &self,
        field: &str,
        because_of: &[&str],
        message: String,
        help: impl Into<String>,
    ) -> Problem {
        let problem = self.wrong(because_of, message, help);
        let knock_on = problem.knock_on || !self.are_sound(&[field]);
        Problem { reason: Reason::MissingKey, knock_on, ..problem }
    }

    /// A fault that several of its keys make together; the first is blamed if none was set later
    /// than the others.
    pub(crate) fn wrong(&self, fields: &[&str], message: String, help: impl Into<String>) -> Problem {
        let keys: Vec<String> = fields.iter().map(|field| self.key(field)).collect();
        self.view.combination(&keys, message, help.into())
    }
}

/// The station that a key names.
pub(crate) fn station(view: &View<'_>, table: &Table<'_>, field: &str) -> Result<String, Problem> {
    let name = table.get(field, text)?;
    let known = view.stations().iter().map(|station| station.name.as_str());
    if known.clone().any(|known| known == name) || view.is_lost("station") {
        return Ok(name);
    }
    let message = format!("`{}`: there is no station `{name}`", table.key(field));
    // Nothing goes from a station to itself: the one at the other end is listed, and no advice.
    let other = if field == "from" { "to" } else { "from" };
    let taken = table.find(other).and_then(text);
    let free = known.clone().filter(|known| Some(*known) != taken.as_deref());
    let help = match synonyms::nearest(&name, free) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("known here: {}", synonyms::list(known)),
    };
    Err(table.wrong(&[field], message, help))
}

/// Where something starts and ends. What is wrong is kept, and the key is then lost: what rests on
/// it is not checked.
pub(crate) fn ends(view: &View<'_>, table: &Table<'_>) -> (String, String) {
    let end = |field: &str| table.keep(field, station(view, table, field)).unwrap_or_default();
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

/// What a word is the name of, by `of`.
pub(crate) fn called<T>(of: impl Fn(&str) -> Option<T>) -> impl Fn(&Value) -> Option<T> {
    move |value| if let Value::Text(word) = value { of(word) } else { None }
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

/// A rate in bits a second.
pub(crate) fn rate(value: &Value) -> Option<u64> {
    integer(value).and_then(|rate| u64::try_from(rate).ok())
}
