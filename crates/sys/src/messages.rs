// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages of a fixed size over a TCP connection, with the kernel's stamps: of the last byte of
//! each that was sent, and of the segment that completed each that came.

use crate::SysError;
use crate::call::{self, ControlBuffer};
use crate::stamps::{self, StampBuffers, TxStamp, TxStamps, rx_stamp};
use crate::tcp::{Tcp, TcpInfo};
use crate::udp::{Heard, buffer, get_int, memory, set};
use crate::wait::{LIMIT_MS, Waiter};
use std::mem;
use std::os::fd::OwnedFd;
use std::time::Duration;
use tardy_model::time::{Instant, Realtime};

/// A send call that the peer does not let through is given up after this number of time limits.
const PATIENCE: u32 = 50;

/// Counts bytes from the moment at which stamps were asked for (Linux ≥ 6.2).
const OPT_ID_TCP: u32 = 1 << 16;

pub struct MessagesTx {
    fd: OwnedFd,
    tcp: Tcp,
    /// Messages sent, and their bytes. The kernel's key of a stamp is the number of the last byte
    /// of its send call, modulo 2^32.
    messages: u32,
    bytes: u64,
    /// Bytes of a message; all have the same.
    size: u64,
    error_queue_bytes: u64,
    control: StampBuffers,
}

pub struct MessagesRx {
    fd: OwnedFd,
    size: usize,
    have: usize,
    stamped: bool,
    control: ControlBuffer<256>,
}

/// Makes both halves of a connection that is fresh: nothing has been sent on it. Messages that
/// come have `size` bytes. A receive call that waits has no time limit: who must end it pokes its
/// thread ([`crate::poke`]).
///
/// # Errors
/// The kernel's.
pub fn split(
    tcp: Tcp,
    size: usize,
    tx: TxStamps,
    rx: bool,
    error_queue_bytes: i32,
) -> Result<(MessagesTx, MessagesRx), SysError> {
    let failed = |source| SysError { call: "dup", on: "a connection".into(), source };
    crate::wait::heed();
    tcp.limit_sends(Duration::from_millis(LIMIT_MS as u64)).map_err(|source| SysError {
        call: "SO_SNDTIMEO",
        on: "a connection".into(),
        source,
    })?;
    let [fd, other] = [tcp.stream().try_clone(), tcp.stream().try_clone()];
    let (fd, other) = (OwnedFd::from(fd.map_err(failed)?), OwnedFd::from(other.map_err(failed)?));
    // Stamps wait in the error queue, which the receive buffer's size bounds.
    let error_queue_bytes = match tx.any() {
        true => buffer(&fd, libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, error_queue_bytes, "SO_RCVBUF")?,
        false => get_int(&fd, libc::SO_RCVBUF).max(0) as u64,
    };
    let mut flags = 0;
    if tx.any() {
        flags |= tx.flags() | libc::SOF_TIMESTAMPING_OPT_ID | libc::SOF_TIMESTAMPING_OPT_TSONLY;
    }
    if rx {
        flags |= libc::SOF_TIMESTAMPING_SOFTWARE | libc::SOF_TIMESTAMPING_RX_SOFTWARE;
    }
    if flags != 0 {
        let ask = |flags: u32| set(&fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, &flags, "SO_TIMESTAMPING");
        // Where nothing was sent yet both ways of counting begin at the same byte.
        if !tx.any() || ask(flags | OPT_ID_TCP).is_err() {
            ask(flags)?;
        }
    }
    let sender = MessagesTx { fd, tcp, messages: 0, bytes: 0, size: 1, error_queue_bytes, control: stamps::buffers() };
    Ok((sender, MessagesRx { fd: other, size, have: 0, stamped: rx, control: ControlBuffer::default() }))
}

impl MessagesTx {
    /// Sends one message; returns the key under which its stamps come back, which counts messages,
    /// or errno. A broken connection stays broken.
    #[inline(always)]
    pub fn send(&mut self, message: &[u8]) -> Result<u32, i32> {
        // MSG_NOSIGNAL: a connection that is gone is an errno, not a signal.
        let sent = call::send(&self.fd, message, libc::MSG_NOSIGNAL);
        if sent != Ok(message.len()) {
            self.send_rest(message, sent)?;
        }
        self.size = message.len().max(1) as u64;
        self.bytes += message.len() as u64;
        self.messages = self.messages.wrapping_add(1);
        Ok(self.messages.wrapping_sub(1))
    }

    /// Goes on with a message that the first call did not send whole.
    #[cold]
    fn send_rest(&mut self, message: &[u8], first: Result<usize, i32>) -> Result<(), i32> {
        let (mut sent, mut waited, mut last) = (0, 0, first);
        loop {
            match last {
                Ok(took) => sent += took,
                Err(libc::EINTR) => {}
                Err(libc::EAGAIN) if waited < PATIENCE => waited += 1,
                Err(libc::EAGAIN) => return Err(libc::ETIMEDOUT),
                Err(errno) => return Err(errno),
            }
            if sent >= message.len() {
                return Ok(());
            }
            last = call::send(&self.fd, &message[sent..], libc::MSG_NOSIGNAL);
        }
    }

    /// Takes stamps that wait in the error queue; see [`stamps::drain`].
    #[inline]
    pub fn drain(&mut self, mut each: impl FnMut(TxStamp)) -> usize {
        let (bytes, size) = (self.bytes, self.size);
        stamps::drain(&self.fd, &mut self.control, |stamp| {
            each(TxStamp { key: message_of(stamp.key, bytes, size), ..stamp });
        })
    }

    /// Ends the connection in both directions: after a message that went out in part nothing can
    /// follow.
    #[cold]
    pub fn end(&self) {
        let _ = self.tcp.stream().shutdown(std::net::Shutdown::Both);
    }

    /// Bytes that wait to be received, in the error queue too, and the size of both.
    pub fn error_queue(&self) -> (u64, u64) {
        (memory(&self.fd).map_or(0, |info| u64::from(info[0])), self.error_queue_bytes)
    }

    /// What the kernel knows of the connection.
    ///
    /// # Errors
    /// The kernel's.
    pub fn info(&self) -> Result<TcpInfo, SysError> {
        self.tcp.info()
    }
}

/// The number of the message whose last byte has the kernel's number `key`, `bytes` having been
/// sent in messages of `size`. A stamp comes back long before 2^32 further bytes are sent.
fn message_of(key: u32, bytes: u64, size: u64) -> u32 {
    let behind = (bytes as u32).wrapping_sub(key.wrapping_add(1));
    let end = bytes.saturating_sub(u64::from(behind));
    (end / size).wrapping_sub(1) as u32
}

impl MessagesRx {
    /// Lets the receive call poll the device for up to `us` microseconds.
    ///
    /// # Errors
    /// The kernel's.
    pub fn busy_poll(&self, us: i32) -> Result<(), SysError> {
        set(&self.fd, libc::SOL_SOCKET, libc::SO_PREFER_BUSY_POLL, &1i32, "SO_PREFER_BUSY_POLL")?;
        set(&self.fd, libc::SOL_SOCKET, libc::SO_BUSY_POLL, &us, "SO_BUSY_POLL")
    }

    /// The NAPI context that packets came from; 0 while there is none.
    pub fn napi_id(&self) -> u32 {
        get_int(&self.fd, libc::SO_INCOMING_NAPI_ID) as u32
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

    /// Waits until the socket is reported readable. False if the time limit passed.
    #[inline]
    pub fn wait(&self, by: &Waiter) -> bool {
        by.wait(&self.fd, LIMIT_MS)
    }

    /// Receives what is missing of one message into `into`, which must be the same memory until
    /// the message is whole; with `wait` it sleeps until then or until its thread is poked. True
    /// if it is whole; a part of it is kept. EAGAIN or EINTR if nothing came, ESHUTDOWN if the
    /// peer has ended.
    #[inline(always)]
    pub fn receive(&mut self, into: &mut [u8], heard: &mut Heard, wait: bool) -> Result<bool, i32> {
        let flags = if wait { libc::MSG_WAITALL } else { libc::MSG_DONTWAIT };
        let length = self.size.min(into.len());
        let room = &mut into[self.have..length];
        let missing = room.len();
        let (got, stamp) = match self.stamped {
            false => (call::recv(&self.fd, room, flags), None),
            true => self.receive_stamped(room, flags),
        };
        if got == Ok(missing) && missing > 0 {
            self.have = 0;
            (heard.length, heard.stamp) = (length, stamp);
            return Ok(true);
        }
        self.not_whole(got)
    }

    fn receive_stamped(&mut self, room: &mut [u8], flags: i32) -> (Result<usize, i32>, Option<Instant<Realtime>>) {
        let mut io = libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len() };
        // SAFETY: msghdr is plain data.
        let mut message: libc::msghdr = unsafe { mem::zeroed() };
        message.msg_iov = &raw mut io;
        message.msg_iovlen = 1;
        message.msg_control = self.control.0.as_mut_ptr().cast();
        message.msg_controllen = self.control.0.len();
        // SAFETY: buffer and control memory are writable for their stated sizes.
        let got = unsafe { call::recvmsg(&self.fd, &mut message, flags) };
        let stamp = got.is_ok().then(|| rx_stamp(&message).kernel).flatten();
        (got, stamp)
    }

    #[cold]
    fn not_whole(&mut self, got: Result<usize, i32>) -> Result<bool, i32> {
        match got? {
            0 => Err(libc::ESHUTDOWN),
            got => {
                self.have += got;
                Ok(false)
            }
        }
    }
}
