// SPDX-License-Identifier: MIT OR Apache-2.0
//! This process: its network namespace, whether it answers to the terminal, its memory that was
//! freed; and signals to others.
//!
//! [`trust_path`] decides where programs are searched for. As root tardy starts none out of a
//! folder in which somebody else could have put it: `sudo` may hand over the PATH of the user who
//! called it.

use crate::error::{SysError, check};
use crate::proc::{Status, Task};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Moves the calling thread, and threads it starts from now on, into a network namespace
/// (`/run/netns/NAME`).
pub fn enter_netns(path: &Path) -> Result<(), SysError> {
    let on = || path.display().to_string();
    let file = File::open(path).map_err(|source| SysError { call: "open", on: on(), source })?;
    // SAFETY: the descriptor is open for the call and names a namespace or the kernel refuses it.
    check(i64::from(unsafe { libc::setns(file.as_raw_fd(), libc::CLONE_NEWNET) }), "setns", on)?;
    Ok(())
}

/// Does something in a network namespace, in a separate thread: the calling one stays where it is.
///
/// # Errors
/// If the namespace cannot be entered.
pub fn in_netns<T: Send>(path: &Path, then: impl FnOnce() -> T + Send) -> Result<T, SysError> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| enter_netns(path).map(|()| then()));
        let broke = |_| SysError {
            call: "a thread",
            on: path.display().to_string(),
            source: std::io::Error::other("it broke"),
        };
        thread.join().map_err(broke)?
    })
}

/// Makes the process the leader of its own group, out of reach of the terminal's Ctrl-C. Its own
/// session would do so too, but the scheduler gives every session a task group (autogroup): each
/// switch between two agents on a CPU would then be one between groups, which costs more and
/// divides the CPU otherwise than between programs of one shell.
pub fn leave_terminal() {
    // SAFETY: takes numbers only. It fails for a session's leader, which leads a group already.
    unsafe { libc::setpgid(0, 0) };
}

/// True if the process may make namespaces and links: CAP_NET_ADMIN (12) and CAP_SYS_ADMIN (21)
/// are in force.
pub fn may_build() -> bool {
    let mask = Status::of(Task::Own).unwrap_or_default().effective_capabilities();
    mask.is_some_and(|mask| mask & (1 << 12) != 0 && mask & (1 << 21) != 0)
}

/// True if the process has root's rights over files.
pub fn is_root() -> bool {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// Sends a signal to one process by its own id.
pub fn signal(pid: u32, signal: i32) -> Result<(), SysError> {
    // SAFETY: takes numbers only; the id is positive, so no group is meant.
    let result = unsafe { libc::kill(pid.max(1) as i32, signal) };
    check(i64::from(result), "kill", || format!("process {pid}"))?;
    Ok(())
}

/// Keep as much as it can count.
const NEVER: libc::c_int = libc::c_int::MAX;
/// The greatest threshold that glibc takes: half of the heap of a thread.
const LARGE: libc::c_int = 32 << 20;

/// Has freed memory kept for what is allocated next. By default large pieces go back to the kernel
/// at once, and each time they are allocated again, the kernel clears every page anew: a tenth of
/// the time that it takes to judge a large run.
pub fn keep_freed_memory() {
    // SAFETY: mallopt takes two numbers and changes settings of the allocator alone. A value that
    // it refuses changes nothing.
    unsafe {
        libc::mallopt(libc::M_TRIM_THRESHOLD, NEVER);
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE);
        // A thread's own heap goes back as a whole once it is empty.
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}

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
    if !is_root() {
        return;
    }
    let Some(path) = std::env::var_os("PATH") else { return };
    let trusted = trusted(&path);
    if trusted != path {
        // SAFETY: no other thread runs yet, so none reads the environment meanwhile.
        unsafe { std::env::set_var("PATH", trusted) };
    }
}
