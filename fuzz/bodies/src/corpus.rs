// SPDX-License-Identifier: MIT OR Apache-2.0
//! The inputs that are kept of each target, in an archive each: `fuzz/corpus/TARGET.tar`.
//! `fuzz/run.sh` unpacks them for the fuzzer, `fuzz/keep.sh` adds what it found; the same inputs
//! always make the same archive.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Error, Read, Result};
use std::path::{Path, PathBuf};

pub type Inputs = BTreeMap<String, Vec<u8>>;

fn folder() -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../corpus")).to_owned()
}

/// The archive of a target.
pub fn archive(target: &str) -> PathBuf {
    folder().join(format!("{target}.tar"))
}

/// Reads the inputs of a target.
///
/// # Errors
/// If the archive cannot be read or is none, or holds anything but files.
pub fn read(target: &str) -> Result<Inputs> {
    let mut archive = tar::Archive::new(File::open(archive(target))?);
    let mut inputs = Inputs::new();
    for entry in archive.entries()? {
        let mut entry = entry?;
        let name = entry.path()?.to_string_lossy().into_owned();
        if !entry.header().entry_type().is_file() || name.contains('/') {
            return Err(Error::other(format!("{name} is no plain file")));
        }
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes)?;
        inputs.insert(name, bytes);
    }
    Ok(inputs)
}

/// The names of all targets that have inputs.
///
/// # Errors
/// If the folder of archives cannot be read.
pub fn targets() -> Result<Vec<String>> {
    let name = |entry: Result<fs::DirEntry>| Ok(entry?.file_name().to_string_lossy().into_owned());
    let names = fs::read_dir(folder())?.map(name).collect::<Result<Vec<String>>>()?;
    Ok(names.iter().filter_map(|name| name.strip_suffix(".tar")).map(str::to_owned).collect())
}

/// Writes the inputs of a target in the order of their names, as if nobody in particular had made
/// them at no time in particular.
///
/// # Errors
/// If the archive cannot be written.
pub fn write(target: &str, inputs: &Inputs) -> Result<()> {
    let path = archive(target);
    let new = path.with_extension("new");
    let mut archive = tar::Builder::new(File::create(&new)?);
    for (name, bytes) in inputs {
        let mut header = tar::Header::new_ustar();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, name, bytes.as_slice())?;
    }
    archive.into_inner()?.sync_all()?;
    fs::rename(new, path)
}
