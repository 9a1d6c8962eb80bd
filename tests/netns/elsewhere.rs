// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stations on another machine, which is reached over ssh. The machine is a network namespace of
//! the test's own with an ssh server in it, whose keys and whose user's home are the test's too: a
//! machine of this one's boot, under another name and with devices of its own.

mod lost;

use crate::command::{Finished, Place, can_run, tardy, wait};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde_json::Value;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// What the packages of the test's own programs are called.
const PACKAGES: &str = "dropbear-bin libnss-wrapper openssh-client";
const SERVER: &str = "/usr/sbin/dropbear";
const MAKES_KEYS: &str = "/usr/bin/dropbearkey";
const CLIENT: &str = "/usr/bin/ssh";
const ADDRESSES: [&str; 2] = ["198.51.100.1", "198.51.100.2"];
const PORT: &str = "2222";
/// By which a machine reaches itself.
pub const ITSELF: &str = "127.0.0.1";
/// Experiments of these tests.
pub const WIRE: &str = tardy_tests::part("wire to another machine");
pub const NETWORK: &str = tardy_tests::part("network to another machine");
const ALONE: &str = tardy_tests::part("network of one machine");

pub fn does(line: &str) -> String {
    let words: Vec<&str> = line.split(' ').collect();
    let output = Command::new(words[0]).args(&words[1..]).output().unwrap_or_else(|error| panic!("{line}: {error}"));
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Where the library lies by which a server finds the user's home in the test's folder.
fn wrapper() -> PathBuf {
    PathBuf::from(format!("/usr/lib/{}-linux-gnu/libnss_wrapper.so", std::env::consts::ARCH))
}

fn lacks() -> bool {
    [SERVER, MAKES_KEYS, CLIENT].iter().any(|file| !PathBuf::from(file).exists()) || !wrapper().exists()
}

/// This machine and another one, each a network namespace. One link is for ssh; by the other, of
/// `enp1s0` and `enp2s0`, they are cabled.
pub struct Two {
    pub place: Place,
    pub here: String,
    pub there: String,
    servers: Vec<Child>,
}

impl Two {
    fn new() -> Two {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Relaxed);
        let [here, there] = ["near", "far"].map(|end| format!("tardytest-{}-{end}{number}", std::process::id()));
        for name in [&here, &there] {
            does(&format!("ip netns add {name}"));
            does(&format!("ip -n {name} link set dev lo up"));
        }
        does(&format!("ip -n {here} link add ssh0 type veth peer name ssh0 netns {there}"));
        for (name, address) in [&here, &there].into_iter().zip(ADDRESSES) {
            does(&format!("ip -n {name} link set dev ssh0 addrgenmode none"));
            does(&format!("ip -n {name} addr add {address}/30 dev ssh0"));
            does(&format!("ip -n {name} link set dev ssh0 up"));
        }
        for name in [&here, &there] {
            let is_up = || does(&format!("ip -n {name} -br link show ssh0")).contains(" UP ").then_some(());
            wait(Duration::from_secs(10), is_up).expect("the link for ssh comes up");
        }
        does(&format!("ip -n {here} link add enp1s0 type veth peer name enp2s0 netns {there}"));
        let mut two = Two { place: Place::new(), here, there, servers: Vec::new() };
        two.serve();
        two
    }

    fn file(&self, name: &str) -> String {
        self.place.path(name).display().to_string()
    }

    /// The user's home on the other machine.
    fn home(&self) -> PathBuf {
        self.place.path("home")
    }

    /// The program's copies there.
    fn copies(&self) -> Vec<PathBuf> {
        let folder = self.home().join(".cache/tardy/programs");
        std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
    }

    /// Starts the server, and writes what the client needs to know of it.
    fn serve(&mut self) {
        let [user_key, host_key] = ["user", "host"].map(|name| self.file(name));
        let ssh = self.home().join(".ssh");
        std::fs::create_dir_all(&ssh).expect("a folder");
        does(&format!("ssh-keygen -q -t ed25519 -N  -f {user_key}"));
        let public = std::fs::read_to_string(format!("{user_key}.pub")).expect("a key");
        std::fs::write(ssh.join("authorized_keys"), public).expect("a file");
        for path in [self.home(), ssh.clone(), ssh.join("authorized_keys")] {
            let mode = if path.is_dir() { 0o700 } else { 0o600 };
            std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).expect("its own");
        }
        let made = does(&format!("{MAKES_KEYS} -t ed25519 -f {host_key}"));
        let key = made.lines().find(|line| line.starts_with("ssh-ed25519 ")).expect("its public part");
        let [mut known, mut config] = [String::new(), String::new()];
        for (name, address) in [("lab2", ADDRESSES[1]), ("itself", ITSELF)] {
            known += &format!("[{address}]:{PORT} {key}\n");
            config += &format!("Host {name}\n HostName {address}\n");
        }
        config += &format!(
            "Host *\n Port {PORT}\n User root\n IdentityFile {user_key}\n IdentitiesOnly yes\n UserKnownHostsFile {}\n \
             GlobalKnownHostsFile none\n StrictHostKeyChecking yes\n",
            self.file("known"),
        );
        std::fs::write(self.file("known"), known).expect("a file");
        std::fs::write(self.file("config"), config).expect("a file");
        let (users, groups) = (self.file("passwd"), self.file("group"));
        std::fs::write(&users, format!("root:x:0:0:root:{}:/bin/sh\n", self.home().display())).expect("a file");
        std::fs::write(&groups, "root:x:0:\n").expect("a file");
        self.listen(&self.there.clone(), ADDRESSES[1]);
    }

    /// Starts a server on one of the machines, with the keys and users that there are.
    pub fn listen(&mut self, on: &str, address: &str) {
        let listens = format!("{address}:{PORT}");
        let (host_key, pid) = (self.file("host"), self.file(&format!("pid{}", self.servers.len())));
        let mut server = Command::new("nsenter");
        server
            .arg(format!("--net=/run/netns/{on}"))
            .arg(SERVER)
            .args(["-F", "-E", "-s", "-j", "-k", "-m", "-r", &host_key, "-p", &listens, "-P", &pid])
            .env("LD_PRELOAD", wrapper())
            .env("NSS_WRAPPER_PASSWD", self.file("passwd"))
            .env("NSS_WRAPPER_GROUP", self.file("group"))
            .stdin(Stdio::null())
            .stderr(Stdio::null());
        self.servers.push(server.spawn().expect("the server starts"));
        let is_up = || does(&format!("ip netns exec {on} ss -ltn")).contains(&listens).then_some(());
        wait(Duration::from_secs(10), is_up).expect("the server listens");
    }

    /// `tardy VERB FILE ARGS` on this machine.
    fn command(&self, verb: &str, experiment: &str, args: &[&str]) -> Command {
        let file = self.place.path("hosts.toml");
        std::fs::write(&file, experiment).expect("a file");
        let mut command = self.verb(&[verb]);
        command.arg(&file).args(args).env("TARDY_STATE", self.place.state());
        command
    }

    /// tardy on this machine; not by `ip netns exec`, whose mounts end with it.
    pub fn verb(&self, words: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command
            .arg(format!("--net=/run/netns/{}", self.here))
            .arg(tardy())
            .args(words)
            .env("TARDY_SSH", format!("{CLIENT} -F {}", self.file("config")))
            .stdin(Stdio::null());
        command
    }

    pub fn run(&self, experiment: &str, args: &[&str]) -> Finished {
        let mut command = self.command("run", experiment, args);
        command.args(["--allow-hosts", "--allow-nics", "--json", "--out"]).arg(self.place.out());
        self.place.call(&mut command)
    }

    /// The offset of the receiver's clock in the first trial.
    pub fn offset(&self) -> Value {
        self.trial()["streams"]["ctl"]["offsets"]["rx"].clone()
    }

    /// The bytes that came from the other machine while the first trial ran.
    fn heard_bytes(&self) -> u64 {
        self.trial()["own_traffic"]["lab2"]["from_bytes"].as_u64().expect("a number")
    }

    /// The record of the first trial.
    pub fn trial(&self) -> Value {
        let path = self.place.out().join("trials/all/1/trial.json");
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        serde_json::from_str(&text).expect("JSON")
    }

    /// What a person would see of both machines: their devices, and namespaces that are not the
    /// test's.
    pub fn seen(&self) -> String {
        let of = |name: &str| does(&format!("ip -n {name} -br addr"));
        let names = does("ip netns");
        let made: Vec<&str> = names.lines().filter(|line| line.starts_with("tardy-")).collect();
        format!("{}{}{made:?}", of(&self.here), of(&self.there))
    }
}

impl Drop for Two {
    fn drop(&mut self) {
        for mut server in self.servers.drain(..) {
            let _ = server.kill();
            let _ = server.wait();
        }
        for name in [&self.here, &self.there] {
            let _ = Command::new("ip").args(["netns", "del", name]).output();
        }
    }
}

/// Both machines, where this one can have them.
pub fn two(test: &str) -> Option<Two> {
    if !can_run(test) {
        return None;
    }
    if lacks() {
        tardy_tests::skip(test, &format!("an ssh server of the test's own is missing (apt install {PACKAGES})"));
        return None;
    }
    Some(Two::new())
}

#[test]
fn a_station_on_another_machine_is_reached_measured_and_left_as_it_was() {
    let Some(two) = two("a_station_on_another_machine_is_reached_measured_and_left_as_it_was") else { return };
    let before = two.seen();
    let run = two.run(WIRE, &[]);
    assert_eq!(run.code, Some(0), "{}\n{}", run.stderr, run.stdout);
    assert!(run.stderr.contains("`lab2` is this very machine"), "{}", run.stderr);
    let ctl = &run.cell()["streams"]["ctl"];
    assert_eq!(ctl["outcomes"]["received"], 400, "{ctl}");
    // It is of one boot, so both ends have one clock, and a figure from one to the other is one.
    assert_eq!(ctl["metrics"]["send..receive"]["count"], 400, "{ctl}");
    let manifest = std::fs::read_to_string(two.place.out().join("manifest.json")).expect("a manifest");
    let manifest: Value = serde_json::from_str(&manifest).expect("JSON");
    assert!(manifest["hosts"]["lab2"]["machine"].is_object(), "{}", manifest["hosts"]);
    assert_eq!(manifest["hosts"]["lab2"]["parent"], Value::Null);
    // Both ends have one clock, and the round trips over the path contain that.
    let offset = two.offset();
    assert_eq!((&offset["host"], &offset["first"]["bound_ns"]), (&"lab2".into(), &0.into()), "{offset}");
    let others = offset["others"].as_array().expect("other sources");
    let method = "64 round trips over the path, with the stamps of both kernels";
    let by_path = others.iter().find(|of| of["method"] == method).unwrap_or_else(|| panic!("{offset}"));
    for moment in ["first", "last"] {
        let [ahead_ns, bound_ns] = ["ahead_ns", "bound_ns"].map(|of| by_path[moment][of].as_i64().expect("a number"));
        assert!(ahead_ns.abs() <= bound_ns && bound_ns > 0, "{by_path}");
    }
    assert_eq!(two.seen(), before);
    let copies = two.copies();
    assert_eq!(copies.len(), 1, "{copies:?}");
    let made = copies[0].metadata().expect("a file").ino();

    // The second run finds the program there, and a copy that was changed is not used.
    std::fs::remove_dir_all(two.place.out()).expect("the run folder");
    assert_eq!(two.run(WIRE, &[]).code, Some(0));
    assert_eq!(two.copies()[0].metadata().expect("a file").ino(), made);
    std::fs::write(&copies[0], "#!/bin/sh\nexit 0\n").expect("a file");
    std::fs::remove_dir_all(two.place.out()).expect("the run folder");
    assert_eq!(two.run(WIRE, &[]).code, Some(0));
    assert_eq!(std::fs::read(&two.copies()[0]).expect("a file"), std::fs::read(tardy()).expect("the program"));

    // There is no room for it.
    std::fs::remove_file(&copies[0]).expect("the copy");
    let folder = two.home().join(".cache/tardy/programs");
    let small = folder.display().to_string();
    struct Mounted(String);
    impl Drop for Mounted {
        fn drop(&mut self) {
            let _ = Command::new("umount").arg(&self.0).output();
        }
    }
    does(&format!("mount -t tmpfs -o size=1m small {small}"));
    let mounted = Mounted(small);
    std::fs::remove_dir_all(two.place.out()).expect("the run folder");
    let full = two.run(WIRE, &[]);
    drop(mounted);
    assert_eq!(full.code, Some(3), "{}", full.stderr);
    assert!(full.stderr.contains("cannot copy tardy to `lab2`"), "{}", full.stderr);
    assert!(full.stderr.contains("MiB in"), "{}", full.stderr);
    assert_eq!(two.seen(), before);
}

#[test]
fn the_other_machine_sends_next_to_a_load() {
    let Some(two) = two("the_other_machine_sends_next_to_a_load") else { return };
    let before = two.seen();
    let run = two.run(tardy_tests::experiment("wire from another machine"), &[]);
    assert!([Some(0), Some(4)].contains(&run.code), "{}\n{}", run.stderr, run.stdout);
    let cell = run.cell();
    assert_eq!(cell["streams"]["ctl"]["outcomes"]["received"], 200, "{cell}");
    assert!(cell["loads"]["bulk"]["bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{cell}");
    // Who ran where on the other machine: its sender on the CPU that was asked for.
    let placement = cell["placement"].as_array().expect("threads");
    let sender = placement.iter().find(|of| of["thread"] == "ctl.tx").unwrap_or_else(|| panic!("{placement:?}"));
    assert_eq!((&sender["cpu_asked"], &sender["host"]), (&"1".into(), &"lab2".into()), "{sender}");
    assert_eq!((&sender["cpus_seen"], &sender["policy_granted"]), (&serde_json::json!([1]), &"fifo:90".into()));
    assert_eq!(two.seen(), before);
}

#[test]
fn a_killed_run_leaves_nothing_on_the_other_machine() {
    let Some(two) = two("a_killed_run_leaves_nothing_on_the_other_machine") else { return };
    let before = two.seen();
    let mut command = two.command("run", WIRE, &["--set", "stream.ctl.count=100000", "--allow-hosts", "--allow-nics"]);
    let mut run = two.place.start(command.arg("--out").arg(two.place.out()));
    two.place.wait_for("trial");
    let there = format!("ip -n {} -br link", two.there);
    assert!(!does(&there).contains("enp2s0"), "its device is in its station");
    run.kill().expect("it runs");
    run.wait().expect("it ends");
    wait(Duration::from_secs(30), || does(&there).contains("enp2s0").then_some(())).expect("its device is back");
    let undone = two.place.undo();
    assert_eq!(undone.code, Some(0), "{}", undone.stderr);
    wait(Duration::from_secs(10), || (two.seen() == before).then_some(()));
    assert_eq!(two.seen(), before);
}

#[test]
fn a_machine_that_cannot_be_used_costs_one_clear_error_before_anything_is_built() {
    let Some(two) = two("a_machine_that_cannot_be_used_costs_one_clear_error_before_anything_is_built") else {
        return;
    };
    let before = two.seen();
    let refused = |run: &Finished, code: i32, says: &[&str]| {
        assert_eq!(run.code, Some(code), "{}", run.stderr);
        let is_error = |line: &&str| line.starts_with("tardy: ") && !line.starts_with("tardy: warning: ");
        let errors: Vec<&str> = run.said().into_iter().filter(is_error).collect();
        assert_eq!(errors.len(), 1, "{}", run.stderr);
        says.iter().for_each(|words| assert!(errors[0].contains(words), "{words}: {}", run.stderr));
        assert!(!two.place.out().exists(), "there is a run folder");
        assert_eq!(two.seen(), before);
    };
    let asked = two.place.call(two.command("run", WIRE, &["--allow-nics", "--out", "out"]).stdin(Stdio::null()));
    refused(&asked, 2, &["logs in to `lab2`", "--allow-hosts"]);
    let unknown = two.run(WIRE, &["--set", "station.b.ssh=lab3"]);
    refused(&unknown, 3, &["cannot log in to `lab3`", "lab3 true`"]);
    // The device by which ssh itself goes.
    let cut = two.run(WIRE, &["--set", "path.b=ssh0"]);
    refused(&cut, 3, &["lab2", "tardy reaches it by its network device ssh0"]);
    // The same one at this machine's end, although the file says that nothing needs its addresses.
    let own = two.run(WIRE, &["--set", "path.a=ssh0", "--set", "path.take=true"]);
    // That is known once both machines were looked at, and the run folder says why it ended.
    std::fs::remove_dir_all(two.place.out()).expect("the run folder");
    refused(&own, 2, &["ssh goes to `lab2` by network device ssh0 of this machine"]);
    // A file cannot pass an option to the client.
    let option = two.run(WIRE, &["--set", "station.b.ssh=-oProxyCommand=touch /tmp/owned"]);
    refused(&option, 2, &["cannot be a machine that is reached over ssh"]);
    // A program for machines of its kind that is none.
    let mut named = two.command("run", WIRE, &["--allow-hosts", "--allow-nics", "--out"]);
    named
        .arg(two.place.out())
        .env(format!("TARDY_PROGRAM_{}", std::env::consts::ARCH.to_uppercase()), two.file("config"));
    refused(&two.place.call(&mut named), 3, &["is no program for `lab2`"]);
    // The host's key is another one than the known one.
    std::fs::write(two.file("known"), "").expect("a file");
    let foreign = two.run(WIRE, &[]);
    refused(&foreign, 3, &["cannot log in to `lab2`", "Host key verification failed"]);
    // One that drops all packets without a word.
    does(&format!("ip -n {} route add blackhole {}/32", two.there, ADDRESSES[0]));
    let mute = two.run(WIRE, &[]);
    refused(&mute, 3, &["cannot log in to `lab2`", "timed out"]);
    does(&format!("ip -n {} route del blackhole {}/32", two.there, ADDRESSES[0]));
    does(&format!("kill {}", two.servers[0].id()));
    let listens = || does(&format!("ip netns exec {} ss -ltn", two.there)).contains(PORT);
    wait(Duration::from_secs(10), || (!listens()).then_some(())).expect("it ends");
    let silent = two.run(WIRE, &[]);
    refused(&silent, 3, &["cannot log in to `lab2`", "Connection refused"]);
}

#[test]
fn what_joins_two_machines_already_is_measured_and_left_as_it_is() {
    let Some(two) = two("what_joins_two_machines_already_is_measured_and_left_as_it_is") else { return };
    let before = two.seen();
    // Long enough for live figures, which would come by the same network.
    let run = two.run(NETWORK, &["--set", "stream.ctl.count=30_000"]);
    assert!([Some(0), Some(4)].contains(&run.code), "{}\n{}", run.stderr, run.stdout);
    assert_eq!(run.cell()["streams"]["ctl"]["outcomes"]["received"], 30_000, "{}", run.stdout);
    let silent = two.heard_bytes();
    assert!((1..200).contains(&silent), "{silent} bytes came while the trial ran");
    let manifest = std::fs::read_to_string(two.place.out().join("manifest.json")).expect("a manifest");
    for address in ADDRESSES {
        assert!(manifest.contains(&format!("ip -j route get {address}")), "the way to {address} is recorded");
    }
    assert_eq!(two.seen(), before);
    let script = std::fs::read_to_string(two.place.out().join("commands.sh")).expect("a script");
    let changes =
        |line: &&str| [" add ", " set ", " del ", " replace ", "sysctl"].iter().any(|word| line.contains(word));
    assert_eq!(script.lines().find(changes), None, "{script}");

    // Without ssh: a machine's own network, by two addresses of its loopback, and by one.
    for (to, port) in [("127.0.0.2", "tcp"), ("127.0.0.2", "udp"), ("127.0.0.1", "tcp"), ("127.0.0.1", "udp")] {
        std::fs::remove_dir_all(two.place.out()).expect("the run folder");
        let set = [
            "station.a.address=127.0.0.1".to_owned(),
            format!("station.b.address={to}"),
            format!("stream.ctl.port={port}"),
        ];
        let set: Vec<&str> = set.iter().flat_map(|set| ["--set", set]).collect();
        let mut alone = two.command("run", ALONE, &["--json"]);
        let alone = two.place.call(alone.args(set).arg("--out").arg(two.place.out()));
        assert!([Some(0), Some(4)].contains(&alone.code), "{to} {port}: {}\n{}", alone.stderr, alone.stdout);
        assert_eq!(alone.cell()["streams"]["ctl"]["outcomes"]["received"], 400, "{to} {port}: {}", alone.stdout);
        assert_eq!(two.seen(), before);
    }

    for (set, code, says) in [
        ("station.b.address=198.51.100.9", 2, "its machine has"),
        ("station.b.address=lab2", 2, "is no IP address"),
        ("shaper.kind=etf", 2, "leaves everything there as it is"),
        ("station.b.kind=netns", 2, "joins machines' own networks"),
    ] {
        let _ = std::fs::remove_dir_all(two.place.out());
        let refused = two.run(NETWORK, &["--set", set]);
        assert_eq!(refused.code, Some(code), "{set}: {}", refused.stderr);
        assert!(refused.stderr.contains(says), "{set}: {}", refused.stderr);
        assert_eq!(two.seen(), before);
    }
}

/// A further way between both machines, of a device each and a router between them.
struct Routed {
    netns: String,
}

impl Routed {
    fn between(two: &Two) -> Routed {
        let netns = two.here.replace("near", "router");
        does(&format!("ip netns add {netns}"));
        for (end, at) in [(&two.here, 1), (&two.there, 5)] {
            let other = if at == 1 { "203.0.113.4/30" } else { "203.0.113.0/30" };
            does(&format!("ip -n {end} link add eth7 type veth peer name eth{at} netns {netns}"));
            for (name, device, last) in [(end, "eth7".to_owned(), at), (&netns, format!("eth{at}"), at + 1)] {
                does(&format!("ip -n {name} addr add 203.0.113.{last}/30 dev {device}"));
                does(&format!("ip -n {name} link set dev {device} up"));
            }
            does(&format!("ip -n {end} route add {other} via 203.0.113.{}", at + 1));
        }
        does(&format!("ip netns exec {netns} sysctl -qw net.ipv4.ip_forward=1"));
        Routed { netns }
    }
}

impl Drop for Routed {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.netns]).output();
    }
}

#[test]
fn no_probe_came_through_a_router_and_nobody_said_that_there_is_one() {
    let Some(two) = two("no_probe_came_through_a_router_and_nobody_said_that_there_is_one") else { return };
    let router = Routed::between(&two);
    let ends = ["--set", "station.a.address=203.0.113.1", "--set", "station.b.address=203.0.113.5"];
    let verdict = |run: &Finished, id: &str| {
        let all = run.cell()["verdicts"].as_array().cloned().unwrap_or_default();
        all.into_iter().find(|verdict| verdict["id"] == id)
    };
    let run = two.run(NETWORK, &ends);
    assert!([Some(0), Some(4)].contains(&run.code), "{}\n{}", run.stderr, run.stdout);
    assert_eq!(run.cell()["streams"]["ctl"]["outcomes"]["received"], 400, "{}", run.stdout);
    let trial = two.trial();
    let probes = trial["inspection"]["probes"].as_array().expect("probes");
    assert_eq!(probes.len(), 2, "{trial}");
    for probe in probes {
        assert_eq!((&probe["sent"], &probe["by_tags"]["0"], &probe["let_on"]), (&8.into(), &8.into(), &8.into()));
        assert_eq!((&probe["least_ttl"], &probe["route"]["by"]), (&63.into(), &"eth7".into()), "{probe}");
    }
    // Packets as long as the path's MTU come through too, and nothing else was sent that cannot.
    let special = trial["inspection"]["special"].as_array().expect("special packets");
    let kinds: Vec<&Value> = special.iter().map(|of| &of["kind"]).collect();
    assert_eq!(kinds, ["longest", "longest"], "{special:?}");
    assert!(special.iter().all(|of| of["arrived"] == 8), "{special:?}");
    let routers = verdict(&run, "routers").unwrap_or_else(|| panic!("{}", run.stdout));
    assert_eq!((&routers["level"], &routers["evidence"]["routers"]), (&"note".into(), &1.into()));
    assert_eq!(verdict(&run, "other-route"), None);
    // The round trips over the path go through it too.
    let offset = two.offset();
    let others = offset["others"].as_array().expect("other sources");
    assert!(others.iter().any(|of| of["method"].as_str().is_some_and(|of| of.contains("over the path"))), "{offset}");

    // The router's further side takes shorter packets only.
    does(&format!("ip -n {} link set dev eth5 mtu 1400", router.netns));
    std::fs::remove_dir_all(two.place.out()).expect("the run folder");
    let narrow = two.run(NETWORK, &ends);
    let long = verdict(&narrow, "long-lost").unwrap_or_else(|| panic!("{}", narrow.stdout));
    assert_eq!(long["evidence"]["longest_bytes"], 1400, "{long}");
    does(&format!("ip -n {} link set dev eth5 mtu 1500", router.netns));

    // A route past it, by the device for ssh.
    does(&format!("ip -n {} route add 203.0.113.5/32 via {} dev ssh0", two.here, ADDRESSES[1]));
    std::fs::remove_dir_all(two.place.out()).expect("the run folder");
    let past = two.run(NETWORK, &ends);
    let other = verdict(&past, "other-route").unwrap_or_else(|| panic!("{}", past.stdout));
    assert_eq!((&other["level"], &other["evidence"]["device"]), (&"warning".into(), &"ssh0".into()), "{other}");
}

#[test]
fn the_clocks_of_two_machines_are_shown_and_what_was_left_is_put_back_from_here() {
    let Some(two) = two("the_clocks_of_two_machines_are_shown_and_what_was_left_is_put_back_from_here") else { return };
    let shown = two.place.call(&mut two.command("clocks", NETWORK, &["--allow-hosts", "--count", "2"]));
    assert_eq!(shown.code, Some(0), "{}", shown.stderr);
    let lines: Vec<&str> = shown.stdout.lines().collect();
    assert_eq!(lines.len(), 5, "{}", shown.stdout);
    assert!(lines[1].starts_with("nothing checks these rows over the measured path"), "{}", lines[1]);
    assert_eq!(lines[2], "station a has this machine's clock, with which the rows compare the others");
    for line in &lines[3..] {
        assert!(line.starts_with("lab2") && line.ends_with("one clock, and the exchange agrees"), "{line}");
    }
    assert!(lines[4].contains(" ppm "), "two readings have a drift: {}", lines[4]);
    let refused = two.place.call(&mut two.command("clocks", NETWORK, &["--count", "1"]));
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);

    let undone = two.place.call(&mut two.verb(&["undo", "--host", "lab2"]));
    assert_eq!(undone.code, Some(0), "{}", undone.stderr);
    assert!(undone.stderr.contains("lab2: nothing is left behind"), "{}", undone.stderr);
}

/// The server's processes for its connections.
fn connections(server: u32) -> Vec<u32> {
    let children = std::fs::read_to_string(format!("/proc/{server}/task/{server}/children")).unwrap_or_default();
    children.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

#[test]
fn ssh_that_died_at_any_moment_left_something() {
    let Some(two) = two("ssh_that_died_at_any_moment_left_something") else { return };
    let before = two.seen();
    let is_soak = std::env::var_os("TARDY_SOAK").is_some();
    let (moments, count) = if is_soak { (48, "400000") } else { (12, "200000") };
    let count = format!("stream.ctl.count={count}");
    let begun = Instant::now();
    let whole = two.run(WIRE, &["--set", &count]);
    assert!([Some(0), Some(4)].contains(&whole.code), "{}", whole.stderr);
    let took = begun.elapsed();
    // Each run of this test draws other moments. It prints the seed if it fails.
    let seed = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(1, |d| d.as_nanos() as u64);
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let (mut cut_short, mut broke) = (0, 0);
    for moment in 0..moments {
        let after = took.mul_f64((f64::from(moment) + random.random::<f64>()) / f64::from(moments));
        std::fs::remove_dir_all(two.place.out()).expect("the run folder");
        let mut command = two.command("run", WIRE, &["--set", &count, "--allow-hosts", "--allow-nics", "--json"]);
        let run = two.place.start(command.arg("--out").arg(two.place.out()));
        std::thread::sleep(after);
        for pid in connections(two.servers[0].id()) {
            // One that has ended meanwhile is none.
            let _ = Command::new("kill").args(["-KILL", &pid.to_string()]).output();
        }
        let run = two.place.finish(run);
        let at = format!("{after:?} of {took:?}, seed {seed}\n{}", run.stderr);
        // It ends as if the machine were not there, or it had all that it wanted of it by then.
        assert!([0, 3, 4].contains(&run.code.expect("it ends by itself")), "{at}");
        cut_short += u32::from(run.code != Some(0));
        // A trial that began is kept, with what was recorded here and why it broke.
        let happened = |what: &str| two.place.events().iter().any(|event| event["event"] == what);
        if happened("trial_broken") {
            let record = lost::broken(&two).unwrap_or_else(|| panic!("it is not kept: {at}"));
            assert!(record["failed"].is_string(), "{record}");
            broke += 1;
        }
        assert!(run.code == Some(0) || run.stderr.contains("lab2"), "{at}");
        wait(Duration::from_secs(30), || (two.seen() == before).then_some(()));
        assert_eq!(two.seen(), before, "{at}");
        let undone = two.place.undo();
        assert_eq!(undone.code, Some(0), "{at}\n{}", undone.stderr);
        // The test's next run makes the folder; this one may have ended before it did.
        std::fs::create_dir_all(two.place.out()).expect("a folder");
    }
    assert!(cut_short >= moments / 4, "{cut_short} of {moments} runs were cut short");
    assert!(broke > 0, "none of {moments} was cut short within its trial");
}
