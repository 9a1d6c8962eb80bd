// SPDX-License-Identifier: MIT OR Apache-2.0
//! A run for other people's tools, written as it is read, so that a run of any length needs little memory.
//!
//! An exporter is one file here and one line in [`EXPORTERS`]. What each writes, and what it loses, stands in
//! `docs/export.md`.

mod csv;
mod hlog;
mod prometheus;

use std::fmt;
use std::io::{self, Write};
use std::time::Duration;
use tardy_analyze::cell::{delta_of, pooled};
use tardy_analyze::packets::{Packets, Reach};
use tardy_model::manifest::Manifest;
use tardy_model::result::Results;
use tardy_model::sample::Batch;
use tardy_model::trial::StreamRecord;
use tardy_store::{RunFolder, StoreError, TrialId};

/// What is exported.
pub struct Source<'a> {
    /// The run's samples.
    pub run: &'a RunFolder,
    /// What it found.
    pub results: &'a Results,
    /// What made it.
    pub manifest: &'a Manifest,
    /// When it began, since 1970; zero if that is not known.
    pub started: Duration,
}

impl fmt::Debug for Source<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source").field("run", self.run).finish_non_exhaustive()
    }
}

impl Source<'_> {
    /// True if the trial is in its cell's figures.
    fn in_figures(&self, trial: &TrialId) -> bool {
        let cell = self.results.cells.iter().find(|cell| cell.id == trial.cell);
        cell.is_some_and(|cell| pooled(cell).any(|pooled| pooled.n == trial.n))
    }

    /// Every packet of a stream in a trial, in scheduled order: `each(batch, row, delta)`. The rows are read twice.
    fn packets(
        &self,
        trial: &TrialId,
        stream: &str,
        record: &StreamRecord,
        mut each: impl FnMut(&Batch, usize, Option<i64>) -> Result<(), ExportError>,
    ) -> Result<(), ExportError> {
        let mut reach = Reach::new(delta_of(record));
        for batch in self.run.batches(&trial.cell, trial.n, stream)? {
            reach.push(&batch?);
        }
        let mut packets = Packets::new(reach);
        for batch in self.run.batches(&trial.cell, trial.n, stream)? {
            packets.push(batch?, &mut each)?;
        }
        packets.finish(&mut each)
    }
}

/// Why a run was not exported.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// No such exporter.
    #[error("`{asked}` is not something to export to: choose one of {known}")]
    Unknown {
        /// What was asked for.
        asked: String,
        /// What there is.
        known: String,
    },
    /// One that a later version has.
    #[error("this version cannot export to `{asked}` yet: choose one of {known}")]
    Later {
        /// What was asked for.
        asked: String,
        /// What there is.
        known: String,
    },
    /// The run cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The export cannot be written.
    #[error("{0}")]
    Write(#[from] io::Error),
}

/// What an export is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// The figures, judged anew from the trials.
    Figures,
    /// The samples; of the results only what the trials are.
    Samples,
}

/// One way out.
pub struct Exporter {
    /// As in `--to`.
    pub name: &'static str,
    /// Of a file's name.
    pub extension: &'static str,
    /// What it is, for help texts.
    pub says: &'static str,
    /// What it is made of.
    pub needs: Needs,
    /// Writes it. Comes back with what the user ought to know about it.
    pub write: fn(&Source<'_>, &mut dyn Write) -> Result<Vec<String>, ExportError>,
}

impl fmt::Debug for Exporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exporter").field("name", &self.name).finish_non_exhaustive()
    }
}

/// All exporters.
pub const EXPORTERS: &[Exporter] = &[
    Exporter {
        name: "hlog",
        extension: "hlog",
        says: "the distributions as an HdrHistogram log",
        needs: Needs::Samples,
        write: hlog::write,
    },
    Exporter {
        name: "csv",
        extension: "csv",
        says: "the samples, a row per intended packet",
        needs: Needs::Samples,
        write: csv::write,
    },
    Exporter {
        name: "prometheus",
        extension: "prom",
        says: "the figures in Prometheus' text format",
        needs: Needs::Figures,
        write: prometheus::write,
    },
];

/// What a later version exports to.
const LATER: [&str; 2] = ["pcapng", "perfetto"];

/// The exporter of that name.
///
/// # Errors
/// [`ExportError::Unknown`] or [`ExportError::Later`], which list what there is.
pub fn exporter(name: &str) -> Result<&'static Exporter, ExportError> {
    EXPORTERS.iter().find(|exporter| exporter.name == name).ok_or_else(|| {
        let known = EXPORTERS.iter().map(|exporter| exporter.name).collect::<Vec<_>>().join(", ");
        let asked = name.to_owned();
        if LATER.contains(&name) { ExportError::Later { asked, known } } else { ExportError::Unknown { asked, known } }
    })
}
