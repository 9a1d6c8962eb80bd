// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writing so that a kill or a power cut leaves either the old file or the new one, never half of one.

use crate::StoreError;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::path::Path;

/// Writes `bytes` to `path` at once: a temporary file beside it, fsync, rename, fsync of the folder.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".tmp");
    let temporary = path.with_file_name(name);
    let written = write_new(&temporary, bytes)
        .and_then(|()| fs::rename(&temporary, path).map_err(StoreError::io("rename to", path)));
    if let Err(error) = written {
        // The reason it failed is what counts; a temporary file that stays behind is ignored by readers.
        let _ = fs::remove_file(&temporary);
        return Err(error);
    }
    sync_parent(path)
}

/// Writes a file that nobody reads yet, and fsyncs it.
pub(crate) fn write_new(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    let mut file = File::create(path).map_err(StoreError::io("create", path))?;
    file.write_all(bytes).map_err(StoreError::io("write", path))?;
    file.sync_all().map_err(StoreError::io("sync", path))
}

/// The largest text file that is read whole: far beyond what any run writes, and within what a machine has.
const LARGEST: u64 = 1 << 30;

/// Opens a file to read. What is no regular file is refused unopened: a device may bring bytes without an end, and a pipe
/// never answers.
pub(crate) fn open(path: &Path) -> Result<File, StoreError> {
    let about = fs::metadata(path).map_err(StoreError::io("open", path))?;
    if !about.is_file() {
        return Err(StoreError::NotAFile { path: path.to_owned() });
    }
    File::open(path).map_err(StoreError::io("open", path))
}

/// A file's bytes, if they are not too many to be one of a run's.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, StoreError> {
    let file = open(path)?;
    let length = file.metadata().map_err(StoreError::io("examine", path))?.len();
    let mut bytes = Vec::new();
    if length <= LARGEST {
        // It may still grow.
        file.take(LARGEST + 1).read_to_end(&mut bytes).map_err(StoreError::io("read", path))?;
    }
    if length.max(bytes.len() as u64) > LARGEST {
        let why = format!("it has more than {LARGEST} bytes");
        let mend = "a run writes no such file: copy it again from where the run was made";
        return Err(StoreError::Damaged { path: path.to_owned(), why, mend });
    }
    Ok(bytes)
}

/// Appends `bytes` by one system call, so that two writers' lines do not mix.
pub(crate) fn append(path: &Path, bytes: &[u8], first: &[u8], executable: bool) -> Result<(), StoreError> {
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(if executable { 0o755 } else { 0o644 });
    }
    let mut file = options.open(path).map_err(StoreError::io("open", path))?;
    let length = file.metadata().map_err(StoreError::io("examine", path))?.len();
    if length == 0 && !first.is_empty() {
        file.write_all(&[first, bytes].concat()).map_err(StoreError::io("append to", path))
    } else {
        file.write_all(bytes).map_err(StoreError::io("append to", path))
    }
}

/// Makes a folder and its parents; their names are on disk when this returns.
pub(crate) fn make_folder(path: &Path) -> Result<(), StoreError> {
    if path.is_dir() {
        return Ok(());
    }
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        make_folder(parent)?;
    }
    match fs::create_dir(path) {
        // Another writer was faster.
        Err(reason) if reason.kind() == std::io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        Err(reason) => Err(StoreError::io("create", path)(reason)),
        Ok(()) => sync_parent(path),
    }
}

/// Makes the entry of `path` in its folder durable.
pub(crate) fn sync_parent(path: &Path) -> Result<(), StoreError> {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => sync_folder(parent),
        _ => sync_folder(Path::new(".")),
    }
}

/// Makes a folder's entries durable. Only Unix lets a folder be opened for that.
pub(crate) fn sync_folder(path: &Path) -> Result<(), StoreError> {
    if cfg!(unix) {
        File::open(path).and_then(|folder| folder.sync_all()).map_err(StoreError::io("sync", path))?;
    }
    Ok(())
}
