// SPDX-License-Identifier: MIT OR Apache-2.0
//! The calls on an AF_XDP socket, waiting for a packet at several sockets at once, and the calls
//! on programs that libbpf-rs has in no safe form.

use super::shared::{CompletedRing, FillRing, ReceiveRing, SendRing};
use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// How many packets one call sends at most (include/uapi/linux/if_xdp.h, Linux 6.17). Without it
/// they are 32.
const XDP_MAX_TX_SKB_BUDGET: libc::c_int = 9;
/// Room that a run of a program gets for what it puts before a packet.
const GROWTH: usize = 256;

/// A socket with the rings of its receiving.
#[derive(Debug)]
pub struct Socket {
    fd: OwnedFd,
    pub received: ReceiveRing,
    pub fill: FillRing,
}

/// The memory of a socket: its own registration, or that of another socket.
pub enum Umem<'a> {
    /// Address, length, bytes of a frame, bytes of what comes before a packet that is sent.
    Registered(u64, u64, u32, u32),
    Of(BorrowedFd<'a>),
}

/// The call that failed, and errno.
pub type Failed = (&'static str, io::Error);

fn done(result: libc::c_int, call: &'static str) -> Result<libc::c_int, Failed> {
    if result < 0 { Err((call, io::Error::last_os_error())) } else { Ok(result) }
}

fn set<T: Copy>(
    fd: &OwnedFd,
    level: libc::c_int,
    name: libc::c_int,
    value: &T,
    call: &'static str,
) -> Result<(), Failed> {
    // SAFETY: `value` is readable for its size until the call returns.
    let result = unsafe {
        libc::setsockopt(fd.as_raw_fd(), level, name, std::ptr::from_ref(value).cast(), mem::size_of::<T>() as u32)
    };
    done(result, call).map(drop)
}

/// Types of options that are valid for every bit pattern.
trait Plain: Copy {}
impl Plain for libc::xdp_mmap_offsets {}
impl Plain for libc::xdp_statistics {}
impl Plain for libc::xdp_options {}
impl Plain for libc::c_int {}

fn get<T: Plain>(fd: &OwnedFd, level: libc::c_int, name: libc::c_int, call: &'static str) -> Result<T, Failed> {
    // SAFETY: all zero is a value of such a type.
    let mut value: T = unsafe { mem::zeroed() };
    let mut length = mem::size_of::<T>() as u32;
    // SAFETY: `value` is writable for the stated length.
    let result =
        unsafe { libc::getsockopt(fd.as_raw_fd(), level, name, std::ptr::from_mut(&mut value).cast(), &mut length) };
    done(result, call).map(|_| value)
}

impl Socket {
    /// A socket over this memory with rings of `size` entries, bound to nothing. The ring in which
    /// sent frames come back it must have even if it never sends.
    ///
    /// # Errors
    /// The kernel's.
    pub fn new(umem: &Umem<'_>, size: u32) -> Result<Socket, Failed> {
        // SAFETY: takes numbers only.
        let fd = done(unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) }, "socket(AF_XDP)")?;
        // SAFETY: the descriptor was made just now and has no other owner.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        if let Umem::Registered(addr, len, chunk_size, metadata) = *umem {
            // SAFETY: plain numbers, for which zero is a value.
            let mut registered: libc::xdp_umem_reg = unsafe { mem::zeroed() };
            (registered.addr, registered.len, registered.chunk_size) = (addr, len, chunk_size);
            if metadata > 0 {
                (registered.tx_metadata_len, registered.flags) = (metadata, libc::XDP_UMEM_TX_METADATA_LEN);
            }
            set(&fd, libc::SOL_XDP, libc::XDP_UMEM_REG, &registered, "XDP_UMEM_REG")?;
        }
        set(&fd, libc::SOL_XDP, libc::XDP_UMEM_FILL_RING, &size, "XDP_UMEM_FILL_RING")?;
        set(&fd, libc::SOL_XDP, libc::XDP_UMEM_COMPLETION_RING, &size, "XDP_UMEM_COMPLETION_RING")?;
        set(&fd, libc::SOL_XDP, libc::XDP_RX_RING, &size, "XDP_RX_RING")?;
        let offsets: libc::xdp_mmap_offsets = get(&fd, libc::SOL_XDP, libc::XDP_MMAP_OFFSETS, "XDP_MMAP_OFFSETS")?;
        let mapping = |source| ("mapping a ring", source);
        let received = ReceiveRing::of(fd.as_fd(), offsets.rx, size).map_err(mapping)?;
        let fill = FillRing::of(fd.as_fd(), offsets.fr, size).map_err(mapping)?;
        Ok(Socket { fd, received, fill })
    }

    /// Binds it to a queue. Over the memory of another socket the kernel takes the mode from that
    /// one.
    ///
    /// # Errors
    /// The kernel's.
    pub fn bind(&self, index: u32, queue: u32, umem: &Umem<'_>, mode: u16) -> io::Result<()> {
        // SAFETY: plain numbers, for which zero is a value.
        let mut address: libc::sockaddr_xdp = unsafe { mem::zeroed() };
        address.sxdp_family = libc::AF_XDP as u16;
        (address.sxdp_ifindex, address.sxdp_queue_id) = (index, queue);
        match umem {
            Umem::Registered(..) => address.sxdp_flags = mode | libc::XDP_USE_NEED_WAKEUP,
            Umem::Of(other) => {
                address.sxdp_flags = libc::XDP_SHARED_UMEM;
                address.sxdp_shared_umem_fd = other.as_raw_fd() as u32;
            }
        }
        let length = mem::size_of_val(&address) as u32;
        // SAFETY: `address` is a valid address of the stated length.
        let result = unsafe { libc::bind(self.fd.as_raw_fd(), (&raw const address).cast(), length) };
        done(result, "bind").map(drop).map_err(|(_, why)| why)
    }

    /// Gives it a ring of `size` packets to send, the size of the ring in which they come back, and
    /// a class of traffic. To be called before it is bound.
    ///
    /// # Errors
    /// The kernel's.
    pub fn sends(&self, size: u32, budget: u32, priority: u32, room: i32) -> Result<(SendRing, CompletedRing), Failed> {
        set(&self.fd, libc::SOL_XDP, libc::XDP_TX_RING, &size, "XDP_TX_RING")?;
        set(&self.fd, libc::SOL_SOCKET, libc::SO_PRIORITY, &(priority as i32), "SO_PRIORITY")?;
        if set(&self.fd, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &room, "SO_SNDBUFFORCE").is_err() {
            set(&self.fd, libc::SOL_SOCKET, libc::SO_SNDBUF, &room, "SO_SNDBUF")?;
        }
        // A kernel without the option takes fewer packets in a call, and is called again.
        let _ = set(&self.fd, libc::SOL_XDP, XDP_MAX_TX_SKB_BUDGET, &budget, "XDP_MAX_TX_SKB_BUDGET");
        let offsets: libc::xdp_mmap_offsets = get(&self.fd, libc::SOL_XDP, libc::XDP_MMAP_OFFSETS, "XDP_MMAP_OFFSETS")?;
        let mapping = |source| ("mapping a ring", source);
        let ring = SendRing::of(self.fd.as_fd(), offsets.tx, size).map_err(mapping)?;
        Ok((ring, CompletedRing::of(self.fd.as_fd(), offsets.cr, size).map_err(mapping)?))
    }

    /// Another descriptor of it.
    ///
    /// # Errors
    /// The kernel's.
    pub fn again(&self) -> Result<OwnedFd, Failed> {
        self.fd.try_clone().map_err(|source| ("dup", source))
    }

    /// Has the receive call poll the device, in place of its interrupts, for `us` microseconds and
    /// at most `budget` packets.
    ///
    /// # Errors
    /// The kernel's: SO_PREFER_BUSY_POLL is there since Linux 5.11.
    pub fn prefer_busy_poll(&self, us: i32, budget: i32) -> Result<(), Failed> {
        set(&self.fd, libc::SOL_SOCKET, libc::SO_PREFER_BUSY_POLL, &1i32, "SO_PREFER_BUSY_POLL")?;
        set(&self.fd, libc::SOL_SOCKET, libc::SO_BUSY_POLL, &us, "SO_BUSY_POLL")?;
        set(&self.fd, libc::SOL_SOCKET, libc::SO_BUSY_POLL_BUDGET, &budget, "SO_BUSY_POLL_BUDGET")
    }

    /// Wakes the driver, or polls the device under [`Socket::prefer_busy_poll`]. Receives nothing.
    #[inline]
    pub fn wake(&self) {
        let none = std::ptr::null_mut();
        // SAFETY: an empty buffer; the kernel writes nothing.
        unsafe { libc::recvfrom(self.fd.as_raw_fd(), none, 0, libc::MSG_DONTWAIT, none.cast(), none.cast()) };
    }

    /// What the kernel has dropped and missed since the socket was bound.
    ///
    /// # Errors
    /// The kernel's.
    pub fn statistics(&self) -> Result<libc::xdp_statistics, Failed> {
        statistics(&self.fd)
    }

    /// True if the driver writes packets into the memory itself.
    ///
    /// # Errors
    /// The kernel's.
    pub fn is_zero_copy(&self) -> Result<bool, Failed> {
        let options: libc::xdp_options = get(&self.fd, libc::SOL_XDP, libc::XDP_OPTIONS, "XDP_OPTIONS")?;
        Ok(options.flags & libc::XDP_OPTIONS_ZEROCOPY != 0)
    }

    /// The error that the kernel keeps until it is read, 0 for none: ENETDOWN once the device is
    /// gone.
    pub fn error(&self) -> i32 {
        get::<libc::c_int>(&self.fd, libc::SOL_SOCKET, libc::SO_ERROR, "SO_ERROR").unwrap_or(0)
    }

    /// The NAPI context that packets came from, 0 while there is none.
    pub fn napi_id(&self) -> u32 {
        let id = get::<libc::c_int>(&self.fd, libc::SOL_SOCKET, libc::SO_INCOMING_NAPI_ID, "SO_INCOMING_NAPI_ID");
        id.unwrap_or(0) as u32
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl AsRawFd for Socket {
    fn as_raw_fd(&self) -> i32 {
        self.fd.as_raw_fd()
    }
}

/// Has the kernel look at the ring of packets to send of this socket: in copy mode it sends them in
/// this call, else it wakes the driver. Gives errno, 0 for none.
#[inline]
pub fn kick(socket: &OwnedFd) -> i32 {
    let none = std::ptr::null();
    // SAFETY: an empty buffer and no address; the kernel reads nothing of either.
    let result = unsafe { libc::sendto(socket.as_raw_fd(), none, 0, libc::MSG_DONTWAIT, none.cast(), 0) };
    if result < 0 { io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO) } else { 0 }
}

/// What the kernel has dropped and missed at this socket since it was bound.
///
/// # Errors
/// The kernel's.
pub fn statistics(socket: &OwnedFd) -> Result<libc::xdp_statistics, Failed> {
    get(socket, libc::SOL_XDP, libc::XDP_STATISTICS, "XDP_STATISTICS")
}

/// Attaches a program to a device in the mode of these flags (`XDP_FLAGS_*`). It stays attached as
/// long as the link's descriptor is open anywhere.
///
/// # Errors
/// The kernel's.
pub fn attach(program: BorrowedFd<'_>, index: u32, flags: u32) -> io::Result<OwnedFd> {
    // SAFETY: numbers and pointers, for which zero is a value: nothing is asked for.
    let mut options: libbpf_sys::bpf_link_create_opts = unsafe { mem::zeroed() };
    options.sz = mem::size_of_val(&options) as _;
    options.flags = flags;
    // SAFETY: `options` is valid and states its size; the rest are numbers.
    let fd = unsafe {
        libbpf_sys::bpf_link_create(program.as_raw_fd(), index as i32, libbpf_sys::BPF_XDP, &raw const options)
    };
    if fd < 0 {
        return Err(io::Error::from_raw_os_error(-fd));
    }
    // SAFETY: the descriptor was made just now and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// As [`crate::program::Program::run_on`].
///
/// # Errors
/// The kernel's.
pub fn run_on(program: BorrowedFd<'_>, packet: &[u8]) -> io::Result<(u32, Vec<u8>)> {
    // `struct xdp_md`; its second word is where the packet ends.
    let context = [0, packet.len() as u32, 0, 0, 0, 0];
    let mut out = vec![0; packet.len() + GROWTH];
    // SAFETY: numbers and pointers, for which zero is a value: nothing is asked for.
    let mut options: libbpf_sys::bpf_test_run_opts = unsafe { mem::zeroed() };
    options.sz = mem::size_of_val(&options) as _;
    (options.data_in, options.data_size_in) = (packet.as_ptr().cast(), packet.len() as u32);
    (options.data_out, options.data_size_out) = (out.as_mut_ptr().cast(), out.len() as u32);
    (options.ctx_in, options.ctx_size_in) = (context.as_ptr().cast(), mem::size_of_val(&context) as u32);
    // SAFETY: each pointer is valid for the size that is stated next to it until the call returns.
    let result = unsafe { libbpf_sys::bpf_prog_test_run_opts(program.as_raw_fd(), &raw mut options) };
    if result < 0 {
        return Err(io::Error::from_raw_os_error(-result));
    }
    out.truncate(options.data_size_out as usize);
    Ok((options.retval, out))
}

/// The most programs of one hook that are listed.
const MOST_PROGRAMS: usize = 64;

/// The ids of the programs that are attached to a device without a queue discipline (tcx), in the
/// order in which they run; none on a kernel that has no such hook (before Linux 6.6).
///
/// # Errors
/// The kernel's.
pub fn tcx_programs(index: u32, egress: bool) -> io::Result<Vec<u32>> {
    let mut ids = vec![0u32; MOST_PROGRAMS];
    // SAFETY: numbers and pointers, for which zero is a value: nothing is asked for.
    let mut options: libbpf_sys::bpf_prog_query_opts = unsafe { mem::zeroed() };
    options.sz = mem::size_of_val(&options) as _;
    options.prog_ids = ids.as_mut_ptr();
    options.__bindgen_anon_1.count = ids.len() as u32;
    let hook = if egress { libbpf_sys::BPF_TCX_EGRESS } else { libbpf_sys::BPF_TCX_INGRESS };
    // SAFETY: `options` is valid, states its size, and names room for as many ids as it counts.
    match unsafe { libbpf_sys::bpf_prog_query_opts(index as i32, hook, &raw mut options) } {
        0 => {
            // SAFETY: a successful query has filled this member; every bit pattern is a number.
            let count = unsafe { options.__bindgen_anon_1.count } as usize;
            ids.truncate(count);
            Ok(ids)
        }
        result if [-libc::EINVAL, -libc::ENOENT].contains(&result) => Ok(Vec::new()),
        result => Err(io::Error::from_raw_os_error(-result)),
    }
}

/// Has the kernel count how often and how long each program runs, until the descriptor is closed.
///
/// # Errors
/// The kernel's: it can since Linux 5.8.
pub fn count_runs() -> io::Result<OwnedFd> {
    // SAFETY: takes a number only.
    let fd = unsafe { libbpf_sys::bpf_enable_stats(libbpf_sys::BPF_STATS_RUN_TIME) };
    if fd < 0 {
        return Err(io::Error::from_raw_os_error(-fd));
    }
    // SAFETY: the descriptor was made just now and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// How it is waited, ready for these sockets.
#[derive(Debug)]
pub enum Waiter {
    Poll(Vec<libc::pollfd>),
    /// Descriptors below FD_SETSIZE.
    Select(Vec<i32>),
    Epoll(OwnedFd),
}

/// The word for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitBy {
    Poll,
    Select,
    Epoll,
}

impl Waiter {
    /// For these sockets.
    ///
    /// # Errors
    /// The kernel's; EINVAL for a descriptor beyond what `select()` can name.
    pub fn new(by: WaitBy, sockets: &[Socket]) -> io::Result<Waiter> {
        let all = || sockets.iter().map(AsRawFd::as_raw_fd);
        match by {
            WaitBy::Poll => {
                Ok(Waiter::Poll(all().map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 }).collect()))
            }
            WaitBy::Select if all().any(|fd| fd as usize >= libc::FD_SETSIZE) => {
                Err(io::Error::from_raw_os_error(libc::EINVAL))
            }
            WaitBy::Select => Ok(Waiter::Select(all().collect())),
            WaitBy::Epoll => {
                // SAFETY: takes a number only.
                let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
                if fd < 0 {
                    return Err(io::Error::last_os_error());
                }
                // SAFETY: the descriptor was made just now and has no other owner.
                let epoll = unsafe { OwnedFd::from_raw_fd(fd) };
                for socket in all() {
                    let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 0 };
                    // SAFETY: `event` is valid; the kernel copies it.
                    if unsafe { libc::epoll_ctl(fd, libc::EPOLL_CTL_ADD, socket, &mut event) } < 0 {
                        return Err(io::Error::last_os_error());
                    }
                }
                Ok(Waiter::Epoll(epoll))
            }
        }
    }

    /// Sleeps until a socket is readable or has an error; false if the limit passed or a signal
    /// came.
    #[inline]
    pub fn wait(&mut self, limit_ms: i32) -> bool {
        match self {
            // SAFETY: the kernel reads and writes as many entries as there are.
            Waiter::Poll(all) => unsafe { libc::poll(all.as_mut_ptr(), all.len() as libc::nfds_t, limit_ms) > 0 },
            Waiter::Select(all) => select(all, limit_ms),
            Waiter::Epoll(epoll) => {
                let mut event = libc::epoll_event { events: 0, u64: 0 };
                // SAFETY: room for one event.
                unsafe { libc::epoll_wait(epoll.as_raw_fd(), &mut event, 1, limit_ms) > 0 }
            }
        }
    }
}

fn select(all: &[i32], limit_ms: i32) -> bool {
    let limit_ms = i64::from(limit_ms);
    // SAFETY: fd_set is plain bits; all zero is the empty set.
    let mut set: libc::fd_set = unsafe { std::mem::zeroed() };
    let mut limit = libc::timeval { tv_sec: limit_ms / 1_000, tv_usec: limit_ms % 1_000 * 1_000 };
    let mut beyond = 0;
    for fd in all {
        // SAFETY: `Waiter::new` has checked that the descriptor is below FD_SETSIZE.
        unsafe { libc::FD_SET(*fd, &mut set) };
        beyond = beyond.max(fd + 1);
    }
    let none = std::ptr::null_mut();
    // SAFETY: set and limit are valid until the call returns.
    unsafe { libc::select(beyond, &mut set, none, none, &mut limit) > 0 }
}
