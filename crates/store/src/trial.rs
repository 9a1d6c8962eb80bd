// SPDX-License-Identifier: MIT OR Apache-2.0
//! The folder of a trial that is being written.

use crate::{StoreError, durable, folder::file_name, hlog, samples};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use tardy_model::histogram::Histogram;
use tardy_model::point::Metric;
use tardy_model::sample::Batch;
use tardy_model::time::Nanos;
use tardy_model::trial::TrialRecord;

pub(crate) const SAMPLES: &str = "samples.parquet";
pub(crate) const RECORD: &str = "trial.json";
const LOADS: &str = "loads";

/// `trials/<cell>/<n>.partial/`. It becomes `<n>/` by [`TrialFolder::finish`] and by nothing else: dropped before, it stays
/// as it is and readers report it as unfinished.
#[derive(Debug)]
pub struct TrialFolder {
    partial: PathBuf,
    whole: PathBuf,
}

impl TrialFolder {
    pub(crate) fn begin(cell: &Path, n: u32) -> Result<Self, StoreError> {
        let (partial, whole) = (cell.join(format!("{n}.partial")), cell.join(n.to_string()));
        if let Some(path) = [&partial, &whole].into_iter().find(|path| path.exists()) {
            return Err(StoreError::TrialExists { path: path.clone() });
        }
        durable::make_folder(&partial)?;
        Ok(TrialFolder { partial, whole })
    }

    /// Where its files lie until it is finished.
    pub fn path(&self) -> &Path {
        &self.partial
    }

    /// Writes `samples.parquet`: every stream of the trial, in the experiment's order.
    ///
    /// # Errors
    /// [`StoreError::Rows`] if a batch contradicts itself, [`StoreError::Io`] if the disk refuses.
    pub fn write_samples(&self, streams: &[(&str, &Batch)]) -> Result<(), StoreError> {
        samples::write::write_samples(&self.partial.join(SAMPLES), streams)
    }

    /// Writes `<stream>.hlog`: the histograms of the trial's results, an interval line for each metric that has values. `span` is
    /// from the first to the last scheduled instant.
    ///
    /// # Errors
    /// [`StoreError::Name`] if the stream's name cannot be a file's, [`StoreError::Io`] if the disk refuses.
    pub fn write_histograms(
        &self,
        stream: &str,
        span: Nanos,
        histograms: &BTreeMap<Metric, Histogram>,
    ) -> Result<(), StoreError> {
        let path = self.partial.join(format!("{}.hlog", file_name(stream)?));
        let bytes = hlog::encode(span, histograms).map_err(StoreError::io("encode", &path))?;
        durable::write_new(&path, &bytes)
    }

    /// Writes `trial.json`.
    ///
    /// # Errors
    /// [`StoreError::Io`] if the disk refuses.
    pub fn write_record(&self, record: &TrialRecord) -> Result<(), StoreError> {
        let path = self.partial.join(RECORD);
        let mut bytes = serde_json::to_vec(record).map_err(|why| StoreError::io("encode", &path)(why.into()))?;
        bytes.push(b'\n');
        durable::write_new(&path, &bytes)
    }

    /// Writes `loads/<name>`: what a load's program wrote.
    ///
    /// # Errors
    /// [`StoreError::Name`] if the name cannot be a file's, [`StoreError::Io`] if the disk refuses.
    pub fn write_load_output(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        let folder = self.partial.join(LOADS);
        if !folder.is_dir() {
            durable::make_folder(&folder)?;
        }
        durable::write_new(&folder.join(file_name(name)?), bytes)
    }

    /// Makes the trial whole: from here on it survives a kill or a power cut.
    ///
    /// # Errors
    /// [`StoreError::Incomplete`] if the samples or the record were not written, [`StoreError::Io`] if the disk refuses.
    pub fn finish(self) -> Result<(), StoreError> {
        for lacks in [SAMPLES, RECORD] {
            if !self.partial.join(lacks).is_file() {
                return Err(StoreError::Incomplete { path: self.partial, lacks });
            }
        }
        durable::sync_folder(&self.partial)?;
        fs::rename(&self.partial, &self.whole).map_err(StoreError::io("rename to", &self.whole))?;
        durable::sync_parent(&self.whole)
    }
}
