// SPDX-License-Identifier: MIT OR Apache-2.0
//! Texts that come from a file, a program or a guest. They are made harmless where people, shells
//! and parsers read them: some characters do something instead of being shown. They move a
//! terminal's cursor, end a line, end a tag, or reverse the order of what follows. What is JSON is
//! kept as such a text.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use std::fmt::Write;
use std::sync::Arc;

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

/// The text as XML 1.0 and HTML take it between tags, or in a quoted attribute of HTML. It stays
/// text, and it is valid: a parser refuses a whole XML file for one character that XML does not
/// have. Lines and tabs stay. A character that does something becomes a blank, and so do most of
/// the characters that XML refuses. The two others that XML refuses, which are noncharacters, are
/// replaced.
pub fn xml(text: &str) -> String {
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
            c if acts(c) => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

// What a program printed as JSON. It is kept as text, because nobody here needs its shape. A tree
// of it would take two hundred times its memory, and it comes from guests and from run folders of
// others.

/// One JSON document. Copies share the text.
#[derive(Clone, Debug, JsonSchema)]
#[schemars(with = "serde_json::Value", inline)]
pub struct Json(Arc<RawValue>);

impl Json {
    pub fn text(&self) -> &str {
        self.0.get()
    }
}

impl Default for Json {
    fn default() -> Self {
        Json(Arc::from(RawValue::NULL.to_owned()))
    }
}

impl PartialEq for Json {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

impl Eq for Json {}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Json(Arc::from(Box::<RawValue>::deserialize(deserializer)?)))
    }
}
