// SPDX-License-Identifier: MIT OR Apache-2.0
//! The plan carried out by the real kernel: everything comes, works, and goes again, also after a
//! kill.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tardy_lab::command::{self as lab};
use tardy_lab::host::applied::applied;
use tardy_lab::host::place::Place;
use tardy_lab::host::runner::{BatchOutput, CommandError, Processes, Runner};
use tardy_lab::host::{ApplyError, HostId};
use tardy_lab::inverse::{Action, Inverse};
use tardy_lab::machine::{Facts, FactsByHost};
use tardy_lab::names::Names;
use tardy_lab::path::LinkEnd;
use tardy_lab::plan::{Plan, plan};
use tardy_lab::process::Identity;
use tardy_lab::slot::{Slot, other_runs};
use tardy_lab::step::Step;
use tardy_lab::undo::{UndoReport, leftovers, undo_all};
use tardy_model::path::PathKind;
use tardy_model::shaper::Shaper;
use tardy_model::station::StationKind;
use tardy_spec::experiment::{self, Setup, Softirq, Station};

/// Where a test re-executes itself as the run that is going to be killed.
const STATE: &str = "TARDY_TEST_LAB_STATE";
const MOMENTS: u32 = 8;

pub fn two(names: Names) -> Plan {
    let setup = Setup {
        stations: ["a", "b"].map(|name| (name.to_owned(), Station::here(StationKind::Netns))).into(),
        path: experiment::Path::made(PathKind::Veth, 4, 1400),
        shaper: Shaper::None,
        streams: Vec::new(),
        loads: Vec::new(),
        softirq: Softirq::default(),
    };
    plan(&setup, names, &FactsByHost::default()).expect("two stations can be joined")
}

/// The network namespace of an end.
pub fn netns_of(end: &LinkEnd) -> &str {
    end.place.netns().expect("a station's own namespace")
}

/// Why namespaces cannot be made here, if they cannot.
pub fn cannot() -> Option<String> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let capabilities = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?.trim();
    let needed = 1u64 << 12 | 1 << 21;
    if u64::from_str_radix(capabilities, 16).ok()? & needed != needed {
        return Some("needs CAP_NET_ADMIN and CAP_SYS_ADMIN".to_owned());
    }
    Command::new("ip").arg("-V").output().err().map(|error| format!("program `ip`: {error}"))
}

macro_rules! skip_unless_possible {
    ($test:literal) => {
        if let Some(reason) = cannot() {
            tardy_tests::skip($test, &reason);
            return;
        }
    };
}

fn says(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output().expect("the program is there");
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// The host's own links and qdiscs. Other tests' namespaces come and go meanwhile, so the tests
/// look for their own by name.
fn as_it_is() -> (String, String) {
    (says("ip", &["-br", "link"]), says("tc", &["qdisc"]))
}

pub fn namespaces_of(slot: u16) -> BTreeSet<String> {
    let prefix = format!("tardy-{slot}-");
    let all = says("ip", &["netns"]);
    all.lines().filter_map(|l| l.split(' ').next()).filter(|n| n.starts_with(&prefix)).map(str::to_owned).collect()
}

pub fn slots(state: &Path) -> Vec<u16> {
    let Ok(entries) = std::fs::read_dir(state.join("slots")) else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

fn received(end: &LinkEnd) -> u64 {
    let json = says("ip", &["-n", netns_of(end), "-j", "-s", "link", "show", "dev", &end.device]);
    let link: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    link[0]["stats64"]["rx"]["packets"].as_u64().expect("a count")
}

fn send_one(from: &LinkEnd, to: &LinkEnd) {
    let send = format!("echo x >/dev/udp/{}/9", to.address);
    let sent = Command::new("ip").args(["netns", "exec", netns_of(from), "bash", "-c", &send]).status();
    assert!(sent.expect("ip runs").success());
}

/// The commands that read back what the kernel made of a plan.
fn asked(plan: &Plan) -> Vec<lab::Command> {
    plan.read_back.iter().map(|question| question.command.clone()).collect()
}

fn undo_killed(state: &Path) -> UndoReport {
    undo_all(state, &mut Processes::new(|_| ()), &mut |_, _| ()).expect("the state folder can be read")
}

#[test]
fn what_is_built_carries_packets_and_goes_again() {
    skip_unless_possible!("what_is_built_carries_packets_and_goes_again");
    let state = tempfile::tempdir().expect("a temporary folder");
    let slot = Slot::claim(state.path()).expect("a slot");
    let plan = two(slot.names());
    let before = as_it_is();
    let mut commands = 0;
    let mut runner = Processes::new(|ran| commands += ran.commands.len()).holding(&slot).expect("a lock to share");
    let mut host = applied(&plan.steps, slot.journal().expect("a journal"), &mut runner).expect("it can be built");

    assert_eq!(namespaces_of(slot.number()).len(), 2);
    assert_eq!(as_it_is(), before, "nothing shows on the host while it stands");
    let read = host.read_back(&asked(&plan)).expect("it can be read back");
    assert_eq!(read.len(), 6);
    for (i, (name, peer)) in [("a", "b"), ("b", "a")].into_iter().enumerate() {
        let says = |at: usize| -> serde_json::Value { serde_json::from_str(read[at].says.text()).expect("JSON") };
        let (link, neigh) = (says(2 * i)[0].clone(), says(2 * i + 1)[0].clone());
        assert_eq!(link["ifname"], plan.ends.at(name).expect("an end").device);
        assert_eq!(
            (&link["mtu"], &link["num_tx_queues"], &link["num_rx_queues"]),
            (&1400.into(), &4.into(), &4.into())
        );
        assert!(link["flags"].as_array().is_some_and(|flags| flags.iter().any(|flag| flag == "UP")));
        let addresses = link["addr_info"].as_array().expect("addresses");
        assert_eq!(addresses.len(), 1, "no IPv6 address of its own: {link}");
        assert_eq!(addresses[0]["local"], plan.ends.at(name).expect("an end").address.to_string());
        assert_eq!(neigh["dst"], plan.ends.at(peer).expect("an end").address.to_string());
        assert_eq!(neigh["state"], serde_json::json!(["PERMANENT"]));
        assert_eq!(says(4 + i)[0]["kind"], "noqueue", "{:?}", read[4 + i].says);
    }

    let (a, b) = (plan.ends.at("a").expect("an end"), plan.ends.at("b").expect("an end"));
    assert_eq!((received(a), received(b)), (0, 0), "no chatter");
    send_one(a, b);
    // The port is closed: a port-unreachable comes back. Two packets, and no ARP.
    assert_eq!((received(a), received(b)), (1, 1));

    let put = host.put_back().expect("it can be put back");
    assert_eq!((put.steps, put.agents), (7, 0));
    drop(host);
    drop(runner);
    assert_eq!(commands, 13 + 6 + 3);
    assert_eq!(namespaces_of(slot.number()).len(), 0);
    assert_eq!(as_it_is(), before);
    drop(slot);
    assert!(slots(state.path()).is_empty());
}

#[test]
fn two_slots_stand_at_once() {
    skip_unless_possible!("two_slots_stand_at_once");
    let state = tempfile::tempdir().expect("a temporary folder");
    let runs = || {
        let slot = Slot::claim(state.path()).expect("a slot");
        let plan = two(slot.names());
        let mut runner = Processes::new(|_| ());
        let mut host = applied(&plan.steps, slot.journal().expect("a journal"), &mut runner).expect("it can be built");
        send_one(plan.ends.at("b").expect("an end"), plan.ends.at("a").expect("an end"));
        assert_eq!(received(plan.ends.at("a").expect("an end")), 1);
        host.put_back().expect("it can be put back");
        slot
    };
    let numbers: Vec<u16> = std::thread::scope(|scope| {
        let both = [scope.spawn(runs), scope.spawn(runs)];
        let both = both.map(|run| run.join().expect("no panic"));
        both.iter().map(Slot::number).collect()
    });
    assert_ne!(numbers[0], numbers[1]);
    assert!(numbers.iter().all(|number| namespaces_of(*number).is_empty()));
}

#[test]
fn a_name_that_another_has_taken_stays_the_others() {
    skip_unless_possible!("a_name_that_another_has_taken_stays_the_others");
    let state = tempfile::tempdir().expect("a temporary folder");
    let slot = Slot::claim(state.path()).expect("a slot");
    let plan = two(slot.names());
    let taken = netns_of(plan.ends.at("b").expect("an end"));
    says("ip", &["netns", "add", taken]);
    let mut runner = Processes::new(|_| ());
    let error =
        applied(&plan.steps, slot.journal().expect("a journal"), &mut runner).err().expect("b's namespace is taken");
    let left = namespaces_of(slot.number());
    says("ip", &["netns", "del", taken]);
    assert!(
        matches!(&error, ApplyError::Failed { command, .. } if command.to_string() == format!("ip netns add {taken}"))
    );
    assert!(error.to_string().contains("File exists"), "{error}");
    assert_eq!(left, BTreeSet::from([taken.to_owned()]), "a's is gone, the other's is not");

    // A number whose names are in use is passed over.
    says("ip", &["netns", "add", taken]);
    let number = slot.number();
    drop(slot);
    let next = Slot::claim(state.path()).expect("a slot");
    says("ip", &["netns", "del", taken]);
    assert_ne!(next.number(), number);
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
    let text = format!("[station.a]\n[station.b]\nsoftirq = 0\n[stream.ctl]\nfrom = \"a\"\nto = \"b\"\n{tag}");
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
    // A soak tries each number of lines; else none of the group came to the disk, or all of it did.
    let each = std::env::var_os("TARDY_SOAK").is_some();
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
            torn = if each { torn + 1 } else { group };
        } else {
            (moment, torn, lines_before) = (moment + 1, 0, lines.len());
        }
    }
    assert!(moment > 10, "it was killed at {moment} moments");
    assert_eq!(as_it_is(), before);
}

#[test]
fn building_and_tearing_down_is_quick() {
    skip_unless_possible!("building_and_tearing_down_is_quick");
    let state = tempfile::tempdir().expect("a temporary folder");
    let slot = Slot::claim(state.path()).expect("a slot");
    let plan = two(slot.names());
    let mut took: Vec<[Duration; 3]> = Vec::new();
    for _ in 0..10 {
        let mut runner = Processes::new(|_| ()).holding(&slot).expect("a lock to share");
        let started = Instant::now();
        let mut host = applied(&plan.steps, slot.journal().expect("a journal"), &mut runner).expect("it can be built");
        let stood = Instant::now();
        host.read_back(&asked(&plan)).expect("it can be read back");
        let read = Instant::now();
        host.put_back().expect("it can be put back");
        took.push([stood - started, read - stood, read.elapsed()]);
    }
    let median = |of: usize| {
        let mut all: Vec<Duration> = took.iter().map(|times| times[of]).collect();
        all.sort_unstable();
        all[all.len() / 2]
    };
    println!("set-up {:?}, read back {:?}, tear-down {:?} (medians of 10)", median(0), median(1), median(2));
    // A bound that only a hang passes; how fast it is, is for the benchmarks to say.
    assert!(median(0) + median(2) < Duration::from_secs(5));
}
