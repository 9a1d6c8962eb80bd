// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files in the cache of guests: written so that a power loss leaves the old file, the new one or
//! none, with sums in the form that `sha256sum -c` reads; and what killed programs left there is
//! removed.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use tardy_sys::proc;

/// The sum by which kernels and archives are known.
pub mod sha256 {
    use sha2::{Digest, Sha256};

    /// SHA-256 in hexadecimal, small letters.
    pub fn of(bytes: &[u8]) -> String {
        Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Writes a file whole or not at all, and has it on the disk before it returns.
///
/// # Errors
/// The system's.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write_as(path, bytes, None)
}

/// The same of a program, which everybody may run.
///
/// # Errors
/// The system's.
pub fn write_program(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write_as(path, bytes, Some(0o755))
}

fn write_as(path: &Path, bytes: &[u8], mode: Option<u32>) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    // Another program may write the same file at the same time.
    let temporary = folder.join(format!("{name}.{}", std::process::id()));
    let _ = fs::remove_file(&temporary);
    let written = File::options().write(true).create_new(true).open(&temporary).and_then(|mut file| {
        file.write_all(bytes)?;
        if let Some(mode) = mode {
            // By the open file: its name may mean another one meanwhile.
            file.set_permissions(fs::Permissions::from_mode(mode))?;
        }
        file.sync_all()?;
        fs::rename(&temporary, path)?;
        File::open(folder)?.sync_all()
    });
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written
}

/// The sums of all files below `root/folder`, by their paths below `root`.
///
/// # Errors
/// The system's.
pub fn sums(root: &Path, folder: &Path) -> io::Result<BTreeMap<PathBuf, String>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(root.join(folder))? {
        let entry = entry?;
        let path = folder.join(entry.file_name());
        let kind = entry.file_type()?;
        if kind.is_dir() {
            found.extend(sums(root, &path)?);
        } else if kind.is_file() {
            let sum = sha256::of(&fs::read(entry.path())?);
            found.insert(path, sum);
        }
    }
    Ok(found)
}

/// Sums as text. Pure.
pub fn listed(sums: &BTreeMap<PathBuf, String>) -> String {
    sums.iter().map(|(path, sum)| format!("{sum}  {}\n", path.display())).collect()
}

/// Reads them again; lines of another form are left out. Pure.
pub fn parsed(text: &str) -> BTreeMap<PathBuf, String> {
    let lines = text.lines().filter_map(|line| line.split_once("  "));
    lines.map(|(sum, path)| (path.into(), sum.to_owned())).collect()
}

/// Removes folders of this user's called `PREFIX-PID` or `PREFIX-ANYTHING-PID` whose process has
/// ended: what a killed fetch or build left may be hundreds of megabytes.
pub fn sweep(folder: &Path, prefixes: &[&str]) {
    let Ok(this) = fs::metadata("/proc/self") else { return };
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| {
            let (prefix, pid) = name.rsplit_once('-')?;
            let known = prefixes
                .iter()
                .any(|known| prefix.strip_prefix(known).is_some_and(|rest| rest.is_empty() || rest.starts_with('-')));
            known.then(|| pid.parse::<u32>().ok())?
        });
        let ended = pid.is_some_and(|pid| !proc::exists(pid));
        // Of a link this says that it is one.
        let is_ours = entry.metadata().is_ok_and(|found| found.is_dir() && found.uid() == this.uid());
        if ended && is_ours {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
