// SPDX-License-Identifier: MIT OR Apache-2.0
//! Waiting for a packet at several sockets at once.

use super::socket::Socket;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// How it is waited, ready for these sockets.
#[derive(Debug)]
pub enum Waiter {
    Poll(Vec<libc::pollfd>),
    /// Descriptors below FD_SETSIZE.
    Select(Vec<i32>),
    Epoll(OwnedFd),
}

/// The word for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitBy {
    Poll,
    Select,
    Epoll,
}

impl Waiter {
    /// For these sockets.
    ///
    /// # Errors
    /// The kernel's; EINVAL for a descriptor beyond what `select()` can name.
    pub fn new(by: WaitBy, sockets: &[Socket]) -> io::Result<Waiter> {
        let all = || sockets.iter().map(AsRawFd::as_raw_fd);
        match by {
            WaitBy::Poll => {
                Ok(Waiter::Poll(all().map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 }).collect()))
            }
            WaitBy::Select if all().any(|fd| fd as usize >= libc::FD_SETSIZE) => {
                Err(io::Error::from_raw_os_error(libc::EINVAL))
            }
            WaitBy::Select => Ok(Waiter::Select(all().collect())),
            WaitBy::Epoll => {
                // SAFETY: takes a number only.
                let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
                if fd < 0 {
                    return Err(io::Error::last_os_error());
                }
                // SAFETY: the descriptor was made just now and has no other owner.
                let epoll = unsafe { OwnedFd::from_raw_fd(fd) };
                for socket in all() {
                    let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 0 };
                    // SAFETY: `event` is valid; the kernel copies it.
                    if unsafe { libc::epoll_ctl(fd, libc::EPOLL_CTL_ADD, socket, &mut event) } < 0 {
                        return Err(io::Error::last_os_error());
                    }
                }
                Ok(Waiter::Epoll(epoll))
            }
        }
    }

    /// Sleeps until a socket is readable or has an error; false if the limit passed or a signal
    /// came.
    #[inline]
    pub fn wait(&mut self, limit_ms: i32) -> bool {
        match self {
            // SAFETY: the kernel reads and writes as many entries as there are.
            Waiter::Poll(all) => unsafe { libc::poll(all.as_mut_ptr(), all.len() as libc::nfds_t, limit_ms) > 0 },
            Waiter::Select(all) => select(all, limit_ms),
            Waiter::Epoll(epoll) => {
                let mut event = libc::epoll_event { events: 0, u64: 0 };
                // SAFETY: room for one event.
                unsafe { libc::epoll_wait(epoll.as_raw_fd(), &mut event, 1, limit_ms) > 0 }
            }
        }
    }
}

fn select(all: &[i32], limit_ms: i32) -> bool {
    let limit_ms = i64::from(limit_ms);
    // SAFETY: fd_set is plain bits; all zero is the empty set.
    let mut set: libc::fd_set = unsafe { std::mem::zeroed() };
    let mut limit = libc::timeval { tv_sec: limit_ms / 1_000, tv_usec: limit_ms % 1_000 * 1_000 };
    let mut beyond = 0;
    for fd in all {
        // SAFETY: `Waiter::new` has checked that the descriptor is below FD_SETSIZE.
        unsafe { libc::FD_SET(*fd, &mut set) };
        beyond = beyond.max(fd + 1);
    }
    let none = std::ptr::null_mut();
    // SAFETY: set and limit are valid until the call returns.
    unsafe { libc::select(beyond, &mut set, none, none, &mut limit) > 0 }
}
