// SPDX-License-Identifier: MIT OR Apache-2.0
//! What can be told of a run before it begins: what can never be valid or told, and how long it
//! takes. Pure: what of the machine it rests on is an argument.

mod cycle;
mod estimate;
mod foreseen;
mod percentile;
mod spin;
mod trials;

pub use estimate::estimate;
pub use foreseen::{Foreseen, Machine};

use std::collections::BTreeSet;
use tardy_model::verdict::Level;
use tardy_spec::experiment::{Cell, Experiment};

/// Looks at one cell.
type OfACell = fn(&Experiment, &Cell, &Machine) -> Vec<Foreseen>;

/// What is looked at in each cell, one file each.
const OF_A_CELL: &[OfACell] = &[spin::of, cycle::of, percentile::of];

/// Different warnings that are listed. Beyond, nobody would read them.
const MOST: usize = 50;

/// Everything that is foreseen, each thing once: warnings in the order of the cells, then notes.
pub fn foresee(experiment: &Experiment, machine: &Machine) -> Vec<Foreseen> {
    let mut all: Vec<(Foreseen, BTreeSet<usize>)> = Vec::new();
    let mut more = 0;
    for (n, cell) in experiment.cells.iter().enumerate() {
        for found in OF_A_CELL.iter().flat_map(|of| of(experiment, cell, machine)) {
            match all.iter().position(|(known, _)| *known == found) {
                Some(at) => drop(all[at].1.insert(n)),
                None if all.len() >= MOST => more += 1,
                None => all.push((found, BTreeSet::from([n]))),
            }
        }
    }
    let cells = &experiment.cells;
    let named = all.into_iter().map(|(found, of)| match of.len() == cells.len() {
        true => found,
        false => Foreseen { cells: of.iter().map(|n| cells[*n].id.clone()).collect(), ..found },
    });
    let mut foreseen: Vec<Foreseen> = named.chain(trials::of(experiment)).collect();
    foreseen.sort_by_key(|found| std::cmp::Reverse(found.level));
    if more > 0 {
        let why = format!("{more} more warnings, of other cells, are not listed");
        foreseen.push(Foreseen::new(Level::Note, "matrix".to_owned(), why, "plan fewer cells at a time".to_owned()));
    }
    foreseen
}
