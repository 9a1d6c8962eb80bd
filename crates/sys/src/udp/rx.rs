// SPDX-License-Identifier: MIT OR Apache-2.0
//! The receiving socket with its ways to wait: one packet a call, or all that wait, up to [`MOST`].
//!
//! The kernel keeps what others than the peer send to the port of a connected socket from that
//! socket. So a second one, of the same port and connected to nobody, counts it ([`Strangers`]).

use crate::SysError;
use crate::call::{self, ControlBuffer, bind, connect, socket};
use crate::stamps::{RxStamp, RxStamps, TxStamps, rx_aux, rx_stamp};
use crate::udp::{MOST, UdpTx, buffer, get_int, memory, set};
use crate::wait::{self, LIMIT_MS, Waiter};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::{io, mem};
use tardy_model::ethernet::Taken;
use tardy_model::time::{Instant, Realtime};

/// What a receive call reports about one datagram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Heard {
    pub length: usize,
    /// The kernel's stamp, if it took one.
    pub stamp: Option<Instant<Realtime>>,
    /// The device's, on its own clock, ns, if it took one.
    pub device_ns: Option<i64>,
    /// The VLAN tag that the kernel has taken out of a frame.
    pub taken: Option<Taken>,
    /// The checksum of UDP or TCP in a frame is still to be written, and the kernel knows it.
    pub is_unsummed: bool,
}

impl Heard {
    #[inline]
    fn came(&mut self, length: usize, stamp: RxStamp) {
        (self.length, self.stamp, self.device_ns) = (length, stamp.kernel, stamp.device_ns);
    }
}

/// The receiving end. A packet socket is received from in the same way
/// ([`crate::packet::receiver`]).
pub struct UdpRx {
    fd: OwnedFd,
    stamped: bool,
    /// The kernel reports which VLAN tag it has taken out of a frame.
    reports_tags: bool,
    /// Shut down: from now on a receive call may give no byte where there is no datagram.
    woken: Arc<AtomicBool>,
    limit_ms: i32,
    control: [ControlBuffer<128>; MOST],
    /// Who gets what others than the peer send, where the socket is connected.
    strangers: Option<Strangers>,
}

impl UdpRx {
    /// A socket bound to `local` that asks for these stamps.
    pub fn open(local: SocketAddr, stamps: RxStamps, receive_buffer_bytes: i32) -> Result<Self, SysError> {
        let fd = socket(local, libc::SOCK_DGRAM)?;
        buffer(&fd, libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, receive_buffer_bytes, "SO_RCVBUF")?;
        bind(&fd, local)?;
        UdpRx::over(fd, stamps, false)
    }

    /// Both directions through one socket, bound to `local` and connected to `peer`, which must do
    /// the same: the kernel finds it at once and has less in its caches than with two. Nothing of
    /// its sending is stamped. What others send is counted.
    ///
    /// # Errors
    /// As [`UdpRx::open`].
    pub fn open_both(
        local: SocketAddr,
        peer: SocketAddr,
        priority: u32,
        stamps: RxStamps,
        receive_buffer_bytes: i32,
    ) -> Result<(UdpTx, Self), SysError> {
        // The kernel looks at the newest socket of a port first.
        let strangers = Strangers::open(local)?;
        let fd = socket(local, libc::SOCK_DGRAM)?;
        share_port(&fd)?;
        bind(&fd, local)?;
        connect(&fd, peer)?;
        let same = fd.try_clone().map_err(|source| SysError { call: "dup", on: "a UDP socket".into(), source })?;
        let to = UdpTx::over(same, priority, TxStamps::default(), receive_buffer_bytes, None)?;
        let from = UdpRx { strangers: Some(strangers), ..UdpRx::over(fd, stamps, false)? };
        Ok((to, from))
    }

    /// Datagrams of others than the peer since the last call; 0 of a socket that is not connected,
    /// which receives them itself.
    pub fn strangers(&mut self) -> u64 {
        self.strangers.as_mut().map_or(0, Strangers::count)
    }

    /// On a socket that is bound: asks for stamps, and limits the wait of a call.
    pub(crate) fn over(fd: OwnedFd, stamps: RxStamps, reports_tags: bool) -> Result<Self, SysError> {
        if stamps.any() {
            set(&fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, &stamps.flags(), "SO_TIMESTAMPING")?;
        }
        let (woken, control) = (Arc::default(), [ControlBuffer::default(); MOST]);
        let mut socket =
            UdpRx { fd, stamped: stamps.any(), reports_tags, woken, limit_ms: LIMIT_MS, control, strangers: None };
        socket.limit(LIMIT_MS)?;
        Ok(socket)
    }

    /// A wait returns after this number of milliseconds without a datagram, fewer than a second.
    ///
    /// # Errors
    /// The kernel's.
    pub fn limit(&mut self, limit_ms: i32) -> Result<(), SysError> {
        self.limit_ms = limit_ms;
        wait::limit(&self.fd, limit_ms)
    }

    /// Lets the receive call poll the device for up to `us` microseconds.
    pub fn busy_poll(&self, us: i32) -> Result<(), SysError> {
        set(&self.fd, libc::SOL_SOCKET, libc::SO_PREFER_BUSY_POLL, &1i32, "SO_PREFER_BUSY_POLL")?;
        set(&self.fd, libc::SOL_SOCKET, libc::SO_BUSY_POLL, &us, "SO_BUSY_POLL")
    }

    /// The NAPI context that packets came from; 0 while there is none, and then busy polling polls
    /// nothing.
    pub fn napi_id(&self) -> u32 {
        get_int(&self.fd, libc::SO_INCOMING_NAPI_ID) as u32
    }

    /// Datagrams dropped at this socket so far.
    pub fn drops(&self) -> u32 {
        memory(&self.fd).map_or(0, |info| info[8])
    }

    /// The descriptor, for [`Waker`].
    pub fn waker(&self) -> Result<Waker, SysError> {
        let fd = self.fd.try_clone().map_err(|source| SysError { call: "dup", on: "a UDP socket".into(), source })?;
        Ok(Waker { fd, woken: self.woken.clone() })
    }

    /// Receives one datagram, which is cut at the room of `into`; with `wait` it sleeps until one
    /// comes, the time limit passes, or it is woken. Returns how many came: none if it was shut
    /// down by [`Waker`]; EAGAIN if there is nothing to be read, or the time limit passed.
    #[inline]
    pub fn receive(&mut self, into: &mut [u8], heard: &mut Heard, wait: bool) -> Result<usize, i32> {
        if !self.stamped && !self.reports_tags {
            return self.receive_unstamped(into, heard, wait);
        }
        let mut io = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
        // SAFETY: msghdr is plain data.
        let mut message: libc::msghdr = unsafe { mem::zeroed() };
        message.msg_iov = &raw mut io;
        message.msg_iovlen = 1;
        message.msg_control = self.control[0].0.as_mut_ptr().cast();
        message.msg_controllen = self.control[0].0.len();
        let flags = if wait { 0 } else { libc::MSG_DONTWAIT };
        // SAFETY: buffer and control memory are writable for their stated sizes.
        let length = unsafe { call::recvmsg(&self.fd, &mut message, flags) }?;
        if self.is_none(&message, length) {
            return Ok(0);
        }
        heard.came(length, rx_stamp(&message));
        if self.reports_tags {
            (heard.taken, heard.is_unsummed) = rx_aux(&message);
        }
        Ok(1)
    }

    /// Where no control message comes, the kernel needs no message header to be copied in and out.
    #[inline]
    fn receive_unstamped(&mut self, into: &mut [u8], heard: &mut Heard, wait: bool) -> Result<usize, i32> {
        let flags = if wait { 0 } else { libc::MSG_DONTWAIT };
        let length = call::recv(&self.fd, into, flags)?;
        if length == 0 && self.woken.load(Relaxed) {
            return Ok(0);
        }
        heard.came(length, RxStamp::default());
        Ok(1)
    }

    /// The same of all datagrams that wait, at most [`MOST`] and as many as `bytes` has room for,
    /// of `room` bytes each; what is reported about them goes to the first of `heard`. Where there
    /// is only one this costs a look at an empty queue.
    #[inline(never)]
    pub fn receive_many<'a>(
        &mut self,
        bytes: &mut [u8],
        room: usize,
        mut heard: impl Iterator<Item = &'a mut Heard>,
        wait: bool,
    ) -> Result<usize, i32> {
        let mut io = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: room }; MOST];
        // SAFETY: mmsghdr is plain data.
        let mut messages: [libc::mmsghdr; MOST] = unsafe { mem::zeroed() };
        let mut places = 0;
        for (into, (message, (io, control))) in
            bytes.chunks_exact_mut(room.max(1)).zip(messages.iter_mut().zip(io.iter_mut().zip(&mut self.control)))
        {
            io.iov_base = into.as_mut_ptr().cast();
            message.msg_hdr.msg_iov = &raw mut *io;
            message.msg_hdr.msg_iovlen = 1;
            message.msg_hdr.msg_control = control.0.as_mut_ptr().cast();
            message.msg_hdr.msg_controllen = control.0.len();
            places += 1;
        }
        let flags = if wait { libc::MSG_WAITFORONE } else { libc::MSG_DONTWAIT };
        let no_timeout = std::ptr::null_mut();
        // SAFETY: the first `places` headers have a buffer of `room` bytes and a control buffer
        // each of their own.
        let got = unsafe { libc::recvmmsg(self.fd.as_raw_fd(), messages.as_mut_ptr(), places, flags as _, no_timeout) };
        let got = usize::try_from(got).map_err(|_| errno())?;
        let mut packets = 0;
        for message in &messages[..got] {
            let length = message.msg_len as usize;
            if self.is_none(&message.msg_hdr, length) {
                continue;
            }
            let Some(heard) = heard.next() else { break };
            heard.came(length, rx_stamp(&message.msg_hdr));
            if self.reports_tags {
                (heard.taken, heard.is_unsummed) = rx_aux(&message.msg_hdr);
            }
            packets += 1;
        }
        Ok(packets)
    }

    /// What a socket that was shut down gives: no byte, no control message. A stranger's empty
    /// datagram without stamps looks the same, and is one.
    fn is_none(&self, message: &libc::msghdr, length: usize) -> bool {
        length == 0 && message.msg_controllen == 0 && self.woken.load(Relaxed)
    }

    /// Waits until the socket is reported readable. False if the time limit passed.
    #[inline]
    pub fn wait(&self, by: &Waiter) -> bool {
        by.wait(&self.fd, self.limit_ms)
    }

    /// For a wait by `select()`.
    ///
    /// # Errors
    /// As [`Waiter::select`].
    pub fn select(&self) -> Result<Waiter, SysError> {
        Waiter::select(&self.fd)
    }

    /// For a wait by `epoll_wait()`.
    ///
    /// # Errors
    /// The kernel's.
    pub fn epoll(&self) -> Result<Waiter, SysError> {
        Waiter::epoll(&self.fd)
    }
}

fn errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// Ends the wait of a receiver from another thread.
pub struct Waker {
    fd: OwnedFd,
    woken: Arc<AtomicBool>,
}

impl Waker {
    /// Wakes the receiver; nothing can be received on the socket any more.
    pub fn wake(&self) {
        self.woken.store(true, Relaxed);
        // SAFETY: takes numbers only. An unconnected UDP socket answers ENOTCONN and wakes its
        // waiters all the same.
        unsafe { libc::shutdown(self.fd.as_raw_fd(), libc::SHUT_RD) };
    }
}

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
