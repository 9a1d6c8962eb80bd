// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lines of a given width: wrapping with a hanging indent, right edges, colour, and which columns
//! fit.

use crate::column::{Column, digits, in_order, run_digits, title};
use crate::figure::{SPACE, is_within_number};
use crate::picture::Options;
use crate::summary::Remark;
use tardy_model::result::{ABOVE_MINIMUM, Results};
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
    let text: Vec<char> = text.chars().collect();
    let mut at = 0;
    let words = text.split(|of| {
        at += 1;
        of.is_whitespace() && !is_within_number(&text, at - 1)
    });
    for word in words.filter(|word| !word.is_empty()) {
        let mut word = word.to_vec();
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

// Which columns fit a width, and how wide each is. One layout serves all cells, so that figures
// line up between them.

/// In the order in which they are given up when room is short, the last one first.
const PRIORITY: [Column; 9] = [
    Column::Quantile(0),
    Column::Quantile(2),
    Column::Quantile(3),
    Column::Max,
    Column::AtPacket,
    Column::Min,
    Column::Mean,
    Column::Stddev,
    Column::Quantile(4),
];
/// Room that p99.99 needs next to the others without crowding them.
const WIDE: usize = 116;
const GAP: usize = 2;
/// Three spaces and the unit.
pub(super) const UNIT: usize = 5;
const ROOMY: usize = 9;
const ROOMY_LABEL: usize = 29;

pub(super) struct Layout {
    /// Of the first column, with its indent.
    pub label: usize,
    /// Of each column, with the gap before it.
    pub columns: Vec<(Column, usize)>,
    hidden: Vec<Column>,
}

impl Layout {
    pub fn of(results: &Results, width: usize) -> Layout {
        let (mut label, mut heading) = (20, 0);
        let mut wants: Vec<(Column, usize)> = PRIORITY.map(|c| (c, columns(c.title()) + GAP)).to_vec();
        let mut far = false;
        let all = run_digits(results);
        for cell in &results.cells {
            let indent = indent(cell.streams.len());
            heading = heading.max(columns(&title(&cell.id)));
            for (name, metric) in cell.streams.values().flat_map(in_order) {
                label = label.max(columns(&metric_label(name, indent)));
                far |= metric.figures.quantiles.p99_99_ns.is_some();
                let digits = digits(metric, &Column::ALL, all);
                for (column, want) in &mut wants {
                    let shown = columns(&column.value(metric).show(digits, Some(SPACE)));
                    let received = column.received(metric).map_or(0, |value| columns(&value.show(digits, Some(SPACE))));
                    *want = (*want).max(shown.max(received) + GAP);
                }
            }
        }
        if !far || width < WIDE {
            wants.pop();
        }
        let total = |label: usize, wants: &[(Column, usize)]| label + UNIT + wants.iter().map(|w| w.1).sum::<usize>();
        let mut hidden = Vec::new();
        while wants.len() > 1 && total(label, &wants) > width {
            hidden.extend(wants.pop().map(|(column, _)| column));
        }
        hidden.reverse();

        // What is left over goes to the headings, then to the figures, then to the first column.
        let spare = |label: usize, wants: &[(Column, usize)]| width.saturating_sub(total(label, wants));
        if heading > label && heading - label <= spare(label, &wants) {
            label = heading;
        }
        for roomy in 8..=ROOMY {
            let wider: Vec<_> = wants.iter().map(|(c, w)| (*c, (*w).max(roomy))).collect();
            if total(label, &wider) <= width {
                wants = wider;
            }
        }
        label = label.max(ROOMY_LABEL.min(label + spare(label, &wants)));
        wants.sort_by_key(|(column, _)| column.place());
        Layout { label, columns: wants, hidden }
    }

    /// Columns of a whole row.
    pub fn total(&self) -> usize {
        self.label + UNIT + self.columns.iter().map(|column| column.1).sum::<usize>()
    }

    /// The titles of what did not fit.
    pub fn hidden(&self) -> String {
        self.hidden.iter().map(|column| column.title()).collect::<Vec<_>>().join(", ")
    }

    /// A row: the label, then each column's text at its right edge.
    pub fn row(&self, label: &str, text: impl Fn(Column) -> String) -> String {
        let mut row = format!("{label:<0$}", self.label);
        for (column, width) in &self.columns {
            row += &format!("{:>width$}", text(*column));
        }
        row
    }
}

/// How far a metric is indented: under the cell, or under its stream if there are several.
pub(super) fn indent(streams: usize) -> usize {
    if streams > 1 { 4 } else { 2 }
}

/// How a metric's row begins. What is above a metric's minimum follows the metric.
pub(super) fn metric_label(name: &str, indent: usize) -> String {
    match name.ends_with(ABOVE_MINIMUM) {
        true => format!("{:1$}{2}", "", indent + 2, ABOVE_MINIMUM.trim_start()),
        false => format!("{:indent$}{name}", ""),
    }
}
