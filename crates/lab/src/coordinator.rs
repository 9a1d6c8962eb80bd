// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs an experiment: cells in random order of blocks, each on its built path, each trial with its own seeded phase.
//! What happens and what was measured goes to a [`Sink`]; nothing here knows a file format.

mod error;
mod preflight;
mod sink;

pub use error::RunError;
pub use sink::{Event, Sink};

use crate::agent::Agent;
use crate::apply;
use crate::leftover;
use crate::loads::{self, Loads};
use crate::names::{self, ClaimError, Slot};
use crate::orders::{Turn, built_alike, is_simulated, orders, place, random_of, turns};
use crate::path::{self, Found};
use crate::path::{netdevsim, wire};
use crate::plan::{self, Plan};
use crate::runner::Processes;
use crate::shaper::watch::Readings;
use crate::shaper::{self, launching};
use crate::softirq::{self, Watch};
use crate::trial::{Broken, Ran, Stations, TrialError};
use crate::undo::UndoError;
use rand::Rng;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc;
use std::time::Duration;
use tardy_engine::live::Digest;
use tardy_engine::message::Side;
use tardy_engine::order::ThreadOrder;
use tardy_engine::{dropped, halves, port};
use tardy_host::softirq::steering;
use tardy_host::{cpus, facts, nic, state};
use tardy_model::load::LoadRecord;
use tardy_model::machine::{MachineState, RulerRecord};
use tardy_model::manifest::StationEntry;
use tardy_model::point::{Point, Source};
use tardy_model::qdisc::ShaperRecord;
use tardy_model::sample::Batch;
use tardy_model::stream::{Kind, Stream};
use tardy_model::time::Nanos;
use tardy_model::trial::{StreamRecord, TrialRecord};
use tardy_spec::experiment::{Experiment, Setup, Shaper};
use tardy_sys::clock;

/// What a run needs beside the experiment.
pub struct Options<'a> {
    /// Folder of slots and journals.
    pub state: &'a Path,
    /// The program to start as agent.
    pub program: PathBuf,
    /// Version for the greeting.
    pub version: &'a str,
    /// Set by a signal: finish what was begun and stop.
    pub stop: &'a AtomicBool,
}

/// How a run ended.
#[derive(Debug)]
pub struct Ended {
    /// True if a signal ended it.
    pub interrupted: bool,
    /// What ended it early, if something did. Trials finished before are in the sink.
    pub failed: Option<RunError>,
    /// Something that could not be put back.
    pub not_put_back: Option<UndoError>,
}

/// Memory that a packet takes at its peak: both ends' records, their way here, the joined samples and their analysis.
const BYTES_A_PACKET: u64 = 400;

/// Batches of commands that were run and are not yet told: each command, how long the batch took, what failed, when.
type Told = std::cell::RefCell<Vec<(Vec<String>, Duration, Vec<String>, std::time::Instant)>>;

/// The runner of a path's commands. They are told when their batch is over; the sink is busy elsewhere meanwhile, so they are noted in
/// `ran` until then.
fn noting<'a>(ran: &'a Told, slot: &Slot, state: &Path) -> Result<Processes<'a>, RunError> {
    let runner = Processes::new(|batch: &crate::runner::Ran<'_>| {
        ran.borrow_mut().push((
            batch.commands.iter().map(ToString::to_string).collect(),
            batch.took,
            batch.failures.iter().map(|failure| failure.says.clone()).collect(),
            std::time::Instant::now(),
        ));
    });
    Ok(runner.holding(slot).map_err(|source| ClaimError::State { path: state.to_owned(), source })?)
}

/// What a trial has beside its streams.
#[derive(Default)]
struct Beside<'a> {
    loads: BTreeMap<String, LoadRecord>,
    watch: Option<&'a Watch<'a>>,
    shapers: BTreeMap<String, ShaperRecord>,
}

/// The run under way.
struct Run<'a> {
    experiment: &'a Experiment,
    options: &'a Options<'a>,
    sink: &'a mut dyn Sink,
    refused: Vec<String>,
    found: Found,
    measured: bool,
    ruler: Vec<RulerRecord>,
    of: u32,
}

/// Runs the experiment to its end, a signal's, or a failure's; puts back what was built in every case.
pub fn run(experiment: &Experiment, options: &Options<'_>, sink: &mut dyn Sink) -> Ended {
    let turns = turns(experiment);
    let of = turns.len() as u32;
    let (refused, found, ruler) = (Vec::new(), Found::default(), Vec::new());
    let mut run = Run { experiment, options, sink, refused, found, measured: false, ruler, of };
    let mut not_put_back = None;
    let result = run.all(&turns, &mut not_put_back);
    Ended { interrupted: options.stop.load(Relaxed), failed: result.err(), not_put_back }
}

/// About what a trial takes at its peak, bytes.
pub fn memory(setup: &Setup) -> u64 {
    let streams: u64 = setup.streams.iter().map(|stream| u64::from(stream.count) * BYTES_A_PACKET).sum();
    streams.saturating_add(loads::memory(setup))
}

/// What can be known before anything is touched: CPUs that are there, threads that do not starve each other, memory, network
/// devices that may be taken. Gives what was found, for the plan; devices are to go back to the namespace of process `home`.
///
/// # Errors
/// [`RunError::Place`], [`RunError::Memory`] and [`RunError::Wire`].
pub fn possible(experiment: &Experiment, home: u32) -> Result<Found, RunError> {
    for cell in &experiment.cells {
        let needed = memory(&cell.setup);
        if let Some(available) = state::available_bytes().filter(|available| needed > available / 10 * 9) {
            let (needed_mib, available_mib) = (needed >> 20, available >> 20);
            return Err(RunError::Memory { cell: cell.id.clone(), needed_mib, available_mib });
        }
        if !is_simulated(&cell.setup) {
            let (chosen, _) = place(&cell.setup)?;
            loads::place(&cell.setup, &chosen, &cpus::usable())?;
            loads::programs(&cell.setup)?;
        }
    }
    found(experiment, home)
}

/// What of the machine a plan of the experiment rests on.
///
/// # Errors
/// [`RunError::Wire`] and [`RunError::Shaper`].
pub fn found(experiment: &Experiment, home: u32) -> Result<Found, RunError> {
    // Two runs at once must not both believe a device free, nor one read what the other has set.
    let _claim = wire::claim(experiment)?;
    let nics = wire::look(experiment)?;
    let steering = nics.keys().map(|device| (device.clone(), steering(device))).collect();
    let tx_queues =
        nics.iter().filter_map(|(device, nic)| Some((device.clone(), nic::tx_queues(&nic.name)?))).collect();
    let (simulates, now) = (netdevsim::is_here(), Some(clock::now()));
    let release = facts::release();
    let found = Found { home, nics, usable: cpus::usable(), steering, tx_queues, simulates, release, now };
    for cell in experiment.cells.iter().filter(|cell| !is_simulated(&cell.setup)) {
        shaper::possible(&cell.setup, &found)?;
    }
    Ok(found)
}

impl Run<'_> {
    fn stopped(&self) -> bool {
        self.options.stop.load(Relaxed)
    }

    fn all(&mut self, turns: &[Turn<'_>], not_put_back: &mut Option<UndoError>) -> Result<(), RunError> {
        self.check()?;
        // Until the devices are back.
        let _claim = wire::claim(self.experiment)?;
        self.found.nics = wire::look(self.experiment)?;
        self.found.steering = self.found.nics.keys().map(|device| (device.clone(), steering(device))).collect();
        for cell in self.experiment.cells.iter().filter(|cell| !is_simulated(&cell.setup)) {
            if let Some(why) = path::cannot(&cell.setup, &self.found) {
                self.sink.event(Event::Refused { cell: &cell.id, why: &why });
                self.refused.push(cell.id.clone());
            }
        }
        let mut slot = None;
        if self.experiment.cells.iter().any(|cell| !is_simulated(&cell.setup) && cell.setup.shaper != Shaper::None) {
            self.preflight(slot.insert(Slot::claim(self.options.state)?), not_put_back)?;
        }
        let mut at = 0;
        while at < turns.len() && !self.stopped() {
            let turn = &turns[at];
            if self.refused.contains(&turn.cell.id) {
                at += 1;
                continue;
            }
            if is_simulated(&turn.cell.setup) {
                self.simulate(turn)?;
                at += 1;
                continue;
            }
            // Trials in a row on the same path share it.
            let same = |other: &Turn<'_>| built_alike(&other.cell.setup, &turn.cell.setup, &self.found);
            let row = turns[at..].iter().take_while(|other| same(other)).count();
            let slot = match &slot {
                Some(slot) => slot,
                None => slot.insert(Slot::claim(self.options.state)?),
            };
            self.on_path(slot, &turns[at..at + row], not_put_back)?;
            at += row;
        }
        Ok(())
    }

    /// Tells what could not be had and was replaced.
    fn check(&mut self) -> Result<(), RunError> {
        self.found = possible(self.experiment, std::process::id())?;
        let built = self.experiment.cells.iter().filter(|cell| !is_simulated(&cell.setup));
        for cell in built {
            let (chosen, streams) = place(&cell.setup)?;
            let (_, of_loads) = loads::place(&cell.setup, &chosen, &cpus::usable())?;
            let (_, of_softirq) = softirq::meant(&cell.setup, &chosen, &self.found)?;
            for what in streams.into_iter().chain(of_loads).chain(of_softirq) {
                self.sink.event(Event::Short { cell: &cell.id, what: &what });
            }
        }
        Ok(())
    }

    fn simulate(&mut self, turn: &Turn<'_>) -> Result<(), RunError> {
        let Turn { cell, n, order } = turn;
        self.sink.event(Event::Trial { cell: &cell.id, n: *n, order: *order, of: self.of });
        let mut random = random_of(self.experiment.seed, &cell.id, *n);
        let nonce: u64 = random.random();
        let (mut states, mut ran, mut shapers) = (None, Vec::new(), BTreeMap::new());
        for (number, stream) in cell.setup.streams.iter().enumerate() {
            let phase = launching::phase(&cell.setup, stream, &mut random);
            let trial = port::sim::trial(stream, number as u8, nonce, phase, &cell.setup.shaper);
            if shaper::is_watched(&cell.setup) {
                shapers.insert(stream.from.clone(), trial.shaper);
            }
            states.get_or_insert((trial.before, trial.after));
            ran.push((stream, phase, Some(Ran { base: trial.base, halves: trial.halves })));
        }
        match states {
            Some((before, after)) => {
                let beside = Beside { shapers, ..Beside::default() };
                self.keep(turn, nonce, [before, after], None, ran, beside)
            }
            None => Ok(()),
        }
    }

    /// Builds the path, runs these turns on it, tears it down.
    fn on_path(
        &mut self,
        slot: &Slot,
        turns: &[Turn<'_>],
        not_put_back: &mut Option<UndoError>,
    ) -> Result<(), RunError> {
        let setup = &turns[0].cell.setup;
        self.found.now = Some(clock::now());
        let plan = plan::plan(setup, slot.names(), &self.found)?;
        let ran = Told::default();
        let mut runner = noting(&ran, slot, self.options.state)?;
        let applied = slot
            .journal()
            .map_err(RunError::from)
            .and_then(|journal| apply::apply(&plan, journal, &mut runner).map_err(RunError::from));
        self.tell_commands(&ran);
        let mut applied = applied?;
        let result = self.on_stations(&mut applied, &plan, turns, &ran);
        if let Err(error) = applied.undo() {
            *not_put_back = Some(error);
        }
        self.tell_commands(&ran);
        self.sink.event(Event::TornDown);
        result
    }

    fn tell_commands(&mut self, ran: &Told) {
        for (commands, took, failed, ended) in ran.take() {
            self.sink.event(Event::Commands { commands, took, ago: ended.elapsed(), failed });
        }
    }

    fn on_stations(
        &mut self,
        applied: &mut apply::Applied<'_>,
        plan: &Plan,
        turns: &[Turn<'_>],
        ran: &Told,
    ) -> Result<(), RunError> {
        use tardy_spec::experiment::Path;
        if !matches!(turns[0].cell.setup.path, Path::Veth { .. }) {
            wire::wait_for_link(&plan.ends, self.options.stop)?;
        }
        if let Some(begins) = plan.begins {
            // Before its schedule begins every gate is open, and iproute2 (6.1) prints one that waits as what is no JSON.
            clock::sleep_until(begins);
        }
        let read_back = applied.read_back(plan)?;
        self.tell_commands(ran);
        let (tell, inbox) = mpsc::channel();
        let mut stations = Stations { agents: Vec::new(), inbox };
        let mut entries = BTreeMap::new();
        for (index, (name, end)) in plan.ends.iter().enumerate() {
            let options = self.options;
            let mut agent = Agent::start(&options.program, name, &end.netns, index, tell.clone(), options.version)?;
            applied.agent(agent.pid())?;
            agent.greet(options.version)?;
            let entry =
                StationEntry { kind: "netns".into(), netns: Some(end.netns.clone()), agent: agent.version.clone() };
            entries.insert(name.clone(), entry);
            stations.agents.push(agent);
        }
        let pids = stations.agents.iter().map(|agent| (agent.station().to_owned(), agent.pid())).collect();
        self.sink.event(Event::Built { read_back: &read_back, stations: &entries, pids });
        if !self.measured {
            let threads = self.threads(plan)?;
            let records = stations.measure(&threads)?;
            self.sink.event(Event::Ruler(&records));
            self.ruler = records;
            self.measured = true;
        }
        for turn in turns {
            if self.stopped() {
                break;
            }
            if !self.refused.contains(&turn.cell.id) {
                self.trial(&mut stations, applied, plan, turn)?;
            }
        }
        Ok(())
    }

    /// Every (CPU, policy) that a thread of any cell will have, by station.
    fn threads(&self, plan: &Plan) -> Result<Vec<Vec<ThreadOrder>>, RunError> {
        let mut threads: Vec<Vec<ThreadOrder>> = vec![Vec::new(); plan.ends.len()];
        for cell in self.experiment.cells.iter().filter(|cell| !is_simulated(&cell.setup)) {
            let (chosen, _) = place(&cell.setup)?;
            for (stream, chosen) in cell.setup.streams.iter().zip(chosen) {
                let ends = [
                    (&stream.from, ThreadOrder { cpu: chosen.tx, policy: stream.tx.policy }),
                    (&stream.to, ThreadOrder { cpu: chosen.rx, policy: stream.rx.policy }),
                ];
                let reply = ThreadOrder { cpu: chosen.reply, policy: stream.reply.policy };
                let reply = Some((&stream.from, reply)).filter(|_| stream.kind == Kind::Reflected);
                for (station, order) in ends.into_iter().chain(reply) {
                    let of_station = plan.ends.keys().position(|name| name == station).map(|at| &mut threads[at]);
                    if let Some(of_station) = of_station.filter(|orders| !orders.contains(&order)) {
                        of_station.push(order);
                    }
                }
            }
        }
        Ok(threads)
    }

    fn trial(
        &mut self,
        stations: &mut Stations,
        applied: &mut apply::Applied<'_>,
        plan: &Plan,
        turn: &Turn<'_>,
    ) -> Result<(), RunError> {
        let Turn { cell, n, order } = turn;
        self.sink.event(Event::Trial { cell: &cell.id, n: *n, order: *order, of: self.of });
        let (chosen, _) = place(&cell.setup)?;
        let mut random = random_of(self.experiment.seed, &cell.id, *n);
        let (nonce, ordered) = orders(&cell.setup, plan, &chosen, &mut random);
        let (places, _) = loads::place(&cell.setup, &chosen, &cpus::usable())?;
        let mut loads = Loads::of(&cell.setup, plan, &places, &mut random);
        let mut states = Vec::new();
        let mut watch = Watch::new(&cell.setup, &chosen, &plan.ends, &self.found)?;
        let marks = if loads.have_programs() { leftover::marks(&stations.identities()) } else { Vec::new() };
        let mut readings = Readings::new(&cell.setup, &plan.ends, &self.found);
        let mut observe = || {
            watch.look();
            readings.take(applied);
            states.push(state::read(names::other_runs(self.options.state), &marks));
        };
        let sink = &mut *self.sink;
        let mut progress = |stream: &str, side: Side, digest: Digest| {
            let count = cell.setup.streams.iter().find(|s| s.name == stream).map_or(0, |s| s.count);
            sink.event(Event::Progress { stream, side, digest, count });
        };
        let result = stations.run(&ordered, &mut loads, self.options.stop, &mut observe, &mut progress);
        let mut states = states.into_iter();
        let now = || state::read(names::other_runs(self.options.state), &marks);
        let before = states.next().unwrap_or_else(now);
        let after = states.next().unwrap_or_else(now);
        let shapers = readings.records();
        let named = |ran: Vec<Option<Ran>>| -> Vec<(&Stream, Nanos, Option<Ran>)> {
            let both = cell.setup.streams.iter().zip(ordered.iter().map(|o| o.phase));
            both.zip(ran).map(|((stream, phase), ran)| (stream, phase, ran)).collect()
        };
        match result {
            Ok(ran) => {
                self.sink.load_output(loads.output());
                let ran = named(ran.into_iter().map(Some).collect());
                self.keep(
                    turn,
                    nonce,
                    [before, after],
                    None,
                    ran,
                    Beside { loads: loads.records(), watch: Some(&watch), shapers },
                )
            }
            Err(Broken { error: TrialError::CannotDo(why), .. }) => {
                self.sink.event(Event::Refused { cell: &cell.id, why: &why });
                self.refused.push(cell.id.clone());
                Ok(())
            }
            Err(Broken { error: TrialError::Agent(error), had }) => {
                if had.iter().any(Option::is_some) {
                    let (failed, beside) =
                        (Some(error.to_string()), Beside { loads: loads.records(), watch: Some(&watch), shapers });
                    self.keep(turn, nonce, [before, after], failed, named(had), beside)?;
                }
                Err(error.into())
            }
        }
    }

    /// The ruler's 99.9th percentile of the timer's error, of a thread like the stream's sender.
    fn timer_p99_9(&self, stream: &Stream, record: &StreamRecord) -> Option<i64> {
        let (cpu, policy) = (record.tx.cpu_asked, &record.tx.policy_granted);
        let of = |ruler: &&RulerRecord| ruler.station == stream.from && ruler.cpu == cpu && ruler.policy == *policy;
        self.ruler.iter().find(of)?.timer_p99_9_ns
    }

    /// Joins the halves and hands the trial to the sink.
    fn keep(
        &mut self,
        turn: &Turn<'_>,
        nonce: u64,
        [before, after]: [MachineState; 2],
        failed: Option<String>,
        ran: Vec<(&Stream, Nanos, Option<Ran>)>,
        beside: Beside<'_>,
    ) -> Result<(), RunError> {
        let (mut streams, mut records, mut first) = (Vec::new(), BTreeMap::new(), None);
        // Packets that queue disciplines own to have dropped; what they report by packet is taken off.
        let mut unreported: BTreeMap<String, u64> =
            beside.shapers.iter().map(|(station, shaper)| (station.clone(), shaper.drops())).collect();
        for (stream, phase, ran) in ran {
            let Some(ran) = ran else { continue };
            let (mut batch, mut record) = halves::join(stream, ran.base, &ran.halves);
            if let (tardy_spec::experiment::Path::Igb { .. }, Some(source)) =
                (&turn.cell.setup.path, record.sources.get_mut(&Point::TxHw))
            {
                *source = Source::Emulated;
            }
            let timer = self.timer_p99_9(stream, &record);
            record.launching = launching::record(&turn.cell.setup, stream, timer, self.found.release.as_deref());
            let reported = record.counters.launch_missed + record.counters.launch_invalid;
            if let Some(left) = unreported.get_mut(&stream.from) {
                *left = left.saturating_sub(reported);
                *left -= dropped::unreported(&mut batch, &mut record, *left);
            }
            first.get_or_insert((ran.base, phase));
            streams.push((stream.name.clone(), batch));
            records.insert(stream.name.clone(), record);
        }
        let Some((base, phase)) = first else { return Ok(()) };
        let cut = |(name, batch): &(String, Batch)| {
            turn.cell.setup.streams.iter().any(|stream| stream.name == *name && batch.len() < stream.count as usize)
        };
        let interrupted = self.stopped() && streams.iter().any(cut);
        let record = TrialRecord {
            format: tardy_model::FORMAT,
            cell: turn.cell.id.clone(),
            n: turn.n,
            order: turn.order,
            nonce: format!("{nonce:016x}"),
            phase_ns: phase.0,
            base_tai_ns: base.ns(),
            interrupted,
            failed,
            before,
            after,
            streams: records,
            placement: beside.watch.map(|watch| watch.record(&streams)).unwrap_or_default(),
            loads: beside.loads,
            shapers: beside.shapers,
        };
        self.sink.trial(&record, &streams).map_err(RunError::Sink)
    }
}
