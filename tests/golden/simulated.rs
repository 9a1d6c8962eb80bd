// SPDX-License-Identifier: MIT OR Apache-2.0
//! The built binary on a simulated path: a run that loses packets on purpose never gets milder, and
//! `tardy report --worst` and `--trial` show which packets are the worst, where they lost their
//! time, and one trial alone.

use crate::analyze::fixture::{BASE_NS, CYCLE_NS, LEAD, Packet, batches, lost, not_sent, received};
use crate::help::tardy;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tardy_analyze::worst::{Worst, WorstPacket};
use tardy_model::point::Point;

/// Exit code and results of a run that loses `lost` packets evenly or in a row.
fn losing(lost: usize, in_a_row: bool, expect: &str) -> (Option<i32>, Value) {
    let keep = tempfile::tempdir().expect("a folder");
    let file = keep.path().join("lossy.toml");
    let stream = tardy_tests::experiment("simulated stream");
    let more = format!("cycle = \"100us\"\ncount = 10_000\n[expect.ctl]\n{expect}\n");
    std::fs::write(&file, format!("name = \"lossy\"\ntrials = 1\n{stream}{more}")).expect("written");
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
        let (code, results) = losing(lost, false, "lost = 0");
        assert_eq!(code, Some(i32::from(lost > 0)), "{lost} of 10 000 lost");
        assert_eq!(results["expectations_met"], lost == 0, "{lost} of 10 000 lost");
        let expectation = &results["expectations"][0];
        assert_eq!((&expectation["got"], &expectation["met"]), (&lost.into(), &(lost == 0).into()));
        // Above the allowed share the figures are not valid either, which excuses nothing.
        assert_eq!(results["valid"], lost <= 10, "{lost} of 10 000 lost");
    }
    let (code, results) = losing(10_000, true, "lost = 0");
    assert_eq!((code, &results["expectations"][0]["got"]), (Some(1), &10_000.into()));
    let lead = &results["cells"][0]["streams"]["ctl"]["metrics"]["scheduled..rx_kernel"];
    assert_eq!(lead["infinite"], serde_json::json!(["p50", "p90", "p99", "p99.9", "max"]));
}

#[test]
fn a_maximum_is_not_kept_by_losing_the_worst_packet() {
    let expect = "\"scheduled..rx_kernel\" = \"max < 1s\"";
    assert_eq!(losing(0, false, expect).0, Some(0));
    let mut before = 0;
    for lost in [1, 10, 11, 400] {
        let (code, results) = losing(lost, false, expect);
        assert_eq!((code, &results["expectations"][0]["met"]), (Some(1), &false.into()), "{lost} lost");
        let lead = &results["cells"][0]["streams"]["ctl"]["metrics"]["scheduled..rx_kernel"];
        assert_eq!(lead["max_ns"], Value::Null);
        assert!(lead["received_only_max_ns"].is_i64());
        let infinite = lead["infinite"].as_array().map_or(0, Vec::len);
        assert!(infinite >= before, "{lost} lost");
        before = infinite;
    }
}

#[test]
fn a_run_folder_without_one_of_its_files_was_no_fault_of_the_call() {
    let keep = tempfile::tempdir().expect("a folder");
    let call = |args: &[&str]| {
        let output = Command::new(tardy()).current_dir(keep.path()).args(args).stdin(Stdio::null()).output();
        let output = output.expect("tardy starts");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let stream = tardy_tests::experiment("simulated stream");
    std::fs::write(keep.path().join("x.toml"), format!("trials = 2\n{stream}count = 100\n")).expect("written");
    for run in ["one", "two"] {
        assert_eq!(call(&["run", "x.toml", "--out", run]).0, Some(0));
    }
    for file in ["samples.parquet", "trial.json"] {
        std::fs::remove_file(keep.path().join("one/trials/all/1").join(file)).expect("it was there");
        for args in [&["report", "one"][..], &["compare", "one", "two"], &["export", "one", "--to", "csv", "-o", "z"]] {
            let (code, says) = call(args);
            assert_eq!(code, Some(2), "{args:?}: {says}");
            assert!(says.contains(file) && says.contains("the run folder is not whole"), "{args:?}: {says}");
        }
    }
    let (code, says) = call(&["run", "x.toml", "--out", "/proc/there-is-no-place"]);
    assert_eq!(code, Some(3), "{says}");
    assert!(says.contains("choose a place in a folder that is there") && !says.contains("whole"), "{says}");
}

/// The worst packets of these trials, cut into batches.
fn worst(most: usize, trials: &[Vec<Packet>]) -> (Vec<WorstPacket>, u64, u64) {
    let mut worst = Worst::new(LEAD, most);
    for (packets, n) in trials.iter().zip(1..) {
        batches(packets, 7).iter().for_each(|batch| worst.push(n, BASE_NS, batch));
    }
    let (values, missing) = (worst.values, worst.missing);
    (worst.finish(), values, missing)
}

#[test]
fn the_worst_packets_are_those_that_sorting_all_of_them_finds() {
    let values = |seed: i64| (0..200).map(move |i| 10_000 + (i * 7_919 + seed * 31) % 997);
    let trials: Vec<Vec<Packet>> = (1..=3).map(|seed| values(seed).map(received).collect()).collect();
    let mut all: Vec<(i64, u32, i64)> = Vec::new();
    for (seed, n) in (1..=3).zip(1u32..) {
        all.extend(values(seed).zip(0..).map(|(ns, seq)| (-ns, n, seq)));
    }
    all.sort_unstable();
    for most in [1, 2, 5, 40, 1_000] {
        let (found, values, missing) = worst(most, &trials);
        let found: Vec<_> = found.iter().map(|packet| (-packet.value_ns, packet.trial, packet.seq)).collect();
        assert_eq!(found, all[..most.min(600)], "{most}");
        assert_eq!((values, missing), (600, 0));
    }
}

#[test]
fn each_stage_of_a_worst_packet_counts_from_the_point_before_it() {
    let (found, values, missing) = worst(1, &[vec![received(12_000), received(50_000), lost(90_000), not_sent()]]);
    let [packet] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!((packet.trial, packet.seq, packet.value_ns, packet.at_ns), (1, 1, 50_000, CYCLE_NS));
    let stages = [(Point::Wakeup, 48_000), (Point::TxKernel, 1_600), (Point::RxKernel, 400), (Point::Receive, 9_000)];
    assert_eq!(packet.stages, stages);
    assert_eq!((values, missing), (2, 2), "what never arrived is worse, and counted");
}

/// A run of three trials of 200 packets over port `sim`, of which one is lost in each.
fn run(dir: &Path) -> PathBuf {
    let out = dir.join("run");
    let mut command = Command::new(tardy());
    command.args(["run", "--trials", "3", "--set", "stream.ctl.port=sim", "--set", "stream.ctl.count=200"]);
    command.args(["--set", "stream.ctl.sim.jitter=20us", "--set", "stream.ctl.sim.drop=[7]"]);
    command.args(["--set", "stream.ctl.max_loss=1%", "--set", "stream.ctl.lead=scheduled..receive"]);
    command.args(["--set", "expect.ctl.lost=3"]);
    let output = command.arg("--out").arg(&out).stdin(Stdio::null()).output().expect("tardy starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    out
}

fn report(run: &Path, more: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(tardy()).arg("report").arg(run).args(more).stdin(Stdio::null()).output();
    let output = output.expect("it starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn the_verb_lists_the_worst_packets_and_draws_one_trial_alone() {
    let dir = tempfile::tempdir().expect("a folder");
    let run = run(dir.path());
    let (code, all, _) = report(&run, &["--format", "json"]);
    assert_eq!(code, Some(0));
    let all: Value = serde_json::from_str(&all).expect("JSON");
    let max =
        |results: &Value, of: &str| results["cells"][0]["streams"]["ctl"]["metrics"]["scheduled..receive"][of].clone();

    let (code, table, said) = report(&run, &["--worst", "3"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(table.contains("all   ctl   scheduled..receive: the 3 worst of 597 packets"), "{table}");
    assert!(table.contains("3 more never arrived or were never sent"), "{table}");
    let rows: Vec<Vec<&str>> = table
        .lines()
        .filter(|line| line.trim_start().starts_with('#'))
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(rows.len(), 3, "{table}");
    let received_max = &all["cells"][0]["streams"]["ctl"]["metrics"]["scheduled..receive"]["received_only_max_ns"];
    let worst_us: f64 = rows[0][4].parse().expect("µs");
    assert!((worst_us * 1e3 - received_max.as_f64().expect("a greatest value")).abs() <= 50.0, "{table}");

    let (code, one, said) = report(&run, &["--trial", "2", "--format", "json"]);
    assert_eq!(code, Some(0), "{said}");
    let one: Value = serde_json::from_str(&one).expect("JSON");
    assert_eq!(one["cells"][0]["trials"].as_array().map(Vec::len), Some(1));
    let alone = &all["cells"][0]["trials"][1]["streams"]["ctl"]["metrics"]["scheduled..receive"];
    assert_eq!(max(&one, "p50_ns"), alone["p50_ns"], "as it is in the whole run");
    for format in ["text", "md", "org", "html"] {
        let (code, text, said) = report(&run, &["--trial", "2", "--format", format]);
        assert_eq!(code, Some(0), "{said}");
        assert!(text.contains("(trial 2 alone)") && text.contains("not those of the run"), "{format}: {text}");
        assert!(!text.contains("3 trials"), "{format}");
    }
    let (_, table, _) = report(&run, &["--trial", "2", "--worst", "3"]);
    assert!(table.contains("the 3 worst of 199 packets"), "{table}");
    let (code, _, said) = report(&run, &["--trial", "4"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("no cell has a finished trial 4; its last one is trial 3"), "{said}");
}

#[test]
fn a_finished_run_from_which_a_trial_was_removed_was_plain_valid() {
    let dir = tempfile::tempdir().expect("a folder");
    let run = run(dir.path());
    let judged = |run: &Path| -> Value {
        let (code, results, said) = report(run, &["--format", "json"]);
        assert_eq!(code, Some(0), "{said}");
        serde_json::from_str(&results).expect("JSON")
    };
    let whole = judged(&run);
    assert_eq!((&whole["valid"], &whole["expectations_met"]), (&true.into(), &true.into()));
    std::fs::remove_dir_all(run.join("trials/all/2")).expect("it was there");
    let results = judged(&run);
    assert_eq!(results["valid"], false);
    // The trial that is gone may have lost more than the limit allows.
    assert_eq!((&results["expectations_met"], &results["expectations"][0]["met"]), (&Value::Null, &Value::Null));
    let verdicts = results["cells"][0]["verdicts"].as_array().expect("verdicts");
    let removed = verdicts.iter().find(|verdict| verdict["id"] == "removed").unwrap_or_else(|| panic!("{verdicts:?}"));
    assert_eq!(removed["level"], "invalid");
    assert_eq!(removed["evidence"]["removed"], serde_json::json!([2]));
    let of_run = results["verdicts"].as_array().expect("verdicts");
    assert!(of_run.iter().all(|verdict| verdict["id"] != "removed"), "once, at its cell: {of_run:?}");
    let output = Command::new(tardy()).args(["export", "--to", "csv"]).arg(&run).stdin(Stdio::null()).output();
    let said = String::from_utf8_lossy(&output.expect("it starts").stderr).into_owned();
    assert!(said.contains("the run is not valid"), "{said}");
    let (code, one, said) = report(&run, &["--trial", "3", "--format", "json"]);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(serde_json::from_str::<Value>(&one).expect("JSON")["valid"], true, "what is shown is there");
    // One that could not be kept when it ended is still there, as unfinished, and was not removed.
    std::fs::rename(run.join("trials/all/3"), run.join("trials/all/3.partial")).expect("it was there");
    let results = judged(&run);
    let verdicts = results["cells"][0]["verdicts"].as_array().expect("verdicts");
    let removed = verdicts.iter().find(|verdict| verdict["id"] == "removed").expect("the other one");
    assert_eq!(removed["evidence"]["removed"], serde_json::json!([2]));
    std::fs::remove_file(run.join("results.json")).expect("it was there");
    let results = judged(&run);
    assert_eq!(results["valid"], false);
    assert_eq!(results["verdicts"].as_array().and_then(|all| all.last()).expect("a verdict")["id"], "removed");
}
