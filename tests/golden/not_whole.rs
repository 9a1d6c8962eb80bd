// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs that are not whole. Cells of optional cases: a machine that cannot set one up does not
//! spoil the others, and nothing else is excused. And a run that did not come to its end: what it
//! measured may be used, and every picture says next to VALID how much that is.

use crate::analyze::fixture::{batch, healthy_packets, record};
use crate::help::tardy;
use crate::report::documents::tags;
use crate::report::sample::{Run, run};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use tardy_analyze::run::{Outcome, outcome};
use tardy_judge::{Judge, refused};
use tardy_lab::host::HostId;
use tardy_model::manifest::Manifest;
use tardy_model::result::Results;
use tardy_model::verdict::{Level, Verdict};
use tardy_report::export::{Source, exporter};
use tardy_spec::experiment::Experiment;
use tardy_spec::load;
use tardy_store::RunFolder;

const COUNT: u32 = 200;
const WHY: &str = "this kernel has no netdevsim";

/// Two cells over port `sim`, of which the second may be missing.
fn experiment(more: &str) -> Experiment {
    let text = tardy_tests::experiment("case that may be missing").to_owned() + more;
    load(&tardy_spec::Source { name: "x.toml".into(), text }, &[])
        .unwrap_or_else(|error| panic!("{}", error.one_line()))
}

/// What the run comes to if `measured` cells have a trial and `lacking` ones are refused.
fn judged(experiment: &Experiment, measured: &[&str], lacking: &[&str]) -> Results {
    let mut judge = Judge::new(experiment);
    for id in measured {
        let mut record = record(1, COUNT);
        record.cell = (*id).to_owned();
        let rows = batch(0, &healthy_packets(1, COUNT as usize));
        assert!(judge.trial(&record, &[("ctl".to_owned(), rows)]).is_some(), "{id}");
    }
    lacking.iter().for_each(|id| judge.say(id, refused(WHY)));
    judge.finish(&Manifest::default()).results
}

#[test]
fn an_optional_case_that_cannot_be_set_up_spoils_no_other_cell() {
    let results = judged(&experiment(""), &["sound"], &["device"]);
    assert_eq!((results.valid, outcome(&results)), (true, Outcome::Good));
    let device = &results.cells[1];
    assert_eq!((device.valid, device.not_available.as_deref()), (false, Some(WHY)), "it has no numbers to be used");
    let told: Vec<_> = device.verdicts.iter().map(|verdict| (&*verdict.id, verdict.says.contains(WHY))).collect();
    assert_eq!(told, [("not-available", true)]);
    // The same of a case that must be there.
    let results = judged(&experiment(""), &["device"], &["sound"]);
    assert_eq!((results.valid, outcome(&results)), (false, Outcome::Unknown));
    assert_eq!(results.cells[0].not_available, None);
}

#[test]
fn what_was_measured_of_an_optional_case_counts_as_ever() {
    let results = judged(&experiment(""), &["sound", "device"], &["device"]);
    assert_eq!((results.valid, outcome(&results)), (false, Outcome::Unknown), "it was refused behind its first trial");
    assert_eq!(results.cells[1].not_available, None);
    // No trial at all without a refusal is a failure.
    assert!(!judged(&experiment(""), &["sound"], &[]).valid);
    // A run of nothing but what is not available has shown nothing.
    let both = experiment("").cells.iter().map(|cell| cell.id.clone()).collect::<Vec<_>>();
    assert_eq!(both, ["sound", "device"]);
    assert!(!judged(&experiment(""), &[], &["sound", "device"]).valid);
}

#[test]
fn an_expectation_on_what_is_not_available_is_neither_met_nor_broken() {
    let met = |limit: &str| format!("[expect.ctl]\n\"scheduled..rx_kernel\" = \"p50 < {limit}\"\nlost = 0\n");
    for (limit, comes_to, overall) in [("1s", Outcome::Good, Some(true)), ("1ns", Outcome::Unmet, Some(false))] {
        let results = judged(&experiment(&met(limit)), &["sound"], &["device"]);
        assert_eq!((outcome(&results), results.expectations_met), (comes_to, overall), "{limit}");
        let of_device: Vec<_> = results.expectations.iter().filter(|e| e.cell == "device").collect();
        assert!(of_device.len() == 2 && of_device.iter().all(|e| e.met.is_none()), "{of_device:?}");
        assert!(of_device.iter().all(|e| e.why.as_deref() == Some("the cell is not available")), "{of_device:?}");
    }
}

#[test]
fn expectations_that_stand_only_on_what_is_not_available_are_not_judged() {
    let text = experiment("")
        .effective
        .replace("name = \"device\"\n", "name = \"device\"\nset = { \"expect.ctl.lost\" = 0 }\n");
    let experiment = load(&tardy_spec::Source { name: "x.toml".into(), text }, &[]).expect("it loads");
    let results = judged(&experiment, &["sound"], &["device"]);
    assert_eq!((results.valid, results.expectations_met, outcome(&results)), (true, None, Outcome::Unknown));
}

#[test]
fn an_export_to_prometheus_called_a_missing_optional_cell_not_valid() {
    let results = judged(&experiment(""), &["sound"], &["device"]);
    let keep = tempfile::tempdir().expect("a folder");
    let run = RunFolder::create(keep.path().join("run")).expect("a new folder");
    let manifest = Manifest::default();
    let source = Source { run: &run, results: &results, manifest: &manifest, started: Duration::ZERO };
    let mut out = Vec::new();
    (exporter("prometheus").expect("it is there").write)(&source, &mut out).expect("written");
    let out = String::from_utf8(out).expect("text");
    for line in [
        "tardy_cell_valid{experiment=\"x\",cell=\"sound\"} 1",
        "cell=\"device\"} NaN",
        "tardy_run_valid{experiment=\"x\"} 1",
    ] {
        assert!(out.contains(line), "{line}: {out}");
    }
    assert!(out.contains("NaN if the cell is not available."), "{out}");
}

#[test]
fn a_machine_that_one_optional_case_asks_for_ended_the_run_where_it_cannot_be() {
    let text = tardy_tests::experiment("machine in some cases");
    let source = tardy_spec::Source { name: "test.toml".into(), text: text.to_owned() };
    let experiment = load(&source, &[]).expect("it is sound");
    let hosts: Vec<HostId> = experiment.machines().into_keys().collect();
    assert_eq!(hosts, [HostId::numbered(1), HostId::numbered(2)]);
    assert!(!experiment.can_do_without(HostId::HERE), "the row without a machine is none of an optional case");
    assert!(!experiment.can_do_without(hosts[0]));
    assert!(experiment.can_do_without(hosts[1]));
}

#[test]
fn a_machine_on_the_link_of_one_that_cannot_be_had_ended_the_run() {
    let text = tardy_tests::experiment("two machines").to_owned();
    let experiment = load(&tardy_spec::Source { name: "test.toml".into(), text }, &[]).expect("it is sound");
    let [first, second, on_link] = [1, 2, 3].map(HostId::numbered);
    let mut refused = BTreeMap::from([(first, WHY.to_owned())]);
    experiment.refuse_on_links_of(&mut refused);
    assert_eq!(refused, BTreeMap::from([(first, WHY.to_owned()), (on_link, WHY.to_owned())]));
    let mut refused = BTreeMap::from([(second, WHY.to_owned())]);
    experiment.refuse_on_links_of(&mut refused);
    assert_eq!(refused.into_keys().collect::<Vec<_>>(), [second]);
}

/// What the program prints on stdout, and its exit code.
fn call(folder: &Path, words: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(tardy());
    let output = command.current_dir(folder).args(words).stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|error| panic!("{error}: run `make build` first"));
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The folder of a run that was killed during its second trial of five.
fn killed(folder: &Path) {
    let stream = tardy_tests::experiment("simulated stream");
    let more = "cycle = \"100us\"\ncount = 2_000\n[expect.ctl]\nlost = 0\n";
    fs::write(folder.join("cut.toml"), format!("name = \"cut\"\ntrials = 5\n{stream}{more}")).expect("written");
    let (code, said) = call(folder, &["run", "cut.toml", "--out", "run"]);
    assert_eq!(code, Some(0), "{said}");
    let run = folder.join("run");
    for written in ["results.json", "report.html"] {
        fs::remove_file(run.join(written)).expect("a file of the run");
    }
    (2..=5).for_each(|n| fs::remove_dir_all(run.join(format!("trials/all/{n}"))).expect("a trial"));
    let path = run.join("manifest.json");
    let mut manifest: serde_json::Value =
        serde_json::from_slice(&fs::read(&path).expect("the manifest")).expect("JSON");
    manifest["ended_utc"] = serde_json::Value::Null;
    fs::write(path, manifest.to_string()).expect("written");
}

#[test]
fn a_killed_run_was_valid_in_every_picture_without_a_word_of_the_kill() {
    let keep = tempfile::tempdir().expect("a folder");
    killed(keep.path());
    let report = |words: &[&str]| {
        let (code, said) = call(keep.path(), &[&["report", "run"], words].concat());
        assert_eq!(code, Some(0), "it was rendered: {said}");
        said
    };
    let says = "(1 of 5 trials; the run was killed) expectations met (1 of 1)";
    assert!(report(&[]).contains(&format!("\nVALID        {says}\n")), "{}", report(&[]));
    assert!(report(&[]).contains("\nwarning      the run was killed before its end"), "{}", report(&[]));
    assert!(report(&["--format", "md"]).contains(&format!("**VALID** · {says}")), "{}", report(&["--format", "md"]));
    assert!(report(&["--worst", "3"]).contains(&format!("VALID   {says}\n")), "{}", report(&["--worst", "3"]));
    let page = report(&["--format", "html"]);
    assert!(page.contains(&format!("<strong class=\"doubtful\">VALID</strong> <span>{says}</span>")));
    let xml = report(&["--format", "junit"]);
    let error = tags(&xml).into_iter().find(|tag| tag.name == "error").unwrap_or_else(|| panic!("{xml}"));
    assert_eq!(error.text, "1 of 5 trials; the run was killed");
    assert!(xml.contains("<testcase classname=\"cut.run\" name=\"the run was finished\">"), "{xml}");
    assert!(xml.contains("tests=\"4\" failures=\"0\" errors=\"1\" skipped=\"0\">\n  <testsuite name=\"run\""), "{xml}");
    // So does the heading of a comparison.
    let (_, said) = call(keep.path(), &["compare", "run", "run"]);
    assert!(said.contains(", valid, killed after 1 trial\n"), "{said}");
}

/// The sample's run with a verdict of its own.
fn with(id: &str, level: Level, valid: bool) -> Run {
    let mut run = run(&["all"]);
    run.results.cells[0].trials.truncate(2);
    run.results.verdicts.push(Verdict::new(id, level, "why"));
    run.results.valid = valid;
    run
}

#[test]
fn an_interrupted_run_looked_like_a_whole_one() {
    let text = with("interrupted", Level::Warning, true).draw("text", 100);
    assert!(
        text.contains("\nVALID        (2 of 5 trials; the run was interrupted) expectations met (2 of 2)"),
        "{text}"
    );
    let xml = with("interrupted", Level::Warning, true).draw("junit", 100);
    assert!(xml.contains("<error message=\"2 of 5 trials; the run was interrupted\">"), "{xml}");
    // One that failed is not valid, and says how far it came.
    let text = with("failed", Level::Invalid, false).draw("text", 100);
    assert!(text.contains("\nNOT VALID    (2 of 5 trials; the run failed) do not use these figures; "), "{text}");
    // A cell that the machine cannot run was not cut.
    let mut refused = with("killed", Level::Warning, true);
    let mut entry = refused.manifest.cells[0].clone();
    (entry.id, entry.refused) = ("other".into(), Some("no device".into()));
    refused.manifest.cells.push(entry);
    assert!(refused.draw("text", 100).contains("(2 of 5 trials; the run was killed)"));
}

#[test]
fn not_valid_named_no_limit_that_was_met() {
    let mut bad = run(&["all"]);
    bad.results.valid = false;
    bad.results.expectations.remove(0);
    let line = |run: &Run| {
        let text = run.draw("md", 100);
        text.lines().find(|line| line.starts_with("**NOT VALID**")).unwrap_or_else(|| panic!("{text}")).to_owned()
    };
    let says = "do not use these figures; expectations met (1 of 1, counts only: ctl lost)";
    assert!(line(&bad).contains(says), "{}", line(&bad));
    let mut more = bad.results.expectations[0].clone();
    for name in ["not_sent", "duplicate"] {
        more.metric = name.into();
        bad.results.expectations.push(more.clone());
    }
    let says = "met (3 of 3, counts only: ctl lost, ctl not_sent and 1 more)";
    assert!(line(&bad).contains(says), "{}", line(&bad));
}
