// SPDX-License-Identifier: MIT OR Apache-2.0
//! The plan carried out by the real kernel: everything comes, works, and goes again.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tardy_lab::command as lab;
use tardy_lab::host::ApplyError;
use tardy_lab::host::applied::applied;
use tardy_lab::host::runner::Processes;
use tardy_lab::machine::FactsByHost;
use tardy_lab::names::Names;
use tardy_lab::path::LinkEnd;
use tardy_lab::plan::{Plan, plan};
use tardy_lab::slot::Slot;
use tardy_model::path::PathKind;
use tardy_model::shaper::Shaper;
use tardy_model::station::StationKind;
use tardy_spec::experiment::{self, Setup, Softirq, Station};

pub fn two(names: Names) -> Plan {
    let setup = Setup {
        stations: ["a", "b"].map(|name| (name.to_owned(), Station::here(StationKind::Netns))).into(),
        path: experiment::Path::made(PathKind::Veth, 4, 1400),
        shaper: Shaper::None,
        streams: Vec::new(),
        loads: Vec::new(),
        softirq: Softirq::default(),
        dma_latency_us: None,
        copy: None,
        observes_ptp: false,
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
        crate::command::alone();
        if let Some(reason) = cannot() {
            tardy_tests::skip($test, &reason);
            return;
        }
    };
}

mod killed;

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

/// Network namespaces that a test made, and that go with it.
struct Namespaces([String; 3]);

impl Drop for Namespaces {
    fn drop(&mut self) {
        self.0.iter().for_each(|name| _ = Command::new("ip").args(["netns", "del", name]).status());
    }
}

fn does(line: &str) {
    let words: Vec<&str> = line.split(' ').collect();
    let output = Command::new(words[0]).args(&words[1..]).output().expect("the program is there");
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Starts a switch between two devices of a namespace: what it said first.
fn switch(netns: &str, folder: &str, devices: [&str; 2]) -> (Child, String) {
    let mut command = Command::new(crate::command::tardy());
    command.args(["switch", "--netns", netns, "--folder", folder, "tardytest-sw"]).args(devices);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("tardy is there");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("text");
    (child, line)
}

/// Processes of that switch, by their program's names.
fn of_switch(folder: &str) -> Vec<(u32, String)> {
    let has = |pid: &u32| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|entry| entry == format!("OVS_RUNDIR={folder}").as_bytes())
    };
    let name = |pid| Some((pid, std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?.trim().to_owned()));
    tardy_sys::proc::processes().into_iter().filter(has).filter_map(name).collect()
}

fn within(limit: Duration, what: &str, is_so: impl Fn() -> bool) {
    let until = Instant::now() + limit;
    while !is_so() {
        assert!(Instant::now() < until, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// What it says on its end, and its exit code.
fn ends(mut child: Child) -> (Option<i32>, String) {
    drop(child.stdin.take());
    let mut says = String::new();
    child.stderr.take().expect("piped").read_to_string(&mut says).expect("text");
    (child.wait().expect("it ends").code(), says)
}

#[test]
fn open_vswitch_in_user_space_hands_packets_on_and_leaves_nothing() {
    const TEST: &str = "open_vswitch_in_user_space_hands_packets_on_and_leaves_nothing";
    skip_unless_possible!("open_vswitch_in_user_space_hands_packets_on_and_leaves_nothing");
    if Command::new("ovs-vswitchd").arg("--version").output().is_err() {
        tardy_tests::skip(TEST, "Open vSwitch's programs are missing (apt install openvswitch-switch)");
        return;
    }
    let state = tempfile::tempdir().expect("a temporary folder");
    let slot = Slot::claim(state.path()).expect("a slot");
    let (names, folder) = (slot.names(), slot.names().switch_folder());
    let all = Namespaces(["a", "b", "m"].map(|name| names.netns(name)));
    let [a, b, middle] = &all.0;
    all.0.iter().for_each(|name| does(&format!("ip netns add {name}")));
    for (at, number) in [(a, 1), (b, 2)] {
        does(&format!("ip -n {at} link add p{number} type veth peer name u{number} netns {middle}"));
        does(&format!("ip netns exec {at} ethtool -K p{number} tx off txvlan off rxvlan off"));
        does(&format!("ip -n {at} addr add 192.0.2.{number}/24 dev p{number}"));
        does(&format!("ip -n {at} link set dev p{number} up"));
        does(&format!("ip -n {middle} link set dev u{number} up"));
    }
    // The first one finds addresses and flows.
    let all_pass = || {
        does(&format!("ip netns exec {a} ping -q -c 1 -W 5 192.0.2.2"));
        let said =
            says("ip", &format!("netns exec {a} ping -q -c 20 -i 0.01 -W 5 192.0.2.2").split(' ').collect::<Vec<_>>());
        assert!(said.contains("20 received"), "{said}");
    };
    // Each link with its index, and whether it is promiscuous.
    let links = || {
        let json: serde_json::Value =
            serde_json::from_str(&says("ip", &["-n", middle, "-j", "-d", "link"])).expect("JSON");
        let one = |link: &serde_json::Value| format!("{} {} {}", link["ifindex"], link["ifname"], link["promiscuity"]);
        json.as_array().expect("links").iter().map(one).collect::<Vec<_>>()
    };

    let before = links();
    let (child, first) = switch(middle, &folder, ["u1", "u2"]);
    assert_eq!(first, "ready\n", "{:?}", ends(child));
    all_pass();
    assert_eq!(of_switch(&folder).len(), 2);
    assert_eq!(ends(child), (Some(0), String::new()));
    assert_eq!((of_switch(&folder), Path::new(&folder).exists()), (vec![], false));
    assert_eq!(links(), before, "its devices are gone, and the others as they were");
    let (child, first) = switch(middle, "/etc/tardy-test", ["u1", "u2"]);
    let (code, why) = ends(child);
    assert_eq!((first.as_str(), code), ("", Some(3)), "{why}");
    assert!(why.contains("/etc/tardy-test is no name of a folder"), "{why}");

    // Killed, it takes its daemons along, and the next one finds the folder.
    let (mut child, first) = switch(middle, &folder, ["u1", "u2"]);
    assert_eq!(first, "ready\n");
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    within(Duration::from_secs(2), "daemons outlived it", || of_switch(&folder).is_empty());
    assert!(Path::new(&folder).exists());
    let (child, first) = switch(middle, &folder, ["u1", "u2"]);
    assert_eq!(first, "ready\n", "{:?}", ends(child));
    all_pass();

    // A daemon that ends ends the path, with its name.
    let daemons = of_switch(&folder);
    let (pid, _) = daemons.iter().find(|(_, name)| name == "ovs-vswitchd").unwrap_or_else(|| panic!("{daemons:?}"));
    does(&format!("kill -KILL {pid}"));
    within(Duration::from_secs(2), "it went on without its switch", || of_switch(&folder).is_empty());
    let (code, says) = ends(child);
    assert_eq!(code, Some(3), "{says}");
    assert!(says.contains("`ovs-vswitchd` ended"), "{says}");

    let (child, first) = switch(middle, &folder, ["u1", "nosuch"]);
    let (code, says) = ends(child);
    assert_eq!((first.as_str(), code), ("", Some(3)), "{says}");
    assert!(says.contains("nosuch"), "{says}");
    assert_eq!((of_switch(&folder), Path::new(&folder).exists()), (vec![], false));
}
