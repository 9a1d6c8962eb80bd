// SPDX-License-Identifier: MIT OR Apache-2.0
//! The verbs, and what several of them share. Each has a file; small ones of one subject share one.

pub mod agent;
pub mod clocks;
pub mod compare;
pub mod copy;
pub mod doctor;
pub mod export;
pub mod fix;
pub mod guest;
pub mod hints;
pub mod man;
pub mod object;
pub mod plan;
pub mod report;
pub mod run;
pub mod undo;

use crate::args::Experiment;
use crate::exit::{Exit, Failure};
use anyhow::Result;
use std::io::Write;
use std::path::{Path, PathBuf};
use tardy_host::cpus::{self, Cpus};
use tardy_judge::foresight::{self, Foreseen, Machine};
use tardy_lab::guest::Guest;
use tardy_lab::loads::LoadError;
use tardy_lab::machine::FactsByHost;
use tardy_lab::placement::PlaceError;
use tardy_lab::plan::PlanError;
use tardy_lab::run::RunError;
use tardy_model::manifest::GuestMode;
use tardy_spec::SpecError;
use tardy_store::StoreError;
use tardy_sys::{clock, thread};

/// Prints to stdout. A reader that has seen enough (`| head`) is no error.
fn print(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}

/// Writes what is to go to the place named by `-o`.
fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    Ok(tardy_store::write_output(path, bytes).map_err(unwritten)?)
}

/// Why nothing was written there. A place where nothing is to be written is a fault of the call.
fn unwritten(error: StoreError) -> Failure {
    match error {
        StoreError::Io { path, reason, .. } if reason.kind() == std::io::ErrorKind::NotFound => {
            let folder = path.parent().unwrap_or(Path::new("/")).display();
            let says = format!(
                "cannot write {}: there is no folder {folder}: make it, or choose another place with -o",
                path.display()
            );
            Failure::new(Exit::Cannot, says)
        }
        StoreError::Io { .. } => Failure::new(Exit::Cannot, format!("{error}; or choose another place with -o")),
        error => Failure::new(Exit::Usage, error.to_string()),
    }
}

/// `1 trial`, `2 trials`.
pub fn count(n: usize, of: &str) -> String {
    format!("{n} {of}{}", if n == 1 { "" } else { "s" })
}

/// Folder of slots and journals.
fn state() -> PathBuf {
    std::env::var_os("TARDY_STATE").map_or_else(|| tardy_lab::names::STATE.into(), PathBuf::from)
}

/// What is foreseen of a run on these machines, where the coordinator's own represents all of them.
/// The timers of a guest are not known before it boots.
fn foresee(
    experiment: &tardy_spec::experiment::Experiment,
    found: &FactsByHost,
    guest: Option<&Guest>,
) -> Vec<Foreseen> {
    let here = found.here();
    // The agents inherit the slack of this process.
    let slack = thread::timer_slack_ns().ok().and_then(|ns| i64::try_from(ns).ok());
    let machine = Machine {
        rt_limit: here.rt_limit,
        release: here.release.clone(),
        timer_slack_ns: slack.filter(|_| guest.is_none()),
        timer_resolution_ns: clock::timer_resolution_ns().filter(|_| guest.is_none()),
        interrupting: found
            .iter()
            .flat_map(|(_, host)| &host.nics)
            .filter(|(_, nic)| nic.defers_interrupts == Some(false))
            .map(|(device, _)| device.clone())
            .collect(),
        is_exact: guest.is_some_and(|guest| guest.mode == GuestMode::Exact),
    };
    foresight::foresee(experiment, &machine)
}

/// What a machine cannot do: every CPU that it does not have, with the place that asks for it, and
/// anything else with the `--set` that asks, if one does.
fn blamed(error: RunError, args: &Experiment, cpus: Cpus<'_>) -> anyhow::Error {
    let lacks_cpu = matches!(
        &error,
        RunError::Place(PlaceError::Cpu { .. } | PlaceError::Softirq { .. })
            | RunError::Plan(PlanError::Place(PlaceError::Cpu { .. } | PlaceError::Softirq { .. }))
            | RunError::Load(LoadError::Cpu { .. })
    );
    if let Some(absent) = absent_cpus(args, cpus).filter(|_| lacks_cpu) {
        return absent.into();
    }
    let says = error.to_string();
    let asks =
        |set: &&String| set.split_once('=').is_some_and(|(key, _)| says.starts_with(&format!("`{}`", key.trim())));
    match args.set.iter().rev().find(asks) {
        Some(set) => anyhow::Error::new(error).context(format!("--set {set}")),
        None => error.into(),
    }
}

/// What is wrong with an experiment that is to be run on this machine, with the CPUs that it does
/// not have: who fixes the one should not meet the other only then.
fn with_machine(error: anyhow::Error, args: &Experiment) -> anyhow::Error {
    match error.downcast::<SpecError>() {
        Ok(wrong) => {
            let (usable, apart) = (cpus::usable(), cpus::apart());
            wrong.and(absent_cpus(args, Cpus { usable: &usable, apart: &apart })).into()
        }
        Err(other) => other,
    }
}

fn absent_cpus(args: &Experiment, cpus: Cpus<'_>) -> Option<SpecError> {
    tardy_spec::absent_cpus(&tardy_spec::resolve(&args.experiment).ok()?, &overrides(args, &[]), &cpus.all())
}

/// The checked experiment that was asked for, with `sets` laid over it after the caller's own.
fn load(args: &Experiment, sets: &[String]) -> Result<tardy_spec::experiment::Experiment> {
    let source = tardy_spec::resolve(&args.experiment)?;
    Ok(tardy_spec::load(&source, &overrides(args, sets))?)
}

fn overrides(args: &Experiment, sets: &[String]) -> Vec<String> {
    let trials = args.trials.map(|trials| format!("trials={trials}"));
    args.set.iter().cloned().chain(trials).chain(sets.iter().cloned()).collect()
}
