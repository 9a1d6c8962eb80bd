// SPDX-License-Identifier: MIT OR Apache-2.0
//! What comes to the port of a connected socket from others than its peer: the kernel keeps it
//! from that socket, so a second one, of the same port and connected to nobody, counts it.

use super::{memory, set};
use crate::address::{bind, socket};
use crate::call;
use crate::error::SysError;
use std::mem;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

/// Lets more than one socket be bound to a port. Each must ask for it.
pub(super) fn share_port(fd: &OwnedFd) -> Result<(), SysError> {
    set(fd, libc::SOL_SOCKET, libc::SO_REUSEADDR, &1i32, "SO_REUSEADDR")
}

/// A socket of the same port as a connected one, for what comes from others than that one's peer.
/// It is only counted, so most of it need not be kept.
pub(super) struct Strangers {
    fd: OwnedFd,
    /// Those that it dropped and that were reported.
    dropped: u32,
}

/// Room for some datagrams.
const STRANGERS_BYTES: i32 = 64 << 10;
/// A count takes no more than this many out of the queue: it never has room for this many.
const MOST_STRANGERS: u64 = 1 << 16;

impl Strangers {
    pub(super) fn open(local: SocketAddr) -> Result<Self, SysError> {
        let fd = socket(local, libc::SOCK_DGRAM)?;
        share_port(&fd)?;
        set(&fd, libc::SOL_SOCKET, libc::SO_RCVBUF, &STRANGERS_BYTES, "SO_RCVBUF")?;
        bind(&fd, local)?;
        Ok(Strangers { fd, dropped: 0 })
    }

    /// Those since the last call: what lies in the queue, and what it had no room for.
    pub(super) fn count(&mut self) -> u64 {
        let mut byte = [0];
        let waiting =
            (0..MOST_STRANGERS).take_while(|_| call::recv(&self.fd, &mut byte, libc::MSG_DONTWAIT).is_ok()).count();
        let dropped = memory(&self.fd).map_or(self.dropped, |info| info[8]);
        let more = dropped.wrapping_sub(mem::replace(&mut self.dropped, dropped));
        waiting as u64 + u64::from(more)
    }
}
