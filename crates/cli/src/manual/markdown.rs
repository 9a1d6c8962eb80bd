// SPDX-License-Identifier: MIT OR Apache-2.0
//! A document as a chapter of the book.

use super::{Block, Document};
use std::fmt::Write;

/// The first line of a chapter that is made.
pub const HEAD: &str = "<!-- SPDX-License-Identifier: MIT OR Apache-2.0 -->\n";

pub fn chapter(document: &Document) -> String {
    let mut out = format!("{HEAD}# {}\n\n{}\n", document.name, document.about);
    for section in &document.sections {
        let _ = write!(out, "\n## {}\n\n", sentence(section.title));
        for block in &section.blocks {
            let _ = match block {
                Block::Text(text) => write!(out, "{}\n\n", escaped(text)),
                Block::Group(title) => write!(out, "### {title}\n\n"),
                Block::Term(term, says) => writeln!(out, "- {}: {}", escaped(term), escaped(says)),
                Block::Command(line, says) => write!(out, "{}\n\n```sh\n{line}\n```\n\n", escaped(says)),
            };
        }
    }
    out
}

fn sentence(title: &str) -> String {
    let mut letters = title.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

/// Angle brackets outside of literals would be taken for HTML, brackets for a link.
pub fn escaped(text: &str) -> String {
    let mut literal = false;
    let mut out = String::new();
    for letter in text.chars() {
        literal ^= letter == '`';
        match letter {
            '<' | '>' | '[' | ']' if !literal => out.extend(['\\', letter]),
            _ => out.push(letter),
        }
    }
    out
}
