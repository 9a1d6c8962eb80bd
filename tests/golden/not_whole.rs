// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs that are not whole. Cells of optional cases: a machine that cannot set one up does not
//! spoil the others, and nothing else is excused. And a run that did not come to its end: what it
//! measured may be used, and every picture says next to VALID how much that is.
//!
//! And names and numbers of things that do not exist: each is an error that says which, and never
//! the first one, this machine, or no address.

use crate::analyze::fixture::{batch, healthy_packets, record};
use crate::help::tardy;
use crate::report::documents::tags;
use crate::report::sample::{Run, run};
use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use tardy_analyze::run::{Outcome, outcome};
use tardy_judge::{Judge, refused};
use tardy_lab::command::Command as Process;
use tardy_lab::host::hosts::Hosts;
use tardy_lab::host::place::Place;
use tardy_lab::host::steward::Steward;
use tardy_lab::host::{CpuId, HostId};
use tardy_lab::loads::Loads;
use tardy_lab::machine::{Facts, FactsByHost};
use tardy_lab::names::Names;
use tardy_lab::not_found::NotFound;
use tardy_lab::orders::{self, Ordered, random_of};
use tardy_lab::path::{self, Ends, PathError};
use tardy_lab::placement::{PlaceError, Placed, Taken, place};
use tardy_lab::plan::{Plan, PlanError, plan};
use tardy_lab::softirq::{Watch, meant};
use tardy_lab::station::host_of;
use tardy_lab::step::Step;
use tardy_model::manifest::Manifest;
use tardy_model::path::PathKind;
use tardy_model::result::Results;
use tardy_model::station::StationKind;
use tardy_model::stream_id::{NoStream, StreamId};
use tardy_model::verdict::{Level, Verdict};
use tardy_report::export::{Source, exporter};
use tardy_spec::experiment::{Experiment, Setup, Station};
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
    let source = Source {
        run: &run,
        results: &results,
        manifest: &manifest,
        started: Duration::ZERO,
        streams: Default::default(),
    };
    let mut out = Vec::new();
    exporter("prometheus").expect("it is there").write_bytes(&source, &mut out).expect("written");
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

const OTHER: HostId = HostId::numbered(1);
const NONE: Placed = Placed { tx: None, rx: None, reply: None };

fn of_two(more: &str) -> Experiment {
    let text = tardy_tests::experiment("stream from a to b").to_owned() + more;
    tardy_spec::load(&tardy_spec::Source { name: "x.toml".into(), text }, &[])
        .unwrap_or_else(|error| panic!("{}", error.one_line()))
}

fn setup(more: &str) -> Setup {
    of_two(more).cells[0].setup.clone()
}

fn found() -> FactsByHost {
    Facts { usable: vec![0, 1], ..Facts::default() }.into()
}

fn planned(setup: &Setup) -> Plan {
    plan(setup, Names::FIRST, &found()).expect("it can be planned")
}

fn ordered(setup: &Setup, plan: &Plan, chosen: &[Placed]) -> Result<Vec<Ordered>, NotFound> {
    orders::orders(setup, plan, chosen, &mut random_of(1, "all", 1)).map(|(_, ordered)| ordered)
}

/// What becomes of the stream's orders when its path is not what it should be.
fn spoilt(more: &str, spoil: impl Fn(&mut Plan)) -> String {
    let setup = setup(more);
    let mut plan = planned(&setup);
    assert!(ordered(&setup, &plan, &[NONE]).is_ok(), "{more}");
    spoil(&mut plan);
    ordered(&setup, &plan, &[NONE]).expect_err(more).to_string()
}

#[test]
fn an_unknown_station_was_on_this_machine() {
    let mut setup = setup("");
    assert_eq!(host_of(&setup, "a"), Ok(HostId::HERE));
    let ghost = NotFound::Station("ghost".to_owned());
    assert_eq!(host_of(&setup, "ghost"), Err(ghost.clone()));
    assert_eq!(found().at(&setup, "ghost"), Err(ghost.clone()));
    setup.streams[0].to = "ghost".to_owned();
    let error = place(&setup, &found()).expect_err("it is nowhere");
    assert_eq!(error, PlaceError::NotFound(ghost));
    assert_eq!(error.to_string(), "there is no station `ghost`: write a section [station.ghost]");
}

#[test]
fn a_host_that_nobody_looked_at_broke_the_coordinator() {
    let found = found();
    assert_eq!(found.of(HostId::HERE), Ok(found.here()));
    let error = found.of(OTHER).expect_err("nobody looked at it");
    assert_eq!(error, NotFound::Host(OTHER));
    assert!(error.to_string().starts_with("host 1 is asked for, and it is none of this run's hosts"), "{error}");
    let both = found.and(OTHER, Facts { home: 7, ..Facts::default() });
    assert_eq!(both.of(OTHER).map(|facts| facts.home), Ok(7));
    let folder = tempfile::tempdir().expect("a folder");
    let mut steward = Steward::new(folder.path(), Path::new("tardy"), std::process::id());
    let mut hosts = Hosts::here(&mut steward);
    assert_eq!(hosts.at(OTHER).err(), Some(NotFound::Host(OTHER)));
    let step = Step::new(&Place::of(OTHER), "a step for nobody", vec![Process::new("true", &[])]);
    assert_eq!(hosts.apply(&[step]).expect_err("nobody carries it out").to_string(), NotFound::Host(OTHER).to_string());
    let error = hosts.look(BTreeMap::new()).expect_err("there is no answer for this machine").to_string();
    assert!(error.starts_with("this machine is asked for"), "{error}");
}

#[test]
fn a_station_without_an_end_had_the_address_of_none() {
    let no_path = "no path leads to station `a`: let a path join it, or use another station";
    assert_eq!(spoilt("", |plan| plan.ends = Ends::default()), no_path);
    let setup = setup(tardy_tests::experiment("flood from a to b"));
    let mut plan = planned(&setup);
    let of = |plan: &Plan| Loads::of(&setup, plan, &[vec![[None, None]]], &mut random_of(1, "all", 1)).map(drop);
    assert_eq!((of(&plan), tardy_lab::loads::in_words(&setup, &plan).is_ok()), (Ok(()), true));
    plan.ends = Ends::default();
    assert_eq!(of(&plan).expect_err("it has no address").to_string(), no_path);
    // A command is shown with addresses.
    let job = self::setup("[load.job]\nkind = \"command\"\nfrom = \"a\"\ncommand = [\"true\", \"{from}\"]\n");
    let told = |plan: &Plan| tardy_lab::loads::in_words(&job, plan);
    assert!(told(&planned(&job)).is_ok_and(|lines| lines.iter().any(|line| line.contains("198.18."))));
    assert_eq!(told(&plan).expect_err("nor in words").to_string(), no_path);
    // Nor is its device watched over.
    let steered = self::setup("[path]\nnapi = true\n");
    let (chosen, _) = place(&steered, &found()).expect("placed");
    let watched = Watch::new(&steered, &chosen, &Ends::default(), &found()).map(drop);
    assert_eq!(watched, Err(PlaceError::NotFound(NotFound::End("a".to_owned()))));
}

#[test]
fn an_end_without_what_a_stream_needs_had_no_address() {
    let no_vlan = spoilt("vlan = 7\npcp = 3\n", |plan| plan.ends.values_mut().for_each(|end| end.vlans.clear()));
    assert!(no_vlan.starts_with("station `a` has no device for VLAN 7 on its path"), "{no_vlan}");
    let no_ipv6 = spoilt("ip = \"ipv6\"\n", |plan| plan.ends.values_mut().for_each(|end| end.address6 = None));
    assert!(no_ipv6.starts_with("station `a` has no IPv6 address on its path: write ip = \"ipv4\""), "{no_ipv6}");
    let long = "80:00:02:08:fe:80";
    let spoil = |plan: &mut Plan| plan.ends.values_mut().for_each(|end| end.mac = format!("{long}:00:00:00:00:00:00"));
    let no_mac = spoilt("port = \"packet\"\n", spoil);
    assert!(no_mac.contains(long) && no_mac.contains("cannot go into an Ethernet frame"), "{no_mac}");
    // Over IP nobody needs it.
    let udp = setup("");
    let mut plan = planned(&udp);
    spoil(&mut plan);
    assert!(ordered(&udp, &plan, &[NONE]).is_ok());
    let end = plan.ends.at("a").expect("an end");
    assert!(matches!(end.address, IpAddr::V4(address) if !address.is_unspecified()), "{}", end.address);
}

#[test]
fn a_cpu_of_one_host_was_that_number_on_another() {
    let cpu = CpuId { host: OTHER, cpu: 1 };
    assert_eq!(cpu.number_on(OTHER), Ok(1));
    let error = cpu.number_on(HostId::HERE).expect_err("it is another one there");
    assert!(error.to_string().starts_with("CPU 1 of host 1 is asked for on this machine"), "{error}");
    let setup = setup(&(tardy_tests::experiment("flood from a to b").to_owned() + "cpu = \"same\"\n"));
    let plan = planned(&setup);
    let abroad = Placed { rx: Some(cpu), ..NONE };
    assert_eq!(ordered(&setup, &plan, std::slice::from_ref(&abroad)).expect_err("b is here"), NotFound::Cpu(error));
    // What is relative to it has nothing to be relative to.
    let beside = Placed { tx: Some(cpu), ..abroad.clone() };
    let (places, _) = tardy_lab::loads::place(&setup, &[beside], &found()).expect("placed");
    assert_eq!(places[0][0][0], None, "`same` as a CPU of another host");
    let mut taken = Taken::by(&setup, &[abroad]);
    assert_eq!((taken.on(HostId::HERE).len(), taken.on(OTHER).get(&1)), (0, Some(&1)));
}

#[test]
fn streams_beyond_the_last_had_the_numbers_of_the_first() {
    let streams = setup(&tardy_tests::experiment("stream back").replace(".back]", ".bulk]")).streams;
    let second = StreamId::named(&streams, "bulk").expect("it is there");
    assert_eq!((second, second.number()), (StreamId::at(1).expect("a number"), 1));
    assert_eq!(second.of(&streams).map(|stream| stream.name.as_str()), Ok("bulk"));
    assert_eq!(second.of(&streams[..1]), Err(NoStream::At(1)));
    let ghost = StreamId::named(&streams, "ghost").expect_err("nobody is called so");
    assert_eq!(ghost.to_string(), "there is no stream `ghost`: write a section [stream.ghost]");
    assert_eq!(StreamId::at(StreamId::MOST), Err(NoStream::Beyond(256)));
    let error = StreamId::each(&[0; 257]).map(|_| ()).expect_err("a frame has no room for it");
    assert_eq!(error.to_string(), "stream 256 is one too many, for a frame numbers them in one byte: use at most 256");
    let of = |list: &[u8]| StreamId::each(list).map(|each| each.map(|(id, _)| id.number()).collect::<Vec<_>>());
    assert_eq!(of(&[7, 7, 7]), Ok(vec![0, 1, 2]));
}

#[test]
fn a_stream_without_cpus_chosen_was_left_out() {
    let setup = setup("");
    let none = NotFound::Stream(NoStream::At(0));
    assert_eq!(ordered(&setup, &planned(&setup), &[]).expect_err("nothing was chosen"), none.clone());
    let steered = self::setup("[path]\nnapi = true\n");
    assert_eq!(meant(&steered, &[], &found()).map(drop), Err(PlaceError::NotFound(none.clone())));
    let loaded = self::setup(tardy_tests::experiment("flood from a to b"));
    let error = tardy_lab::loads::place(&loaded, &[], &found()).expect_err("no place next to anything").to_string();
    assert_eq!(error, none.to_string());
}

#[test]
fn devices_of_no_station_were_asked_of_this_machine() {
    let wired =
        "port = \"packet\"\nvlan = 9\n[path]\nkind = \"wire\"\na = \"enp1s0\"\nb = \"enp2s0\"\npcp_queues = true\n";
    let mut experiment = of_two(wired);
    let asks = path::kind(PathKind::Wire).asks;
    let asked = |experiment: &Experiment, host| asks(&experiment.cells[0].setup, host).map(|asks| asks.len());
    assert_eq!((asked(&experiment, HostId::HERE), asked(&experiment, OTHER)), (Ok(2), Ok(0)));
    let stations = &mut experiment.cells[0].setup.stations;
    stations.insert("c".to_owned(), Station::here(StationKind::Netns));
    let names = ["a", "b", "c"].map(str::to_owned).to_vec();
    assert_eq!(asked(&experiment, HostId::HERE), Err(PathError::TwoStations { kind: "wire", stations: names }));
    experiment.cells[0].setup.stations.retain(|name, _| name == "a");
    let names = vec!["a".to_owned()];
    assert_eq!(asked(&experiment, HostId::HERE), Err(PathError::TwoStations { kind: "wire", stations: names }));
}

#[test]
fn a_device_whose_queues_nobody_counted_had_one() {
    let setup = setup(
        "port = \"packet\"\nvlan = 9\n[path]\nkind = \"wire\"\na = \"enp1s0\"\nb = \"enp2s0\"\npcp_queues = true\n",
    );
    let error = plan(&setup, Names::FIRST, &super::devices::found(|_| ())).expect_err("nobody counted them");
    assert_eq!(error, PlanError::Path(PathError::Unread { device: "enp2s0".to_owned() }));
    let mut unnamed = setup;
    unnamed.path.named.clear();
    let error = plan(&unnamed, Names::FIRST, &super::devices::found(|_| ())).expect_err("it names none").to_string();
    assert_eq!(error, "wire joins two network devices, and the experiment names none: write path.a and path.b");
}
