// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is wrong with an experiment, where, and how to fix it; and the text that it is about.
//!
//! Faults are gathered so that all of them are reported at once. Nothing may be concluded from a
//! key whose value could not be read. So whatever depends on it is not checked, and each slip is
//! reported once.

use miette::{Diagnostic, NamedSource, SourceSpan};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use tardy_model::harmless::acts;

/// The most faults that are reported for one experiment. A file of another format would have one on
/// each line.
pub(crate) const MOST: usize = 100;

/// What kind of fault it is, for programs that distinguish them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The file is missing, a directory, empty, too large or not text.
    Unreadable,
    /// No file and no ready-made experiment has that name.
    NoSuchExperiment,
    /// It is not TOML.
    Syntax,
    /// A key, or a name in a key, that does not exist.
    UnknownKey,
    /// A key that must be there is not.
    MissingKey,
    /// A value of the wrong type, without its unit, out of its range or unknown.
    Value,
    /// Values that are each right, but do not go together.
    Combination,
    /// A value that is right, and that the machine cannot serve.
    Machine,
    /// The table of keys contradicts its reader: a fault of tardy, not of the file.
    Internal,
}

/// What is wrong with an experiment: its first fault, where it is and how to fix it, and the faults
/// that follow. Each prints as an excerpt of the file through [`miette`], and as one line through
/// [`SpecError::one_line`].
#[derive(Debug, thiserror::Error, Diagnostic)]
#[error("{message}")]
pub struct SpecError {
    /// What kind of fault it is.
    pub reason: Reason,
    pub message: Box<str>,
    #[help]
    pub help: Box<str>,
    #[source_code]
    code: Arc<NamedSource<String>>,
    #[label("here")]
    span: Option<SourceSpan>,
    place: Box<Place>,
    /// The text that it is in, as [`At::place`] counts them.
    text: usize,
    others: Vec<SpecError>,
}

/// Where a fault is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file, or the `--set` argument as it was written.
    pub file: String,
    /// From 1; `None` if the fault is the file itself or is in a `--set`.
    pub line: Option<usize>,
    /// In characters, from 1; `None` where `line` is.
    pub column: Option<usize>,
}

impl SpecError {
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// `file:line:column: message (help)`, on one line whatever the file's name is.
    pub fn one_line(&self) -> String {
        let mut out = printable(&self.place.file);
        if let (Some(line), Some(column)) = (self.place.line, self.place.column) {
            out.push_str(&format!(":{line}:{column}"));
        }
        format!("{out}: {} ({})", self.message, self.help)
    }

    /// True if its line fits on a screen or a few.
    pub fn can_be_drawn(&self) -> bool {
        const LONGEST: usize = 500;
        let (text, at) = (self.code.inner(), self.span.map_or(0, |span| span.offset()).min(self.code.inner().len()));
        let before = text.as_bytes()[..at].iter().rev().take(LONGEST + 1).take_while(|byte| **byte != b'\n').count();
        let behind = text.as_bytes()[at..].iter().take(LONGEST + 1).take_while(|byte| **byte != b'\n').count();
        before + behind <= LONGEST
    }

    /// This fault and those that follow, each alone.
    pub fn all(&self) -> impl Iterator<Item = &SpecError> {
        std::iter::once(self).chain(&self.others)
    }

    /// These faults and the `others`, by place.
    pub fn and(mut self, others: Option<SpecError>) -> SpecError {
        let Some(mut other) = others else { return self };
        let [mine, theirs] = [&mut self, &mut other].map(|of| std::mem::take(&mut of.others));
        let mut all: Vec<SpecError> =
            std::iter::once(self).chain(mine).chain(std::iter::once(other)).chain(theirs).take(MOST).collect();
        // In the order of the file, in which somebody goes through it; each `--set` follows it.
        all.sort_by_key(|error| (error.text, error.place.line, error.place.column));
        let mut first = all.remove(0);
        first.others = all;
        first
    }

    /// How many faults there are, for the last line; `None` if this is the only one.
    pub fn count(&self) -> Option<String> {
        let many = self.all().count();
        match self.others.is_empty() {
            true => None,
            false if many >= MOST => Some(format!("{many} errors, and perhaps more")),
            false => Some(format!("{many} errors")),
        }
    }

    /// A line for each fault, and where there are several, one that counts them.
    pub fn lines(&self) -> Vec<String> {
        self.all().map(SpecError::one_line).chain(self.count()).collect()
    }

    /// The faults of one experiment, in this order; `None` if there is none.
    pub(crate) fn of(problems: Vec<Problem>, source: &Source, overrides: &[String]) -> Option<SpecError> {
        let mut texts = Texts::new(source, overrides);
        let mut all = problems.into_iter().map(|problem| problem.into_error(&mut texts));
        let mut first = all.next()?;
        first.others = all.collect();
        Some(first)
    }

    /// A fault of a file as a whole.
    pub(crate) fn of_file(path: &Path, reason: Reason, message: String, help: impl Into<String>) -> SpecError {
        Self::whole(path.display().to_string(), reason, message, help.into())
    }

    pub(crate) fn whole(file: String, reason: Reason, message: String, help: String) -> SpecError {
        SpecError {
            reason,
            message: message.into(),
            help: help.into(),
            code: Arc::new(NamedSource::new(printable(&file), String::new())),
            span: None,
            place: Box::new(Place { file, line: None, column: None }),
            text: 0,
            others: Vec::new(),
        }
    }
}

/// Control characters would tear a one-line message apart or move a terminal's cursor.
fn printable(text: &str) -> String {
    text.chars().map(|c| if acts(c) { c.escape_default().to_string() } else { c.to_string() }).collect()
}

/// The text as it is shown around a place: control characters give way to others of the same
/// length, so that places stay.
fn shown(text: &str) -> String {
    let harmless = |c: char| match c {
        '\n' | '\t' => c,
        c if acts(c) && c.len_utf8() == 1 => ' ',
        c if acts(c) && c.len_utf8() == 2 => '\u{b7}',
        c if acts(c) => '\u{2423}',
        c => c,
    };
    text.chars().map(harmless).collect()
}

/// Which text a place is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Origin {
    /// The table of keys.
    Default,
    File,
    /// The `--set` of this number, from 0.
    Set(usize),
}

/// A place in one of the texts, in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct At {
    pub origin: Origin,
    pub span: Range<usize>,
}

impl At {
    /// The beginning of the file: where something is missing that has no place yet.
    pub(crate) const START: At = At { origin: Origin::File, span: 0..0 };

    /// The order in which texts and places in them come: the file, then one `--set` after the
    /// other.
    pub(crate) fn place(&self) -> (usize, usize) {
        let text = match self.origin {
            Origin::Default | Origin::File => 0,
            Origin::Set(n) => n + 1,
        };
        (text, self.span.start)
    }
}

/// A fault before its texts are at hand.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    pub reason: Reason,
    pub message: String,
    pub help: String,
    pub at: At,
    /// The one cell that has it.
    pub cell: Option<String>,
    /// It follows from a key that is wrong itself, and is not reported.
    pub knock_on: bool,
}

impl Problem {
    pub(crate) fn new(reason: Reason, at: &At, message: impl Into<String>, help: impl Into<String>) -> Problem {
        let (message, help) = (message.into(), help.into());
        Problem { reason, message, help, at: at.clone(), cell: None, knock_on: false }
    }

    /// With the texts that its place refers to.
    fn into_error(self, texts: &mut Texts<'_>) -> SpecError {
        let (file, text, in_file) = match self.at.origin {
            Origin::Set(n) => {
                let argument = texts.overrides.get(n).map_or("", String::as_str);
                (format!("--set {argument}"), argument, false)
            }
            Origin::File | Origin::Default => (texts.source.name.clone(), texts.source.text.as_str(), true),
        };
        let (start, end) = (floor(text, self.at.span.start), floor(text, self.at.span.end));
        let before = &text[..start];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let line = in_file.then(|| before.matches('\n').count() + 1);
        let column = in_file.then(|| before[line_start..].chars().count() + 1);
        let message = match self.cell {
            Some(cell) => format!("{}, in cell `{cell}`", self.message),
            None => self.message,
        };
        let code = match in_file {
            true => texts.of_file(),
            false => Arc::new(NamedSource::new("--set", shown(text))),
        };
        SpecError {
            reason: self.reason,
            message: one_line(&message).into(),
            help: one_line(&self.help).into(),
            code,
            span: Some((start..end.max(start)).into()),
            place: Box::new(Place { file, line, column }),
            text: self.at.place().0,
            others: Vec::new(),
        }
    }
}

/// The texts of an experiment. That of the file is made fit to be shown once, however many faults
/// it has.
struct Texts<'a> {
    source: &'a Source,
    overrides: &'a [String],
    file: Option<Arc<NamedSource<String>>>,
}

impl<'a> Texts<'a> {
    fn new(source: &'a Source, overrides: &'a [String]) -> Texts<'a> {
        Texts { source, overrides, file: None }
    }

    fn of_file(&mut self) -> Arc<NamedSource<String>> {
        let source = self.source;
        let make = || Arc::new(NamedSource::new(printable(&source.name), shown(&source.text)));
        Arc::clone(self.file.get_or_insert_with(make))
    }
}

/// The nearest start of a character at or before `at`.
fn floor(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

/// Texts from a file may hold anything; a message stays one printable line of bounded length.
fn one_line(text: &str) -> String {
    const LONGEST: usize = 600;
    let flat = printable(text);
    if flat.chars().count() <= LONGEST { flat } else { flat.chars().take(LONGEST).chain("…".chars()).collect() }
}

/// An experiment file's text, not yet looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// What it is called in messages: its path.
    pub name: String,
    pub text: String,
}

/// The largest experiment file that is read, in bytes: a thousand times what a person writes.
pub const LARGEST: u64 = 1 << 20;

/// Faults, and keys that have no value because of them.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    found: Vec<Problem>,
    broken: Broken,
    /// Where the first values are that their keys cannot have, and in which case.
    values: HashMap<String, (Option<usize>, At)>,
    /// The case that is read.
    case: Option<usize>,
    /// Roots of which not all names are known, because somebody misspelled the root.
    open: BTreeSet<String>,
    /// Keys that the authors of unknown ones most likely wanted to write, in the layer that is
    /// read.
    guessed: Vec<String>,
}

impl Faults {
    pub(crate) fn add(&mut self, problem: Problem) {
        if !self.is_full() && !problem.knock_on {
            self.found.push(problem);
        }
    }

    /// Notes a key that does not exist. `meant` are those that its author most likely wanted to
    /// write. They then have no value, unless [`Faults::settle`] learns that they were written
    /// too.
    pub(crate) fn add_unknown(&mut self, problem: Problem, meant: Vec<String>) {
        if !self.is_full() {
            self.guessed.extend(meant);
            self.add(problem);
        }
    }

    /// What is noted from here on is in this case.
    pub(crate) fn within(&mut self, case: Option<usize>) {
        self.case = case;
    }

    /// The layer that was read has the keys of `written`. What is written next to an unknown key is
    /// not what that one should have been.
    pub(crate) fn settle(&mut self, written: impl FnOnce() -> HashSet<String>) {
        let guessed = std::mem::take(&mut self.guessed);
        // Most files have no unknown key, and a set of all keys costs memory.
        let written = if guessed.is_empty() { HashSet::new() } else { written() };
        for key in guessed {
            if !written.contains(&key) {
                self.broke(key);
            }
        }
    }

    /// Notes that the value of `key` is wrong.
    pub(crate) fn add_value(&mut self, key: &str, problem: Problem) {
        self.broke(key.to_owned());
        if self.values.len() < MOST {
            self.values.entry(key.to_owned()).or_insert_with(|| (self.case, problem.at.clone()));
        }
        self.add(problem);
    }

    /// Where somebody wrote a value that `key` cannot have, in the file or in the case.
    pub(crate) fn value_of(&self, key: &str, case: Option<usize>) -> Option<&At> {
        self.values.get(key).filter(|(of, _)| of.is_none() || *of == case).map(|(_, at)| at)
    }

    /// The key, or all below it, has no value that is known.
    pub(crate) fn broke(&mut self, key: String) {
        self.broken.insert(key, self.case);
    }

    /// Whoever misspelled a root may have named something below it.
    pub(crate) fn leave_open(&mut self, root: String) {
        self.open.insert(root);
    }

    /// True if no more are reported, so the search can stop.
    pub(crate) fn is_full(&self) -> bool {
        self.room() == 0
    }

    /// How many more are reported.
    pub(crate) fn room(&self) -> usize {
        MOST.saturating_sub(self.found.len())
    }

    /// True if no key is broken where the case, if any, is laid over the file.
    pub(crate) fn has_all(&self, case: Option<usize>) -> bool {
        self.broken.all().all(|(_, of)| of.is_some() && *of != case)
    }

    /// True if there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// True unless `key`, something above it or something below it is broken, in the file or in
    /// the case; `*` matches any name.
    pub(crate) fn is_sound(&self, key: &str, case: Option<usize>) -> bool {
        !self.broken.touches(key, case)
    }

    /// True if `key` itself, or something above it, is broken, or if not all names below it are
    /// known.
    pub(crate) fn is_lost(&self, key: &str) -> bool {
        let is_broken = self
            .broken
            .all()
            .any(|(broken, _)| key == broken || key.strip_prefix(broken).is_some_and(|rest| rest.starts_with('.')));
        is_broken || self.open.contains(key)
    }

    /// All of them in the order in which they are reported: by place, the file before each `--set`.
    pub(crate) fn in_order(self) -> Vec<Problem> {
        let mut all = self.found;
        all.sort_by_key(|problem| place(&problem.at));
        let mut seen = HashSet::new();
        all.retain(|problem| seen.insert((place(&problem.at), problem.message.clone())));
        all
    }
}

/// A place as it is sorted.
fn place(at: &At) -> (usize, usize, usize) {
    let text = match at.origin {
        Origin::Default | Origin::File => 0,
        Origin::Set(n) => n + 1,
    };
    (text, at.span.start, at.span.end)
}

/// Keys that have no value, each with the number of the case in which it has none, if it is one.
/// They are sorted by the table that they are in, for each check of each cell asks for some.
#[derive(Debug, Default)]
pub(crate) struct Broken {
    by_table: HashMap<String, Vec<(String, Option<usize>)>>,
    count: usize,
}

impl Broken {
    /// The key, or all below it. Beyond a number that no person's file has, the table that the key
    /// is in takes its place, and at last the root: then less is checked, and memory ends.
    pub(crate) fn insert(&mut self, mut key: String, case: Option<usize>) {
        if self.count >= MOST * 2 {
            let kept = if self.count < MOST * 10 { table_of(&key).len() } else { root_of(&key).len() };
            key.truncate(kept);
        }
        let table = table_of(&key);
        let rows = self.by_table.entry(if table.contains('*') { "*" } else { table }.to_owned()).or_default();
        let row = (key, case);
        if !rows.contains(&row) {
            rows.push(row);
            self.count += 1;
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    fn all(&self) -> impl Iterator<Item = &(String, Option<usize>)> {
        self.by_table.values().flatten()
    }

    /// True if `key`, something above it or something below it is among them, in the file or in
    /// the case.
    pub(crate) fn touches(&self, key: &str, case: Option<usize>) -> bool {
        let is_it = |(broken, of): &(String, Option<usize>)| (of.is_none() || *of == case) && touches(key, broken);
        let (table, root) = (table_of(key), root_of(key));
        if table == root || table.contains('*') {
            return self.all().any(is_it);
        }
        [table, root, "*"].iter().filter_map(|of| self.by_table.get(*of)).flatten().any(is_it)
    }
}

fn root_of(key: &str) -> &str {
    key.split('.').next().unwrap_or(key)
}

/// The root and the name, as `stream.ctl`.
fn table_of(key: &str) -> &str {
    key.match_indices('.').nth(1).map_or(key, |(at, _)| &key[..at])
}

/// True if one of the two keys is the other, or is above it; `*` matches any name.
fn touches(pattern: &str, key: &str) -> bool {
    pattern.split('.').zip(key.split('.')).all(|(part, of)| part == "*" || of == "*" || part == of)
}
