// SPDX-License-Identifier: MIT OR Apache-2.0
//! Opens `samples.parquet`, and hands out its rows.

use crate::{StoreError, durable};
use std::fs::File;
use std::path::{Path, PathBuf};
use tardy_model::point::Point;
use tardy_model::sample::Batch;
use tardy_parquet::{CodecError, Reader};

/// An open `samples.parquet`.
pub struct SamplesFile {
    path: PathBuf,
    reader: Reader,
}

/// The rows of one stream, batch by batch.
pub struct Batches {
    path: PathBuf,
    batches: tardy_parquet::Batches,
}

impl SamplesFile {
    /// Opens a file and reads its footer.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] if it is cut short or is not a file of samples,
    /// [`StoreError::Newer`] if a later tardy wrote it, [`StoreError::Io`] if it cannot be opened.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        SamplesFile::of(durable::open(path)?, path)
    }

    /// The same of a file that is open.
    pub(crate) fn of(file: File, path: &Path) -> Result<Self, StoreError> {
        let reader = Reader::open(file).map_err(|error| unread(path, error))?;
        Ok(SamplesFile { path: path.to_owned(), reader })
    }

    /// The streams' names, in the order of their rows.
    pub fn streams(&self) -> impl Iterator<Item = &str> {
        self.reader.streams()
    }

    /// Rows of a stream: packets intended in this trial.
    ///
    /// # Errors
    /// [`StoreError::NoSuchStream`].
    pub fn rows(&self, stream: &str) -> Result<usize, StoreError> {
        self.reader.rows(stream).map_err(|error| unread(&self.path, error))
    }

    /// The points of a stream that have a source, in causal order, `scheduled` among them.
    ///
    /// # Errors
    /// [`StoreError::NoSuchStream`].
    pub fn points(&self, stream: &str) -> Result<Vec<Point>, StoreError> {
        self.reader.points(stream).map_err(|error| unread(&self.path, error))
    }

    /// The rows of a stream, at most [`super::BATCH_ROWS`] at a time. A stream without rows gives
    /// nothing.
    ///
    /// # Errors
    /// [`StoreError::NoSuchStream`]; [`StoreError::Damaged`] if a column of the stream is missing.
    pub fn batches(&self, stream: &str) -> Result<Batches, StoreError> {
        let batches = self.reader.batches(stream).map_err(|error| unread(&self.path, error))?;
        Ok(Batches { path: self.path.clone(), batches })
    }
}

impl Batches {
    /// Replaces a batch by the next rows, using its memory again; false if there are no more.
    ///
    /// # Errors
    /// [`StoreError::Damaged`]; no rows come after it.
    pub fn read(&mut self, batch: &mut Batch) -> Result<bool, StoreError> {
        self.batches.read(batch).map_err(|error| unread(&self.path, error))
    }
}

impl Iterator for Batches {
    type Item = Result<Batch, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.batches.next()?;
        Some(next.map_err(|error| unread(&self.path, error)))
    }
}

fn unread(path: &Path, error: CodecError) -> StoreError {
    StoreError::of_samples("read", path, error)
}
