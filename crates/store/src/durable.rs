// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files by their path alone, for samples that lie outside a run folder; and how much of a file is
//! read whole.

use crate::StoreError;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

/// The largest text file that is read whole: far beyond what any run writes, and within what a
/// machine has.
pub(crate) const LARGEST: u64 = 64 << 20;

/// The same of `results.json`, which has all figures of all cells: of the most that there may be,
/// some 25 kB each.
pub(crate) const LARGEST_RESULTS: u64 = 256 << 20;

/// Opens a file to read. What is no regular file is refused unopened: a device may bring bytes
/// without an end, and a pipe never answers.
pub(crate) fn open(path: &Path) -> Result<File, StoreError> {
    let about = fs::metadata(path).map_err(StoreError::io("open", path))?;
    if !about.is_file() {
        return Err(StoreError::NotAFile { path: path.to_owned() });
    }
    File::open(path).map_err(StoreError::io("open", path))
}

/// A file's bytes, if they are not too many to be one of a run's.
pub(crate) fn read(file: File, path: &Path, largest: u64) -> Result<Vec<u8>, StoreError> {
    let length = file.metadata().map_err(StoreError::io("examine", path))?.len();
    let mut bytes = Vec::new();
    if length <= largest {
        // It may still grow.
        file.take(largest + 1).read_to_end(&mut bytes).map_err(StoreError::io("read", path))?;
    }
    if length.max(bytes.len() as u64) > largest {
        let why = format!("it has more than {largest} bytes");
        let mend = "a run writes no such file: copy it again from where the run was made";
        return Err(StoreError::Damaged { path: path.to_owned(), why, mend });
    }
    Ok(bytes)
}
