// SPDX-License-Identifier: MIT OR Apache-2.0
//! A kind of path, a kind of station and a host of this test's own, by which the coordinator runs
//! a whole experiment: three stations, one of them on two paths, whose agents are threads of this
//! process. Nothing of the machine is touched. A kind of port of the test's own is in `port`.

mod ends;
mod hosts;
mod port;

use crate::two_hosts::{AHEAD_NS, Thread, agent, ahead};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use tardy_host::state::Reader;
use tardy_lab::command::Command;
use tardy_lab::connection::{Carrier, Connection};
use tardy_lab::coordinator::{Options, check, run};
use tardy_lab::host::ask::{Ask, Observe, Observed};
use tardy_lab::host::clocks::one_host;
use tardy_lab::host::hosts::Hosts;
use tardy_lab::host::place::Place;
use tardy_lab::host::{ApplyError, Away, Host, HostId, LookError};
use tardy_lab::machine::{Facts, FactsByHost};
use tardy_lab::names::{LinkNumber, Names};
use tardy_lab::not_found::NotFound;
use tardy_lab::path::keeper::Keeper;
use tardy_lab::path::{Device, Laid, PathError, PathId, PathMethods, PlannedStations, Plug};
use tardy_lab::plan::{Kinds, plan_of};
use tardy_lab::run::{Event, RunError, Sink, What};
use tardy_lab::slot::ClaimError;
use tardy_lab::station::{Offer, PlannedStation, Plugged, StationMethods};
use tardy_lab::step::{Question, Step};
use tardy_lab::undo::{PutBack, UndoError};
use tardy_model::harmless::Json;
use tardy_model::manifest::{HostEntry, ReadBack};
use tardy_model::sample::{Batch, Outcome};
use tardy_model::station::{Life, StationKind, StationTraits};
use tardy_model::time::{Instant, Tai};
use tardy_model::trial::TrialRecord;
use tardy_spec::experiment::{Experiment, Setup, Station};

const VERSION: &str = "two hosts";

/// A station that is a thread of this process.
const STATION: StationMethods = StationMethods {
    traits: StationTraits { name: "thread", life: Life::SetUp, is_machine: false },
    needs: |found| found.usable.is_empty().then(|| "a thread of the test's needs a CPU".to_owned()),
    build: |names, of, station| PlannedStation {
        kind: StationKind::Netns,
        place: Place::of(of.host),
        steps: vec![Step::new(
            &Place::of(of.host),
            "a station of the test's",
            vec![Command::new("station", &[station])],
        )],
        offers: vec![
            Offer::Netns(Place::netns_of(of.host, &names.netns(station))),
            Offer::Slot { number: 0, place: Place::of(of.host) },
            Offer::Slot { number: 1, place: Place::of(of.host) },
        ],
        agent: Command::new("agent", &[station]),
    },
    plug: |station, id, offer, device| {
        assert_eq!(station.offers.iter().filter(|known| *known == offer).count(), 1, "it knows which one is meant");
        let (place, name) = (offer.place().clone(), device.name.clone());
        Ok(match offer {
            Offer::Netns(_) | Offer::Own(_) => Plugged { steps: Vec::new(), place, device: name },
            // Inside it is called after its slot, and it is on this path.
            Offer::Slot { number, .. } => {
                let take = Command::new("slot", &[&number.to_string(), &name, &id.path.to_string()]);
                let take = Step::new(&place, "a device into its slot", vec![take]);
                Plugged { steps: vec![take], place: station.offers[0].place().clone(), device: format!("in{number}") }
            }
        })
    },
    connect: |_, station| {
        CONNECTED.with(|connected| connected.set(connected.get() + 1));
        // The clock of another machine is ahead of this one's.
        let (from, to) = match station.place.host {
            HostId::HERE => agent(),
            _ => ahead(agent(), AHEAD_NS, std::sync::mpsc::channel().0),
        };
        Ok(Connection { from: Box::new(from), to: Box::new(to), carrier: Box::new(Thread) })
    },
};

thread_local! {
    /// Agents that this test has started.
    static CONNECTED: Cell<usize> = const { Cell::new(0) };
}

/// The same, but for the whole run.
const STANDING: StationMethods =
    StationMethods { traits: StationTraits { name: "thread", life: Life::Run, is_machine: false }, ..STATION };

fn plug(stations: &PlannedStations, names: Names, path: PathId, station: &str, offer: usize, number: usize) -> Plug {
    let link = LinkNumber::new(number).expect("a small number");
    let device =
        Device { name: names.link(link), address: tardy_tests::of_loopback(), address6: None, mac: names.mac(link) };
    Plug { station: station.to_owned(), path, offer: stations[station].offers[offer].clone(), device }
}

/// Two paths over the loopback: one joins all stations but the last, the other one the first and
/// the last, which takes the device into its slot. So the first station has two network devices.
fn lay(_: &Setup, stations: &PlannedStations, names: Names, _: &FactsByHost) -> Result<Laid, PathError> {
    let all: Vec<&String> = stations.keys().collect();
    let (last, others) = all.split_last().expect("it has stations");
    let mut plugs: Vec<Plug> =
        (0..).zip(others).map(|(n, name)| plug(stations, names, PathId::FIRST, name, 0, n)).collect();
    plugs.push(plug(stations, names, PathId::numbered(1), all[0], 0, others.len()));
    plugs.push(plug(stations, names, PathId::numbered(1), last, 1, others.len() + 1));
    let place = stations[all[0]].offers[0].place().clone();
    let steps = vec![Step::new(&place, "a path of the test's", vec![Command::new("path", &[])])];
    let read_back = vec![Question::at(&place, Command::new("show", &["path"]))];
    let (why, command) = ("a forwarder of the test's", Command::new("forwarder", &[]));
    let keepers = vec![Keeper { place, why, command, is_optional: false }];
    Ok(Laid { steps, keepers, read_back, plugs, ..Laid::default() })
}

const PATH: PathMethods = PathMethods::made(lay);

fn kinds() -> Kinds {
    Kinds { path: |_| &PATH, station: |_| &STATION }
}

/// The program of the test's path, as its host sees it.
struct Forwarder(Arc<AtomicBool>);

impl Carrier for Forwarder {
    fn pid(&self) -> Option<u32> {
        None
    }

    fn ended(&mut self, _: Duration) -> Option<String> {
        self.0.load(Relaxed).then(|| "with exit status: 3".to_owned())
    }

    fn kill(&mut self) {
        self.0.store(true, Relaxed);
    }

    fn last_words(&self) -> Vec<String> {
        vec!["no such device".to_owned()]
    }
}

/// A host that does nothing and notes it.
struct Idle {
    did: Rc<Cell<[usize; 3]>>,
    reader: Option<Reader>,
    /// The path's program has ended.
    has_ended: Arc<AtomicBool>,
    /// It runs at the moment that everything is put back.
    ran_at_the_end: Rc<Cell<bool>>,
    /// It ends at this look at the host.
    ends_at: Option<usize>,
    /// How many steps had been done each time that they were to be kept.
    kept: Vec<usize>,
    /// How often what was kept was to be put back.
    ended: usize,
}

impl Idle {
    fn new(did: &Rc<Cell<[usize; 3]>>) -> Idle {
        let (has_ended, ran_at_the_end) = (Arc::default(), Rc::default());
        Idle { did: did.clone(), reader: None, has_ended, ran_at_the_end, ends_at: None, kept: Vec::new(), ended: 0 }
    }
}

impl Idle {
    fn count(&self, at: usize, by: usize) {
        let mut did = self.did.get();
        did[at] += by;
        self.did.set(did);
    }
}

impl Host for Idle {
    fn look(&mut self, _: &Ask) -> Result<Facts, LookError> {
        Ok(Facts { usable: tardy_host::cpus::usable(), ..Facts::default() })
    }

    fn describe(&mut self) -> Result<HostEntry, Away> {
        let machine = BTreeMap::from([("kernel.release".to_owned(), "of the test's".into())]);
        Ok(HostEntry { machine, ..HostEntry::default() })
    }

    fn now(&mut self) -> Result<Instant<Tai>, Away> {
        Ok(tardy_sys::clock::now())
    }

    fn claim(&mut self) -> Result<Names, ClaimError> {
        Ok(Names::FIRST)
    }

    fn apply(&mut self, steps: &[Step]) -> Result<(), ApplyError> {
        self.count(0, steps.len());
        Ok(())
    }

    fn read_back(&mut self, commands: &[Command]) -> Result<Vec<ReadBack>, ApplyError> {
        let says = |command: &Command| ReadBack {
            cell: None,
            qdiscs_of: None,
            command: command.to_string(),
            says: Json::default(),
        };
        Ok(commands.iter().map(says).collect())
    }

    fn link_is_up(&mut self, _: Option<&str>, _: &str) -> Result<bool, LookError> {
        Ok(true)
    }

    fn start(&mut self, command: &Command) -> Result<Connection, ApplyError> {
        assert_eq!(command.to_string(), "forwarder", "a station of the test's starts its own agent");
        let from: &[u8] = if self.ends_at == Some(0) { b"" } else { b"ready\nand more\n" };
        self.has_ended.store(self.ends_at == Some(0), Relaxed);
        let carrier = Box::new(Forwarder(self.has_ended.clone()));
        Ok(Connection { from: Box::new(from), to: Box::new(std::io::sink()), carrier })
    }

    fn note(&mut self, _: u32) -> Result<(), ApplyError> {
        Ok(())
    }

    fn observe(&mut self, what: &Observe) -> Result<Observed, Away> {
        self.count(1, 1);
        if self.ends_at == Some(self.did.get()[1]) {
            self.has_ended.store(true, Relaxed);
        }
        let reader = self.reader.get_or_insert_with(|| Reader::new(Vec::new()));
        Ok(Observed {
            state: reader.read(what.moment, 0),
            napi: BTreeMap::new(),
            machine_threads: Vec::new(),
            says: Vec::new(),
            kept: Vec::new(),
            syncs: Vec::new(),
        })
    }

    fn end_leftovers(&mut self) {}

    fn keep(&mut self) -> Result<(), Away> {
        self.kept.push(self.did.get()[0]);
        Ok(())
    }

    fn end(&mut self) -> Result<PutBack, UndoError> {
        self.ended += 1;
        Ok(PutBack::default())
    }

    fn put_back(&mut self) -> Result<PutBack, UndoError> {
        self.count(2, 1);
        self.ran_at_the_end.set(!self.has_ended.load(Relaxed));
        Ok(PutBack::default())
    }

    fn ran(&mut self) -> Vec<Event> {
        Vec::new()
    }
}

/// Keeps the trials, and the stations that were built.
#[derive(Default)]
struct Kept {
    trials: Vec<(TrialRecord, Vec<(String, Batch)>)>,
    stations: BTreeMap<String, String>,
    hosts: BTreeMap<String, HostEntry>,
}

impl Sink for Kept {
    fn event(&mut self, event: Event) {
        match event.what {
            What::Built { stations, .. } => {
                self.stations = stations.into_iter().map(|(name, entry)| (name, entry.kind)).collect();
            }
            What::Hosts { hosts } => self.hosts = hosts,
            _ => {}
        }
    }

    fn trial(&mut self, record: &TrialRecord, streams: &[(String, Batch)]) -> Result<(), Box<dyn Error + Send + Sync>> {
        self.trials.push((record.clone(), streams.to_vec()));
        Ok(())
    }

    fn load_output(&mut self, _: Vec<(String, Vec<u8>)>) {}
}

/// The built-in paths join two stations, so the third one comes in behind the file's checks, and
/// asks in place of `b`.
fn experiment_of(text: &str) -> Experiment {
    let source = tardy_spec::Source { name: "open-kinds.toml".into(), text: text.to_owned() };
    let mut experiment = tardy_spec::load(&source, &[]).unwrap_or_else(|error| panic!("{}", error.one_line()));
    for cell in &mut experiment.cells {
        cell.setup.stations.insert("c".to_owned(), Station::here(StationKind::Netns));
        cell.setup.streams[1].from = "c".to_owned();
    }
    experiment
}

fn experiment() -> Experiment {
    experiment_of(tardy_tests::experiment("open kinds"))
}

#[test]
fn three_stations_of_another_kind_on_two_paths_of_another_kind_run_a_whole_experiment() {
    let did = Rc::new(Cell::new([0; 3]));
    let mut idle = Idle::new(&did);
    let ran_at_the_end = idle.ran_at_the_end.clone();
    let mut hosts = Hosts::here(&mut idle);
    let experiment = experiment();
    let found = check(&experiment, &kinds(), &mut hosts).unwrap_or_else(|error| panic!("{error}"));
    let (mut kept, stop) = (Kept::default(), AtomicBool::new(false));
    let options = Options { version: VERSION, stop: &stop, kinds: kinds(), clocks: &one_host };
    let ended = run(&experiment, found, &mut hosts, &options, &mut kept);
    assert!(ended.failed.is_none(), "{:?}", ended.failed);
    let [steps, looks, put_back] = did.get();
    assert_eq!((steps, put_back), (3 + 1 + 1, 1), "three stations, a path and a device in its slot, put back once");
    assert!(looks >= 2, "before the trial and behind it");
    assert!(!ran_at_the_end.get(), "the path's program ends before the path does");
    let kinds: BTreeSet<&str> = kept.stations.values().map(String::as_str).collect();
    assert_eq!((kept.stations.len(), kinds), (3, BTreeSet::from(["thread"])));
    let [(record, streams)] = &kept.trials[..] else { panic!("{} trials", kept.trials.len()) };
    assert_eq!(record.failed, None);
    assert_eq!(streams.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["near", "far"]);
    for (name, batch) in streams {
        assert_eq!(batch.len(), 40, "{name}");
        assert!(batch.outcome.iter().all(|outcome| *outcome == Outcome::Received), "{name}: {:?}", batch.outcome);
    }
}

/// Why a run over the test's path fails whose program ends at this look at the host; 0 is before
/// it is ready.
fn failure_of_one_that_ends_at(look: usize) -> (String, [usize; 3], Vec<Option<String>>) {
    let did = Rc::new(Cell::new([0; 3]));
    let mut idle = Idle { ends_at: Some(look), ..Idle::new(&did) };
    let mut hosts = Hosts::here(&mut idle);
    let experiment = experiment();
    let found = check(&experiment, &kinds(), &mut hosts).unwrap_or_else(|error| panic!("{error}"));
    let (mut kept, stop) = (Kept::default(), AtomicBool::new(false));
    let options = Options { version: VERSION, stop: &stop, kinds: kinds(), clocks: &one_host };
    let ended = run(&experiment, found, &mut hosts, &options, &mut kept);
    let failed = kept.trials.iter().map(|(record, _)| record.failed.clone()).collect();
    (ended.failed.expect("it fails").to_string(), did.get(), failed)
}

#[test]
fn stations_that_live_for_the_run_are_built_once_and_serve_every_path() {
    // The second set-up may fail to open a port that the first has closed: a process that another
    // test has just forked still holds it, until its exec. Such a run is made anew.
    let is_held = |why: &RunError| why.to_string().contains("Address already in use");
    let found = (0..3).find_map(|_| served_by_the_same_stations(is_held));
    found.expect("another process holds the port each time");
}

/// Checks a run of two set-ups over stations that stay; `None` if it failed for such a reason.
fn served_by_the_same_stations(is_chance: impl Fn(&RunError) -> bool) -> Option<()> {
    CONNECTED.with(|connected| connected.set(0));
    let did = Rc::new(Cell::new([0; 3]));
    let mut idle = Idle::new(&did);
    // Two set-ups that cannot share a path.
    let text = tardy_tests::experiment("open kinds").to_owned() + "[matrix]\n\"path.mtu\" = [1500, 1400]\n";
    let experiment = experiment_of(&text);
    let (mut kept, stop) = (Kept::default(), AtomicBool::new(false));
    let kinds = Kinds { station: |_| &STANDING, ..kinds() };
    let mut hosts = Hosts::here(&mut idle);
    let found = check(&experiment, &kinds, &mut hosts).unwrap_or_else(|error| panic!("{error}"));
    let options = Options { version: VERSION, stop: &stop, kinds, clocks: &one_host };
    let ended = run(&experiment, found, &mut hosts, &options, &mut kept);
    drop(hosts);
    if ended.failed.as_ref().is_some_and(is_chance) {
        return None;
    }
    assert!(ended.failed.is_none(), "{:?}", ended.failed);
    assert_eq!(kept.trials.len(), 2);
    for (record, streams) in &kept.trials {
        assert_eq!(record.failed, None);
        let received = |(_, batch): &(String, Batch)| batch.outcome.iter().all(|outcome| *outcome == Outcome::Received);
        assert!(streams.iter().all(received), "{} {}", record.cell, record.n);
    }
    let [steps, _, paths] = did.get();
    assert!(paths >= 2, "each set-up has its path");
    assert_eq!(steps, 3 + 2 * paths, "three stations once, and each path with the device in its slot");
    assert_eq!(CONNECTED.with(Cell::get), 3, "each agent is started once");
    assert_eq!(
        (&idle.kept[..], idle.ended),
        (&[3][..], 1),
        "the stations are kept before the first path, until the end"
    );
    Some(())
}

#[test]
fn a_path_whose_program_ends_is_not_measured_on() {
    let needs = "the path needs it as long as packets are under way";
    let words =
        format!("`forwarder` (a forwarder of the test's) ended with exit status: 3; it said: no such device: {needs}");
    let (why, [steps, looks, put_back], trials) = failure_of_one_that_ends_at(0);
    assert_eq!((why, steps, looks, put_back), (words.clone(), 5, 0, 1), "nothing is measured");
    assert_eq!(trials, []);
    let (why, [_, looks, put_back], trials) = failure_of_one_that_ends_at(1);
    assert_eq!((why, put_back), (words.clone(), 1));
    assert_eq!(trials, [Some(words)], "the trial under way is kept as one that broke");
    assert!(looks > 1, "the trial under way is finished");
}

#[test]
fn a_station_has_an_end_on_each_path_that_leads_to_it() {
    let found = FactsByHost::default();
    let plan = plan_of(&kinds(), &experiment().cells[0].setup, Names::FIRST, &found).expect("a plan");
    let of = |station: &'static str| -> Vec<(PathId, &str)> {
        plan.ends.of(station).map(|(id, end)| (id.path, end.device.as_str())).collect()
    };
    let second = PathId::numbered(1);
    assert_eq!(of("a"), [(PathId::FIRST, "tardy0-0"), (second, "tardy0-2")]);
    assert_eq!((of("b"), of("c")), (vec![(PathId::FIRST, "tardy0-1")], vec![(second, "in0")]));
    assert_eq!((plan.ends.len(), plan.ends.at("d")), (4, Err(NotFound::End("d".to_owned()))));
    // What two stations send each other takes the path that joins both.
    let between = |from: &str, to: &str| plan.ends.between(from, to, None);
    let label = |id| plan.ends.label(id).expect("an end of the plan's");
    assert_eq!(between("a", "b").map(|ends| ends.map(label)), Ok(["a", "b"].map(str::to_owned)));
    assert_eq!(between("c", "a").map(|ends| ends.map(label)), Ok(["c", "a.2"].map(str::to_owned)));
    let none = between("b", "c").expect_err("no path joins them");
    assert_eq!(none.to_string(), "no path joins stations `b` and `c`: let a path join them, or use another station");
    let script = plan.script();
    let keeper = "# a forwarder of the test's: forwarder";
    for line in
        ["station a", "station b", "station c", "path", "slot 0 tardy0-3 'path 1'", "show path", "# agent c", keeper]
    {
        assert!(script.lines().any(|known| known == line), "{line} is not in\n{script}");
    }
    assert!(plan.steps.iter().all(|step| step.place.host == HostId::HERE));
}

#[test]
fn cells_whose_streams_leave_by_other_ends_of_a_station_shared_a_path() {
    let cell = experiment().cells.remove(0);
    let mut first = cell.setup.clone();
    first.streams.truncate(1);
    first.shaper = tardy_model::shaper::Shaper::Etf(tardy_model::shaper::Etf {
        delta: tardy_model::time::Nanos(200_000),
        deadline_mode: false,
        skip_sock_check: false,
        offload: false,
        tolerance: tardy_model::time::Nanos(200_000),
    });
    let mut second = first.clone();
    second.streams[0].to = "c".to_owned();
    let alike = |a: &Setup, b: &Setup| tardy_lab::orders::is_same_path(&kinds(), a, b, &FactsByHost::default());
    assert!(alike(&first, &first.clone()), "the same cell");
    assert!(!alike(&first, &second), "one leaves station `a` towards `b`, the other one towards `c`");
}

/// A variant of a kind takes over another kind's methods. The manifest called such a station by the
/// other kind's name, and it lived as long as the other kind does.
#[test]
fn a_kind_that_took_over_anothers_methods_kept_its_record() {
    for kind in StationKind::ALL {
        let methods = tardy_lab::station::kind(kind);
        assert_eq!(methods.traits, kind.traits(), "{}: set `traits` in its file", kind.name());
        let built = (methods.build)(Names::FIRST, &Station::here(kind), "a");
        assert_eq!(built.kind, kind, "{}: set `kind` in what it builds", kind.name());
    }
}
