// SPDX-License-Identifier: MIT OR Apache-2.0
//! System calls: clocks, scheduling, memory locking, namespaces, UDP and packet sockets with
//! kernel stamps, AF_XDP sockets, commands of bpf(2). Unsafe code is here, and in the rings of the
//! crate `bpf`; each block says why it is sound. What is returned has been read back from the
//! kernel, not assumed; what was refused is a [`SysError`].

pub mod bpf;
mod call;
pub mod clock;
pub mod datagrams;
pub mod ethtool;
pub mod exits;
pub mod machine;
pub mod mark;
pub mod memory;
pub mod messages;
pub mod nic;
pub mod packet;
pub mod proc;
pub mod process;
pub mod stamps;
pub mod tags;
pub mod tcp;
pub mod thread;
pub mod udp;
pub mod wait;

pub use nic::hwtstamp;
use std::io;

/// A system call that failed: what was tried, on what, the kernel's reason.
#[derive(Debug, thiserror::Error)]
#[error("{call} on {on}: {source}")]
pub struct SysError {
    /// The call, with the option or flag that mattered.
    pub call: &'static str,
    /// What it was tried on.
    pub on: String,
    #[source]
    pub source: io::Error,
}

impl SysError {
    /// The kernel's errno, 0 if there is none.
    pub fn errno(&self) -> i32 {
        self.source.raw_os_error().unwrap_or(0)
    }
}

/// `Ok` for a result ≥ 0, else errno with what was tried.
pub(crate) fn check(result: i64, call: &'static str, on: impl FnOnce() -> String) -> Result<i64, SysError> {
    if result >= 0 { Ok(result) } else { Err(SysError { call, on: on(), source: io::Error::last_os_error() }) }
}
