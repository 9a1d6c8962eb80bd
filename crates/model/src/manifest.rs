// SPDX-License-Identifier: MIT OR Apache-2.0
//! `manifest.json`: what the machine and the tools were, so that a number can be traced to what made it.

use crate::machine::RulerRecord;
use crate::verdict::Figure;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The facts of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Version of the run folder.
    pub format: u32,
    /// Version of tardy.
    pub tardy: String,
    /// The experiment's name.
    pub name: String,
    /// When the run began, UTC, RFC 3339.
    pub started_utc: String,
    /// When it ended; `None` if it was killed.
    pub ended_utc: Option<String>,
    /// Seed of the order of trials, the phases and the nonces.
    pub seed: u64,
    /// The command line.
    pub command: Vec<String>,
    /// Cells in the experiment's order.
    pub cells: Vec<CellEntry>,
    /// Facts of the coordinator's machine, by dotted name.
    pub machine: BTreeMap<String, Figure>,
    /// Stations by name.
    pub stations: BTreeMap<String, StationEntry>,
    /// The ruler's figures.
    pub ruler: Vec<RulerRecord>,
    /// What was read back after set-up: command → what it printed.
    pub read_back: Vec<ReadBack>,
    /// Programs that were run, with their versions.
    pub programs: BTreeMap<String, String>,
}

/// A cell as planned.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CellEntry {
    /// Cell id.
    pub id: String,
    /// Full dotted key → value.
    pub axes: BTreeMap<String, String>,
    /// Trials that were asked for.
    pub trials: u32,
    /// Why the machine could not run it, if it could not.
    #[serde(default)]
    pub refused: Option<String>,
    /// What it asked for and could not have, and what was taken instead.
    #[serde(default)]
    pub short: Vec<String>,
}

/// A station.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StationEntry {
    /// `netns`, `sim`.
    pub kind: String,
    /// What it is called in the machine.
    pub netns: Option<String>,
    /// Version of the agent there.
    pub agent: String,
}

/// A reading after set-up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReadBack {
    /// Command.
    pub command: String,
    /// What it printed.
    pub says: serde_json::Value,
}
