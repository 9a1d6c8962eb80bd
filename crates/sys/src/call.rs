// SPDX-License-Identifier: MIT OR Apache-2.0
//! The socket calls of the measured loops, straight to the kernel. glibc's own are points where a
//! thread may be cancelled, and in a program with several threads each of them pays for that with
//! two atomic operations. On x86-64 the instruction is in the loop itself: when a call returns the
//! CPU's caches are full of the kernel's code, and the CPU has to wait at each place that it jumps
//! to.
//!
//! Also the control messages of such a call: an aligned buffer, and a walk over what the kernel put
//! in.

use std::os::fd::{AsRawFd, OwnedFd};
use std::{mem, ptr};

/// What a call returned, or errno.
#[inline(always)]
fn settled(result: libc::c_long) -> Result<usize, i32> {
    usize::try_from(result).map_err(|_| (-result) as i32)
}

/// A system call of six arguments; what the kernel returns, which is −errno if it fails.
///
/// # Safety
/// As the call's own.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn kernel(number: libc::c_long, args: [usize; 6]) -> libc::c_long {
    let result;
    // SAFETY: the registers of the kernel's calling convention; the kernel changes rax, rcx and
    // r11 alone, and only memory that the arguments name.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") number => result,
            in("rdi") args[0],
            in("rsi") args[1],
            in("rdx") args[2],
            in("r10") args[3],
            in("r8") args[4],
            in("r9") args[5],
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    result
}

/// The same through the C library.
///
/// # Safety
/// As the call's own.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
unsafe fn kernel(number: libc::c_long, [a, b, c, d, e, f]: [usize; 6]) -> libc::c_long {
    // SAFETY: the caller's promise.
    match unsafe { libc::syscall(number, a, b, c, d, e, f) } {
        -1 => -libc::c_long::from(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)),
        result => result,
    }
}

#[inline(always)]
fn number(fd: &OwnedFd) -> usize {
    fd.as_raw_fd() as usize
}

#[inline(always)]
pub(crate) fn send(fd: &OwnedFd, bytes: &[u8], flags: i32) -> Result<usize, i32> {
    let args = [number(fd), bytes.as_ptr() as usize, bytes.len(), flags as usize, 0, 0];
    // SAFETY: the kernel reads `bytes` within its length; a null address has no length.
    settled(unsafe { kernel(libc::SYS_sendto, args) })
}

#[inline(always)]
pub(crate) fn recv(fd: &OwnedFd, into: &mut [u8], flags: i32) -> Result<usize, i32> {
    let args = [number(fd), into.as_mut_ptr() as usize, into.len(), flags as usize, 0, 0];
    // SAFETY: `into` is writable for its length; no address is asked for.
    settled(unsafe { kernel(libc::SYS_recvfrom, args) })
}

/// `sendmsg()`.
///
/// # Safety
/// What `message` points at is readable until the call returns.
#[inline(always)]
pub(crate) unsafe fn sendmsg(fd: &OwnedFd, message: &libc::msghdr, flags: i32) -> Result<usize, i32> {
    let args = [number(fd), std::ptr::from_ref(message) as usize, flags as usize, 0, 0, 0];
    // SAFETY: the caller's promise.
    settled(unsafe { kernel(libc::SYS_sendmsg, args) })
}

/// `recvmsg()`.
///
/// # Safety
/// What `message` points at is writable for the sizes stated there until the call returns.
#[inline(always)]
pub(crate) unsafe fn recvmsg(fd: &OwnedFd, message: &mut libc::msghdr, flags: i32) -> Result<usize, i32> {
    let args = [number(fd), std::ptr::from_mut(message) as usize, flags as usize, 0, 0, 0];
    // SAFETY: the caller's promise.
    settled(unsafe { kernel(libc::SYS_recvmsg, args) })
}

/// Room for control messages, aligned as the kernel wants it.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
pub struct ControlBuffer<const N: usize>(pub [u8; N]);

impl<const N: usize> Default for ControlBuffer<N> {
    fn default() -> Self {
        ControlBuffer([0; N])
    }
}

/// Calls `each` with level, type and data of every control message.
#[inline]
pub(crate) fn for_each(message: &libc::msghdr, mut each: impl FnMut(i32, i32, &[u8])) {
    // SAFETY: `message` was filled by the kernel: control pointer and length describe initialised
    // memory, in which the CMSG macros stay; each message's length counts its header.
    unsafe {
        let mut at = libc::CMSG_FIRSTHDR(message);
        while !at.is_null() {
            let header = ptr::read(at);
            let length = (header.cmsg_len as usize).saturating_sub(libc::CMSG_LEN(0) as usize);
            each(header.cmsg_level, header.cmsg_type, std::slice::from_raw_parts(libc::CMSG_DATA(at), length));
            at = libc::CMSG_NXTHDR(message, at);
        }
    }
}

/// A plain value out of a control message's data, if it is long enough.
#[inline]
pub(crate) fn value<T: Plain>(data: &[u8]) -> Option<T> {
    // SAFETY: the length is checked; `Plain` types are valid for every bit pattern; the read is
    // unaligned.
    (data.len() >= mem::size_of::<T>()).then(|| unsafe { ptr::read_unaligned(data.as_ptr().cast()) })
}

/// Types that are valid for every bit pattern.
///
/// # Safety
/// Only for types without padding rules, references or niches.
pub(crate) unsafe trait Plain: Copy {}
// SAFETY: C structs of integers.
unsafe impl Plain for [libc::timespec; 3] {}
// SAFETY: as above.
unsafe impl Plain for libc::sock_extended_err {}
// SAFETY: as above.
unsafe impl Plain for libc::tpacket_auxdata {}
