// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lines of a given width: wrapping with a hanging indent, right edges, colour.

use crate::picture::Options;
use crate::summary::Remark;
use tardy_model::verdict::Level;

/// What a colour means. Nothing is coloured for beauty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ink {
    Plain,
    Good,
    Bad,
    Doubtful,
    Dim,
}

impl Ink {
    const fn escape(self) -> &'static str {
        match self {
            Ink::Plain => "",
            Ink::Good => "\x1b[32m",
            Ink::Bad => "\x1b[31m",
            Ink::Doubtful => "\x1b[33m",
            Ink::Dim => "\x1b[2m",
        }
    }
}

/// Terminal columns of a text: every character that tardy writes is one column wide.
pub(super) fn columns(text: &str) -> usize {
    text.chars().count()
}

/// A text without control characters: names and sentences may hold what some program printed, and
/// must not move the cursor.
fn clean(text: &str) -> String {
    tardy_model::harmless::blanked(text)
}

/// The lines of a text within `width` columns, broken at spaces; a word that is longer is cut.
pub(super) fn wrap(text: &str, width: usize) -> Vec<String> {
    let width = width.max(8);
    // What fits stays as it is, with its own spacing.
    if columns(text) <= width {
        return vec![text.to_owned()];
    }
    let mut lines: Vec<String> = Vec::new();
    let mut line = String::new();
    for word in text.split_whitespace() {
        let mut word: Vec<char> = word.chars().collect();
        if !line.is_empty() && columns(&line) + 1 + word.len() > width {
            lines.push(std::mem::take(&mut line));
        }
        while word.len() > width {
            let rest = word.split_off(width);
            lines.push(word.into_iter().collect());
            word = rest;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.extend(word);
    }
    if !line.is_empty() || lines.is_empty() {
        lines.push(line);
    }
    lines
}

/// A table's name, a median and a maximum need so much; a narrower terminal wraps.
const LEAST: usize = 56;

/// The picture as it grows.
pub(super) struct Page {
    width: usize,
    colour: bool,
    out: String,
}

impl Page {
    pub fn new(options: &Options) -> Page {
        Page { width: options.width.max(LEAST), colour: options.colour, out: String::new() }
    }

    pub fn width(&self) -> usize {
        self.width
    }

    /// Draws the right edge in to that of the table, so that all right edges are one; never below
    /// what sentences need.
    pub fn narrow(&mut self, to: usize) {
        self.width = self.width.min(to.max(72));
    }

    pub fn finish(self) -> String {
        self.out
    }

    pub fn blank(&mut self) {
        if !self.out.is_empty() && !self.out.ends_with("\n\n") {
            self.out.push('\n');
        }
    }

    pub fn line(&mut self, text: &str) {
        self.inked(text, Ink::Plain);
    }

    pub fn inked(&mut self, text: &str, ink: Ink) {
        let text = clean(text);
        let painted = self.paint(text.trim_end(), ink);
        self.out += &painted;
        self.out.push('\n');
    }

    fn paint(&self, text: &str, ink: Ink) -> String {
        if !self.colour || ink == Ink::Plain || text.is_empty() {
            return text.to_owned();
        }
        format!("{}{text}\x1b[0m", ink.escape())
    }

    /// A text at the left and one at the right edge.
    pub fn spread(&mut self, left: &str, right: &str, ink: Ink) {
        let (left, right) = (clean(left), clean(right));
        let gap = self.width.saturating_sub(columns(&left) + columns(&right)).max(2);
        self.inked(&format!("{left}{:gap$}{right}", ""), ink);
    }

    /// The same, of which only the `word` at its beginning is in colour.
    pub fn spread_inked(&mut self, word: &str, left: &str, right: &str, ink: Ink) {
        let start = self.out.len();
        self.spread(left, right, Ink::Plain);
        let painted = self.paint(word, ink);
        self.out.replace_range(start..start + word.len(), &painted);
    }

    /// A line of which only the `word` at its end is in colour.
    pub fn line_with_end(&mut self, line: &str, word: &str, ink: Ink) {
        let painted = self.paint(&clean(word), ink);
        self.out += &clean(line);
        self.out += &painted;
        self.out.push('\n');
    }

    /// `label`, padded to `width` columns, in colour, then a sentence, wrapped with a hanging
    /// indent. Dim ink takes the sentence with it.
    pub fn labelled(&mut self, indent: usize, label: &str, width: usize, says: &str, ink: Ink) {
        let (label, says) = (&*clean(label), clean(says));
        let hang = indent + width;
        for (i, text) in wrap(&says, self.width.saturating_sub(hang)).into_iter().enumerate() {
            let text = if ink == Ink::Dim { self.paint(&text, ink) } else { text };
            let label = if i == 0 { label } else { "" };
            let pad = " ".repeat(width.saturating_sub(columns(label)));
            let line = format!("{:indent$}{}{pad}{text}", "", self.paint(label, ink));
            self.out += line.trim_end();
            self.out.push('\n');
        }
    }

    /// A path or a command that must stay whole to be pasted, however long it is.
    pub fn uncut(&mut self, indent: usize, text: &str) {
        if !text.is_empty() {
            self.line(&format!("{:indent$}{text}", ""));
        }
    }
}

pub(super) fn remark(remark: &Remark, indent: usize, label: usize, page: &mut Page) {
    let ink = match remark.level {
        Level::Invalid => Ink::Bad,
        Level::Warning => Ink::Doubtful,
        Level::Ok | Level::Note => Ink::Plain,
    };
    page.labelled(indent, &remark.label, label, &remark.says, ink);
}
