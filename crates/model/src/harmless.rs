// SPDX-License-Identifier: MIT OR Apache-2.0
//! Texts that come from a file, a program or a guest. They are made harmless where people and
//! shells read them: some characters do something instead of being shown. They move a terminal's
//! cursor, end a line, or reverse the order of what follows.

use std::fmt::Write;

/// True for a character that does something: a control character, a separator of lines, or a mark
/// that sets the direction of writing.
pub fn acts(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The text in one line, with a blank for each character that does something.
pub fn blanked(text: &str) -> String {
    text.replace(acts, " ")
}

/// The text with such characters written out, as `\u{1b}`. Lines stay lines.
pub fn spelled(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => out.push(c),
            c if acts(c) => out.extend(c.escape_default()),
            c => out.push(c),
        }
    }
    out
}

/// The same JSON without such characters, except the ends of its lines. They can only be in its
/// strings, where `\u001b` is the same.
pub fn json(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => out.push(c),
            c if acts(c) => _ = write!(out, "\\u{:04x}", u32::from(c)),
            c => out.push(c),
        }
    }
    out
}
