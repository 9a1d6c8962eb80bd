// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes `samples.parquet`. Its bytes are a function of the samples alone.

use crate::StoreError;
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use tardy_model::sample::Batch;
use tardy_parquet::CodecError;

/// The name that samples have in errors while they lie in memory.
const IN_MEMORY: &str = "samples.parquet";

/// Writes the streams of a trial to `path`, and fsyncs it.
///
/// # Errors
/// [`StoreError::Rows`] if a batch contradicts itself, [`StoreError::Io`] if the disk refuses.
pub fn write_samples(path: &Path, streams: &[(&str, &Batch)]) -> Result<(), StoreError> {
    // Before there is a file.
    tardy_parquet::check(streams).map_err(|error| unwritten(path, error))?;
    fill(File::create(path).map_err(StoreError::io("create", path))?, path, streams)
}

/// The same into a file that was made for them, if their numbers are such as a reader takes.
pub(crate) fn into(file: File, path: &Path, streams: &[(&str, &Batch)]) -> Result<(), StoreError> {
    tardy_parquet::check_numbers(streams).map_err(|error| unwritten(path, error))?;
    fill(file, path, streams)
}

fn fill(file: File, path: &Path, streams: &[(&str, &Batch)]) -> Result<(), StoreError> {
    let mut to = BufWriter::new(file);
    tardy_parquet::write(&mut to, streams).map_err(|error| unwritten(path, error))?;
    let file = to.into_inner().map_err(|e| StoreError::io("write", path)(e.into_error()))?;
    file.sync_all().map_err(StoreError::io("sync", path))
}

/// The same bytes, in memory.
///
/// # Errors
/// [`StoreError::Rows`] if a batch contradicts itself.
pub fn encode_samples(streams: &[(&str, &Batch)]) -> Result<Vec<u8>, StoreError> {
    let mut bytes = Vec::new();
    tardy_parquet::write(&mut bytes, streams).map_err(|error| unwritten(Path::new(IN_MEMORY), error))?;
    Ok(bytes)
}

fn unwritten(path: &Path, error: CodecError) -> StoreError {
    StoreError::of_samples("write", path, error)
}
