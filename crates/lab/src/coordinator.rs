// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs an experiment: cells in random order of blocks, each on its built path, each trial with
//! its own seeded phase. What happens and what was measured goes to a [`Sink`]; nothing here knows
//! a file format.

mod check;
mod copies;
mod inspection;
mod keepers;
mod record;
mod short_trials;
mod under_way;

use crate::host::HostId;
use crate::host::hosts::Hosts;
use crate::loads::{self, Loads};
use crate::machine::FactsByHost;
use crate::names::Names;
use crate::not_found::NotFound;
use crate::orders::{Ordered, Turn, is_same_path, orders, random_of, turns};
pub use crate::orders::{memory, memory_of_machine};
use crate::path::keeper::Keepers;
use crate::placement::{PlaceError, Placed, Shown, place, place_by};
use crate::plan::{self, Plan};
use crate::run::{Ended, Event, RunError, Sink, What};
use crate::shaper::{self, launching};
use crate::softirq;
use crate::station::{Costs, Stations};
use crate::trial::{Broken, News, StreamHalves, TrialError};
use crate::undo::UndoError;
pub use check::{ask, check, look, look_at_devices};
use keepers::Reported;
use rand::Rng;
use record::{Around, Beside, States};
use short_trials::ByPath;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use tardy_engine::port;
use tardy_model::manifest::StationEntry;
use tardy_model::shaper::Shaper;
use tardy_model::stream::{Stream, live_end};
use tardy_model::stream_id::StreamId;
use tardy_model::time::Nanos;
use tardy_model::verdict::Figure;
use tardy_spec::experiment::{Cell, Experiment, Setup};
pub use under_way::Options;
use under_way::{Later, Run, Standing};

/// Runs the experiment on these hosts to its end, a signal's, or a failure's; puts back what was
/// built in every case. `found` is what [`check`] gave for it.
pub fn run(
    experiment: &Experiment,
    found: FactsByHost,
    hosts: &mut Hosts<'_>,
    options: &Options<'_>,
    sink: &mut dyn Sink,
) -> Ended {
    let turns = turns(experiment);
    let of = turns.len() as u32;
    let (refused, ruler, observed, standing) = (Vec::new(), Vec::new(), Vec::new(), Standing::default());
    let mut run = Run {
        experiment,
        options,
        sink,
        hosts,
        refused,
        found,
        shown: BTreeMap::new(),
        clocks_read: Instant::now(),
        standing,
        reported: Vec::new(),
        unstamped: BTreeSet::new(),
        measured: Vec::new(),
        ruler,
        observed,
        unanswered: BTreeSet::new(),
        costs: Costs::default(),
        of,
    };
    let mut not_put_back = None;
    let result = run.all(&turns, &mut not_put_back);
    run.end_standing(&mut not_put_back);
    Ended { interrupted: options.stop.load(Relaxed), failed: result.err(), not_put_back }
}

/// A trial that is over and not yet kept.
struct EndedTrial<'a> {
    turn: &'a Turn<'a>,
    nonce: u64,
    ordered: Vec<Ordered>,
    states: States,
    beside: Beside<'a>,
    /// What the programs of its loads wrote.
    output: Vec<(String, Vec<u8>)>,
}

/// Reports what a trial of the cell says: the live figures of its ends, at the end that has the
/// stream's live metric with that metric; and what is wrong before the first packet, once for each
/// stream in `unstamped`.
fn report(sink: &mut dyn Sink, cell: &str, unstamped: &mut BTreeSet<(String, String)>) -> impl FnMut(&Stream, News) {
    move |stream, news| {
        let name = stream.name.clone();
        let what = match news {
            News::Figures(side, digest) => {
                let metric = stream.leading().filter(|metric| live_end(stream.kind, *metric) == Some(side));
                What::Progress { stream: name, side, digest, count: stream.count, metric }
            }
            News::Unstamped(packets) => {
                if !unstamped.insert((cell.to_owned(), name.clone())) {
                    return;
                }
                What::Unstamped { cell: cell.to_owned(), stream: name, packets }
            }
        };
        sink.event(Event::now(what));
    }
}

impl Run<'_, '_> {
    fn all(&mut self, turns: &[Turn<'_>], not_put_back: &mut Option<UndoError>) -> Result<(), RunError> {
        let mut hosts = self.hosts.describe()?;
        for (name, facts) in check::behind(self.experiment, &self.found, self.hosts)? {
            let facts = facts.into_iter().map(|(fact, says)| (fact, Figure::Text(says)));
            hosts.entry(name).or_default().machine.extend(facts);
        }
        if !hosts.is_empty() {
            self.tell(What::Hosts { hosts });
        }
        self.check()?;
        for cell in self.experiment.cells.iter().filter(|cell| !cell.setup.builds_nothing()) {
            if let Some(why) = self.options.kinds.refusal(&cell.setup, &self.found)? {
                self.refuse(cell, why);
            }
        }
        if self.has_standing() {
            let names = self.claim()?;
            self.build_standing(names)?;
        }
        if self.experiment.cells.iter().any(|cell| !cell.setup.builds_nothing() && cell.setup.shaper != Shaper::None) {
            let names = self.claim()?;
            self.preflight(names, not_put_back)?;
        }
        let (mut at, mut memory) = (0, self.copy_memory());
        while at < turns.len() && !self.stopped() {
            let turn = &turns[at];
            if self.refused.contains(&turn.cell.id) {
                at += 1;
                continue;
            }
            if let Some(copy) = &turn.cell.setup.copy {
                self.copy(turn, copy, &mut memory)?;
                at += 1;
                continue;
            }
            if turn.cell.setup.builds_nothing() {
                self.hosts.watch(BETWEEN_ORDERS)?;
                self.simulate(turn)?;
                at += 1;
                continue;
            }
            // Trials in a row on the same path share it.
            let same =
                |other: &Turn<'_>| is_same_path(&self.options.kinds, &other.cell.setup, &turn.cell.setup, &self.found);
            let row = turns[at..].iter().take_while(|other| same(other)).count();
            self.wake(&turn.cell.setup, false)?;
            let names = self.claim()?;
            let rest = &turns[at + row..];
            let is_to_come =
                |turn: &&Turn<'_>| !turn.cell.setup.builds_nothing() && !self.refused.contains(&turn.cell.id);
            let later = rest.iter().filter(is_to_come).flat_map(|turn| places_of(&turn.cell.setup)).collect();
            self.on_path(names, &turns[at..at + row], &later, not_put_back)?;
            at += row;
        }
        Ok(())
    }

    /// Has the machines of a set-up's stations go on, and its bystanders if they are wanted too.
    /// The others rest. Bystanders run in trials only: the ruler is measured once for all cells.
    fn wake(&mut self, setup: &Setup, with_bystanders: bool) -> Result<(), RunError> {
        let stations = setup.stations.values().map(|station| station.host).collect();
        let bystanders = setup.stations.values().flat_map(|station| &station.bystanders.hosts);
        let bystanders = bystanders.filter(|_| with_bystanders).copied().collect();
        Ok(self.hosts.wake(&stations, &bystanders)?)
    }

    /// Takes a slot on each host. What is built on a machine of its own has that machine's names,
    /// for other runs may have these there; what is built for a virtual one has this machine's.
    fn claim(&mut self) -> Result<Names, RunError> {
        for host in self.hosts.awake().into_iter().skip(1) {
            let names = self.hosts.at(host)?.claim()?;
            self.hosts.at(host)?.watch(BETWEEN_ORDERS)?;
            if self.hosts.parent(host).is_none() {
                self.found.claimed(host, names);
            }
        }
        Ok(self.hosts.own().claim()?)
    }

    /// Reports what the machine could not give and what the run replaced.
    fn check(&mut self) -> Result<(), RunError> {
        let built = self.experiment.cells.iter().filter(|cell| !cell.setup.builds_nothing());
        for cell in built {
            let (chosen, streams) = place(&cell.setup, &self.found)?;
            let (_, of_loads) = loads::place(&cell.setup, &chosen, &self.found)?;
            let (_, of_softirq) = softirq::meant(&cell.setup, &chosen, &self.found)?;
            for what in streams.into_iter().chain(of_loads).chain(of_softirq) {
                self.tell(What::Short { cell: cell.id.clone(), what });
            }
        }
        Ok(())
    }

    fn simulate(&mut self, turn: &Turn<'_>) -> Result<(), RunError> {
        let Turn { cell, n, order } = turn;
        self.tell(What::Trial { cell: cell.id.clone(), n: *n, order: *order, of: self.of });
        let mut random = random_of(self.experiment.seed, &cell.id, *n);
        let nonce: u64 = random.random();
        let (mut states, mut ran, mut shapers) = (None, Vec::new(), BTreeMap::new());
        for (id, stream) in StreamId::each(&cell.setup.streams).map_err(NotFound::from)? {
            let phase = launching::phase(&cell.setup, stream, &mut random);
            let trial = port::sim::trial(stream, id, nonce, phase, &cell.setup.shaper);
            if shaper::is_watched(&cell.setup) {
                shapers.insert(stream.from.clone(), trial.shaper);
            }
            states.get_or_insert((trial.before, trial.after));
            let (base, halves, steered) = (trial.base, trial.halves, Vec::new());
            ran.push((stream, phase, Some(StreamHalves { base, halves, pair: None, steered })));
        }
        match states {
            Some((before, after)) => {
                let beside = Beside { shapers, ..Beside::default() };
                let states = States { here: [before, after], others: BTreeMap::new(), reported: Reported::default() };
                self.keep(turn, nonce, states, None, ran, beside)
            }
            None => Ok(()),
        }
    }

    /// Builds the path, runs these turns on it, tears it down. Behind it the ruler is measured
    /// again of the stations that no path comes to `later`.
    fn on_path(
        &mut self,
        names: Names,
        turns: &[Turn<'_>],
        later: &Later,
        not_put_back: &mut Option<UndoError>,
    ) -> Result<(), RunError> {
        let setup = &turns[0].cell.setup;
        self.read_clocks(setup)?;
        let plan = plan::plan_of(&self.options.kinds, setup, names, &self.found)?;
        let result = match self.hosts.apply(&plan.steps) {
            Ok(()) => {
                self.tell_commands();
                self.with_keepers(&plan, turns, later)
            }
            Err(error) => Err(error.into()),
        };
        let put_back = self.hosts.put_back();
        self.tell_commands();
        match put_back {
            Ok(put_back) => {
                let notes: Vec<String> = put_back.notes.iter().map(|note| format!("# {note}")).collect();
                if !notes.is_empty() {
                    let (took_ns, failed) = (Nanos::ZERO, Vec::new());
                    self.tell(What::Commands { commands: notes, took_ns, failed, elsewhere: false });
                }
                // What made the run fail says more.
                if !put_back.lost.is_empty() && result.is_ok() {
                    *not_put_back = Some(UndoError::Lost(put_back.lost));
                }
            }
            Err(error) => *not_put_back = Some(error),
        }
        self.tell(What::TornDown);
        result
    }

    /// Has the path's programs run meanwhile. They end before anything is put back.
    fn with_keepers(&mut self, plan: &Plan, turns: &[Turn<'_>], later: &Later) -> Result<(), RunError> {
        let setup = &turns[0].cell.setup;
        // Two ptp4l find each other only over a link.
        if setup.observes_ptp && setup.path.traits().waits_for_link {
            check::wait_for_link(self.hosts, plan, self.options.stop)?;
        }
        let mut keepers = Keepers::start(&plan.keepers, self.hosts)?;
        self.on_stations(plan, &mut keepers, turns, later)
    }

    fn on_stations(
        &mut self,
        plan: &Plan,
        keepers: &mut Keepers,
        turns: &[Turn<'_>],
        later: &Later,
    ) -> Result<(), RunError> {
        if turns[0].cell.setup.path.traits().waits_for_link {
            check::wait_for_link(self.hosts, plan, self.options.stop)?;
        }
        self.wait_for_schedules(plan)?;
        let read_back = self.hosts.read_back(&plan.read_back)?;
        self.tell_commands();
        let mut stations = Stations::compared_by((self.options.clocks)());
        let mut entries = BTreeMap::new();
        for (name, station) in &plan.stations {
            let (kind, place) = ((self.options.kinds.station)(station.kind), &station.place);
            let voice = stations.next_place(name)?;
            let agent = self.agent_of(name, station, voice)?;
            let (netns, agent_is) = (place.netns.clone(), agent.version.clone());
            entries.insert(name.clone(), StationEntry { kind: kind.traits.name.to_owned(), netns, agent: agent_is });
            stations.push(agent, place.host);
        }
        let pids = stations.processes().map(|(name, pid)| (name.to_owned(), pid)).collect();
        self.tell(What::Built { read_back, stations: entries, pids });
        // On a host that was there before, this finds nothing to do.
        self.measure(&mut stations, plan, None)?;
        for turn in turns {
            if self.stopped() {
                break;
            }
            if !self.refused.contains(&turn.cell.id) {
                keepers.check()?;
                self.trial(&mut stations, keepers, plan, turn)?;
            }
        }
        keepers.check()?;
        if !self.stopped() {
            self.measure(&mut stations, plan, Some(later))?;
        }
        self.keep_standing(stations, plan)?;
        Ok(())
    }

    fn trial(
        &mut self,
        stations: &mut Stations,
        keepers: &mut Keepers,
        plan: &Plan,
        turn: &Turn<'_>,
    ) -> Result<(), RunError> {
        let Turn { cell, n, order } = turn;
        self.tell(What::Trial { cell: cell.id.clone(), n: *n, order: *order, of: self.of });
        self.try_trial(stations, keepers, plan, turn)
    }

    /// The CPUs of a cell's threads, by all that is known of where XDP programs run.
    fn placed(&self, cell: &Cell) -> Result<Vec<Placed>, PlaceError> {
        let none = Shown::new();
        Ok(place_by(&cell.setup, &self.found, self.shown.get(&cell.id).unwrap_or(&none))?.0)
    }

    /// The warm-up has shown another CPU for the XDP program of a stream than that by which its
    /// receiver was placed. The receiver is placed by what was shown, the ruler is measured where
    /// no thread like it was to run before, and the trial begins anew; but a program that does not
    /// stay where it was seen costs the cell.
    fn place_anew(
        &mut self,
        stations: &mut Stations,
        keepers: &mut Keepers,
        plan: &Plan,
        turn: &Turn<'_>,
        (stream, program): (String, u32),
    ) -> Result<(), RunError> {
        let shown = self.shown.entry(turn.cell.id.clone()).or_default();
        if let Some(before) = shown.insert(stream.clone(), program) {
            let why = format!(
                "stream `{stream}`: rx.core needs an XDP program that stays on its CPU; the receiver was placed by CPU {before}, where \
                 the program ran, and then it ran on CPU {program}: pin the sender (tx.cpu), have one CPU take packets in \
                 (station.*.softirq), or take a wait that does not poll the device itself"
            );
            self.shown.remove(&turn.cell.id);
            self.refuse(turn.cell, why);
            return Ok(());
        }
        match self.placed(turn.cell) {
            Ok(_) => {
                // The ends of the trial that ended early must not run while the ruler is measured.
                stations.release(stations.names().into_keys())?;
                self.measure(stations, plan, None)?;
                self.try_trial(stations, keepers, plan, turn)
            }
            Err(error) => {
                // The ruler after the trials places the threads of all cells once more.
                self.shown.remove(&turn.cell.id);
                self.refuse(turn.cell, error.to_string());
                Ok(())
            }
        }
    }

    fn try_trial(
        &mut self,
        stations: &mut Stations,
        keepers: &mut Keepers,
        plan: &Plan,
        turn: &Turn<'_>,
    ) -> Result<(), RunError> {
        let Turn { cell, n, .. } = turn;
        let chosen = self.placed(cell)?;
        let mut random = random_of(self.experiment.seed, &cell.id, *n);
        let (nonce, ordered) = orders(&cell.setup, plan, &chosen, &mut random)?;
        let (places, _) = loads::place(&cell.setup, &chosen, &self.found)?;
        let mut loads = Loads::of(&cell.setup, plan, &places, &mut random)?;
        let unused = self.passed(plan)?;
        let mut inspection = inspection::inspect(stations, (&cell.setup, plan), &ordered, &mut self.costs)?;
        let probed = self.passed(plan)?;
        inspection.passed = unused.zip(probed.as_ref()).map(|(unused, probed)| probed.since(&unused));
        self.explain_lost(cell, plan, &mut inspection);
        self.ask_routes(cell, plan, &mut inspection);
        self.tell_found(cell, &inspection);
        let attached_before = || inspection::attached_before(&cell.setup.streams, plan, &inspection);
        let lost_special = || inspection::lost_special(&inspection, &self.experiment.validity);
        let passed_by = || plan.passages.passed_by(&inspection.probes, inspection.passed.as_ref()?);
        let dead_end = || inspection::dead_end(&inspection);
        if let Some(why) = dead_end().or_else(attached_before).or_else(lost_special).or_else(passed_by) {
            self.refuse_for(cell, why, Some(inspection));
            return Ok(());
        }
        let apart = self.exchange(stations, plan, turn, false)?;
        self.wake(&cell.setup, true)?;
        self.hosts.watch(BETWEEN_ORDERS + longest(&cell.setup))?;
        let asked = (loads.have_programs(), !self.experiment.remotes().is_empty());
        let mut around = Around::new(self.hosts, &cell.setup, (&chosen, &self.found), plan, asked)?;
        let result = stations.run(
            &ordered,
            &mut loads,
            self.options.stop,
            Some(&mut around),
            &mut report(&mut *self.sink, &cell.id, &mut self.unstamped),
        );
        let ended = around.ended();
        // A host that is gone now fails here too, and costs nothing of what the others recorded.
        let rested = self.wake(&cell.setup, false).and_then(|()| Ok(self.hosts.watch(BETWEEN_ORDERS)?));
        let (states, watch, readings) = ended?;
        let inspection = Some(inspection);
        let beside = Beside { shapers: readings.records(), inspection, ..Beside::built(plan, &watch) };
        let mut ended = EndedTrial { turn, nonce, ordered, states, beside, output: Vec::new() };
        ended.beside.loads = loads.records();
        ended.beside.traffic = stations.traffic().clone();
        let gone = match self.passed(plan) {
            Ok(passed) => {
                ended.beside.passed = passed.zip(probed).map(|(passed, probed)| passed.since(&probed));
                None
            }
            Err(error) => Some(error),
        };
        // Nothing is known of what a path did whose program had ended, or whose device is gone, so
        // the trial is kept as one that broke.
        let broke = rested.err().or_else(|| keepers.check().err().map(RunError::from)).or(gone);
        match (result, broke) {
            (Ok(ran), Some(error)) => {
                self.keep_ended(ended, ran.into_iter().map(Some).collect(), Some(error.to_string()))?;
                Err(error)
            }
            (Ok(ran), None) => {
                ended.output = loads.output();
                self.observe_and_keep(stations, plan, &chosen, ended, (ran, apart))
            }
            (Err(Broken { error: TrialError::Elsewhere { .. } | TrialError::CannotDo(_), .. }), Some(error)) => {
                Err(error)
            }
            (Err(Broken { error: TrialError::Elsewhere { stream, program }, .. }), None) => {
                self.place_anew(stations, keepers, plan, turn, (stream, program))
            }
            (Err(Broken { error: TrialError::CannotDo(why), .. }), None) => {
                self.refuse(cell, why);
                Ok(())
            }
            (Err(Broken { error: TrialError::NotFound(error), .. }), _) => Err(error.into()),
            (Err(Broken { error: TrialError::Agent(error), had }), broke) => {
                let error = broke.unwrap_or_else(|| error.into());
                if had.iter().any(Option::is_some) {
                    self.keep_ended(ended, had, Some(error.to_string()))?;
                }
                Err(error)
            }
        }
    }

    /// Measures what tx stamps add and how far the clocks are apart, and keeps the trial with that.
    /// Nobody waits for it before the first packet of the trial.
    fn observe_and_keep(
        &mut self,
        stations: &mut Stations,
        plan: &Plan,
        chosen: &[Placed],
        mut ended: EndedTrial<'_>,
        (mut ran, apart): (Vec<StreamHalves>, ByPath),
    ) -> Result<(), RunError> {
        let cell = ended.turn.cell;
        let mut more = || -> Result<(), RunError> {
            if !apart.is_empty() {
                let behind = self.exchange(stations, plan, ended.turn, true)?;
                short_trials::add(&cell.setup, &mut ran, &apart, &behind)?;
            }
            ended.beside.observer = self.observe(stations, plan, cell, chosen)?;
            Ok(())
        };
        let failed = more().err();
        self.keep_ended(ended, ran.into_iter().map(Some).collect(), None)?;
        failed.map_or(Ok(()), Err)
    }

    /// Keeps a trial that is over, with what came of each of its streams; `failed` says why it
    /// broke, if it did.
    fn keep_ended(
        &mut self,
        ended: EndedTrial<'_>,
        ran: Vec<Option<StreamHalves>>,
        failed: Option<String>,
    ) -> Result<(), RunError> {
        let EndedTrial { turn, nonce, ordered, states, beside, output } = ended;
        if !output.is_empty() {
            self.sink.load_output(output);
        }
        let phases = ordered.iter().map(|ordered| ordered.phase);
        let both = turn.cell.setup.streams.iter().zip(phases).zip(ran);
        let ran = both.map(|((stream, phase), ran)| (stream, phase, ran)).collect();
        self.keep(turn, nonce, states, failed, ran, beside)
    }
}

/// Between two orders to a host it is busy with others, or judges a trial, for less than this.
const BETWEEN_ORDERS: Duration = Duration::from_secs(300);

/// A packet's rows are handed over within this time, by a slow network too.
const HANDING_OVER: Duration = Duration::from_micros(400);

/// The longest that a trial of this set-up may take, and the handing over of its rows.
fn longest(setup: &Setup) -> Duration {
    let ns = setup.streams.iter().map(|stream| stream.longest().0).max().unwrap_or(0);
    let packets = setup.streams.iter().map(|stream| stream.count).max().unwrap_or(0);
    Duration::from_nanos(u64::try_from(ns).unwrap_or(0)).saturating_add(HANDING_OVER.saturating_mul(packets))
}

/// The stations of a set-up by their names, with their hosts.
fn places_of(setup: &Setup) -> impl Iterator<Item = (String, HostId)> + '_ {
    setup.stations.iter().map(|(name, station)| (name.clone(), station.host))
}
