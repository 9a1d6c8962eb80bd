// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where programs are looked for. As root tardy starts none out of a folder in which somebody else
//! could have put it: `sudo` may hand over the PATH of the user who called it.

use std::ffi::{OsStr, OsString};
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Where programs are looked for if no folder of PATH is left.
const SYSTEM: &str = "/usr/sbin:/usr/bin:/sbin:/bin";
const ROOT: u32 = 0;
/// Mode bits: the group or others may write; only a file's owner may rename or remove it (a sticky
/// folder, as /tmp).
const OTHERS_WRITE: u32 = 0o022;
const STICKY: u32 = 0o1000;

fn is_roots(found: &Metadata) -> bool {
    found.uid() == ROOT && found.mode() & OTHERS_WRITE == 0
}

/// True if nobody but root can put a program into this folder, or put another folder in its place.
pub fn only_root_writes(folder: &Path) -> bool {
    where_only_root_writes(folder).is_some()
}

/// Such a folder's path without links, for whoever owns a link may turn it round. One that is not
/// there counts as such if nobody but root can make it.
fn where_only_root_writes(folder: &Path) -> Option<PathBuf> {
    let mut above = folder.is_absolute().then(|| folder.ancestors())?;
    let (named, there) = above.find_map(|above| Some((above, above.canonicalize().ok()?)))?;
    let above = |found: Metadata| found.uid() == ROOT && (is_roots(&found) || found.mode() & STICKY != 0);
    let is_safe = fs::metadata(&there).is_ok_and(|found| is_roots(&found))
        && there.ancestors().skip(1).all(|folder| fs::metadata(folder).is_ok_and(above));
    is_safe.then(|| there.components().chain(folder.strip_prefix(named).unwrap_or(folder).components()).collect())
}

/// The folders of a PATH that only root writes to, without links; the system's own if none is
/// left. An empty entry means the current folder, and goes.
pub fn trusted(path: &OsStr) -> OsString {
    let kept: Vec<_> = std::env::split_paths(path).filter_map(|folder| where_only_root_writes(&folder)).collect();
    match std::env::join_paths(&kept) {
        Ok(joined) if !kept.is_empty() => joined,
        _ => SYSTEM.into(),
    }
}

/// As root: takes the folders out of this process's PATH that others than root may write to.
/// Children inherit it. To be called before the first thread is started.
pub fn trust_path() {
    if !crate::process::is_root() {
        return;
    }
    let Some(path) = std::env::var_os("PATH") else { return };
    let trusted = trusted(&path);
    if trusted != path {
        // SAFETY: no other thread runs yet, so none reads the environment meanwhile.
        unsafe { std::env::set_var("PATH", trusted) };
    }
}
