// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an experiment lets a guest say: of its own cells, trials, streams and loads only, each trial once, and not so often that
//! the host does nothing but write down what it hears. Pure.

use super::relay::Said;
use std::collections::{BTreeMap, BTreeSet};
use tardy_model::manifest::ReadBack;
use tardy_model::sample::Batch;
use tardy_model::trial::TrialRecord;
use tardy_spec::experiment::Experiment;

/// So many bytes the kernel's answers about one path may have: a `tc` or `ip` prints a few thousand.
const ANSWERS: usize = 1 << 20;
/// So often a guest may say something, beside its trials, that changes `manifest.json`, which is written anew each time; and so
/// often beside for each cell.
const SAYINGS: u64 = 64;

/// What may still come.
#[derive(Debug)]
pub struct Expected {
    trials: u32,
    cells: BTreeMap<String, Names>,
    had: BTreeSet<(String, u32)>,
    sayings: u64,
}

/// What a cell has names for.
#[derive(Debug)]
struct Names {
    streams: BTreeSet<String>,
    loads: BTreeSet<String>,
}

impl Expected {
    /// All that an experiment can bring.
    pub fn of(experiment: &Experiment) -> Self {
        let names = |cell: &tardy_spec::experiment::Cell| Names {
            streams: cell.setup.streams.iter().map(|stream| stream.name.clone()).collect(),
            loads: cell.setup.loads.iter().map(|load| load.name.clone()).collect(),
        };
        let cells: BTreeMap<_, _> = experiment.cells.iter().map(|cell| (cell.id.clone(), names(cell))).collect();
        let sayings = SAYINGS * (1 + cells.len() as u64);
        Expected { trials: experiment.trials, cells, had: BTreeSet::new(), sayings }
    }

    /// May it say so?
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn said(&mut self, said: &Said) -> Result<(), String> {
        match said {
            Said::Trial { cell, n, .. } => return self.turn(cell, *n),
            Said::Refused { cell, .. } | Said::Short { cell, .. } => {
                self.cell(cell)?;
            }
            Said::Built { read_back, .. } => return answers(read_back),
            Said::Commands { .. } | Said::Progress { .. } | Said::TornDown => return Ok(()),
            Said::Machine { .. } | Said::Ruler { .. } | Said::End(_) => {}
        }
        self.sayings = self.sayings.checked_sub(1).ok_or("it says the same kind of thing again and again")?;
        Ok(())
    }

    /// May such a trial come?
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn trial(&mut self, record: &TrialRecord, streams: &[(String, Batch)]) -> Result<(), String> {
        self.turn(&record.cell, record.n)?;
        let names = self.cell(&record.cell)?;
        let strange = record.streams.keys().chain(streams.iter().map(|(name, _)| name));
        if let Some(name) = strange.clone().find(|name| !names.streams.contains(*name)) {
            return Err(format!("cell `{}` has no stream `{name}`", record.cell));
        }
        if let Some(name) = record.loads.keys().find(|name| !names.loads.contains(*name)) {
            return Err(format!("cell `{}` has no load `{name}`", record.cell));
        }
        match self.had.insert((record.cell.clone(), record.n)) {
            true => Ok(()),
            false => Err(format!("trial {} of cell `{}` came twice", record.n, record.cell)),
        }
    }

    fn cell(&self, id: &str) -> Result<&Names, String> {
        self.cells.get(id).ok_or_else(|| format!("the experiment has no cell `{id}`"))
    }

    fn turn(&self, cell: &str, n: u32) -> Result<(), String> {
        self.cell(cell)?;
        match (1..=self.trials).contains(&n) {
            true => Ok(()),
            false => Err(format!("cell `{cell}` has {} trials and no trial {n}", self.trials)),
        }
    }
}

fn answers(read_back: &[ReadBack]) -> Result<(), String> {
    let bytes: usize = read_back.iter().map(|read| read.command.len() + read.says.text().len()).sum();
    match bytes > ANSWERS {
        true => Err(format!("what its kernel answered about a path has {bytes} bytes, and {ANSWERS} are the most")),
        false => Ok(()),
    }
}
