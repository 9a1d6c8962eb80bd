// SPDX-License-Identifier: MIT OR Apache-2.0
//! The socket calls of the measured loops, straight to the kernel. glibc's own are points where a thread may be cancelled, and
//! in a program with several threads each of them pays for that with two atomic operations.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// What a call returned, or errno.
#[inline]
fn settled(result: libc::c_long) -> Result<usize, i32> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error().raw_os_error().unwrap_or(0))
}

/// `send()`.
#[inline]
pub(crate) fn send(fd: &OwnedFd, bytes: &[u8], flags: i32) -> Result<usize, i32> {
    let nobody = std::ptr::null::<libc::sockaddr>();
    // SAFETY: the kernel reads `bytes` within its length; a null address has no length.
    settled(unsafe {
        libc::syscall(libc::SYS_sendto, fd.as_raw_fd(), bytes.as_ptr(), bytes.len(), flags, nobody, 0usize)
    })
}

/// `recv()`.
#[inline]
pub(crate) fn recv(fd: &OwnedFd, into: &mut [u8], flags: i32) -> Result<usize, i32> {
    let (nobody, no_length) = (std::ptr::null::<libc::sockaddr>(), std::ptr::null::<libc::socklen_t>());
    // SAFETY: `into` is writable for its length; no address is asked for.
    settled(unsafe {
        libc::syscall(libc::SYS_recvfrom, fd.as_raw_fd(), into.as_mut_ptr(), into.len(), flags, nobody, no_length)
    })
}

/// `sendmsg()`.
///
/// # Safety
/// What `message` points at is readable until the call returns.
#[inline]
pub(crate) unsafe fn sendmsg(fd: &OwnedFd, message: &libc::msghdr, flags: i32) -> Result<usize, i32> {
    // SAFETY: the caller's promise.
    settled(unsafe { libc::syscall(libc::SYS_sendmsg, fd.as_raw_fd(), std::ptr::from_ref(message), flags) })
}

/// `recvmsg()`.
///
/// # Safety
/// What `message` points at is writable for the sizes stated there until the call returns.
#[inline]
pub(crate) unsafe fn recvmsg(fd: &OwnedFd, message: &mut libc::msghdr, flags: i32) -> Result<usize, i32> {
    // SAFETY: the caller's promise.
    settled(unsafe { libc::syscall(libc::SYS_recvmsg, fd.as_raw_fd(), std::ptr::from_mut(message), flags) })
}
