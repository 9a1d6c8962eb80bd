// SPDX-License-Identifier: MIT OR Apache-2.0
//! The built binary on a simulated path that loses packets on purpose: what it comes to never gets
//! milder.

use crate::help::tardy;
use serde_json::Value;
use std::process::{Command, Stdio};

const EXPERIMENT: &str = "name = \"lossy\"\ntrials = 1\n[station.a]\n[station.b]\n\n[stream.ctl]\nfrom = \"a\"\nto = \"b\"\n\
    port = \"sim\"\ncycle = \"100us\"\ncount = 10_000\n\n[expect.ctl]\n";

/// Exit code and results of a run that loses `lost` packets evenly or in a row.
fn run(lost: usize, in_a_row: bool, expect: &str) -> (Option<i32>, Value) {
    let keep = tempfile::tempdir().expect("a folder");
    let file = keep.path().join("lossy.toml");
    std::fs::write(&file, format!("{EXPERIMENT}{expect}\n")).expect("written");
    let step = if in_a_row { 1 } else { 10_000 / lost.max(1) };
    let drop: Vec<String> = (0..lost).map(|n| (n * step).to_string()).collect();
    let drop = format!("stream.ctl.sim.drop=[{}]", drop.join(","));
    let mut command = Command::new(tardy());
    command.arg("run").arg(&file).args(["--json", "--set", &drop, "--out"]).arg(keep.path().join("run"));
    let output =
        command.stdin(Stdio::null()).output().unwrap_or_else(|error| panic!("{error}: run `make build` first"));
    let said = String::from_utf8_lossy(&output.stderr);
    let results = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"));
    (output.status.code(), results)
}

#[test]
fn one_lost_packet_fails_a_run_that_allows_none_and_so_does_every_number_of_them() {
    for lost in [0, 1, 5, 11, 50, 500] {
        let (code, results) = run(lost, false, "lost = 0");
        assert_eq!(code, Some(i32::from(lost > 0)), "{lost} of 10 000 lost");
        assert_eq!(results["expectations_met"], lost == 0, "{lost} of 10 000 lost");
        let expectation = &results["expectations"][0];
        assert_eq!((&expectation["got"], &expectation["met"]), (&lost.into(), &(lost == 0).into()));
        // Above the allowed share the figures are not valid either, which excuses nothing.
        assert_eq!(results["valid"], lost <= 10, "{lost} of 10 000 lost");
    }
    let (code, results) = run(10_000, true, "lost = 0");
    assert_eq!((code, &results["expectations"][0]["got"]), (Some(1), &10_000.into()));
    let lead = &results["cells"][0]["streams"]["ctl"]["metrics"]["scheduled..rx_kernel"];
    assert_eq!(lead["infinite"], serde_json::json!(["p50", "p90", "p99", "p99.9", "max"]));
}

#[test]
fn a_maximum_is_not_kept_by_losing_the_worst_packet() {
    let expect = "\"scheduled..rx_kernel\" = \"max < 1s\"";
    assert_eq!(run(0, false, expect).0, Some(0));
    let mut before = 0;
    for lost in [1, 10, 11, 400] {
        let (code, results) = run(lost, false, expect);
        assert_eq!((code, &results["expectations"][0]["met"]), (Some(1), &false.into()), "{lost} lost");
        let lead = &results["cells"][0]["streams"]["ctl"]["metrics"]["scheduled..rx_kernel"];
        assert_eq!(lead["max_ns"], Value::Null);
        assert!(lead["received_only_max_ns"].is_i64());
        let infinite = lead["infinite"].as_array().map_or(0, Vec::len);
        assert!(infinite >= before, "{lost} lost");
        before = infinite;
    }
}
