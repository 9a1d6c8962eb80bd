// SPDX-License-Identifier: MIT OR Apache-2.0
//! A run that is killed, at whatever moment: `undo` puts back what it left.

use super::{as_it_is, cannot, namespaces_of, netns_of, slots, two};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tardy_lab::command as lab;
use tardy_lab::host::HostId;
use tardy_lab::host::applied::applied;
use tardy_lab::host::place::Place;
use tardy_lab::host::runner::{BatchOutput, CommandError, Processes, Runner};
use tardy_lab::machine::{Facts, FactsByHost};
use tardy_lab::names::Names;
use tardy_lab::plan::{Plan, plan};
use tardy_lab::process::Identity;
use tardy_lab::slot::{Slot, other_runs};
use tardy_lab::step::{Action, Inverse, Step};
use tardy_lab::undo::{UndoReport, leftovers, undo_all};

/// Where a test re-executes itself as the run that is going to be killed.
const STATE: &str = "TARDY_TEST_LAB_STATE";
const MOMENTS: u32 = 8;

fn undo_killed(state: &Path) -> UndoReport {
    undo_all(state, &mut Processes::new(|_| ()), &mut |_, _| ()).expect("the state folder can be read")
}

/// This test, as a process of its own.
fn again(test: &str, state: &Path) -> Child {
    again_command(test, state).spawn().expect("this program starts")
}

fn with_moment(mut command: Command, name: &str, moment: usize) -> Child {
    command.env(name, moment.to_string()).spawn().expect("this program starts")
}

fn again_command(test: &str, state: &Path) -> Command {
    let module = module_path!().split_once("::").map_or("", |(_, module)| module);
    let name = if module.is_empty() { test.to_owned() } else { format!("{module}::{test}") };
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", &name, "--nocapture"]).env(STATE, state);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    command
}

fn wait_for(child: &mut Child, word: &str) -> Option<String> {
    let stdout = child.stdout.take().expect("piped");
    BufReader::new(stdout)
        .lines()
        .map_while(Result::ok)
        .find_map(|l| l.split_once(word).map(|(_, rest)| rest.to_owned()))
}

#[test]
fn a_run_that_is_killed_while_it_stands_is_put_back() {
    const TEST: &str = "a_run_that_is_killed_while_it_stands_is_put_back";
    if let Some(state) = std::env::var_os(STATE) {
        let slot = Slot::claim(&PathBuf::from(state)).expect("a slot");
        let plan = two(slot.names());
        let mut runner = Processes::new(|_| ()).holding(&slot).expect("a lock to share");
        let mut host = applied(&plan.steps, slot.journal().expect("a journal"), &mut runner).expect("it can be built");
        // An agent that does not notice that its coordinator is gone.
        let inside = ["netns", "exec", netns_of(plan.ends.at("a").expect("an end")), "sleep", "600"];
        let mut agent = Command::new("ip").args(inside).stdout(Stdio::null()).spawn().expect("ip runs");
        host.note_process(agent.id()).expect("it can be noted");
        println!("STANDING {}", agent.id());
        agent.wait().expect("it sleeps until it is killed");
    }
    skip_unless_possible!("a_run_that_is_killed_while_it_stands_is_put_back");
    let state = tempfile::tempdir().expect("a temporary folder");
    let before = as_it_is();
    let mut run = again(TEST, state.path());
    let agent: u32 = wait_for(&mut run, "STANDING ").expect("it stands").parse().expect("a number");
    let agent = Identity::of(agent).expect("the agent lives");
    let number = slots(state.path())[0];
    assert_eq!(other_runs(state.path()), 1);
    assert!(leftovers(state.path()).expect("readable").is_empty(), "it is alive");
    assert_eq!((undo_killed(state.path()).live, namespaces_of(number).len()), (1, 2), "a live run is left alone");

    run.kill().expect("it can be killed");
    run.wait().expect("it ends");
    assert!(agent.is_alive());
    let left = leftovers(state.path()).expect("readable");
    assert_eq!((left.len(), left[0].slot, left[0].steps, left[0].agents), (1, number, 7, 1));
    let done = undo_killed(state.path());
    assert_eq!((done.live, done.failed.len(), done.undone.len()), (0, 0, 1));
    assert_eq!(done.undone[0].1.agents, 1);
    assert!(!agent.is_alive());
    assert!(namespaces_of(number).is_empty() && slots(state.path()).is_empty());
    assert_eq!(as_it_is(), before);
}

#[test]
fn a_run_that_is_killed_at_any_moment_is_put_back() {
    const TEST: &str = "a_run_that_is_killed_at_any_moment_is_put_back";
    if let Some(state) = std::env::var_os(STATE) {
        let slot = Slot::claim(&PathBuf::from(state)).expect("a slot");
        println!("SLOT {}", slot.number());
        let plan = two(slot.names());
        loop {
            let mut runner = Processes::new(|_| ()).holding(&slot).expect("a lock to share");
            let mut host =
                applied(&plan.steps, slot.journal().expect("a journal"), &mut runner).expect("it can be built");
            host.put_back().expect("it can be put back");
        }
    }
    skip_unless_possible!("a_run_that_is_killed_at_any_moment_is_put_back");
    let before = as_it_is();
    // Spread over some rounds of building and tearing down, each about 40 ms; the seed is the
    // time, printed.
    let seed = std::time::SystemTime::UNIX_EPOCH.elapsed().expect("after 1970").subsec_nanos();
    for moment in 0..MOMENTS {
        let state = tempfile::tempdir().expect("a temporary folder");
        let mut run = again(TEST, state.path());
        let number = wait_for(&mut run, "SLOT ").expect("it has begun").parse().expect("a number");
        let wait = Duration::from_micros(u64::from(seed.wrapping_mul(moment * 2 + 1) % 80_000));
        std::thread::sleep(wait);
        run.kill().expect("it can be killed");
        run.wait().expect("it ends");
        let done = undo_killed(state.path());
        let left = (namespaces_of(number), slots(state.path()));
        assert!(done.failed.is_empty() && done.live == 0, "after {wait:?}: {done:?}");
        assert!(left.0.is_empty() && left.1.is_empty(), "after {wait:?}: {left:?}");
    }
    assert_eq!(as_it_is(), before);
}

#[test]
fn a_name_whose_namespace_was_never_attached_does_not_stop_undo() {
    const TEST: &str = "a_name_whose_namespace_was_never_attached_does_not_stop_undo";
    if let Some(state) = std::env::var_os(STATE) {
        let slot = Slot::claim(&PathBuf::from(state)).expect("a slot");
        let home = slot.names().home();
        // What `ip netns attach` has done when its complaint, which nobody reads any more, ends
        // it: the bare file.
        let does = lab::Command::new("sh", &["-c", &format!("mkdir -p /run/netns; : >/run/netns/{home}")]);
        let place = Place::netns_of(HostId::HERE, &home);
        let undoes = vec![
            Inverse::within(&place, Action::DeleteLink { device: "enp1s0".to_owned() }),
            Inverse::within(&place, Action::DeleteQdisc { device: "enp1s0".to_owned() }),
            Inverse::here(Action::DeleteNamespace { name: home.clone() }),
        ];
        let torn = Step::new(&Place::of(HostId::HERE), "a name without a namespace", vec![does]).undone_by(undoes);
        let plan = Plan { steps: vec![torn], ..Plan::default() };
        let mut runner = Processes::new(|_| ());
        let _host = applied(&plan.steps, slot.journal().expect("a journal"), &mut runner).expect("it is made");
        println!("SLOT {}", slot.number());
        std::thread::sleep(Duration::from_secs(600));
    }
    skip_unless_possible!("a_name_whose_namespace_was_never_attached_does_not_stop_undo");
    let state = tempfile::tempdir().expect("a temporary folder");
    let mut run = again(TEST, state.path());
    let number: u16 = wait_for(&mut run, "SLOT ").expect("it has begun").parse().expect("a number");
    run.kill().expect("it can be killed");
    run.wait().expect("it ends");
    assert_eq!(namespaces_of(number).len(), 1);
    let done = undo_killed(state.path());
    assert!(done.failed.is_empty(), "{done:?}");
    assert!(namespaces_of(number).is_empty() && slots(state.path()).is_empty());
}

#[test]
fn undo_waits_for_the_last_command_of_a_killed_run() {
    const TEST: &str = "undo_waits_for_the_last_command_of_a_killed_run";
    if let Some(state) = std::env::var_os(STATE) {
        let slot = Slot::claim(&PathBuf::from(state)).expect("a slot");
        let late = slot.names().netns("late");
        let does = lab::Command::new("sh", &["-c", &format!("sleep 0.5; ip netns add {late}")]);
        let slow =
            Step::new(&Place::of(HostId::HERE), "a command that is still at work when its run is killed", vec![does])
                .undone_by(vec![Inverse::here(Action::DeleteNamespace { name: late })]);
        let plan = Plan { steps: vec![slow], ..Plan::default() };
        let mut runner = Processes::new(|_| ()).holding(&slot).expect("a lock to share");
        println!("SLOT {}", slot.number());
        let built = applied(&plan.steps, slot.journal().expect("a journal"), &mut runner);
        assert!(built.is_err(), "it is killed before");
    }
    skip_unless_possible!("undo_waits_for_the_last_command_of_a_killed_run");
    let state = tempfile::tempdir().expect("a temporary folder");
    let mut run = again(TEST, state.path());
    let number: u16 = wait_for(&mut run, "SLOT ").expect("it has begun").parse().expect("a number");
    std::thread::sleep(Duration::from_millis(250));
    run.kill().expect("it can be killed");
    run.wait().expect("it ends");
    assert!(namespaces_of(number).is_empty(), "not made yet");
    let done = undo_killed(state.path());
    assert_eq!((done.live, done.failed.len(), done.undone.len()), (0, 0, 1));
    // Had undo not waited, the namespace would come after it.
    std::thread::sleep(Duration::from_millis(600));
    assert!(namespaces_of(number).is_empty() && slots(state.path()).is_empty());
}

/// Runs batches until this number is done, then ends its own process, as the kernel would at that
/// moment.
struct Dies<'a> {
    runner: Processes<'a>,
    batches: usize,
    seen: usize,
    /// When the batch's commands are done, and not before.
    behind: bool,
}

impl Runner for Dies<'_> {
    fn run(&mut self, batch: &lab::Batch) -> Result<BatchOutput, CommandError> {
        let die = || {
            println!("DIES");
            let _ = tardy_sys::process::signal(std::process::id(), libc::SIGKILL);
            std::thread::sleep(Duration::from_secs(600));
        };
        let is_last = self.seen == self.batches;
        self.seen += 1;
        if is_last && !self.behind {
            die();
        }
        let output = self.runner.run(batch);
        if is_last {
            die();
        }
        output
    }
}

/// A path with a queue that steers and, where the kernel has VLAN devices, with devices over
/// devices.
fn elaborate(names: Names) -> Plan {
    let add = ["-n", "ip", "link", "add", "link", "lo", "name", "v", "type", "vlan", "id", "5"];
    let has_vlan = Command::new("unshare").args(add).stderr(Stdio::null()).status().is_ok_and(|it| it.success());
    let tag = if has_vlan { "vlan = 5\npcp = 3\n" } else { "" };
    let text = tardy_tests::experiment("a queue that steers").to_owned() + tag;
    let source = tardy_spec::Source { name: "x.toml".into(), text };
    let experiment = tardy_spec::load(&source, &[]).expect("it loads");
    let found = FactsByHost::from(Facts { usable: tardy_host::cpus::usable(), ..Facts::default() });
    plan(&experiment.cells[0].setup, names, &found).expect("it can be planned")
}

#[test]
fn sigkill_after_every_line_of_the_journal_leaves_nothing_that_undo_cannot_put_back() {
    const TEST: &str = "sigkill_after_every_line_of_the_journal_leaves_nothing_that_undo_cannot_put_back";
    const MOMENT: &str = "TARDY_TEST_LAB_MOMENT";
    if let Some(state) = std::env::var_os(STATE) {
        let moment: usize = std::env::var(MOMENT).expect("a moment").parse().expect("a number");
        let slot = Slot::claim(&PathBuf::from(state)).expect("a slot");
        println!("SLOT {}", slot.number());
        let plan = elaborate(slot.names());
        let runner = Processes::new(|_| ()).holding(&slot).expect("a lock to share");
        let mut runner = Dies { runner, batches: moment / 2, seen: 0, behind: moment % 2 == 1 };
        let mut host = applied(&plan.steps, slot.journal().expect("a journal"), &mut runner).expect("it can be built");
        let inside = ["netns", "exec", netns_of(plan.ends.at("a").expect("an end")), "sleep", "600"];
        let mut agent = Command::new("ip").args(inside).stdout(Stdio::null()).spawn().expect("ip runs");
        host.note_process(agent.id()).expect("it can be noted");
        host.put_back().expect("it can be put back");
        agent.wait().expect("it was ended");
        println!("WHOLE");
        return;
    }
    skip_unless_possible!("sigkill_after_every_line_of_the_journal_leaves_nothing_that_undo_cannot_put_back");
    let before = as_it_is();
    // Before and behind each batch, of the building and of the tearing down; and for each, lines
    // of the last group that did not come to the disk.
    let (mut moment, mut torn, mut lines_before) = (0, 0, 0);
    loop {
        assert!(moment < 200, "no run came to its end");
        let state = tempfile::tempdir().expect("a temporary folder");
        let complaint = tempfile::NamedTempFile::new().expect("a temporary file");
        let mut again = again_command(TEST, state.path());
        again.stderr(complaint.reopen().expect("the same file"));
        let mut run = with_moment(again, MOMENT, moment);
        let said: Vec<String> =
            BufReader::new(run.stdout.take().expect("piped")).lines().map_while(Result::ok).collect();
        run.wait().expect("it ends");
        let whole = said.iter().any(|line| line.contains("WHOLE"));
        // One that failed by itself would be tried for ever.
        let died = said.iter().any(|line| line.contains("DIES"));
        assert!(whole || died, "moment {moment}: {}", std::fs::read_to_string(complaint.path()).unwrap_or_default());
        let number: u16 = said.iter().find_map(|l| l.split_once("SLOT ")?.1.parse().ok()).expect("it has begun");
        let path = state.path().join(format!("slots/{number}/journal.jsonl"));
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        // Behind a batch nothing may be missing: it was on disk before.
        let group = if moment % 2 == 0 && !whole { lines.len().saturating_sub(lines_before) } else { 0 };
        let kept = lines[..lines.len() - torn.min(group)].concat();
        if path.exists() {
            std::fs::write(&path, kept).expect("the journal");
        }
        let done = undo_killed(state.path());
        let left = (namespaces_of(number), slots(state.path()));
        assert!(done.failed.is_empty() && done.live == 0, "moment {moment}, {torn} lines torn: {done:?}");
        assert!(left.0.is_empty() && left.1.is_empty(), "moment {moment}, {torn} lines torn: {left:?}");
        if whole {
            break;
        }
        if torn < group {
            torn += 1;
        } else {
            (moment, torn, lines_before) = (moment + 1, 0, lines.len());
        }
    }
    assert!(moment > 10, "it was killed at {moment} moments");
    assert_eq!(as_it_is(), before);
}
