// SPDX-License-Identifier: MIT OR Apache-2.0
//! Waiting until a socket, or any of several, is reported readable: `poll()`, `select()` or
//! `epoll_wait()`. What they report is a hint: a tx stamp that has come back makes each of them
//! return, and then there may be nothing to read.
//!
//! [`poke`] ends another thread's system call: a receive call without its own time limit saves the
//! kernel a timer that it sets up and takes down again for each packet.

use crate::udp::set;
use crate::{SysError, check};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Once;
use std::{io, mem};

/// After this long without a packet a wait returns, so that no loop depends on a packet to end.
pub const LIMIT_MS: i32 = 200;

/// Lets a blocking receive call on the socket return after this number of milliseconds, fewer than
/// a second.
pub(crate) fn limit(fd: &OwnedFd, limit_ms: i32) -> Result<(), SysError> {
    let limit = libc::timeval { tv_sec: 0, tv_usec: i64::from(limit_ms) * 1_000 };
    set(fd, libc::SOL_SOCKET, libc::SO_RCVTIMEO, &limit, "SO_RCVTIMEO")
}

#[derive(Debug)]
pub enum Waiter {
    Poll,
    Select,
    /// `epoll_wait()`, with its own descriptor, which knows the socket.
    Epoll(OwnedFd),
}

impl Waiter {
    /// For `select()` on a socket.
    ///
    /// # Errors
    /// EINVAL for a descriptor that is beyond what `select()` can name (FD_SETSIZE).
    pub fn select(of: &impl AsRawFd) -> Result<Waiter, SysError> {
        if of.as_raw_fd() as usize >= libc::FD_SETSIZE {
            let on = format!("descriptor {}, of {} that it can name", of.as_raw_fd(), libc::FD_SETSIZE);
            let source = io::Error::from_raw_os_error(libc::EINVAL);
            return Err(SysError { call: "select", on, source });
        }
        Ok(Waiter::Select)
    }

    /// For `epoll_wait()` on a socket, level-triggered.
    ///
    /// # Errors
    /// The kernel's.
    pub fn epoll(of: &impl AsRawFd) -> Result<Waiter, SysError> {
        Ok(Waiter::Epoll(epoll([of.as_raw_fd()])?))
    }

    /// Sleeps until the socket is reported readable, or to have an error or a stamp. False if the
    /// time limit passed.
    #[inline]
    pub fn wait(&self, of: &impl AsRawFd, limit_ms: i32) -> bool {
        match self {
            Waiter::Poll => {
                let mut poll = libc::pollfd { fd: of.as_raw_fd(), events: libc::POLLIN, revents: 0 };
                // SAFETY: one valid pollfd.
                unsafe { libc::poll(&mut poll, 1, limit_ms) > 0 }
            }
            Waiter::Select => {
                // SAFETY: the descriptor is below FD_SETSIZE, which was checked when this was made
                // for the socket.
                unsafe { select(&[of.as_raw_fd()], limit_ms) }
            }
            Waiter::Epoll(epoll) => epoll_wait(epoll, limit_ms),
        }
    }
}

/// The system call that waits, with what it waits on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitBy {
    Poll,
    Select,
    Epoll,
}

/// Waits for any of several sockets.
#[derive(Debug)]
pub struct AnyWaiter(Ways);

#[derive(Debug)]
enum Ways {
    Poll(Vec<libc::pollfd>),
    /// Descriptors, all below FD_SETSIZE (1,024).
    Select(Vec<RawFd>),
    Epoll(OwnedFd),
}

impl AnyWaiter {
    /// For these sockets.
    ///
    /// # Errors
    /// The kernel's; EINVAL for a descriptor beyond what `select()` can name.
    pub fn new(by: WaitBy, sockets: &[impl AsRawFd]) -> io::Result<AnyWaiter> {
        let all = || sockets.iter().map(AsRawFd::as_raw_fd);
        let ways = match by {
            WaitBy::Poll => Ways::Poll(all().map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 }).collect()),
            WaitBy::Select if all().any(|fd| fd as usize >= libc::FD_SETSIZE) => {
                return Err(io::Error::from_raw_os_error(libc::EINVAL));
            }
            WaitBy::Select => Ways::Select(all().collect()),
            WaitBy::Epoll => Ways::Epoll(epoll(all()).map_err(|error| error.source)?),
        };
        Ok(AnyWaiter(ways))
    }

    /// Sleeps until a socket is readable or has an error; false if the limit passed or a signal
    /// came.
    #[inline]
    pub fn wait(&mut self, limit_ms: i32) -> bool {
        match &mut self.0 {
            // SAFETY: the kernel reads and writes as many entries as there are.
            Ways::Poll(all) => unsafe { libc::poll(all.as_mut_ptr(), all.len() as libc::nfds_t, limit_ms) > 0 },
            // SAFETY: `new` has checked that the descriptors are below FD_SETSIZE.
            Ways::Select(all) => unsafe { select(all, limit_ms) },
            Ways::Epoll(epoll) => epoll_wait(epoll, limit_ms),
        }
    }
}

/// A descriptor for `epoll_wait()` that knows these, level-triggered.
fn epoll(all: impl IntoIterator<Item = RawFd>) -> Result<OwnedFd, SysError> {
    // SAFETY: takes a number only.
    let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
    let fd = check(i64::from(fd), "epoll_create1", || "a socket".into())?;
    // SAFETY: the descriptor was made just now and has no other owner.
    let fd = unsafe { OwnedFd::from_raw_fd(fd as RawFd) };
    for socket in all {
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 0 };
        // SAFETY: `event` is valid; the kernel copies it.
        let result = unsafe { libc::epoll_ctl(fd.as_raw_fd(), libc::EPOLL_CTL_ADD, socket, &mut event) };
        check(i64::from(result), "epoll_ctl", || "a socket".into())?;
    }
    Ok(fd)
}

#[inline]
fn epoll_wait(epoll: &OwnedFd, limit_ms: i32) -> bool {
    let mut event = libc::epoll_event { events: 0, u64: 0 };
    // SAFETY: room for one event.
    unsafe { libc::epoll_wait(epoll.as_raw_fd(), &mut event, 1, limit_ms) > 0 }
}

/// # Safety
/// Each descriptor is below FD_SETSIZE.
#[inline]
unsafe fn select(all: &[RawFd], limit_ms: i32) -> bool {
    let limit_ms = i64::from(limit_ms);
    // SAFETY: fd_set is plain bits; all zero is the empty set.
    let mut set: libc::fd_set = unsafe { mem::zeroed() };
    let mut limit = libc::timeval { tv_sec: limit_ms / 1_000, tv_usec: limit_ms % 1_000 * 1_000 };
    let mut beyond = 0;
    for fd in all {
        // SAFETY: the caller's promise.
        unsafe { libc::FD_SET(*fd, &mut set) };
        beyond = beyond.max(fd + 1);
    }
    let none = std::ptr::null_mut();
    // SAFETY: set and time limit are valid until the call returns.
    unsafe { libc::select(beyond, &mut set, none, none, &mut limit) > 0 }
}

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
