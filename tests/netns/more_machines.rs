// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stations on other machines than this one and one other: a third one, two others, or this very
//! machine under another name.

use crate::command::each;
use crate::elsewhere::{ITSELF, NETWORK, WIRE, two};
use serde_json::Value;
use std::net::UdpSocket;

#[test]
fn a_machine_that_reaches_itself_over_ssh_has_one_clock() {
    let Some(mut two) = two("a_machine_that_reaches_itself_over_ssh_has_one_clock") else { return };
    two.listen(&two.here.clone(), ITSELF);
    let before = two.seen();
    let text = tardy_spec::ready_made("host-to-host").expect("it is ready-made").text;
    let set = ["station.b.ssh=itself", "path.kind=network", "trials=2", "stream.ctl.count=400"];
    let set: Vec<&str> = set.iter().flat_map(|set| ["--set", set]).collect();
    let run = two.run(&text, &set);
    assert!([0, 4].contains(&run.code.expect("it ends by itself")), "{}\n{}", run.stderr, run.stdout);
    assert!(run.stderr.contains("`itself` is this very machine"), "{}", run.stderr);
    let ctl = &run.cell()["streams"]["ctl"];
    assert_eq!(ctl["outcomes"]["received"], 800, "{ctl}");
    let whole = &ctl["metrics"]["scheduled..rx_kernel"];
    assert_eq!((&whole["count"], &whole["clock_bound_ns"]), (&Value::from(800), &Value::Null), "{whole}");
    assert!(!run.stdout.contains("\"clock-bound\""), "{}", run.stdout);
    let cells = std::fs::read_dir(two.place.out().join("trials")).expect("trials");
    let cell = cells.flatten().next().expect("a cell").path();
    let record = std::fs::read_to_string(cell.join("1/trial.json")).expect("a trial's record");
    assert!(record.contains("one clock: it is of this machine's boot"), "{record}");
    assert_eq!(two.seen(), before);
}

#[test]
fn one_station_sends_to_several_and_a_third_one_loads_them() {
    let Some(two) = two("one_station_sends_to_several_and_a_third_one_loads_them") else { return };
    let before = two.seen();
    let run = two.run(tardy_tests::experiment("network of three stations"), &[]);
    assert!([Some(0), Some(4)].contains(&run.code), "{}\n{}", run.stderr, run.stdout);
    let cells = run.results["cells"].as_array().expect("cells");
    let ids: Vec<&str> = cells.iter().filter_map(|cell| cell["id"].as_str()).collect();
    assert_eq!(ids, ["ctl.to=b", "ctl.to=c"], "{}", run.stdout);
    for cell in cells {
        for stream in ["ctl", "more"] {
            assert_eq!(each(cell, stream, "received"), [200], "{stream}: {cell}");
        }
        assert!(cell["loads"]["bulk"]["bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{cell}");
    }
    // Table and page say between which two of the three.
    for format in ["text", "md", "html"] {
        let shown = two.place.call(two.place.command("report").arg(two.place.out()).args(["--format", format]));
        for pair in ["ctl, a → b", "ctl, a → c"] {
            assert!(shown.stdout.contains(pair), "{format}: {}", shown.stdout);
        }
    }
    assert_eq!(two.seen(), before);
}

#[test]
fn two_other_machines_were_never_compared_with_each_other() {
    let Some(mut two) = two("two_other_machines_were_never_compared_with_each_other") else { return };
    two.listen(&two.here.clone(), ITSELF);
    let before = two.seen();
    let set = ["station.a.ssh=itself", "station.a.address=198.51.100.1", "station.b.address=198.51.100.2"];
    let set: Vec<&str> = set.iter().flat_map(|set| ["--set", set]).collect();
    let run = two.run(NETWORK, &set);
    assert!([Some(0), Some(4)].contains(&run.code), "{}\n{}", run.stderr, run.stdout);
    assert_eq!(run.cell()["streams"]["ctl"]["outcomes"]["received"], 400, "{}", run.stdout);
    assert!(!run.stdout.contains("\"clocks-disagree\""), "{}", run.stdout);
    let offsets = two.trial()["streams"]["ctl"]["offsets"].clone();
    // Both are of one boot, so nothing is better than what the coordinator knows of each. The
    // exchange between them is there, and has to contain 0.
    let pair = &offsets["pair"];
    assert_eq!((&pair["first"]["bound_ns"], &pair["host"]), (&0.into(), &"lab2".into()), "{offsets}");
    let [path] = &pair["others"].as_array().expect("other sources")[..] else { panic!("{offsets}") };
    assert!(path["method"].as_str().is_some_and(|of| of.contains("64 round trips over the path")), "{path}");
    for reading in [&path["first"], &path["last"]] {
        let [ahead_ns, bound_ns] = ["ahead_ns", "bound_ns"].map(|of| reading[of].as_i64().expect("ns"));
        assert!(bound_ns > 0 && ahead_ns.abs() <= bound_ns, "{path}");
    }
    assert_eq!(two.seen(), before);
}

#[test]
fn one_pair_that_could_not_be_asked_silenced_the_others() {
    let Some(mut two) = two("one_pair_that_could_not_be_asked_silenced_the_others") else { return };
    two.listen(&two.here.clone(), ITSELF);
    // The second question goes to a port that somebody else has, on either machine.
    let takers = [&two.here, &two.there].map(|name| {
        let netns = std::path::Path::new("/run/netns").join(name);
        let taker = std::thread::spawn(move || {
            tardy_sys::process::enter_netns(&netns).expect("its namespace");
            UdpSocket::bind("0.0.0.0:5801").expect("a free port")
        });
        taker.join().expect("it is taken")
    });
    let more = tardy_tests::part("third station of a network");
    let run = two.run(&format!("{NETWORK}{more}"), &["--set", "station.a.address=198.51.100.1"]);
    assert!([Some(0), Some(4)].contains(&run.code), "{}\n{}", run.stderr, run.stdout);
    let offsets = &two.trial()["streams"]["ctl"]["offsets"];
    let text = offsets.to_string();
    assert!(text.contains("64 round trips over the path"), "{offsets}");
    drop(takers);
}

/// The devices of this wire have no clock, so each packet has its kernels' stamps.
#[test]
fn the_exchange_of_streams_that_devices_stamp_took_the_kernels_stamps_alone() {
    let Some(two) = two("the_exchange_of_streams_that_devices_stamp_took_the_kernels_stamps_alone") else { return };
    let one_way = WIRE.replace("kind = \"pingpong\"\n", "cycle = \"1ms\"\n");
    let one_way = one_way.replace("\"send..reply_receive\"", "\"tx_hw..rx_hw\"");
    let run = two.run(&one_way, &[]);
    assert!([Some(0), Some(4)].contains(&run.code), "{}\n{}", run.stderr, run.stdout);
    let offset = two.offset();
    let others = offset["others"].as_array().expect("other sources");
    let method = "64 packets each way over the path, some with the kernels' stamps alone";
    let by_path = others.iter().find(|of| of["method"] == method).unwrap_or_else(|| panic!("{offset}"));
    for moment in ["first", "last"] {
        let [ahead_ns, bound_ns] = ["ahead_ns", "bound_ns"].map(|of| by_path[moment][of].as_i64().expect("a number"));
        assert!(ahead_ns.abs() <= bound_ns && bound_ns > 0, "both ends have one clock: {by_path}");
    }
}
