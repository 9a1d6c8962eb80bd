// SPDX-License-Identifier: MIT OR Apache-2.0
//! The one place that starts programs: what it reports of them.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use tardy_lab::command::{Batch, Command};
use tardy_lab::host::runner::{CommandError, Failure, Processes, Runner, failures};

#[test]
fn the_real_runner_tells_what_ran_what_failed_and_what_is_missing() {
    let mut log = Vec::new();
    let mut runner = Processes::new(|ran| log.push((ran.commands[0].to_string(), ran.failures.len())));
    let missing =
        runner.run(&Batch::one(Command::new("tardy-no-such-program", &[]))).expect_err("nothing is called so");
    let told = "program `tardy-no-such-program` is not installed: apt install tardy-no-such-program";
    assert_eq!(missing.to_string(), told);
    let output = runner.run(&Batch::one(Command::new("sh", &["-c", "echo out; echo err >&2; exit 3"]))).unwrap();
    assert_eq!(output.stdout, "out\n");
    assert_eq!(output.failures, [Failure { at: Some(0), says: "err".to_owned() }]);
    let output = runner.run(&Batch::one(Command::new("sh", &["-c", "kill -KILL $$"]))).unwrap();
    assert!(output.failures[0].says.contains("signal: 9"), "{}", output.failures[0].says);
    drop(runner);
    assert_eq!(
        log,
        [("sh -c 'echo out; echo err >&2; exit 3'".to_owned(), 1), ("sh -c 'kill -KILL $$'".to_owned(), 1)]
    );
}

#[test]
fn a_command_that_hangs_is_ended_and_named() {
    let mut told = Vec::new();
    let mut runner =
        Processes::new(|ran| told.push(ran.failures.to_vec())).within(std::time::Duration::from_millis(300));
    // What it has started has its output open, too.
    let hangs = Command::new("sh", &["-c", "echo $$; sleep 600 & sleep 600"]);
    let error = runner.run(&Batch::one(hangs.clone())).expect_err("it never ends");
    assert!(matches!(error, CommandError::TimedOut { .. }), "{error}");
    assert!(error.to_string().contains(&format!("`{hangs}` did not end within")), "{error}");
    drop(runner);
    assert_eq!(told.len(), 1);
    assert_eq!(told[0][0].at, None, "it may have done what it was to do");
}

#[test]
fn a_pipe_that_stays_open_keeps_nobody_waiting() {
    let mut runner = Processes::new(|_| ()).within(std::time::Duration::from_secs(2));
    let leaves = Command::new("sh", &["-c", "sleep 30 >&2 & exit 0"]);
    assert_eq!(runner.run(&Batch::one(leaves)).expect("it has ended").failures, []);
}

#[test]
fn complaints_of_a_batch_are_told_apart_by_line() {
    let failure = |at, says: &str| Failure { at, says: says.to_owned() };
    let code = |code: i32| ExitStatus::from_raw(code << 8);
    let killed = ExitStatus::from_raw(9);
    let stderr = "Cannot find device \"x\"\nCommand failed -:2\nError: one.\nand two\nCommand failed -:5\n";
    let both = [failure(Some(1), "Cannot find device \"x\""), failure(Some(4), "Error: one.; and two")];
    assert_eq!(failures(stderr, code(1), false), both);
    let early = "Cannot open network namespace \"x\": No such file or directory\n";
    assert_eq!(
        failures(early, code(255), true),
        [failure(Some(0), early.trim_end())],
        "a lone command is the one that failed"
    );
    // It is not known at which line it ended, so no line is named.
    assert_eq!(failures(early, code(255), false), [failure(None, early.trim_end())]);
    let [one, other] = both;
    let more = failures(&format!("{stderr}Error: argument \"q\" is wrong\n"), code(255), false);
    assert_eq!(more, [one.clone(), other.clone(), failure(None, "Error: argument \"q\" is wrong")]);
    assert_eq!(failures(stderr, killed, false), [one, other, failure(None, "signal: 9 (SIGKILL)")]);
    for is_lone in [false, true] {
        assert_eq!(failures("", killed, is_lone), [failure(None, "signal: 9 (SIGKILL)")]);
    }
}
