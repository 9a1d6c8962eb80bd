// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `tardy` program as a user starts it: its arguments, its exit, what it wrote, what it left
//! on the machine.

use serde_json::Value;
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The binary under test.
pub fn tardy() -> PathBuf {
    std::env::var_os("TARDY").map_or_else(|| "../dist/tardy".into(), PathBuf::from)
}

/// Two tests run at a time. One that measures, or that compares what is on the machine, has the
/// machine to itself.
static MACHINE: RwLock<()> = RwLock::new(());

/// How a test holds the machine. It ends with the test's thread, whether or not the test passed.
enum Held {
    Shared(#[expect(dead_code, reason = "it is held")] RwLockReadGuard<'static, ()>),
    Alone(#[expect(dead_code, reason = "it is held")] RwLockWriteGuard<'static, ()>),
}

thread_local! {
    static HELD: RefCell<Option<Held>> = const { RefCell::new(None) };
}

/// Waits until no other test runs, and keeps others from running until this test ends.
pub fn alone() {
    HELD.with_borrow_mut(|held| {
        if !matches!(held, Some(Held::Alone(_))) {
            // Let go first: two that wait for each other's share would wait for ever.
            drop(held.take());
            *held = Some(Held::Alone(MACHINE.write().unwrap_or_else(PoisonError::into_inner)));
        }
    });
}

/// Waits until no test runs that has the machine to itself.
pub fn beside_others() {
    HELD.with_borrow_mut(|held| {
        if held.is_none() {
            *held = Some(Held::Shared(MACHINE.read().unwrap_or_else(PoisonError::into_inner)));
        }
    });
}

/// True if the machine lets this test make namespaces; else it is skipped and counted. The test
/// has the machine to itself.
pub fn can_run(test: &str) -> bool {
    alone();
    may_build(test)
}

/// The same for a test whose assertions hold however busy the machine is.
pub fn can_run_beside_others(test: &str) -> bool {
    beside_others();
    may_build(test)
}

fn may_build(test: &str) -> bool {
    let can = tardy_sys::process::may_build();
    if !can {
        tardy_tests::skip(test, "making network namespaces needs CAP_NET_ADMIN and CAP_SYS_ADMIN");
    }
    can
}

/// A short experiment: the ready-made one with few packets, so that a test takes seconds.
pub const SHORT: [&str; 4] = ["--trials", "2", "--set", "stream.ctl.count=1000"];

/// A run in a folder of its own, with a state folder of its own.
pub struct Place {
    dir: TempDir,
}

pub struct Finished {
    /// Exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
    /// `results.json`, if it wrote one.
    pub results: Value,
}

impl Place {
    pub fn new() -> Self {
        Place { dir: TempDir::with_prefix("tardy-test-").expect("a temporary folder") }
    }
    pub fn out(&self) -> PathBuf {
        self.dir.path().join("run")
    }
    pub fn state(&self) -> PathBuf {
        self.dir.path().join("state")
    }
    /// Any file next to them.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
    /// The command `tardy run … --out OUT`, in this place.
    pub fn run(&self, args: &[&str]) -> Command {
        let mut command = self.command("run");
        command.args(args).arg("--out").arg(self.out());
        command
    }
    pub fn command(&self, verb: &str) -> Command {
        let mut command = Command::new(tardy());
        command.arg(verb).env("TARDY_STATE", self.state()).stdin(Stdio::null());
        command
    }
    pub fn start(&self, command: &mut Command) -> Child {
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("tardy starts")
    }
    pub fn finish(&self, child: Child) -> Finished {
        self.finished(child.wait_with_output().expect("tardy ends"))
    }
    /// Runs it to its end.
    pub fn call(&self, command: &mut Command) -> Finished {
        let child = self.start(command);
        self.finish(child)
    }
    fn finished(&self, output: Output) -> Finished {
        let results = std::fs::read(self.out().join("results.json")).ok();
        Finished {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            results: results.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or(Value::Null),
        }
    }
    /// Lines of `events.jsonl` so far.
    pub fn events(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.out().join("events.jsonl")).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }
    /// Waits until an event has happened, bounded.
    pub fn wait_for(&self, event: &str) -> Value {
        let found = wait(Duration::from_secs(30), || self.events().into_iter().find(|line| line["event"] == event));
        found.unwrap_or_else(|| panic!("no event `{event}` within 30 s: {:?}", self.events()))
    }
    /// An agent's process id, once the run has built its path.
    pub fn agent(&self, station: &str) -> u32 {
        self.wait_for("built")["pids"][station].as_u64().expect("a process id") as u32
    }
    pub fn netns(&self, station: &str) -> String {
        self.wait_for("built")["stations"][station]["netns"].as_str().expect("a namespace").to_owned()
    }
    pub fn undo(&self) -> Finished {
        self.call(&mut self.command("undo"))
    }
}

impl Finished {
    /// What it said on stderr, without what the doctor says of this machine.
    pub fn said(&self) -> Vec<&str> {
        self.stderr.lines().filter(|line| !line.starts_with("tardy: doctor: ")).collect()
    }

    /// Exit 0, or 4 with a measured reason.
    pub fn ran(&self) -> &Self {
        let reasons = self.ids("invalid");
        assert!(
            self.code == Some(0) || (self.code == Some(4) && !reasons.is_empty()),
            "exit {:?}, reasons {reasons:?}\n{}\n{}",
            self.code,
            self.stdout,
            self.stderr
        );
        assert_eq!(self.own_traces(), Vec::<&Value>::new(), "tardy shows in its figures\n{}", self.stdout);
        self
    }
    /// Where tardy shows in its own figures; what something else had made necessary is none of
    /// these.
    pub fn own_traces(&self) -> Vec<&Value> {
        let is_own =
            |verdict: &&Value| verdict["id"] == "own-trace" && verdict["evidence"]["position"] != "forced-interval";
        verdicts(&self.results).into_iter().filter(is_own).collect()
    }
    pub fn cell(&self) -> &Value {
        &self.results["cells"][0]
    }
    /// Ids of all verdicts of this level, of the run, its cells and their trials.
    pub fn ids(&self, level: &str) -> Vec<String> {
        let mut ids: Vec<String> = verdicts(&self.results)
            .into_iter()
            .filter(|verdict| verdict["level"] == level)
            .filter_map(|verdict| verdict["id"].as_str().map(str::to_owned))
            .collect();
        ids.sort();
        ids.dedup();
        ids
    }
    /// The injected fault's verdict makes the run invalid, and nothing else does. What the
    /// hypervisor takes from this shared machine is not the test's doing and allowed for.
    pub fn only(&self, id: &str) -> &Self {
        let ids: Vec<String> = self.ids("invalid").into_iter().filter(|found| found != "steal").collect();
        assert_eq!(ids, [id], "{}\n{}", self.stdout, self.stderr);
        self
    }
    /// A metric of stream `ctl` in the only cell.
    pub fn metric(&self, name: &str) -> &Value {
        &self.cell()["streams"]["ctl"]["metrics"][name]
    }
    /// An outcome of stream `ctl` in the only cell, over all of its trials.
    pub fn outcome(&self, name: &str) -> u64 {
        let each = each(self.cell(), "ctl", name);
        if each.is_empty() { u64::MAX } else { each.iter().sum() }
    }
}

/// An outcome in each trial of a cell. Its own counts leave out trials that a busy machine made
/// invalid.
pub fn each(cell: &Value, stream: &str, outcome: &str) -> Vec<u64> {
    let trials = cell["trials"].as_array().into_iter().flatten();
    trials.filter_map(|trial| trial["streams"][stream]["outcomes"][outcome].as_u64()).collect()
}

fn verdicts(value: &Value) -> Vec<&Value> {
    let own = value["verdicts"].as_array().into_iter().flatten();
    let inner = ["cells", "trials"].into_iter().flat_map(|key| value[key].as_array().into_iter().flatten());
    own.chain(inner.flat_map(verdicts)).collect()
}

/// Looks until there is something, bounded.
pub fn wait<T>(limit: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let until = Instant::now() + limit;
    loop {
        match look() {
            None if Instant::now() < until => std::thread::sleep(Duration::from_millis(5)),
            found => return found,
        }
    }
}

/// What a run could leave behind: namespaces, links, queue disciplines. The test has the machine to
/// itself from then on.
pub fn machine() -> String {
    alone();
    let say = |program: &str, args: &[&str]| {
        let output = Command::new(program).args(args).output().expect("ip and tc are installed");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let links = say("ip", &["-br", "link"]);
    say("ip", &["netns"]) + &links + &say("tc", &["qdisc"])
}

/// The machine is as it was `before`; runs of others on the same machine come and go, so it may
/// take a moment.
pub fn same(before: &str) {
    if wait(Duration::from_secs(20), || (machine() == before).then_some(())).is_none() {
        assert_eq!(machine(), before);
    }
}

/// Processes `tardy agent` of runs in this place: they inherit its state folder.
pub fn agents(place: &Place) -> Vec<u32> {
    let state = place.state().display().to_string();
    let is_agent = |pid: &u32| {
        let read = |file: &str| std::fs::read(Path::new("/proc").join(pid.to_string()).join(file)).unwrap_or_default();
        let line = read("cmdline");
        let mut words = line.split(|byte| *byte == 0);
        let agent = words.next().is_some_and(|program| program.ends_with(b"tardy")) && words.next() == Some(b"agent");
        agent && String::from_utf8_lossy(&read("environ")).split('\0').any(|v| v == format!("TARDY_STATE={state}"))
    };
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(is_agent).collect()
}
