// SPDX-License-Identifier: MIT OR Apache-2.0
//! UDP sockets with kernel stamps: the sender's with its error queue, the receiver's with its ways
//! to wait.

use crate::error::{SysError, check};
use std::mem;
use std::os::fd::{AsRawFd, OwnedFd};

mod rx;
mod tx;

pub use rx::{Heard, UdpRx, Waker};
pub use tx::UdpTx;

/// The most packets that one call moves.
pub const MOST: usize = 64;

pub(crate) fn set<T>(fd: &OwnedFd, level: i32, option: i32, value: &T, call: &'static str) -> Result<(), SysError> {
    // SAFETY: `value` is valid for its own size for the length of the call.
    let result = unsafe {
        libc::setsockopt(fd.as_raw_fd(), level, option, (&raw const *value).cast(), mem::size_of::<T>() as u32)
    };
    check(i64::from(result), call, || "a socket".into())?;
    Ok(())
}

pub(crate) fn get_int(fd: &OwnedFd, option: i32) -> i32 {
    let mut value: i32 = 0;
    let mut length = mem::size_of::<i32>() as u32;
    // SAFETY: `value` is writable for `length` bytes.
    unsafe { libc::getsockopt(fd.as_raw_fd(), libc::SOL_SOCKET, option, (&raw mut value).cast(), &mut length) };
    value
}

/// A socket's memory (SO_MEMINFO): bytes in the receive queue first, packets dropped last.
pub(crate) fn memory(fd: &OwnedFd) -> Option<[u32; 9]> {
    let mut info = [0u32; 9];
    let mut length = mem::size_of_val(&info) as u32;
    let into = (&raw mut info).cast();
    // SAFETY: `info` is writable for `length` bytes.
    let result = unsafe { libc::getsockopt(fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_MEMINFO, into, &mut length) };
    (result == 0).then_some(info)
}

/// Sets a buffer, beyond the machine's limit if the process has the right to, and returns how large
/// it became.
pub(crate) fn buffer(fd: &OwnedFd, force: i32, plain: i32, bytes: i32, call: &'static str) -> Result<u64, SysError> {
    if set(fd, libc::SOL_SOCKET, force, &bytes, call).is_err() {
        set(fd, libc::SOL_SOCKET, plain, &bytes, call)?;
    }
    Ok(get_int(fd, plain).max(0) as u64)
}
