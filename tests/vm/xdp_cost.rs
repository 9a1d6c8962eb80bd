// SPDX-License-Identifier: MIT OR Apache-2.0
//! What XDP programs on the way into a machine cost, in an exact guest, where instructions are
//! counted: those of `vm-oneway`, with a line that somebody left in them, and interpreted.

use crate::can_run_machines;
use crate::command::Place;
use crate::machine::glob;
use serde_json::Value;
use std::path::PathBuf;
use tardy_model::point::Metric;
use tardy_model::sample::Batch;
use tardy_store::RunFolder;

/// From the driver that sends a packet to the kernel of the machine, with one program on the way.
const STAGE: &str = "tx_kernel..rx_kernel";

/// `vm-oneway` with its cases by XDP alone, and one more with interpreted programs.
fn file(place: &Place) -> PathBuf {
    const CASE: &str = "[[case]]\n";
    let (whole, expected) =
        include_str!("../../experiments/vm-oneway.toml").split_once("[expect.ctl]").expect("a limit");
    let mut parts = whole.split(CASE);
    let head = parts.next().expect("what all cases have");
    let cases: Vec<&str> = parts.filter(|case| case.starts_with("name = \"xdp")).collect();
    assert_eq!(cases.len(), 2, "{cases:?}");
    let interpreted =
        cases[0].replace("\"xdp\"\n", "\"interpreted\"\n").replace("{ ", "{ \"path.bpf_jit\" = \"off\", ");
    let text = format!("{head}{CASE}{}{CASE}{}{CASE}{interpreted}[expect.ctl]{expected}", cases[0], cases[1]);
    let file = place.path("xdp-cost.toml");
    std::fs::write(&file, text).expect("a file");
    file
}

/// The median difference of the packets of two cells, ns: of all pairs of a packet of the one and
/// one of the other. Each second packet finds QEMU awake, so half of them take a third less than
/// the other half: the difference of the two medians would be that of these halves.
fn difference_ns(place: &Place, [from, to]: [&str; 2], trials: u32) -> i64 {
    let folder = RunFolder::open(place.out()).expect("a run");
    let metric = STAGE.parse::<Metric>().expect("a metric");
    let of = |cell: &str| {
        let mut all = Vec::new();
        for n in 1..=trials {
            let mut batches = folder.batches(cell, n, "ctl").expect("samples");
            let mut batch = Batch::default();
            while batches.read(&mut batch).expect("a batch") {
                all.extend((0..batch.len()).filter_map(|row| batch.span_ns(row, metric)));
            }
        }
        all
    };
    let (from, to) = (of(from), of(to));
    let mut differences: Vec<i64> = from.iter().flat_map(|from| to.iter().map(move |to| to - from)).collect();
    differences.sort_unstable();
    differences[differences.len() / 2]
}

#[test]
fn a_line_that_a_program_printed_cost_what_was_foretold_and_programs_were_interpreted() {
    const TEST: &str = "a_line_that_a_program_printed_cost_what_was_foretold_and_programs_were_interpreted";
    if !can_run_machines(TEST) {
        return;
    }
    let trials: u32 = if std::env::var_os("TARDY_SOAK").is_some() { 20 } else { 2 };
    let place = Place::new();
    // Each packet of the load that comes before a test packet would print a line too.
    let set = ["--trials", &trials.to_string(), "--set", "stream.ctl.count=60", "--set", "load.bulk.count=0"];
    let run = place.call(place.run(&["--in", "guest:exact", "--json"]).args(set).arg(file(&place)));
    run.ran();
    let cells = run.results["cells"].as_array().expect("cells");
    let cell = |id: &str| cells.iter().find(|cell| cell["id"] == id).unwrap_or_else(|| panic!("{id}: {}", run.stderr));
    for id in ["xdp", "xdp-printk", "interpreted"] {
        let outcomes = &cell(id)["streams"]["ctl"]["outcomes"];
        println!("{id}: {outcomes}");
        // The medians over all phases need nearly all packets.
        let received = outcomes["received"].as_u64().expect("a count");
        assert!(received * 100 >= u64::from(60 * trials) * 99, "{id}: {outcomes}: {}", run.stderr);
    }

    // By the program at the other station's end of the path, which sees each packet once.
    let verdicts = cell("xdp-printk")["verdicts"].as_array().expect("verdicts");
    let of_uplink =
        |verdict: &&Value| verdict["id"] == "printk" && verdict["evidence"]["device"].to_string().contains("-brup");
    let evidence = &verdicts.iter().find(of_uplink).unwrap_or_else(|| panic!("{verdicts:#?}"))["evidence"];
    let number = |name: &str| evidence[name].as_f64().unwrap_or_else(|| panic!("{name}: {evidence}"));
    let foretold_ns = number("line_ns") * number("lines_per_packet");
    let printed_ns = difference_ns(&place, ["xdp", "xdp-printk"], trials);
    println!("a line: foretold {foretold_ns:.0} ns, measured {printed_ns} ns in {trials} phases");
    assert!((printed_ns as f64 - foretold_ns).abs() <= foretold_ns / 5.0, "{printed_ns} and {foretold_ns}");

    let interpreted_ns = difference_ns(&place, ["xdp", "interpreted"], trials);
    println!("the interpreter: {interpreted_ns} ns a packet");
    // Both ends of each trial saw what was asked for, and the machine's own kernel what it had.
    for (path, record) in glob(&place) {
        let of = |states: [&Value; 2]| states.map(|state| state["bpf_jit"].as_i64());
        let here = if path.contains("/interpreted/") { 0 } else { 1 };
        assert_eq!(of([&record["before"], &record["after"]]), [Some(here); 2], "{path}");
        assert_eq!(of([&record["hosts"]["vm"][0], &record["hosts"]["vm"][1]]), [Some(1); 2], "{path}");
    }
}
