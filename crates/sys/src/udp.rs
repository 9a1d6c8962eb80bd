// SPDX-License-Identifier: MIT OR Apache-2.0
//! UDP sockets with kernel stamps: the sender's with its error queue, the receiver's with its ways to wait.

use crate::control::{ControlBuffer, for_each, value};
use crate::error::{SysError, check};
use std::io;
use std::mem;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use tardy_model::time::{Instant, Realtime};

/// Control message that gives a packet's stamp key (Linux ≥ 6.13).
const SCM_TS_OPT_ID: i32 = 81;
/// Stamps taken from the error queue at a time: few, so that taking them fits between two packets.
pub const DRAIN: usize = 16;

/// A stamp that came back through the error queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TxStamp {
    /// The kernel's key of the packet.
    pub key: u32,
    /// Where it was taken.
    pub at: TxPoint,
    /// When; REALTIME for software stamps.
    pub ns: i64,
}

/// Where a tx stamp was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TxPoint {
    /// Before the queue discipline.
    Sched,
    /// In the driver.
    Software,
    /// In the NIC, by the NIC's clock.
    Hardware,
}

/// What stamps a sender asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TxStamps {
    /// Before the queue discipline.
    pub sched: bool,
    /// In the driver.
    pub software: bool,
}

impl TxStamps {
    fn any(self) -> bool {
        self.sched || self.software
    }
}

fn socket(on: impl Fn() -> String) -> Result<OwnedFd, SysError> {
    // SAFETY: takes numbers only.
    let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    let fd = check(i64::from(fd), "socket", on)?;
    // SAFETY: the descriptor was made just now and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

fn set<T>(fd: &OwnedFd, level: i32, option: i32, value: &T, call: &'static str) -> Result<(), SysError> {
    // SAFETY: `value` is valid for its own size for the length of the call.
    let result = unsafe {
        libc::setsockopt(fd.as_raw_fd(), level, option, (&raw const *value).cast(), mem::size_of::<T>() as u32)
    };
    check(i64::from(result), call, || "a UDP socket".into())?;
    Ok(())
}

fn get_int(fd: &OwnedFd, option: i32) -> i32 {
    let mut value: i32 = 0;
    let mut length = mem::size_of::<i32>() as u32;
    // SAFETY: `value` is writable for `length` bytes.
    unsafe { libc::getsockopt(fd.as_raw_fd(), libc::SOL_SOCKET, option, (&raw mut value).cast(), &mut length) };
    value
}

fn sockaddr(address: SocketAddrV4) -> libc::sockaddr_in {
    libc::sockaddr_in {
        sin_family: libc::AF_INET as u16,
        sin_port: address.port().to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(address.ip().octets()) },
        sin_zero: [0; 8],
    }
}

fn bind(fd: &OwnedFd, address: SocketAddrV4) -> Result<(), SysError> {
    let raw = sockaddr(address);
    // SAFETY: `raw` is a valid sockaddr_in of the stated size.
    let result = unsafe { libc::bind(fd.as_raw_fd(), (&raw const raw).cast(), mem::size_of_val(&raw) as u32) };
    check(i64::from(result), "bind", || address.to_string())?;
    Ok(())
}

/// A socket's memory (SO_MEMINFO): bytes in the receive queue first, packets dropped last.
fn memory(fd: &OwnedFd) -> Option<[u32; 9]> {
    let mut info = [0u32; 9];
    let mut length = mem::size_of_val(&info) as u32;
    let into = (&raw mut info).cast();
    // SAFETY: `info` is writable for `length` bytes.
    let result = unsafe { libc::getsockopt(fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_MEMINFO, into, &mut length) };
    (result == 0).then_some(info)
}

/// Sets a buffer beyond the machine's limit where the right to is there, and says how large it became.
fn buffer(fd: &OwnedFd, force: i32, plain: i32, bytes: i32, call: &'static str) -> Result<u64, SysError> {
    if set(fd, libc::SOL_SOCKET, force, &bytes, call).is_err() {
        set(fd, libc::SOL_SOCKET, plain, &bytes, call)?;
    }
    Ok(get_int(fd, plain).max(0) as u64)
}

/// The sending end.
pub struct UdpTx {
    fd: OwnedFd,
    stamps: TxStamps,
    own_keys: bool,
    next_key: u32,
    error_queue_bytes: u64,
    control: [ControlBuffer<256>; DRAIN],
}

impl UdpTx {
    /// A socket connected from `local` to `peer`, its priority set, stamps asked for, the error queue sized to
    /// `error_queue_bytes` where the kernel allows it.
    pub fn open(
        local: Ipv4Addr,
        peer: SocketAddrV4,
        priority: u32,
        stamps: TxStamps,
        error_queue_bytes: i32,
    ) -> Result<Self, SysError> {
        let fd = socket(|| peer.to_string())?;
        bind(&fd, SocketAddrV4::new(local, 0))?;
        let raw = sockaddr(peer);
        // SAFETY: `raw` is a valid sockaddr_in of the stated size.
        let result = unsafe { libc::connect(fd.as_raw_fd(), (&raw const raw).cast(), mem::size_of_val(&raw) as u32) };
        check(i64::from(result), "connect", || peer.to_string())?;
        set(&fd, libc::SOL_SOCKET, libc::SO_PRIORITY, &(priority as i32), "SO_PRIORITY")?;
        buffer(&fd, libc::SO_SNDBUFFORCE, libc::SO_SNDBUF, 4 << 20, "SO_SNDBUF")?;
        // Stamps wait in the error queue, which the receive buffer's size bounds.
        let error_queue_bytes = buffer(&fd, libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, error_queue_bytes, "SO_RCVBUF")?;
        let mut port = UdpTx {
            fd,
            stamps,
            own_keys: false,
            next_key: 0,
            error_queue_bytes,
            control: [ControlBuffer::default(); DRAIN],
        };
        port.ask_for_stamps()?;
        Ok(port)
    }

    fn ask_for_stamps(&mut self) -> Result<(), SysError> {
        if !self.stamps.any() {
            return Ok(());
        }
        let mut flags =
            libc::SOF_TIMESTAMPING_SOFTWARE | libc::SOF_TIMESTAMPING_OPT_ID | libc::SOF_TIMESTAMPING_OPT_TSONLY;
        if self.stamps.software {
            flags |= libc::SOF_TIMESTAMPING_TX_SOFTWARE;
        }
        if self.stamps.sched {
            flags |= libc::SOF_TIMESTAMPING_TX_SCHED;
        }
        set(&self.fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, &flags, "SO_TIMESTAMPING")
    }

    /// From now on the sender names each packet's key itself, if this kernel can (Linux ≥ 6.13). Says whether it can.
    /// Tried by sending one datagram, which the receiver must ignore.
    pub fn try_own_keys(&mut self, probe: &[u8]) -> bool {
        if self.stamps.any() {
            self.own_keys = true;
            match self.send(probe, 0) {
                Err(libc::EINVAL) => self.own_keys = false,
                _ => self.next_key += 1,
            }
        }
        self.own_keys
    }

    /// The error queue's size, read back.
    pub fn error_queue_bytes(&self) -> u64 {
        self.error_queue_bytes
    }

    /// Sends one datagram under `key`; returns the key that the kernel will stamp it with, or errno.
    #[inline]
    pub fn send(&mut self, payload: &[u8], key: u32) -> Result<u32, i32> {
        let mut io = libc::iovec { iov_base: payload.as_ptr().cast_mut().cast(), iov_len: payload.len() };
        // SAFETY: msghdr is plain data.
        let mut message: libc::msghdr = unsafe { mem::zeroed() };
        message.msg_iov = &raw mut io;
        message.msg_iovlen = 1;
        let mut control = ControlBuffer::<24>::default();
        if self.own_keys {
            message.msg_control = control.0.as_mut_ptr().cast();
            // SAFETY: arithmetic on sizes only.
            message.msg_controllen = unsafe { libc::CMSG_SPACE(4) } as usize;
            // SAFETY: the buffer holds CMSG_SPACE(4) = 24 bytes, so header and data lie inside it, and it is aligned.
            unsafe {
                let header = libc::CMSG_FIRSTHDR(&message);
                (*header).cmsg_level = libc::SOL_SOCKET;
                (*header).cmsg_type = SCM_TS_OPT_ID;
                (*header).cmsg_len = libc::CMSG_LEN(4) as usize;
                libc::CMSG_DATA(header).cast::<u32>().write_unaligned(key);
            }
        }
        // SAFETY: all that `message` points at lives until the call returns; the kernel only reads the payload.
        let sent = unsafe { libc::sendmsg(self.fd.as_raw_fd(), &message, 0) };
        if sent < 0 {
            return Err(io::Error::last_os_error().raw_os_error().unwrap_or(0));
        }
        if self.own_keys {
            return Ok(key);
        }
        let counted = self.next_key;
        self.next_key = self.next_key.wrapping_add(1);
        Ok(counted)
    }

    /// To be called after a refused send, the error queue drained: whether the refused call used a key up differs
    /// between kernels, so the kernel's counter is started anew. Nothing to do where the sender names the keys.
    pub fn renew_keys(&mut self) {
        if self.own_keys || !self.stamps.any() {
            return;
        }
        let off: u32 = 0;
        if set(&self.fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, &off, "SO_TIMESTAMPING").is_ok()
            && self.ask_for_stamps().is_ok()
        {
            self.next_key = 0;
        }
    }

    /// Takes at most [`DRAIN`] messages that wait in the error queue, by one system call that never waits. Returns how many
    /// there were; fewer than [`DRAIN`] means that the queue is empty.
    pub fn drain(&mut self, mut each: impl FnMut(TxStamp)) -> usize {
        // SAFETY: mmsghdr is plain data.
        let mut messages: [libc::mmsghdr; DRAIN] = unsafe { mem::zeroed() };
        for (message, control) in messages.iter_mut().zip(&mut self.control) {
            message.msg_hdr.msg_control = control.0.as_mut_ptr().cast();
            message.msg_hdr.msg_controllen = control.0.len();
        }
        let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
        // SAFETY: the array has DRAIN headers, each with its own control buffer of the stated size; no payload is asked
        // for (OPT_TSONLY), so there is no iovec. The timeout may be null.
        let got = unsafe {
            libc::recvmmsg(self.fd.as_raw_fd(), messages.as_mut_ptr(), DRAIN as u32, flags, std::ptr::null_mut())
        };
        let got = usize::try_from(got).unwrap_or(0);
        for message in &messages[..got] {
            if let Some(stamp) = tx_stamp(&message.msg_hdr) {
                each(stamp);
            }
        }
        got
    }

    /// Bytes waiting in the error queue.
    pub fn waiting_bytes(&self) -> u64 {
        memory(&self.fd).map_or(0, |info| u64::from(info[0]))
    }
}

fn tx_stamp(message: &libc::msghdr) -> Option<TxStamp> {
    let (mut times, mut error) = (None, None);
    for_each(message, |level, kind, data| match (level, kind) {
        (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING) => times = value::<[libc::timespec; 3]>(data),
        (libc::SOL_IP, libc::IP_RECVERR) => error = value::<libc::sock_extended_err>(data),
        _ => {}
    });
    let (times, error) = (times?, error?);
    if error.ee_origin != libc::SO_EE_ORIGIN_TIMESTAMPING {
        return None;
    }
    let ns = |t: libc::timespec| t.tv_sec * 1_000_000_000 + t.tv_nsec;
    let (at, ns) = match (error.ee_info, ns(times[0]), ns(times[2])) {
        (1, software, _) => (TxPoint::Sched, software),
        (0, 0, hardware) => (TxPoint::Hardware, hardware),
        (0, software, _) => (TxPoint::Software, software),
        _ => return None,
    };
    (ns != 0).then_some(TxStamp { key: error.ee_data, at, ns })
}

/// What a receive call brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// A datagram of so many bytes, longer ones cut at the buffer, with the kernel's stamp if it took one.
    Packet {
        /// Bytes in the buffer.
        length: usize,
        /// The kernel's stamp.
        stamp: Option<Instant<Realtime>>,
    },
    /// There is nothing to be read.
    Nothing,
    /// The wait's own time limit passed.
    TimedOut,
}

/// The receiving end.
pub struct UdpRx {
    fd: OwnedFd,
}

/// After this long without a packet a wait returns, so that no loop depends on a packet to end.
const WAIT_LIMIT_MS: i32 = 200;

impl UdpRx {
    /// A socket bound to `local`; `stamp` asks for the kernel's stamps.
    pub fn open(local: SocketAddrV4, stamp: bool, receive_buffer_bytes: i32) -> Result<Self, SysError> {
        let fd = socket(|| local.to_string())?;
        buffer(&fd, libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, receive_buffer_bytes, "SO_RCVBUF")?;
        bind(&fd, local)?;
        if stamp {
            let flags = libc::SOF_TIMESTAMPING_SOFTWARE | libc::SOF_TIMESTAMPING_RX_SOFTWARE;
            set(&fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, &flags, "SO_TIMESTAMPING")?;
        }
        let limit = libc::timeval { tv_sec: 0, tv_usec: i64::from(WAIT_LIMIT_MS) * 1_000 };
        set(&fd, libc::SOL_SOCKET, libc::SO_RCVTIMEO, &limit, "SO_RCVTIMEO")?;
        Ok(UdpRx { fd })
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
        Ok(Waker { fd })
    }

    /// Receives into `buffer`; with `wait` it sleeps until something comes, the time limit passes, or it is woken.
    #[inline]
    pub fn receive(&mut self, buffer: &mut [u8], wait: bool) -> Result<Received, i32> {
        let mut control = ControlBuffer::<128>::default();
        let mut io = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
        // SAFETY: msghdr is plain data.
        let mut message: libc::msghdr = unsafe { mem::zeroed() };
        message.msg_iov = &raw mut io;
        message.msg_iovlen = 1;
        message.msg_control = control.0.as_mut_ptr().cast();
        message.msg_controllen = control.0.len();
        // SAFETY: buffer and control memory are writable for their stated sizes until the call returns.
        let got =
            unsafe { libc::recvmsg(self.fd.as_raw_fd(), &mut message, if wait { 0 } else { libc::MSG_DONTWAIT }) };
        if got < 0 {
            return match io::Error::last_os_error().raw_os_error().unwrap_or(0) {
                libc::EAGAIN if wait => Ok(Received::TimedOut),
                libc::EAGAIN | libc::EINTR => Ok(Received::Nothing),
                errno => Err(errno),
            };
        }
        if got == 0 && message.msg_namelen == 0 && message.msg_controllen == 0 {
            // Shut down by `Waker`, or an empty datagram; the loop looks at its stop flag.
            return Ok(Received::Nothing);
        }
        let mut stamp = None;
        for_each(&message, |level, kind, data| {
            if level == libc::SOL_SOCKET
                && kind == libc::SCM_TIMESTAMPING
                && let Some(times) = value::<[libc::timespec; 3]>(data)
            {
                let ns = times[0].tv_sec * 1_000_000_000 + times[0].tv_nsec;
                stamp = (ns != 0).then(|| Instant::from_ns(ns));
            }
        });
        Ok(Received::Packet { length: got as usize, stamp })
    }

    /// Waits in `poll()` until the socket says that it is readable. False if the time limit passed.
    #[inline]
    pub fn poll(&self) -> bool {
        let mut poll = libc::pollfd { fd: self.fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one valid pollfd.
        unsafe { libc::poll(&mut poll, 1, WAIT_LIMIT_MS) > 0 }
    }
}

/// Ends the wait of a receiver from another thread.
pub struct Waker {
    fd: OwnedFd,
}

impl Waker {
    /// Wakes the receiver; nothing can be received on the socket any more.
    pub fn wake(&self) {
        // SAFETY: takes numbers only. An unconnected UDP socket answers ENOTCONN and wakes its waiters all the same.
        unsafe { libc::shutdown(self.fd.as_raw_fd(), libc::SHUT_RD) };
    }
}
