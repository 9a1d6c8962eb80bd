// SPDX-License-Identifier: MIT OR Apache-2.0
//! Queue disciplines on this machine's kernel: what it refuses is refused in its own words before any packet, and launch times
//! that nothing looks at are told.

use crate::command::{Finished, Place, SHORT, can_run, machine, same};

const TAPRIO: &str = "name='t'\ntrials=1\n[station.a]\n[station.b]\n[shaper]\nkind='taprio'\nclasses=2\n\
entries=['0 250us','1 250us']\n[stream.ctl]\nfrom='a'\nto='b'\ncycle='500us'\ncount=300\n";

fn run(place: &Place, text: &str, args: &[&str]) -> Finished {
    let file = place.path("shaper.toml");
    std::fs::write(&file, text).expect("a file");
    place.call(place.run(args).arg(&file))
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
    // A cell that could run beside it: the refusal comes before its packets too.
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
    assert!(refused.stderr.contains("modprobe"), "and the mend: {}", refused.stderr);
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
    assert!(notes.contains(&"launch-ignored".to_owned()) && notes.contains(&"moved-point".to_owned()), "{notes:?}");
    let verdicts = with.cell()["verdicts"].as_array().expect("verdicts");
    let told = verdicts.iter().find(|verdict| verdict["id"] == "launch-ignored").expect("told");
    assert_eq!(told["evidence"]["root"], "noqueue", "what was read back: {told}");
    assert_eq!(with.cell()["streams"]["ctl"]["rx_kernel_at"], "local-delivery");
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
                [matrix]\n'stream.ctl.launch'=['none','strict']\n";
    let both = run(&place, text, &[]);
    both.ran();
    let told =
        both.results["verdicts"].as_array().expect("verdicts").iter().find(|verdict| verdict["id"] == "moved-point");
    let evidence = &told.expect("told of the run")["evidence"];
    assert_eq!(evidence["local_delivery"], serde_json::json!(["launch=strict"]));
    assert_eq!(evidence["arrival"], serde_json::json!(["launch=none"]));
}
