// SPDX-License-Identifier: MIT OR Apache-2.0
//! One key of the experiment file: its pattern, its kind, its default and its meaning.

use super::kind::Kind;
use crate::tree::{Node, Toml};

/// One key.
#[derive(Debug)]
pub struct Key {
    /// Dotted; `*` matches a name that the user gives.
    pub pattern: &'static str,
    /// What its value is.
    pub kind: Kind,
    /// What it is if left out.
    pub default: Default,
    /// What it means, in one line.
    pub doc: &'static str,
    /// It belongs to the whole experiment: no case and no axis may set it.
    pub whole: bool,
    /// The key next to it that sets the same in another way; a file may have one of the two.
    pub rival: Option<&'static str>,
}

/// What a key is if left out.
#[derive(Clone, Copy, Debug)]
pub enum Default {
    /// It must be there.
    Required,
    /// Nothing, or what the text describes.
    None(&'static str),
    /// Text, as it would be written.
    Text(&'static str),
    /// A number.
    Integer(i64),
    /// A share.
    Float(f64),
    /// True or false.
    Flag(bool),
    /// A list of texts.
    List(&'static [&'static str]),
}

impl Default {
    /// The default as a file would have it; `None` if there is none.
    pub(crate) fn node(self) -> Option<Node> {
        Some(Node::default(match self {
            Default::Required | Default::None(_) => return None,
            Default::Text(text) => Toml::Text(text.to_owned()),
            Default::Integer(number) => Toml::Integer(number),
            Default::Float(number) => Toml::Float(number),
            Default::Flag(flag) => Toml::Flag(flag),
            Default::List(items) => {
                Toml::List(items.iter().map(|item| Node::default(Toml::Text((*item).to_owned()))).collect())
            }
        }))
    }
}

impl Key {
    pub(crate) const fn new(pattern: &'static str, kind: Kind, default: Default, doc: &'static str) -> Key {
        Key { pattern, kind, default, doc, whole: false, rival: None }
    }

    pub(crate) const fn whole(mut self) -> Key {
        self.whole = true;
        self
    }

    pub(crate) const fn rival(mut self, rival: &'static str) -> Key {
        self.rival = Some(rival);
        self
    }

    /// The pattern's segments.
    pub(crate) fn segments(&self) -> impl Iterator<Item = &'static str> {
        self.pattern.split('.')
    }

    /// The dotted key of the rival of `key`, an instance of this pattern.
    pub(crate) fn rival_of(&self, key: &str) -> Option<String> {
        let (table, _) = key.rsplit_once('.')?;
        self.rival.map(|rival| format!("{table}.{rival}"))
    }
}
