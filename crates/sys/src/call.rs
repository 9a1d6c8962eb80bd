// SPDX-License-Identifier: MIT OR Apache-2.0
//! The socket calls of the measured loops, straight to the kernel. glibc's own are points where a
//! thread may be cancelled, and in a program with several threads each of them pays for that with
//! two atomic operations. On x86-64 the instruction is in the loop itself: when a call returns the
//! CPU's caches are full of the kernel's code, and the CPU has to wait at each place that it jumps
//! to.
//!
//! Also the control messages of such a call: an aligned buffer, and a walk over what the kernel put
//! in; and socket addresses as the kernel takes them, of both versions of IP.

use crate::{SysError, check};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
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
// SAFETY: as above.
unsafe impl Plain for libc::xdp_mmap_offsets {}
// SAFETY: as above.
unsafe impl Plain for libc::xdp_statistics {}
// SAFETY: as above.
unsafe impl Plain for libc::tpacket_stats {}
// SAFETY: as above.
unsafe impl Plain for libc::xdp_options {}

/// An address in the kernel's form.
pub(crate) struct Raw {
    storage: libc::sockaddr_storage,
    length: u32,
}

impl Raw {
    pub(crate) fn of(address: SocketAddr) -> Raw {
        // SAFETY: sockaddr_storage is plain data; all zero is a valid value.
        let mut raw = Raw { storage: unsafe { mem::zeroed() }, length: 0 };
        match address {
            SocketAddr::V4(address) => raw.put(libc::sockaddr_in {
                sin_family: libc::AF_INET as u16,
                sin_port: address.port().to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(address.ip().octets()) },
                sin_zero: [0; 8],
            }),
            SocketAddr::V6(address) => raw.put(libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as u16,
                sin6_port: address.port().to_be(),
                sin6_flowinfo: address.flowinfo(),
                sin6_addr: libc::in6_addr { s6_addr: address.ip().octets() },
                sin6_scope_id: address.scope_id(),
            }),
        }
        raw
    }

    fn put<T>(&mut self, address: T) {
        const { assert!(size_of::<T>() <= size_of::<libc::sockaddr_storage>()) };
        // SAFETY: sockaddr_storage is larger than every address and aligned for each; checked
        // above.
        unsafe { (&raw mut self.storage).cast::<T>().write(address) };
        self.length = size_of::<T>() as u32;
    }

    pub(crate) fn pointer(&self) -> *const libc::sockaddr {
        (&raw const self.storage).cast()
    }

    pub(crate) fn length(&self) -> u32 {
        self.length
    }
}

/// A socket of the address's family.
pub(crate) fn socket(of: SocketAddr, kind: i32) -> Result<OwnedFd, SysError> {
    socket_for(of, kind, 0)
}

/// The same for a protocol of IP that is not the kind's usual one.
pub(crate) fn socket_for(of: SocketAddr, kind: i32, protocol: i32) -> Result<OwnedFd, SysError> {
    let family = if of.is_ipv6() { libc::AF_INET6 } else { libc::AF_INET };
    // SAFETY: takes numbers only.
    let fd = unsafe { libc::socket(family, kind | libc::SOCK_CLOEXEC, protocol) };
    let fd = check(i64::from(fd), "socket", || of.to_string())?;
    // SAFETY: the descriptor was made just now and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

pub(crate) fn bind(fd: &OwnedFd, address: SocketAddr) -> Result<(), SysError> {
    let raw = Raw::of(address);
    // SAFETY: `raw` holds a valid address of the stated length.
    let result = unsafe { libc::bind(fd.as_raw_fd(), raw.pointer(), raw.length()) };
    check(i64::from(result), "bind", || address.to_string())?;
    Ok(())
}

pub(crate) fn connect(fd: &OwnedFd, address: SocketAddr) -> Result<(), SysError> {
    let raw = Raw::of(address);
    // SAFETY: `raw` holds a valid address of the stated length.
    let result = unsafe { libc::connect(fd.as_raw_fd(), raw.pointer(), raw.length()) };
    check(i64::from(result), "connect", || address.to_string())?;
    Ok(())
}
