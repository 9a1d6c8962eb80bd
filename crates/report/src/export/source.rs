// SPDX-License-Identifier: MIT OR Apache-2.0
//! What every export is made of.

use super::error::ExportError;
use std::fmt;
use std::time::Duration;
use tardy_analyze::cell::{delta_of, pooled};
use tardy_analyze::packets::{Packets, Reach};
use tardy_model::manifest::Manifest;
use tardy_model::result::Results;
use tardy_model::sample::Batch;
use tardy_model::trial::StreamRecord;
use tardy_store::{RunFolder, TrialId};

pub struct Source<'a> {
    /// The run's samples.
    pub run: &'a RunFolder,
    pub results: &'a Results,
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
