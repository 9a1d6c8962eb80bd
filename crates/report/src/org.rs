// SPDX-License-Identifier: MIT OR Apache-2.0
//! Org with its tables, aligned as Org itself would align them.

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
            // Without the option, `rx_kernel` is exported with a subscript.
            Block::Heading(1, text) => out += &format!("#+TITLE: {}\n#+OPTIONS: ^:nil toc:nil\n", escape(&text)),
            Block::Heading(depth, text) => out += &format!("{} {}\n", "*".repeat(depth - 1), escape(&text)),
            Block::Sentence(first, text) if first.is_empty() => out += &format!("{}\n", sentence(&text)),
            Block::Sentence(first, text) => out += &format!("*{}* · {}\n", escape(&first), escape(&text)),
            Block::List(entries) => {
                for (first, text) in entries {
                    out += &format!("- {} :: {}\n", escape(&first), escape(&text));
                }
            }
            Block::Table(table) => out += &draw(&table),
        }
    }
    Ok(out)
}

fn draw(table: &Table) -> String {
    let escaped = table.escaped(escape);
    let widths = escaped.widths(|text| text.chars().count());
    let line = |row: &[String]| escaped.line(row, &widths);
    let rule: Vec<String> = widths.iter().map(|w| "-".repeat(w + 2)).collect();
    let mut out = line(&escaped.head) + &format!("|{}|\n", rule.join("+"));
    for row in &escaped.rows {
        out += &line(row);
    }
    out
}

/// Text that breaks no table.
fn escape(text: &str) -> String {
    let text: String = tardy_model::harmless::blanked(text);
    text.replace('|', "\\vert{}")
}

/// Text that does not start a heading, a comment or a keyword either; the zero-width space is
/// Org's own remedy.
fn sentence(text: &str) -> String {
    let text = escape(text);
    if text.starts_with(['*', '#']) { format!("\u{200b}{text}") } else { text }
}
