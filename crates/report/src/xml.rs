// SPDX-License-Identifier: MIT OR Apache-2.0
//! Text as XML 1.0 and HTML take it. It comes out of files that anybody may have made: it must stay
//! text, and it must be valid, because a parser refuses a whole XML file for one character that XML
//! does not have.

use tardy_model::harmless;

/// A text as an attribute's value, in double quotes, with a space before the name.
pub(crate) fn attribute(name: &str, value: &str) -> String {
    // Every parser turns an end of a line or a tab in a value into a blank.
    format!(" {name}=\"{}\"", escape(value).replace(['\n', '\t'], " "))
}

/// A text between tags, or in a quoted attribute of HTML. Lines and tabs stay. A character that
/// moves a cursor or turns the direction of writing becomes a blank, and so do most of the
/// characters that XML refuses. The two others that XML refuses, which are noncharacters, are
/// replaced.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\'' => out += "&#39;",
            '\n' | '\t' => out.push(c),
            '\u{fffe}' | '\u{ffff}' => out.push(char::REPLACEMENT_CHARACTER),
            c if harmless::acts(c) => out.push(' '),
            c => out.push(c),
        }
    }
    out
}
