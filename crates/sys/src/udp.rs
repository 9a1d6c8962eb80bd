// SPDX-License-Identifier: MIT OR Apache-2.0
//! UDP sockets with kernel stamps. Here is the sender's: one packet or a batch by one call, and the
//! error queue that its stamps come back through; and what every socket is set by. The receiver's,
//! with its ways to wait, is in `udp/rx.rs`.

mod rx;

pub use rx::{Heard, UdpRx, Waker};

use crate::call::{self, ControlBuffer, bind, connect, socket};
use crate::stamps::{self, Launching, StampBuffers, TxStamp, TxStamps};
use crate::{SysError, check};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};
use std::{io, mem};

/// The most packets that one call moves.
pub const MOST: usize = 64;

pub(crate) fn set<T>(fd: &OwnedFd, level: i32, option: i32, value: &T, call: &'static str) -> Result<(), SysError> {
    // SAFETY: `value` is valid for its own size for the length of the call.
    let result = unsafe {
        libc::setsockopt(fd.as_raw_fd(), level, option, (&raw const *value).cast(), mem::size_of::<T>() as u32)
    };
    check(i64::from(result), call, || "a socket".into())?;
    Ok(())
}

pub(crate) fn get_int(fd: &OwnedFd, option: i32) -> i32 {
    let mut value: i32 = 0;
    let mut length = mem::size_of::<i32>() as u32;
    // SAFETY: `value` is writable for `length` bytes.
    unsafe { libc::getsockopt(fd.as_raw_fd(), libc::SOL_SOCKET, option, (&raw mut value).cast(), &mut length) };
    value
}

/// A socket's memory (SO_MEMINFO): bytes in the receive queue first, packets dropped last.
pub(crate) fn memory(fd: &OwnedFd) -> Option<[u32; 9]> {
    let mut info = [0u32; 9];
    let mut length = mem::size_of_val(&info) as u32;
    let into = (&raw mut info).cast();
    // SAFETY: `info` is writable for `length` bytes.
    let result = unsafe { libc::getsockopt(fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_MEMINFO, into, &mut length) };
    (result == 0).then_some(info)
}

/// Sets a buffer, beyond the machine's limit if the process has the right to, and returns how large
/// it became.
pub(crate) fn buffer(fd: &OwnedFd, force: i32, plain: i32, bytes: i32, call: &'static str) -> Result<u64, SysError> {
    if set(fd, libc::SOL_SOCKET, force, &bytes, call).is_err() {
        set(fd, libc::SOL_SOCKET, plain, &bytes, call)?;
    }
    Ok(get_int(fd, plain).max(0) as u64)
}

/// Control message that gives a packet's stamp key (Linux ≥ 6.13).
const SCM_TS_OPT_ID: i32 = 81;
/// CMSG_SPACE of a key, and of a launch time.
const ONE: usize = 24;
/// CMSG_SPACE of a key and a launch time together.
const BOTH: usize = 2 * ONE;
/// Option and control message of launch times (include/uapi/asm-generic/socket.h).
const SO_TXTIME: i32 = 61;
/// `struct sock_txtime` and its flags (include/uapi/linux/net_tstamp.h).
#[repr(C)]
struct SockTxtime {
    clockid: i32,
    flags: u32,
}
const SOF_TXTIME_DEADLINE_MODE: u32 = 1;
const SOF_TXTIME_REPORT_ERRORS: u32 = 2;

/// Who gives the packets their keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keys {
    /// The kernel, counting. The only way that leaves the socket's send path as it is.
    Counted,
    /// The sender, by a control message, which costs every packet a route lookup: after a refused
    /// send only, for then the kernel's count is unsure.
    Named,
    /// As `Counted`: this kernel takes no such message (before Linux 6.13).
    CountedOnly,
}

/// Keys that the sender names have this bit, so that they are never taken for counted ones.
const NAMED: u32 = 1 << 31;

/// The sending end. Frames are sent through a packet socket in the same way
/// ([`crate::packet::sender`]).
pub struct UdpTx {
    fd: OwnedFd,
    stamps: TxStamps,
    keys: Keys,
    next_key: u32,
    error_queue_bytes: u64,
    control: StampBuffers,
    /// The kernel reports by ENOBUFS that a queue discipline dropped what was handed over.
    reports_drops: bool,
}

impl UdpTx {
    /// A socket connected from `local` to `peer`, its priority set, stamps asked for, the error
    /// queue sized to `error_queue_bytes` where the kernel allows it. With `launching` each packet
    /// carries a launch time, on CLOCK_TAI, and what a queue discipline drops for it is reported.
    pub fn open(
        local: IpAddr,
        peer: SocketAddr,
        priority: u32,
        stamps: TxStamps,
        error_queue_bytes: i32,
        launching: Option<Launching>,
    ) -> Result<Self, SysError> {
        let fd = socket(peer, libc::SOCK_DGRAM)?;
        bind(&fd, SocketAddr::new(local, 0))?;
        connect(&fd, peer)?;
        UdpTx::over(fd, priority, stamps, error_queue_bytes, launching)
    }

    /// On a socket that knows where its packets go: sets its priority, enables launch times if
    /// packets have them, asks for stamps, sizes the error queue.
    pub(crate) fn over(
        fd: OwnedFd,
        priority: u32,
        stamps: TxStamps,
        error_queue_bytes: i32,
        launching: Option<Launching>,
    ) -> Result<Self, SysError> {
        set(&fd, libc::SOL_SOCKET, libc::SO_PRIORITY, &(priority as i32), "SO_PRIORITY")?;
        buffer(&fd, libc::SO_SNDBUFFORCE, libc::SO_SNDBUF, 4 << 20, "SO_SNDBUF")?;
        if let Some(Launching { deadline }) = launching {
            let mode = if deadline { SOF_TXTIME_DEADLINE_MODE } else { 0 };
            let asked = SockTxtime { clockid: libc::CLOCK_TAI, flags: SOF_TXTIME_REPORT_ERRORS | mode };
            set(&fd, libc::SOL_SOCKET, SO_TXTIME, &asked, "SO_TXTIME")?;
        }
        // Stamps wait in the error queue, which the receive buffer's size bounds.
        let error_queue_bytes = buffer(&fd, libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, error_queue_bytes, "SO_RCVBUF")?;
        let mut port = UdpTx {
            fd,
            stamps,
            keys: Keys::Counted,
            next_key: 0,
            error_queue_bytes,
            control: stamps::buffers(),
            reports_drops: false,
        };
        port.ask_for_stamps()?;
        Ok(port)
    }

    /// For a packet socket. For a packet that its queue discipline dropped, a UDP socket reports
    /// that it was sent, and a packet socket that there was no room.
    pub(crate) fn reports_drops(mut self) -> Self {
        self.reports_drops = true;
        self
    }

    fn ask_for_stamps(&mut self) -> Result<(), SysError> {
        if !self.stamps.any() {
            return Ok(());
        }
        let flags = self.stamps.flags() | libc::SOF_TIMESTAMPING_OPT_ID | libc::SOF_TIMESTAMPING_OPT_TSONLY;
        set(&self.fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, &flags, "SO_TIMESTAMPING")
    }

    /// The error queue's size, read back.
    pub fn error_queue_bytes(&self) -> u64 {
        self.error_queue_bytes
    }

    /// Sends one datagram under `key`, with a launch time in ns if the socket was opened for that;
    /// returns the key that the kernel will stamp it with, or errno.
    #[inline]
    pub fn send(&mut self, payload: &[u8], key: u32, launch_ns: Option<i64>) -> Result<u32, i32> {
        if self.keys != Keys::Named && launch_ns.is_none() {
            // The kernel has less to copy in than with a message header.
            call::send(&self.fd, payload, 0)?;
            return Ok(self.stamped(key));
        }
        self.send_with(payload, key, launch_ns)
    }

    /// The same with control messages.
    fn send_with(&mut self, payload: &[u8], key: u32, launch_ns: Option<i64>) -> Result<u32, i32> {
        let mut io = libc::iovec { iov_base: payload.as_ptr().cast_mut().cast(), iov_len: payload.len() };
        // SAFETY: msghdr is plain data.
        let mut message: libc::msghdr = unsafe { mem::zeroed() };
        message.msg_iov = &raw mut io;
        message.msg_iovlen = 1;
        let mut control = ControlBuffer::<BOTH>::default();
        let named = (self.keys == Keys::Named).then_some(key | NAMED);
        put(&mut message, &mut control, named, launch_ns);
        // SAFETY: all that `message` points at lives until the call returns; the kernel only reads
        // the payload.
        match unsafe { call::sendmsg(&self.fd, &message, 0) } {
            Err(errno) if !is_taken(errno, launch_ns.is_some(), self.reports_drops) => Err(errno),
            // Dropped after the stamp before the queue discipline: it has a key like the others.
            _ => Ok(self.stamped(key)),
        }
    }

    /// The key that a packet which went out will be stamped with.
    #[inline]
    fn stamped(&mut self, key: u32) -> u32 {
        if self.keys == Keys::Named {
            return key | NAMED;
        }
        let counted = self.next_key;
        self.next_key = self.next_key.wrapping_add(1);
        counted
    }

    /// Sends a batch of at most [`MOST`] datagrams of `size` bytes that are one after the other in
    /// memory, by one call. `keys` holds a key for each and receives those that the kernel stamps
    /// them with. Returns how many went out, the first ones; errno if none did.
    pub fn send_batch(&mut self, payloads: &[u8], size: usize, keys: &mut [u32]) -> Result<usize, i32> {
        let count = keys.len().min(MOST).min(payloads.len() / size.max(1));
        let mut io = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: size }; MOST];
        let mut control = [ControlBuffer::<BOTH>::default(); MOST];
        // SAFETY: mmsghdr is plain data.
        let mut messages: [libc::mmsghdr; MOST] = unsafe { mem::zeroed() };
        for n in 0..count {
            io[n].iov_base = payloads[n * size..].as_ptr().cast_mut().cast();
            messages[n].msg_hdr.msg_iov = &raw mut io[n];
            messages[n].msg_hdr.msg_iovlen = 1;
            if self.keys == Keys::Named {
                put(&mut messages[n].msg_hdr, &mut control[n], Some(keys[n] | NAMED), None);
            }
        }
        // SAFETY: the first `count` headers point at payloads of `size` bytes, which the kernel
        // only reads, and at control buffers that live until the call returns.
        let sent = unsafe { libc::sendmmsg(self.fd.as_raw_fd(), messages.as_mut_ptr(), count as u32, 0) };
        let sent = usize::try_from(sent).map_err(|_| io::Error::last_os_error().raw_os_error().unwrap_or(0))?;
        for key in &mut keys[..sent] {
            *key = self.stamped(*key);
        }
        Ok(sent)
    }

    /// To be called after a refused send, the error queue drained: whether the refused call used a
    /// key up differs between kernels. From now on the sender names each packet's key, which is
    /// tried out by sending `probe`, a datagram that the receiver must ignore; where this kernel
    /// cannot have that, its count is started anew.
    pub fn renew_keys(&mut self, probe: &[u8]) {
        if self.keys == Keys::Named || !self.stamps.any() {
            return;
        }
        if self.keys == Keys::Counted {
            self.keys = Keys::Named;
            if self.send(probe, 0, None) != Err(libc::EINVAL) {
                return;
            }
            self.keys = Keys::CountedOnly;
        }
        let off: u32 = 0;
        if set(&self.fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, &off, "SO_TIMESTAMPING").is_ok()
            && self.ask_for_stamps().is_ok()
        {
            self.next_key = 0;
        }
    }

    /// Takes at most [`stamps::DRAIN`] messages that wait in the error queue; see
    /// [`stamps::drain`].
    #[inline]
    pub fn drain(&mut self, each: impl FnMut(TxStamp)) -> usize {
        stamps::drain(&self.fd, &mut self.control, each)
    }

    /// Bytes waiting in the error queue.
    pub fn waiting_bytes(&self) -> u64 {
        memory(&self.fd).map_or(0, |info| u64::from(info[0]))
    }
}

/// True if a send call that ended so handed its packet over all the same, and it was the queue
/// discipline that dropped it: for packets with launch times the reports and counters show which,
/// and why. A second report would count it twice.
pub fn is_taken(errno: i32, launches: bool, reports_drops: bool) -> bool {
    errno == libc::ENOBUFS && launches && reports_drops
}

/// Gives a packet its control messages: the key of its stamps, its launch time.
#[inline]
fn put(message: &mut libc::msghdr, control: &mut ControlBuffer<BOTH>, key: Option<u32>, launch_ns: Option<i64>) {
    if key.is_none() && launch_ns.is_none() {
        return;
    }
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = ONE * (usize::from(key.is_some()) + usize::from(launch_ns.is_some()));
    // SAFETY: the buffer holds CMSG_SPACE(4) = CMSG_SPACE(8) = 24 bytes for each message, so
    // headers and data lie inside it, and it is aligned; it is zeroed, as CMSG_NXTHDR wants it.
    // Neither header is null, for the length covers both.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(message);
        if let Some(key) = key {
            (*header).cmsg_level = libc::SOL_SOCKET;
            (*header).cmsg_type = SCM_TS_OPT_ID;
            (*header).cmsg_len = libc::CMSG_LEN(4) as usize;
            libc::CMSG_DATA(header).cast::<u32>().write_unaligned(key);
            if launch_ns.is_some() {
                header = libc::CMSG_NXTHDR(message, header);
            }
        }
        if let Some(ns) = launch_ns {
            (*header).cmsg_level = libc::SOL_SOCKET;
            (*header).cmsg_type = SO_TXTIME;
            (*header).cmsg_len = libc::CMSG_LEN(8) as usize;
            libc::CMSG_DATA(header).cast::<u64>().write_unaligned(ns as u64);
        }
    }
}
