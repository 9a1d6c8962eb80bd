// SPDX-License-Identifier: MIT OR Apache-2.0
//! The manual's pages as documents: the flags come from `args.rs`, the exit codes from `exit.rs`,
//! the rest of a page from `pages.rs`. One document is drawn as a man page (`roff.rs`) and as a
//! chapter of the book (`reference.rs`).
//!
//! Text in a document knows two marks: `` `literal` `` and `*placeholder*`.

mod document;
mod pages;
pub mod reference;
pub mod roff;

pub use document::{Block, Document, Section};
pub use pages::{PAGES, Page, RUN_FOLDER};

use crate::exit::Exit;
use clap::Command;
use std::fmt::Write as _;

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
    let mut sections = vec![Section { title: "synopsis", blocks: vec![Block::Text(document::synopsis(of))] }];
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
    add("options", document::options(of));
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
        let flags = document::options(verb).into_iter().filter(|block| matches!(block, Block::Term(..)));
        let head =
            [Block::Group(verb.get_name().to_owned()), Block::Text(document::synopsis(verb)), Block::Text(about + ".")];
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
    // The list of verbs leaves room for one example.
    let (head, shown) = if page.verb.is_none() { ("Example:", 1) } else { ("Examples:\n", 2) };
    if !page.examples.is_empty() {
        text += head;
    }
    for (line, _) in page.examples.iter().take(shown) {
        let _ = writeln!(text, "{}{line}", if shown == 1 { " " } else { "  " });
    }
    if page.verb.is_some() && page.exits.contains(&Exit::Invalid) {
        let codes: Vec<String> = page.exits.iter().map(|exit| format!("{} {}", *exit as u8, exit.says().0)).collect();
        let _ = write!(text, "\nExit codes: {}", codes.join(", "));
    }
    let verb = page.verb.map(|verb| format!(" {verb}")).unwrap_or_default();
    // Nor room for a blank line.
    let blank = if page.verb.is_none() { "" } else { "\n" };
    let _ = write!(text, "{blank}The whole page: tardy man{verb} | man -l -");
    if page.verb.is_none() {
        // Whoever is given the program must find them, and the list of verbs has no line left.
        text += "   Licences: tardy notices";
    }
    text.trim_start().to_owned()
}
