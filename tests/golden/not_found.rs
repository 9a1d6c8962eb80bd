// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names and numbers of things that do not exist: each is an error that says which, and never the
//! first one, this machine, or no address.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;
use tardy_lab::command::Command;
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
use tardy_model::path::PathKind;
use tardy_model::station::StationKind;
use tardy_model::stream_id::{NoStream, StreamId};
use tardy_spec::experiment::{Experiment, Setup, Station};

const OTHER: HostId = HostId::numbered(1);
const NONE: Placed = Placed { tx: None, rx: None, reply: None };

fn experiment(more: &str) -> Experiment {
    let text = tardy_tests::experiment("stream from a to b").to_owned() + more;
    tardy_spec::load(&tardy_spec::Source { name: "x.toml".into(), text }, &[])
        .unwrap_or_else(|error| panic!("{}", error.one_line()))
}

fn setup(more: &str) -> Setup {
    experiment(more).cells[0].setup.clone()
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
    let step = Step::new(&Place::of(OTHER), "a step for nobody", vec![Command::new("true", &[])]);
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
    let mut experiment = experiment(wired);
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
