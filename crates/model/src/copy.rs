// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parallel copies: what is asked of a cell, what was recorded of its threads, and what that comes
//! to. A copying thread passes again and again over its buffers; each pass is an iteration, and a
//! row of the samples, with the points `begin` and `end`.

mod bounds;
mod kernel;
mod locks;

pub use kernel::{Contention, CopyModule, KernelFigures, KernelLock, MOST_LOCKS};
pub use locks::{LockOf, LockResult, LockTimes};

use crate::placement::ThreadRecord;
use crate::stream::Policy;
use crate::time::Nanos;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The name that all copying threads of a cell have together, where packets have streams.
pub const COPY: &str = "copy";

/// The most threads of a cell.
pub const MOST_THREADS: u32 = 1_024;

/// The most iterations of all threads of a trial together.
pub const MOST_ITERATIONS: u64 = 100_000_000;

listed! {
    /// Who does the copying of an experiment.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum CopyBackend {
        /// Threads on the CPUs of this machine.
        #[default]
        Cpu,
        /// Channels of DMA controllers, by the kernel's own test of them.
        Dmatest,
        /// The same by tardy's own test module, which chains several descriptors.
        Sgtest,
        /// Nobody: the passes and their times are drawn from the seed.
        Sim,
    }
}

impl CopyBackend {
    /// The name in files.
    pub const fn name(self) -> &'static str {
        match self {
            CopyBackend::Cpu => "cpu",
            CopyBackend::Dmatest => "dmatest",
            CopyBackend::Sgtest => "sgtest",
            CopyBackend::Sim => "sim",
        }
    }

    /// The kernel module whose threads have the controllers copy; `None` where none does.
    pub const fn module(self) -> Option<CopyModule> {
        match self {
            CopyBackend::Dmatest => Some(CopyModule::Dmatest),
            CopyBackend::Sgtest => Some(CopyModule::TardySgtest),
            CopyBackend::Cpu | CopyBackend::Sim => None,
        }
    }
}

listed! {
    /// By which instructions a CPU copies.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Method {
        /// As the C library does it on this CPU.
        #[default]
        Memcpy,
        /// Stores that pass the caches by.
        NonTemporal,
        /// One instruction for a whole buffer.
        RepMovsb,
    }
}

impl Method {
    /// The name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Method::Memcpy => "memcpy",
            Method::NonTemporal => "non-temporal",
            Method::RepMovsb => "rep-movsb",
        }
    }
}

listed! {
    /// The pages that buffers lie in.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Pages {
        /// The machine's usual ones, 4 KiB on most.
        #[default]
        Small,
        Huge,
    }
}

impl Pages {
    /// The name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Pages::Small => "small",
            Pages::Huge => "huge",
        }
    }
}

listed! {
    /// Where the buffers of one side are when a pass comes to them.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Residence {
        /// In the cache: all passes go over a window of memory that fits there.
        Locked,
        /// In DRAM: they go on through more memory than the caches hold.
        #[default]
        Unlocked,
    }
}

impl Residence {
    /// The name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Residence::Locked => "locked",
            Residence::Unlocked => "unlocked",
        }
    }
}

listed! {
    /// On which CPUs the threads of a copy run.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Bind {
        /// Wherever the kernel puts them.
        #[default]
        Any,
        /// Each on one CPU, in turn over those that may be used, or that are named.
        Spread,
        /// The same over the CPUs that the kernel keeps free of other tasks.
        Isolated,
    }
}

impl Bind {
    /// The name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Bind::Any => "any",
            Bind::Spread => "spread",
            Bind::Isolated => "isolated",
        }
    }
}

listed! {
    /// What disturbs a copy meanwhile, one thread on each CPU that may be used.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Background {
        #[default]
        None,
        /// Copies through 64 MiB.
        Memory,
        /// Computes all the time, without memory.
        Cpu,
    }
}

impl Background {
    /// The name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Background::None => "none",
            Background::Memory => "memory",
            Background::Cpu => "cpu",
        }
    }
}

listed! {
    /// Whether threads hand their buffers to a channel as descriptors, as a driver of a DMA
    /// controller does, and by which lock its lists are shared.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Submit {
        /// They copy at once.
        #[default]
        None,
        /// A thread that waits looks again and again.
        Spin,
        /// A thread that waits sleeps until the lock is free.
        Mutex,
        /// The same until its number comes: first come, first served.
        Ticket,
    }
}

impl Submit {
    /// The name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Submit::None => "none",
            Submit::Spin => "spin",
            Submit::Mutex => "mutex",
            Submit::Ticket => "ticket",
        }
    }
}

/// A copy, every default filled in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Copying {
    pub backend: CopyBackend,
    pub controllers: u32,
    /// In each of the controllers.
    pub channels: u32,
    /// On each of the channels.
    pub threads: u32,
    /// Of each thread: it passes over all of them in an iteration.
    pub buffers: u32,
    /// The size of each.
    pub bytes: u64,
    /// Passes of each thread.
    pub iterations: u32,
    pub method: Method,
    pub pages: Pages,
    /// Where the buffers are that are read.
    pub from: Residence,
    /// Where those are that are written.
    pub to: Residence,
    /// NUMA nodes of what is read and of what is written; `None` leaves one to the kernel.
    pub nodes: [Option<u32>; 2],
    pub submit: Submit,
    pub policy: Policy,
    pub bind: Bind,
    /// The CPUs that `bind` is about; empty for all that may be used.
    pub cpus: Vec<u32>,
    pub background: Background,
    /// The longest that a trial may take: passes that are not done by then are not done.
    pub longest: Nanos,
    pub sim: CopySim,
}

/// What backend `sim` draws passes from. The sizes of its machine are those of [`Sizes::USUAL`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CopySim {
    /// The share of its time in which a thread is in a pass together with the one before it.
    pub overlap: f64,
    /// What one thread copies while it is in a pass, bits a second.
    pub rate: u64,
    /// Noise of each pass, a share of its length.
    pub jitter: f64,
    /// The rate is twice as high at sizes that are a multiple of this, bytes; 0 for no such cliff.
    pub multiple: u64,
    /// The rate is half as high beyond this size, bytes; 0 for no such cliff.
    pub beyond: u64,
}

impl Copying {
    /// How many threads there are.
    pub const fn all_threads(&self) -> u32 {
        self.controllers.saturating_mul(self.channels).saturating_mul(self.threads)
    }

    /// What a row stands for, bytes: a pass, or all that a thread of dmatest does.
    pub const fn pass_bytes(&self) -> u64 {
        let passes = match self.backend {
            CopyBackend::Dmatest => self.iterations,
            CopyBackend::Cpu | CopyBackend::Sgtest | CopyBackend::Sim => 1,
        };
        self.bytes.saturating_mul(self.buffers as u64).saturating_mul(passes as u64)
    }

    /// Rows of a thread. dmatest says of a thread what it did, and not of each time.
    pub const fn rounds(&self) -> u32 {
        match self.backend {
            CopyBackend::Dmatest => 1,
            CopyBackend::Cpu | CopyBackend::Sgtest | CopyBackend::Sim => self.iterations,
        }
    }

    /// Rows of all threads of a trial.
    pub const fn all_iterations(&self) -> u64 {
        (self.all_threads() as u64).saturating_mul(self.rounds() as u64)
    }

    /// The row of a thread's pass: passes of one number are next to each other.
    pub const fn row(&self, thread: u32, iteration: u32) -> u64 {
        iteration as u64 * self.all_threads() as u64 + thread as u64
    }
}

/// Sizes of a machine's parts, bytes; 0 for one that is not there or not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "sizes")]
pub struct Sizes {
    /// Of a line of the caches.
    pub line_bytes: u64,
    /// Of a page of memory.
    pub page_bytes: u64,
    /// Of a huge page.
    pub huge_page_bytes: u64,
    /// Data caches of a CPU, the nearest first: L1, L2, L3.
    pub cache_bytes: [u64; 3],
}

impl Sizes {
    /// Those of many machines, and of the simulated one.
    pub const USUAL: Sizes = Sizes {
        line_bytes: 64,
        page_bytes: 4 << 10,
        huge_page_bytes: 2 << 20,
        cache_bytes: [32 << 10, 1 << 20, 32 << 20],
    };
}

/// What was recorded of a copy in one trial, apart from its samples.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CopyRecord {
    /// What was asked for.
    pub asked: Copying,
    pub threads: Vec<CopyThread>,
    /// What it costs to record an iteration, ns, measured just before.
    pub recording_ns: f64,
    /// Memory that a thread's passes go through, of what is read and of what is written, bytes.
    pub window_bytes: [u64; 2],
    pub sizes: Sizes,
    /// The driver of the DMA controllers that copied; `None` where CPUs did.
    pub provider: Option<String>,
    /// Waits for the kernel's locks; `None` where no thread of the kernel's copied.
    #[serde(default)]
    pub contention: Option<Contention>,
}

/// What was recorded of one copying thread.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CopyThread {
    pub controller: u32,
    /// Its number in the controller, from 0.
    pub channel: u32,
    /// Passes that it ended.
    pub done: u32,
    /// CPU time that it had for them, ns: never time in which it waited.
    pub busy_ns: i64,
    /// The CPU on which a pass ended, from this pass on, wherever it is another than before.
    pub cpus: Vec<(u32, u32)>,
    /// As it was read back.
    pub thread: ThreadRecord,
    /// Huge pages that were asked for, and were given.
    pub has_huge_pages: bool,
    /// NUMA nodes that its memory lies on, of what is read and of what is written, by the first
    /// page of each; `None` where the kernel does not say.
    pub nodes: [Option<u32>; 2],
    /// Of the submission path; empty without one.
    pub locks: Vec<LockTimes>,
    /// Of a thread in the kernel.
    pub kernel: Option<KernelFigures>,
}

/// How copying threads went together: whether their bandwidths may be added up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "copy")]
pub struct CopyResult {
    /// Bytes of a buffer.
    pub buffer_bytes: u64,
    /// Buffers of a thread.
    pub buffers: u32,
    /// Threads that were asked for.
    pub threads: u32,
    /// Bytes that all threads copied, in the trial whose figures these are.
    pub bytes: u64,
    /// From the first beginning of a pass to the last end of one, ns.
    pub wall_ns: i64,
    /// Bytes a second over the wall time: the bandwidth that the threads had together.
    pub wall_bytes_s: f64,
    /// Each thread's bytes a second over its own time in passes, added up. It is what they had
    /// together only if all of them copied all the time.
    pub sum_bytes_s: f64,
    /// By which share of the wall's bandwidth the sum is wrong.
    pub sum_error: f64,
    /// How many threads copied at once, as a mean: the CPU time of all over the wall time.
    pub parallelism: f64,
    /// How many the sum takes for granted: all that did a pass, each as long as the wall.
    pub assumed: u32,
    /// How many times less they ran in parallel than the sum takes for granted: assumed over
    /// parallelism.
    pub times_less: f64,
    /// May the bandwidths be added up? The sum must be right, and the threads must have run in
    /// parallel.
    pub may_be_added_up: bool,
    /// How long none, one, two … threads were in a pass at once, ns. In a pass they may wait for a
    /// CPU.
    pub in_flight_ns: Vec<i64>,
    /// Of all pairs of threads, those that were in a pass together least, at most 10.
    pub least_overlaps: Vec<Overlap>,
    /// Mean over all pairs of threads: how long both were in a pass, as a share of the shorter
    /// one's time in passes; null for one thread.
    pub overlap_mean: Option<f64>,
    /// Passes that ended on another CPU than the one before of the thread.
    pub migrations: u64,
    /// Involuntary context switches of all threads.
    pub involuntary_switches: u64,
    /// Time that the threads waited for a CPU, all together, ns; null where the kernel does not
    /// say.
    pub wait_ns: Option<i64>,
    /// The driver of the DMA controllers that copied; `None` where CPUs did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The kernel module whose threads had them copy; `None` where CPUs did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub module: Option<CopyModule>,
    /// What that module says of each of its threads; empty where CPUs copied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kernel: Vec<KernelFigures>,
    /// How long it took to get the locks of the submission path; empty without one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub locks: Vec<LockResult>,
    /// Waits for the kernel's own locks while its threads copied; `None` where CPUs did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contention: Option<Contention>,
    /// Passes that took at least 1 ms longer than their thread's median.
    pub long_passes: u64,
    /// How much longer the longest of them took, ns.
    pub longest_more_ns: i64,
    /// What it cost to record an iteration, ns.
    pub recording_ns: f64,
    /// The same as a share of the shortest tenth of iterations.
    pub recording_share: f64,
    /// Memory that a thread's passes go through, of what is read and of what is written, bytes.
    pub window_bytes: [u64; 2],
    /// Sizes of the machine's parts.
    pub sizes: Sizes,
    /// Wall bandwidth of each trial that counts, bytes a second; of a cell alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trials_bytes_s: Vec<f64>,
}

/// How long two threads were in a pass at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "overlap")]
pub struct Overlap {
    /// Numbers of the threads, from 0.
    pub threads: [u32; 2],
    /// The share of the shorter one's time in passes.
    pub share: f64,
}
