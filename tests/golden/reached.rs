// SPDX-License-Identifier: MIT OR Apache-2.0
//! A machine that is reached over ssh: what OpenSSH's client is asked for, whatever its
//! configuration says, and how long a process waits there that nobody notes.

use crate::help::tardy;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use tardy_engine::message::{read_frame, write_frame};

#[test]
fn keepalives_of_a_configuration_went_over_the_wire_during_trials() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    fs::write(path("two.toml"), tardy_tests::experiment("wire to another machine")).expect("a file");
    let said = path("said");
    fs::write(path("client"), format!("for word; do echo \"$word\"; done >'{}'; exit 255\n", said.display()))
        .expect("a file");
    let mut command = Command::new(tardy());
    command.arg("clocks").arg(path("two.toml")).args(["--allow-hosts", "--count", "1"]);
    let output = command.env("TARDY_SSH", format!("sh {}", path("client").display())).output().expect("tardy starts");
    assert_eq!(output.status.code(), Some(3), "{}", String::from_utf8_lossy(&output.stderr));
    let words = fs::read_to_string(said).expect("the client was called");
    let words: Vec<&str> = words.lines().collect();
    let end = words.iter().position(|word| *word == "--").unwrap_or_else(|| panic!("{words:?}"));
    let options = &words[..end];
    let is_set = |setting: &str| options.windows(2).any(|two| two == ["-o", setting]);
    // What would send by itself, ask somebody, or stay.
    for setting in ["ServerAliveInterval=0", "BatchMode=yes", "ControlMaster=no", "ClearAllForwardings=yes"] {
        assert!(is_set(setting), "{setting}: {words:?}");
    }
    assert_eq!(words[end + 1], "lab2");
    // OpenSSH's own client takes its first word for it.
    let test = "keepalives_of_a_configuration_went_over_the_wire_during_trials";
    fs::write(path("config"), "Host *\n  ServerAliveInterval 5\n  ServerAliveCountMax 3\n").expect("a file");
    let asked = Command::new("ssh").arg("-G").arg("-F").arg(path("config")).args(options).arg("lab2").output();
    let Ok(asked) = asked else { return tardy_tests::skip(test, "ssh is missing (apt install openssh-client)") };
    let asked = String::from_utf8_lossy(&asked.stdout).into_owned();
    assert!(asked.lines().any(|line| line == "serveraliveinterval 0"), "{asked}");
}

/// `tardy noted` that waits for a second at most, with what it says first.
fn waits(program: &[&str]) -> (Child, BufReader<impl Read>) {
    let mut command = Command::new(tardy());
    command.args(["noted", "--within", "1", "--"]).args(program);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut waiting = command.spawn().expect("tardy starts");
    let mut from = BufReader::new(waiting.stdout.take().expect("its stdout"));
    let here = read_frame(&mut from).expect("it says who it is");
    let says = String::from_utf8_lossy(&here).into_owned();
    assert_eq!(says, format!("{{\"pid\":{}}}", waiting.id()));
    (waiting, from)
}

#[test]
fn a_process_waited_for_ever_on_a_machine_that_was_lost_without_a_word() {
    // Its stdin stays open, and nothing comes.
    let (mut waiting, _from) = waits(&["cat"]);
    let input = waiting.stdin.take();
    let ended = waiting.wait_with_output().expect("it ends by itself");
    drop(input);
    let stderr = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(3), "{stderr}");
    assert!(stderr.contains("the run did not note this process within 1 s"), "{stderr}");
}

#[test]
fn a_process_that_was_noted_is_the_program_and_has_no_limit() {
    let (mut waiting, mut from) = waits(&["sh", "-c", "sleep 2; exec cat"]);
    let mut input = waiting.stdin.take().expect("its stdin");
    write_frame(&mut input, b"\"Noted\"").expect("it reads");
    input.write_all(b"for the program\n").expect("it reads");
    let mut line = String::new();
    from.read_line(&mut line).expect("it writes");
    assert_eq!(line, "for the program\n");
    drop(input);
    assert_eq!(waiting.wait().expect("it ends").code(), Some(0));
}
