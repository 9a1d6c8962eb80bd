// SPDX-License-Identifier: MIT OR Apache-2.0
//! TCP connections: made with a time limit, of either IP version, with buffers that are set before
//! the handshake, and what the kernel reports about one (TCP_INFO).

use crate::call::{bind, connect, socket};
use crate::udp::set;
use crate::{SysError, check};
use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;
use std::time::{Duration, Instant};

/// Sizes of a socket's buffers, bytes; `None` leaves the kernel's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Buffers {
    pub send: Option<u64>,
    pub receive: Option<u64>,
}

impl Buffers {
    /// Sets them, beyond the machine's limit where the right to is there.
    pub(crate) fn set(self, fd: &OwnedFd) -> Result<(), SysError> {
        let pairs = [
            (self.send, libc::SO_SNDBUFFORCE, libc::SO_SNDBUF, "SO_SNDBUF"),
            (self.receive, libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, "SO_RCVBUF"),
        ];
        for (bytes, force, plain, call) in pairs {
            let Some(bytes) = bytes else { continue };
            // The kernel doubles what it is given, for its own bookkeeping.
            let bytes = i32::try_from(bytes).unwrap_or(i32::MAX / 2);
            if set(fd, libc::SOL_SOCKET, force, &bytes, call).is_err() {
                set(fd, libc::SOL_SOCKET, plain, &bytes, call)?;
            }
        }
        Ok(())
    }
}

/// Waits until the descriptor can be written to, or read from; false when the time is up.
pub(crate) fn wait_for(fd: RawFd, events: i16, limit: Duration) -> io::Result<bool> {
    let until = Instant::now() + limit;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let mut poll = libc::pollfd { fd, events, revents: 0 };
        let ms = i32::try_from(left.as_millis().saturating_add(1)).unwrap_or(i32::MAX);
        // SAFETY: one valid, writable pollfd.
        match unsafe { libc::poll(&mut poll, 1, ms) } {
            1.. => return Ok(true),
            0 => return Ok(false),
            _ if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted && !left.is_zero() => {}
            _ => return Err(io::Error::last_os_error()),
        }
    }
}

/// Whether a connection can be made from here. The attempt leaves nothing behind.
///
/// # Errors
/// If the address or port is not available.
pub fn can_bind(local: SocketAddr) -> Result<(), SysError> {
    bind(&socket(local, libc::SOCK_STREAM)?, local)
}

/// A socket that waits for connections.
#[derive(Debug)]
pub struct Listener {
    fd: OwnedFd,
    local: SocketAddr,
}

impl Listener {
    /// Listens on `local`; connections that it accepts have these buffers.
    ///
    /// # Errors
    /// If the address or port is not available.
    pub fn open(local: SocketAddr, buffers: Buffers) -> Result<Listener, SysError> {
        let fd = socket(local, libc::SOCK_STREAM | libc::SOCK_NONBLOCK)?;
        // A port of the trial before, whose connections the kernel still remembers.
        set(&fd, libc::SOL_SOCKET, libc::SO_REUSEADDR, &1i32, "SO_REUSEADDR")?;
        buffers.set(&fd)?;
        bind(&fd, local)?;
        // SAFETY: takes numbers only.
        let result = unsafe { libc::listen(fd.as_raw_fd(), 16) };
        check(i64::from(result), "listen", || local.to_string())?;
        Ok(Listener { fd, local })
    }

    /// The next connection; `None` when the time is up.
    ///
    /// # Errors
    /// The kernel's.
    pub fn accept(&self, limit: Duration) -> Result<Option<Tcp>, SysError> {
        let failed = |source| SysError { call: "accept", on: self.local.to_string(), source };
        if !wait_for(self.fd.as_raw_fd(), libc::POLLIN, limit).map_err(failed)? {
            return Ok(None);
        }
        // SAFETY: null pointers ask for no address.
        let fd = unsafe { libc::accept4(self.fd.as_raw_fd(), ptr::null_mut(), ptr::null_mut(), libc::SOCK_CLOEXEC) };
        if fd < 0 {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::WouldBlock { Ok(None) } else { Err(failed(error)) };
        }
        // SAFETY: the descriptor was made just now and has no other owner.
        Ok(Some(Tcp { stream: TcpStream::from(unsafe { OwnedFd::from_raw_fd(fd) }) }))
    }
}

#[derive(Debug)]
pub struct Tcp {
    stream: TcpStream,
}

impl Tcp {
    /// Connects to `peer` from `from`'s address, whose port may be 0.
    ///
    /// # Errors
    /// If there is no connection within `limit`.
    pub fn connect(
        from: Option<SocketAddr>,
        peer: SocketAddr,
        buffers: Buffers,
        limit: Duration,
    ) -> Result<Tcp, SysError> {
        let fd = socket(peer, libc::SOCK_STREAM | libc::SOCK_NONBLOCK)?;
        buffers.set(&fd)?;
        if let Some(from) = from {
            bind(&fd, from)?;
        }
        let failed = |source| SysError { call: "connect", on: peer.to_string(), source };
        match connect(&fd, peer) {
            Err(error) if error.errno() == libc::EINPROGRESS => {
                if !wait_for(fd.as_raw_fd(), libc::POLLOUT, limit).map_err(failed)? {
                    return Err(failed(io::Error::from_raw_os_error(libc::ETIMEDOUT)));
                }
            }
            other => other?,
        }
        let stream = TcpStream::from(fd);
        if let Some(error) = stream.take_error().map_err(failed)? {
            return Err(failed(error));
        }
        stream.set_nonblocking(false).map_err(failed)?;
        Ok(Tcp { stream })
    }

    /// TCP_NODELAY: a short segment does not wait for the answer to the one before.
    pub fn no_delay(&self, on: bool) -> io::Result<()> {
        self.stream.set_nodelay(on)
    }

    /// A call that waits returns after this long, so that no loop depends on the peer to end.
    pub fn limit(&self, limit: Duration) -> io::Result<()> {
        self.stream.set_read_timeout(Some(limit))?;
        self.limit_sends(limit)
    }

    /// The same of send calls alone.
    pub fn limit_sends(&self, limit: Duration) -> io::Result<()> {
        self.stream.set_write_timeout(Some(limit))
    }

    /// One send call; 0 if the time limit passed with nothing taken.
    #[inline]
    pub fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        settled((&self.stream).write(bytes)).map(|sent| sent.unwrap_or(0))
    }

    /// One receive call: `None` if the time limit passed, 0 bytes if the peer has ended.
    #[inline]
    pub fn receive(&self, into: &mut [u8]) -> io::Result<Option<usize>> {
        settled((&self.stream).read(into))
    }

    /// Nothing more will be sent; what was is still delivered.
    pub fn end(&self) -> io::Result<()> {
        self.stream.shutdown(Shutdown::Write)
    }

    /// The address at the other side.
    pub fn peer(&self) -> Option<IpAddr> {
        self.stream.peer_addr().ok().map(|address| address.ip())
    }

    pub(crate) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// What the kernel knows of it.
    ///
    /// # Errors
    /// The kernel's.
    pub fn info(&self) -> Result<TcpInfo, SysError> {
        let mut bytes = [0u8; 512];
        let mut length = bytes.len() as u32;
        let (into, fd) = ((&raw mut bytes).cast(), self.stream.as_raw_fd());
        // SAFETY: `bytes` is writable for `length` bytes.
        let result = unsafe { libc::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_INFO, into, &mut length) };
        check(i64::from(result), "TCP_INFO", || "a connection".into())?;
        Ok(TcpInfo::read(&bytes[..length as usize]))
    }
}

/// A wait that timed out or was interrupted is no error.
#[inline]
fn settled(result: io::Result<usize>) -> io::Result<Option<usize>> {
    match result {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The parts of `struct tcp_info` (include/uapi/linux/tcp.h) that tardy reads. A kernel gives as
/// much of it as it knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpInfo {
    /// Segment size that it sends with, bytes.
    pub mss: u32,
    /// Retransmission timeout in force, µs.
    pub rto_us: u32,
    /// Smoothed round-trip time, µs.
    pub rtt_us: u32,
    /// Segments sent again since the connection began.
    pub retransmits: u64,
    /// Retransmission timeouts since then; `None` before Linux 6.7.
    pub timeouts: Option<u64>,
}

impl TcpInfo {
    /// Out of the kernel's bytes.
    fn read(bytes: &[u8]) -> TcpInfo {
        let u32_at = |at: usize| bytes.get(at..at + 4).and_then(|b| Some(u32::from_ne_bytes(b.try_into().ok()?)));
        let u16_at = |at: usize| bytes.get(at..at + 2).and_then(|b| Some(u16::from_ne_bytes(b.try_into().ok()?)));
        TcpInfo {
            rto_us: u32_at(8).unwrap_or(0),
            mss: u32_at(16).unwrap_or(0),
            rtt_us: u32_at(68).unwrap_or(0),
            retransmits: u64::from(u32_at(100).unwrap_or(0)),
            timeouts: u16_at(240).map(u64::from),
        }
    }
}
