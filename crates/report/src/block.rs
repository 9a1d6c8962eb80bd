// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a document is made of, whatever it is written as.

/// A part of the document.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Block {
    /// Depth from 1, text.
    Heading(usize, String),
    /// A sentence, of which the first part is set off.
    Sentence(String, String),
    /// Entries, each with a first part that is set off.
    List(Vec<(String, String)>),
    Table(Table),
}

/// A table; each row is as long as the head.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Table {
    pub head: Vec<String>,
    /// How many columns hold words; the rest hold figures.
    pub words: usize,
    pub rows: Vec<Vec<String>>,
}

/// Columns are padded up to this many characters.
const WIDEST: usize = 200;

impl Table {
    pub fn new(words: usize, head: &[&str]) -> Table {
        Table { head: head.iter().map(|title| (*title).to_owned()).collect(), words, rows: Vec::new() }
    }

    /// The width of each column.
    pub fn widths(&self, shown: impl Fn(&str) -> usize) -> Vec<usize> {
        let width =
            |i: usize| self.rows.iter().map(|row| shown(&row[i])).chain([shown(&self.head[i])]).max().unwrap_or(0);
        (0..self.head.len()).map(width).collect()
    }

    /// The same table in a language that reads some characters its own way.
    pub fn escaped(&self, escape: fn(&str) -> String) -> Table {
        let each = |row: &Vec<String>| row.iter().map(|text| escape(text)).collect();
        Table { head: each(&self.head), words: self.words, rows: self.rows.iter().map(each).collect() }
    }

    /// One row between bars, padded to these widths: words to the left, figures to the right.
    pub fn line(&self, row: &[String], widths: &[usize]) -> String {
        let cells = row.iter().zip(widths).enumerate().map(|(i, (text, &width))| {
            // One text of a megabyte must not pad every row of its column to a megabyte.
            let width = width.min(WIDEST);
            if i < self.words { format!("{text:<width$}") } else { format!("{text:>width$}") }
        });
        format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "))
    }
}
