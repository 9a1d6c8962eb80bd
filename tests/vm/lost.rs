// SPDX-License-Identifier: MIT OR Apache-2.0
//! Virtual machines that lose something while packets are on their way: their network device, or
//! their processors' time. And a bridge that loses multicast.

use crate::can_run;
use crate::command::{Place, wait};
use crate::machine::{given, glob, meddled, namespaces, port_to_machine};
use crate::qemu_of;
use serde_json::Value;
use std::process::{Child, Command};
use std::time::Duration;
use tardy_sys::process::signal;

/// A stream of some seconds in each of two trials.
const LONG: [&str; 8] = [
    "--set",
    "stream.ctl.kind=cyclic",
    "--set",
    "stream.ctl.cycle=5ms",
    "--set",
    "stream.ctl.count=600",
    "--trials",
    "2",
];

/// A run over a bridge whose trial is under way: some hundred packets have passed the machine's
/// tap.
fn under_way(place: &Place) -> (Child, String, String) {
    let file = place.path("behind.toml");
    std::fs::write(&file, tardy_tests::experiment("machine behind a bridge")).expect("a file");
    let child = place.start(place.run(&LONG).arg(&file));
    wait(Duration::from_secs(90), || place.events().into_iter().find(|event| event["event"] == "trial"))
        .expect("a trial begins");
    let (netns, port) = port_to_machine(place).expect("the bridge has a port to the machine");
    let sent = || {
        let show = ["-n", &netns, "-j", "-s", "link", "show", "dev", &port];
        let links = Command::new("ip").args(show).output().expect("ip runs").stdout;
        let links: Value = serde_json::from_slice(&links).ok()?;
        links[0]["stats64"]["tx"]["packets"].as_u64().filter(|packets| *packets > 300)
    };
    wait(Duration::from_secs(90), sent).expect("packets pass");
    (child, netns, port)
}

#[test]
fn a_machine_that_lost_its_network_device_was_measured_on_and_left_its_namespace() {
    if !can_run("a_machine_that_lost_its_network_device_was_measured_on_and_left_its_namespace") {
        return;
    }
    let place = Place::new();
    let (child, netns, port) = under_way(&place);
    let delete = ["-n", &netns, "link", "del", "dev", &port];
    assert!(Command::new("ip").args(delete).status().expect("ip runs").success());
    let run = place.finish(child);
    assert!(matches!(run.code, Some(3 | 4)), "{:?}: {}", run.code, run.stderr);
    let gone = format!("network device {port} is gone from namespace {netns}");
    assert!(run.stderr.contains(&gone), "{}", run.stderr);
    // Nothing is measured on what is left of the path.
    let trials = glob(&place);
    assert_eq!(trials.len(), 1, "{}", run.stderr);
    let failed = trials[0].1["failed"].as_str().expect("the trial did not go well");
    assert!(failed.contains(&gone), "{failed}");
    assert!(!run.stderr.contains("not put back"), "{}", run.stderr);
    assert_eq!(namespaces(&place), [""; 0]);
    assert_eq!(given(&place), [""; 0]);
    let undone = place.call(&mut place.command("undo"));
    assert_eq!(undone.code, Some(0), "{}", undone.stderr);
}

#[test]
fn a_machine_that_hung_in_a_trial_ended_it_without_its_console() {
    const TEST: &str = "a_machine_that_hung_in_a_trial_ended_it_without_its_console";
    if std::env::var_os("TARDY_SOAK").is_none() {
        return tardy_tests::skip(TEST, "it waits for a minute: make soak runs it");
    }
    if !can_run(TEST) {
        return;
    }
    let place = Place::new();
    let (child, ..) = under_way(&place);
    signal(qemu_of(child.id()), libc::SIGSTOP).expect("SIGSTOP");
    let run = place.finish(child);
    assert!(matches!(run.code, Some(3 | 4)), "{:?}: {}", run.code, run.stderr);
    for says in ["station `vm` did not answer within", "; virtual machine vm: ", "; its console "] {
        assert!(run.stderr.contains(says), "no {says}: {}", run.stderr);
    }
    assert!(place.out().join("guest-vm.registers.txt").exists(), "what there is of its registers");
    assert!(place.out().join("guest-vm.console.log").exists(), "its console");
    drop(place.call(&mut place.command("undo")));
    assert_eq!(namespaces(&place), [""; 0]);
}

#[test]
fn a_bridge_that_snoops_with_a_querier_and_no_member_lost_multicast() {
    if !can_run("a_bridge_that_snoops_with_a_querier_and_no_member_lost_multicast") {
        return;
    }
    let place = Place::new();
    let mut out = String::new();
    let (run, refused) = meddled(&place, "trial_kept", |netns, port, _| {
        port.clone_into(&mut out);
        let bridge = port.replace("-tap", "-br");
        // It keeps multicast only once its own first queries could have been answered.
        let snoop = ["mcast_query_response_interval", "1", "mcast_snooping", "1", "mcast_querier", "1"];
        let set = [&["-n", netns, "link", "set", "dev", &bridge, "type", "bridge"][..], &snoop].concat();
        assert!(Command::new("ip").args(set).status().expect("ip runs").success());
    });
    for says in [
        "a sent 16 multicast packets to vm and none arrived".to_owned(),
        format!(
            "snoops (mcast_snooping 1), is the querier itself (mcast_querier 1), and has heard of no member behind {out}"
        ),
        format!("the smallest change is `ip link set dev {out} type bridge_slave mcast_router 2`"),
    ] {
        assert!(refused.contains(&says), "no {says}: {refused}");
    }
    let verdicts = run.results["cells"][0]["verdicts"].as_array().expect("verdicts");
    assert!(
        verdicts.iter().any(|verdict| verdict["id"] == "group-lost" && verdict["level"] == "invalid"),
        "{verdicts:#?}"
    );
}
