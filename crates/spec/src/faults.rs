// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is wrong with an experiment, gathered so that all of it is reported at once. Nothing may be
//! concluded from a key whose value could not be read. So whatever depends on it is not checked,
//! and each slip is reported once.

use crate::error::{At, MOST, Origin, Problem, Reason};
use std::collections::{BTreeSet, HashSet};

/// Faults, and keys that have no value because of them.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    found: Vec<Problem>,
    broken: BTreeSet<String>,
    /// Unknown keys that resemble no key here, by their table. Next to a word that this version has
    /// not built they may belong to that word, and are then not wrong.
    strangers: Vec<(String, Problem)>,
    /// Tables that contain such a word.
    later: BTreeSet<String>,
}

impl Faults {
    pub(crate) fn add(&mut self, problem: Problem) {
        if !self.is_full() && !problem.knock_on {
            self.found.push(problem);
        }
    }

    /// Notes a key that does not exist. `meant` is the one that its author most likely wanted to
    /// write, which then has no value.
    pub(crate) fn add_unknown(&mut self, table: &[String], problem: Problem, meant: Option<String>) {
        match meant {
            _ if self.is_full() => {}
            Some(key) => {
                self.broke(key);
                self.add(problem);
            }
            None => self.strangers.push((table.join("."), problem)),
        }
    }

    /// Notes that the value of `key` is wrong.
    pub(crate) fn add_value(&mut self, key: &str, problem: Problem) {
        if problem.reason == Reason::NotBuilt {
            self.later.insert(key.rsplit_once('.').map_or("", |(table, _)| table).to_owned());
        }
        self.broke(key.to_owned());
        self.add(problem);
    }

    /// The key, or all below it, has no value that is known.
    pub(crate) fn broke(&mut self, key: String) {
        // A file of nothing but wrong keys takes no more memory than what is reported about it.
        if self.broken.len() < MOST * 2 {
            self.broken.insert(key);
        }
    }

    /// True if no more are reported, so the search can stop.
    pub(crate) fn is_full(&self) -> bool {
        self.found.len() + self.strangers.len() >= MOST
    }

    /// True if no key is broken.
    pub(crate) fn has_all(&self) -> bool {
        self.broken.is_empty()
    }

    /// True if there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.found.is_empty() && self.strangers.is_empty()
    }

    /// True unless `key`, something above it or something below it is broken; `*` matches any name.
    pub(crate) fn is_sound(&self, key: &str) -> bool {
        !self.broken.iter().any(|broken| touches(key, broken))
    }

    /// True if `key` itself, or something above it, is broken.
    pub(crate) fn is_lost(&self, key: &str) -> bool {
        self.broken
            .iter()
            .any(|broken| key == broken || key.strip_prefix(broken).is_some_and(|rest| rest.starts_with('.')))
    }

    /// All of them in the order in which they are reported: what this version does not have first,
    /// because no fix of the rest helps; then by place, the file before each `--set`.
    pub(crate) fn told(self) -> Vec<Problem> {
        let Faults { found, strangers, later, .. } = self;
        let strange = strangers.into_iter().filter(|(table, _)| !later.contains(table)).map(|(_, problem)| problem);
        let mut all: Vec<Problem> = found.into_iter().chain(strange).collect();
        all.sort_by_key(|problem| (problem.reason != Reason::NotBuilt, place(&problem.at)));
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

/// True if one of the two keys is the other, or is above it; `*` matches any name.
pub(crate) fn touches(pattern: &str, key: &str) -> bool {
    pattern.split('.').zip(key.split('.')).all(|(part, of)| part == "*" || of == "*" || part == of)
}
