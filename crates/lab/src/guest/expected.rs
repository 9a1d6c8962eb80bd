// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an experiment lets a guest say: of its own cells, trials, streams and loads only, each
//! trial once, and not so often, nor so much, that the host does nothing but write down what it
//! hears. Pure.

use crate::run::What;
use std::collections::{BTreeMap, BTreeSet};
use tardy_model::copy::{COPY, Copying};
use tardy_model::load::LoadKind;
use tardy_model::manifest::ReadBack;
use tardy_model::sample::Batch;
use tardy_model::trial::{StreamRecord, TrialRecord};
use tardy_spec::experiment::{Cell, Experiment};

/// The most bytes that the kernel's answers about one path may have, where a `tc` or `ip` prints a
/// few thousand; and the most bytes of all answers together.
const ANSWERS: usize = 1 << 20;
const ALL_ANSWERS: usize = 16 << 20;
/// The most answers about one path.
const MOST_ANSWERS: usize = 4_096;
/// How often a guest may say something, apart from its trials, that changes `manifest.json`, which
/// the host writes anew each time; and how often in addition for each cell, and for each stream and
/// load of the cell.
const SAYINGS: u64 = 64;
const SAYINGS_OF_ONE: u64 = 4;
/// Entries of tardy's own work that a thread has room for.
const NOTES: usize = 1 << 14;
/// Packets in addition to a stream's own, whose stamps are fetched too.
const BESIDE: usize = 1 << 11;
/// Ends of a stream that have a thread.
const ENDS: usize = 3;

/// What may still come.
#[derive(Debug)]
pub struct Expected {
    trials: u32,
    cells: BTreeMap<String, Names>,
    /// Names of the virtual machines that the guest runs itself, until it has reported them.
    machines: BTreeSet<String>,
    had: BTreeSet<(String, u32)>,
    begun: BTreeSet<(String, u32)>,
    /// Programs that loads of one trial start, at most.
    programs: usize,
    output_waits: bool,
    sayings: u64,
    built: u64,
    answers: usize,
}

/// What a cell has names for.
#[derive(Debug)]
struct Names {
    /// With the packets of each.
    streams: BTreeMap<String, u32>,
    loads: BTreeSet<String>,
    copy: Option<Copying>,
}

/// Why this is no record of what a cell's stream copied, if it is none.
fn strange_copy(copy: Option<&Copying>, name: &str, of: &StreamRecord) -> Option<String> {
    let asked = copy.filter(|_| name == COPY);
    let parts = |copy: &Copying| (copy.all_threads(), copy.rounds(), copy.buffers, copy.bytes, copy.backend);
    match (&of.copy, asked) {
        (None, None) => None,
        (None, Some(_)) => Some(format!("`{name}` lacks the figures of its threads")),
        (Some(_), None) => Some(format!("stream `{name}` is no copy, and has figures of one")),
        (Some(of), Some(asked)) if parts(&of.asked) != parts(asked) => {
            Some(format!("`{name}` is of other threads, passes or buffers than the experiment asks for"))
        }
        (Some(of), Some(_)) => of.fault(),
    }
}

/// What has rows in a cell, and how many at most: its streams, or its copy.
fn rows(cell: &Cell) -> impl Iterator<Item = (String, u32)> {
    let streams = cell.setup.streams.iter().map(|stream| (stream.name.clone(), stream.count));
    let passes = |copy: &Copying| u32::try_from(copy.all_iterations()).unwrap_or(u32::MAX);
    streams.chain(cell.setup.copy.iter().map(move |copy| (COPY.to_owned(), passes(copy))))
}

impl Expected {
    /// All that an experiment can bring.
    pub fn of(experiment: &Experiment) -> Self {
        let names = |cell: &Cell| Names {
            streams: rows(cell).collect(),
            loads: cell.setup.loads.iter().map(|load| load.name.clone()).collect(),
            copy: cell.setup.copy.clone(),
        };
        let programs = |cell: &Cell| -> usize {
            let of = cell.setup.loads.iter().filter(|load| matches!(load.kind, LoadKind::Command { .. }));
            of.map(|load| 2 * load.count as usize).sum()
        };
        let cells: BTreeMap<_, _> = experiment.cells.iter().map(|cell| (cell.id.clone(), names(cell))).collect();
        let of_cells = cells.values().map(|of| SAYINGS + SAYINGS_OF_ONE * (of.streams.len() + of.loads.len()) as u64);
        Expected {
            trials: experiment.trials,
            had: BTreeSet::new(),
            begun: BTreeSet::new(),
            programs: experiment.cells.iter().map(programs).max().unwrap_or(0),
            output_waits: false,
            sayings: of_cells.fold(SAYINGS, u64::saturating_add),
            // Before each trial at most, and once more for each cell.
            built: (u64::from(experiment.trials) + 1).saturating_mul(cells.len() as u64),
            answers: ALL_ANSWERS,
            cells,
            machines: experiment.machines().into_values().map(|(name, _)| name).collect(),
        }
    }

    /// May it say that this happened?
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn event(&mut self, what: &What) -> Result<(), String> {
        let again = || "it says the same kind of thing again and again".to_owned();
        match what {
            What::Trial { cell, n, .. } => {
                self.turn(cell, *n)?;
                return if self.begun.insert((cell.clone(), *n)) { Ok(()) } else { Err(again()) };
            }
            What::Refused { cell, .. } | What::Short { cell, .. } | What::Found { cell, .. } => {
                self.cell(cell)?;
            }
            What::Unstamped { cell, stream, .. } => {
                if !self.cell(cell)?.streams.contains_key(stream) {
                    return Err(format!("cell `{cell}` has no stream `{stream}`"));
                }
            }
            What::Built { read_back, .. } => {
                self.built = self.built.checked_sub(1).ok_or_else(again)?;
                return self.answers(read_back);
            }
            What::Commands { .. } | What::Progress { .. } | What::TornDown => return Ok(()),
            What::GuestUp { .. } | What::Ruler { .. } | What::Ended { .. } => {}
            What::Hosts { hosts } => {
                if let Some(name) = hosts.keys().find(|name| !self.machines.remove(*name)) {
                    return Err(format!(
                        "it reports a host `{name}`, and runs no machine of that name, or has reported it before"
                    ));
                }
            }
            What::Guest { .. } | What::GuestBooted { .. } | What::TrialKept { .. } | What::TrialBroken { .. } => {
                return Err("it says what only its host can know".to_owned());
            }
        }
        self.sayings = self.sayings.checked_sub(1).ok_or_else(again)?;
        Ok(())
    }

    /// How many programs' output may come now: once before each trial.
    ///
    /// # Errors
    /// If it came already.
    pub fn output(&mut self) -> Result<usize, String> {
        match std::mem::replace(&mut self.output_waits, true) {
            false => Ok(self.programs),
            true => Err("the output of a trial's programs came twice".to_owned()),
        }
    }

    /// May such a trial come?
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn trial(&mut self, record: &TrialRecord, streams: &[(String, Batch)]) -> Result<(), String> {
        self.output_waits = false;
        self.turn(&record.cell, record.n)?;
        let names = self.cell(&record.cell)?;
        let strange = record.streams.keys().chain(streams.iter().map(|(name, _)| name));
        if let Some(name) = strange.clone().find(|name| !names.streams.contains_key(*name)) {
            return Err(format!("cell `{}` has no stream `{name}`", record.cell));
        }
        if let Some(name) = record.loads.keys().find(|name| !names.loads.contains(*name)) {
            return Err(format!("cell `{}` has no load `{name}`", record.cell));
        }
        let talks = |(name, of): &(&String, &StreamRecord)| {
            let packets = names.streams.get(*name).map_or(0, |count| *count as usize);
            let between: usize = of.own_between.iter().map(|of| of.spans.len().max(1)).sum();
            of.own_work.len() > ENDS * NOTES || between > ENDS * packets.saturating_add(BESIDE)
        };
        if let Some((name, _)) = record.streams.iter().find(talks) {
            return Err(format!("stream `{name}` has more notes of tardy's own work than packets"));
        }
        if let Some(why) = record.streams.iter().find_map(|(name, of)| strange_copy(names.copy.as_ref(), name, of)) {
            return Err(why);
        }
        match self.had.insert((record.cell.clone(), record.n)) {
            true => Ok(()),
            false => Err(format!("trial {} of cell `{}` came twice", record.n, record.cell)),
        }
    }

    /// The packets of each of a cell's streams.
    ///
    /// # Errors
    /// If the experiment has no such cell.
    pub fn packets(&self, cell: &str) -> Result<&BTreeMap<String, u32>, String> {
        self.cell(cell).map(|names| &names.streams)
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

    fn answers(&mut self, read_back: &[ReadBack]) -> Result<(), String> {
        let about = |read: &ReadBack| read.qdiscs_of.as_ref().map_or(0, |of| of.station.len() + of.device.len());
        let length = |read: &ReadBack| read.command.len() + read.says.text().len() + about(read);
        let bytes: usize = read_back.iter().map(length).sum();
        if bytes > ANSWERS || read_back.len() > MOST_ANSWERS {
            let n = read_back.len();
            return Err(format!(
                "its kernel gave {n} answers of {bytes} bytes about a path, and {MOST_ANSWERS} of {ANSWERS} bytes are the most"
            ));
        }
        self.answers = self.answers.checked_sub(bytes).ok_or("its kernel answers far too much")?;
        Ok(())
    }
}
