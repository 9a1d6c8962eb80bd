// SPDX-License-Identifier: MIT OR Apache-2.0
//! Outside layer: other people's tools read what tardy writes. Runs on port `sim` need no root and
//! are exact; the tools are Python's, in the environment that `make setup-test` makes of
//! packaging/requirements.txt.

mod capture;
mod dashboard;
mod fleet;
mod tools;
mod trace;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

// Runs to be read: each is made anew in a folder of its own.

/// A stream over the simulated path; more of the experiment follows.
fn stream() -> &'static str {
    tardy_tests::experiment("simulated stream")
}

/// Nothing goes wrong; figures differ from packet to packet, also by more than 262 µs.
fn sound() -> &'static str {
    tardy_tests::experiment("sound figures for other tools")
}

/// Losses, overtaking, duplicates, early packets, several cells with commas in their ids: not
/// valid.
fn lossy() -> &'static str {
    tardy_tests::experiment("lossy figures for other tools")
}

/// Round trips, each after the one before it: no schedule, no cycle.
const PING_PONG: &str = "kind = \"pingpong\"\ncount = 6_000\n[stream.ctl.sim]\ndelay = \"40us\"\njitter = \"20us\"\n";

/// Through taprio, whose gate for the stream opens twice in each millisecond; a packet in ten
/// comes after its window.
fn gated() -> &'static str {
    tardy_tests::experiment("gated figures for other tools")
}

/// The binary under test.
fn tardy(args: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("TARDY").map_or_else(|| "../dist/tardy".into(), PathBuf::from));
    command.args(args).stdin(Stdio::null());
    command
}

fn output(command: &mut Command) -> Output {
    command.output().expect("the program starts")
}

/// A run folder, and a folder for what is made of it.
struct Run {
    dir: TempDir,
}

impl Run {
    fn begin(name: &str, more: &str) -> (Run, Command) {
        let run = Run { dir: TempDir::with_prefix("tardy-outside-").expect("a temporary folder") };
        let file = run.path("experiment-asked.toml");
        std::fs::write(&file, format!("name = \"{name}\"\n{more}")).expect("a file");
        let mut command = tardy(&["run"]);
        command.arg(file).arg("--out").arg(run.out()).env("TARDY_STATE", run.path("state"));
        (run, command)
    }

    /// A simulated run that ends with this code.
    fn simulated(name: &str, more: &str, code: i32) -> Run {
        let (run, mut command) = Run::begin(name, &format!("trials = 3\n{}{more}", stream()));
        let ended = output(&mut command);
        assert_eq!(ended.status.code(), Some(code), "{}", String::from_utf8_lossy(&ended.stderr));
        run
    }

    /// A simulated run that was killed after some trials were finished.
    fn killed() -> Run {
        let (run, mut command) = Run::begin("killed", &format!("trials = 500\n{}count = 4_000\n", stream()));
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("tardy starts");
        let until = Instant::now() + Duration::from_secs(60);
        let some = || (1..=3).all(|n| run.out().join(format!("trials/all/{n}")).is_dir());
        while !some() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(2));
        }
        child.kill().expect("SIGKILL");
        child.wait().expect("it ends");
        assert!(some(), "three trials within a minute");
        assert!(!run.out().join("results.json").exists(), "it was killed before its end");
        run
    }

    /// A run of which a cell was refused; needs the right to make namespaces.
    fn refused() -> Run {
        let (run, mut command) = Run::begin("refused", tardy_tests::experiment("wait that veth refuses"));
        let ended = output(&mut command);
        assert_eq!(ended.status.code(), Some(4), "{}", String::from_utf8_lossy(&ended.stderr));
        run
    }

    fn out(&self) -> PathBuf {
        self.path("run")
    }

    /// Any file next to it.
    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The results as they are judged from the folder, in a file.
    fn results(&self) -> PathBuf {
        let path = self.path("judged.json");
        let mut command = tardy(&["report", "--format", "json", "-o"]);
        let ended = output(command.arg(&path).arg(self.out()));
        assert_eq!(ended.status.code(), Some(0), "{}", String::from_utf8_lossy(&ended.stderr));
        path
    }

    /// `tardy export RUN --to TOOL`, with what it printed and told.
    fn export(&self, to: &str) -> Output {
        output(tardy(&["export", "--to", to]).arg(self.out()))
    }

    /// The same into a file next to the run, with what it printed.
    fn exported(&self, to: &str) -> (PathBuf, String) {
        let path = self.path(&format!("exported.{to}"));
        let ended = output(tardy(&["export", "--to", to, "-o"]).arg(&path).arg(self.out()));
        let told = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(ended.status.code(), Some(0), "{told}");
        assert!(ended.stdout.is_empty(), "with -o, nothing goes to stdout");
        (path, told)
    }
}

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).expect("a text file")
}
