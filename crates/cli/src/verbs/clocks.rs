// SPDX-License-Identifier: MIT OR Apache-2.0
//! The machines of an experiment that are reached over ssh, and `tardy clocks`: how far their
//! clocks are from this machine's, again and again, until a signal comes.

use crate::args::Clocks;
use crate::exit::{self, Exit, Failure, printable};
use crate::verbs::object;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;
use tardy_host::timekeeper::{self, Apart, Kept};
use tardy_lab::consent::{self, Allowed};
use tardy_lab::host::Host;
use tardy_lab::host::ask::Observe;
use tardy_lab::host::clocks::{Exchange, Track, best};
use tardy_lab::host::distant::Distant;
use tardy_lab::host::ssh::Ssh;
use tardy_lab::identity;
use tardy_model::machine::HostId;
use tardy_model::station::StationKind;
use tardy_model::time::OffsetReading;
use tardy_report::figure;
use tardy_spec::experiment::{Experiment, Remote};
use tardy_sys::clock;

/// Questions for the time that make a reading.
const TIMES: usize = 64;
const EACH: Duration = Duration::from_secs(1);
/// Where the path is another one than ssh's, its own exchange may show what these rows cannot.
const UNCHECKED: &str = "nothing checks these rows over the measured path, which is not built: a run does that, \
just before and just after each trial\n";
/// A row's words for a clock that did not only drift.
const SET: &str = "a clock was set";

pub fn call(args: &Clocks) -> Result<Exit> {
    let experiment = object::load(&args.experiment, None)?;
    // Nothing is built: only the logins count.
    let allowed = Allowed { commands: true, objects: true, nics: true, hosts: args.allow_hosts };
    consent::check(&experiment, allowed).map_err(|error| Failure::new(Exit::Usage, error.to_string()))?;
    exit::end_with("stopped; nothing was changed on any machine").context("signal handlers")?;
    let mut reached = reach(&experiment)?;
    if reached.is_empty() {
        let mut stations = experiment.cells.iter().flat_map(|cell| cell.setup.stations.values());
        super::print(match stations.any(|station| station.kind == StationKind::Guest) {
            true => {
                "no station is reached over ssh: a run compares the clocks of its virtual machines with this machine's \
                 itself, before and after each trial\n"
            }
            false => "every station is on this machine, and they all have its clocks: there is nothing to compare\n",
        })?;
        return Ok(Exit::Good);
    }
    let width = reached.iter().map(|of| of.name.chars().count()).max().unwrap_or(0).max("machine".len());
    super::print(&format!("{:width$}  {:>14}  {:>10}  {:>24}  by\n", "machine", "ahead of this", "±", "drift"))?;
    super::print(UNCHECKED)?;
    for line in without_row(&experiment) {
        super::print(&format!("{}\n", printable(&line)))?;
    }
    let mut tracks: Vec<Track> = reached.iter().map(|_| Track::default()).collect();
    let mut n = 0;
    loop {
        for (of, track) in reached.iter_mut().zip(&mut tracks) {
            let reading = ask(of)?;
            match reading {
                Some(reading) => track.add(reading),
                None => track.begin_anew(),
            }
            super::print(&line(of, reading, track, width))?;
            let Some(reading) = reading else { continue };
            let what = Observe { keepers: true, ..Observe::nothing() };
            let there = of.distant.observe(&what).map_err(|away| Failure::new(Exit::Cannot, away.to_string()))?;
            let ours = timekeeper::all();
            let both = there.kept.iter().take(timekeeper::MOST_KEPT).filter_map(|theirs| Kept::apart(theirs, &ours));
            for Apart { method, ahead_ns, bound_ns, .. } in both {
                let apart = ahead_ns.saturating_sub(reading.ahead_ns).saturating_abs();
                let agree = match apart <= bound_ns.saturating_add(reading.bound_ns) {
                    true => "",
                    false => "; the exchanges exclude that",
                };
                let (ahead, bound) = (figure::exact(ahead_ns), figure::exact(bound_ns));
                let name = printable(&of.name);
                let by = printable(&method);
                super::print(&format!("{name:width$}  {ahead:>14}  {bound:>10}  {:>24}  {by}{agree}\n", "–"))?;
            }
        }
        n += 1;
        if args.count.is_some_and(|count| n >= count) {
            return Ok(Exit::Good);
        }
        std::thread::sleep(EACH);
    }
}

/// A line for each station whose clock no row is of: which clock it has, and what compares that.
fn without_row(experiment: &Experiment) -> Vec<String> {
    let stations = experiment.cells.iter().flat_map(|cell| &cell.setup.stations);
    let without = stations.filter(|(_, station)| station.remote.is_none());
    let lines: BTreeMap<&String, &str> = without
        .map(|(name, station)| {
            let says = match station.host == HostId::HERE {
                true => "has this machine's clock, with which the rows compare the others",
                false => {
                    "is on a virtual machine of the run's: `tardy run` compares its clock, and shows the bound (±)"
                }
            };
            (name, says)
        })
        .collect();
    lines.into_iter().map(|(name, says)| format!("station {name} {says}")).collect()
}

/// Asks a machine for its time. `None` if a clock was set meanwhile.
fn ask(of: &mut Reached) -> Result<Option<OffsetReading>> {
    let mut exchanges = Vec::with_capacity(TIMES);
    for _ in 0..TIMES {
        let asked_ns = clock::now::<tardy_model::time::Tai>().ns();
        let theirs = of.distant.now().map_err(|away| Failure::new(Exit::Cannot, away.to_string()))?;
        let answered_ns = clock::now::<tardy_model::time::Tai>().ns();
        exchanges.push(Exchange {
            asked_ns,
            reached_ns: theirs.ns(),
            returned_ns: theirs.ns(),
            answered_ns,
            counters: None,
        });
    }
    Ok(best(&exchanges))
}

/// What is known of a machine's clock by now.
fn line(of: &Reached, reading: Option<OffsetReading>, track: &Track, width: usize) -> String {
    let name = printable(&of.name);
    let Some(reading) = reading else {
        return format!(
            "{name:width$}  {:>14}  {:>10}  {:>24}  exchanges over ssh, which exclude each other\n",
            "–", "–", SET
        );
    };
    let (ahead, bound) = (figure::exact(reading.ahead_ns), figure::exact(reading.bound_ns));
    let drift = match track.drift() {
        _ if track.was_set() => SET.to_owned(),
        Some(drift) => format!("{:+.3} ± {:.3} ppm", drift.ppm, drift.bound_ppm),
        None => "–".to_owned(),
    };
    let by = match (of.is_here, reading.ahead_ns.abs() <= reading.bound_ns) {
        (true, true) => "this very machine: one clock, and the exchange agrees".to_owned(),
        (true, false) => "this very machine, and the exchange does not agree: a clock was set meanwhile".to_owned(),
        (false, _) => format!("{TIMES} exchanges over ssh"),
    };
    format!("{name:width$}  {ahead:>14}  {bound:>10}  {drift:>24}  {by}\n")
}

/// A machine of the run that is reached over ssh.
pub(super) struct Reached {
    pub(super) host: HostId,
    pub(super) name: String,
    pub(super) distant: Distant<Ssh>,
    /// It is this very machine.
    pub(super) is_here: bool,
}

/// Logs in to the machines that stations are on, where their stewards then wait for orders.
pub(super) fn reach(experiment: &Experiment) -> Result<Vec<Reached>> {
    let cannot = |why: String| Failure::new(Exit::Cannot, why);
    let mut boots: BTreeMap<String, String> = BTreeMap::new();
    let one = |(host, remote): (HostId, Remote)| {
        let ssh = Ssh::reach(&remote, Path::new(identity::SELF)).map_err(|error| cannot(error.to_string()))?;
        let (name, is_here) = (remote.ssh, ssh.is_here());
        if is_here {
            eprintln!(
                "tardy: warning: `{name}` is this very machine: its stations and those here have one clock, and share the CPUs; \
                 write which CPU each thread is to have"
            );
        }
        if let Some(other) =
            boots.insert(ssh.boot().to_owned(), name.clone()).filter(|_| !ssh.boot().is_empty() && !is_here)
        {
            eprintln!(
                "tardy: warning: `{other}` and `{name}` are one machine: their stations share its CPUs and its clock; write which CPU \
                 each thread is to have"
            );
        }
        let build = ssh.build().to_owned();
        let distant = Distant::meet(ssh, &name, &build).map_err(|error| cannot(error.to_string()))?;
        Ok(Reached { host, name, distant, is_here })
    };
    experiment.remotes().into_iter().map(one).collect()
}
