// SPDX-License-Identifier: MIT OR Apache-2.0
//! What was sent, for the line above a run's figures.

use tardy_report::Facts;
use tardy_spec::experiment::Experiment;

/// What the line at the top says was sent.
pub fn facts(experiment: &Experiment) -> Facts {
    let mut facts = Facts { reference: experiment.reference.clone(), ..Facts::default() };
    for cell in &experiment.cells {
        let simulated = cell.setup.is_simulated();
        facts.paths.push(if simulated { "simulated" } else { cell.setup.path.traits().name }.to_owned());
        for stream in &cell.setup.streams {
            if !facts.streams.contains(&stream.name) {
                facts.streams.push(stream.name.clone());
            }
            facts.ports.push(stream.port.name().to_owned());
            facts.cycles.push(stream.cycle);
            facts.packets.push(u64::from(stream.count));
        }
    }
    facts
}
