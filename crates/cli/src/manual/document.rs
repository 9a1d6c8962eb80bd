// SPDX-License-Identifier: MIT OR Apache-2.0
//! A page of the manual as a document, whatever it is drawn as.

pub struct Document {
    pub name: String,
    /// What it is for, in one line.
    pub about: String,
    pub sections: Vec<Section>,
}

/// A section of a page.
pub struct Section {
    /// As in a man page's heading, in small letters.
    pub title: &'static str,
    /// Its content.
    pub blocks: Vec<Block>,
}

/// A piece of a section.
pub enum Block {
    Text(String),
    /// A heading within the section.
    Group(String),
    /// A term and what it means.
    Term(String, String),
    /// What a command does, and the command.
    Command(String, String),
}
