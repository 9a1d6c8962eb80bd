// SPDX-License-Identifier: MIT OR Apache-2.0
//! Text as XML 1.0 takes it. What is written comes out of files that anybody may have made: it
//! must stay text, and be text at all, for a parser refuses a whole file for one character that
//! XML does not have.

use tardy_model::harmless;

/// A text as an attribute's value, in double quotes, with a space before the name.
pub(crate) fn attribute(name: &str, value: &str) -> String {
    // An end of a line in a value is a blank to every parser.
    format!(" {name}=\"{}\"", text(value).replace('\n', " "))
}

/// A text between tags. Lines stay lines; what moves a cursor or turns the direction of writing
/// becomes a blank, and so do most of the characters that XML refuses. The two that are left are
/// no characters at all.
pub(crate) fn text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\'' => out += "&apos;",
            '\n' => out.push(c),
            '\u{fffe}' | '\u{ffff}' => out.push(char::REPLACEMENT_CHARACTER),
            c if harmless::acts(c) => out.push(' '),
            c => out.push(c),
        }
    }
    out
}
