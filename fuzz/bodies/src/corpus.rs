// SPDX-License-Identifier: MIT OR Apache-2.0
//! The inputs that are kept of each target, in a folder each of one archive: `fuzz/corpus.tar`.
//! `fuzz/run.sh` unpacks them for the fuzzer, `fuzz/keep.sh` adds what it found; the same inputs
//! always make the same archive.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Error, Read, Result};
use std::path::{Path, PathBuf};

pub type Inputs = BTreeMap<String, Vec<u8>>;

/// The archive of all targets.
pub fn archive() -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../corpus.tar")).to_owned()
}

/// Reads the inputs of a target.
///
/// # Errors
/// If the archive cannot be read or is none, holds anything but files, or has no such target.
pub fn read(target: &str) -> Result<Inputs> {
    all()?.remove(target).ok_or_else(|| Error::other(format!("the archive has no inputs of target {target}")))
}

/// The names of all targets that have inputs.
///
/// # Errors
/// As [`read`].
pub fn targets() -> Result<Vec<String>> {
    Ok(all()?.into_keys().collect())
}

fn all() -> Result<BTreeMap<String, Inputs>> {
    let mut archive = tar::Archive::new(File::open(archive())?);
    let mut all: BTreeMap<String, Inputs> = BTreeMap::new();
    for entry in archive.entries()? {
        let mut entry = entry?;
        let path = entry.path()?.to_string_lossy().into_owned();
        let (target, name) = match path.split_once('/') {
            Some((target, name)) if entry.header().entry_type().is_file() && !name.contains('/') => (target, name),
            _ => return Err(Error::other(format!("{path} is no plain file of a target"))),
        };
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes)?;
        all.entry(target.to_owned()).or_default().insert(name.to_owned(), bytes);
    }
    Ok(all)
}

/// Writes the inputs of a target, next to those of the others, in the order of their names, as if
/// nobody in particular had made them at no time in particular.
///
/// # Errors
/// If the archive cannot be read or written.
pub fn write(target: &str, inputs: &Inputs) -> Result<()> {
    let mut all = all()?;
    all.insert(target.to_owned(), inputs.clone());
    let path = archive();
    let new = path.with_extension("new");
    let mut archive = tar::Builder::new(File::create(&new)?);
    for (target, inputs) in &all {
        for (name, bytes) in inputs {
            let mut header = tar::Header::new_ustar();
            header.set_size(bytes.len() as u64);
            header.set_mode(0o644);
            archive.append_data(&mut header, format!("{target}/{name}"), bytes.as_slice())?;
        }
    }
    archive.into_inner()?.sync_all()?;
    fs::rename(new, path)
}
