// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tardy man`, `tardy schema` and `tardy notices`: texts that the program contains about itself.
//! And `tardy completions`: what a shell needs to complete verbs and flags, ready-made experiments
//! and the keys of `--set`.
//!
//! clap writes what follows from the flags. It can offer files or words for a value, not both, and
//! puts a space after a word; so experiments and keys are added to its script here, from the list
//! of ready-made experiments and the table of keys.

use crate::args::{self, Completions, Man, Schema, SchemaOf, Shell};
use crate::exit::{Exit, Failure};
use crate::manual::{self, reference};
use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::path::Path;
use tardy_doctor::Diagnosis;
use tardy_model::validity;
use tardy_spec::READY_MADE;
use tardy_spec::schema::KEYS;

/// Prints one page, or writes all of a kind.
pub fn man(args: &Man) -> Result<Exit> {
    let mut command = args::command();
    command.build();
    if let Some(folder) = &args.out {
        let pages = manual::documents(&command).into_iter();
        return write(folder, pages.map(|page| (format!("{}.1", page.name), manual::man_page(&page))));
    }
    if let Some(folder) = &args.reference {
        return write(folder, reference::chapters(&command).into_iter());
    }
    let page = match &args.verb {
        None => Some(manual::document(&command, None)),
        Some(verb) => command.find_subcommand(verb).map(|_| manual::document(&command, Some(verb))),
    };
    let Some(page) = page else {
        let verbs: Vec<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
        let asked = args.verb.as_deref().unwrap_or_default();
        let message = format!("`{asked}` is no verb and has no page: choose one of {}", verbs.join(", "));
        return Err(Failure::new(Exit::Usage, message).into());
    };
    super::print(&manual::man_page(&page))?;
    Ok(Exit::Good)
}

fn write(folder: &Path, files: impl Iterator<Item = (String, String)>) -> Result<Exit> {
    let cannot = |what: &Path, error: std::io::Error| {
        Failure::new(Exit::Cannot, format!("writing {}: {error}: choose another folder", what.display()))
    };
    std::fs::create_dir_all(folder).map_err(|error| cannot(folder, error))?;
    for (name, text) in files {
        let path = folder.join(name);
        std::fs::write(&path, text).map_err(|error| cannot(&path, error))?;
    }
    Ok(Exit::Good)
}

/// Licences of all that the program contains; packaging/notices.py makes the file.
const NOTICES: &str = include_str!("../../../../NOTICES");

pub fn notices() -> Result<Exit> {
    crate::verbs::print(NOTICES)?;
    Ok(Exit::Good)
}

pub fn schema(args: &Schema) -> Result<Exit> {
    let schema = match args.of {
        SchemaOf::Experiment => tardy_spec::schema::json_schema(),
        SchemaOf::Results => tardy_model::schema::results(),
        SchemaOf::Samples => tardy_store::samples_schema(),
        SchemaOf::Manifest => tardy_model::schema::manifest(),
        SchemaOf::Doctor => tardy_model::schema::of::<Diagnosis>(),
    };
    crate::verbs::print(&(serde_json::to_string_pretty(&schema)? + "\n"))?;
    Ok(Exit::Good)
}

/// Prints the shell's script.
pub fn completions(args: &Completions) -> Result<Exit> {
    let shell = match args.shell {
        Shell::Bash => clap_complete::Shell::Bash,
        Shell::Zsh => clap_complete::Shell::Zsh,
        Shell::Fish => clap_complete::Shell::Fish,
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut args::command(), "tardy", &mut script);
    let script = String::from_utf8(script)?;
    let words = Words::all()?;
    let script = match args.shell {
        Shell::Bash => bash(&script, &words),
        Shell::Zsh => zsh(&script, &words)?,
        Shell::Fish => fish(&script, &words),
    };
    super::print(&script)?;
    Ok(Exit::Good)
}

/// The completions for EXPERIMENT and KEY.
struct Words {
    experiments: Vec<&'static str>,
    /// With the equals sign.
    keys: Vec<String>,
}

impl Words {
    /// A key's `*` is each stream or station that a ready-made experiment has, or each rule of
    /// validity. Metrics, which want quotes, are left to the user.
    fn all() -> Result<Words> {
        let (mut stations, mut streams) = (BTreeSet::new(), BTreeSet::new());
        for source in READY_MADE.iter().filter_map(|(name, _)| tardy_spec::ready_made(name)) {
            let experiment = tardy_spec::load(&source, &[])?;
            for stream in experiment.cells.into_iter().flat_map(|cell| cell.setup.streams) {
                stations.extend([stream.from, stream.to]);
                streams.insert(stream.name);
            }
        }
        let rules: BTreeSet<String> = validity::RULES.iter().map(|rule| rule.id.to_owned()).collect();
        let mut keys = Vec::new();
        for key in KEYS {
            let names = match key.pattern.split('.').next() {
                Some("station") => &stations,
                Some("validity") => &rules,
                _ => &streams,
            };
            match key.pattern.matches('*').count() {
                0 => keys.push(format!("{}=", key.pattern)),
                1 => keys.extend(names.iter().map(|name| format!("{}=", key.pattern.replace('*', name)))),
                _ => {}
            }
        }
        Ok(Words { experiments: READY_MADE.iter().map(|(name, _)| *name).collect(), keys })
    }
}

/// A function that runs before clap's. Bash splits words at `=`, which is handled here.
fn bash(script: &str, words: &Words) -> String {
    let (experiments, keys) = (words.experiments.join(" "), words.keys.join(" "));
    format!(
        r#"{script}
_tardy_experiments="{experiments}"
_tardy_keys="{keys}"

_tardy_words() {{
    local cur="${{COMP_WORDS[COMP_CWORD]}}" prev="${{COMP_WORDS[COMP_CWORD-1]}}" before="" i
    [[ $COMP_CWORD -lt 3 ]] || before="${{COMP_WORDS[COMP_CWORD-2]}}"
    case "${{COMP_WORDS[1]}}" in
        run|plan) ;;
        *) _tardy "$@"; return ;;
    esac
    # --set KEY, --set=KEY
    if [[ $prev == --set && $cur == = ]]; then
        cur=""
        prev=--set
    elif [[ $prev == = && $before == --set ]]; then
        prev=--set
    fi
    if [[ $prev == --set ]]; then
        compopt -o nospace
        mapfile -t COMPREPLY < <(compgen -W "$_tardy_keys" -- "$cur")
        return
    fi
    # A key's value is the user's.
    if [[ $cur == = || $prev == = ]]; then
        COMPREPLY=()
        return
    fi
    if [[ $cur != -* && $prev != --trials && $prev != --out ]]; then
        for ((i = 2; i < COMP_CWORD; i++)); do
            case "${{COMP_WORDS[i]}}" in
                --set|--trials|--out|=) [[ ${{COMP_WORDS[i+1]}} == = ]] || ((i++)) ;;
                -*) ;;
                # It has its experiment.
                *) _tardy "$@"; return ;;
            esac
        done
        compopt -o filenames
        mapfile -t COMPREPLY < <(compgen -W "$_tardy_experiments" -- "$cur"; compgen -d -- "$cur"; compgen -f -X '!*.toml' -- "$cur")
        return
    fi
    _tardy "$@"
}}

complete -F _tardy_words -o bashdefault -o default tardy
"#
    )
}

/// clap's own actions for the two, replaced by functions.
fn zsh(script: &str, words: &Words) -> Result<String> {
    let (experiments, keys) = (words.experiments.join(" "), words.keys.join(" "));
    let functions = format!(
        "_tardy_experiments() {{\n    _alternative 'ready-made:ready-made experiment:({experiments})' 'files:file:_files'\n}}\n\
         _tardy_keys() {{\n    compadd -S '' -- {keys}\n}}\n\n"
    );
    let script = instead(script, ":KEY=VALUE:_default'", ":KEY=VALUE:_tardy_keys'")?;
    let script = instead(&script, "a ready-made name:_files'", "a ready-made name:_tardy_experiments'")?;
    let head = "autoload -U is-at-least\n\n";
    instead(&script, head, &format!("{head}{functions}"))
}

fn instead(script: &str, old: &str, new: &str) -> Result<String> {
    let found = script.contains(old).then(|| script.replace(old, new));
    found.with_context(|| format!("clap's script for zsh has no `{}`: this is a fault of tardy's", old.trim()))
}

/// fish offers files along with words, and combines what several lines offer.
fn fish(script: &str, words: &Words) -> String {
    let mut script = script.to_owned();
    for verb in ["run", "plan"] {
        let of = format!("complete -c tardy -n \"__fish_tardy_using_subcommand {verb}\"");
        script += &format!("{of} -a \"{}\" -d 'ready-made experiment'\n", words.experiments.join(" "));
        script += &format!("{of} -l set -x -a \"{}\"\n", words.keys.join(" "));
    }
    script
}
