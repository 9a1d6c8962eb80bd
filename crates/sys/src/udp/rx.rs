// SPDX-License-Identifier: MIT OR Apache-2.0
//! The receiving socket with its ways to wait: one packet a call, or all that wait, up to a batch.

use super::strangers::{Strangers, share_port};
use super::{BATCH, UdpTx, buffer, get_int, memory, set};
use crate::address::{bind, connect, socket};
use crate::call;
use crate::control::ControlBuffer;
use crate::error::SysError;
use crate::stamps::{TxStamps, rx_stamp, rx_tag};
use crate::wait::{self, LIMIT_MS, Waiter};
use std::io;
use std::mem;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use tardy_model::ethernet::{self, Tags, Taken};
use tardy_model::time::{Instant, Realtime};

/// What a receive call brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// So many datagrams, at least one, in the [`Inbox`].
    Packets(usize),
    /// There is nothing to be read.
    Nothing,
    /// The wait's own time limit passed.
    TimedOut,
}

/// Room for the datagrams of one receive call.
pub struct Inbox {
    bytes: Vec<u8>,
    room: usize,
    places: [Place; BATCH],
}

/// What is known of the datagram at a place. It lies together: a loop looks at one place as a rule, and has lost the CPU's caches to the
/// kernel each time.
#[derive(Clone, Copy)]
struct Place {
    length: usize,
    /// Where the payload begins, in what was received.
    start: usize,
    stamp: Option<Instant<Realtime>>,
    /// The tag that the kernel has taken out of a frame.
    taken: Option<Taken>,
    tags: Tags,
}

impl Inbox {
    /// For [`BATCH`] datagrams of at most `room` bytes; longer ones are cut there. The memory is written, so that no page
    /// fault waits for the loop.
    pub fn new(room: usize) -> Self {
        let mut bytes = vec![1; room * BATCH];
        bytes.fill(0);
        let empty = Place { length: 0, start: 0, stamp: None, taken: None, tags: Tags::UNSEEN };
        Inbox { bytes, room, places: [empty; BATCH] }
    }

    /// Puts a datagram in at place `n`, cut at the room.
    pub fn put(&mut self, n: usize, payload: &[u8], stamp: Option<Instant<Realtime>>) {
        let length = payload.len().min(self.room);
        self.bytes[n * self.room..][..length].copy_from_slice(&payload[..length]);
        self.came(n, length, stamp);
    }

    /// Says how long the datagram at place `n` is, and when it came.
    #[inline]
    fn came(&mut self, n: usize, length: usize, stamp: Option<Instant<Realtime>>) {
        let place = &mut self.places[n];
        (place.length, place.stamp) = (length, stamp);
    }

    /// The memory of place `n`, and its length there; a message that comes in pieces is gathered there.
    #[inline]
    pub(crate) fn place(&mut self, n: usize, length: usize) -> &mut [u8] {
        self.places[n].length = length.min(self.room);
        &mut self.bytes[n * self.room..][..length.min(self.room)]
    }

    /// Says when the message at place `n` came.
    #[inline]
    pub(crate) fn stamp(&mut self, n: usize, stamp: Option<Instant<Realtime>>) {
        self.places[n].stamp = stamp;
    }

    /// Says what VLAN tags the packet at place `n` came with.
    pub fn tag(&mut self, n: usize, tags: Tags) {
        self.places[n].tags = tags;
    }

    /// Takes the frame at place `n` apart: from now on its payload alone is there, and its tags are known. A frame of another
    /// type has no payload.
    #[inline]
    pub fn open(&mut self, n: usize, ethertype: u16) {
        let (frame, taken) = self.frame(n);
        let (start, tags) = ethernet::open(frame, taken, ethertype).unwrap_or((frame.len(), Tags::UNSEEN));
        let length = ethernet::unfilled(&frame[start..]).len();
        let place = &mut self.places[n];
        (place.start, place.length, place.tags) = (start, length, tags);
    }

    /// The frame at place `n` as it lies there, before it is taken apart, and the tag that the kernel took out of it.
    #[inline]
    pub fn frame(&self, n: usize) -> (&[u8], Option<Taken>) {
        let place = &self.places[n];
        (&self.bytes[n * self.room..][..place.length], place.taken)
    }

    /// The datagram at place `n`, and the kernel's stamp if it took one.
    #[inline]
    pub fn packet(&self, n: usize) -> (&[u8], Option<Instant<Realtime>>) {
        let place = &self.places[n];
        (&self.bytes[n * self.room + place.start..][..place.length], place.stamp)
    }

    /// The VLAN tags that the packet at place `n` came with.
    #[inline]
    pub fn tags(&self, n: usize) -> Tags {
        self.places[n].tags
    }
}

/// The receiving end. A packet socket is received from in the same way ([`crate::packet::receiver`]).
pub struct UdpRx {
    fd: OwnedFd,
    stamped: bool,
    /// The kernel says which VLAN tag it has taken out of a frame.
    tells_tags: bool,
    /// Shut down: from now on a receive call may give no byte where there is no datagram.
    woken: Arc<AtomicBool>,
    limit_ms: i32,
    control: [ControlBuffer<128>; BATCH],
    /// Who gets what others than the peer send, where the socket is connected.
    strangers: Option<Strangers>,
}

impl UdpRx {
    /// A socket bound to `local`; `stamp` asks for the kernel's stamps.
    pub fn open(local: SocketAddr, stamp: bool, receive_buffer_bytes: i32) -> Result<Self, SysError> {
        let fd = socket(local, libc::SOCK_DGRAM)?;
        buffer(&fd, libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, receive_buffer_bytes, "SO_RCVBUF")?;
        bind(&fd, local)?;
        UdpRx::over(fd, stamp, false)
    }

    /// Both directions through one socket, bound to `local` and connected to `peer`, which must do the same: the kernel finds it at once
    /// and has less in its caches than with two. Nothing of its sending is stamped. What others send is counted.
    ///
    /// # Errors
    /// As [`UdpRx::open`].
    pub fn open_both(
        local: SocketAddr,
        peer: SocketAddr,
        priority: u32,
        stamp: bool,
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
        let from = UdpRx { strangers: Some(strangers), ..UdpRx::over(fd, stamp, false)? };
        Ok((to, from))
    }

    /// Datagrams of others than the peer since the last call; 0 of a socket that is not connected, which receives them itself.
    pub fn strangers(&mut self) -> u64 {
        self.strangers.as_mut().map_or(0, Strangers::count)
    }

    /// On a socket that is bound: asks for stamps, and limits the wait of a call.
    pub(crate) fn over(fd: OwnedFd, stamp: bool, tells_tags: bool) -> Result<Self, SysError> {
        if stamp {
            let flags = libc::SOF_TIMESTAMPING_SOFTWARE | libc::SOF_TIMESTAMPING_RX_SOFTWARE;
            set(&fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, &flags, "SO_TIMESTAMPING")?;
        }
        let (woken, control) = (Arc::default(), [ControlBuffer::default(); BATCH]);
        let mut socket = UdpRx { fd, stamped: stamp, tells_tags, woken, limit_ms: LIMIT_MS, control, strangers: None };
        socket.limit(LIMIT_MS)?;
        Ok(socket)
    }

    /// A wait returns after so many milliseconds without a datagram, fewer than a second.
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

    /// The NAPI context that packets came from; 0 while there is none, and then busy polling polls nothing.
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

    /// Receives into the inbox, one datagram or, with `many`, all that wait; with `wait` it sleeps until one comes, the
    /// time limit passes, or it is woken. To ask for many costs a look at an empty queue where there is only one.
    #[inline]
    pub fn receive(&mut self, inbox: &mut Inbox, wait: bool, many: bool) -> Result<Received, i32> {
        let got = if many { self.receive_many(inbox, wait) } else { self.receive_one(inbox, wait) };
        match got {
            // Shut down by `Waker`; the loop looks at its stop flag.
            Ok(0) => Ok(Received::Nothing),
            Ok(packets) => Ok(Received::Packets(packets)),
            Err(libc::EAGAIN) if wait => Ok(Received::TimedOut),
            // Nobody listens at a connected socket's peer: what was sent is lost, and the next packet may come all the same.
            Err(libc::EAGAIN | libc::EINTR | libc::ECONNREFUSED) => Ok(Received::Nothing),
            Err(errno) => Err(errno),
        }
    }

    #[inline]
    fn receive_one(&mut self, inbox: &mut Inbox, wait: bool) -> Result<usize, i32> {
        if !self.stamped && !self.tells_tags {
            return self.receive_unstamped(inbox, wait);
        }
        let mut io = libc::iovec { iov_base: inbox.bytes.as_mut_ptr().cast(), iov_len: inbox.room };
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
        inbox.came(0, length, rx_stamp(&message));
        if self.tells_tags {
            inbox.places[0].taken = rx_tag(&message);
        }
        Ok(1)
    }

    /// Where no control message comes, the kernel needs no message header to be copied in and out.
    #[inline]
    fn receive_unstamped(&mut self, inbox: &mut Inbox, wait: bool) -> Result<usize, i32> {
        let flags = if wait { 0 } else { libc::MSG_DONTWAIT };
        let room = inbox.room;
        let length = call::recv(&self.fd, &mut inbox.bytes[..room], flags)?;
        if length == 0 && self.woken.load(Relaxed) {
            return Ok(0);
        }
        inbox.came(0, length, None);
        Ok(1)
    }

    fn receive_many(&mut self, inbox: &mut Inbox, wait: bool) -> Result<usize, i32> {
        let mut io = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: inbox.room }; BATCH];
        // SAFETY: mmsghdr is plain data.
        let mut messages: [libc::mmsghdr; BATCH] = unsafe { mem::zeroed() };
        for (n, message) in messages.iter_mut().enumerate() {
            io[n].iov_base = inbox.bytes[n * inbox.room..].as_mut_ptr().cast();
            message.msg_hdr.msg_iov = &raw mut io[n];
            message.msg_hdr.msg_iovlen = 1;
            message.msg_hdr.msg_control = self.control[n].0.as_mut_ptr().cast();
            message.msg_hdr.msg_controllen = self.control[n].0.len();
        }
        let flags = if wait { libc::MSG_WAITFORONE } else { libc::MSG_DONTWAIT };
        let no_timeout = std::ptr::null_mut();
        // SAFETY: the array has BATCH headers, each with a buffer of `room` bytes and a control buffer of its own.
        let got =
            unsafe { libc::recvmmsg(self.fd.as_raw_fd(), messages.as_mut_ptr(), BATCH as u32, flags as _, no_timeout) };
        let got = usize::try_from(got).map_err(|_| errno())?;
        let mut packets = 0;
        for message in &messages[..got] {
            let length = message.msg_len as usize;
            if self.is_none(&message.msg_hdr, length) {
                continue;
            }
            inbox.came(packets, length, rx_stamp(&message.msg_hdr));
            if self.tells_tags {
                inbox.places[packets].taken = rx_tag(&message.msg_hdr);
            }
            packets += 1;
        }
        Ok(packets)
    }

    /// What a socket that was shut down gives: no byte, no control message. A stranger's empty datagram without stamps looks the
    /// same, and is one.
    fn is_none(&self, message: &libc::msghdr, length: usize) -> bool {
        length == 0 && message.msg_controllen == 0 && self.woken.load(Relaxed)
    }

    /// Waits until the socket says that it is readable. False if the time limit passed.
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
        // SAFETY: takes numbers only. An unconnected UDP socket answers ENOTCONN and wakes its waiters all the same.
        unsafe { libc::shutdown(self.fd.as_raw_fd(), libc::SHUT_RD) };
    }
}
