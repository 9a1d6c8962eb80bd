// SPDX-License-Identifier: MIT OR Apache-2.0
//! The ways into a virtual machine in their modes, and between two machines.

use crate::can_run;
use crate::command::Place;
use crate::exact::manifest;
use crate::machine::{given, glob, namespaces};
use serde_json::Value;
use std::collections::BTreeMap;

#[test]
fn every_mode_of_a_way_into_a_virtual_machine_carries_packets() {
    const TEST: &str = "every_mode_of_a_way_into_a_virtual_machine_carries_packets";
    if !can_run(TEST) {
        return;
    }
    let place = Place::new();
    let file = place.path("modes.toml");
    std::fs::write(&file, tardy_tests::experiment("machine by other modes")).expect("a file");
    let run = place.call(place.run(&["--json"]).arg(&file));
    let cells = run.results["cells"].as_array().unwrap_or_else(|| panic!("cells: {}", run.stderr));
    let measured = |cell: &&Value| cell["streams"]["ctl"]["outcomes"]["received"] == 20;
    let measured: Vec<&Value> = cells.iter().filter(measured).collect();
    if measured.len() == 4 && run.stderr.contains("apt install openvswitch-switch") {
        tardy_tests::skip(TEST, "Open vSwitch's programs are missing (apt install openvswitch-switch)");
    } else {
        assert_eq!(measured.len(), 5, "{}: {cells:#?}", run.stderr);
    }
    let mut threads = BTreeMap::new();
    for (path, record) in glob(&place) {
        let cell = path.rsplit('/').nth(2).expect("a cell").to_owned();
        threads.insert(cell, record["after"]["machine_tasks"].as_array().expect("the path's threads").len());
        let special = record["inspection"]["special"].as_array().expect("special frames");
        assert_eq!(special.len(), 8, "{path}");
        assert!(special.iter().all(|probe| probe["arrived"] == 8), "{path}: {special:#?}");
    }
    // The daemons are a part of the path, and not somebody else who takes a CPU.
    if let Some(with_daemons) = threads.remove("netdev") {
        let most = threads.values().max().expect("cells without daemons");
        assert!(with_daemons >= most + 2, "{with_daemons}, and others have {threads:?}");
    }
}

#[test]
fn two_machines_meet_on_each_path_that_joins_them() {
    if !can_run("two_machines_meet_on_each_path_that_joins_them") {
        return;
    }
    let place = Place::new();
    let file = place.path("two.toml");
    std::fs::write(&file, tardy_tests::experiment("two machines")).expect("a file");
    let run = place.call(place.run(&["--json"]).arg(&file));
    let cells = run.results["cells"].as_array().unwrap_or_else(|| panic!("cells: {}", run.stderr));
    assert_eq!(cells.len(), 3, "{}", run.stderr);
    for cell in cells {
        let ctl = &cell["streams"]["ctl"];
        assert_eq!(ctl["outcomes"]["received"], 20, "{}: {}", cell["id"], run.stderr);
        assert_eq!(ctl["metrics"]["send..reply_receive"]["count"], 20, "{}: {ctl}", cell["id"]);
    }
    // A macvtap does not move to another link: the second machine on one is a machine of its own.
    let manifest = manifest(&place);
    let hosts: Vec<&String> = manifest["hosts"].as_object().expect("hosts").keys().collect();
    assert_eq!(hosts, ["a", "b", "b.2"]);
    assert!(!run.stderr.contains("not put back"), "{}", run.stderr);
    assert_eq!(namespaces(&place), [""; 0]);
    assert_eq!(given(&place), [""; 0]);
}
