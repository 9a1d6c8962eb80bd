// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ways into a virtual machine that leave this machine by a network card: each carries packets, and
//! the cards come back as they were, whatever ends the run.

use crate::can_run;
use crate::cards::Host;
use crate::command::{Place, tardy, wait};
use crate::machine::{given, glob, namespaces};
use serde_json::Value;
use std::process::{Command, Stdio};
use std::time::Duration;
use tardy_sys::process::signal;

/// With two cables: enp1s0 to enp2s0, and enp3s0 to enp4s0. Each card has something that a path
/// changes, of its own.
fn host() -> Host {
    let host = Host::new();
    host.ip("link add enp3s0 type veth peer name enp4s0");
    host.ip("link set dev enp2s0 promisc on");
    host.ip("link set dev enp4s0 mtu 1450 addrgenmode none");
    host.ethtool("-K enp1s0 tso off txvlan off");
    host.ethtool("-K enp2s0 gro on tx off");
    host
}

/// `tardy run` there, of the cases of this list.
fn run(host: &Host, place: &Place, args: &[&str]) -> Command {
    let file = place.path("cabled.toml");
    std::fs::write(&file, tardy_tests::experiment("machine over a cable")).expect("a file");
    let mut command = Command::new("nsenter");
    command.arg(format!("--net=/run/netns/{}", host.name)).arg(tardy()).arg("run").arg(file).args(args);
    command.args(["--json", "--allow-nics", "--out"]).arg(place.out()).env("TARDY_STATE", place.state());
    command.stdin(Stdio::null());
    command
}

#[test]
fn each_way_out_of_a_machine_by_a_card_carries_packets_and_the_cards_come_back() {
    const TEST: &str = "each_way_out_of_a_machine_by_a_card_carries_packets_and_the_cards_come_back";
    if !can_run(TEST) {
        return;
    }
    let host = host();
    let before = host.devices();
    let place = Place::new();
    let run_all = place.call(&mut run(&host, &place, &[]));
    host.same(&before);
    let cells = run_all.results["cells"].as_array().unwrap_or_else(|| panic!("cells: {}", run_all.stderr));
    assert_eq!(cells.len(), 5, "{}", run_all.stderr);
    for cell in cells {
        if !cell["not_available"].is_null() {
            // The kernel's datapath is a module that few machines have loaded; what is planned for
            // it is in the golden layer.
            match cell["id"].as_str() {
                Some("ovs") => {}
                Some("netdev") => tardy_tests::skip(TEST, "no Open vSwitch (apt install openvswitch-switch)"),
                _ => panic!("{cell}"),
            }
            continue;
        }
        let ctl = &cell["streams"]["ctl"];
        assert_eq!(ctl["outcomes"]["received"], 20, "{}: {}", cell["id"], run_all.stderr);
        assert_eq!(ctl["metrics"]["send..reply_receive"]["count"], 20, "{}: {ctl}", cell["id"]);
    }
    for (path, record) in glob(&place) {
        let uplink = if path.contains("/macvtap/") { "enp4s0" } else { "enp2s0" };
        for passed in [&record["passed"], &record["inspection"]["passed"]] {
            let packets = &passed["devices"][uplink];
            assert!(packets["received"].as_u64() >= Some(16), "{path}: all packets pass the uplink: {passed}");
        }
        let special = record["inspection"]["special"].as_array().expect("special frames");
        assert!(special.iter().all(|probe| probe["arrived"] == 8), "{path}: {special:#?}");
    }
    assert!(!run_all.stderr.contains("not put back"), "{}", run_all.stderr);
    assert_eq!((namespaces(&place), given(&place)), (Vec::new(), Vec::new()));

    // Killed while a path has the cards.
    let place = Place::new();
    let child = place.start(&mut run(&host, &place, &["--set", "stream.ctl.count=100000"]));
    let is_trial = || place.events().into_iter().find(|event| event["event"] == "trial");
    wait(Duration::from_secs(60), is_trial).expect("a trial begins");
    signal(child.id(), libc::SIGKILL).expect("SIGKILL");
    drop(place.finish(child));
    let with_cards: Value = host.devices();
    assert_ne!(with_cards, before, "the cards were taken");
    let undo = place.undo();
    assert_eq!(undo.code, Some(0), "{}", undo.stderr);
    host.same(&before);
    assert_eq!((namespaces(&place), given(&place)), (Vec::new(), Vec::new()));
    assert_eq!(place.undo().stderr.trim(), "nothing is left behind");
}
