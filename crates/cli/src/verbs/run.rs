// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tardy run`: builds, measures, judges, tears down; writes the run folder; prints the table.

use crate::args::Run;
use crate::exit::{self, Exit, Failure, code_of, printable};
use crate::recorder::{self, Recorder};
use crate::verbs::clocks::{Reached, reach};
use crate::verbs::guest::Machines;
use crate::verbs::{self, guest, object};
use anyhow::{Context, Result};
use std::io::IsTerminal;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use tardy_analyze::envelope::Trace;
use tardy_analyze::run::Outcome;
use tardy_host::cpus::{self, Cpus};
use tardy_judge::Judged;
use tardy_lab::consent::{self, Allowed};
use tardy_lab::coordinator::{self, Options};
use tardy_lab::guest::machine::{self, Booted};
use tardy_lab::guest::{Guest, GuestOptions, kernel};
use tardy_lab::host::clocks::{HostClocks, OffsetSource};
use tardy_lab::host::hosts::Hosts;
use tardy_lab::host::steward::Steward;
use tardy_lab::identity;
use tardy_lab::machine::FactsByHost;
use tardy_lab::plan::Kinds;
use tardy_lab::run::{Ended, Event, RunError, Sink, What};
use tardy_model::machine::HostId;
use tardy_model::manifest::{CellEntry, GuestMode, Manifest};
use tardy_model::time::Nanos;
use tardy_model::verdict::{Level, Verdict};
use tardy_report::Picture;
use tardy_spec::experiment::Experiment;
use tardy_store::{RunFolder, StoreError};

pub fn call(args: Run) -> Result<Exit> {
    let began = Instant::now();
    let here = args.guest.place.is_none();
    let mut experiment = object::load(&args.experiment, args.xdp_object.as_deref())
        .map_err(|error| if here { verbs::with_machine(error, &args.experiment) } else { error })?;
    if let Some(out) = &args.out {
        RunFolder::refuse_used(out)?;
    }
    let state = verbs::state();
    let stop = exit::on_signal(state.clone()).context("signal handlers")?;
    let guest = guest::asked(&args.guest, &experiment)?;
    if guest.is_none() {
        // The caller's own object takes the place of all that the file names.
        let objects = args.allow_commands || args.xdp_object.is_some();
        let (commands, nics, hosts) = (args.allow_commands, args.allow_nics, args.allow_hosts);
        let allowed = Allowed { commands, objects, nics, hosts };
        consent::check(&experiment, allowed).map_err(|error| Failure::new(Exit::Usage, error.to_string()))?;
        may_build(&experiment, &state)?;
    }
    let objects = if guest.is_none() { object::read(&mut experiment, &args.experiment)? } else { Vec::new() };
    let silence = guest::silence()?;
    // By its path the agents of a later cell would be another build, once one has taken its name.
    let mut steward = Steward::new(&state, Path::new(identity::SELF), std::process::id());
    let machines = if guest.is_none() { Machines::of(&experiment)? } else { Machines::default() };
    // What is built and measured; the results have all cells.
    let mut possible = experiment.clone();
    let refused = machines.take_refused(&mut possible);
    let blamed = |error| {
        let (usable, apart) = (cpus::usable(), cpus::apart());
        verbs::blamed(error, &args.experiment, Cpus { usable: &usable, apart: &apart })
    };
    if guest.is_none() && !possible.machines().is_empty() {
        coordinator::look_at_devices(&possible, &Kinds::default(), &mut steward).map_err(blamed)?;
    }
    // They are hosts of the run before anything is known of it.
    let mut booted = machines.boot(&state, &stop, &mut steward)?;
    let reached = if guest.is_none() { reach(&possible)? } else { Vec::new() };
    let clocks = HostClocks {
        emulators: booted.iter().map(|of| (of.host, of.running.pid())).collect(),
        this_machine: reached.iter().filter(|of| of.is_here).map(|of| of.host).collect(),
    };
    let mut hosts = Hosts::here(&mut steward);
    for Reached { host, name, distant, .. } in reached {
        hosts = hosts.and(host, &name, distant).context("hosts")?;
    }
    // Each machine runs as long as this list.
    let mut running = Vec::new();
    for Booted { host, name, steward, facts, running: machine } in booted.drain(..) {
        running.push((name.clone(), machine));
        hosts = hosts.and_guest(host, &name, HostId::HERE, facts, steward).context("virtual machines")?;
    }
    // What a guest can do is asked there; what none can, here.
    let place = match &guest {
        Some(guest) => {
            guest::check(guest, &args.experiment, &experiment)?;
            Where::Inside { guest, silence }
        }
        None => Where::Here {
            found: Box::new(coordinator::check(&possible, &Kinds::default(), &mut hosts).map_err(blamed)?),
            hosts: &mut hosts,
            clocks,
        },
    };
    let foreseen = match &place {
        Where::Here { found, .. } => verbs::foresee(&experiment, found, None),
        Where::Inside { guest, .. } => verbs::foresee(&experiment, &guest::facts(guest), Some(guest)),
    };
    // Of this machine only: in a guest the guest's kernel counts.
    let problems = match &place {
        Where::Here { found, .. } => verbs::doctor::problems(&possible, found, &args.experiment),
        Where::Inside { .. } => Vec::new(),
    };
    let folder = match args.out {
        Some(out) => RunFolder::create(out)?,
        None => create_default(&experiment.name)?,
    };
    // Now it begins; what is refused before has one reason, and no warnings. Notes are the plan's.
    let warnings = foreseen.iter().filter(|foreseen| foreseen.level >= Level::Warning);
    warnings.for_each(|warning| eprintln!("tardy: {}", printable(&warning.to_string())));
    problems.iter().for_each(|problem| eprintln!("tardy: doctor: {}", printable(problem)));
    folder.write_experiment(&experiment.effective)?;
    let mut manifest = manifest(&experiment);
    manifest.xdp_objects = objects;
    if let Where::Here { found, .. } = &place {
        manifest.machine.extend(found.here().nics.values().flat_map(|nic| nic.facts()));
    }
    folder.write_manifest(&manifest)?;
    let mut recorder = Recorder::new(&experiment, &folder, manifest);
    if guest.as_ref().is_some_and(|guest| guest.mode == GuestMode::Exact) {
        recorder.judge.exact();
    }
    for (cell, why) in refused {
        recorder.event(Event::now(What::Refused { cell, why, found: None }));
    }
    let mut ended = place.measure(&possible, &folder, &state, &stop, &mut recorder)?;
    for (name, registers) in machine::explain_silence(&mut ended, &running) {
        folder.write_registers(&name, &registers)?;
    }
    for (name, machine) in running {
        folder.write_console(&name, &machine.console())?;
    }
    recorder.clear_progress();
    conclude(say_how_it_ended(recorder, &ended), ended, &experiment, &folder, began, args.json)
}

/// Refuses a run that would build something and may not, and reports what a killed run has left.
fn may_build(experiment: &Experiment, state: &Path) -> Result<()> {
    if experiment.cells.iter().all(|cell| cell.setup.builds_nothing()) {
        return Ok(());
    }
    if !tardy_sys::process::may_build() {
        let why = format!(
            "network namespaces need root's CAP_NET_ADMIN and CAP_SYS_ADMIN: {}; port = \"sim\" and --in guest need no root",
            tardy_sys::process::how_to_be_root()
        );
        return Err(Failure::new(Exit::Cannot, why).into());
    }
    super::undo::offer(state)
}

/// Judges what was measured, writes what belongs at the end, and shows it.
fn conclude(
    recorder: Recorder<'_>,
    ended: Ended,
    experiment: &Experiment,
    folder: &RunFolder,
    began: Instant,
    json: bool,
) -> Result<Exit> {
    let Recorder { mut manifest, mut judge, traces, kept, failed, .. } = recorder;
    manifest.ended_utc = Some(recorder::utc());
    if let Some(error) = &ended.failed {
        let why = error.to_string();
        judge.say_of_run(Verdict::new("failed", Level::Invalid, why).with("trials_kept", kept));
    }
    if ended.interrupted {
        let says = format!("a signal ended the run after {}", verbs::count(kept as usize, "trial"));
        judge.say_of_run(Verdict::new("interrupted", Level::Warning, says).with("trials_kept", kept));
    }
    if let Some(guest) = &manifest.guest {
        judge.say_of_run(tardy_judge::in_guest(guest));
    }
    let judged = judge.finish(&manifest);
    let (manifest, judged) = (&manifest, &judged);
    let run = Finished { experiment, manifest, judged, traces: &traces.all, folder, began };
    let mut unwritten: Vec<String> = failed.iter().map(ToString::to_string).collect();
    unwritten.extend(run.write());
    unwritten.dedup();
    let measured = judged.results.cells.iter().any(|cell| !cell.trials.is_empty());
    if measured || ended.failed.is_none() {
        run.show(json)?;
    }
    let failed = ended.failed.iter().map(ToString::to_string);
    let left = ended.not_put_back.iter().map(ToString::to_string);
    let mut said: Vec<String> = Vec::new();
    for error in failed.chain(left).chain(unwritten.iter().cloned()) {
        // A machine that is gone is missed more than once.
        if !said.iter().any(|before| before.contains(&error)) {
            eprintln!("tardy: {}", printable(&error));
            said.push(error);
        }
    }
    Ok(exit(ended, kept, !unwritten.is_empty(), judged, manifest))
}

/// Where an experiment is run.
enum Where<'a, 'h> {
    /// On these hosts, of which that much was found, and whose clocks are compared so.
    Here { found: Box<FactsByHost>, hosts: &'a mut Hosts<'h>, clocks: HostClocks },
    /// In a guest, which is given up after so much processor time without a word.
    Inside { guest: &'a Guest, silence: Duration },
}

impl Where<'_, '_> {
    /// Runs the experiment to its end.
    fn measure(
        self,
        experiment: &Experiment,
        folder: &RunFolder,
        state: &Path,
        stop: &AtomicBool,
        sink: &mut dyn Sink,
    ) -> Result<Ended> {
        match self {
            Where::Inside { guest, silence } => {
                verbs::guest::warn(guest);
                let (path, cache) = (folder.make_folder("guest")?, kernel::cache());
                exit::guest_lies_in(path.clone());
                let (folder, cache) = (&*path, &*cache);
                let options = GuestOptions { guest, folder, state, cache, stop, silence };
                Ok(tardy_lab::guest::run(experiment, &options, sink))
            }
            Where::Here { found, hosts, clocks } => {
                let clocks = &|| -> Box<dyn OffsetSource> { Box::new(clocks.clone()) };
                let options = Options { version: &identity::version(), stop, kinds: Kinds::default(), clocks };
                Ok(coordinator::run(experiment, *found, hosts, &options, sink))
            }
        }
    }
}

fn say_how_it_ended<'a>(mut recorder: Recorder<'a>, ended: &Ended) -> Recorder<'a> {
    let failed = ended.failed.as_ref().map(ToString::to_string);
    let left = ended.not_put_back.as_ref().map(ToString::to_string);
    let interrupted = ended.interrupted;
    recorder.event(Event::now(What::Ended { interrupted, failed, exit_code: None, not_put_back: left }));
    recorder
}

/// The contract's exit code. A broken expectation outweighs what could not be measured or kept:
/// losing more never costs less.
fn exit(ended: Ended, kept: u32, unwritten: bool, judged: &Judged, manifest: &Manifest) -> Exit {
    let outcome = tardy_analyze::run::outcome(&judged.results);
    let incomplete = if outcome == Outcome::Unmet { Exit::Unmet } else { Exit::Invalid };
    if let Some(error) = ended.failed {
        return match error {
            _ if kept > 0 => incomplete,
            RunError::Sink(_) => Exit::Cannot,
            error => code_of(&error.into()),
        };
    }
    if unwritten || ended.not_put_back.is_some() {
        return if kept > 0 { incomplete } else { Exit::Cannot };
    }
    if ended.interrupted {
        return Exit::Interrupted;
    }
    if kept == 0 && manifest.cells.iter().all(|cell| cell.refused.is_some()) {
        return Exit::Cannot;
    }
    match outcome {
        Outcome::Unmet => Exit::Unmet,
        Outcome::Unknown => Exit::Invalid,
        Outcome::Good => Exit::Good,
    }
}

/// `runs/<UTC time>-<name>`; runs that begin in the same second get a number after it.
fn create_default(name: &str) -> Result<RunFolder> {
    let stem = format!("{}-{name}", jiff::Timestamp::now().strftime("%Y%m%dT%H%M%SZ"));
    let mut n = 1;
    loop {
        let name = if n == 1 { stem.clone() } else { format!("{stem}-{n}") };
        match RunFolder::create(Path::new("runs").join(name)) {
            Err(StoreError::NotEmpty { .. }) if n < 100 => n += 1,
            other => return Ok(other?),
        }
    }
}

fn manifest(experiment: &Experiment) -> Manifest {
    let entry = |cell: &tardy_spec::experiment::Cell| CellEntry {
        id: cell.id.clone(),
        axes: cell.axes.clone(),
        trials: experiment.trials,
        ..CellEntry::default()
    };
    Manifest {
        format: tardy_model::FORMAT,
        tardy: env!("CARGO_PKG_VERSION").to_owned(),
        name: experiment.name.clone(),
        started_utc: recorder::utc(),
        seed: experiment.seed,
        command: std::env::args().collect(),
        cells: experiment.cells.iter().map(entry).collect(),
        machine: tardy_host::facts::read(),
        programs: tardy_host::facts::programs(),
        ..Manifest::default()
    }
}

struct Finished<'a> {
    experiment: &'a Experiment,
    manifest: &'a Manifest,
    judged: &'a Judged,
    traces: &'a [Trace],
    folder: &'a RunFolder,
    began: Instant,
}

impl Finished<'_> {
    fn draw(&self, format: &str) -> Result<String> {
        let facts = tardy_judge::facts(self.experiment);
        let run_dir = self.folder.path().display().to_string();
        // A simulated run has none.
        let commands = self.folder.commands().ok();
        let picture = Picture {
            results: &self.judged.results,
            manifest: self.manifest,
            facts: &facts,
            bars: &|cell, stream, metric| self.judged.bars(cell, stream, metric),
            run_dir: Some(&run_dir),
            elapsed: Some(Nanos(self.began.elapsed().as_nanos() as i64)),
            experiment: Some(&self.experiment.effective),
            traces: self.traces,
            commands: commands.as_deref(),
        };
        Ok((tardy_report::format(format)?.make)(&picture, &super::report::look(std::io::stdout().is_terminal()))?)
    }

    /// Writes what belongs at the end; returns what could not be written.
    fn write(&self) -> Vec<String> {
        // The page last: on a disk that is nearly full the contract's files come first.
        let written = [
            self.folder.write_results(&self.judged.results).map_err(|error| error.to_string()),
            self.folder.write_manifest(self.manifest).map_err(|error| error.to_string()),
            self.draw("html")
                .map_err(|error| error.to_string())
                .and_then(|page| self.folder.write_report(page.as_bytes()).map_err(|error| error.to_string())),
        ];
        written.into_iter().filter_map(Result::err).collect()
    }

    fn show(&self, json: bool) -> Result<()> {
        super::print(&self.draw(if json { "json" } else { "text" })?)
    }
}
