// SPDX-License-Identifier: MIT OR Apache-2.0
//! Markdown with GitHub's tables, padded so that the source reads as well.

use crate::block::{Block, Table};
use crate::document;
use crate::picture::{Options, Picture, ReportError};

pub(crate) fn make(picture: &Picture<'_>, _: &Options) -> Result<String, ReportError> {
    let mut out = String::new();
    for block in document::of(picture) {
        if !out.is_empty() {
            out.push('\n');
        }
        match block {
            Block::Heading(depth, text) => out += &format!("{} {}\n", "#".repeat(depth), escape(&text)),
            Block::Sentence(first, text) if first.is_empty() => out += &format!("{}\n", sentence(&text)),
            Block::Sentence(first, text) => out += &format!("**{}** · {}\n", escape(&first), escape(&text)),
            Block::List(entries) => {
                for (first, text) in entries {
                    out += &format!("- **{}**: {}\n", escape(&first), escape(&text));
                }
            }
            Block::Table(table) => out += &draw(&table),
        }
    }
    Ok(out)
}

fn draw(table: &Table) -> String {
    let escaped = table.escaped(escape);
    // A rule is at least three characters long.
    let widths: Vec<usize> = escaped.widths(|text| text.chars().count()).into_iter().map(|w| w.max(3)).collect();
    let line = |row: &[String]| escaped.line(row, &widths);
    let rule: Vec<String> = widths
        .iter()
        .enumerate()
        .map(|(i, &w)| if i < table.words { "-".repeat(w) } else { format!("{}:", "-".repeat(w - 1)) })
        .collect();
    let mut out = line(&escaped.head) + &line(&rule);
    for row in &escaped.rows {
        out += &line(row);
    }
    out
}

/// Text that stays text. An underscore inside a word is none of Markdown's business and stays
/// readable.
fn escape(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '\\' | '|' | '*' | '[' | ']' | '`' | '~' => {
                out.push('\\');
                out.push(c);
            }
            '<' => out += "&lt;",
            '&' => out += "&amp;",
            c if tardy_model::harmless::acts(c) => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

/// Text that does not start a heading or a list either.
fn sentence(text: &str) -> String {
    let text = escape(text);
    if text.starts_with(['#', '-', '+', '=']) { format!("\\{text}") } else { text }
}
