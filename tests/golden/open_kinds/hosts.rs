// SPDX-License-Identifier: MIT OR Apache-2.0
//! A whole run on two hosts, through the coordinator and the judge: a station of the test's own is
//! on another machine, whose clock is ahead.

use super::{CONNECTED, Idle, Kept, STANDING, STATION, VERSION, plug};
use crate::two_hosts::{AHEAD_NS, BOUND_NS, Known, Thread, agent, pass_greeting};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::io::{BufReader, PipeWriter, pipe};
use std::rc::Rc;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use tardy_engine::message::{self, FromAgent, ToAgent};
use tardy_judge::Judge;
use tardy_lab::connection::Connection;
use tardy_lab::coordinator::{Options, check, run};
use tardy_lab::host::HostId;
use tardy_lab::host::clocks::one_host;
use tardy_lab::host::hosts::{Hosts, HostsError};
use tardy_lab::machine::{Facts, FactsByHost};
use tardy_lab::names::Names;
use tardy_lab::not_found::NotFound;
use tardy_lab::path::{Laid, PathError, PathId, PathMethods, PlannedStations};
use tardy_lab::plan::{Kinds, plan_of};
use tardy_lab::station::StationMethods;
use tardy_model::load::SideHosts;
use tardy_model::manifest::Manifest;
use tardy_model::point::{Metric, Point};
use tardy_model::sample::Outcome;
use tardy_model::station::StationKind;
use tardy_model::time::Instant;
use tardy_model::xdp::{Core, ProgramCost, ProgramHook, ProgramRecord, ProgramSeen};
use tardy_spec::experiment::{Experiment, Setup};

const OTHER: HostId = HostId::numbered(1);
const GUEST: HostId = HostId::numbered(2);

fn lay(_: &Setup, stations: &PlannedStations, names: Names, _: &FactsByHost) -> Result<Laid, PathError> {
    let each = stations.keys().enumerate();
    Ok(Laid {
        plugs: each.map(|(n, name)| plug(stations, names, PathId::FIRST, name, 0, n)).collect(),
        ..Laid::default()
    })
}

const PATH: PathMethods = PathMethods::made(lay);

fn kinds() -> Kinds {
    Kinds { path: |_| &PATH, station: |_| &STATION }
}

/// The experiment with station `b` on the other host.
fn experiment(more: &str) -> Experiment {
    let source =
        tardy_spec::Source { name: "hosts.toml".into(), text: tardy_tests::experiment("hosts").to_owned() + more };
    let mut experiment = tardy_spec::load(&source, &[]).unwrap_or_else(|error| panic!("{}", error.one_line()));
    for cell in &mut experiment.cells {
        cell.setup.stations.get_mut("b").expect("a station").host = OTHER;
    }
    experiment
}

#[test]
fn a_station_of_another_kind_on_another_host_is_measured_and_judged_in_one_clock() {
    let did = [(); 3].map(|()| Rc::new(Cell::new([0; 3])));
    let mut here = Idle::new(&did[0]);
    let hosts = Hosts::here(&mut here).and(OTHER, "rig", Idle::new(&did[1])).expect("its id is free");
    let mut hosts =
        hosts.and_guest(GUEST, "guest", OTHER, BTreeMap::new(), Idle::new(&did[2])).expect("its parent is there");
    let experiment = experiment("");
    let found = check(&experiment, &kinds(), &mut hosts).unwrap_or_else(|error| panic!("{error}"));
    let (mut kept, stop) = (Kept::default(), AtomicBool::new(false));
    let clocks = || -> Box<dyn tardy_lab::host::clocks::OffsetSource> { Box::new(Known(AHEAD_NS)) };
    let ended = run(
        &experiment,
        found,
        &mut hosts,
        &Options { version: VERSION, stop: &stop, kinds: kinds(), clocks: &clocks },
        &mut kept,
    );
    assert!(ended.failed.is_none(), "{:?}", ended.failed);
    let steps = did.each_ref().map(|did| did.get()[0]);
    assert_eq!(steps, [1, 1, 0], "each station is built on its own host");

    let parent = |host: &str| kept.hosts[host].parent.as_deref();
    assert_eq!((parent("rig"), parent("guest")), (None, Some("rig")), "the guest is below the host that runs it");
    assert_eq!(kept.hosts["rig"].machine["kernel.release"], "of the test's".into());

    let [(record, streams)] = &kept.trials[..] else { panic!("{} trials", kept.trials.len()) };
    assert_eq!(record.failed, None);
    assert_eq!(record.hosts.keys().collect::<Vec<_>>(), ["guest", "rig"], "each host has a state");
    for (name, batch) in streams {
        assert!(batch.outcome.iter().all(|outcome| *outcome == Outcome::Received), "{name}");
        let offsets = &record.streams[name].offsets;
        let offset = offsets.tx.as_ref().or(offsets.rx.as_ref()).expect("one of its ends is there");
        assert_eq!((offset.host.as_str(), offset.bound_ns()), ("rig", BOUND_NS));
    }

    let mut judge = Judge::new(&experiment);
    let answer = judge.trial(record, streams).expect("a cell of the experiment's");
    let manifest = Manifest { hosts: kept.hosts.clone(), ..Manifest::default() };
    let results = judge.finish(&manifest).results;
    let verdicts: Vec<String> =
        answer.result.verdicts.iter().map(|verdict| format!("{}: {}", verdict.id, verdict.says)).collect();
    assert!(answer.result.valid, "{verdicts:#?}");
    assert_eq!(answer.result.streams["there"].outcomes.lost, 0);
    for stream in ["there", "back"] {
        let least =
            answer.result.streams[stream].metrics["scheduled..rx_kernel"].figures.min_ns.expect("it has packets");
        assert!((0..AHEAD_NS).contains(&least), "{stream}: {least} ns over loopback, in one clock");
    }
    assert_eq!(results.expectations_met, Some(true));
    let hosts = results.cells[0].placement.iter().map(|thread| (thread.thread.as_str(), thread.host.as_deref()));
    let hosts: Vec<_> =
        hosts.filter(|(thread, _)| thread.starts_with("there.") || thread.starts_with("back.")).collect();
    let rig = Some("rig");
    assert_eq!(hosts, [("back.rx", None), ("back.tx", rig), ("there.rx", rig), ("there.tx", None)]);
}

/// What somebody between the coordinator and an agent does with an order, which it may answer
/// itself, and with an answer.
type Between = (fn(&ToAgent) -> Option<FromAgent>, fn(&mut FromAgent));

/// An agent with somebody between.
fn between((orders_do, answers_do): Between) -> Connection {
    let (from, to) = agent();
    let ((orders, to_proxy), (from_proxy, answers)) = (pipe().expect("a pipe"), pipe().expect("a pipe"));
    let answers = Arc::new(Mutex::new(answers));
    let own = answers.clone();
    let say = |answers: &Mutex<PipeWriter>, answer: &FromAgent| {
        message::send(&mut *answers.lock().expect("no thread broke in it"), answer)
    };
    std::thread::spawn(move || {
        let (mut orders, mut to) = (BufReader::new(orders), to);
        pass_greeting(&mut orders, &mut to).expect("a greeting");
        while let Ok(order) = message::receive::<ToAgent>(&mut orders) {
            let said = match orders_do(&order) {
                Some(answer) => say(&own, &answer),
                None => message::send(&mut to, &order),
            };
            if said.is_err() {
                return;
            }
        }
    });
    std::thread::spawn(move || {
        let mut from = BufReader::new(from);
        pass_greeting(&mut from, &mut *answers.lock().expect("no thread broke in it")).expect("a greeting");
        while let Ok(mut answer) = message::receive::<FromAgent>(&mut from) {
            answers_do(&mut answer);
            if say(&answers, &answer).is_err() {
                return;
            }
        }
    });
    Connection { from: Box::new(from_proxy), to: Box::new(to_proxy), carrier: Box::new(Thread) }
}

/// Runs the experiment with both stations on this machine, whose agents are these.
fn run_here(mut experiment: Experiment, station: fn(StationKind) -> &'static StationMethods) -> Kept {
    for cell in &mut experiment.cells {
        cell.setup.stations.get_mut("b").expect("a station").host = HostId::HERE;
    }
    let did = Rc::new(Cell::new([0; 3]));
    let mut here = Idle::new(&did);
    let mut hosts = Hosts::here(&mut here);
    let kinds = Kinds { station, ..kinds() };
    let found = check(&experiment, &kinds, &mut hosts).unwrap_or_else(|error| panic!("{error}"));
    let (mut kept, stop) = (Kept::default(), AtomicBool::new(false));
    let options = Options { version: VERSION, stop: &stop, kinds, clocks: &one_host };
    let ended = run(&experiment, found, &mut hosts, &options, &mut kept);
    assert!(ended.failed.is_none(), "{:?}", ended.failed);
    kept
}

/// What printing agents were ordered and said of the path, in order.
static PRINTED: Mutex<Vec<&str>> = Mutex::new(Vec::new());

fn note(what: &'static str) {
    PRINTED.lock().expect("no thread broke in it").push(what);
}

/// Stations that find a program which prints, and say in no time what a line costs.
const PRINTING: StationMethods = StationMethods {
    connect: |_, _| {
        let orders: fn(&ToAgent) -> Option<FromAgent> = |order| {
            match order {
                ToAgent::Inspect { .. } => note("watches"),
                ToAgent::Cost(_) => {
                    note("measures");
                    let cost = ProgramCost { ns: 900.0, low_ns: 850.0, high_ns: 950.0, pairs: 101 };
                    return Some(FromAgent::Cost(Ok(cost)));
                }
                _ => {}
            }
            None
        };
        let answers: fn(&mut FromAgent) = |answer| {
            let FromAgent::Inspected { programs, .. } = answer else { return };
            note("has watched");
            programs.push(ProgramRecord {
                station: String::new(),
                device: "eth0".into(),
                netns: None,
                hook: ProgramHook::XdpNative,
                name: "prints".into(),
                id: 7,
                tag: String::new(),
                could_be_native: false,
                of_path: false,
                seen: Some(ProgramSeen { runs: 8, run_ns: 8_000, lines: 8, faults: Vec::new() }),
            });
        };
        Ok(between((orders, answers)))
    },
    ..STATION
};

#[test]
fn a_station_measured_what_a_line_costs_in_each_trial_and_while_another_one_watched() {
    let kept = run_here(Experiment { trials: 2, ..experiment("") }, |_| &PRINTING);
    let each = ["watches", "watches", "has watched", "has watched"];
    let said = PRINTED.lock().expect("no thread broke in it").clone();
    // In each trial, and then for frames to more than one receiver, when no device is watched.
    let all = [&each[..], &["measures"], &each, &each, &each].concat();
    assert_eq!(said, all, "both stations are on one host");
    assert_eq!(kept.trials.len(), 2);
    for (record, _) in &kept.trials {
        let inspection = record.inspection.as_ref().expect("it was looked for");
        let pairs: Vec<u32> = inspection.line_costs.values().map(|cost| cost.pairs).collect();
        assert_eq!((inspection.programs.len(), pairs), (2, vec![101, 101]));
    }
}

/// CPUs for whose threads the ruler was measured, by order.
static RULED: Mutex<Vec<Vec<u32>>> = Mutex::new(Vec::new());

/// Stations at which every hint of the warm-up shows that the XDP program runs on the first CPU.
const MOVED: StationMethods = StationMethods {
    connect: |_, _| {
        let orders: fn(&ToAgent) -> Option<FromAgent> = |order| {
            if let ToAgent::Measure(threads) = order {
                let pinned = threads.iter().filter_map(|order| order.thread.cpu).collect();
                RULED.lock().expect("no thread broke in it").push(pinned);
            }
            None
        };
        let answers: fn(&mut FromAgent) = |answer| {
            if let FromAgent::WarmStatus { program_cpus, .. } = answer {
                *program_cpus = tardy_host::cpus::usable()[..1].to_vec();
            }
        };
        Ok(between((orders, answers)))
    },
    ..STATION
};

#[test]
fn a_receiver_that_was_placed_anew_ran_on_a_cpu_for_which_no_ruler_was_measured() {
    let usable = tardy_host::cpus::usable();
    let [first, .., last] = usable[..] else {
        let test = "a_receiver_that_was_placed_anew_ran_on_a_cpu_for_which_no_ruler_was_measured";
        return tardy_tests::skip(test, "this machine has one CPU");
    };
    let mut experiment = experiment("");
    // No other thread is pinned, and no CPU of the program is assumed: the least used one with the
    // highest number is taken at first.
    experiment.cells[0].setup.streams[0].rx.core = Some(Core::Same);
    let kept = run_here(experiment, |_| &MOVED);
    let [(record, _)] = &kept.trials[..] else { panic!("{} trials", kept.trials.len()) };
    assert_eq!(record.streams["there"].rx.cpu_asked, Some(first));
    let ruled = RULED.lock().expect("no thread broke in it").clone();
    // Station `a` has no pinned thread, and `b` one: before the trials, before the trial that
    // begins anew, and after the trials.
    assert_eq!(ruled, [vec![], vec![last], vec![first], vec![], vec![first]]);
}

#[test]
fn a_guest_of_a_host_that_nobody_named_was_taken_in() {
    let did = Rc::new(Cell::new([0; 3]));
    let mut here = Idle::new(&did);
    let none = Hosts::here(&mut here).and_guest(GUEST, "guest", OTHER, BTreeMap::new(), Idle::new(&did)).map(drop);
    assert_eq!(none, Err(HostsError::NotFound(NotFound::Host(OTHER))));
}

#[test]
fn a_second_host_of_an_id_was_taken_in_and_never_asked() {
    let did = Rc::new(Cell::new([0; 3]));
    let mut here = Idle::new(&did);
    let none = Hosts::here(&mut here).and(HostId::HERE, "rig", Idle::new(&did)).map(drop).expect_err("it is taken");
    assert_eq!(none, HostsError::Here { name: "rig".to_owned() });
    let says = "host `rig` cannot have the id of this machine: give it one of its own";
    assert_eq!(none.to_string(), says);
    let with = |id, name: &str| {
        let mut here = Idle::new(&did);
        let one = Hosts::here(&mut here).and(OTHER, "rig", Idle::new(&did)).expect("its id is free");
        // A guest's too.
        let guest = one.and_guest(id, name, OTHER, BTreeMap::new(), Idle::new(&did)).map(drop);
        let mut here = Idle::new(&did);
        let one = Hosts::here(&mut here).and(OTHER, "rig", Idle::new(&did)).expect("its id is free");
        let other = one.and(id, name, Idle::new(&did)).map(drop);
        assert_eq!(guest, other);
        other.map_err(|error| error.to_string())
    };
    assert_eq!(with(GUEST, "guest"), Ok(()));
    let of_id = "host `guest` cannot have the id of `rig` (host 1): give it one of its own";
    assert_eq!(with(OTHER, "guest"), Err(of_id.to_owned()));
    // Records know a host by its name.
    assert_eq!(with(GUEST, "rig"), Err("two hosts cannot both be called `rig`: rename one of them".to_owned()));
}

#[test]
fn a_station_of_another_host_was_served_by_the_standing_agent_of_this_one() {
    let did = [(); 2].map(|()| Rc::new(Cell::new([0; 3])));
    let mut here = Idle::new(&did[0]);
    let mut hosts = Hosts::here(&mut here).and(OTHER, "rig", Idle::new(&did[1])).expect("its id is free");
    // In one cell station `b` is on this machine, in the other one it is elsewhere.
    let mut experiment = experiment("[matrix]\n\"path.mtu\" = [1500, 1400]\n");
    let cell = experiment.cells.first_mut().expect("two cells");
    cell.setup.stations.get_mut("b").expect("a station").host = HostId::HERE;
    let kinds = Kinds { station: |_| &STANDING, ..kinds() };
    let found = check(&experiment, &kinds, &mut hosts).unwrap_or_else(|error| panic!("{error}"));
    let (mut kept, stop) = (Kept::default(), AtomicBool::new(false));
    let clocks = || -> Box<dyn tardy_lab::host::clocks::OffsetSource> { Box::new(Known(AHEAD_NS)) };
    let options = Options { version: VERSION, stop: &stop, kinds, clocks: &clocks };
    let before = CONNECTED.with(Cell::get);
    let ended = run(&experiment, found, &mut hosts, &options, &mut kept);
    assert!(ended.failed.is_none(), "{:?}", ended.failed);
    assert_eq!(CONNECTED.with(Cell::get) - before, 3, "`a` once, and `b` on each host");
    let steps = did.each_ref().map(|did| did.get()[0]);
    assert_eq!(steps, [2, 1], "each is built on its own host");
    assert_eq!(kept.trials.len(), 2);
    for (record, streams) in &kept.trials {
        let is_elsewhere = record.cell != experiment.cells[0].id;
        let offset = record.streams["there"].offsets.rx.as_ref().map(|offset| offset.host.as_str());
        assert_eq!((offset, &record.failed), (is_elsewhere.then_some("rig"), &None), "{}", record.cell);
        // The clock of the other host's agent is 3 ms ahead, so a wrong agent would show.
        for (name, batch) in streams {
            assert!(batch.outcome.iter().all(|outcome| *outcome == Outcome::Received), "{name}");
            let crossing = Metric::Span(Point::Send, Point::RxKernel);
            let least = (0..batch.len()).filter_map(|row| batch.span_ns(row, crossing)).min().expect("stamps");
            assert!((0..AHEAD_NS).contains(&least), "{} {name}: {least} ns over loopback", record.cell);
        }
    }
}

#[test]
fn the_side_of_a_load_on_another_host_was_recorded_as_this_ones() {
    let did = [(); 2].map(|()| Rc::new(Cell::new([0; 3])));
    let mut here = Idle::new(&did[0]);
    let mut hosts = Hosts::here(&mut here).and(OTHER, "rig", Idle::new(&did[1])).expect("its id is free");
    let experiment = experiment(tardy_tests::experiment("loads of two hosts"));
    let found = check(&experiment, &kinds(), &mut hosts).unwrap_or_else(|error| panic!("{error}"));
    let (mut kept, stop) = (Kept::default(), AtomicBool::new(false));
    let clocks = || -> Box<dyn tardy_lab::host::clocks::OffsetSource> { Box::new(Known(AHEAD_NS)) };
    let options = Options { version: VERSION, stop: &stop, kinds: kinds(), clocks: &clocks };
    let ended = run(&experiment, found, &mut hosts, &options, &mut kept);
    assert!(ended.failed.is_none(), "{:?}", ended.failed);
    let [(record, _)] = &kept.trials[..] else { panic!("{} trials", kept.trials.len()) };
    let rig = Some("rig".to_owned());
    assert_eq!(record.loads["bulk"].hosts, SideHosts { from: None, to: rig.clone() });
    assert_eq!(record.loads["spin"].hosts, SideHosts { from: rig, to: None });
}

#[test]
fn the_schedule_of_another_host_began_by_this_ones_clock() {
    let setup = experiment(tardy_tests::experiment("gates of two hosts")).cells.remove(0).setup;
    let at = |ns| Facts { now: Some(Instant::from_ns(ns)), ..Facts::default() };
    let second = 1_000_000_000;
    let found = FactsByHost::from(at(100 * second)).and(OTHER, at(700 * second));
    let plan = plan_of(&kinds(), &setup, Names::FIRST, &found).expect("a plan");
    let begins: BTreeMap<HostId, i64> = plan.begins.iter().map(|(host, at)| (*host, at.ns() / second)).collect();
    assert_eq!(begins, BTreeMap::from([(HostId::HERE, 100), (OTHER, 700)]));
}

#[test]
fn a_virtual_pair_was_planned_across_two_machines() {
    let setup = experiment("").cells.remove(0).setup;
    let found = FactsByHost::default().and(OTHER, Facts::default());
    let error = plan_of(&Kinds::default(), &setup, Names::FIRST, &found).expect_err("a veth pair has one kernel");
    let says = "veth joins stations of one machine, and `a` and `b` are on two: use path \"wire\"";
    assert_eq!(error.to_string(), says);
}

#[test]
fn the_program_of_a_load_was_looked_for_on_this_machine_alone() {
    let load = "[load.job]\nkind = \"command\"\nfrom = \"b\"\ncommand = [\"true\"]\n";
    let setup = experiment(load).cells.remove(0).setup;
    let at = |host| tardy_lab::loads::programs_at(&setup, host).expect("its station is there").len();
    assert_eq!((at(HostId::HERE), at(OTHER)), (0, 1), "the host of its station is asked");
    let lacks =
        Facts { no_programs: BTreeMap::from([("true".to_owned(), "is not installed".to_owned())]), ..Facts::default() };
    let found = FactsByHost::default().and(OTHER, lacks);
    let error = tardy_lab::loads::programs(&setup, &found).expect_err("it is not there").to_string();
    assert_eq!(error, "load `job`: program `true` is not installed");
    let found = FactsByHost::default().and(OTHER, Facts::default());
    assert_eq!(tardy_lab::loads::programs(&setup, &found), Ok(()));
}
