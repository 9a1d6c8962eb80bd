// SPDX-License-Identifier: MIT OR Apache-2.0
//! Path `wire` between two cards of a test's own host. Whatever happens, they are back afterwards
//! as they were.

use crate::cards::{Host, ip};
use crate::command::{Finished, Place, can_run_beside_others, each, tardy, wait};
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

impl Host {
    /// `tardy run` there, with the cards as path; not by `ip netns exec`, whose mounts end with it.
    fn run(&self, place: &Place, args: &[&str]) -> Command {
        let file = place.path("wire.toml");
        let wire = tardy_tests::experiment("wire between two cards");
        let text = format!("trials = 2\n{wire}count = 600\n");
        std::fs::write(&file, text).expect("a file");
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/run/netns/{}", self.name)).arg(tardy()).arg("run").arg(file).args(args);
        command
            .arg("--allow-nics")
            .arg("--out")
            .arg(place.out())
            .env("TARDY_STATE", self.place.state())
            .stdin(Stdio::null());
        command
    }

    fn call(&self, args: &[&str]) -> Finished {
        self.place.call(&mut self.run(&self.place, args))
    }

    #[track_caller]
    fn refuses(&self, args: &[&str], code: i32, says: &[&str]) {
        let before = self.devices();
        let run = self.call(args);
        assert_eq!(run.code, Some(code), "{}", run.stderr);
        says.iter().for_each(|text| assert!(run.stderr.contains(text), "`{text}` is not in: {}", run.stderr));
        assert_eq!(run.stderr.trim().lines().count(), 1, "one error, not {}", run.stderr);
        assert_eq!(self.devices(), before, "before anything is touched");
        assert!(!self.place.out().exists(), "the folder stays free for the next try");
    }
}

const TAKE: [&str; 2] = ["--set", "path.take=true"];

/// The verdicts of a rule.
fn verdicts(run: &Finished, rule: &str) -> Vec<Value> {
    let verdicts = run.cell()["verdicts"].as_array().expect("verdicts").iter();
    verdicts.filter(|verdict| verdict["id"] == rule).cloned().collect()
}

#[test]
fn a_switch_that_keeps_multicast_was_not_noticed() {
    if !can_run_beside_others("a_switch_that_keeps_multicast_was_not_noticed") {
        return;
    }
    // A querier is known when the first answers to its queries could have come.
    let host = Host::switched("mcast_query_response_interval 1", "");
    host.ip("link set dev switch0 type bridge mcast_snooping 1 mcast_querier 1");
    // Nobody is a member of the group; ARP passes. It is a switch of others, which may do so.
    let run = host.call(&[]);
    run.ran();
    let lost = verdicts(&run, "group-lost");
    let ways: Vec<Value> = lost.iter().map(|it| json!([it["level"], it["evidence"]["kind"]])).collect();
    // Each way, in each of two trials, is one verdict of the cell.
    assert!(!ways.is_empty() && ways.iter().all(|it| *it == json!(["warning", "multicast packets"])), "{ways:?}");
    assert!(run.stderr.contains("group-lost: "), "before the first packet: {}", run.stderr);
    // A port behind which there is a router gets all of it.
    for n in [1, 2] {
        host.ip(&format!("link set dev port{n} type bridge_slave mcast_router 2"));
    }
    let again = Place::new();
    let run = again.call(&mut host.run(&again, &[]));
    run.ran();
    assert_eq!(verdicts(&run, "group-lost"), [Value::Null; 0], "{}", run.stderr);
}

#[test]
fn a_switch_whose_ports_have_a_smaller_mtu_was_not_noticed() {
    if !can_run_beside_others("a_switch_whose_ports_have_a_smaller_mtu_was_not_noticed") {
        return;
    }
    let run = Host::switched("", "mtu 1300 ").call(&[]);
    run.ran();
    let long = verdicts(&run, "long-lost");
    assert!(!long.is_empty(), "{}", run.stdout);
    for verdict in long {
        let of = &verdict["evidence"];
        assert_eq!((&of["bytes"], &of["longest_bytes"]), (&json!(1_500), &json!(1_300)), "{verdict}");
    }
    assert!(run.stderr.contains("set path.mtu to 1300"), "before the first packet: {}", run.stderr);
    assert_eq!(verdicts(&run, "checksum-lost"), [Value::Null; 0], "{}", run.stdout);
}

#[test]
fn a_program_that_hands_packets_on_without_their_checksum_was_a_loss_without_a_reason() {
    if !can_run_beside_others("a_program_that_hands_packets_on_without_their_checksum_was_a_loss_without_a_reason") {
        return;
    }
    let host = Host::empty();
    for n in [1, 2] {
        host.ip(&format!("link add enp{n}s0 type veth peer name port{n}"));
        // A veth takes frames of XDP where its peer has NAPI.
        host.ethtool(&format!("-K enp{n}s0 gro on"));
    }
    for (from, to) in [(1, 2), (2, 1)] {
        let index: Value = serde_json::from_str(&host.ip(&format!("-j link show dev port{to}"))).expect("JSON");
        let target = format!("TARGET={}", index[0]["ifindex"]);
        let object = crate::pitfalls::object(&host.place, &["FORWARDS", &target]);
        host.ip(&format!("link set dev port{from} xdpdrv obj {} sec xdp", object.display()));
        host.ip(&format!("link set dev port{from} up"));
        host.ip(&format!("link set dev enp{from}s0 up"));
    }
    let run = host.call(&[]);
    let bare = verdicts(&run, "checksum-lost");
    let is_bare = |of: &Value| of["without_checksum"] == of["sent"];
    assert!(!bare.is_empty() && bare.iter().all(|of| is_bare(&of["evidence"])), "{bare:?}: {}", run.stderr);
    assert!(run.stderr.contains("arrived without one, which the kernel there drops"), "{}", run.stderr);
}

#[test]
fn a_wire_is_measured_and_its_devices_come_back() {
    if !can_run_beside_others("a_wire_is_measured_and_its_devices_come_back") {
        return;
    }
    let host = Host::new();
    let before = host.devices();
    let by_devices = "stream.ctl.metrics=[\"scheduled..rx_kernel\", \"tx_hw..rx_hw\"]";
    let run = host.call(&[TAKE[0], TAKE[1], "--set", by_devices]);
    run.ran();
    assert!(run.stdout.contains("wire, udp"), "{}", run.stdout);
    assert_eq!(each(run.cell(), "ctl", "received"), [600; 2], "{}", run.stdout);
    host.same(&before);
    let read = |file: &str| -> Value {
        serde_json::from_slice(&std::fs::read(host.place.out().join(file)).expect("it is there")).expect("JSON")
    };
    let manifest = read("manifest.json");
    assert_eq!(manifest["machine"]["nic.enp1s0.driver"], "veth");
    let stamps = manifest["machine"]["nic.enp2s0.hwtstamp"].as_str().expect("why it has none");
    assert!(stamps.contains("Operation not supported"), "{stamps}");
    let absent = &read("trials/all/1/trial.json")["streams"]["ctl"]["absent"];
    for point in ["tx_hw", "rx_hw"] {
        assert!(absent[point].as_str().is_some_and(|why| why.contains("offers no hardware")), "{absent}");
    }
    let commands = std::fs::read_to_string(host.place.out().join("commands.sh")).expect("commands");
    assert!(commands.contains("ip link set dev enp1s0 netns tardy-"), "{commands}");
}

#[test]
fn wire_and_veth_are_two_cells_of_one_run() {
    if !can_run_beside_others("wire_and_veth_are_two_cells_of_one_run") {
        return;
    }
    let host = Host::new();
    let before = host.devices();
    let file = host.place.path("both.toml");
    let text = tardy_tests::experiment("wire and veth");
    std::fs::write(&file, text).expect("a file");
    let mut command = host.run(&host.place, &[]);
    let args: Vec<_> = command.get_args().map(std::ffi::OsStr::to_owned).collect();
    let args = args.into_iter().map(|arg| if arg == host.place.path("wire.toml") { file.clone().into() } else { arg });
    let args: Vec<_> = args.collect();
    command = Command::new("nsenter");
    command.args(args).env("TARDY_STATE", host.place.state()).stdin(Stdio::null());
    let run = host.place.call(&mut command);
    run.ran();
    let cells = run.results["cells"].as_array().expect("cells");
    assert_eq!(
        cells.iter().map(|cell| cell["id"].as_str()).collect::<Vec<_>>(),
        [Some("path.kind=veth"), Some("path.kind=wire")]
    );
    assert_eq!(
        cells.iter().map(|cell| each(cell, "ctl", "received")).collect::<Vec<_>>(),
        [[400; 2]; 2],
        "{}",
        run.stdout
    );
    host.same(&before);
}

#[test]
fn a_stamp_that_the_file_names_and_the_device_lacks_left_an_empty_column() {
    if !can_run_beside_others("a_stamp_that_the_file_names_and_the_device_lacks_left_an_empty_column") {
        return;
    }
    let host = Host::new();
    let before = host.devices();
    let stamps = "stream.ctl.stamps=[\"wakeup\", \"tx_hw\", \"rx_kernel\", \"receive\"]";
    let run = host.call(&[TAKE[0], TAKE[1], "--set", stamps]);
    assert_eq!(run.code, Some(3), "{}{}", run.stdout, run.stderr);
    let said = run.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("tx_hw") && said.contains("offers no hardware"), "{}", run.stdout);
    host.same(&before);
}

#[test]
fn a_device_in_use_is_refused_before_anything_is_touched() {
    if !can_run_beside_others("a_device_in_use_is_refused_before_anything_is_touched") {
        return;
    }
    let host = Host::new();
    host.refuses(&[], 3, &["`enp1s0` has the address 192.0.2.1/24", "take = true"]);
    host.refuses(&["--set", "path.b=enp9s0", TAKE[0], TAKE[1]], 3, &["no network device `enp9s0`", "enp1s0, enp2s0"]);
    host.refuses(&["--set", "path.b=enp1s0"], 2, &["path.a", "path.b", "a wire has two ends"]);
    host.refuses(&["--set", "path.b=lo", TAKE[0], TAKE[1]], 3, &["`lo` is the loopback"]);
    host.refuses(&["--set", "path.mtu=65536", TAKE[0], TAKE[1]], 2, &["path.mtu"]);
    host.ip("route add default via 192.0.2.254");
    host.refuses(&TAKE, 3, &["`enp1s0` carries the default route"]);
    host.ip("route del default");
    host.ip("route add 198.51.100.0/24 via 192.0.2.254");
    host.refuses(&TAKE, 3, &["the route to 198.51.100.0/24, which would be lost"]);
    host.ip("route del 198.51.100.0/24");
    host.ip("link add br0 type bridge");
    host.ip("link set dev enp2s0 master br0");
    host.refuses(&TAKE, 3, &["`enp2s0` is a port of `br0`", "nomaster"]);
    host.ip("link set dev enp2s0 nomaster");
    host.ip("link add mac0 link enp2s0 type macvlan");
    host.refuses(&TAKE, 3, &["`enp2s0` carries mac0", "ip link del dev mac0"]);
}

#[test]
fn a_kill_then_undo_gives_the_devices_back() {
    if !can_run_beside_others("a_kill_then_undo_gives_the_devices_back") {
        return;
    }
    let host = Host::new();
    let before = host.devices();
    // With the path built; at moments while it is being built or taken down; and with a device
    // that went back by itself.
    for moment in 0..6_u64 {
        let place = Place::new();
        let mut child = place.start(host.run(&place, &TAKE).args(["--trials", "50"]));
        if moment.is_multiple_of(3) {
            place.wait_for("built");
        } else {
            std::thread::sleep(Duration::from_millis(70 * moment));
        }
        child.kill().expect("SIGKILL");
        child.wait().expect("it ends");
        if moment == 0 {
            let next = Place::new();
            let run = next.call(&mut host.run(&next, &TAKE));
            assert_eq!(run.code, Some(3), "{}", run.stderr);
            assert!(run.stderr.contains("`enp1s0` is in namespace tardy-"), "{}", run.stderr);
            assert!(run.stderr.contains("run `tardy undo`"), "{}", run.stderr);
        }
        if moment == 3 {
            let built = place.wait_for("built");
            let netns = built["stations"]["a"]["netns"].as_str().expect("a namespace").to_owned();
            ip(&["-n", &netns, "link", "set", "dev", "enp1s0", "netns", &host.name]);
        }
        // From another network namespace than the run's.
        let undo = host.place.undo();
        // What it did is read where a device is missing.
        eprintln!("moment {moment}: {}", undo.stderr);
        assert_eq!(undo.code, Some(0), "moment {moment}: {}", undo.stderr);
        host.same(&before);
        assert_eq!(host.place.undo().stderr.trim(), "nothing is left behind");
    }
}

#[test]
fn a_device_that_was_renamed_in_its_station_comes_back_under_its_own_name() {
    if !can_run_beside_others("a_device_that_was_renamed_in_its_station_comes_back_under_its_own_name") {
        return;
    }
    let host = Host::new();
    let before = host.devices();
    let mut child = host.place.start(host.run(&host.place, &TAKE).args(["--trials", "50"]));
    let built = host.place.wait_for("built");
    child.kill().expect("SIGKILL");
    child.wait().expect("it ends");
    let netns = built["stations"]["a"]["netns"].as_str().expect("a namespace");
    for words in [&["enp1s0", "down"][..], &["enp1s0", "name", "lan0"], &["lan0", "up"]] {
        ip(&[&["-n", netns, "link", "set", "dev"], words].concat());
    }
    let undo = host.place.undo();
    assert_eq!(undo.code, Some(0), "{}", undo.stderr);
    assert!(undo.stderr.contains("network device enp1s0 is called lan0 now"), "{}", undo.stderr);
    host.same(&before);
    assert_eq!(host.place.undo().stderr.trim(), "nothing is left behind");
}

#[test]
fn a_device_that_is_nowhere_is_reported() {
    if !can_run_beside_others("a_device_that_is_nowhere_is_reported") {
        return;
    }
    let host = Host::empty();
    host.ip("link add br0 type bridge");
    for n in 1..=2 {
        host.ip(&format!("link add enp{n}s0 type veth peer name far{n}"));
        host.ip(&format!("link set dev far{n} master br0 up"));
    }
    host.ip("link set dev br0 up");
    let mut child = host.place.start(host.run(&host.place, &TAKE).args(["--trials", "50"]));
    let built = host.place.wait_for("built");
    child.kill().expect("SIGKILL");
    child.wait().expect("it ends");
    ip(&["-n", built["stations"]["a"]["netns"].as_str().expect("a namespace"), "link", "del", "dev", "enp1s0"]);
    let undo = host.place.undo();
    assert_eq!(undo.code, Some(0), "{}", undo.stderr);
    assert!(
        undo.stderr.contains("network device enp1s0 (") && undo.stderr.contains("is in neither"),
        "{}",
        undo.stderr
    );
    assert_eq!(host.place.undo().stderr.trim(), "nothing is left behind");
}

#[test]
fn a_second_run_that_wants_the_device_is_refused_by_name() {
    if !can_run_beside_others("a_second_run_that_wants_the_device_is_refused_by_name") {
        return;
    }
    let host = Host::new();
    let before = host.devices();
    let (one, other) = (Place::new(), Place::new());
    let child = one.start(host.run(&one, &TAKE).args(["--set", "stream.ctl.count=4000"]));
    one.wait_for("built");
    let run = other.call(&mut host.run(&other, &TAKE));
    assert_eq!(run.code, Some(3), "{}", run.stderr);
    assert!(run.stderr.contains("another run of tardy has network device `enp1s0`"), "{}", run.stderr);
    one.finish(child).ran();
    host.same(&before);
}

#[test]
fn a_device_that_vanishes_ends_the_run_and_the_other_comes_back() {
    if !can_run_beside_others("a_device_that_vanishes_ends_the_run_and_the_other_comes_back") {
        return;
    }
    let host = Host::empty();
    host.ip("link add br0 type bridge");
    for n in 1..=2 {
        host.ip(&format!("link add enp{n}s0 type veth peer name far{n}"));
        host.ip(&format!("link set dev far{n} master br0 up"));
    }
    host.ip("link set dev br0 up");
    let child = host.place.start(&mut host.run(&host.place, &["--trials", "4", "--set", "stream.ctl.count=2000"]));
    let found = wait(Duration::from_secs(30), || {
        host.place.events().iter().any(|event| event["event"] == "trial" && event["n"] == 2).then_some(())
    });
    assert!(found.is_some(), "the second trial begins");
    let netns = host.place.netns("a");
    ip(&["-n", &netns, "link", "del", "dev", "enp1s0"]);
    let run = host.place.finish(child);
    assert_eq!(run.code, Some(4), "after a finished trial: {}", run.stderr);
    let errors: Vec<&str> = run.said().into_iter().filter(|line| line.starts_with("tardy: ")).collect();
    assert_eq!(errors.len(), 1, "{}", run.stderr);
    assert!(errors[0].contains("enp1s0"), "{}", errors[0]);
    let devices = host.devices().to_string();
    assert!(devices.contains("enp2s0") && !devices.contains("enp1s0"), "{devices}");
    assert!(!Path::new("/run/netns").join(netns).exists(), "nothing is left of the run");
    assert_eq!(host.place.undo().stderr.trim(), "nothing is left behind");
}

#[test]
fn devices_without_a_link_are_told_and_come_back() {
    if !can_run_beside_others("devices_without_a_link_are_told_and_come_back") {
        return;
    }
    let host = Host::empty();
    for n in 1..=2 {
        host.ip(&format!("link add enp{n}s0 type veth peer name far{n}"));
    }
    let before = host.devices();
    let run = host.call(&[]);
    assert_eq!(run.code, Some(3), "{}", run.stderr);
    assert!(run.stderr.contains("`enp1s0` has no link") && run.stderr.contains("cable"), "{}", run.stderr);
    host.same(&before);
}

#[test]
fn a_mount_namespace_that_would_strand_the_devices_is_refused() {
    if !can_run_beside_others("a_mount_namespace_that_would_strand_the_devices_is_refused") {
        return;
    }
    let host = Host::new();
    let before = host.devices();
    let args: Vec<_> = host.run(&host.place, &TAKE).get_args().skip(1).map(std::ffi::OsStr::to_owned).collect();
    let mut command = Command::new("ip");
    command.args(["netns", "exec", &host.name]).args(args).env("TARDY_STATE", host.place.state());
    let run = host.place.call(&mut command);
    assert_eq!(run.code, Some(3), "{}", run.stderr);
    assert!(run.stderr.contains("nsenter --net=/run/netns/NAME tardy run"), "{}", run.stderr);
    assert_eq!(host.devices(), before);
}

#[test]
fn what_a_device_stamps_is_told_with_the_kernels_reason() {
    if !can_run_beside_others("what_a_device_stamps_is_told_with_the_kernels_reason") {
        return;
    }
    let host = Host::new();
    let verb = |args: &[&str]| host.place.call(host.place.command("hwtstamp").args(args));
    let show = verb(&["show", "enp1s0", "--netns", "tardytest-none", "--netns", &host.name]);
    assert_eq!(show.code, Some(0), "{}", show.stderr);
    assert!(show.stdout.contains("SIOCGHWTSTAMP on enp1s0: Operation not supported"), "{}", show.stdout);
    let set = verb(&["set", "enp1s0", "--netns", &host.name, "--tx", "1", "--rx", "1"]);
    assert_eq!(set.code, Some(3), "{}", set.stderr);
    assert!(set.stderr.contains("SIOCSHWTSTAMP on enp1s0: Operation not supported"), "{}", set.stderr);
    let gone = verb(&["restore", "enp9s0", "--netns", &host.name, "--tx", "0", "--rx", "0"]);
    assert!(gone.stderr.contains("No such device"), "what is gone is no error of an undo: {}", gone.stderr);
}

#[test]
fn devices_need_the_callers_word() {
    if !can_run_beside_others("devices_need_the_callers_word") {
        return;
    }
    let host = Host::new();
    let before = host.devices();
    let command = host.run(&host.place, &TAKE);
    let args: Vec<_> =
        command.get_args().filter(|word| *word != "--allow-nics").map(std::ffi::OsStr::to_owned).collect();
    let run = host.place.call(Command::new("nsenter").args(args).env("TARDY_STATE", host.place.state()));
    assert_eq!(run.code, Some(2), "{}", run.stderr);
    assert!(run.stderr.contains("`enp1s0` and `enp2s0`") && run.stderr.contains("--allow-nics"), "{}", run.stderr);
    host.same(&before);
}
