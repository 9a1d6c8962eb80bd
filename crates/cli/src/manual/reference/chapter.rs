// SPDX-License-Identifier: MIT OR Apache-2.0
//! A chapter of the reference: how it begins, and a table in it.

use crate::manual::markdown;

/// A chapter: file name and Markdown.
pub type Chapter = (String, String);

/// How a chapter begins.
pub(super) fn start(title: &str, says: &str) -> String {
    format!("{}# {title}\n\n{says}\n", markdown::HEAD)
}

/// A table: a heading, then rows.
pub(super) fn table(heading: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let line = |fields: &mut dyn Iterator<Item = String>| format!("| {} |\n", fields.collect::<Vec<_>>().join(" | "));
    let mut out = line(&mut heading.iter().map(|field| (*field).to_owned()));
    out += &line(&mut heading.iter().map(|_| "---".to_owned()));
    for row in rows {
        out += &line(&mut row.into_iter().map(|field| field.replace('|', "\\|").replace('\n', " ")));
    }
    out
}
