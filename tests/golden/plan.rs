// SPDX-License-Identifier: MIT OR Apache-2.0
//! The plan, its names, its journal, and what becomes of a step that fails: with a runner that
//! only writes down.

use proptest::prelude::*;
use serde_json::json;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{fs, io};
use tardy_lab::command::{Batch, Command};
use tardy_lab::host::applied::applied;
use tardy_lab::host::place::Place;
use tardy_lab::host::runner::{BatchOutput, CommandError, Failure, Runner};
use tardy_lab::host::{ApplyError, HostId};
use tardy_lab::journal;
use tardy_lab::journal::JournalError;
use tardy_lab::machine::FactsByHost;
use tardy_lab::names::{LinkNumber, Names, SLOTS};
use tardy_lab::path::PathError;
use tardy_lab::plan::{Plan, PlanError, plan};
use tardy_lab::process::Identity;
use tardy_lab::slot::Slot;
use tardy_lab::step::{Action, Inverse, Step};
use tardy_lab::undo::{PutBack, UndoError, leftovers, undo_all};
use tardy_model::path::PathKind;
use tardy_model::shaper::Shaper;
use tardy_model::station::StationKind;
use tardy_spec::experiment::{self, Setup, Softirq, Station};

fn setup(stations: &[&str]) -> Setup {
    Setup {
        stations: stations.iter().map(|name| ((*name).to_owned(), Station::here(StationKind::Netns))).collect(),
        path: experiment::Path::made(PathKind::Veth, 4, 1500),
        shaper: Shaper::None,
        streams: Vec::new(),
        loads: Vec::new(),
        softirq: Softirq::default(),
        dma_latency_us: None,
        copy: None,
        observes_ptp: false,
    }
}

pub fn two() -> Plan {
    plan(&setup(&["a", "b"]), Names::FIRST, &FactsByHost::default()).expect("two stations can be joined")
}

const SCRIPT: &str = "\
# a fresh network namespace for the station
ip netns add tardy-0-a
ip netns add tardy-0-b
# the pair of links, each end born in its namespace
ip link add tardy0-0 numtxqueues 4 numrxqueues 4 mtu 1500 address 02:74:64:00:00:00 netns tardy-0-a type veth \
peer name tardy0-1 numtxqueues 4 numrxqueues 4 mtu 1500 address 02:74:64:00:00:01 netns tardy-0-b
# no IPv6 chatter of its own
ip -n tardy-0-a link set dev tardy0-0 addrgenmode none
# an address, and the neighbour fixed so that no ARP falls into a measurement
ip -n tardy-0-a addr add 198.18.0.1/30 dev tardy0-0
ip -n tardy-0-a neigh replace 198.18.0.2 lladdr 02:74:64:00:00:01 dev tardy0-0 nud permanent
ip -n tardy-0-a link set dev lo up
ip -n tardy-0-a link set dev tardy0-0 up
# no IPv6 chatter of its own
ip -n tardy-0-b link set dev tardy0-1 addrgenmode none
# an address, and the neighbour fixed so that no ARP falls into a measurement
ip -n tardy-0-b addr add 198.18.0.2/30 dev tardy0-1
ip -n tardy-0-b neigh replace 198.18.0.1 lladdr 02:74:64:00:00:00 dev tardy0-1 nud permanent
ip -n tardy-0-b link set dev lo up
ip -n tardy-0-b link set dev tardy0-1 up
# what the kernel has made of it
ip -n tardy-0-a -j -d addr show dev tardy0-0
ip -n tardy-0-a -j -d neigh show dev tardy0-0
ip -n tardy-0-b -j -d addr show dev tardy0-1
ip -n tardy-0-b -j -d neigh show dev tardy0-1
tc -n tardy-0-a -j qdisc show dev tardy0-0
tc -n tardy-0-b -j qdisc show dev tardy0-1
# the stations: each end is spoken to on stdin and stdout while the trials run
# tardy agent --netns tardy-0-a
# tardy agent --netns tardy-0-b
# put everything back
printf 'built; Enter puts everything back: '; { read _ </dev/tty; } 2>/dev/null || :
ip -n tardy-0-a link del dev tardy0-0
ip netns del tardy-0-b
ip netns del tardy-0-a
";

#[test]
fn the_script_is_the_plan_then_its_inverse() {
    let plan = two();
    assert_eq!(plan.script(), SCRIPT);
    let b = plan.ends.at("b").expect("an end");
    assert_eq!(
        (b.place.netns().expect("a namespace"), b.device.as_str(), b.address.to_string().as_str()),
        ("tardy-0-b", "tardy0-1", "198.18.0.2")
    );
    assert_eq!(plan.ends.len(), 2);
}

#[test]
fn what_veth_cannot_join_is_refused() {
    for stations in [&[][..], &["a"], &["a", "b", "c"]] {
        let error = plan(&setup(stations), Names::FIRST, &FactsByHost::default()).expect_err("not two stations");
        let owned = stations.iter().map(|s| (*s).to_owned()).collect();
        assert_eq!(error, PlanError::Path(PathError::TwoStations { kind: "veth", stations: owned }));
    }
    let three = plan(&setup(&["a", "b", "c"]), Names::FIRST, &FactsByHost::default()).unwrap_err().to_string();
    assert_eq!(three, "veth joins exactly two stations, and the experiment has 3 (a, b, c): name two in [station.*]");
    for name in ["", "a/b", "a b", "a\n", &"x".repeat(201)] {
        let error =
            plan(&setup(&[name, "b"]), Names::FIRST, &FactsByHost::default()).expect_err("no file can be called so");
        assert_eq!(error, PlanError::StationName { name: name.to_owned() });
    }
}

fn all_of(names: Names) -> (BTreeSet<String>, u32) {
    let mut all = BTreeSet::from([names.netns("a"), names.netns("b"), names.netns("1-a")]);
    for side in [LinkNumber::FIRST, LinkNumber::SECOND] {
        all.extend([names.link(side), names.mac(side), names.address(side).to_string()]);
    }
    (all, u32::from(names.address(LinkNumber::FIRST)) >> (32 - u32::from(Names::PREFIX)))
}

proptest! {
    #[test]
    fn two_slots_share_no_name_and_no_subnet(one in 0..SLOTS, other in 0..SLOTS) {
        prop_assume!(one != other);
        let (names, subnet) = all_of(Names::of(one).unwrap());
        let (others, other_subnet) = all_of(Names::of(other).unwrap());
        prop_assert_eq!(names.len(), 9);
        prop_assert!(names.is_disjoint(&others));
        prop_assert_ne!(subnet, other_subnet);
    }

    #[test]
    fn names_are_fit_for_the_kernel(slot in 0..SLOTS) {
        let names = Names::of(slot).unwrap();
        let ends = [LinkNumber::FIRST, LinkNumber::SECOND].map(|side| names.address(side));
        prop_assert_eq!(u32::from(ends[1]) - u32::from(ends[0]), 1);
        prop_assert_eq!(u32::from(ends[0]) % 4, 1, "the first host of a /30");
        for (side, address) in [LinkNumber::FIRST, LinkNumber::SECOND].into_iter().zip(ends) {
            prop_assert!(names.link(side).len() <= 15);
            prop_assert!(address.octets()[0] == 198 && address.octets()[1] & !1 == 18, "{}", address);
            let first = u8::from_str_radix(&names.mac(side)[..2], 16).unwrap();
            prop_assert_eq!(first & 3, 2, "unicast, locally administered");
        }
        prop_assert_eq!(Names::of(slot + SLOTS), None);
    }

    #[test]
    fn a_shell_reads_a_displayed_command_as_it_was(words in proptest::collection::vec("[ -~\t\n]{0,12}", 1..5)) {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let line = Command::new("printf", &[&["%s\\0"], &words[..]].concat()).to_string();
        let said = std::process::Command::new("sh").arg("-c").arg(&line).output().unwrap().stdout;
        let wanted: String = words.iter().map(|word| format!("{word}\0")).collect();
        prop_assert_eq!(String::from_utf8(said).unwrap(), wanted, "{}", line);
    }
}

#[test]
fn neighbours_share_a_process_and_odd_words_do_not() {
    let commands = [
        Command::ip(&["netns", "add", "x"]),
        Command::ip(&["netns", "add", "y"]),
        Command::ip_in("x", &["link", "set", "lo", "up"]),
        Command::ip_in("x", &["link", "set", "z", "alias", "a # b"]),
        Command::ip_in("x", &["-j", "link"]),
        Command::ip_in("x", &["-j", "addr"]),
        Command::new("ethtool", &["-k", "z"]),
        Command::new("ethtool", &["-k", "y"]),
    ];
    let batches = Batch::group(commands);
    let processes: Vec<String> = batches
        .iter()
        .map(|batch| {
            let process = batch.process();
            format!("{} < {}", process.argv.join(" "), process.stdin.unwrap_or_default())
        })
        .collect();
    assert_eq!(
        processes,
        [
            "ip -batch - < netns add x\nnetns add y\n",
            "ip -n x link set lo up < ",
            "ip -n x link set z alias a # b < ",
            "ip -n x -j -batch - < link\naddr\n",
            "ethtool -k z < ",
            "ethtool -k y < ",
        ]
    );
    assert_eq!(batches[0].clone().keep_going(true).process().argv, ["ip", "-force", "-batch", "-"]);
}

pub type Fails<'a> = Box<dyn FnMut(&Command) -> Result<Option<String>, CommandError> + 'a>;

/// Writes down what it is asked to run; `fails` says which commands fail, and how.
pub struct Recorder<'a> {
    pub ran: Vec<String>,
    pub fails: Fails<'a>,
}

impl<'a> Recorder<'a> {
    pub fn new(fails: impl FnMut(&Command) -> Option<String> + 'a) -> Self {
        let mut fails = fails;
        Recorder { ran: Vec::new(), fails: Box::new(move |command| Ok(fails(command))) }
    }

    pub fn fine() -> Self {
        Recorder::new(|_| None)
    }
}

impl Runner for Recorder<'_> {
    fn run(&mut self, batch: &Batch) -> Result<BatchOutput, CommandError> {
        let forced = batch.process().argv.iter().any(|word| word == "-force");
        let mut output = BatchOutput::default();
        for (index, command) in batch.commands().iter().enumerate() {
            self.ran.push(command.to_string());
            if let Some(says) = (self.fails)(command)? {
                output.failures.push(Failure { at: Some(index), says });
                if !forced {
                    break;
                }
            }
        }
        Ok(output)
    }
}

pub fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

pub fn is_empty(state: &Path) -> bool {
    fs::read_dir(state.join("slots")).map_or(true, |mut entries| entries.next().is_none())
}

#[test]
fn a_failure_undoes_what_was_begun_last_first_and_nothing_else() {
    let plan = two();
    let flat: Vec<(&Step, &Command)> = plan.steps.iter().flat_map(|s| s.does.iter().map(move |c| (s, c))).collect();
    assert_eq!(flat.len(), 13);
    for (k, (step, command)) in flat.iter().enumerate() {
        let state = folder();
        let slot = Slot::claim(state.path()).unwrap();
        let says = "RTNETLINK answers: Device or resource busy";
        let mut runner = Recorder::new(|asked| (asked == *command).then(|| says.to_owned()));
        let error = applied(&plan.steps, slot.journal().unwrap(), &mut runner).err().expect("a step failed");
        let told = error.to_string();
        assert!(told.contains(&format!("`{command}` ({}): {says}: ", step.why)), "{told}");

        // A command before the failing one has been run, so its step is undone; a batch that
        // tolerates something goes on.
        let begun = |step: &Step| flat[..k].iter().any(|(of, _)| std::ptr::eq(*of, step));
        let wanted: Vec<String> = commands(plan.steps.iter().rev().filter(|s| begun(s)).flat_map(|s| &s.undoes));
        let undoes: Vec<String> = plan.undo().map(|command| command.to_string()).collect();
        let undone: Vec<String> = runner.ran.iter().filter(|ran| undoes.contains(ran)).cloned().collect();
        assert_eq!(undone, wanted, "at {command}");
        assert_eq!(runner.ran[..k].to_vec(), flat[..k].iter().map(|(_, c)| c.to_string()).collect::<Vec<_>>());
        drop(runner);
        drop(slot);
        assert!(is_empty(state.path()));
    }
}

#[test]
fn inverses_are_on_disk_before_their_step_begins() {
    let state = folder();
    let slot = Slot::claim(state.path()).unwrap();
    let plan = two();
    let path = state.path().join(format!("slots/{}", slot.number()));
    let mut seen = 0;
    let mut runner = Recorder::new(|asked| {
        if let Some(step) = plan.steps.iter().find(|step| step.does.contains(asked)) {
            let noted = journal::read(&path).unwrap().steps;
            assert!(noted.iter().any(|(_, undo)| *undo == step.undoes), "{asked} is run before its inverse is noted");
            seen += 1;
        }
        None
    });
    let put = applied(&plan.steps, slot.journal().unwrap(), &mut runner).unwrap().put_back().unwrap();
    drop(runner);
    assert_eq!((put.steps, put.agents, seen), (7, 0, 13));
    assert!(journal::read(&path).unwrap().is_empty());
    drop(slot);
    assert!(is_empty(state.path()));
}

#[test]
fn a_dropped_plan_is_put_back() {
    let state = folder();
    let slot = Slot::claim(state.path()).unwrap();
    let plan = two();
    let mut runner = Recorder::fine();
    drop(applied(&plan.steps, slot.journal().unwrap(), &mut runner).unwrap());
    assert_eq!(runner.ran[13..].to_vec(), plan.undo().map(|command| command.to_string()).collect::<Vec<_>>());
}

#[test]
fn a_kernel_without_ipv6_has_no_chatter_to_switch_off() {
    let state = folder();
    let slot = Slot::claim(state.path()).unwrap();
    let says = || Some("RTNETLINK answers: Address family not supported by protocol".to_owned());
    let mut runner = Recorder::new(|asked| if asked.to_string().contains("addrgenmode") { says() } else { None });
    applied(&two().steps, slot.journal().unwrap(), &mut runner).expect("tolerated").put_back().unwrap();
    let mut runner = Recorder::new(|asked| if asked.to_string().contains("neigh") { says() } else { None });
    let error = applied(&two().steps, slot.journal().unwrap(), &mut runner).err().expect("not tolerated elsewhere");
    assert!(matches!(error, ApplyError::Failed { .. }), "{error}");
}

#[test]
fn a_missing_program_and_missing_rights_are_named() {
    let state = folder();
    let slot = Slot::claim(state.path()).unwrap();
    let missing = || CommandError::NotInstalled { program: "ip".to_owned(), fix: "apt install iproute2".to_owned() };
    let mut runner = Recorder { ran: Vec::new(), fails: Box::new(|_| Err(missing())) };
    let error = applied(&two().steps, slot.journal().unwrap(), &mut runner).err().expect("there is no ip");
    assert_eq!(error.to_string(), "program `ip` is not installed: apt install iproute2");
    assert_eq!(runner.ran, ["ip netns add tardy-0-a"], "nothing to undo");

    let says = "mount --make-shared /run/netns failed: Operation not permitted";
    let mut runner = Recorder::new(|_| Some(says.to_owned()));
    let error = applied(&two().steps, slot.journal().unwrap(), &mut runner).err().expect("not root");
    assert!(matches!(error, ApplyError::NeedsRoot { .. }), "{error}");
    assert!(error.to_string().contains("needs root's CAP_NET_ADMIN and CAP_SYS_ADMIN"), "{error}");
}

fn commands<'a>(inverses: impl IntoIterator<Item = &'a Inverse>) -> Vec<String> {
    inverses.into_iter().flat_map(Inverse::commands).map(|command| command.to_string()).collect()
}

/// A slot folder as a killed run leaves it. Numbers are high, so that no test claims them
/// meanwhile.
pub fn killed(state: &Path, slot: u16, journal: &str) -> PathBuf {
    let dir = state.join(format!("slots/{slot}"));
    fs::create_dir_all(&dir).unwrap();
    let ended = Identity { start: 0, ..Identity::of(std::process::id()).unwrap() };
    fs::write(dir.join("lock"), serde_json::to_string(&ended).unwrap() + "\n").unwrap();
    fs::write(dir.join("journal.jsonl"), journal).unwrap();
    dir
}

/// The first line of a journal of this boot.
pub fn head() -> String {
    format!("{{\"v\":2,\"boot\":\"{}\"}}\n", Identity::of(std::process::id()).unwrap().boot)
}

pub fn line(number: u32, undo: &[Inverse]) -> String {
    json!({"v": 2, "step": {"number": number, "undo": undo}}).to_string() + "\n"
}

pub fn delete(name: &str) -> Inverse {
    Inverse::here(Action::DeleteNamespace { name: format!("tardy-{name}") })
}

pub fn steps() -> String {
    head() + &line(0, &[delete("x")]) + &line(1, &[delete("y")])
}

pub fn quiet(_: u16, _: Result<&PutBack, &UndoError>) {}

#[test]
fn a_torn_last_line_was_never_begun() {
    let state = folder();
    let dir = killed(state.path(), 4001, &format!("{}{{\"v\":2,\"step\":{{\"number\":2,\"un", steps()));
    let contents = journal::read(&dir).unwrap();
    assert_eq!(contents.steps.iter().map(|(step, _)| *step).collect::<Vec<_>>(), [0, 1]);
    // Also where only the line's end is missing.
    fs::write(dir.join("journal.jsonl"), steps().trim_end()).unwrap();
    assert_eq!(journal::read(&dir).unwrap().steps.len(), 1);

    let mut runner = Recorder::fine();
    let mut told = Vec::new();
    let done = undo_all(state.path(), &mut runner, &mut |slot, put| told.push((slot, put.unwrap().steps))).unwrap();
    assert_eq!((done.undone.len(), done.live, told), (1, 0, vec![(4001, 1)]));
    assert_eq!(runner.ran, ["ip netns del tardy-x"]);
    assert!(is_empty(state.path()));
}

#[test]
fn a_damaged_line_is_named_and_nothing_is_thrown_away() {
    let state = folder();
    let dir = killed(state.path(), 4002, &format!("nonsense\n{}", steps()));
    let error = journal::read(&dir).expect_err("the first line is damaged");
    assert!(matches!(error, JournalError::Damaged { line: 1, .. }), "{error}");
    let done = undo_all(state.path(), &mut Recorder::fine(), &mut quiet).unwrap();
    assert_eq!((done.undone.len(), done.failed.len()), (0, 1));
    assert!(dir.join("journal.jsonl").exists());
}

#[test]
fn what_never_came_to_be_is_undone_without_complaint() {
    let state = folder();
    killed(state.path(), 4003, &steps());
    let left = leftovers(state.path()).unwrap();
    assert_eq!((left.len(), left[0].slot, left[0].steps, left[0].agents), (1, 4003, 2, 0));
    let gone = "Cannot remove namespace file \"/run/netns/x\": No such file or directory";
    let mut runner = Recorder::new(|_| Some(gone.to_owned()));
    let done = undo_all(state.path(), &mut runner, &mut quiet).unwrap();
    assert_eq!((done.undone.len(), done.failed.len()), (1, 0));
    assert_eq!(runner.ran, ["ip netns del tardy-y", "ip netns del tardy-x"]);
    assert!(is_empty(state.path()));
    assert!(leftovers(state.path()).unwrap().is_empty());
    let again = undo_all(state.path(), &mut runner, &mut quiet).unwrap();
    assert_eq!((again.undone.len(), again.live, again.failed.len()), (0, 0, 0));
}

#[test]
fn a_device_that_does_not_exist_could_not_be_put_back() {
    let state = folder();
    killed(state.path(), 4007, &steps());
    let gone = "Device \"tardy1-tap\" does not exist.";
    let done = undo_all(state.path(), &mut Recorder::new(|_| Some(gone.to_owned())), &mut quiet).unwrap();
    assert_eq!((done.undone.len(), done.failed.len()), (1, 0));
    assert!(is_empty(state.path()));
}

#[test]
fn what_cannot_be_undone_stays_in_the_journal() {
    let state = folder();
    let dir = killed(state.path(), 4004, &steps());
    let mut busy =
        Recorder::new(|asked| asked.to_string().ends_with('y').then(|| "Device or resource busy".to_owned()));
    let done = undo_all(state.path(), &mut busy, &mut quiet).unwrap();
    assert_eq!(busy.ran, ["ip netns del tardy-y", "ip netns del tardy-x"], "the rest is tried all the same");
    let told = done.failed[0].1.to_string();
    assert!(
        told.contains("`ip netns del tardy-y` (Device or resource busy)") && !told.contains("del tardy-x"),
        "{told}"
    );
    assert!(dir.join("journal.jsonl").exists());
    let done = undo_all(state.path(), &mut Recorder::fine(), &mut quiet).unwrap();
    assert_eq!(done.undone.len(), 1);
    assert!(is_empty(state.path()));
}

#[test]
fn an_undo_that_is_cut_off_is_taken_up_again() {
    let state = folder();
    let link = |netns: &str| {
        Inverse::within(
            &Place::netns_of(HostId::HERE, &format!("tardy-{netns}")),
            Action::DeleteLink { device: "l".to_owned() },
        )
    };
    let lines = (0..).zip(["x", "y", "z"]).map(|(number, netns)| line(number, &[link(netns)]));
    let dir = killed(state.path(), 4005, &(head() + &lines.collect::<String>()));
    let cut = || CommandError::Process { command: String::new(), source: io::Error::other("cut off") };
    let dies = |asked: &Command| if asked.argv()[2] == "tardy-x" { Err(cut()) } else { Ok(None) };
    let mut runner = Recorder { ran: Vec::new(), fails: Box::new(dies) };
    let done = undo_all(state.path(), &mut runner, &mut quiet).unwrap();
    assert_eq!(done.failed.len(), 1);
    assert_eq!(journal::read(&dir).unwrap().steps.len(), 1, "two are marked as done");
    let mut runner = Recorder::fine();
    undo_all(state.path(), &mut runner, &mut quiet).unwrap();
    assert_eq!(runner.ran, ["ip -n tardy-x link del dev l"]);
    assert!(is_empty(state.path()));
}

#[test]
fn a_recycled_process_number_is_never_killed() {
    let mut sleeper = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let agent = Identity::of(sleeper.id()).unwrap();
    assert!(agent.is_alive());
    let others = [
        Identity { start: agent.start + 1, ..agent.clone() },
        Identity { boot: "another boot".to_owned(), ..agent.clone() },
    ];
    for other in others {
        assert!(!other.is_alive());
        let state = folder();
        let line = json!({"v": 2, "agent": other});
        killed(state.path(), 4006, &format!("{}{line}\n", head()));
        let mut runner = Recorder::fine();
        let done = undo_all(state.path(), &mut runner, &mut quiet).unwrap();
        assert_eq!((done.undone[0].1.agents, runner.ran.len()), (0, 0));
    }
    sleeper.kill().unwrap();
    while agent.is_alive() {
        std::thread::yield_now();
    }
    // Ended and not waited for: /proc still knows it.
    assert!(Path::new(&format!("/proc/{}", agent.pid)).exists());
    sleeper.wait().unwrap();
}

#[test]
fn a_bound_on_the_cpus_wake_up_is_held_by_a_program_as_long_as_the_path() {
    let held = Setup { dma_latency_us: Some(2), ..setup(&["a", "b"]) };
    let plan = plan(&held, Names::FIRST, &FactsByHost::default()).expect("two stations can be joined");
    let [keeper] = &plan.keepers[..] else { panic!("one host, one program: {:?}", plan.keepers) };
    let line = keeper.command.to_string();
    assert!(line.contains("exec 3>/dev/cpu_dma_latency && echo 0x00000002 >&3"), "{line}");
    assert!(plan.script().contains("# holds the bound on how long a CPU takes to wake up: sh -c"), "{}", plan.script());
    assert!(two().keepers.is_empty(), "nothing is held where nothing is asked for");
}

#[test]
fn idle_states_are_read_in_their_order() {
    let folder = tempfile::tempdir().expect("a folder");
    for (number, name, latency) in [(0, "POLL", "0"), (1, "C1", "2"), (2, "C6", "133")] {
        let state = folder.path().join(format!("state{number}"));
        std::fs::create_dir(&state).expect("a folder");
        for (file, text) in [("name", name), ("latency", latency), ("residency", "600"), ("disable", "0")] {
            std::fs::write(state.join(file), format!("{text}\n")).expect("a file");
        }
    }
    let states = tardy_host::cpus::states_in(folder.path());
    let read: Vec<_> = states.iter().map(|state| (state.name.as_str(), state.exit_latency_us)).collect();
    assert_eq!(read, [("POLL", 0), ("C1", 2), ("C6", 133)]);
    assert_eq!(states[2].describe(), "C6: leaves in 133 µs, stays 600 µs");
}
