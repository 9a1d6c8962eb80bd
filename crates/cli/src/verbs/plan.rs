// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tardy plan`: the cells and every command, as a pasteable script. Changes nothing, needs no
//! rights.

use crate::args::Plan;
use crate::exit::Exit;
use crate::verbs::count;
use crate::verbs::guest;
use crate::verbs::object;
use anyhow::Result;
use std::collections::BTreeSet;
use std::path::Path;
use tardy_host::sizes;
use tardy_judge::foresight::unresolved;
use tardy_lab::consent::Need;
use tardy_lab::estimate::estimate;
use tardy_lab::guest::devices;
use tardy_lab::host::hosts::Hosts;
use tardy_lab::host::steward::Steward;
use tardy_lab::identity;
use tardy_lab::machine::FactsByHost;
use tardy_lab::names::Names;
use tardy_lab::placement;
use tardy_lab::plan;
use tardy_lab::plan::{Kinds, Script};
use tardy_lab::run::RunError;
use tardy_lab::{consent, coordinator, loads};
use tardy_model::path::Where;
use tardy_spec::experiment::{Experiment, Setup};

pub fn call(args: Plan) -> Result<Exit> {
    let here = args.guest.place.is_none();
    let mut experiment = object::load(&args.experiment, args.xdp_object.as_deref())
        .map_err(|error| if here { super::with_machine(error, &args.experiment) } else { error })?;
    let mut out = Script::new();
    let (cells, trials) = (count(experiment.cells.len(), "cell"), count(experiment.trials as usize, "trial"));
    out.comment(&format!("{}: {cells}, {trials} of each", experiment.name));
    out.comment(&estimate(&experiment, args.guest.place.is_some(), &sizes::read()));
    // The shell that this is printed for is where the script is likely to run.
    let home = std::os::unix::process::parent_id();
    let guest = guest::known(&args.guest, &experiment)?;
    let found = match &guest {
        Some(guest) => {
            guest::check(guest, &args.experiment, &experiment)?;
            for (extra, cells) in devices::not_built(&experiment, &guest.kernel) {
                let (name, kernel) = (extra.name, &guest.kernel.name);
                let help = match extra.is_of_use(&guest.kernel.release) {
                    true => format!("`tardy guest fetch {kernel} --with {name}` builds it"),
                    false => "it is of use on a newer kernel: take --kernel debian:6.12".to_owned(),
                };
                let named = match &cells[..] {
                    [first, second, more @ ..] if !more.is_empty() => {
                        format!("{first}, {second} and {} more", more.len())
                    }
                    few => few.join(" and "),
                };
                let (lack, all) = (cells.len(), count(experiment.cells.len(), "cell"));
                out.comment(&format!(
                    "warning: {lack} of {all} cannot run: {kernel} has no module {name} ({help}): {named}"
                ));
            }
            guest::script(guest, &args.experiment, &experiment, &mut out);
            out.comment("tardy does there, and this machine must not:");
            guest::facts(guest)
        }
        None => {
            for need in consent::needs(&experiment) {
                // Who names the object in the call has given the word by that.
                let is_given = args.xdp_object.is_some() && matches!(need, Need::Object { .. });
                let flag = if is_given { "--xdp-object" } else { need.flag() };
                out.comment(&format!("{}; `tardy run` does it with {flag}", need.says()));
            }
            let objects = object::read(&mut experiment, &args.experiment)?;
            objects.iter().flat_map(object::in_words).for_each(|line| out.comment(&line));
            let mut steward = Steward::new(&super::state(), Path::new(identity::SELF), home);
            let found = coordinator::look(&near_of(&experiment), &Kinds::default(), &mut Hosts::here(&mut steward))?;
            guest::stations(&experiment, found, &mut out)?
        }
    };
    let near = near_of(&experiment);
    let foreseen = super::foresee(&near, &found, guest.as_ref()).into_iter().chain(unresolved(&near));
    foreseen.for_each(|foreseen| out.comment(&foreseen.to_string()));
    let blamed = |error: RunError| super::blamed(error, &args.experiment, found.here().cpus());
    let mut said: Vec<(Script, Vec<&str>)> = Vec::new();
    for cell in &experiment.cells {
        let script = of_setup(&cell.setup, guest.is_some(), &found).map_err(blamed)?;
        match said.iter_mut().find(|(known, _)| *known == script) {
            Some((_, cells)) => cells.push(&cell.id),
            None => said.push((script, vec![&cell.id])),
        }
    }
    for (script, cells) in said {
        out.space();
        out.comment(&format!("{}: {}", if cells.len() == 1 { "cell" } else { "cells" }, cells.join("  ")));
        for cell in experiment.cells.iter().filter(|cell| cells.contains(&cell.id.as_str())) {
            let axes = cell.axes.iter().map(|(key, value)| format!("{key} = {value}")).collect::<Vec<_>>();
            if !axes.is_empty() {
                out.comment(&format!("  {}: {}", cell.id, axes.join(", ")));
            }
            if let Some(says) = plan::awake(&experiment, &cell.setup) {
                out.comment(&format!("    {}: {says}", cell.id));
            }
            for line in of_streams(&cell.setup, guest.is_some(), &found)? {
                out.comment(&format!("    {line}"));
            }
            for line in of_loads(&cell.setup, guest.is_some(), &found)? {
                out.comment(&format!("    {line}"));
            }
        }
        match guest {
            Some(_) => out.quote(&script),
            None => script.text().lines().for_each(|line| out.line(line)),
        }
    }
    super::print(out.text())?;
    Ok(Exit::Good)
}

/// What is done for cells of one set-up.
fn of_setup(setup: &Setup, in_guest: bool, found: &FactsByHost) -> Result<Script, RunError> {
    let mut script = Script::default();
    if let Some(copy) = &setup.copy {
        script.comment(&format!("a copy by {}: nothing is built, no command is run", copy.backend.name()));
        return Ok(script);
    }
    if setup.builds_nothing() {
        script.comment("port sim: nothing is built, no command is run");
        return Ok(script);
    }
    if let Some(says) = elsewhere(setup) {
        script.comment(&says);
        return Ok(script);
    }
    // A missing CPU is reported now, not by the run.
    let (chosen, _) = placement::place(setup, found)?;
    loads::place(setup, &chosen, found)?;
    match missing(setup, in_guest, found)? {
        Some(says) => script.comment(&says),
        None => plan::plan(setup, Names::FIRST, found)?.write_to(&mut script),
    }
    Ok(script)
}

/// The threads of a cell's streams, a line each, where their CPUs can be known.
fn of_streams(setup: &Setup, in_guest: bool, found: &FactsByHost) -> Result<Vec<String>, RunError> {
    if setup.builds_nothing() || elsewhere(setup).is_some() || missing(setup, in_guest, found)?.is_some() {
        return Ok(Vec::new());
    }
    Ok(placement::in_words(setup, found)?)
}

/// The loads of a cell, a line each, where their commands can be known.
fn of_loads(setup: &Setup, in_guest: bool, found: &FactsByHost) -> Result<Vec<String>, RunError> {
    if setup.loads.is_empty() || elsewhere(setup).is_some() || missing(setup, in_guest, found)?.is_some() {
        return Ok(Vec::new());
    }
    Ok(loads::in_words(setup, &plan::plan(setup, Names::FIRST, found)?)?)
}

/// The experiment without the cells of which nothing is known here.
pub(super) fn near_of(experiment: &Experiment) -> Experiment {
    let mut near = experiment.clone();
    near.cells.retain(|cell| elsewhere(&cell.setup).is_none());
    near
}

/// What is printed of a set-up with stations on machines that nobody has logged in to.
fn elsewhere(setup: &Setup) -> Option<String> {
    let hosts: BTreeSet<&str> =
        setup.stations.values().filter_map(|of| Some(of.remote.as_ref()?.ssh.as_str())).collect();
    let hosts = hosts.into_iter().collect::<Vec<_>>().join("` and `");
    (!hosts.is_empty()).then(|| {
        format!("what is done follows from what there is on `{hosts}`, where only `tardy run` logs in; `commands.sh` in its folder has all of it")
    })
}

/// What is printed instead of the commands where they cannot be known.
fn missing(setup: &Setup, in_guest: bool, found: &FactsByHost) -> Result<Option<String>, RunError> {
    if setup.path.passed().is_some_and(|(_, passed)| passed.is_guests) {
        return Ok(Some(match in_guest {
            true => "of the guest's own ports one goes into the station, and one to the virtual machine".to_owned(),
            false => {
                "refused on this machine: name its devices by path.a and path.b, or use --in guest:exact".to_owned()
            }
        }));
    }
    Ok(match setup.path.traits().place {
        Where::OnlyInGuest if in_guest => {
            Some("the guest's own two devices go into the stations, as those of a wire do".to_owned())
        }
        _ if in_guest => None,
        _ => Kinds::default().refusal(setup, found)?.map(|why| format!("refused on this machine: {why}")),
    })
}
