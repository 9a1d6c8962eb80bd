// SPDX-License-Identifier: MIT OR Apache-2.0
//! What can be told of a run before it begins: what can never be valid or told, and how long it takes. Pure: what of the machine it
//! rests on is an argument.

mod cycle;
mod estimate;
mod percentile;
mod spin;
mod trials;

pub use estimate::estimate;

use std::collections::BTreeSet;
use std::fmt;
use tardy_model::machine::RtLimit;
use tardy_model::verdict::Level;
use tardy_spec::experiment::{Cell, Experiment};

/// What of the machine it rests on; what is not known is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// How long realtime threads may run; `None` also where there is no limit.
    pub rt_limit: Option<RtLimit>,
    /// The kernel's release.
    pub release: Option<String>,
}

/// One thing that is foreseen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Foreseen {
    /// A warning, or a note.
    pub level: Level,
    /// The key that makes it so.
    pub key: String,
    /// Why.
    pub why: String,
    /// What to do.
    pub help: String,
    /// The cells that it is of, where it is not of all.
    pub cells: Vec<String>,
}

impl Foreseen {
    fn new(level: Level, key: String, why: String, help: String) -> Foreseen {
        Foreseen { level, key, why, help, cells: Vec::new() }
    }
}

impl fmt::Display for Foreseen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Foreseen { level, key, why, help, cells } = self;
        write!(f, "{}: `{key}`: {why}", level.name())?;
        match cells.as_slice() {
            [] => {}
            [one] => write!(f, ", in cell {one}")?,
            [first, others @ ..] => write!(f, ", in cell {first} and {} more", others.len())?,
        }
        write!(f, " ({help})")
    }
}

/// Looks at one cell.
type OfACell = fn(&Experiment, &Cell, &Machine) -> Vec<Foreseen>;

/// What is looked at in each cell, one file each.
const OF_A_CELL: &[OfACell] = &[spin::of, cycle::of, percentile::of];

/// Everything that is foreseen, each thing once: warnings in the order of the cells, then notes.
pub fn foresee(experiment: &Experiment, machine: &Machine) -> Vec<Foreseen> {
    let mut all: Vec<(Foreseen, BTreeSet<usize>)> = Vec::new();
    for (n, cell) in experiment.cells.iter().enumerate() {
        for found in OF_A_CELL.iter().flat_map(|of| of(experiment, cell, machine)) {
            match all.iter_mut().find(|(known, _)| *known == found) {
                Some((_, cells)) => drop(cells.insert(n)),
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
    foreseen
}

/// A count with its thousands apart, as an experiment file may have it.
fn number(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push('_');
        }
        out.push(digit);
    }
    out
}
