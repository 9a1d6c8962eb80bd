// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a backend is asked to copy, and what it hands over.

use std::sync::atomic::AtomicBool;
use tardy_model::copy::{Contention, CopyThread, Copying, Pages, Sizes};
use tardy_model::load::LoadRecord;
use tardy_model::placement::ThreadRecord;
use tardy_model::time::ClockReading;
use tardy_sys::SysError;
use tardy_sys::memory::Region;

/// One trial of a copy.
#[derive(Clone, Copy, Debug)]
pub struct CopyOrder<'a> {
    pub copy: &'a Copying,
    /// The CPU of each thread; `None` for one that is not bound.
    pub cpus: &'a [Option<u32>],
    /// CPUs that the background has, one thread on each.
    pub usable: &'a [u32],
    pub sizes: Sizes,
    pub nonce: u64,
    /// Passes end when it is true.
    pub stop: &'a AtomicBool,
}

/// In which pages, and on which NUMA nodes, memory is to be.
pub(super) type Asked = (Pages, [Option<u32>; 2]);

/// Memory that trials share: to map and touch it anew takes longer than many a trial.
#[derive(Debug)]
pub struct CopyMemory {
    /// Of each thread, what is read and what is written, and what was asked for.
    pub(super) regions: Vec<([Region; 2], Asked)>,
    /// All of it together is at most this, bytes, unless one trial alone needs more.
    pub(super) most_bytes: u64,
}

impl CopyMemory {
    /// None yet, and never more than this number of bytes, unless one trial alone needs more.
    pub fn within(most_bytes: u64) -> CopyMemory {
        CopyMemory { regions: Vec::new(), most_bytes }
    }

    /// How much it holds, bytes.
    pub fn held_bytes(&self) -> u64 {
        self.regions.iter().flat_map(|(of, _)| of).map(|region| region.bytes() as u64).sum()
    }
}

/// Why a copy could not be begun.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    #[error(
        "memory for the buffers of a copy: {0}: take fewer threads, or fewer or smaller buffers, or lift a limit on this process's memory \
         (ulimit -v)"
    )]
    Memory(#[from] SysError),
    #[error("thread {number} of a copy: {why}")]
    Thread { number: u32, why: String },
    #[error(
        "backend {backend} needs the kernel module {module}, and it is not loaded here: `tardy guest fetch --with dmatest` builds it \
         for guests, once; then run with --in guest"
    )]
    NotLoaded { backend: &'static str, module: &'static str },
    #[error("backend {backend}: {why}")]
    Kernel { backend: &'static str, why: String },
    #[error("this CPU has no instructions for method {0}: take memcpy")]
    Method(&'static str),
}

/// What a backend recorded.
pub(super) struct Copied {
    /// Of each thread its passes, TAI, ns, and what is known of it.
    pub threads: Vec<(Vec<(i64, i64)>, CopyThread)>,
    pub recording_ns: f64,
    /// What disturbed it, if something did.
    pub background: Option<LoadRecord>,
    pub clocks: [ClockReading; 2],
    /// The driver of the DMA controllers that copied, if some did.
    pub provider: Option<String>,
    /// Waits for the kernel's locks, if its threads copied.
    pub contention: Option<Contention>,
}

/// A thread of this number, as yet without passes.
pub(super) fn thread_of(copy: &Copying, number: u32) -> CopyThread {
    let channel = number / copy.threads;
    CopyThread { controller: channel / copy.channels, channel: channel % copy.channels, ..CopyThread::default() }
}

/// What is known of a thread of the kernel's: it has no policy and no memory that tardy chose.
pub(super) fn kernel_thread(copy: &Copying) -> ThreadRecord {
    ThreadRecord {
        policy_asked: copy.policy.to_string(),
        policy_granted: copy.policy.to_string(),
        memory_locked: true,
        ..ThreadRecord::default()
    }
}
