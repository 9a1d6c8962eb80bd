// SPDX-License-Identifier: MIT OR Apache-2.0
//! The experiment file's keys, from the table that reads it.

use super::chapter::{Chapter, start, table};
use crate::manual::markdown::escaped;
use std::fmt::Write;
use tardy_spec::schema::KEYS;

const SAYS: &str = "An experiment file is TOML. Every key that it may have is listed here, with its default. `NAME` is a name that you \
    give. Cases and axes set keys by their full dotted name, as `stream.ctl.cycle`; keys marked *whole* belong to the whole \
    experiment, and no case or axis may set them. Words marked *later* are known, and refused by this version.\n\n\
    The same as JSON Schema: `tardy schema experiment`.";

const SAY_CASES: &str =
    "Besides the keys above a file may have bundles of overrides and axes. Cells are cases × axes.\n";

pub fn chapter() -> Chapter {
    let mut out = start("Experiment file", SAYS);
    let mut sections: Vec<String> = Vec::new();
    for key in KEYS {
        let section = section(key.pattern);
        if !sections.contains(&section) {
            sections.push(section);
        }
    }
    for name in sections {
        let _ = write!(out, "\n## {name}\n\n");
        let rows = KEYS.iter().filter(|key| section(key.pattern) == name).map(|key| {
            let whole = if key.whole { " *whole*" } else { "" };
            let rival = key.rival.map(|rival| format!(" Not together with `{rival}`.")).unwrap_or_default();
            let later = match key.kind.later() {
                [] => String::new(),
                words => format!(" *later:* `{}`", words.join("`, `")),
            };
            vec![
                format!("`{}`{whole}", named(key.pattern)),
                escaped(&key.kind.words()) + &later,
                escaped(&key.default.words()),
                escaped(key.doc) + &rival,
            ]
        });
        out += &table(&["key", "value", "default", "meaning"], rows);
    }
    let _ = write!(out, "\n## Cases and axes\n\n{SAY_CASES}\n");
    let rows = [
        ("`[[case]] name`", "a name", "required", "The case's name, part of the cell's id."),
        ("`[[case]] set`", "a table", "nothing", "What the case sets: full dotted keys with their values."),
        ("`[[case]] optional`", "`true` or `false`", "`false`", tardy_spec::schema::OPTIONAL),
        ("`[matrix]`", "a table", "no axis", "Axes: full dotted keys, each with a list of values."),
    ];
    let rows = rows.map(|row| <[&str; 4]>::from(row).map(str::to_owned).to_vec());
    out += &table(&["key", "value", "default", "meaning"], rows);
    ("experiment.md".to_owned(), out)
}

/// `stream.*.tx.cpu` is in the section `[stream.NAME.tx]`.
fn section(pattern: &str) -> String {
    match pattern.rsplit_once('.') {
        None => "At the top".to_owned(),
        Some((table, _)) => format!("[{}]", table.replace('*', "NAME")),
    }
}

/// The key as one writes it after `--set`.
fn named(pattern: &str) -> String {
    match pattern.strip_suffix(".*") {
        Some(table) => format!("{}.METRIC", table.replace('*', "NAME")),
        None => pattern.replace('*', "NAME"),
    }
}
