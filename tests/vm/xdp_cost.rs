// SPDX-License-Identifier: MIT OR Apache-2.0
//! What XDP programs on the way into a machine cost in an exact guest, where each instruction
//! counts: one that the kernel interprets.

use crate::can_run_machines;
use crate::command::Place;
use crate::machine::glob;
use serde_json::Value;

#[test]
fn programs_that_the_kernel_interprets_cost_a_round_trip_more_than_compiled_ones() {
    if !can_run_machines("programs_that_the_kernel_interprets_cost_a_round_trip_more_than_compiled_ones") {
        return;
    }
    let place = Place::new();
    let file = place.path("jit.toml");
    std::fs::write(&file, tardy_tests::experiment("machine behind compiled programs")).expect("a file");
    let run = place.call(place.run(&["--in", "guest:exact", "--json"]).arg(&file));
    run.ran();
    let trip_ns = |cell: &str| {
        let cells = run.results["cells"].as_array().expect("cells");
        let ctl = &cells.iter().find(|it| it["id"] == cell).expect("its cell")["streams"]["ctl"];
        assert_eq!(ctl["outcomes"]["received"], 40, "{cell}: {}", run.stderr);
        ctl["metrics"]["send..reply_receive"]["p50_ns"].as_i64().expect("a figure")
    };
    let [on_ns, off_ns] = ["bpf_jit=on", "bpf_jit=off"].map(trip_ns);
    assert!(on_ns < off_ns, "{on_ns} {off_ns}");
    // Both ends of each trial saw what was asked for, and the machine's own kernel what it had.
    let mut seen = Vec::new();
    for (path, record) in glob(&place) {
        let of = |states: [&Value; 2]| states.map(|state| state["bpf_jit"].as_i64());
        let here = of([&record["before"], &record["after"]]);
        let there = of([&record["hosts"]["vm"][0], &record["hosts"]["vm"][1]]);
        assert_eq!(there, [Some(1); 2], "{path}");
        seen.push((path.contains("bpf_jit=on"), here));
    }
    seen.sort();
    assert_eq!(seen, [(false, [Some(0); 2]), (true, [Some(1); 2])]);
}
