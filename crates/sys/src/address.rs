// SPDX-License-Identifier: MIT OR Apache-2.0
//! Socket addresses as the kernel takes them, of both versions of IP.

use crate::error::{SysError, check};
use std::mem;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

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
    let family = if of.is_ipv6() { libc::AF_INET6 } else { libc::AF_INET };
    // SAFETY: takes numbers only.
    let fd = unsafe { libc::socket(family, kind | libc::SOCK_CLOEXEC, 0) };
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
