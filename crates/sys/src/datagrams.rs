// SPDX-License-Identifier: MIT OR Apache-2.0
//! Datagrams in bulk, without stamps: many in a call, between two sockets that know only each
//! other.

use crate::SysError;
use crate::call::{bind, connect, socket};
use crate::tcp::Buffers;
use crate::udp::set;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;
use std::{io, mem, ptr};

/// The most datagrams that one call moves.
pub const MOST: usize = 64;

/// One of the two sockets. It is connected, so strangers' packets never reach it.
pub struct Datagrams {
    fd: OwnedFd,
}

impl std::fmt::Debug for Datagrams {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Datagrams({})", self.fd.as_raw_fd())
    }
}

/// Memory for the datagrams of one call.
pub struct Batch {
    bytes: Vec<u8>,
    room: usize,
}

impl Batch {
    /// For [`MOST`] datagrams of at most `room` bytes, touched, so that no page fault waits for
    /// the loop.
    pub fn new(room: usize) -> Batch {
        let room = room.max(1);
        Batch { bytes: vec![0x5a; room * MOST], room }
    }
}

impl Datagrams {
    /// From `local` to `peer` and back. A call that waits returns after `limit`.
    ///
    /// # Errors
    /// If the address or port is not available.
    pub fn open(local: SocketAddr, peer: SocketAddr, buffers: Buffers, limit: Duration) -> Result<Self, SysError> {
        let fd = socket(local, libc::SOCK_DGRAM)?;
        buffers.set(&fd)?;
        bind(&fd, local)?;
        connect(&fd, peer)?;
        let limit = libc::timeval {
            tv_sec: limit.as_secs() as libc::time_t,
            tv_usec: libc::suseconds_t::from(limit.subsec_micros()),
        };
        set(&fd, libc::SOL_SOCKET, libc::SO_RCVTIMEO, &limit, "SO_RCVTIMEO")?;
        set(&fd, libc::SOL_SOCKET, libc::SO_SNDTIMEO, &limit, "SO_SNDTIMEO")?;
        Ok(Datagrams { fd })
    }

    /// Sends one datagram of each of these lengths, at most [`MOST`], cut at the batch's room;
    /// returns how many were taken.
    pub fn send(&self, batch: &mut Batch, lengths: &[usize]) -> io::Result<usize> {
        let n = lengths.len().min(MOST);
        let mut parts: [libc::iovec; MOST] = [libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 }; MOST];
        for (i, part) in parts.iter_mut().enumerate().take(n) {
            *part = libc::iovec {
                iov_base: batch.bytes[i * batch.room..].as_mut_ptr().cast(),
                iov_len: lengths[i].min(batch.room),
            };
        }
        let mut messages = headers(&mut parts);
        // SAFETY: the first `n` headers point at parts of `batch`, which stay for the length of
        // the call.
        let sent = unsafe { libc::sendmmsg(self.fd.as_raw_fd(), messages.as_mut_ptr(), n as u32, 0) };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(sent as usize) }
    }

    /// Takes what waits, at least one datagram, at most [`MOST`]: how many, and their bytes.
    /// `None` if the time limit passed.
    pub fn receive(&self, batch: &mut Batch) -> io::Result<Option<(usize, u64)>> {
        let mut parts: [libc::iovec; MOST] = [libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 }; MOST];
        for (part, room) in parts.iter_mut().zip(batch.bytes.chunks_mut(batch.room)) {
            *part = libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len() };
        }
        let mut messages = headers(&mut parts);
        let flags = libc::MSG_WAITFORONE;
        let (fd, first) = (self.fd.as_raw_fd(), messages.as_mut_ptr());
        // SAFETY: every header points at its own part of `batch`, which stays for the length of
        // the call.
        let came = unsafe { libc::recvmmsg(fd, first, MOST as u32, flags, ptr::null_mut()) };
        if came < 0 {
            let error = io::Error::last_os_error();
            let quiet = matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted);
            return if quiet { Ok(None) } else { Err(error) };
        }
        let bytes = messages[..came as usize].iter().map(|message| u64::from(message.msg_len)).sum();
        Ok(Some((came as usize, bytes)))
    }
}

/// A header for each part.
fn headers(parts: &mut [libc::iovec; MOST]) -> [libc::mmsghdr; MOST] {
    // SAFETY: mmsghdr is plain data; all zero is a header without address, control data and flags.
    let mut messages: [libc::mmsghdr; MOST] = unsafe { mem::zeroed() };
    for (message, part) in messages.iter_mut().zip(parts) {
        message.msg_hdr.msg_iov = part;
        message.msg_hdr.msg_iovlen = 1;
    }
    messages
}
