// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds a program on this machine before anything runs it.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Looks a program up as `execvp` does: a name with a slash is a path, another one is looked for
/// in PATH.
pub(super) fn find(program: &str) -> Result<PathBuf, String> {
    let runs =
        |path: &Path| path.metadata().is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0);
    if program.contains('/') {
        let path = PathBuf::from(program);
        return match runs(&path) {
            true => Ok(path),
            false if path.exists() => Err("is there and is no program: `chmod +x` it, or write its right path".into()),
            false => Err("does not exist: write its right path".into()),
        };
    }
    let places = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&places)
        .map(|folder| folder.join(program))
        .find(|path| runs(path))
        .ok_or_else(|| "is not installed, or not in PATH: install it, or write its path".into())
}
