// SPDX-License-Identifier: MIT OR Apache-2.0
//! What every export is made of, and why a run was not exported.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;
use std::{fmt, io};
use tardy_analyze::arrival::delta_of;
use tardy_analyze::cell::pooled;
use tardy_analyze::packets::{Packets, Reach};
use tardy_model::manifest::Manifest;
use tardy_model::result::Results;
use tardy_model::sample::Batch;
use tardy_model::stream::Stream;
use tardy_model::stream_id::StreamId;
use tardy_model::trial::StreamRecord;
use tardy_store::{RunFolder, StoreError, TrialId};

pub struct Source<'a> {
    pub run: &'a RunFolder,
    pub results: &'a Results,
    pub manifest: &'a Manifest,
    /// When it began, since 1970; zero if that is not known.
    pub started: Duration,
    /// What the experiment says of the streams of each cell, in their order; empty for an export
    /// that does not need it.
    pub streams: BTreeMap<String, Vec<Stream>>,
}

impl fmt::Debug for Source<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source").field("run", self.run).finish_non_exhaustive()
    }
}

impl Source<'_> {
    /// A stream of a cell, with the number that its frames carry.
    pub(super) fn stream(&self, cell: &str, name: &str) -> Result<(StreamId, &Stream), ExportError> {
        let streams = self.streams.get(cell).map_or(&[][..], Vec::as_slice);
        let id = StreamId::named(streams, name);
        id.and_then(|id| Ok((id, id.of(streams)?)))
            .map_err(|_| ExportError::NotInExperiment { cell: cell.to_owned(), stream: name.to_owned() })
    }

    /// True if the trial is in its cell's figures.
    pub(super) fn in_figures(&self, trial: &TrialId) -> bool {
        let cell = self.results.cells.iter().find(|cell| cell.id == trial.cell);
        cell.is_some_and(|cell| pooled(cell).any(|pooled| pooled.n == trial.n))
    }

    /// Every packet of a stream in a trial, in scheduled order: `each(batch, row, delta)`. The
    /// rows are read twice.
    pub(super) fn packets(
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
    #[error("`{asked}` is not something to export to: choose one of {known}")]
    Unknown {
        /// What was asked for.
        asked: String,
        known: String,
    },
    /// Samples of a stream that the experiment does not have.
    #[error(
        "the run has samples of stream `{stream}` in cell `{cell}`, and its experiment.toml has no such stream: one of \
         the two was changed after the run; `tardy report` reads what the samples alone show"
    )]
    NotInExperiment { cell: String, stream: String },
    /// A copy has passes.
    #[error("the run is of copies, which send no packets: choose perfetto or csv")]
    NoPackets,
    /// It is written into a folder, and neither to a pipe nor into a file.
    #[error("`--to {asked}` writes into a folder: name it with -o")]
    NoBytes { asked: &'static str },
    /// Another run has its place in the data set.
    #[error(
        "another run is called `{run}` in {}, of the same host, kernel, commit and experiment: rename this run's folder, and export it again",
        set.display()
    )]
    NameTaken { run: String, set: PathBuf },
    /// There is nothing of it to be in a data set.
    #[error("{} has no finished trial: run it again", run.display())]
    NoTrial { run: PathBuf },
    /// A run is called in a data set as its folder is.
    #[error("the folder {} has no name that could be a run's: rename it", run.display())]
    Nameless { run: PathBuf },
    /// The run cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The export cannot be written.
    #[error("{0}")]
    Write(#[from] io::Error),
}
