// SPDX-License-Identifier: MIT OR Apache-2.0
//! What happens in a run, and where it and the samples go.

use std::collections::BTreeMap;
use std::time::Duration;
use tardy_engine::live::Digest;
use tardy_model::machine::RulerRecord;
use tardy_model::manifest::{GuestEntry, ReadBack, StationEntry};
use tardy_model::point::Metric;
use tardy_model::sample::Batch;
use tardy_model::stream::Side;
use tardy_model::trial::TrialRecord;
use tardy_model::verdict::Figure;

/// What happens in a run.
#[derive(Debug)]
pub enum Event<'a> {
    /// A batch of commands was run: each as a person would paste it.
    Commands {
        /// Commands.
        commands: Vec<String>,
        /// How long the batch took.
        took: Duration,
        /// How long ago it ended.
        ago: Duration,
        /// What failed, in the program's words.
        failed: Vec<String>,
        /// They are nothing for this machine's shell: a guest says that it ran them, or they start one.
        elsewhere: bool,
    },
    /// A path is built and its agents answer.
    Built {
        /// What was read back.
        read_back: &'a [ReadBack],
        /// Stations.
        stations: &'a BTreeMap<String, StationEntry>,
        /// Agents' process ids by station.
        pids: BTreeMap<String, u32>,
    },
    /// The ruler was measured: before the first trial, and again after the last one.
    Ruler(&'a [RulerRecord]),
    /// The machine cannot run a cell; the others go on.
    Refused {
        /// Cell id.
        cell: &'a str,
        /// Why.
        why: &'a str,
    },
    /// Something could not be had and was replaced; the run goes on and says so.
    Short {
        /// Cell id.
        cell: &'a str,
        /// What.
        what: &'a str,
    },
    /// A trial begins.
    Trial {
        /// Cell id.
        cell: &'a str,
        /// Number in the cell, from 1.
        n: u32,
        /// Place in the run, from 0.
        order: u32,
        /// Trials of the run.
        of: u32,
    },
    /// Live figures.
    Progress {
        /// Stream.
        stream: &'a str,
        /// Which end.
        side: Side,
        /// Figures.
        digest: Digest,
        /// Packets intended.
        count: u32,
        /// What the figures are of; `None` for an end that does not have what leads of the stream.
        metric: Option<Metric>,
    },
    /// Everything is put back.
    TornDown,
    /// It runs on another machine than this one, which has told its facts.
    Machine {
        /// By dotted name.
        facts: &'a BTreeMap<String, Figure>,
    },
    /// It runs in a guest; more may become known of it.
    Guest(&'a GuestEntry),
}

/// Where a run's events and samples go.
pub trait Sink {
    /// Something happened.
    fn event(&mut self, event: Event<'_>);
    /// What the programs of the trial's loads wrote, by file name; the trial itself follows.
    fn load_output(&mut self, _output: Vec<(String, Vec<u8>)>) {}
    /// A trial is over. An error ends the run. If the record says that it failed, half of it is gone: what there is may be
    /// kept, but it is no finished trial and no figure may come of it.
    fn trial(
        &mut self,
        record: &TrialRecord,
        streams: &[(String, Batch)],
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>>;
}
