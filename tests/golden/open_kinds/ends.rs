// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stations with several ends: which path is taken between two of them, which ends a VLAN joins,
//! which slot takes in which device, and which device is steered and checked.

use super::{Idle, Kept, STATION, VERSION, experiment_of, kinds, plug};
use crate::devices;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::sync::atomic::AtomicBool;
use tardy_engine::order::EndOrder;
use tardy_host::nic::Nic;
use tardy_host::softirq::Steering;
use tardy_lab::coordinator::{Options, check, run};
use tardy_lab::host::clocks::one_host;
use tardy_lab::host::hosts::Hosts;
use tardy_lab::machine::{Facts, FactsByHost};
use tardy_lab::names::Names;
use tardy_lab::not_found::NotFound;
use tardy_lab::orders::{is_same_path, orders, random_of};
use tardy_lab::path::{Laid, LinkEnd, PathError, PathId, PathMethods, PlannedStations, Plug};
use tardy_lab::placement::Placed;
use tardy_lab::plan::{Kinds, Plan, PlanError, plan_of};
use tardy_lab::{loads, shaper};
use tardy_model::ethernet::Tag;
use tardy_model::sample::Outcome;
use tardy_spec::experiment::{Experiment, Setup};

const SECOND: PathId = PathId::numbered(1);

/// A kind of path that gives these devices.
macro_rules! giving {
    ($plugs:expr) => {{
        const PATH: PathMethods =
            PathMethods::made(|_, stations, names, _| Ok(Laid { plugs: $plugs(stations, names), ..Laid::default() }));
        Kinds { path: |_| &PATH, station: |_| &STATION }
    }};
}

/// Two paths, each of which joins the first station and the second one.
fn twice(stations: &PlannedStations, names: Names) -> Vec<Plug> {
    let each = [PathId::FIRST, SECOND].into_iter().flat_map(|path| ["a", "b"].map(|station| (path, station)));
    (0..).zip(each).map(|(n, (path, station))| plug(stations, names, path, station, 0, n)).collect()
}

fn planned(kinds: &Kinds, setup: &Setup) -> Result<Plan, PlanError> {
    plan_of(kinds, setup, Names::FIRST, &Facts { usable: vec![0, 1], ..Facts::default() }.into())
}

/// The test's experiment with two stations, whose streams choose a path.
fn choosing(more: &str, choice: [Option<PathId>; 2]) -> Experiment {
    let mut experiment = experiment_of(&(tardy_tests::experiment("open kinds").to_owned() + more));
    for cell in &mut experiment.cells {
        cell.setup.stations.remove("c");
        cell.setup.streams[1].from = "b".to_owned();
        cell.setup.streams.iter_mut().zip(choice).for_each(|(stream, path)| stream.path = path);
    }
    experiment
}

#[test]
fn the_first_of_two_paths_between_the_same_stations_was_taken() {
    let kinds = giving!(twice);
    let setup = |choice| choosing("", choice).cells.remove(0).setup;
    let (first, second) = (Some(PathId::FIRST), Some(SECOND));
    let unclear = planned(&kinds, &setup([first, None])).expect_err("both join them");
    let (from, to, paths) = ("b".to_owned(), "a".to_owned(), vec![PathId::FIRST, SECOND]);
    assert_eq!(unclear, PlanError::NotFound(NotFound::WhichPath { from, to, paths }));
    assert_eq!(
        unclear.to_string(),
        "path 0 and path 1 join stations `b` and `a`, and nothing says which one is meant: choose one of them"
    );
    let nowhere = planned(&kinds, &setup([first, Some(PathId::numbered(2))])).expect_err("there is none");
    assert_eq!(nowhere.to_string(), "path 2 was chosen, and it does not join stations `b` and `a`: choose another one");

    let setup = setup([first, second]);
    let plan = planned(&kinds, &setup).expect("a plan");
    let label = |id| plan.ends.label(id).expect("an end of the plan's");
    let labels = setup.streams.iter().map(|stream| plan.ends.of_stream(stream).map(|ends| ends.map(label)));
    assert_eq!(
        labels.collect::<Result<Vec<_>, _>>(),
        Ok([["a", "b"], ["b.2", "a.2"]].map(|names| names.map(str::to_owned)).to_vec())
    );
    // The ends are given their own path's addresses and devices.
    let none = Placed { tx: None, rx: None, reply: None };
    let (_, ordered) = orders(&setup, &plan, &[none.clone(), none], &mut random_of(1, "all", 1)).expect("orders");
    let [EndOrder::Ask(ask), EndOrder::Reflect(_)] = &ordered[1].ends[..] else { panic!("{:?}", ordered[1].ends) };
    let of = |station: &str| plan.ends.chosen(station, second).expect("an end").clone();
    let LinkEnd { address, device, .. } = of("b");
    assert_eq!((ask.send.local, &ask.send.device, ask.send.peer), (address, &device, of("a").address));
}

#[test]
fn a_load_takes_the_path_that_it_chooses() {
    let job = tardy_tests::experiment("loads on a choice of paths");
    let mut setup = choosing(job, [Some(PathId::FIRST), Some(SECOND)]).cells.remove(0).setup;
    let plan = planned(&giving!(twice), &setup).expect("a plan");
    let why = loads::in_words(&setup, &plan).expect_err("it has two addresses").to_string();
    assert_eq!(why, "path 0 and path 1 lead to station `a`, and nothing says which one is meant: choose one of them");
    setup.loads[0].path = Some(SECOND);
    let address = plan.ends.chosen("a", Some(SECOND)).expect("an end").address.to_string();
    let lines = loads::in_words(&setup, &plan).expect("it has one");
    assert!(lines.iter().any(|line| line.ends_with(&format!("true {address}"))), "{lines:?}");
    let places = vec![vec![[None, None]]; 3];
    let sides = |setup: &Setup| loads::Loads::of(setup, &plan, &places, &mut random_of(1, "all", 1)).map(drop);
    let paths = vec![PathId::FIRST, SECOND];
    let unclear = NotFound::WhichPath { from: "a".to_owned(), to: "b".to_owned(), paths };
    assert_eq!(sides(&setup), Err(unclear));
    setup.loads[1].path = Some(PathId::FIRST);
    assert_eq!(sides(&setup), Ok(()), "one that only computes needs no address");
}

#[test]
fn streams_on_two_paths_between_the_same_stations_run_a_whole_experiment() {
    let did = Rc::new(Cell::new([0; 3]));
    let mut idle = Idle::new(&did);
    let mut hosts = Hosts::here(&mut idle);
    let (experiment, kinds) = (choosing("", [Some(PathId::FIRST), Some(SECOND)]), giving!(twice));
    let found = check(&experiment, &kinds, &mut hosts).unwrap_or_else(|error| panic!("{error}"));
    let (mut kept, stop) = (Kept::default(), AtomicBool::new(false));
    let options = Options { version: VERSION, stop: &stop, kinds, clocks: &one_host };
    let ended = run(&experiment, found, &mut hosts, &options, &mut kept);
    assert!(ended.failed.is_none(), "{:?}", ended.failed);
    let [(record, streams)] = &kept.trials[..] else { panic!("{} trials", kept.trials.len()) };
    assert_eq!(record.failed, None);
    assert_eq!(streams.len(), 2);
    for (name, batch) in streams {
        assert!(batch.outcome.iter().all(|outcome| *outcome == Outcome::Received), "{name}: {:?}", batch.outcome);
    }
    let leave_by: Vec<&str> = record.streams.values().map(|stream| stream.launching.station.as_str()).collect();
    assert_eq!(leave_by, ["b.2", "a"], "`far` takes the second path");
}

#[test]
fn cells_whose_streams_choose_other_paths_shared_what_is_on_them() {
    let alike = |of: &str| {
        let setup = |path| {
            let mut setup = choosing("", [Some(path), Some(path)]).cells.remove(0).setup;
            match of {
                "shaper" => {
                    let classes = "[shaper]\nkind = \"mqprio\"\nclasses = 2\n";
                    setup.shaper = choosing(classes, [None; 2]).cells.remove(0).setup.shaper;
                }
                _ => setup.streams.iter_mut().for_each(|stream| stream.tag = Some(Tag { vlan: 7, pcp: 1 })),
            }
            setup
        };
        let found = FactsByHost::default();
        [SECOND, PathId::FIRST].map(|path| is_same_path(&giving!(twice), &setup(PathId::FIRST), &setup(path), &found))
    };
    assert_eq!((alike("shaper"), alike("vlan")), ([false, true], [false, true]));
}

#[test]
fn a_vlan_joined_the_ends_of_two_paths() {
    let text = tardy_tests::experiment("open kinds").replace("[stream.far]", "[stream.far]\nip = \"ipv6\"");
    let mut setup = experiment_of(&text).cells.remove(0).setup;
    // On one path the two would be refused: a device makes one PCP of a priority.
    for (stream, pcp) in setup.streams.iter_mut().zip([3, 5]) {
        stream.tag = Some(Tag { vlan: 7, pcp });
    }
    let plan = planned(&kinds(), &setup).expect("a plan");
    let script = plan.script();
    // Each path has addresses of its own, which no other device of station `a` routes to.
    let of = |label: &str| {
        let (id, end) = plan.ends.iter().find(|(id, _)| plan.ends.label(*id).as_deref() == Ok(label)).expect(label);
        (id, end.vlans[&7].clone(), end.mac.clone())
    };
    let v4 = |last| IpAddr::V4(Ipv4Addr::new(198, 18, 0, last));
    let v6 = |segment: u16, last| std::net::Ipv6Addr::new(0xfd74, 0x6172, 0x6479, 0, segment, 0, 0, last);
    for (label, device, address, address6) in [
        ("a", "tdy0-0.7", v4(5), v6(8, 1)),
        ("a.2", "tdy0-1.7", v4(9), v6(0x1008, 1)),
        ("b", "tdy0-2.7", v4(6), v6(8, 2)),
        ("c", "tdy0-3.7", v4(10), v6(0x1008, 2)),
    ] {
        let (_, end, _) = of(label);
        assert_eq!((end.device.as_str(), end.address, end.address6), (device, address, Some(address6)), "{label}");
    }
    let labels = ["a", "a.2", "b", "c"];
    for (near, far) in labels.iter().flat_map(|near| labels.map(|far| (*near, far))).filter(|(near, far)| near != far) {
        let ((at, here, _), (other, there, mac)) = (of(near), of(far));
        let neighbour = format!("neigh replace {} lladdr {mac} dev {}", there.address, here.device);
        assert_eq!(script.contains(&neighbour), at.path == other.path, "{near} knows {far}\n{script}");
    }
    // A socket's priority makes another PCP on each.
    for (device, pcp) in [("tdy0-0.7", 3), ("tdy0-2.7", 3), ("tdy0-1.7", 5), ("tdy0-3.7", 5)] {
        let made = format!("name {device} type vlan id 7 egress-qos-map 0:{pcp}");
        assert!(script.lines().any(|line| line.ends_with(&made)), "{made}\n{script}");
    }
    // More of them than a run has addresses for.
    let tagged = |of: usize, vlan| {
        let stream = setup.streams[of].clone();
        tardy_model::stream::Stream { tag: Some(Tag { vlan, pcp: 1 }), ..stream }
    };
    setup.streams = (0..8).map(|n| tagged(n % 2, 10 + n as u16 / 2)).collect();
    let error = planned(&kinds(), &setup).expect_err("four on each path");
    assert_eq!(error, PlanError::Path(PathError::TooManyVlans { count: 8 }));
    assert!(error.to_string().starts_with("the streams go over 8 VLANs"), "{error}");
}

#[test]
fn a_device_was_lost_in_the_slot_of_another() {
    /// Two paths from `a` into these slots of `b`, which come behind its namespace.
    fn into(stations: &PlannedStations, names: Names, slots: [usize; 2], paths: [PathId; 2]) -> Vec<Plug> {
        let ends = (0..).zip(slots).zip(paths);
        ends.flat_map(|((n, slot), path)| {
            [plug(stations, names, path, "a", 0, 2 * n), plug(stations, names, path, "b", 1 + slot, 2 * n + 1)]
        })
        .collect()
    }
    let both = [PathId::FIRST, SECOND];
    let setup = choosing("", both.map(Some)).cells.remove(0).setup;
    let plan = planned(&giving!(|stations, names| into(stations, names, [0, 1], [PathId::FIRST, SECOND])), &setup);
    let plan = plan.expect("a slot for each");
    let inside = plan.ends.of("b").map(|(id, end)| (id.path, end.device.as_str()));
    assert_eq!(inside.collect::<Vec<_>>(), [(PathId::FIRST, "in0"), (SECOND, "in1")]);
    let script = plan.script();
    for line in ["slot 0 tardy0-1 'path 0'", "slot 1 tardy0-3 'path 1'"] {
        assert!(script.lines().any(|known| known == line), "{line} is not in\n{script}");
    }
    let one = giving!(|stations, names| into(stations, names, [1, 1], [PathId::FIRST, SECOND]));
    let error = planned(&one, &setup).expect_err("a slot takes one");
    assert_eq!(error, PlanError::Path(PathError::SlotTaken { station: "b".to_owned(), number: 1 }));
    assert_eq!(error.to_string(), "slot 1 of station `b` is to take two devices: give each a slot of its own");
    let same = giving!(|stations, names| into(stations, names, [0, 1], [SECOND, SECOND]));
    let error = planned(&same, &setup).expect_err("a station has one end on a path");
    assert_eq!(error, PlanError::Path(PathError::TwoEnds { path: SECOND, station: "a".to_owned() }));
    assert!(error.to_string().starts_with("path 1 gives station `a` two devices"), "{error}");
}

/// Two cables between the same stations, each with a device of the host at each end.
fn cables(stations: &PlannedStations, names: Names) -> Vec<Plug> {
    let mut plugs = twice(stations, names);
    for (plug, name) in plugs.iter_mut().zip(["eth1", "eth3", "eth2", "eth4"]) {
        plug.device.name = name.to_owned();
    }
    plugs
}

fn cabled(more: &str, path: PathId) -> Setup {
    let wire = format!("{more}[path]\nkind = \"wire\"\na = \"eth1\"\nb = \"eth3\"\n");
    choosing(&wire, [Some(path); 2]).cells.remove(0).setup
}

/// What is known of the host with these four devices.
fn with_four(change: impl Fn(&mut Facts)) -> FactsByHost {
    let like: Nic = devices::found(|_| ()).here().nics["enp1s0"].clone();
    let nics =
        ["eth1", "eth2", "eth3", "eth4"].map(|name| (name.to_owned(), Nic { name: name.to_owned(), ..like.clone() }));
    let mut facts = Facts { usable: vec![0, 1], nics: nics.into(), ..Facts::default() };
    change(&mut facts);
    facts.into()
}

#[test]
fn the_second_device_of_a_station_was_steered_as_the_first() {
    let mut setup = cabled("", PathId::FIRST);
    setup.softirq.cpus.insert("a".to_owned(), tardy_model::stream::CpuChoice::Number(1));
    let found = with_four(|facts| {
        let irqs = Steering { irqs: BTreeMap::from([(37, "0-1".to_owned())]), queues: BTreeMap::new() };
        let queues = Steering { irqs: BTreeMap::new(), queues: BTreeMap::from([("rx-0".to_owned(), "0".to_owned())]) };
        facts.steering = BTreeMap::from([("eth1".to_owned(), irqs), ("eth2".to_owned(), queues)]);
    });
    let script = plan_of(&giving!(cables), &setup, Names::FIRST, &found).expect("a plan").script();
    let steers = |word: &str| script.lines().any(|line| line.contains("echo") && line.contains(word));
    assert!(steers("echo 1 >/proc/irq/37/smp_affinity_list") && !steers("/sys/class/net/eth1/queues"), "{script}");
    assert!(steers("/sys/class/net/eth2/queues/rx-*; do echo 2"), "{script}");
    assert!(!steers("eth3") && !steers("eth4"), "nothing is asked of the other station\n{script}");
}

#[test]
fn a_device_that_no_stream_leaves_by_was_checked() {
    let found =
        with_four(|facts| facts.tx_queues = [("eth1", 8), ("eth2", 1)].map(|(name, n)| (name.to_owned(), n)).into());
    let refused = |path| {
        let setup = cabled("[shaper]\nkind = \"mqprio\"\nclasses = 2\n", path);
        let plan = plan_of(&giving!(cables), &setup, Names::FIRST, &found).expect("a plan");
        shaper::check(&setup, &plan.ends, &found).err().map(|error| error.to_string())
    };
    assert_eq!(refused(PathId::FIRST), None, "they leave by eth1 and eth3");
    let why = refused(SECOND).expect("eth2 has one queue");
    assert!(why.starts_with("shaper mqprio needs 2 transmit queues and eth2 has 1"), "{why}");
}

#[test]
fn each_of_many_ends_knows_all_others_in_a_vlan() {
    let text = tardy_tests::experiment("open kinds").replace("[stream.near]", "[stream.near]\nvlan = 7\npcp = 3");
    let experiment = experiment_of(&text);
    let only_first: fn(&Setup, &PlannedStations, Names, &FactsByHost) -> Result<Laid, PathError> =
        |_, stations, names, _| {
            let each = stations.keys().enumerate();
            let plugs = each.map(|(n, name)| plug(stations, names, PathId::FIRST, name, 0, n)).collect();
            Ok(Laid { plugs, ..Laid::default() })
        };
    static MANY: std::sync::OnceLock<PathMethods> = std::sync::OnceLock::new();
    MANY.get_or_init(|| PathMethods::made(only_first));
    let kinds = Kinds { path: |_| MANY.get().expect("it is set"), station: |_| &STATION };
    let plan = plan_of(&kinds, &experiment.cells[0].setup, Names::FIRST, &FactsByHost::default()).expect("a plan");
    let addresses: Vec<IpAddr> = plan.ends.values().map(|end| end.vlans[&7].address).collect();
    assert_eq!(addresses, [1, 2, 3].map(|host| IpAddr::V4(Ipv4Addr::new(100, 64, 0, 128 + host))));
    let script = plan.script();
    for (near, end) in plan.ends.iter() {
        let (device, own) = (&end.vlans[&7].device, end.vlans[&7].address);
        assert!(script.contains(&format!("addr add {own}/25 dev {device}")), "{script}");
        for (_, other) in plan.ends.iter().filter(|(far, _)| *far != near) {
            let neighbour = format!("neigh replace {} lladdr {} dev {device}", other.vlans[&7].address, other.mac);
            assert!(script.contains(&neighbour), "{} does not know {}\n{script}", end.station, other.station);
        }
    }
}
