// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ends another thread's system call: a receive call without its own time limit saves the kernel a
//! timer that it sets up and takes down again for each packet.

use std::sync::Once;

/// Nobody else uses it here: the kernel sends it only to a socket owner that asks for it, and
/// by default it does nothing.
const SIGNAL: libc::c_int = libc::SIGURG;

extern "C" fn nothing(_: libc::c_int) {}

/// From now on a poked thread's call returns EINTR. Once for the whole process.
pub fn heed() {
    static HEEDED: Once = Once::new();
    HEEDED.call_once(|| {
        let handler: extern "C" fn(libc::c_int) = nothing;
        // SAFETY: sigaction is plain data; all zero is no flag, so that calls are not begun again,
        // and an empty mask.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = handler as libc::sighandler_t;
        // SAFETY: `action` is valid; the handler touches nothing, so it may run at any moment.
        unsafe { libc::sigaction(SIGNAL, &action, std::ptr::null_mut()) };
    });
}

/// Ends the call that a thread of this process sleeps in, if it does. One that is about to begin a
/// call is missed: poke again. A thread that has ended is no fault.
pub fn poke(tid: u32) {
    let process = std::process::id() as libc::pid_t;
    // SAFETY: takes numbers only.
    unsafe { libc::syscall(libc::SYS_tgkill, process, tid as libc::pid_t, SIGNAL) };
}
