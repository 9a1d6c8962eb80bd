// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `tardy run` reports of the machine before it begins, and `tardy doctor` on another one.

use crate::command::{Place, SHORT, can_run_beside_others};
use crate::elsewhere::{does, two};
use serde_json::Value;
use std::collections::BTreeSet;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use tardy_model::xdp::XdpMode;
use tardy_sys::packet::sender;
use tardy_sys::process::in_netns;
use tardy_sys::stamps::TxStamps;

/// A user without any rights.
const NOBODY: u32 = 65_534;

/// The checks that would spoil figures, of the areas other than this one.
fn spoilt(printed: &str, but: Option<&str>) -> BTreeSet<String> {
    let found: Value = serde_json::from_str(printed).unwrap_or_else(|error| panic!("{error}: {printed}"));
    let checks = found["checks"].as_array().expect("checks").iter();
    let spoils = checks.filter(|check| check["verdict"] == "spoils" && check["area"].as_str() != but);
    spoils.filter_map(|check| check["id"].as_str().map(str::to_owned)).collect()
}

#[test]
fn a_run_reports_what_the_doctor_finds_for_it_and_a_simulated_one_nothing() {
    if !can_run_beside_others("a_run_reports_what_the_doctor_finds_for_it_and_a_simulated_one_nothing") {
        return;
    }
    const MARK: &str = "tardy: doctor: ";
    let place = Place::new();
    let run = place.call(place.run(&SHORT).args(["--set", "stream.ctl.tx.cpu=0", "--set", "stream.ctl.rx.cpu=0"]));
    assert!(matches!(run.code, Some(0 | 4)), "{}", run.stderr);
    let lines: Vec<&str> = run.stderr.lines().filter_map(|line| line.strip_prefix(MARK)).collect();
    let isolated = std::fs::read_to_string("/sys/devices/system/cpu/isolated").unwrap_or_default();
    // Where nothing is isolated, nobody wants to hear so before each run.
    let but = isolated.trim().is_empty().then_some("isolation");
    assert!(but.is_none() || !run.stderr.contains("isolcpus"), "{}", run.stderr);
    if let Some((advice, problems)) = lines.split_last() {
        // The line that it ends with is a command, which finds the same.
        let words = advice.strip_prefix("costs and fixes: tardy ").unwrap_or_else(|| panic!("{}", run.stderr));
        let line = format!("{} {words} --json --no-try", crate::command::tardy().display());
        let found = place.call(Command::new("sh").args(["-c", &line]));
        let named = problems.iter().filter_map(|line| Some(line.split_once(": ")?.0.to_owned()));
        assert_eq!(named.collect::<BTreeSet<_>>(), spoilt(&found.stdout, but), "{}{}", run.stderr, found.stderr);
        assert_eq!(found.code, Some(1), "{}", found.stderr);
    }
    let place = Place::new();
    let simulated = place.call(place.run(&SHORT).args(["--set", "stream.ctl.port=sim"]));
    assert_eq!(simulated.code, Some(0), "{}", simulated.stderr);
    assert!(!simulated.stderr.contains(MARK), "{}", simulated.stderr);
}

#[test]
fn another_machine_is_examined_from_here() {
    let Some(two) = two("another_machine_is_examined_from_here") else { return };
    let before = two.seen();
    let doctor = |words: &[&str]| {
        let words = [&["doctor", "--no-try", "--host"], words].concat();
        two.place.call(&mut two.verb(&words))
    };
    // Only that machine has this device.
    let found = doctor(&["lab2", "--nic", "enp2s0", "--json"]);
    assert!(matches!(found.code, Some(0 | 1)), "{}", found.stderr);
    assert_eq!(spoilt(&found.stdout, None).is_empty(), found.code == Some(0));
    assert!(found.stdout.contains("enp2s0: driver veth"), "{}", found.stdout);
    let table = doctor(&["lab2"]);
    assert!(table.stdout.contains("\nscheduler\n  "), "{}{}", table.stdout, table.stderr);
    for (words, code, says) in [
        (&["lab2", "--nic", "enp1s0"][..], 2, "no network device `enp1s0`"),
        (&["no-such-machine"], 3, "no-such-machine"),
        (&["a b"], 2, "cannot be a machine that is reached over ssh"),
        (&["lab2", "--for", "host-to-host"], 2, "cannot be used with"),
    ] {
        let refused = doctor(words);
        assert_eq!(refused.code, Some(code), "{words:?}: {}", refused.stderr);
        assert!(refused.stderr.contains(says), "{words:?}: {}", refused.stderr);
    }
    assert_eq!(two.seen(), before);
}

#[test]
fn frames_with_two_vlan_tags_are_seen_where_they_come_in_and_nowhere_else() {
    let Some(two) = two("frames_with_two_vlan_tags_are_seen_where_they_come_in_and_nowhere_else") else { return };
    for (name, device) in [(&two.here, "enp1s0"), (&two.there, "enp2s0")] {
        does(&format!("ip -n {name} link set dev {device} up"));
    }
    let netns = Path::new("/run/netns").join(&two.there);
    let seen = |tags: &[[u8; 4]]| {
        // To everybody, behind the tags an EtherType for experiments.
        let mut frame = [[0xff; 6], [2, 0, 0, 0, 0, 7]].concat();
        frame.extend(tags.as_flattened());
        frame.extend([0x88, 0xb5]);
        frame.resize(60, 0);
        let mut doctor = two.verb(&["doctor", "--no-try", "--json", "--nic", "enp1s0"]);
        let mut doctor = two.place.start(&mut doctor);
        in_netns(&netns, || {
            let mut socket = sender("enp2s0", 0, TxStamps::default(), 1 << 20, None).expect("a socket");
            while doctor.try_wait().expect("it runs").is_none() {
                socket.send(&frame, 0, None).expect("it is sent");
                std::thread::sleep(Duration::from_millis(20));
            }
        })
        .expect("the other machine's namespace");
        let found = two.place.finish(doctor);
        let printed: Value = serde_json::from_str(&found.stdout).unwrap_or_else(|_| panic!("{}", found.stderr));
        let checks = printed["checks"].as_array().expect("checks");
        let check = checks.iter().find(|check| check["id"] == "vlan-tags").expect("a check");
        (check["verdict"].as_str().expect("a word").to_owned(), check["fact"].to_string())
    };
    let [provider, customer] = [[0x88, 0xa8, 0, 5], [0x81, 0, 0, 6]];
    for two_tags in [[provider, customer], [customer, customer]] {
        let (verdict, fact) = seen(&two_tags);
        assert!(verdict == "note" && fact.contains("frames with two VLAN tags came in"), "{verdict}: {fact}");
    }
    // One tag is not two, and none is none.
    for fewer in [&[customer][..], &[]] {
        let (verdict, fact) = seen(fewer);
        assert!(verdict == "fine" && fact.contains("no frame with two VLAN tags"), "{verdict}: {fact}");
    }
}

#[test]
fn fixes_are_applied_by_root_only_and_nothing_is_changed_otherwise() {
    if !can_run_beside_others("fixes_are_applied_by_root_only_and_nothing_is_changed_otherwise") {
        return;
    }
    let place = Place::new();
    let refused = place.call(place.command("doctor").args(["--fix", "--apply", "--no-live", "--no-try"]).uid(NOBODY));
    assert_eq!(refused.code, Some(3), "{}{}", refused.stdout, refused.stderr);
    assert!(
        refused.stderr.contains("needs root") && refused.stderr.contains("nothing is changed"),
        "{}",
        refused.stderr
    );
    assert_eq!((refused.stdout.as_str(), refused.stderr.lines().count()), ("", 1), "{}", refused.stderr);
    assert!(!place.state().exists());
}

#[test]
fn modes_of_xdp_are_tried_on_a_device_that_was_named_and_leave_nothing_on_it() {
    let Some(two) = two("modes_of_xdp_are_tried_on_a_device_that_was_named_and_leave_nothing_on_it") else { return };
    let netns = Path::new("/run/netns").join(&two.here);
    for (name, device) in [(&two.here, "enp1s0"), (&two.there, "enp2s0")] {
        does(&format!("ip -n {name} link set dev {device} up"));
    }
    let link = || does(&format!("ip -n {} -d link show enp1s0", two.here));
    let doctor = |words: &[&str]| {
        let words = [&["doctor", "--no-try", "--no-live", "--nic", "enp1s0", "--json"], words].concat();
        two.place.call(&mut two.verb(&words))
    };
    assert!(!doctor(&[]).stdout.contains("xdp-tried"), "nobody asked for it");
    let tried = doctor(&["--try-xdp"]);
    assert!(
        tried.stdout.contains("enp1s0: XDP, tried on it: native ") && tried.stdout.contains("generic works"),
        "{}{}",
        tried.stdout,
        tried.stderr
    );
    assert!(!link().contains("xdp"), "{}", link());
    // Where somebody's program is, none is attached.
    let held = in_netns(&netns, || {
        let index = tardy_sys::nic::index("enp1s0").expect("a device");
        tardy_bpf::pass::attach(index, XdpMode::Generic)
    });
    let held = held.expect("the namespace").expect("it is attached");
    let refused = doctor(&["--try-xdp"]);
    assert_eq!(refused.code, Some(3), "{}{}", refused.stdout, refused.stderr);
    assert!(refused.stderr.contains("enp1s0 has an XDP program already"), "{}", refused.stderr);
    assert!(link().contains("xdpgeneric"), "it is there still: {}", link());
    drop(held);
    // The device of the default route is not tried without a word.
    does(&format!("ip -n {} addr add 192.0.2.1/24 dev enp1s0", two.here));
    does(&format!("ip -n {} route add default via 192.0.2.2 dev enp1s0", two.here));
    let refused = doctor(&["--try-xdp"]);
    assert_eq!(refused.code, Some(2), "{}{}", refused.stdout, refused.stderr);
    assert!(
        refused.stderr.contains("carries the default route") && refused.stderr.contains("--allow-nics"),
        "{}",
        refused.stderr
    );
    let allowed = doctor(&["--try-xdp", "--allow-nics"]);
    assert!(allowed.stdout.contains("generic works"), "{}{}", allowed.stdout, allowed.stderr);
}
