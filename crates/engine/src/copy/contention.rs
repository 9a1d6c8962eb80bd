// SPDX-License-Identifier: MIT OR Apache-2.0
//! How long threads of the kernel wait for its own locks while they copy, by the tracepoints
//! `lock:contention_begin` and `contention_end`. tardy records them in a tracing instance of its
//! own, of those threads alone, and removes it afterwards.

pub mod lines;

use lines::LockWaits;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process;
use tardy_model::copy::Contention;
use tardy_sys::mark::{Marker, Tied};

/// Where tracefs is mounted, the usual place first.
const TRACEFS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
const INSTANCES: &str = "instances";
/// The names of instances begin so, and end with the process that made one.
const NAME: &str = "tardy-";
const EVENTS: [&str; 2] = ["contention_begin", "contention_end"];
/// What results name as their source.
const SOURCE: &str = "lock:contention_begin, lock:contention_end";
/// The threads of both tests are called `dma0chan1-copy0` or `dma0chan1-sg0`, as a filter of the
/// kernel's has it.
const FILTER: &str = "comm ~ \"dma*chan*-*\"";
/// The kernel's buffers of all CPUs together, KiB, and the least of each.
const BUFFERS_KIB: usize = 32 << 10;
const LEAST_KIB: usize = 256;
/// The kernel prints its own clock in microseconds.
const PRINTED_NS: i64 = 1_000;

/// A tracing instance that records, or why there is none.
pub struct Tracing {
    instance: Result<Instance, String>,
}

impl Tracing {
    /// Records from here on.
    pub fn start() -> Tracing {
        Tracing { instance: Instance::new() }
    }

    /// What was recorded. The instance is gone afterwards.
    pub fn finish(self) -> Contention {
        let finished = self.instance.and_then(|instance| instance.finish());
        let found = finished.unwrap_or_else(|why| Contention { why: Some(why), ..Contention::default() });
        Contention { source: SOURCE.to_owned(), ..found }
    }
}

/// An instance with the two events on. It is removed when it is dropped.
struct Instance {
    folder: PathBuf,
    /// The CPU's counter, tied to the clock, if the events have its readings.
    counter: Option<(Marker, Tied)>,
}

impl Instance {
    fn new() -> Result<Instance, String> {
        let tracefs = tracefs().ok_or_else(|| {
            format!("tracefs is not mounted, or may not be used: as root, mount -t tracefs tracefs {}", TRACEFS[0])
        })?;
        let lock = tracefs.join("events/lock");
        if let Some(event) = EVENTS.iter().find(|event| !lock.join(event).is_dir()) {
            return Err(format!("this kernel has no tracepoint lock:{event}; Linux has it since 5.19"));
        }
        remove_of_killed();
        let folder = tracefs.join(INSTANCES).join(format!("{NAME}{}", process::id()));
        fs::create_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let mut instance = Instance { folder, counter: None };
        instance.set_up()?;
        Ok(instance)
    }

    fn set(&self, file: &str, value: &str) -> Result<(), String> {
        let path = self.folder.join(file);
        fs::write(&path, value)
            .map_err(|error| format!("the kernel refuses \"{value}\" in {}: {error}", path.display()))
    }

    fn set_up(&mut self) -> Result<(), String> {
        let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get());
        self.set("buffer_size_kb", &(BUFFERS_KIB / cpus).clamp(LEAST_KIB, BUFFERS_KIB / 8).to_string())?;
        // The counter has nanoseconds where the kernel itself takes it for a clock of all CPUs.
        let marker = Marker::of_this_machine();
        if marker == Marker::Counter && self.set("trace_clock", "x86-tsc").is_ok() {
            self.counter = Some((marker, marker.with_clock()));
        } else {
            self.set("trace_clock", "mono")?;
        }
        for event in EVENTS {
            self.set(&format!("events/lock/{event}/filter"), FILTER)?;
            self.set(&format!("events/lock/{event}/enable"), "1")?;
        }
        self.set("tracing_on", "1")
    }

    fn finish(self) -> Result<Contention, String> {
        self.set("tracing_on", "0")?;
        let last = self.counter.map(|(marker, _)| marker.with_clock());
        let path = self.folder.join("trace");
        let failed = |error: std::io::Error| format!("{}: {error}", path.display());
        let mut waits = LockWaits::default();
        for line in BufReader::new(File::open(&path).map_err(failed)?).lines() {
            waits.push(&line.map_err(failed)?);
        }
        let ties = self.counter.zip(last).map(|((_, first), last)| (first, last));
        Ok(match ties {
            Some((first, last)) => waits.finish(1, |ticks| Tied::instant(first, last, ticks).ns()),
            None => waits.finish(PRINTED_NS, |ns| i64::try_from(ns).unwrap_or(i64::MAX)),
        })
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = self.set("events/enable", "0");
        let _ = fs::remove_dir(&self.folder);
    }
}

/// Removes the instances of processes that were killed: the folders that are gone.
pub fn remove_of_killed() -> Vec<PathBuf> {
    let mut gone = Vec::new();
    for entry in tracefs().map(|at| fs::read_dir(at.join(INSTANCES))).into_iter().flatten().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let process = name.strip_prefix(NAME).and_then(|process| process.parse::<u32>().ok());
        let is_dead = |process: u32| !Path::new("/proc").join(process.to_string()).exists();
        if process.is_some_and(is_dead) && fs::remove_dir(entry.path()).is_ok() {
            gone.push(entry.path());
        }
    }
    gone
}

/// Where tracefs is mounted, if this process may make instances there.
fn tracefs() -> Option<&'static Path> {
    TRACEFS.iter().map(Path::new).find(|at| at.join(INSTANCES).is_dir())
}
