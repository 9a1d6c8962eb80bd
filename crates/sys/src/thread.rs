// SPDX-License-Identifier: MIT OR Apache-2.0
//! The calling thread: CPU, policy, locked memory, what it used. Setting and reading back are
//! separate calls, because what was asked is not what you have.

use crate::{SysError, check};
use std::thread::Builder;
use std::{io, mem};
use tardy_model::stream::Policy;
use tardy_model::time::Nanos;

/// The thread's id in the machine.
pub fn id() -> u32 {
    // SAFETY: gettid takes nothing and cannot fail.
    u32::try_from(unsafe { libc::gettid() }).unwrap_or(0)
}

/// The CPU that the thread runs on at this moment.
pub fn current_cpu() -> u32 {
    // SAFETY: takes nothing; a failure is −1, mapped to 0 below.
    u32::try_from(unsafe { libc::sched_getcpu() }).unwrap_or(0)
}

/// By how much the kernel may let sleeps of the calling thread end late, ns.
pub fn timer_slack_ns() -> Result<u64, SysError> {
    // SAFETY: takes no pointer; the arguments that this operation does not use are 0.
    let slack = unsafe { libc::prctl(libc::PR_GET_TIMERSLACK, 0, 0, 0, 0) };
    check(i64::from(slack), "prctl(PR_GET_TIMERSLACK)", || "this thread".into()).map(|slack| slack as u64)
}

/// Pins the calling thread to one CPU.
pub fn pin(cpu: u32) -> Result<(), SysError> {
    let on = || format!("CPU {cpu}");
    if cpu as usize >= libc::CPU_SETSIZE as usize {
        return Err(SysError {
            call: "sched_setaffinity",
            on: on(),
            source: io::Error::from_raw_os_error(libc::EINVAL),
        });
    }
    // SAFETY: cpu_set_t is plain bits; all zero is the empty set.
    let mut set: libc::cpu_set_t = unsafe { mem::zeroed() };
    // SAFETY: `cpu` is below CPU_SETSIZE, so the bit lies inside the set.
    unsafe { libc::CPU_SET(cpu as usize, &mut set) };
    // SAFETY: `set` is valid for its stated size; 0 is the calling thread.
    check(i64::from(unsafe { libc::sched_setaffinity(0, mem::size_of_val(&set), &set) }), "sched_setaffinity", on)?;
    Ok(())
}

/// CPUs that the calling thread may run on.
pub fn affinity() -> Result<Vec<u32>, SysError> {
    // SAFETY: as in `pin`.
    let mut set: libc::cpu_set_t = unsafe { mem::zeroed() };
    // SAFETY: `set` is valid and writable for its stated size; 0 is the calling thread.
    let result = unsafe { libc::sched_getaffinity(0, mem::size_of_val(&set), &mut set) };
    check(i64::from(result), "sched_getaffinity", || "this thread".into())?;
    // SAFETY: every index is below CPU_SETSIZE.
    Ok((0..libc::CPU_SETSIZE as usize)
        .filter(|cpu| unsafe { libc::CPU_ISSET(*cpu, &set) })
        .map(|cpu| cpu as u32)
        .collect())
}

/// Asks for a scheduling policy for the calling thread.
pub fn set_policy(policy: Policy) -> Result<(), SysError> {
    let on = || policy.to_string();
    let (number, priority) = match policy {
        Policy::Other => (libc::SCHED_OTHER, 0),
        Policy::Fifo(priority) => (libc::SCHED_FIFO, i32::from(priority)),
        Policy::Rr(priority) => (libc::SCHED_RR, i32::from(priority)),
        Policy::Deadline { runtime, deadline, period } => {
            let attr = libc::sched_attr {
                size: mem::size_of::<libc::sched_attr>() as u32,
                sched_policy: libc::SCHED_DEADLINE as u32,
                sched_runtime: runtime.0.max(0) as u64,
                sched_deadline: deadline.0.max(0) as u64,
                sched_period: period.0.max(0) as u64,
                // SAFETY: sched_attr is plain data; zero is a valid value for the rest.
                ..unsafe { mem::zeroed() }
            };
            // SAFETY: `attr` is valid and states its own size; 0 is the calling thread; flags 0.
            check(unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &attr, 0) }, "sched_setattr", on)?;
            return Ok(());
        }
    };
    let param = libc::sched_param { sched_priority: priority };
    // SAFETY: `param` is valid; 0 is the calling thread.
    check(i64::from(unsafe { libc::sched_setscheduler(0, number, &param) }), "sched_setscheduler", on)?;
    Ok(())
}

/// The calling thread's policy as the kernel has it.
pub fn policy() -> Result<Policy, SysError> {
    policy_of(0)
}

/// The scheduling policy of a thread of any process; 0 is the calling thread.
pub fn policy_of(tid: u32) -> Result<Policy, SysError> {
    let on = || if tid == 0 { "this thread".to_owned() } else { format!("thread {tid}") };
    // SAFETY: sched_attr is plain data.
    let mut attr: libc::sched_attr = unsafe { mem::zeroed() };
    let size = mem::size_of_val(&attr);
    // SAFETY: `attr` is writable for `size` bytes; the kernel looks the number up; flags 0.
    let result = unsafe { libc::syscall(libc::SYS_sched_getattr, tid, &mut attr, size, 0) };
    check(result, "sched_getattr", on)?;
    let priority = attr.sched_priority as u8;
    Ok(match attr.sched_policy as i32 {
        libc::SCHED_FIFO => Policy::Fifo(priority),
        libc::SCHED_RR => Policy::Rr(priority),
        libc::SCHED_DEADLINE => Policy::Deadline {
            runtime: Nanos(attr.sched_runtime as i64),
            deadline: Nanos(attr.sched_deadline as i64),
            period: Nanos(attr.sched_period as i64),
        },
        _ => Policy::Other,
    })
}

/// Locks all memory of the process, present and to come, so that no page fault falls into a
/// measurement.
pub fn lock_memory() -> Result<(), SysError> {
    // SAFETY: takes flags only.
    let result = unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE) };
    check(i64::from(result), "mlockall", || "this process".into())?;
    Ok(())
}

/// CPU time that the calling thread has used since it started.
pub fn cpu_time() -> Nanos {
    let mut ts = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `ts` is a valid, writable timespec; a thread's own CPU clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut ts) };
    Nanos(ts.tv_sec * 1_000_000_000 + ts.tv_nsec)
}

/// Gives the calling thread its own table of descriptors, in which only the standard ones are left
/// (Linux ≥ 5.9). In a table that threads share, each socket call counts the socket's users up and
/// down again, by two atomic operations in the kernel. What the thread opened before is gone for
/// it, and stays open in the table of the others.
///
/// # Errors
/// If the kernel refuses; then nothing has changed.
pub fn own_descriptors() -> Result<(), SysError> {
    // SAFETY: takes numbers only. The descriptors that it closes are copies that nobody owns: the
    // owners' are in the table that was shared.
    let result = unsafe { libc::syscall(libc::SYS_close_range, 3u32, u32::MAX, libc::CLOSE_RANGE_UNSHARE) };
    check(result, "close_range", || "this thread".into())?;
    Ok(())
}

/// Threads that close sockets at the same time, at most.
const CLOSERS: usize = 32;
/// Each of them needs little.
const CLOSER_STACK: usize = 64 << 10;

/// Closes sockets at the same time. The kernel waits for a grace period of RCU in each close of a
/// packet socket or of one of AF_XDP, some milliseconds, and all that wait together wait for the
/// same one.
pub fn close_together<S: Send>(mut sockets: Vec<S>) {
    let each = sockets.len().div_ceil(CLOSERS).max(1);
    std::thread::scope(|scope| {
        while sockets.len() > each {
            let share = sockets.split_off(sockets.len() - each);
            // A share without a thread is closed here: it goes with what the thread was to do.
            let _ = Builder::new().stack_size(CLOSER_STACK).spawn_scoped(scope, move || drop(share));
        }
        drop(sockets);
    });
}
