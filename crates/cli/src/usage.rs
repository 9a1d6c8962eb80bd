// SPDX-License-Identifier: MIT OR Apache-2.0
//! The message for a command line that names a verb or a flag that does not exist: the one that
//! was most likely meant, or the list of all. And `tardy help VERB`, which other programs have.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, Error};
use std::ffi::OsString;
use tardy_spec::schema::KEYS;
use tardy_spec::synonyms::nearest;

/// Words that other programs have for a verb.
const VERBS: &[(&str, &[&str])] = &[
    ("run", &["measure", "start", "bench", "test", "exec"]),
    ("plan", &["dry-run", "check", "validate"]),
    ("report", &["analyze", "analyse", "show", "view", "print", "html", "results"]),
    ("compare", &["diff"]),
    ("export", &["convert", "dump"]),
    ("undo", &["clean", "cleanup", "reset"]),
    ("guest", &["vm", "kernel", "kernels"]),
];

/// The arguments with `help VERB` as `VERB --help`.
pub fn meant(mut given: Vec<OsString>) -> Vec<OsString> {
    if given.get(1).is_some_and(|verb| verb == "help") {
        given.remove(1);
        given.push("--help".into());
    }
    given
}

/// The error in words that say what to write instead, if it is about a verb or a flag.
pub fn explained(error: Error, command: &Command, given: &[OsString]) -> Error {
    let (verb, rest) = called(command, given);
    let named = |kind| match error.get(kind) {
        Some(ContextValue::String(word)) => Some(word.clone()),
        _ => None,
    };
    let says = match error.kind() {
        ErrorKind::InvalidSubcommand => named(ContextKind::InvalidSubcommand).map(|word| no_verb(verb, &word)),
        ErrorKind::UnknownArgument => named(ContextKind::InvalidArg).and_then(|flag| no_flag(verb, &flag, rest)),
        _ => None,
    };
    match says {
        Some(says) => Error::raw(error.kind(), says + "\n"),
        None => error,
    }
}

/// The verb that is called, or the whole program, and its arguments.
fn called<'c, 'g>(command: &'c Command, given: &'g [OsString]) -> (&'c Command, &'g [OsString]) {
    let (mut verb, mut rest) = (command, given.get(1..).unwrap_or_default());
    while let Some(below) = rest.first().and_then(|word| verb.find_subcommand(word)) {
        (verb, rest) = (below, &rest[1..]);
    }
    (verb, rest)
}

/// The name of a verb with those above it: `tardy guest fetch`.
fn whole_name(verb: &Command) -> String {
    let name = verb.get_bin_name().unwrap_or_else(|| verb.get_name());
    if name.starts_with("tardy") { name.to_owned() } else { format!("tardy {name}") }
}

fn no_verb(above: &Command, wrong: &str) -> String {
    let shown = above.get_subcommands().filter(|verb| !verb.is_hide_set());
    let known: Vec<&str> = shown.map(Command::get_name).collect();
    let elsewhere = VERBS.iter().find(|(_, words)| words.contains(&wrong)).map(|(verb, _)| *verb);
    let near = elsewhere.filter(|verb| known.contains(verb)).or_else(|| nearest(wrong, known.iter().copied()));
    let near = near.map(|near| format!(" (did you mean `{near}`?)")).unwrap_or_default();
    let (list, name) = (known.join(", "), whole_name(above));
    format!("there is no verb `{wrong}`{near}\n\nVerbs: {list}\nWhat each does: {name} --help")
}

/// `None` for a flag of one letter, of which nothing more can be said.
fn no_flag(verb: &Command, flag: &str, rest: &[OsString]) -> Option<String> {
    let word = flag.strip_prefix("--")?.split('=').next()?;
    let shown = verb.get_arguments().filter(|known| !known.is_hide_set());
    let flags: Vec<&str> = shown.filter_map(|known| known.get_long()).collect();
    let key = key(word).filter(|_| flags.contains(&"set"));
    let instead = match (key, nearest(word, flags.iter().copied())) {
        (Some(key), _) => format!(" (it is a key of the experiment, write `--set {}`)", assignment(key, word, rest)),
        (None, Some(near)) => format!(" (did you mean `--{near}`?)"),
        (None, None) => String::new(),
    };
    Some(format!("there is no flag `--{word}`{instead}\n\nAll flags: {} --help", whole_name(verb)))
}

/// The key of an experiment that ends with this word: a stream's before all others.
fn key(word: &str) -> Option<&'static str> {
    let word = word.replace('-', "_");
    let ends = KEYS.iter().map(|key| key.pattern).filter(|key| key.rsplit('.').next() == Some(&word));
    ends.min_by_key(|key| (!key.starts_with("stream."), key.matches('.').count()))
}

/// What to write behind `--set`. The stream of the default experiment is the example for all.
fn assignment(pattern: &str, word: &str, rest: &[OsString]) -> String {
    let name = if pattern.starts_with("stream.") || pattern.starts_with("expect.") { "ctl" } else { "NAME" };
    let flag = format!("--{word}");
    let given = || {
        let words = || rest.iter().filter_map(|word| word.to_str());
        let at = words().position(|word| word.split('=').next() == Some(&flag))?;
        match words().nth(at)?.split_once('=') {
            Some((_, value)) => Some(value),
            None => words().nth(at + 1).filter(|value| !value.starts_with('-')),
        }
    };
    let value = given().unwrap_or("VALUE");
    format!("{}={value}", pattern.replacen('*', name, 1))
}
