// SPDX-License-Identifier: MIT OR Apache-2.0
//! The process: network namespace, who it answers to, signals.

use crate::error::{SysError, check};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;

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
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("CapEff:")?.trim(), 16).ok());
    mask.is_some_and(|mask| mask & (1 << 12) != 0 && mask & (1 << 21) != 0)
}

/// True if the process has root's rights over files.
pub fn is_root() -> bool {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// True if a process of this id exists.
pub fn exists(pid: u32) -> bool {
    Path::new("/proc").join(pid.to_string()).exists()
}

/// Sends a signal to one process by its own id.
pub fn signal(pid: u32, signal: i32) -> Result<(), SysError> {
    // SAFETY: takes numbers only; the id is positive, so no group is meant.
    let result = unsafe { libc::kill(pid.max(1) as i32, signal) };
    check(i64::from(result), "kill", || format!("process {pid}"))?;
    Ok(())
}
