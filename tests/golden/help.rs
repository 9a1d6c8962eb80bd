// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the binary says about itself: help texts, man pages, completions. They come from one
//! definition, so what holds for one verb is held for all.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

pub fn tardy() -> PathBuf {
    std::env::var_os("TARDY").map_or_else(|| "../dist/tardy".into(), PathBuf::from)
}

fn call(arguments: &[&str]) -> Output {
    let mut command = Command::new(tardy());
    // No terminal anywhere: the width is what COLUMNS says.
    command.args(arguments).env("COLUMNS", "80").stdin(Stdio::null());
    command.output().unwrap_or_else(|error| panic!("{}: {error}: run `make build` first", tardy().display()))
}

fn says(arguments: &[&str]) -> String {
    let output = call(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// The files that a `man` flag writes: name and text.
pub fn written(flag: &str) -> BTreeMap<String, String> {
    let folder = tempfile::tempdir().expect("a folder");
    let into = folder.path().join("new/one");
    says(&["man", flag, into.to_str().expect("a name")]);
    let files = fs::read_dir(&into).expect("it was made").map(|entry| entry.expect("a file").path());
    let name = |path: &PathBuf| path.file_name().expect("a name").to_string_lossy().into_owned();
    files.map(|path| (name(&path), fs::read_to_string(&path).expect("text"))).collect()
}

/// Flags of the verbs below a verb, as their help lists them.
fn below(verb: &str) -> Vec<String> {
    let help = says(&[verb, "--help"]);
    let Some((_, list)) = help.split_once("\nVerbs:\n") else { return Vec::new() };
    let names =
        list.lines().take_while(|line| line.starts_with("  ")).filter_map(|line| line.split_whitespace().next());
    let flags = |name: &str| -> Vec<String> {
        let words = says(&[verb, name, "--help"]);
        words
            .lines()
            .filter_map(|line| line.split_whitespace().find(|word| word.starts_with("--")).map(str::to_owned))
            .collect()
    };
    names.flat_map(flags).collect()
}

/// Every verb, hidden ones too, by its page in the reference, with its flags and those of the
/// verbs below it.
pub fn verbs() -> BTreeMap<String, Vec<String>> {
    let page = |(file, text): (String, String)| {
        let verb = file.strip_prefix("tardy-")?.strip_suffix(".md")?.to_owned();
        let own = options(&text).into_iter().flat_map(|(flags, _)| flags);
        let flags = own.chain(below(&verb)).collect();
        Some((verb, flags))
    };
    let verbs: BTreeMap<String, Vec<String>> = written("--reference").into_iter().filter_map(page).collect();
    for known in ["run", "plan", "report", "undo", "schema", "man", "completions", "agent"] {
        assert!(verbs.contains_key(known), "{known} is a verb: {verbs:?}");
    }
    verbs
}

/// The flags on a page of the reference, each with its description.
fn options(page: &str) -> Vec<(Vec<String>, String)> {
    let Some((_, options)) = page.split_once("\n## Options\n") else { return Vec::new() };
    let lines = options.split("\n## ").next().unwrap_or_default().lines().filter(|line| line.starts_with("- "));
    lines
        .map(|line| {
            let (term, says) = line.split_once(": ").unwrap_or((line, ""));
            let flags = term.split('`').filter(|word| word.starts_with('-') && word.len() > 1 && !word.contains(' '));
            (flags.map(str::to_owned).collect(), says.to_owned())
        })
        .collect()
}

/// The help of `run`.
const RUN: &str = r#"Build, measure, judge and tear down each cell of an experiment

Usage: tardy run [OPTIONS] [EXPERIMENT]

Experiment:
  [EXPERIMENT]              A file or a ready-made name [default: host-to-host]
      --set <KEY=VALUE>     Set a dotted key, such as stream.ctl.count=400
      --trials <N>          Repetitions of each cell (same as --set trials=N)
      --in <guest[:exact]>  Inside a guest; guest:exact has exact virtual time
      --kernel <K>          The guest's kernel [default: debian:6.12]
      --allow-commands      Let the file's programs run as root, XDP ones too
      --allow-nics          Let a path wire take network devices of this machine
      --xdp-object <FILE>   An XDP program in place of tardy's (FILE:SECTION)

Output:
      --out <DIR>  Run folder, new or empty [default: runs/<UTC time>-<name>]
      --json       Print results.json on stdout, and nothing else there

Example: sudo tardy run

Exit codes: 0 good, 1 a limit broken, 2 wrong usage, 3 machine cannot, 4 not
valid, 5 own fault, 130 interrupted
The whole page: tardy man run | man -l -
"#;

#[test]
fn the_help_of_run_is_as_it_was_looked_at() {
    assert_eq!(says(&["run", "--help"]), RUN);
}

#[test]
fn every_help_fits_a_screen() {
    let verbs = verbs();
    let all = verbs.keys().map(|verb| vec![verb.as_str()]).chain([vec![]]);
    for mut verb in all {
        verb.push("--help");
        let help = says(&verb);
        *verb.last_mut().expect("a flag") = "-h";
        assert_eq!(says(&verb), help, "{verb:?}: the short help is the long one");
        assert!(help.lines().count() <= 24, "{verb:?} is longer than a screen:\n{help}");
        assert!(help.lines().all(|line| line.chars().count() <= 80), "{verb:?} is wider than a screen:\n{help}");
        assert!(help.contains("Usage: tardy"), "{help}");
        assert!(verb.contains(&"agent") || help.contains("tardy man"), "{verb:?} leads to its page:\n{help}");
    }
}

#[test]
fn flags_are_grouped_and_every_one_has_a_help_text() {
    let mut seen = 0;
    for (file, text) in written("--reference").iter().filter(|(file, _)| file.starts_with("tardy")) {
        for (flags, says) in options(text) {
            assert!(says.len() > 8 && says.ends_with('.'), "{file}: {flags:?} says `{says}`");
            seen += 1;
        }
    }
    assert!(seen > 8, "only {seen} flags were looked at");
    let run = says(&["run", "-h"]);
    let at = |heading: &str| run.find(heading).unwrap_or_else(|| panic!("{heading} in\n{run}"));
    assert!(at("\nExperiment:") < at("--set") && at("--trials") < at("\nOutput:") && at("\nOutput:") < at("--json"));
}

#[test]
fn each_verb_has_a_man_page() {
    let pages = written("--out");
    let expected: Vec<String> =
        verbs().keys().map(|verb| format!("tardy-{verb}.1")).chain(["tardy.1".to_owned()]).collect();
    assert_eq!(pages.len(), expected.len(), "{:?}", pages.keys());
    for name in &expected {
        let page = &pages[name];
        for section in ["NAME", "SYNOPSIS", "DESCRIPTION", "EXIT STATUS", "SEE ALSO"] {
            let heading = [format!("\n.SH {section}\n"), format!("\n.SH \"{section}\"\n")];
            assert!(heading.iter().any(|heading| page.contains(heading)), "{name} lacks {section}:\n{page}");
        }
        let known = ["TH", "SH", "SS", "TP", "PP", "RS", "RE", "nf", "fi", "ad", "nh", "ie", "el", "ds", "\\\""];
        for line in page.lines().filter(|line| line.starts_with(['.', '\''])) {
            let request = line[1..].split([' ', '\\']).next().unwrap_or_default();
            assert!(known.contains(&request) || line.starts_with(".\\\""), "{name}: what is `{line}`?");
        }
        assert!(!page.contains('`') && !page.contains('*'), "{name} shows a mark instead of a font");
    }
    let run = &pages["tardy-run.1"];
    for piece in [".SS Experiment\n", ".SS Output\n", ".SH FILES\n", ".SH EXAMPLES\n", "\\fBsamples.parquet", "\\fB130"]
    {
        let piece = piece.replace("\\fBsamples", "\\fBtrials/CELL/N/samples");
        assert!(run.contains(&piece), "tardy-run.1 lacks {piece:?}:\n{run}");
    }
    // The page that is printed is the one that is written.
    assert_eq!(&says(&["man", "run"]), run);
    assert_eq!(&says(&["man"]), &pages["tardy.1"]);
}

#[test]
fn a_verb_that_a_plan_prints_is_not_hidden() {
    assert!(says(&["guest", "--help"]).contains("\n  pack   Write the initramfs"), "{}", says(&["guest", "--help"]));
    assert!(says(&["guest", "pack", "--help"]).contains("Usage: tardy guest pack"));
    let chapter = &written("--reference")["tardy-guest.md"];
    for piece in
        ["## Verbs\n", "### fetch\n", "### list\n", "### pack\n", "`tardy guest pack`", "`--with`", "`--kernel` *K*"]
    {
        assert!(chapter.contains(piece), "{piece} is not in\n{chapter}");
    }
    assert!(written("--out")["tardy-guest.1"].contains("\n.SS pack\n"));
}

#[test]
fn a_page_that_does_not_exist_is_refused_with_those_that_do() {
    let output = call(&["man", "rum"]);
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("`rum`") && error.contains("run, plan, report"), "{error}");
    assert!(output.stdout.is_empty());
}

#[test]
fn completions_know_every_verb_and_flag() {
    for shell in ["bash", "zsh", "fish"] {
        let script = says(&["completions", shell]);
        for (verb, flags) in verbs().iter().filter(|(verb, _)| says(&["--help"]).contains(&format!("\n  {verb} "))) {
            assert!(script.contains(verb), "{shell}: {verb}");
            for flag in flags {
                // fish writes a long flag as `-l set`, a short one as `-s o`.
                let fish = flag.strip_prefix("--").map_or_else(|| format!("-s {}", &flag[1..]), |l| format!("-l {l}"));
                assert!(script.contains(if shell == "fish" { &fish } else { flag }), "{shell}: {verb} {flag}");
            }
        }
        // clap_complete's fish knows the values of flags, not those of arguments.
        for value in ["html", "manifest"].iter().take(if shell == "fish" { 1 } else { 2 }) {
            assert!(script.contains(value), "{shell} completes {value}");
        }
    }
    let file = tempfile::NamedTempFile::new().expect("a file");
    fs::write(file.path(), says(&["completions", "bash"])).expect("written");
    let output = Command::new("bash").arg("-n").arg(file.path()).output().expect("bash");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(call(&["completions", "tcsh"]).status.code(), Some(2));
}

/// What bash offers for the last of these words, by the script as it is loaded.
fn offered(words: &[&str], folder: &std::path::Path) -> Vec<String> {
    let script = folder.join(".completions");
    fs::write(&script, says(&["completions", "bash"])).expect("written");
    // The function that is registered, as bash calls it; `compopt` works only while a key is being
    // answered.
    let told = r#"compopt() { :; }; source .completions
        COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
        function=$(complete -p tardy | sed 's/.*-F \([^ ]*\).*/\1/')
        "$function" tardy "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
        [[ ${#COMPREPLY[@]} -eq 0 ]] || printf '%s\n' "${COMPREPLY[@]}""#;
    let bash = Command::new("bash").args(["-uc", told, "bash"]).args(words).current_dir(folder).output().expect("bash");
    assert!(bash.status.success() && bash.stderr.is_empty(), "{words:?}: {}", String::from_utf8_lossy(&bash.stderr));
    String::from_utf8(bash.stdout).expect("text").lines().map(str::to_owned).collect()
}

#[test]
fn bash_offers_ready_made_experiments_beside_files_and_the_keys_of_set() {
    let folder = tempfile::tempdir().expect("a folder");
    for file in ["mine.toml", "other.txt"] {
        fs::write(folder.path().join(file), "").expect("a file");
    }
    fs::create_dir(folder.path().join("sub")).expect("a folder");
    let offered = |words: &[&str]| offered(words, folder.path());
    let ready_made: Vec<&str> = tardy_spec::READY_MADE.iter().map(|(name, _)| *name).collect();
    for verb in ["run", "plan"] {
        assert_eq!(offered(&["tardy", verb, ""]), [&ready_made[..], &["sub", "mine.toml"]].concat());
        assert_eq!(offered(&["tardy", verb, "host"]), ["host-to-host"]);
        assert_eq!(
            offered(&["tardy", verb, "--set", "trials", "=", "2", "m"]),
            ["mqprio-etf", "mine.toml"],
            "a key is no experiment"
        );
        let keys = offered(&["tardy", verb, "--set", ""]);
        for key in tardy_spec::schema::KEYS.iter().filter(|key| key.pattern != "expect.*.*") {
            // Every ready-made experiment's stream is called ctl, its stations a and b.
            let name = match key.pattern.split('.').next() {
                Some("station") => "b",
                Some("validity") => "competing-cpu",
                _ => "ctl",
            };
            assert!(keys.contains(&format!("{}=", key.pattern.replace('*', name))), "{} in {keys:?}", key.pattern);
        }
        assert!(!keys.iter().any(|key| key.contains('*')), "{keys:?}");
        let wait = ["stream.ctl.rx.wait="];
        assert_eq!(offered(&["tardy", verb, "host-to-host", "--set", "stream.ctl.rx.w"]), wait);
        assert_eq!(offered(&["tardy", verb, "--set", "=", "stream.ctl.rx.w"]), wait, "bash splits words at =");
        assert_eq!(offered(&["tardy", verb, "--set", "="]), keys);
        assert!(offered(&["tardy", verb, "--set", "trials", "=", ""]).is_empty(), "a value is the user's");
        assert!(offered(&["tardy", verb, "--tr"]).contains(&"--trials".to_owned()));
    }
    assert!(offered(&["tardy", "report", "RUN", "--format", ""]).contains(&"html".to_owned()), "the rest is clap's");
}

#[test]
fn zsh_and_fish_know_the_ready_made_experiments_and_the_keys_of_set() {
    let zsh = says(&["completions", "zsh"]);
    assert!(
        zsh.contains(
            "experiment:(host-to-host roundtrip-load vm-roundtrip vm-oneway vm-car quiet-guest car tsn-qdiscs etf-drops mqprio-etf igb waits afxdp-delay afxdp-triggered)"
        ) && zsh.contains("compadd -S '' -- name= trials="),
        "{zsh}"
    );
    for function in ["_tardy_experiments", "_tardy_keys"] {
        // Where it is defined, and in `run`, `plan` and `guest pack`.
        assert_eq!(zsh.matches(function).count(), 4, "{function}");
    }
    let fish = says(&["completions", "fish"]);
    for verb in ["run", "plan"] {
        let of = format!("complete -c tardy -n \"__fish_tardy_using_subcommand {verb}\"");
        assert!(
            fish.contains(&format!(
                "{of} -a \"host-to-host roundtrip-load vm-roundtrip vm-oneway vm-car quiet-guest car tsn-qdiscs etf-drops mqprio-etf igb waits afxdp-delay afxdp-triggered\""
            )),
            "{fish}"
        );
        assert!(fish.contains(&format!("{of} -l set -x -a \"name= trials=")), "{fish}");
    }
}
