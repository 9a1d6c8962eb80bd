// SPDX-License-Identifier: MIT OR Apache-2.0
//! Port `xdp` on devices whose drivers only another kernel has, and the hints that its modules
//! describe: on a virtual machine that is reached over ssh.

use crate::rig::{Rig, rig_of, rig_on};
use serde_json::Value;
use std::fs;
use std::path::PathBuf;

fn file(rig: &Rig) -> PathBuf {
    let file = rig.place.path("xdp.toml");
    fs::write(&file, tardy_tests::experiment("wire to the XDP port of another machine")).expect("a file");
    file
}

#[test]
fn port_xdp_receives_on_another_driver_and_one_that_leaves_no_room_is_named() {
    let Some(rig) = rig_of("port_xdp_receives_on_another_driver_and_one_that_leaves_no_room_is_named", 2) else {
        return;
    };
    let file = file(&rig);
    let run = rig.run_wire(&file, &[]);
    assert!([Some(0), Some(4)].contains(&run.code), "{}\n{}", run.stderr, run.stdout);
    let ctl = &run.cell()["streams"]["ctl"];
    assert_eq!(ctl["outcomes"]["received"], 200, "{ctl}");
    let delay = &ctl["metrics"]["rx_xdp..receive"];
    assert_eq!((&delay["count"], &delay["coverage"]), (&200.into(), &1.0.into()), "{delay}");
    assert!(delay["min_ns"].as_i64().is_some_and(|ns| ns > 0), "{delay}");
    let record = fs::read_to_string(rig.place.out().join("trials/all/1/trial.json")).expect("the trial's record");
    let record: Value = serde_json::from_str(&record).expect("JSON");
    assert_eq!(record["streams"]["ctl"]["xdp"]["mode"], "native", "{record}");
    assert_eq!(rig.left(), "");
    assert!(!rig.does_there("ip -d link").contains("xdp"), "no program is left");

    let refused = rig.run_wire(&file, &["--set", "path.a=tap3", "--set", "path.b=eth3"]);
    assert_eq!(refused.code, Some(3), "{}\n{}", refused.stderr, refused.stdout);
    let says =
        "none of 10 warm-up packets has the stamp of the XDP program: eth3 leaves no room for it before a packet";
    assert!(refused.stderr.contains(says), "{}", refused.stderr);
    assert_eq!(rig.left(), "");
}

#[test]
fn a_device_reads_and_writes_the_memory_of_port_xdp_itself() {
    const NAME: &str = "a_device_reads_and_writes_the_memory_of_port_xdp_itself";
    // The driver of virtio devices can do it from Linux 6.13 on.
    let Some(rig) = rig_on(NAME, "debian:testing", 2) else { return };
    let file = file(&rig);
    let devices = ["--set", "path.a=tap2", "--set", "path.b=eth2"];
    let record = |rig: &Rig| -> Value {
        let record = fs::read_to_string(rig.place.out().join("trials/all/1/trial.json")).expect("the trial's record");
        serde_json::from_str(&record).expect("JSON")
    };
    // A driver of such a kernel says which NAPI context serves a queue.
    for wait in ["poll", "busypoll"] {
        let wait = format!("stream.ctl.rx.wait={wait}");
        let run = rig.run_wire(&file, &[&devices[..], &["--set", &wait]].concat());
        assert!([Some(0), Some(4)].contains(&run.code), "{wait}: {}\n{}", run.stderr, run.stdout);
        let ctl = &run.cell()["streams"]["ctl"];
        assert_eq!(ctl["outcomes"]["received"], 200, "{wait}: {ctl}");
        let delay = &ctl["metrics"]["rx_xdp..receive"];
        assert_eq!((&delay["count"], &delay["coverage"]), (&200.into(), &1.0.into()), "{wait}: {delay}");
        assert!(delay["min_ns"].as_i64().is_some_and(|ns| ns > 0), "{wait}: {delay}");
        let record = record(&rig);
        assert_eq!(record["streams"]["ctl"]["xdp"]["mode"], "zero-copy", "{wait}: {record}");
        assert_eq!(rig.left(), "");
        assert!(!rig.does_there("ip -d link").contains("xdp"), "no program is left");
    }

    let back = tardy_tests::experiment("wire from the XDP port of another machine");
    fs::write(&file, back).expect("a file");
    let run = rig.run_wire(&file, &devices);
    assert!([Some(0), Some(1), Some(4)].contains(&run.code), "{}\n{}", run.stderr, run.stdout);
    let ctl = &run.cell()["streams"]["ctl"];
    assert_eq!(ctl["outcomes"]["received"], 200, "{ctl}");
    let record = record(&rig);
    let sent = &record["streams"]["ctl"]["xdp_sent"];
    assert_eq!(sent["mode"], "zero-copy", "{record}");
    // Those of the warm-up come back too.
    let completions = &sent["counted"]["completions"];
    assert!(completions.as_u64().is_some_and(|count| count >= 200), "{sent}");
    assert_eq!(rig.left(), "");
    assert!(!rig.does_there("ip -d link").contains("xdp"), "no program is left");
}

#[test]
fn a_module_s_own_types_are_read_on_top_of_its_kernel_s() {
    let Some(rig) = rig_of("a_module_s_own_types_are_read_on_top_of_its_kernel_s", 1) else { return };
    // By another name, tardy's program does not load modules.
    rig.does_there("cat /usr/bin/modprobe >/tmp/tardy && chmod 755 /tmp/tardy");
    let listed = rig.there("/tmp/tardy hints virtio_net");
    let says = String::from_utf8_lossy(&listed.stderr);
    // The driver has no hint struct. Its structs are its own, and none of the kernel's.
    assert_eq!(listed.status.code(), Some(2), "{says}");
    let structs = says.split_once(" structs are ").map(|(_, names)| names).unwrap_or_else(|| panic!("{says}"));
    assert!(structs.starts_with("virtio_net_"), "{says}");
    assert!(!structs.split(", ").any(|name| name == "sk_buff" || name == "task_struct"), "{says}");
    let missing = rig.there("/tmp/tardy hints no_such_module");
    assert_eq!(missing.status.code(), Some(2), "{}", String::from_utf8_lossy(&missing.stderr));
}
