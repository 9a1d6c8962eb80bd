// SPDX-License-Identifier: MIT OR Apache-2.0
//! The folder of a trial that is being written.

use crate::held::{Held, file_name};
use crate::{StoreError, hlog, samples};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::Write;
use std::path::Path;
use tardy_model::histogram::Histogram;
use tardy_model::point::Metric;
use tardy_model::sample::Batch;
use tardy_model::time::Nanos;
use tardy_model::trial::TrialRecord;

pub(crate) const SAMPLES: &str = "samples.parquet";
pub(crate) const RECORD: &str = "trial.json";
const LOADS: &str = "loads";

/// `trials/<cell>/<n>.partial/`. It becomes `<n>/` by [`TrialFolder::finish`] and by nothing else:
/// dropped before, it stays as it is and readers report it as unfinished.
#[derive(Debug)]
pub struct TrialFolder {
    cell: Held,
    partial: Held,
    n: u32,
}

impl TrialFolder {
    pub(crate) fn begin(cell: Held, n: u32) -> Result<Self, StoreError> {
        let (partial, whole) = (partial_name(n), n.to_string());
        if cell.has(&whole) {
            return Err(StoreError::TrialExists { path: cell.path().join(whole) });
        }
        match cell.make_new(&partial)? {
            Some(partial) => Ok(TrialFolder { cell, partial, n }),
            None => Err(StoreError::TrialExists { path: cell.path().join(partial) }),
        }
    }

    /// Where its files lie until it is finished.
    pub fn path(&self) -> &Path {
        self.partial.path()
    }

    /// Writes `samples.parquet`: every stream of the trial, in the experiment's order.
    ///
    /// # Errors
    /// [`StoreError::Rows`] if a batch contradicts itself, [`StoreError::Io`] if the disk refuses.
    pub fn write_samples(&self, streams: &[(&str, &Batch)]) -> Result<(), StoreError> {
        samples::write_into(self.partial.create(SAMPLES)?, &self.path().join(SAMPLES), streams)
    }

    /// Writes `<stream>.hlog`: the histograms of the trial's results, an interval line for each
    /// metric that has values. `span` is from the first to the last scheduled instant.
    ///
    /// # Errors
    /// [`StoreError::Name`] if the stream's name cannot be a file's, [`StoreError::Io`] if the
    /// disk refuses.
    pub fn write_histograms(
        &self,
        stream: &str,
        span: Nanos,
        histograms: &BTreeMap<Metric, Histogram>,
    ) -> Result<(), StoreError> {
        let name = format!("{}.hlog", file_name(stream)?);
        let bytes = hlog::encode(span, histograms).map_err(StoreError::io("encode", &self.path().join(&name)))?;
        write_new(&self.partial, &name, &bytes)
    }

    /// Writes `trial.json`.
    ///
    /// # Errors
    /// [`StoreError::Io`] if the disk refuses.
    pub fn write_record(&self, record: &TrialRecord) -> Result<(), StoreError> {
        let failed = |why: serde_json::Error| StoreError::io("encode", &self.path().join(RECORD))(why.into());
        let mut bytes = serde_json::to_vec(record).map_err(failed)?;
        bytes.push(b'\n');
        write_new(&self.partial, RECORD, &bytes)
    }

    /// Writes `loads/<name>`: what a load's program wrote.
    ///
    /// # Errors
    /// [`StoreError::Name`] if the name cannot be a file's, [`StoreError::Io`] if the disk refuses.
    pub fn write_load_output(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        write_new(&self.partial.make(LOADS)?, file_name(name)?, bytes)
    }

    /// Makes the trial whole: from here on it survives a kill or a power cut.
    ///
    /// # Errors
    /// [`StoreError::Incomplete`] if the samples or the record were not written,
    /// [`StoreError::Io`] if the disk refuses.
    pub fn finish(self) -> Result<(), StoreError> {
        for lacks in [SAMPLES, RECORD] {
            if !self.partial.has_file(lacks) {
                return Err(StoreError::Incomplete { path: self.path().to_owned(), lacks });
            }
        }
        self.partial.sync()?;
        self.cell.rename(OsStr::new(&partial_name(self.n)), OsStr::new(&self.n.to_string()))
    }
}

fn partial_name(n: u32) -> String {
    format!("{n}.partial")
}

/// Writes a file that nobody reads yet, and fsyncs it.
fn write_new(folder: &Held, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
    let path = folder.path().join(name);
    let mut file = folder.create(name)?;
    file.write_all(bytes).map_err(StoreError::io("write", &path))?;
    file.sync_all().map_err(StoreError::io("sync", &path))
}
