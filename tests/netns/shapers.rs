// SPDX-License-Identifier: MIT OR Apache-2.0
//! Queue disciplines on this machine's kernel: what it refuses is refused in its own words before
//! any packet, and launch times that nothing enforces are reported.

use crate::command::{Finished, Place, SHORT, can_run, machine, same};
use std::process::Command;
use std::time::Duration;

const TAPRIO: &str = "name='t'\ntrials=1\n[station.a]\n[station.b]\n[shaper]\nkind='taprio'\nclasses=2\n\
entries=['0 250us','1 250us']\n[stream.ctl]\nfrom='a'\nto='b'\ncycle='500us'\ncount=300\n";

fn run(place: &Place, text: &str, args: &[&str]) -> Finished {
    let file = place.path("shaper.toml");
    std::fs::write(&file, text).expect("a file");
    place.call(place.run(args).arg(&file))
}

/// True if this machine's kernel, 6.9 or later, keeps a launch time on the way over a virtual link.
fn keeps_launch_times() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("a release");
    let numbers: Vec<u32> = release.split(['.', '-']).map_while(|number| number.parse().ok()).collect();
    numbers >= vec![6, 9]
}

/// Packets of any trial of a run.
fn trials(run: &Finished) -> usize {
    let cells = run.results["cells"].as_array().into_iter().flatten();
    cells.filter_map(|cell| cell["trials"].as_array()).map(Vec::len).sum()
}

#[test]
fn a_kernel_without_the_queue_discipline_says_so_before_any_packet() {
    if !can_run("a_kernel_without_the_queue_discipline_says_so_before_any_packet") {
        return;
    }
    let (place, before) = (Place::new(), machine());
    // Another cell could run: the refusal comes before its packets too.
    let both = format!("{TAPRIO}[[case]]\nname='none'\nset={{'shaper.kind'='none'}}\n[[case]]\nname='taprio'\n");
    let refused = run(&place, &both, &[]);
    same(&before);
    if refused.code != Some(3) {
        // This kernel has it: then it must be what was asked for, and the gates were judged.
        let cell = &refused.ran().results["cells"][1];
        assert!(!refused.ids("invalid").contains(&"shaper".to_owned()), "{}", refused.stdout);
        assert!(cell["streams"]["ctl"]["gates"]["judged"].as_u64() > Some(0), "{cell}");
        return;
    }
    assert!(refused.stderr.contains("Specified qdisc kind is unknown"), "the kernel's own words: {}", refused.stderr);
    assert!(
        refused.stderr.contains("qdisc replace dev") && refused.stderr.contains("taprio num_tc 2"),
        "{}",
        refused.stderr
    );
    for mend in ["modprobe", "--in guest:exact"] {
        assert!(refused.stderr.contains(mend), "and how to fix it: {}", refused.stderr);
    }
    assert_eq!(trials(&refused), 0);
    assert!(!place.events().iter().any(|event| event["event"] == "trial"), "no trial was begun");
    let kept = std::fs::read_dir(place.out().join("trials")).map_or(0, Iterator::count);
    assert_eq!(kept, 0, "{}", refused.stdout);
}

#[test]
fn offload_costs_the_cell_that_asks_for_it_and_no_other() {
    if !can_run("offload_costs_the_cell_that_asks_for_it_and_no_other") {
        return;
    }
    let text = format!(
        "{TAPRIO}[[case]]\nname='none'\nset={{'shaper.kind'='none'}}\n[[case]]\nname='offload'\nset={{'shaper.mode'='offload'}}\n"
    );
    let (place, before) = (Place::new(), machine());
    let mixed = run(&place, &text, &[]);
    same(&before);
    assert_eq!(mixed.code, Some(4), "{}", mixed.stderr);
    let cells = mixed.results["cells"].as_array().expect("cells");
    assert_eq!(cells[0]["streams"]["ctl"]["outcomes"]["intended"], 300, "{}", mixed.stdout);
    let told = cells[1]["verdicts"]
        .as_array()
        .expect("verdicts")
        .iter()
        .find(|verdict| verdict["id"] == "refused")
        .expect("refused");
    let says = told["says"].as_str().expect("a sentence");
    assert!(says.contains("the kernel: Error: ") && says.contains("veth"), "{says}");
    let metrics = cells[1]["streams"]["ctl"]["metrics"].as_object().expect("what was asked for");
    assert!(metrics.values().all(|metric| metric["count"] == 0), "it prints no latency: {metrics:?}");
    // Alone it leaves nothing to run.
    let alone = run(&Place::new(), &TAPRIO.replace("classes=2", "classes=2\nmode='offload'"), &[]);
    assert_eq!((alone.code, trials(&alone)), (Some(3), 0), "{}", alone.stderr);
    assert!(alone.stderr.contains("Error: "), "{}", alone.stderr);
}

#[test]
fn launch_times_that_no_queue_discipline_looks_at_are_told() {
    if !can_run("launch_times_that_no_queue_discipline_looks_at_are_told") {
        return;
    }
    let place = Place::new();
    let with = place.call(place.run(&SHORT).args(["--set", "stream.ctl.launch=strict"]));
    with.ran();
    let notes = with.ids("note");
    assert!(notes.contains(&"launch-ignored".to_owned()), "{notes:?}");
    assert_eq!(notes.contains(&"moved-point".to_owned()), keeps_launch_times(), "{notes:?}");
    let verdicts = with.cell()["verdicts"].as_array().expect("verdicts");
    let told = verdicts.iter().find(|verdict| verdict["id"] == "launch-ignored").expect("told");
    assert_eq!(told["evidence"]["root"], "noqueue", "what was read back: {told}");
    let at = if keeps_launch_times() { "local-delivery" } else { "arrival" };
    assert_eq!(with.cell()["streams"]["ctl"]["rx_kernel_at"], at);
    assert_eq!(with.cell()["streams"]["ctl"]["outcomes"]["not_sent"], 0, "nothing drops them");
    let without = Place::new();
    let without = without.call(&mut without.run(&SHORT));
    without.ran();
    assert!(!without.ids("note").iter().any(|id| id == "launch-ignored" || id == "moved-point"), "{}", without.stdout);
    assert!(without.cell()["streams"]["ctl"]["rx_kernel_at"].is_null());
}

#[test]
fn cells_that_differ_in_the_point_are_not_to_be_compared() {
    if !can_run("cells_that_differ_in_the_point_are_not_to_be_compared") {
        return;
    }
    let place = Place::new();
    let text = "name='l'\ntrials=1\n[station.a]\n[station.b]\n[stream.ctl]\nfrom='a'\nto='b'\ncycle='500us'\ncount=300\n\
                [[case]]\nname='none'\n[[case]]\nname='udp'\nset={'stream.ctl.launch'='strict'}\n\
                [[case]]\nname='packet'\nset={'stream.ctl.launch'='strict','stream.ctl.port'='packet'}\n";
    let all = run(&place, text, &[]);
    all.ran();
    let told =
        all.results["verdicts"].as_array().expect("verdicts").iter().find(|verdict| verdict["id"] == "moved-point");
    if !keeps_launch_times() {
        assert!(told.is_none(), "nothing moves: {told:?}");
        return;
    }
    let evidence = &told.expect("told of the run")["evidence"];
    assert_eq!(evidence["local_delivery"], serde_json::json!(["udp"]));
    assert_eq!(evidence["packet_socket"], serde_json::json!(["packet"]));
    assert_eq!(evidence["arrival"], serde_json::json!(["none"]));
}

#[test]
fn what_a_queue_discipline_drops_is_not_refused_on_port_packet_where_packets_bear_launch_times() {
    if !can_run("what_a_queue_discipline_drops_is_not_refused_on_port_packet_where_packets_bear_launch_times") {
        return;
    }
    for port in ["udp", "packet"] {
        let place = Place::new();
        let file = place.path("dropped.toml");
        let text = format!(
            "name='d'\ntrials=1\n[station.a]\n[station.b]\n[stream.ctl]\nfrom='a'\nto='b'\ncycle='500us'\ncount=3000\n\
             launch='strict'\nport='{port}'\nstamps=['send','tx_sched','tx_kernel','rx_kernel','receive']\n"
        );
        std::fs::write(&file, text).expect("a file");
        let child = place.start(place.run(&[]).arg(&file));
        place.wait_for("trial");
        std::thread::sleep(Duration::from_millis(700));
        // A queue with room for no packet, as one that is full.
        let netns = place.netns("a");
        let device = crate::packet::device(&netns);
        let tc = |args: &[&str]| {
            let done = Command::new("tc").args(["-n", &netns]).args(args).status().expect("tc");
            assert!(done.success(), "tc {args:?}");
        };
        tc(&["qdisc", "replace", "dev", &device, "root", "bfifo", "limit", "1"]);
        std::thread::sleep(Duration::from_millis(100));
        tc(&["qdisc", "del", "dev", &device, "root"]);
        let run = place.finish(child);
        let record = std::fs::read(place.out().join("trials/all/1/trial.json")).expect("a record");
        let record: serde_json::Value = serde_json::from_slice(&record).expect("JSON");
        let counters = &record["streams"]["ctl"]["counters"];
        assert_eq!(counters["send_errors"], 0, "{port}: {counters}");
        assert_eq!(counters["sent"], 3_000, "{port}: {counters}");
        assert_eq!(counters["tx_stamps_unmatched"], 0, "{port}: every stamp finds its packet: {counters}");
        let dropped = counters["tx_stamps_missing"].as_u64().expect("a count");
        assert!(dropped > 0, "{port}: {counters}");
        // The device of the trial was touched: what is asked is where those packets stand.
        let outcomes = &run.cell()["trials"][0]["streams"]["ctl"]["outcomes"];
        assert_eq!(outcomes["lost"].as_u64(), Some(dropped), "{port}: {outcomes}");
        assert_eq!(outcomes["not_sent"], 0, "{port}: {outcomes}");
        assert!(!run.ids("invalid").contains(&"send-errors".to_owned()), "{port}: {:?}", run.ids("invalid"));
    }
}
