// SPDX-License-Identifier: MIT OR Apache-2.0
//! The manual's pages as documents: the flags come from `args.rs`, the exit codes from `exit.rs`,
//! the rest of a page from `pages.rs`. One document is drawn as a man page ([`man_page`]) and as a
//! chapter of the book (`reference.rs`).
//!
//! Text in a document knows two marks: `` `literal` `` and `*placeholder*`.

mod pages;
pub mod reference;

pub use pages::{PAGES, Page, RUN_FOLDER};

use crate::exit::Exit;
use clap::{Arg, ArgAction, Command};
use roff::{Inline, Roff, bold, italic, roman};
use std::fmt::Write as _;

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

/// A space at which no line is broken.
const STUCK: char = '\u{a0}';

fn value(arg: &Arg) -> Option<String> {
    let takes = arg.is_positional() || arg.get_action().takes_values();
    let names = arg.get_value_names().filter(|_| takes)?;
    Some(names.iter().map(|name| format!("*{name}*")).collect::<Vec<_>>().join(" "))
}

/// `--set` with its value; the long name leads.
fn literal(arg: &Arg) -> String {
    match (arg.get_long(), arg.get_short()) {
        (Some(long), _) => format!("`--{long}`"),
        (None, Some(short)) => format!("`-{short}`"),
        (None, None) => String::new(),
    }
}

/// All ways to call the command, in one line.
pub fn synopsis(command: &Command) -> String {
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name());
    let mut parts = vec![format!("`{name}`")];
    let shown = |arg: &&Arg| !arg.is_hide_set() && !matches!(arg.get_action(), ArgAction::Help | ArgAction::Version);
    let (positional, flags): (Vec<&Arg>, Vec<&Arg>) =
        command.get_arguments().filter(shown).partition(|arg| arg.is_positional());
    for arg in flags.into_iter().chain(positional) {
        let words: Vec<String> = [literal(arg), value(arg).unwrap_or_default()].into();
        let words = words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(&STUCK.to_string());
        let more = if matches!(arg.get_action(), ArgAction::Append) { "…" } else { "" };
        parts.push(if arg.is_required_set() { words + more } else { format!("[{words}]{more}") });
    }
    if command.has_subcommands() {
        parts.push("*VERB* …".to_owned());
    }
    parts.join(" ")
}

/// The flags, grouped as in `--help`: headings first, what has none last.
pub fn options(command: &Command) -> Vec<Block> {
    let shown: Vec<&Arg> = command.get_arguments().filter(|arg| !arg.is_hide_set()).collect();
    let mut headings: Vec<Option<&str>> = Vec::new();
    for arg in &shown {
        if !headings.contains(&arg.get_help_heading()) {
            headings.push(arg.get_help_heading());
        }
    }
    headings.sort_by_key(Option::is_none);
    let several = headings.len() > 1;
    let mut blocks = Vec::new();
    for heading in headings {
        if several && heading.is_some() {
            blocks.push(Block::Group(heading.unwrap_or_default().to_owned()));
        }
        blocks.extend(shown.iter().filter(|arg| arg.get_help_heading() == heading).map(|arg| term(arg)));
    }
    blocks
}

fn term(arg: &Arg) -> Block {
    let mut names: Vec<String> = arg.get_short().map(|short| format!("`-{short}`")).into_iter().collect();
    names.extend(arg.get_long().map(|long| format!("`--{long}`")));
    let names = names.join(", ");
    let term = match value(arg) {
        Some(value) if names.is_empty() => value,
        Some(value) => format!("{names} {value}"),
        None => names,
    };
    let mut says = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let defaults: Vec<String> = arg.get_default_values().iter().map(|v| v.to_string_lossy().into_owned()).collect();
    if !defaults.is_empty() && arg.get_action().takes_values() {
        says += &format!(" [default: {}]", defaults.join(", "));
    }
    let choices: Vec<String> = match arg.get_action().takes_values() {
        true => arg.get_possible_values().iter().map(choice).collect(),
        false => Vec::new(),
    };
    if !choices.is_empty() {
        says += &format!(": {}", choices.join("; "));
    }
    Block::Term(term, says + ".")
}

fn choice(value: &clap::builder::PossibleValue) -> String {
    match value.get_help() {
        Some(help) => format!("`{}` ({help})", value.get_name()),
        None => format!("`{}`", value.get_name()),
    }
}

/// The pages of `tardy` and of each of its verbs.
pub fn documents(command: &Command) -> Vec<Document> {
    let verbs = command.get_subcommands().map(|verb| document(command, Some(verb.get_name())));
    std::iter::once(document(command, None)).chain(verbs).collect()
}

/// The page of `verb`, or of the whole program. `command` has been built. A verb without an entry
/// in [`PAGES`] gets a page of its flags alone; a test looks for such.
pub fn document(command: &Command, verb: Option<&str>) -> Document {
    let page = PAGES.iter().find(|page| page.verb == verb).unwrap_or(&pages::BARE);
    let of = verb.and_then(|verb| command.find_subcommand(verb)).unwrap_or(command);
    let mut sections = vec![Section { title: "synopsis", blocks: vec![Block::Text(synopsis(of))] }];
    let texts = |texts: &[&str]| texts.iter().map(|text| Block::Text((*text).to_owned())).collect::<Vec<_>>();
    let terms = |terms: &[(&str, &str)]| -> Vec<Block> {
        terms.iter().map(|(term, says)| Block::Term(format!("`{term}`"), (*says).to_owned())).collect()
    };
    let mut add = |title, blocks: Vec<Block>| {
        if !blocks.is_empty() {
            sections.push(Section { title, blocks });
        }
    };
    add("description", texts(page.description));
    if verb.is_none() {
        add("verbs", verbs(command));
    } else {
        add("verbs", below(of));
    }
    add("options", options(of));
    let exits = page.exits.iter().map(|exit| {
        let code = *exit as u8;
        Block::Term(format!("`{code}`"), exit.says().1.to_owned())
    });
    add("exit status", exits.collect());
    add("files", terms(page.files));
    add("environment", terms(page.environment));
    let examples = page.examples.iter().map(|(line, says)| Block::Command((*line).to_owned(), (*says).to_owned()));
    add("examples", examples.collect());
    add("see also", vec![Block::Text(see_also(page))]);
    let name = of.get_display_name().unwrap_or_else(|| of.get_name()).to_owned();
    Document { name, about: of.get_about().map(ToString::to_string).unwrap_or_default(), sections }
}

fn verbs(command: &Command) -> Vec<Block> {
    let about = |verb: &Command| verb.get_about().map(ToString::to_string).unwrap_or_default();
    command.get_subcommands().map(|verb| Block::Term(format!("`tardy-{}`(1)", verb.get_name()), about(verb))).collect()
}

/// The verbs below a verb, which have no pages of their own: how each is called, its purpose, its
/// flags.
fn below(command: &Command) -> Vec<Block> {
    let shown = command.get_subcommands().filter(|verb| !verb.is_hide_set());
    let one = |verb: &Command| {
        let about = verb.get_about().map(ToString::to_string).unwrap_or_default();
        let flags = options(verb).into_iter().filter(|block| matches!(block, Block::Term(..)));
        let head = [Block::Group(verb.get_name().to_owned()), Block::Text(synopsis(verb)), Block::Text(about + ".")];
        head.into_iter().chain(flags).collect::<Vec<_>>()
    };
    shown.flat_map(one).collect()
}

fn see_also(page: &Page) -> String {
    let main = page.verb.map(|_| "`tardy`(1)".to_owned());
    let others = page.see_also.iter().map(|name| {
        let (name, section) = name.split_once('(').unwrap_or((name, "1)"));
        format!("`{name}`({section}")
    });
    let pages: Vec<String> = main.into_iter().chain(others).collect();
    let separator = if pages.is_empty() { "" } else { "; " };
    format!("{}{separator}the book: docs/ in the repository, `make book`", pages.join(", "))
}

/// What follows the flags in `--help`: the first examples, and the exit codes if there are others
/// than success.
pub fn after_help(page: &Page) -> String {
    let mut text = String::new();
    // The list of verbs leaves room for one example, and so do the flags of `run`.
    let is_long = matches!(page.verb, None | Some("run" | "copy" | "doctor"));
    let (head, shown) = if is_long {
        ("Example:", 1)
    } else {
        (
            "Examples:
",
            2,
        )
    };
    if !page.examples.is_empty() {
        text += head;
    }
    for (line, _) in page.examples.iter().take(shown) {
        let end = if page.verb.is_none() { "   " } else { "\n" };
        let _ = write!(text, "{}{line}{end}", if shown == 1 { " " } else { "  " });
    }
    if page.verb.is_some() && page.exits.contains(&Exit::Invalid) {
        let codes: Vec<String> = page.exits.iter().map(|exit| format!("{} {}", *exit as u8, exit.says().0)).collect();
        let _ = write!(text, "\nExit codes: {}", codes.join(", "));
    }
    let verb = page.verb.map(|verb| format!(" {verb}")).unwrap_or_default();
    let _ = match page.verb {
        Some(_) => write!(text, "\nThe whole page: tardy man{verb} | man -l -"),
        // Whoever is given the program must find the licences, and the list of verbs leaves one
        // line for all three.
        None => {
            text.truncate(text.trim_end().len());
            write!(text, "   Page: tardy man | man -l -   Licences: tardy notices")
        }
    };
    text.trim_start().to_owned()
}

/// A document as a man page: its source, for `man -l` and `man/man1`.
pub fn man_page(document: &Document) -> String {
    let mut page = Roff::new();
    let version = concat!("tardy ", env!("CARGO_PKG_VERSION"));
    page.control("TH", [document.name.to_uppercase().as_str(), "1", "", version, "tardy"]);
    // Ragged right and unhyphenated: names of keys and files stay whole.
    page.control("ad", ["l"]).control("nh", []);
    page.control("SH", ["NAME"]).text([roman(format!("{} - {}", document.name, document.about.replace('`', "")))]);
    for section in &document.sections {
        page.control("SH", [section.title.to_uppercase().as_str()]);
        for (n, block) in section.blocks.iter().enumerate() {
            match block {
                Block::Text(text) => {
                    if n > 0 {
                        page.control("PP", []);
                    }
                    page.text(inlines(text));
                }
                Block::Group(title) => drop(page.control("SS", [title.as_str()])),
                Block::Term(term, says) => {
                    page.control("TP", []).text(inlines(term)).text(inlines(says));
                }
                Block::Command(line, says) => {
                    page.control("PP", []).text(inlines(says));
                    page.control("PP", []).control("RS", ["4"]).control("nf", []);
                    page.text([bold(line.as_str())]);
                    page.control("fi", []).control("RE", []);
                }
            }
        }
    }
    page.to_roff()
}

/// Text with its marks as fonts. A mark that is not closed is text.
fn inlines(text: &str) -> Vec<Inline> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(['`', '*']) {
        let mark = &rest[at..=at];
        let Some(end) = rest[at + 1..].find(mark) else { break };
        if at > 0 {
            out.push(roman(&rest[..at]));
        }
        let marked = &rest[at + 1..at + 1 + end];
        out.push(if mark == "`" { bold(marked) } else { italic(marked) });
        rest = &rest[at + end + 2..];
    }
    if !rest.is_empty() {
        out.push(roman(rest));
    }
    out
}
