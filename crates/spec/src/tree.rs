// SPDX-License-Identifier: MIT OR Apache-2.0
//! A TOML text as a tree in which everything knows its place and tables keep the order of the file.

use crate::error::{At, Faults, Origin, Problem, Reason};
use std::collections::{BTreeSet, HashSet};
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A value and its place.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub value: Toml,
    pub at: At,
}

#[derive(Clone, Debug)]
pub(crate) enum Toml {
    Text(String),
    Integer(i64),
    Float(f64),
    Flag(bool),
    Datetime(String),
    List(Vec<Node>),
    Table(Vec<(WrittenKey, Node)>),
    /// Already reported: text without quotes, or a number that no 64 bits hold.
    Unreadable,
}

/// A key and its place.
#[derive(Clone, Debug)]
pub(crate) struct WrittenKey {
    pub text: String,
    pub at: At,
}

impl Node {
    /// A value that nobody wrote.
    pub(crate) fn default(value: Toml) -> Node {
        Node { value, at: At { origin: Origin::Default, span: 0..0 } }
    }

    /// What it is, for messages.
    pub(crate) fn what(&self) -> &'static str {
        match self.value {
            Toml::Text(_) => "text",
            Toml::Integer(_) => "a whole number",
            Toml::Float(_) => "a number",
            Toml::Flag(_) => "true or false",
            Toml::Datetime(_) => "a date or time",
            Toml::List(_) => "a list",
            Toml::Table(_) => "a table",
            Toml::Unreadable => "no value",
        }
    }

    /// True if it, or a part of it, is wrong by itself, and was reported.
    pub(crate) fn is_unreadable(&self) -> bool {
        match &self.value {
            Toml::Unreadable => true,
            Toml::List(items) => items.iter().any(Node::is_unreadable),
            _ => false,
        }
    }

    /// As TOML, on one line.
    pub(crate) fn toml(&self) -> String {
        match &self.value {
            Toml::Text(text) => quoted(text),
            Toml::Integer(number) => number.to_string(),
            Toml::Float(number) => format!("{number:?}"),
            Toml::Flag(flag) => flag.to_string(),
            Toml::Datetime(text) => text.clone(),
            Toml::List(items) => format!("[{}]", items.iter().map(Node::toml).collect::<Vec<_>>().join(", ")),
            Toml::Table(rows) => {
                let rows: Vec<String> =
                    rows.iter().map(|(key, node)| format!("{} = {}", quoted(&key.text), node.toml())).collect();
                format!("{{ {} }}", rows.join(", "))
            }
            Toml::Unreadable => "…".to_owned(),
        }
    }

    /// As a person reads it: text without its quotes, a list joined by `+`.
    pub(crate) fn plain(&self) -> String {
        match &self.value {
            Toml::Text(text) => text.clone(),
            Toml::List(items) if items.is_empty() => "none".to_owned(),
            Toml::List(items) => items.iter().map(Node::plain).collect::<Vec<_>>().join("+"),
            _ => self.toml(),
        }
    }
}

/// The rows of a table; none of another value.
pub(crate) fn rows(node: &Node) -> &[(WrittenKey, Node)] {
    match &node.value {
        Toml::Table(rows) => rows,
        _ => &[],
    }
}

/// Text as a TOML string on one line.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if c.is_control() => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Parses a file; `None` if it is not TOML. Of a file whose only such faults are values without
/// quotes all the rest is known.
pub(crate) fn document(text: &str, faults: &mut Faults) -> Option<Node> {
    let (parsed, errors) = DeTable::parse_recoverable(text);
    let span = parsed.span();
    let wrong: HashSet<Range<usize>> = errors.iter().map(|error| error.span().unwrap_or(0..0)).collect();
    let mut texts = Texts { origin: Origin::File, shift: 0, wrong: Wrong::new(&wrong), met: 0, faults };
    let node = Node { value: texts.table(parsed.into_inner()), at: texts.at(span) };
    let is_whole = texts.met == errors.len();
    broken_lines(text, &errors).into_iter().for_each(|error| faults.add(syntax(text, error)));
    Some(node).filter(|_| is_whole)
}

/// The first error of each line. After brackets or quotes that are not closed the parser reports
/// more, which are none.
fn broken_lines<'a>(text: &str, errors: &'a [toml::de::Error]) -> Vec<&'a toml::de::Error> {
    let start = |error: &toml::de::Error| error.span().map_or(0, |span| span.start.min(text.len()));
    let ends: Vec<usize> = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at).collect();
    let line = |error: &toml::de::Error| ends.partition_point(|end| *end < start(error));
    let runs_on = |error: &toml::de::Error| {
        ["array", "inline table", "multi-line"].iter().any(|what| error.message().contains(what))
    };
    let last = errors.iter().find(|error| runs_on(error));
    let is_before = |error: &&toml::de::Error| last.is_none_or(|last| line(error) < line(last));
    let mut sorted: Vec<_> = errors.iter().filter(is_before).collect();
    sorted.sort_by_key(|error| start(error));
    sorted.dedup_by_key(|error| line(error));
    sorted.extend(last);
    sorted
}

/// The value of a `--set`: TOML if it is that, else text. `shift` is where it begins in the
/// argument.
pub(crate) fn override_value(text: &str, argument: usize, shift: usize, faults: &mut Faults) -> Node {
    let none = HashSet::new();
    let mut texts = Texts { origin: Origin::Set(argument), shift, wrong: Wrong::new(&none), met: 0, faults };
    let as_text = |texts: &Texts<'_>| Node { value: Toml::Text(text.to_owned()), at: texts.at(0..text.len()) };
    let Ok(parsed) = DeValue::parse(text) else { return as_text(&texts) };
    let node = texts.node(parsed);
    // No key takes a date; `name=2026-11-21` is a name.
    if matches!(node.value, Toml::Datetime(_)) { as_text(&texts) } else { node }
}

/// Where the parser found values that are none.
struct Wrong<'a> {
    spans: &'a HashSet<Range<usize>>,
    starts: BTreeSet<usize>,
}

impl Wrong<'_> {
    fn new(spans: &HashSet<Range<usize>>) -> Wrong<'_> {
        Wrong { spans, starts: spans.iter().map(|span| span.start).collect() }
    }

    /// How many begin in this text or right behind it: `1.5ms` is a number and what is wrong.
    fn within(&self, span: &Range<usize>) -> usize {
        self.starts.range(span.start..=span.end).count()
    }
}

struct Texts<'a> {
    origin: Origin,
    shift: usize,
    wrong: Wrong<'a>,
    /// How many of them were met as values.
    met: usize,
    faults: &'a mut Faults,
}

impl Texts<'_> {
    fn at(&self, span: Range<usize>) -> At {
        At { origin: self.origin, span: span.start + self.shift..span.end + self.shift }
    }

    fn node(&mut self, value: Spanned<DeValue<'_>>) -> Node {
        let at = self.at(value.span());
        if self.wrong.spans.contains(&at.span) {
            self.met += 1;
            return Node { value: Toml::Unreadable, at };
        }
        let value = match value.into_inner() {
            DeValue::String(text) => Toml::Text(text.into_owned()),
            DeValue::Integer(number) => match i64::from_str_radix(number.as_str(), number.radix()) {
                Ok(number) => Toml::Integer(number),
                // The parser takes a unit behind a long number for a part of it.
                Err(_) if number.radix() == 10 && is_bare(number.as_str()) => {
                    let help = format!("put text and quantities in quotes: write \"{number}\"");
                    self.unreadable(&at, format!("`{number}` is no number and has no quotes"), help)
                }
                Err(_) => {
                    let message = format!("{number} is not a number of 64 bits");
                    self.unreadable(&at, message, format!("write a number up to {}", i64::MAX))
                }
            },
            DeValue::Float(number) => match number.as_str().parse() {
                Ok(number) => Toml::Float(number),
                Err(_) if self.wrong.within(&at.span) > 0 => {
                    self.met += self.wrong.within(&at.span);
                    Toml::Unreadable
                }
                Err(_) => {
                    self.unreadable(&at, format!("{number} is not a number"), "write a decimal number".to_owned())
                }
            },
            DeValue::Boolean(flag) => Toml::Flag(flag),
            DeValue::Datetime(when) => Toml::Datetime(when.to_string()),
            DeValue::Array(items) => Toml::List(items.into_iter().map(|item| self.node(item)).collect()),
            DeValue::Table(table) => self.table(table),
        };
        Node { value, at }
    }

    fn unreadable(&mut self, at: &At, message: String, help: String) -> Toml {
        self.faults.add(Problem::new(Reason::Value, at, message, help));
        Toml::Unreadable
    }

    fn table(&mut self, table: DeTable<'_>) -> Toml {
        let mut rows = Vec::with_capacity(table.len());
        for (key, value) in table {
            let at = self.at(key.span());
            rows.push((WrittenKey { text: key.into_inner().into_owned(), at }, self.node(value)));
        }
        rows.sort_by_key(|(key, _)| key.at.span.start);
        Toml::Table(rows)
    }
}

/// The parser's complaint, with how to fix what people most often get wrong.
fn syntax(text: &str, error: &toml::de::Error) -> Problem {
    let span = error.span().unwrap_or(0..0);
    let message = error.message().trim().replace('\n', ", ");
    let start = (0..=span.start.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    let line_start = text[..start].rfind('\n').map_or(0, |at| at + 1);
    let line = text[line_start..].lines().next().unwrap_or("");
    let help = if message.contains("duplicate key") {
        "leave one of the two out".to_owned()
    } else if ["in array", "array elements", "unclosed", "in inline table"].iter().any(|what| message.contains(what)) {
        "close the bracket that is still open here".to_owned()
    } else if let Some(bare) = unquoted(line).or(text.get(span.clone()).filter(|text| is_bare(text))) {
        format!("put text and quantities in quotes: write \"{bare}\"")
    } else {
        "fix the TOML: tables as [name], `key = value`, text in quotes".to_owned()
    };
    Problem::new(Reason::Syntax, &At { origin: Origin::File, span }, format!("this is not TOML: {message}"), help)
}

/// The value of `key = 500us`, which lacks its quotes.
fn unquoted(line: &str) -> Option<&str> {
    let value = line.split_once('=')?.1.split('#').next()?.trim().trim_end_matches([',', '}', ']']).trim();
    is_bare(value).then_some(value)
}

/// True of a text that only lacks its quotes.
fn is_bare(value: &str) -> bool {
    !value.is_empty()
        && value.len() < 40
        && value.chars().any(|c| c.is_ascii_alphabetic())
        && value.chars().all(|c| c.is_ascii_alphanumeric() || "._:/-µ%".contains(c))
}
