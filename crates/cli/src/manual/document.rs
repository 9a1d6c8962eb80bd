// SPDX-License-Identifier: MIT OR Apache-2.0
//! A page of the manual as a document, and its parts that follow from clap's flags.

use clap::{Arg, ArgAction, Command};

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
