// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages for a command line that is mistyped: each test is named after an answer that led
//! nowhere.

use crate::help::tardy;
use std::path::Path;
use std::process::{Command, Stdio};

/// How the program ended, and what it printed on both.
struct Answer {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

fn call_in(folder: &Path, arguments: &[&str]) -> Answer {
    let program = std::fs::canonicalize(tardy()).expect("run `make build` first");
    let mut command = Command::new(program);
    command.args(arguments).current_dir(folder).env_remove("COLUMNS").stdin(Stdio::null());
    let output = command.output().expect("it starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Answer { code: output.status.code(), stdout: text(&output.stdout), stderr: text(&output.stderr) }
}

fn call(arguments: &[&str]) -> Answer {
    call_in(Path::new("."), arguments)
}

/// The message for a call that is wrong.
fn refused(arguments: &[&str]) -> String {
    let answer = call(arguments);
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
    let plan = |more: &[&str]| call_in(folder.path(), &[&["plan", "x.toml"], more].concat());
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
        said.contains("Verbs: run, plan, report, compare, guest, hints, undo, schema, export, man, completions\n"),
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
        let (help, known) = (call(asked), call(same));
        assert_eq!((help.code, known.code), (Some(0), Some(0)), "{}", help.stderr);
        assert_eq!(help.stdout, known.stdout);
    }
    assert!(call(&["help", "guest", "list"]).stdout.contains("Usage: tardy guest list"));
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
        let answer = call_in(folder.path(), arguments);
        assert_eq!(answer.code, Some(2), "{}", answer.stderr);
        assert!(answer.stderr.starts_with("tardy: there is no folder "), "{}", answer.stderr);
        assert!(!answer.stderr.contains("whole") && !answer.stderr.contains("os error"), "{}", answer.stderr);
    }
}

#[test]
fn any_short_name_was_taken_for_any_other() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("k1.toml"), "name = \"x\"\n").expect("written");
    let said = |name: &str| call_in(folder.path(), &["plan", name]).stderr;
    assert!(said("rr.toml").contains("there is no such file (name an existing file"), "{}", said("rr.toml"));
    assert!(said("k.toml").contains("did you mean `k1.toml`?"), "{}", said("k.toml"));
}

#[test]
fn a_cpu_that_is_not_there_was_refused_without_its_key_and_its_set() {
    for end in ["tx", "rx"] {
        let set = format!("stream.ctl.{end}.cpu=1023");
        let answer = call(&["plan", "host-to-host", "--set", &set]);
        assert_eq!(answer.code, Some(3), "{}", answer.stderr);
        let says = format!("tardy: --set {set}: `stream.ctl.{end}.cpu`: CPU 1023 was asked for");
        assert!(answer.stderr.starts_with(&says), "{}", answer.stderr);
    }
    // A `--set` that asks for another thing is not blamed.
    let two = ["plan", "host-to-host", "--set", "stream.ctl.rx.cpu=1023", "--set", "stream.ctl.tx.cpu=auto"];
    assert!(call(&two).stderr.starts_with("tardy: --set stream.ctl.rx.cpu=1023: "), "{}", call(&two).stderr);
    let folder = tempfile::tempdir().expect("a folder");
    let text = tardy_tests::experiment("load on a CPU that is not there");
    std::fs::write(folder.path().join("load.toml"), text).expect("written");
    let answer = call_in(folder.path(), &["plan", "load.toml", "--set", "stream.ctl.count=5"]);
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
    let answer = call_in(folder.path(), &["run", "--out", "r"].into_iter().chain(sets).collect::<Vec<_>>());
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
        let answer = call_in(folder.path(), &["compare", "a", "b", "--fail-if", condition]);
        assert_eq!(answer.code, Some(2), "{}", answer.stderr);
        assert!(answer.stderr.contains(says), "{condition}: {}", answer.stderr);
    }
}
