// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tardy plan`: the cells and every command, as a pasteable script. Changes nothing, needs no rights.

use crate::args::Plan;
use crate::exit::Exit;
use crate::verbs::count;
use crate::verbs::guest;
use anyhow::Result;
use std::fmt::Write;
use tardy_lab::names::Names;
use tardy_lab::orders::{self, is_simulated};
use tardy_lab::path::{self, Found};
use tardy_lab::plan;
use tardy_lab::{coordinator, loads};
use tardy_spec::experiment::{Path, Setup};

/// Prints the script.
pub fn call(args: Plan) -> Result<Exit> {
    let experiment = super::load(&args.experiment)?;
    // A step that fails must not let the rest take down what another run has built under these names.
    let mut out = String::from("#!/bin/sh\nset -e\n");
    let (cells, trials) = (count(experiment.cells.len(), "cell"), count(experiment.trials as usize, "trial"));
    let _ = writeln!(out, "# {}: {cells}, {trials} of each", experiment.name);
    // The shell that this is printed for stands where the script is likely to run.
    let home = std::os::unix::process::parent_id();
    let guest = guest::known(&args.guest)?;
    let found = match &guest {
        Some(guest) => {
            guest::possible(guest, &args.experiment, &experiment)?;
            out += &guest::script(guest, &args.experiment, &experiment);
            out += "# tardy does there, and this machine must not:\n";
            Found { usable: (0..guest.cpus()).collect(), ..Found::default() }
        }
        None => coordinator::found(&experiment, home)?,
    };
    let mut said: Vec<(String, Vec<&str>)> = Vec::new();
    for cell in &experiment.cells {
        let script = if is_simulated(&cell.setup) {
            "# port sim: nothing is built, no command is run\n".to_owned()
        } else {
            // A CPU that is not there is told now, not by the run.
            let (chosen, _) = orders::place_on(&cell.setup, &found.usable).map_err(coordinator::RunError::from)?;
            loads::place(&cell.setup, &chosen, &found.usable).map_err(coordinator::RunError::from)?;
            match missing(&cell.setup, guest.is_some(), &found) {
                Some(says) => says,
                None => plan::plan(&cell.setup, Names::FIRST, &found).map_err(coordinator::RunError::from)?.script(),
            }
        };
        match said.iter_mut().find(|(known, _)| *known == script) {
            Some((_, cells)) => cells.push(&cell.id),
            None => said.push((script, vec![&cell.id])),
        }
    }
    for (script, cells) in said {
        let _ = writeln!(out, "\n# {}: {}", if cells.len() == 1 { "cell" } else { "cells" }, cells.join("  "));
        for cell in experiment.cells.iter().filter(|cell| cells.contains(&cell.id.as_str())) {
            let axes = cell.axes.iter().map(|(key, value)| format!("{key} = {value}")).collect::<Vec<_>>();
            if !axes.is_empty() {
                let _ = writeln!(out, "#   {}: {}", cell.id, axes.join(", "));
            }
            if !cell.setup.loads.is_empty() && missing(&cell.setup, guest.is_some(), &found).is_none() {
                let plan = plan::plan(&cell.setup, Names::FIRST, &found).map_err(coordinator::RunError::from)?;
                // A user's word may hold anything: what it breaks must stay a comment.
                for line in loads::told(&cell.setup, &plan) {
                    let _ = writeln!(out, "#     {}", line.replace(char::is_control, " "));
                }
            }
        }
        match guest {
            Some(_) => script.lines().for_each(|line| _ = writeln!(out, "{}", format!("# {line}").trim_end())),
            None => out += &script,
        }
    }
    super::print(&out)?;
    Ok(Exit::Good)
}

/// What is said in place of the commands where they cannot be known.
fn missing(setup: &Setup, in_guest: bool, found: &Found) -> Option<String> {
    match setup.path {
        Path::Igb { .. } if in_guest => {
            Some("the guest's own two devices go into the stations, as those of a wire do\n".to_owned())
        }
        _ if in_guest => None,
        _ => path::cannot(setup, found).map(|why| format!("# refused on this machine: {why}\n")),
    }
}
