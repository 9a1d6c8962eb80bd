// SPDX-License-Identifier: MIT OR Apache-2.0
//! A run that did not come to its end. What it measured may be used, and every picture says next to
//! VALID how much that is.

use crate::help::tardy;
use crate::report::documents::tags;
use crate::report::sample::{Run, run};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use tardy_model::verdict::{Level, Verdict};

/// What the program prints on stdout, and its exit code.
fn call(folder: &Path, words: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(tardy());
    let output = command.current_dir(folder).args(words).stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|error| panic!("{error}: run `make build` first"));
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The folder of a run that was killed during its second trial of five.
fn killed(folder: &Path) {
    let stream = tardy_tests::experiment("simulated stream");
    let more = "cycle = \"100us\"\ncount = 2_000\n[expect.ctl]\nlost = 0\n";
    fs::write(folder.join("cut.toml"), format!("name = \"cut\"\ntrials = 5\n{stream}{more}")).expect("written");
    let (code, said) = call(folder, &["run", "cut.toml", "--out", "run"]);
    assert_eq!(code, Some(0), "{said}");
    let run = folder.join("run");
    for written in ["results.json", "report.html"] {
        fs::remove_file(run.join(written)).expect("a file of the run");
    }
    (2..=5).for_each(|n| fs::remove_dir_all(run.join(format!("trials/all/{n}"))).expect("a trial"));
    let path = run.join("manifest.json");
    let mut manifest: serde_json::Value =
        serde_json::from_slice(&fs::read(&path).expect("the manifest")).expect("JSON");
    manifest["ended_utc"] = serde_json::Value::Null;
    fs::write(path, manifest.to_string()).expect("written");
}

#[test]
fn a_killed_run_was_valid_in_every_picture_without_a_word_of_the_kill() {
    let keep = tempfile::tempdir().expect("a folder");
    killed(keep.path());
    let report = |words: &[&str]| {
        let (code, said) = call(keep.path(), &[&["report", "run"], words].concat());
        assert_eq!(code, Some(0), "it was rendered: {said}");
        said
    };
    let says = "(1 of 5 trials; the run was killed) expectations met (1 of 1)";
    assert!(report(&[]).contains(&format!("\nVALID        {says}\n")), "{}", report(&[]));
    assert!(report(&[]).contains("\nwarning      the run was killed before its end"), "{}", report(&[]));
    assert!(report(&["--format", "md"]).contains(&format!("**VALID** · {says}")), "{}", report(&["--format", "md"]));
    assert!(report(&["--worst", "3"]).contains(&format!("VALID   {says}\n")), "{}", report(&["--worst", "3"]));
    let page = report(&["--format", "html"]);
    assert!(page.contains(&format!("<strong class=\"doubtful\">VALID</strong> <span>{says}</span>")));
    let xml = report(&["--format", "junit"]);
    let error = tags(&xml).into_iter().find(|tag| tag.name == "error").unwrap_or_else(|| panic!("{xml}"));
    assert_eq!(error.text, "1 of 5 trials; the run was killed");
    assert!(xml.contains("<testcase classname=\"cut.run\" name=\"the run was finished\">"), "{xml}");
    assert!(xml.contains("tests=\"4\" failures=\"0\" errors=\"1\" skipped=\"0\">\n  <testsuite name=\"run\""), "{xml}");
    // So does the heading of a comparison.
    let (_, said) = call(keep.path(), &["compare", "run", "run"]);
    assert!(said.contains(", valid, killed after 1 trial\n"), "{said}");
}

/// The sample's run with a verdict of its own.
fn with(id: &str, level: Level, valid: bool) -> Run {
    let mut run = run(&["all"]);
    run.results.cells[0].trials.truncate(2);
    run.results.verdicts.push(Verdict::new(id, level, "why"));
    run.results.valid = valid;
    run
}

#[test]
fn an_interrupted_run_looked_like_a_whole_one() {
    let text = with("interrupted", Level::Warning, true).draw("text", 100);
    assert!(
        text.contains("\nVALID        (2 of 5 trials; the run was interrupted) expectations met (2 of 2)"),
        "{text}"
    );
    let xml = with("interrupted", Level::Warning, true).draw("junit", 100);
    assert!(xml.contains("<error message=\"2 of 5 trials; the run was interrupted\">"), "{xml}");
    // One that failed is not valid, and says how far it came.
    let text = with("failed", Level::Invalid, false).draw("text", 100);
    assert!(text.contains("\nNOT VALID    (2 of 5 trials; the run failed) do not use these figures; "), "{text}");
    // A cell that the machine cannot run was not cut.
    let mut refused = with("killed", Level::Warning, true);
    let mut entry = refused.manifest.cells[0].clone();
    (entry.id, entry.refused) = ("other".into(), Some("no device".into()));
    refused.manifest.cells.push(entry);
    assert!(refused.draw("text", 100).contains("(2 of 5 trials; the run was killed)"));
}

#[test]
fn not_valid_named_no_limit_that_was_met() {
    let mut bad = run(&["all"]);
    bad.results.valid = false;
    bad.results.expectations.remove(0);
    let line = |run: &Run| {
        let text = run.draw("md", 100);
        text.lines().find(|line| line.starts_with("**NOT VALID**")).unwrap_or_else(|| panic!("{text}")).to_owned()
    };
    let says = "do not use these figures; expectations met (1 of 1, counts only: ctl lost)";
    assert!(line(&bad).contains(says), "{}", line(&bad));
    let mut more = bad.results.expectations[0].clone();
    for name in ["not_sent", "duplicate"] {
        more.metric = name.into();
        bad.results.expectations.push(more.clone());
    }
    let says = "met (3 of 3, counts only: ctl lost, ctl not_sent and 1 more)";
    assert!(line(&bad).contains(says), "{}", line(&bad));
}
