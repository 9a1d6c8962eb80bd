// SPDX-License-Identifier: MIT OR Apache-2.0
//! Outside layer: other people's tools read what tardy writes. Runs on port `sim` need no root and
//! are exact; the tools are Python's, in the environment that `make setup-test` makes of
//! packaging/requirements.txt.

mod tools;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

// Runs to be read: each is made anew in a folder of its own.

/// A stream over the simulated path; more of the experiment follows.
const STREAM: &str = "[station.a]\n[station.b]\n[stream.ctl]\nfrom = \"a\"\nto = \"b\"\nport = \"sim\"\n";

/// Nothing goes wrong; figures differ from packet to packet, also by more than 262 µs.
const SOUND: &str = "count = 20_000\n[stream.ctl.sim]\njitter = \"50us\"\nlate_share = 0.02\nlate = \"400us\"\nwake = \"3us\"\n\
    [expect.ctl]\nlost = 0\n\"scheduled..rx_kernel\" = [\"p99 < 1ms\", \"max < 3ms\"]\n";

/// Losses, overtaking, duplicates, early packets, several cells with commas in their ids: not
/// valid.
const LOSSY: &str = "count = 6_000\n[stream.ctl.sim]\njitter = \"50us\"\nreorder = 0.02\nduplicate = 0.01\nloss = 0.004\n\
    late_share = 0.1\nlate = \"700us\"\nstamps_after = 40\n\
    [matrix]\n\"stream.ctl.rx.wait\" = [\"block\", \"poll\"]\n\"stream.ctl.tx.advance\" = [\"0us\", \"30us\"]\n\
    [expect.ctl]\nlost = 0\n\"scheduled..rx_kernel\" = \"p99.9 < 60us\"\n";

/// Round trips, each after the one before it: no schedule, no cycle.
const PING_PONG: &str = "kind = \"pingpong\"\ncount = 6_000\n[stream.ctl.sim]\ndelay = \"40us\"\njitter = \"20us\"\n";

/// Through taprio, whose gate for the stream opens twice in each millisecond; a packet in ten
/// comes after its window.
const GATED: &str = "count = 2_000\ncycle = \"500us\"\npriority = 3\n[stream.ctl.sim]\nlate_share = 0.1\nlate = \"300us\"\n\
    [shaper]\nkind = \"taprio\"\nclasses = 4\nmap = [3, 3, 3, 1, 3, 0, 3, 2, 3, 3, 3, 3, 3, 3, 3, 3]\n\
    entries = [\"3 100us\", \"0 100us\", \"1 100us\", \"2 200us\", \"3 100us\", \"0 100us\", \"1 100us\", \"2 200us\"]\n";

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
        let (run, mut command) = Run::begin(name, &format!("trials = 3\n{STREAM}{more}"));
        let ended = output(&mut command);
        assert_eq!(ended.status.code(), Some(code), "{}", String::from_utf8_lossy(&ended.stderr));
        run
    }

    /// A simulated run that was killed after some trials were finished.
    fn killed() -> Run {
        let (run, mut command) = Run::begin("killed", &format!("trials = 500\n{STREAM}count = 4_000\n"));
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
        let more = "trials = 1\n[station.a]\n[station.b]\n[stream.ctl]\nfrom = \"a\"\nto = \"b\"\ncount = 200\n\
            [matrix]\n\"stream.ctl.rx.wait\" = [\"block\", \"busypoll\"]\n";
        let (run, mut command) = Run::begin("refused", more);
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
