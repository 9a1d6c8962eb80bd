// SPDX-License-Identifier: MIT OR Apache-2.0
//! The jobs of the chapter on CI, run by the shell with a `tardy` that only has an exit code.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// Every exit code of the contract.
const CODES: [i32; 7] = [0, 1, 2, 3, 4, 5, 130];

/// The shell snippets of the chapter that run an experiment.
fn jobs() -> Vec<String> {
    snippets("ci.md").into_iter().filter(|code| code.contains("tardy run")).collect()
}

/// Those of them that measure a run by itself, and those that compare two.
fn kinds() -> [Vec<String>; 2] {
    let (two, one) = jobs().into_iter().partition(|job| job.contains("tardy compare"));
    [one, two]
}

/// All shell snippets of a chapter.
pub fn snippets(chapter: &str) -> Vec<String> {
    let text = fs::read_to_string(Path::new("../docs/how-to").join(chapter)).expect("the chapter");
    let blocks = text.split("```sh\n").skip(1).filter_map(|rest| rest.split_once("```"));
    blocks.map(|(code, _)| code.to_owned()).collect()
}

/// A program of this name that does what the shell makes of a script.
pub fn program(folder: &Path, name: &str, script: &str) {
    let path = folder.join(name);
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("executable");
}

/// How a job ends and how often it ran the experiment, if `tardy` ends with these codes, the last
/// one again and again. CI systems run a job's script with `-e` and without.
fn job(snippet: &str, codes: &[i32], strict: bool) -> (i32, usize) {
    let keep = tempfile::tempdir().expect("a folder");
    let folder = keep.path();
    program(folder, "sudo", "exec \"$@\"");
    // The artifact that a job begins with, and the one that it leaves.
    program(folder, "tar", "exit 0");
    let codes: Vec<String> = codes.iter().map(ToString::to_string).collect();
    let script = format!(
        "echo $1 >> calls\nset -- {}\nn=$(wc -l < calls)\n[ $n -le $# ] || n=$#\nshift $((n - 1))\nexit $1",
        codes.join(" ")
    );
    program(folder, "tardy", &script);
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default());
    let mut shell = Command::new("sh");
    if strict {
        shell.arg("-e");
    }
    let ended = shell.args(["-c", snippet]).current_dir(folder).env("PATH", path).output().expect("a shell");
    let calls = fs::read_to_string(folder.join("calls")).map_or(0, |calls| calls.lines().count());
    (ended.status.code().expect("no signal"), calls)
}

#[test]
fn no_job_of_the_chapter_on_ci_succeeds_without_an_answer() {
    let [jobs, _] = kinds();
    assert_eq!(jobs.len(), 2, "one that runs once, one that runs again");
    for (snippet, strict) in jobs.iter().flat_map(|job| [(job, false), (job, true)]) {
        for code in CODES {
            let (ended, calls) = job(snippet, &[code], strict);
            assert_eq!(ended, code, "{snippet}");
            let most = if code == 4 && snippet.contains("for try") { 3 } else { 1 };
            assert_eq!(calls, most, "code {code}: {snippet}");
        }
    }
}

#[test]
fn a_broken_expectation_is_not_run_again_until_it_is_met() {
    let again = jobs().into_iter().find(|job| job.contains("for try")).expect("a job that runs again");
    assert_eq!(job(&again, &[1, 0], true), (1, 1));
    assert_eq!(job(&again, &[4, 1, 0], true), (1, 2), "the second try has an answer");
    assert_eq!(job(&again, &[4, 0], true), (0, 2));
    assert_eq!(job(&again, &[4, 4, 4, 0], true), (4, 3));
}

#[test]
fn a_job_that_compares_ends_with_the_first_code_that_is_no_success() {
    let [_, jobs] = kinds();
    let runs = |job: &String| job.matches("tardy run").count();
    assert_eq!(jobs.iter().map(runs).collect::<Vec<_>>(), [2, 1], "with both runs made here, with a kept one");
    for (snippet, strict) in jobs.iter().flat_map(|job| [(job, false), (job, true)]) {
        for step in 0..=runs(snippet) {
            for code in CODES {
                let codes: Vec<i32> = std::iter::repeat_n(0, step).chain([code]).collect();
                let (ended, calls) = job(snippet, &codes, strict);
                assert_eq!(ended, code, "step {step}: {snippet}");
                let most = if code == 0 { runs(snippet) + 1 } else { step + 1 };
                assert_eq!(calls, most, "nothing is compared without two runs: step {step}, code {code}: {snippet}");
            }
        }
    }
}
