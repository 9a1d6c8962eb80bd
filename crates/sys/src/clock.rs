// SPDX-License-Identifier: MIT OR Apache-2.0
//! Clocks: reading them, reading several at one moment, sleeping until an absolute instant.

use std::{mem, ptr};
use tardy_model::time::{Clock, ClockId, ClockReading, Instant, Monotonic, Realtime, Tai};

fn id(clock: ClockId) -> libc::clockid_t {
    match clock {
        ClockId::Tai => libc::CLOCK_TAI,
        ClockId::Realtime => libc::CLOCK_REALTIME,
        ClockId::Monotonic => libc::CLOCK_MONOTONIC,
    }
}

/// The instant now. Costs one vDSO call, no system call.
#[inline]
pub fn now<C: Clock>() -> Instant<C> {
    let mut ts = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `ts` is a valid, writable timespec; the three clocks exist on every Linux that tardy
    // runs on, so the call cannot fail.
    unsafe { libc::clock_gettime(id(C::ID), &mut ts) };
    Instant::from_ns(ts.tv_sec * 1_000_000_000 + ts.tv_nsec)
}

/// Sleeps until the instant has come. A signal does not end the sleep.
pub fn sleep_until(at: Instant<Tai>) {
    let ts = libc::timespec { tv_sec: at.ns().div_euclid(1_000_000_000), tv_nsec: at.ns().rem_euclid(1_000_000_000) };
    // SAFETY: `ts` is a valid timespec; with TIMER_ABSTIME the remaining time is not written, so
    // null is allowed.
    while unsafe { libc::clock_nanosleep(libc::CLOCK_TAI, libc::TIMER_ABSTIME, &ts, ptr::null_mut()) } == libc::EINTR {}
}

/// The kernel's TAI − UTC offset in seconds. Read only: tardy never sets a clock.
pub fn tai_offset_s() -> i32 {
    // SAFETY: timex is plain data; all zero (modes = 0) asks the kernel to change nothing.
    let mut timex: libc::timex = unsafe { mem::zeroed() };
    // SAFETY: `timex` is valid and writable for the call.
    unsafe { libc::adjtimex(&mut timex) };
    timex.tai
}

/// All clocks at one moment: the narrowest of several brackets.
pub fn read_clocks() -> ClockReading {
    let tai_offset_s = tai_offset_s();
    let bracket = || {
        let first = now::<Tai>();
        let realtime = now::<Realtime>();
        let monotonic = now::<Monotonic>();
        let last = now::<Tai>();
        let half = (last - first).0 / 2;
        ClockReading {
            tai_ns: first.ns() + half,
            realtime_ns: realtime.ns(),
            monotonic_ns: monotonic.ns(),
            bound_ns: half.abs().max(1),
            tai_offset_s,
        }
    };
    let first = bracket();
    (0..15).map(|_| bracket()).fold(first, |best, next| if next.bound_ns < best.bound_ns { next } else { best })
}
