// SPDX-License-Identifier: MIT OR Apache-2.0
//! A document as a man page.

use super::{Block, Document};
use roff::{Inline, Roff, bold, italic, roman};

/// The page's source, for `man -l` and `man/man1`.
pub fn page(document: &Document) -> String {
    let mut page = Roff::new();
    let version = concat!("tardy ", env!("CARGO_PKG_VERSION"));
    page.control("TH", [document.name.to_uppercase().as_str(), "1", "", version, "tardy"]);
    // Ragged right and unhyphenated: names of keys and files stay whole.
    page.control("ad", ["l"]).control("nh", []);
    page.control("SH", ["NAME"]).text([roman(format!("{} - {}", document.name, document.about.replace('`', "")))]);
    for section in &document.sections {
        page.control("SH", [section.title.to_uppercase().as_str()]);
        for (n, block) in section.blocks.iter().enumerate() {
            match block {
                Block::Text(text) => {
                    if n > 0 {
                        page.control("PP", []);
                    }
                    page.text(inlines(text));
                }
                Block::Group(title) => drop(page.control("SS", [title.as_str()])),
                Block::Term(term, says) => {
                    page.control("TP", []).text(inlines(term)).text(inlines(says));
                }
                Block::Command(line, says) => {
                    page.control("PP", []).text(inlines(says));
                    page.control("PP", []).control("RS", ["4"]).control("nf", []);
                    page.text([bold(line.as_str())]);
                    page.control("fi", []).control("RE", []);
                }
            }
        }
    }
    page.to_roff()
}

/// Text with its marks as fonts. A mark that is not closed is text.
fn inlines(text: &str) -> Vec<Inline> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(['`', '*']) {
        let mark = &rest[at..=at];
        let Some(end) = rest[at + 1..].find(mark) else { break };
        if at > 0 {
            out.push(roman(&rest[..at]));
        }
        let marked = &rest[at + 1..at + 1 + end];
        out.push(if mark == "`" { bold(marked) } else { italic(marked) });
        rest = &rest[at + end + 2..];
    }
    if !rest.is_empty() {
        out.push(roman(rest));
    }
    out
}
