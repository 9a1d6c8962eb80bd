// SPDX-License-Identifier: MIT OR Apache-2.0
//! When and on which CPU, in one reading of some nanoseconds. On x86 it is the counter of the CPU
//! (`rdtscp`), where the kernel itself takes it for a clock that all CPUs share; elsewhere the
//! kernel's clock.

use crate::clock;
use crate::thread;
use std::fs;
use tardy_model::time::{Instant, Tai};

/// One reading of a marker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// In the marker's own unit.
    pub ticks: u64,
    pub cpu: u32,
}

/// By what readings are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marker {
    /// By `rdtscp`, which the kernel's own clock is made of.
    Counter,
    /// CLOCK_TAI, and a question for the CPU.
    Clock,
}

impl Marker {
    /// The faster one that this machine has.
    pub fn of_this_machine() -> Marker {
        let source = fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource");
        let is_kernels = source.is_ok_and(|source| source.trim() == "tsc");
        if is_kernels && has_rdtscp() { Marker::Counter } else { Marker::Clock }
    }

    /// Reads time and CPU of the calling thread.
    #[inline]
    pub fn mark(self) -> Mark {
        match self {
            Marker::Counter => counter(),
            Marker::Clock => Mark { ticks: clock::now::<Tai>().ns().max(0) as u64, cpu: thread::current_cpu() },
        }
    }

    /// A reading between two of the clock: the narrowest of several.
    pub fn with_clock(self) -> Tied {
        let tied = || {
            let before = clock::now::<Tai>();
            let mark = self.mark();
            let after = clock::now::<Tai>();
            Tied { ticks: mark.ticks, tai_ns: before.ns() + (after - before).0 / 2, width_ns: (after - before).0 }
        };
        (0..32).map(|_| tied()).fold(tied(), |best, next| if next.width_ns < best.width_ns { next } else { best })
    }
}

/// A reading with the clock's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tied {
    pub ticks: u64,
    pub tai_ns: i64,
    /// The clock's two readings were so far apart.
    pub width_ns: i64,
}

impl Tied {
    /// The instant of a reading, by two that were tied to the clock.
    pub fn instant(first: Tied, last: Tied, ticks: u64) -> Instant<Tai> {
        let span = i128::from(last.ticks) - i128::from(first.ticks);
        let after = i128::from(ticks) - i128::from(first.ticks);
        let of_clock = i128::from(last.tai_ns) - i128::from(first.tai_ns);
        let ns = if span > 0 { after * of_clock / span } else { 0 };
        Instant::from_ns(first.tai_ns.saturating_add(i64::try_from(ns).unwrap_or(0)))
    }
}

#[cfg(target_arch = "x86_64")]
fn has_rdtscp() -> bool {
    use std::arch::x86_64::__cpuid;
    const EXTENDED: u32 = 0x8000_0001;
    __cpuid(0x8000_0000).eax >= EXTENDED && __cpuid(EXTENDED).edx & (1 << 27) != 0
}

#[cfg(not(target_arch = "x86_64"))]
fn has_rdtscp() -> bool {
    false
}

/// The counter and, from what Linux writes next to it, the CPU.
#[cfg(target_arch = "x86_64")]
#[inline]
fn counter() -> Mark {
    let mut of_cpu = 0;
    // SAFETY: `of_cpu` is writable; `of_this_machine` has looked whether the instruction is there.
    let ticks = unsafe { std::arch::x86_64::__rdtscp(&mut of_cpu) };
    // The node is above the CPU's twelve bits.
    Mark { ticks, cpu: of_cpu & 0xfff }
}

#[cfg(not(target_arch = "x86_64"))]
fn counter() -> Mark {
    Marker::Clock.mark()
}
