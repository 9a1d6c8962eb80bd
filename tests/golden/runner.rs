// SPDX-License-Identifier: MIT OR Apache-2.0
//! The one place that starts programs: what it tells of them.

use tardy_lab::command::{Batch, Command};
use tardy_lab::runner::{Failure, Processes, Runner};

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
    assert_eq!(output.failures, [Failure { index: 0, says: "err".to_owned() }]);
    let output = runner.run(&Batch::one(Command::new("sh", &["-c", "kill -KILL $$"]))).unwrap();
    assert!(output.failures[0].says.contains("signal: 9"), "{}", output.failures[0].says);
    drop(runner);
    assert_eq!(
        log,
        [("sh -c 'echo out; echo err >&2; exit 3'".to_owned(), 1), ("sh -c 'kill -KILL $$'".to_owned(), 1)]
    );
}
