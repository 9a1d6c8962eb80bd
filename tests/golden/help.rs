// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the binary says about itself: help texts, man pages, completions. They come from one
//! definition, so what holds for one verb is held for all. And what it says of a command line that
//! is mistyped: each of those tests is named after an answer that led nowhere.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
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
      --allow-nics          Let a path take or use network devices of this host
      --allow-hosts         Log in to the file's other machines over ssh
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
    assert!(error.contains("`rum`") && error.contains("run, copy, plan, report"), "{error}");
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
            "experiment:(host-to-host roundtrip-load vm-roundtrip vm-oneway vm-car quiet-guest car tsn-qdiscs etf-drops mqprio-etf igb waits afxdp-delay afxdp-triggered copy copy-parallel copy-sizes)"
        ) && zsh.contains("compadd -S '' -- name= trials="),
        "{zsh}"
    );
    // Where it is defined, and in `run`, `plan`, `guest pack` and `clocks`; keys also in `doctor`.
    for (function, count) in [("_tardy_experiments", 5), ("_tardy_keys", 6)] {
        assert_eq!(zsh.matches(function).count(), count, "{function}");
    }
    let fish = says(&["completions", "fish"]);
    for verb in ["run", "plan"] {
        let of = format!("complete -c tardy -n \"__fish_tardy_using_subcommand {verb}\"");
        assert!(
            fish.contains(&format!(
                "{of} -a \"host-to-host roundtrip-load vm-roundtrip vm-oneway vm-car quiet-guest car tsn-qdiscs etf-drops mqprio-etf igb waits afxdp-delay afxdp-triggered copy copy-parallel copy-sizes\""
            )),
            "{fish}"
        );
        assert!(fish.contains(&format!("{of} -l set -x -a \"name= trials=")), "{fish}");
    }
}

/// How the program ended, and what it printed on both.
struct Answer {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

fn answer_in(folder: &Path, arguments: &[&str]) -> Answer {
    let program = std::fs::canonicalize(tardy()).expect("run `make build` first");
    let mut command = Command::new(program);
    command.args(arguments).current_dir(folder).env_remove("COLUMNS").stdin(Stdio::null());
    let output = command.output().expect("it starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Answer { code: output.status.code(), stdout: text(&output.stdout), stderr: text(&output.stderr) }
}

fn answer(arguments: &[&str]) -> Answer {
    answer_in(Path::new("."), arguments)
}

/// The message for a call that is wrong.
fn refused(arguments: &[&str]) -> String {
    let answer = answer(arguments);
    assert_eq!(answer.code, Some(2), "{arguments:?}: {}", answer.stderr);
    assert_eq!(answer.stdout, "", "{arguments:?}");
    answer.stderr
}

#[test]
fn a_key_written_as_a_flag_was_advised_to_be_a_value() {
    for (arguments, says) in [
        (
            &["run", "--count", "5"][..],
            "there is no flag `--count` (it is a key of the experiment, write `--set stream.ctl.count=5`)",
        ),
        (&["run", "--duration=10s"], "`--set stream.ctl.duration=10s`"),
        (&["plan", "host-to-host", "--max-loss"], "`--set stream.ctl.max_loss=VALUE`"),
        (&["run", "--seed", "--json"], "`--set seed=VALUE`"),
        (&["run", "--trails", "5"], "there is no flag `--trails` (did you mean `--trials`?)"),
        (&["report", "runs/a", "--formt", "md"], "(did you mean `--format`?)"),
    ] {
        let said = refused(arguments);
        assert!(said.contains(says), "{arguments:?}: {said}");
        assert!(!said.contains("to pass") && said.contains("All flags: tardy "), "{arguments:?}: {said}");
    }
    // A report takes no key.
    let said = refused(&["report", "runs/a", "--count", "5"]);
    assert!(said.contains("--count") && !said.contains("--set"), "{said}");
}

#[test]
fn a_cpu_that_is_not_here_is_shown_with_its_place_and_with_what_else_is_wrong() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("x.toml");
    let body = tardy_tests::part("stream from a to b").to_owned() + "tx.cpu = 8191\n";
    std::fs::write(&file, body).expect("a file");
    let plan = |more: &[&str]| answer_in(folder.path(), &[&["plan", "x.toml"], more].concat());
    let answer = plan(&[]);
    assert_eq!(answer.code, Some(3), "{}", answer.stderr);
    assert!(answer.stderr.starts_with("tardy: x.toml:6:10: `stream.ctl.tx.cpu`: CPU 8191"), "{}", answer.stderr);
    let answer = plan(&["--set", "stream.ctl.count=0", "--set", "stream.ctl.rx.cpu=8190"]);
    assert_eq!(answer.code, Some(2), "the file is wrong too: {}", answer.stderr);
    let lines: Vec<&str> = answer.stderr.lines().collect();
    assert_eq!(lines.len(), 4, "{lines:?}");
    assert!(lines[0].contains("x.toml:6:10") && lines[1].contains("count"), "{lines:?}");
    assert!(lines[2].contains("--set stream.ctl.rx.cpu=8190") && lines[3].ends_with("3 errors"), "{lines:?}");
}

#[test]
fn a_wrong_verb_was_refused_without_a_list_of_the_right_ones() {
    let said = refused(&["rnu"]);
    assert!(said.contains("there is no verb `rnu` (did you mean `run`?)"), "{said}");
    assert!(
        said.contains(
            "Verbs: run, copy, plan, report, compare, guest, hints, clocks, doctor, undo, schema, export, man, completions\n"
        ),
        "{said}"
    );
    let said = refused(&["analyze", "x"]);
    assert!(said.contains("there is no verb `analyze` (did you mean `report`?)"), "{said}");
    let said = refused(&["zzzzzz"]);
    assert!(said.contains("there is no verb `zzzzzz`\n") && said.contains("Verbs: run"), "{said}");
    let said = refused(&["guest", "lst"]);
    assert!(said.contains("there is no verb `lst` (did you mean `list`?)"), "{said}");
    assert!(said.contains("Verbs: fetch, list, pack\n") && said.contains("tardy guest --help"), "{said}");
}

#[test]
fn help_was_no_verb() {
    for (asked, same) in [(&["help"][..], &["--help"][..]), (&["help", "run"], &["run", "--help"])] {
        let (help, known) = (answer(asked), answer(same));
        assert_eq!((help.code, known.code), (Some(0), Some(0)), "{}", help.stderr);
        assert_eq!(help.stdout, known.stdout);
    }
    assert!(answer(&["help", "guest", "list"]).stdout.contains("Usage: tardy guest list"));
    assert!(refused(&["help", "rnu"]).contains("did you mean `run`?"));
}

#[test]
fn a_word_for_a_number_was_an_invalid_digit() {
    for (arguments, says) in [
        (&["run", "--trials", "five"][..], "write a whole number, from 1"),
        (&["plan", "--trials", "0"], "write a whole number, from 1"),
        (&["report", "x", "--trial", "0"], "write a whole number, from 1"),
        (&["report", "x", "--worst", "5000"], "write a whole number, from 1 to 1000"),
    ] {
        let said = refused(arguments);
        assert!(said.contains(says) && !said.contains("digit"), "{arguments:?}: {said}");
    }
}

#[test]
fn a_mistyped_run_folder_was_called_damaged() {
    let folder = tempfile::tempdir().expect("a folder");
    for arguments in [&["report", "nowhere"][..], &["report", "here/nowhere"], &["compare", "nowhere", "nowhere"]] {
        let answer = answer_in(folder.path(), arguments);
        assert_eq!(answer.code, Some(2), "{}", answer.stderr);
        assert!(answer.stderr.starts_with("tardy: there is no folder "), "{}", answer.stderr);
        assert!(!answer.stderr.contains("whole") && !answer.stderr.contains("os error"), "{}", answer.stderr);
    }
}

#[test]
fn any_short_name_was_taken_for_any_other() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("k1.toml"), "name = \"x\"\n").expect("written");
    let said = |name: &str| answer_in(folder.path(), &["plan", name]).stderr;
    assert!(said("rr.toml").contains("there is no such file (name an existing file"), "{}", said("rr.toml"));
    assert!(said("k.toml").contains("did you mean `k1.toml`?"), "{}", said("k.toml"));
}

#[test]
fn a_cpu_that_is_not_there_was_refused_without_its_key_and_its_set() {
    for end in ["tx", "rx"] {
        let set = format!("stream.ctl.{end}.cpu=1023");
        let answer = answer(&["plan", "host-to-host", "--set", &set]);
        assert_eq!(answer.code, Some(3), "{}", answer.stderr);
        let says = format!("tardy: --set {set}: `stream.ctl.{end}.cpu`: CPU 1023 was asked for");
        assert!(answer.stderr.starts_with(&says), "{}", answer.stderr);
    }
    // A `--set` that asks for another thing is not blamed.
    let two = ["plan", "host-to-host", "--set", "stream.ctl.rx.cpu=1023", "--set", "stream.ctl.tx.cpu=auto"];
    assert!(answer(&two).stderr.starts_with("tardy: --set stream.ctl.rx.cpu=1023: "), "{}", answer(&two).stderr);
    let folder = tempfile::tempdir().expect("a folder");
    let text = tardy_tests::experiment("load on a CPU that is not there");
    std::fs::write(folder.path().join("load.toml"), text).expect("written");
    let answer = answer_in(folder.path(), &["plan", "load.toml", "--set", "stream.ctl.count=5"]);
    assert!(
        answer.stderr.starts_with("tardy: load.toml:10:7: `load.x.cpu`: CPU 1023 was asked for"),
        "{}",
        answer.stderr
    );
}

#[test]
fn a_table_in_a_pipe_had_one_width_whatever_columns_said() {
    let folder = tempfile::tempdir().expect("a folder");
    // With a hundred thousand packets a wide table has one more column.
    let sets = ["stream.ctl.port=sim", "stream.ctl.sim.jitter=2us", "stream.ctl.count=25_000"];
    let sets = sets.iter().flat_map(|set| ["--set", set]);
    let answer = answer_in(folder.path(), &["run", "--out", "r"].into_iter().chain(sets).collect::<Vec<_>>());
    assert_eq!(answer.code, Some(0), "{}", answer.stderr);
    let widest = |columns: Option<&str>| {
        let mut command = Command::new(std::fs::canonicalize(tardy()).expect("the program"));
        command.args(["report", "r"]).current_dir(folder.path()).env_remove("COLUMNS").stdin(Stdio::null());
        if let Some(columns) = columns {
            command.env("COLUMNS", columns);
        }
        let output = command.output().expect("it starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let lines = String::from_utf8(output.stdout).expect("text");
        lines.lines().map(|line| line.chars().count()).max().expect("lines")
    };
    let (narrow, usual, wide) = (widest(Some("80")), widest(None), widest(Some("150")));
    assert!(narrow <= 80 && (81..=100).contains(&usual) && (101..=150).contains(&wide), "{narrow} {usual} {wide}");
    assert_eq!(widest(Some("wide")), usual, "what is no number says nothing");
}

#[test]
fn a_mistyped_metric_of_a_condition_got_a_list_without_the_right_one() {
    let folder = tempfile::tempdir().expect("a folder");
    for (condition, says) in [
        ("scheduled..recieve p50 > +2%", "`scheduled..recieve` is no metric (did you mean `scheduled..receive`?)"),
        ("dleta p50 > +2%", "(did you mean `delta`?)"),
        ("latency p50 > +2%", "(write \"scheduled..rx_kernel\" or \"delta\")"),
    ] {
        // Before anything is read: there are no such runs.
        let answer = answer_in(folder.path(), &["compare", "a", "b", "--fail-if", condition]);
        assert_eq!(answer.code, Some(2), "{}", answer.stderr);
        assert!(answer.stderr.contains(says), "{condition}: {}", answer.stderr);
    }
}
