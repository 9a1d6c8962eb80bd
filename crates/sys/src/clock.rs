// SPDX-License-Identifier: MIT OR Apache-2.0
//! Clocks: reading them, reading several at one moment, sleeping until an absolute instant;
//! and a network device's own clock (PTP hardware clock, `/dev/ptpN`), read together with the
//! system's.

use crate::{SysError, check};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::{mem, ptr};
use tardy_model::time::{
    Clock, ClockId, ClockReading, CounterReading, Instant, Monotonic, PhcReading, Realtime, Steering, Tai, Timex,
};

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

/// How fine the kernel's timers are, ns: 1 with high-resolution timers, else the length of a tick.
/// `None` if the kernel does not say.
pub fn timer_resolution_ns() -> Option<i64> {
    let mut ts = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `ts` is a valid, writable timespec.
    let got = unsafe { libc::clock_getres(libc::CLOCK_TAI, &mut ts) };
    (got == 0).then_some(ts.tv_sec * 1_000_000_000 + ts.tv_nsec)
}

/// What the kernel reports of its clock. Read only: tardy never sets a clock. `None` where it may
/// not be asked.
fn ask_kernel(modes: libc::c_uint) -> Option<libc::timex> {
    // SAFETY: timex is plain data, which may be all zero.
    let mut timex: libc::timex = unsafe { mem::zeroed() };
    timex.modes = modes;
    // SAFETY: `timex` is valid and writable for the call. Neither mode that is asked with changes
    // anything: 0, and ADJ_OFFSET_SS_READ.
    let answered = unsafe { libc::adjtimex(&mut timex) };
    (answered >= 0).then_some(timex)
}

/// The kernel's TAI − UTC offset in seconds.
pub fn tai_offset_s() -> i32 {
    ask_kernel(0).map_or(0, |timex| timex.tai)
}

/// From `include/uapi/linux/timex.h`: read what adjtime(3) still slews away.
const ADJ_OFFSET_SS_READ: libc::c_uint = 0xa001;
/// From the same file: the loop's offset is in nanoseconds.
const STA_NANO: libc::c_int = 0x2000;

/// How the kernel steers its clocks now; `None` where it may not be asked.
pub fn steering() -> Option<Steering> {
    let timex = ask_kernel(0)?;
    Steering::of(&Timex {
        freq: timex.freq,
        tick: timex.tick,
        offset: timex.offset,
        is_nano: timex.status & STA_NANO != 0,
        constant: timex.constant,
        adjusting_us: ask_kernel(ADJ_OFFSET_SS_READ)?.offset,
    })
}

/// All clocks at one moment: the narrowest of several brackets.
pub fn read_clocks() -> ClockReading {
    let (tai_offset_s, steering) = (tai_offset_s(), steering());
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
            steering,
        }
    };
    let first = bracket();
    (0..15).map(|_| bracket()).fold(first, |best, next| if next.bound_ns < best.bound_ns { next } else { best })
}

/// By how much TAI is ahead of CLOCK_BOOTTIME, ns, and by how much that may be wrong: the narrowest
/// of several brackets.
pub fn tai_minus_boottime() -> (i64, i64) {
    let bracket = || {
        let first = now::<Tai>().ns();
        let mut ts = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `ts` is a valid, writable timespec; the clock exists since Linux 2.6.39.
        unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &mut ts) };
        let half = (now::<Tai>().ns() - first) / 2;
        (first + half - ts.tv_sec * 1_000_000_000 - ts.tv_nsec, half.abs().max(1))
    };
    let first = bracket();
    (0..15).map(|_| bracket()).fold(first, |best, next| if next.1 < best.1 { next } else { best })
}

/// The processor's counter, when all instructions before have been carried out and before any
/// later one has begun.
#[cfg(target_arch = "x86_64")]
fn counter() -> u64 {
    use std::arch::x86_64::{_mm_lfence, _rdtsc};
    // SAFETY: every x86-64 processor has both instructions, and neither touches memory. The kernel
    // lets programs read the counter unless one asked it by prctl not to, which tardy does not.
    unsafe {
        _mm_lfence();
        let counter = _rdtsc();
        _mm_lfence();
        counter
    }
}

/// The processor's counter and CLOCK_TAI at one moment: the narrowest of several brackets. `None`
/// on a processor whose counter tardy does not read, or if the counter went back in all of them,
/// as it may between two processors.
pub fn read_counter() -> Option<CounterReading> {
    #[cfg(target_arch = "x86_64")]
    {
        let bracket = |_| {
            let before = counter();
            let tai_ns = now::<Tai>().ns();
            CounterReading { before, tai_ns, after: counter() }
        };
        let width = |of: &CounterReading| of.after.checked_sub(of.before);
        (0..8).map(bracket).filter(|of| width(of).is_some()).min_by_key(width)
    }
    #[cfg(not(target_arch = "x86_64"))]
    None
}

/// From `include/uapi/linux/ptp_clock.h`: `_IOWR('=', 9, struct ptp_sys_offset_extended)`.
const PTP_SYS_OFFSET_EXTENDED: libc::c_ulong = 0xc4c0_3d09;
/// PTP_MAX_SAMPLES: readings that the structure has room for.
const MOST: usize = 25;
/// Readings of which the narrowest counts.
const SAMPLES: u32 = 9;

#[repr(C)]
#[derive(Clone, Copy)]
struct ClockTime {
    sec: i64,
    nsec: u32,
    reserved: u32,
}

#[repr(C)]
struct SysOffsetExtended {
    samples: u32,
    reserved: [u32; 3],
    /// System's before, device's, system's after.
    times: [[ClockTime; 3]; MOST],
}

/// The clock of a device.
#[derive(Debug)]
pub struct Phc {
    file: File,
    path: String,
}

impl Phc {
    /// Opens the `index`th.
    ///
    /// # Errors
    /// If it is not there, or may not be read.
    pub fn open(index: i32) -> Result<Phc, SysError> {
        let path = format!("/dev/ptp{index}");
        match File::open(&path) {
            Ok(file) => Ok(Phc { file, path }),
            Err(source) => Err(SysError { call: "open", on: path, source }),
        }
    }

    /// The device's clock and CLOCK_REALTIME at one moment: the narrowest of several brackets.
    ///
    /// # Errors
    /// EOPNOTSUPP if the driver does not report when it reads the clock.
    pub fn read(&self) -> Result<PhcReading, SysError> {
        const { assert!(mem::size_of::<SysOffsetExtended>() == 0x4c0) };
        let none = ClockTime { sec: 0, nsec: 0, reserved: 0 };
        let mut asked = SysOffsetExtended { samples: SAMPLES, reserved: [0; 3], times: [[none; 3]; MOST] };
        // SAFETY: `asked` is the struct that this request reads and fills, and outlives the call.
        let result = unsafe { libc::ioctl(self.file.as_raw_fd(), PTP_SYS_OFFSET_EXTENDED, &raw mut asked) };
        check(i64::from(result), "PTP_SYS_OFFSET_EXTENDED", || self.path.clone())?;
        let ns = |time: ClockTime| time.sec * 1_000_000_000 + i64::from(time.nsec);
        let brackets = asked.times.iter().take(SAMPLES as usize).map(|[before, device, after]| {
            let (before, device, after) = (ns(*before), ns(*device), ns(*after));
            let half = (after - before) / 2;
            PhcReading { phc_ns: device, realtime_ns: before + half, bound_ns: half.abs().max(1) }
        });
        let first = PhcReading { phc_ns: 0, realtime_ns: 0, bound_ns: i64::MAX };
        Ok(brackets.fold(first, |best, next| if next.bound_ns < best.bound_ns { next } else { best }))
    }
}
