// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tardy plan`: the cells and every command, as a pasteable script. Changes nothing, needs no rights.

use crate::args::Plan;
use crate::exit::Exit;
use anyhow::Result;
use tardy_lab::names::Names;
use tardy_lab::orders::is_simulated;
use tardy_lab::plan;

/// Prints the script.
pub fn call(args: Plan) -> Result<Exit> {
    let experiment = super::load(&args.experiment, Vec::new())?;
    println!("#!/bin/sh");
    println!("# {}: {} cells x {} trials", experiment.name, experiment.cells.len(), experiment.trials);
    let mut said: Vec<(String, Vec<&str>)> = Vec::new();
    for cell in &experiment.cells {
        let script = if is_simulated(&cell.setup) {
            "# port sim: nothing is built, no command is run\n".to_owned()
        } else {
            plan::plan(&cell.setup, Names::FIRST).map_err(tardy_lab::coordinator::RunError::from)?.script()
        };
        match said.iter_mut().find(|(known, _)| *known == script) {
            Some((_, cells)) => cells.push(&cell.id),
            None => said.push((script, vec![&cell.id])),
        }
    }
    for (script, cells) in said {
        println!("\n# cells: {}", cells.join("  "));
        for cell in experiment.cells.iter().filter(|cell| cells.contains(&cell.id.as_str())) {
            let axes = cell.axes.iter().map(|(key, value)| format!("{key} = {value}")).collect::<Vec<_>>();
            if !axes.is_empty() {
                println!("#   {}: {}", cell.id, axes.join(", "));
            }
        }
        print!("{script}");
    }
    Ok(Exit::Good)
}
