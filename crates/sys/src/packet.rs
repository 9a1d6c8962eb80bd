// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sockets for whole Ethernet frames, to and from one device: packet sockets, with the kernel's
//! stamps, and the calls on AF_XDP sockets, whose rings and memory are in the crate `bpf`.
//!
//! The receiver of packet sockets takes every protocol and filters by itself. A socket bound to one
//! EtherType gets a tagged frame without its tag and without any sign of it, and does not get a
//! frame with two tags at all.

use crate::call::{self, Plain};
use crate::nic;
use crate::stamps::{Launching, PACKET_AUXDATA, RxStamps, TxStamps};
use crate::udp::{UdpRx, UdpTx, buffer, get_int, set};
use crate::{SysError, check};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::{io, mem, ptr};

/// One instruction of a filter, as the kernel takes it (classic BPF).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Instruction {
    /// Class, size and mode.
    pub code: u16,
    /// Instructions to pass over if the comparison holds.
    pub yes: u8,
    /// Instructions to pass over if it does not.
    pub no: u8,
    pub k: u32,
}

/// The driver of virtual Ethernet pairs. It filters no VLANs.
const VETH: &str = "veth";

/// A socket that sends frames out of `device`, with launch times if `launching`, and receives
/// nothing.
///
/// # Errors
/// If there is no such device, or a packet socket is not granted (CAP_NET_RAW).
pub fn sender(
    device: &str,
    priority: u32,
    stamps: TxStamps,
    error_queue_bytes: i32,
    launching: Option<Launching>,
) -> Result<UdpTx, SysError> {
    let fd = socket(device)?;
    bind(&fd, device, 0)?;
    Ok(UdpTx::over(fd, priority, stamps, error_queue_bytes, launching)?.reports_drops())
}

/// A socket that sends frames whose checksum the device is to write, as it does for sockets of UDP
/// and TCP: in front of each frame are the bytes of [`summed_by_device`].
///
/// # Errors
/// As [`sender`].
pub fn sender_without_checksum(device: &str, priority: u32, send_buffer_bytes: i32) -> Result<UdpTx, SysError> {
    let fd = socket(device)?;
    set(&fd, libc::SOL_PACKET, libc::PACKET_VNET_HDR, &1i32, "PACKET_VNET_HDR")?;
    bind(&fd, device, 0)?;
    Ok(UdpTx::over(fd, priority, TxStamps::default(), send_buffer_bytes, None)?.reports_drops())
}

/// A socket that sends whole packets of IP, head included, from one address to another: the kernel
/// chooses device and hardware address by its routes, as for packets of UDP.
///
/// # Errors
/// If this station does not have the first address, there is no route to the other, or a raw
/// socket is not granted (CAP_NET_RAW).
pub fn routed_sender([from, to]: [IpAddr; 2], priority: u32, send_buffer_bytes: i32) -> Result<UdpTx, SysError> {
    let [from, to] = [from, to].map(|address| SocketAddr::new(address, 0));
    let fd = call::socket_for(to, libc::SOCK_RAW, libc::IPPROTO_RAW)?;
    call::bind(&fd, from)?;
    call::connect(&fd, to)?;
    UdpTx::over(fd, priority, TxStamps::default(), send_buffer_bytes, None)
}

/// That head (`struct virtio_net_hdr`) for a frame of which the device sums up all bytes from this
/// one on, and writes the sum `at` bytes behind that.
pub fn summed_by_device(from: u16, at: u16) -> [u8; 10] {
    /// VIRTIO_NET_HDR_F_NEEDS_CSUM; then no segments, and no lengths of them.
    const NEEDS_SUM: [u8; 6] = [1, 0, 0, 0, 0, 0];
    let mut head = [0; 10];
    head[..6].copy_from_slice(&NEEDS_SUM);
    head[6..8].copy_from_slice(&from.to_ne_bytes());
    head[8..].copy_from_slice(&at.to_ne_bytes());
    head
}

/// A socket that receives the frames on `device` that `filter` lets through, but for those that
/// this station sends, with these stamps. `tagged` has frames of any VLAN let
/// in by the device.
///
/// # Errors
/// As [`sender`]; or if the kernel refuses the filter.
pub fn receiver(
    device: &str,
    filter: &[Instruction],
    tagged: bool,
    stamps: RxStamps,
    receive_buffer_bytes: i32,
) -> Result<UdpRx, SysError> {
    // Bound only when all is set: no other frame ever gets in.
    let fd = socket(device)?;
    buffer(&fd, libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, receive_buffer_bytes, "SO_RCVBUF")?;
    attach(&fd, filter)?;
    set(&fd, libc::SOL_PACKET, PACKET_AUXDATA, &1i32, "PACKET_AUXDATA")?;
    set(&fd, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1i32, "PACKET_IGNORE_OUTGOING")?;
    if tagged && nic::driver(device).is_ok_and(|driver| driver != VETH) {
        listen_to_all(&fd, device)?;
    }
    bind(&fd, device, libc::ETH_P_ALL as u16)?;
    UdpRx::over(fd, stamps, true)
}

/// Lets a packet on unless the kernel takes it for another host's (PACKET_OTHERHOST), as it takes
/// one with a VLAN tag that no device here has.
const TO_THIS_HOST: [Instruction; 4] = [
    // A = the packet's type (SKF_AD_OFF + SKF_AD_PKTTYPE).
    Instruction { code: 0x30, yes: 0, no: 0, k: 0xffff_f004 },
    Instruction { code: 0x15, yes: 0, no: 1, k: 3 },
    Instruction { code: 6, yes: 0, no: 0, k: 0 },
    Instruction { code: 6, yes: 0, no: 0, k: u32::MAX },
];

/// A socket that receives what the kernel hands to the protocol of this EtherType: packets to this
/// host that came in by `device` and that the filters of tc there let through, which [`receiver`]
/// comes before.
///
/// # Errors
/// As [`sender`]; or if the kernel refuses the filter.
pub fn behind_filters(device: &str, ethertype: u16, receive_buffer_bytes: i32) -> Result<UdpRx, SysError> {
    let fd = socket(device)?;
    buffer(&fd, libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, receive_buffer_bytes, "SO_RCVBUF")?;
    attach(&fd, &TO_THIS_HOST)?;
    bind(&fd, device, ethertype)?;
    UdpRx::over(fd, RxStamps::default(), true)
}

pub(crate) fn socket(device: &str) -> Result<OwnedFd, SysError> {
    // SAFETY: takes numbers only. Protocol 0 receives nothing.
    let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    let fd = check(i64::from(fd), "socket(AF_PACKET)", || device.to_owned())?;
    // SAFETY: the descriptor was made just now and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

pub(crate) fn bind(fd: &OwnedFd, device: &str, protocol: u16) -> Result<(), SysError> {
    // SAFETY: sockaddr_ll is plain data; all zero is a valid value.
    let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol.to_be();
    address.sll_ifindex = nic::index(device)? as i32;
    let length = mem::size_of_val(&address) as u32;
    // SAFETY: `address` is a valid address of the stated length.
    let result = unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), length) };
    check(i64::from(result), "bind", || device.to_owned())?;
    Ok(())
}

pub(crate) fn attach(fd: &OwnedFd, filter: &[Instruction]) -> Result<(), SysError> {
    const { assert!(size_of::<Instruction>() == size_of::<libc::sock_filter>()) };
    let program =
        libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut().cast::<libc::sock_filter>() };
    // The kernel copies the instructions, which have the layout that it wants and live until the
    // call returns.
    set(fd, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program, "SO_ATTACH_FILTER")
}

/// A device that filters VLANs drops frames of those that it does not know, except for a socket
/// that listens to everything. Ends with the socket. A driver may have its device change the filter
/// some time after the call returns: virtio_net leaves it to a worker (since Linux 6.7).
fn listen_to_all(fd: &OwnedFd, device: &str) -> Result<(), SysError> {
    let request = libc::packet_mreq {
        mr_ifindex: nic::index(device)? as i32,
        mr_type: libc::PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    set(fd, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &request, "PACKET_MR_PROMISC")
}

/// How many packets one call sends at most (include/uapi/linux/if_xdp.h, Linux 6.17). Without it
/// they are 32.
const XDP_MAX_TX_SKB_BUDGET: i32 = 9;

/// Memory that packets may arrive in.
///
/// # Safety
/// The range is memory of the implementing value, and the value gives out no reference to a part of
/// it while the kernel may write there. Of a value that is gone no such care is needed: the kernel
/// has pinned its pages and never uses the addresses again.
pub unsafe trait PacketMemory {
    /// Where it begins, an address, and how many bytes it has.
    fn range(&self) -> (u64, u64);
}

/// The rings of an AF_XDP socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XdpRing {
    /// Frames for the kernel to fill.
    Fill,
    /// Frames that were sent.
    Completed,
    Received,
    ToSend,
}

impl XdpRing {
    fn option(self) -> (i32, &'static str) {
        match self {
            XdpRing::Fill => (libc::XDP_UMEM_FILL_RING, "XDP_UMEM_FILL_RING"),
            XdpRing::Completed => (libc::XDP_UMEM_COMPLETION_RING, "XDP_UMEM_COMPLETION_RING"),
            XdpRing::Received => (libc::XDP_RX_RING, "XDP_RX_RING"),
            XdpRing::ToSend => (libc::XDP_TX_RING, "XDP_TX_RING"),
        }
    }
}

pub(crate) fn get<T: Plain>(fd: &OwnedFd, level: i32, option: i32, call: &'static str) -> Result<T, SysError> {
    // SAFETY: all zero is a value of such a type.
    let mut value: T = unsafe { mem::zeroed() };
    let mut length = mem::size_of::<T>() as u32;
    // SAFETY: `value` is writable for the stated length.
    let result = unsafe { libc::getsockopt(fd.as_raw_fd(), level, option, (&raw mut value).cast(), &mut length) };
    check(i64::from(result), call, || "a socket".into())?;
    Ok(value)
}

/// An AF_XDP socket. Errors are the kernel's, with the option that it refused.
#[derive(Debug)]
pub struct XdpSocket(OwnedFd);

impl XdpSocket {
    /// One without memory and rings, bound to nothing.
    ///
    /// # Errors
    /// The kernel's: EAFNOSUPPORT without CONFIG_XDP_SOCKETS, EPERM without CAP_NET_RAW.
    pub fn new() -> Result<XdpSocket, SysError> {
        // SAFETY: takes numbers only.
        let fd = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        let fd = check(i64::from(fd), "socket(AF_XDP)", || "this machine".into())?;
        // SAFETY: the descriptor was made just now and has no other owner.
        Ok(XdpSocket(unsafe { OwnedFd::from_raw_fd(fd as RawFd) }))
    }

    /// Another descriptor of it.
    ///
    /// # Errors
    /// The kernel's.
    pub fn again(&self) -> Result<XdpSocket, SysError> {
        let fd = self.0.try_clone();
        fd.map(XdpSocket).map_err(|source| SysError { call: "dup", on: "a socket".into(), source })
    }

    /// Has packets come into this memory, in frames of `frame` bytes, of which the first `headroom`
    /// stay unused when a packet is received; `metadata` bytes come before each that is sent.
    ///
    /// # Errors
    /// The kernel's.
    pub fn register(
        &self,
        memory: &impl PacketMemory,
        frame: u32,
        headroom: u32,
        metadata: u32,
    ) -> Result<(), SysError> {
        // SAFETY: plain numbers, for which zero is a value.
        let mut registered: libc::xdp_umem_reg = unsafe { mem::zeroed() };
        (registered.addr, registered.len) = memory.range();
        (registered.chunk_size, registered.headroom) = (frame, headroom);
        if metadata > 0 {
            (registered.tx_metadata_len, registered.flags) = (metadata, libc::XDP_UMEM_TX_METADATA_LEN);
        }
        set(&self.0, libc::SOL_XDP, libc::XDP_UMEM_REG, &registered, "XDP_UMEM_REG")
    }

    /// Gives it a ring of `size` entries.
    ///
    /// # Errors
    /// The kernel's.
    pub fn ring(&self, ring: XdpRing, size: u32) -> Result<(), SysError> {
        let (option, call) = ring.option();
        set(&self.0, libc::SOL_XDP, option, &size, call)
    }

    /// Where in their mappings the parts of its rings are.
    ///
    /// # Errors
    /// The kernel's.
    pub fn offsets(&self) -> Result<libc::xdp_mmap_offsets, SysError> {
        get(&self.0, libc::SOL_XDP, libc::XDP_MMAP_OFFSETS, "XDP_MMAP_OFFSETS")
    }

    /// Binds it to a queue of the device of this number, in this mode (`XDP_COPY`,
    /// `XDP_ZEROCOPY`).
    ///
    /// # Errors
    /// The kernel's.
    pub fn bind(&self, index: u32, queue: u32, mode: u16) -> Result<(), SysError> {
        self.bound(index, queue, mode | libc::XDP_USE_NEED_WAKEUP, 0)
    }

    /// The same over the memory of another socket, and in its mode.
    ///
    /// # Errors
    /// The kernel's.
    pub fn bind_over(&self, index: u32, queue: u32, other: BorrowedFd<'_>) -> Result<(), SysError> {
        self.bound(index, queue, libc::XDP_SHARED_UMEM, other.as_raw_fd() as u32)
    }

    fn bound(&self, index: u32, queue: u32, flags: u16, other: u32) -> Result<(), SysError> {
        let address = libc::sockaddr_xdp {
            sxdp_family: libc::AF_XDP as u16,
            sxdp_flags: flags,
            sxdp_ifindex: index,
            sxdp_queue_id: queue,
            sxdp_shared_umem_fd: other,
        };
        let length = mem::size_of_val(&address) as u32;
        // SAFETY: `address` is a valid address of the stated length.
        let result = unsafe { libc::bind(self.0.as_raw_fd(), (&raw const address).cast(), length) };
        check(i64::from(result), "bind", || format!("queue {queue} of device {index}")).map(drop)
    }

    /// The class of traffic of what it sends.
    ///
    /// # Errors
    /// The kernel's.
    pub fn set_priority(&self, priority: u32) -> Result<(), SysError> {
        set(&self.0, libc::SOL_SOCKET, libc::SO_PRIORITY, &(priority as i32), "SO_PRIORITY")
    }

    /// What packets under way may take, bytes; beyond the machine's limit if the process has the
    /// right to.
    ///
    /// # Errors
    /// The kernel's.
    pub fn set_send_buffer(&self, bytes: i32) -> Result<(), SysError> {
        set(&self.0, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &bytes, "SO_SNDBUFFORCE")
            .or_else(|_| set(&self.0, libc::SOL_SOCKET, libc::SO_SNDBUF, &bytes, "SO_SNDBUF"))
    }

    /// How many packets one call may send.
    ///
    /// # Errors
    /// The kernel's: it has the option since Linux 6.17.
    pub fn set_send_budget(&self, packets: u32) -> Result<(), SysError> {
        set(&self.0, libc::SOL_XDP, XDP_MAX_TX_SKB_BUDGET, &packets, "XDP_MAX_TX_SKB_BUDGET")
    }

    /// Has [`XdpSocket::wake`] poll the device, in place of its interrupts, for `us` microseconds
    /// and at most `budget` packets.
    ///
    /// # Errors
    /// The kernel's: SO_PREFER_BUSY_POLL is there since Linux 5.11.
    pub fn prefer_busy_poll(&self, us: i32, budget: i32) -> Result<(), SysError> {
        set(&self.0, libc::SOL_SOCKET, libc::SO_PREFER_BUSY_POLL, &1i32, "SO_PREFER_BUSY_POLL")?;
        set(&self.0, libc::SOL_SOCKET, libc::SO_BUSY_POLL, &us, "SO_BUSY_POLL")?;
        set(&self.0, libc::SOL_SOCKET, libc::SO_BUSY_POLL_BUDGET, &budget, "SO_BUSY_POLL_BUDGET")
    }

    /// Wakes the driver, or polls the device under [`XdpSocket::prefer_busy_poll`]. Receives
    /// nothing.
    #[inline]
    pub fn wake(&self) {
        let none = ptr::null_mut();
        // SAFETY: an empty buffer; the kernel writes nothing.
        unsafe { libc::recvfrom(self.0.as_raw_fd(), none, 0, libc::MSG_DONTWAIT, none.cast(), none.cast()) };
    }

    /// Has the kernel look at the ring of packets to send: in copy mode it sends them in this call,
    /// else it wakes the driver. Gives errno, 0 for none.
    #[inline]
    pub fn kick(&self) -> i32 {
        let none = ptr::null();
        // SAFETY: an empty buffer and no address; the kernel reads nothing of either.
        let result = unsafe { libc::sendto(self.0.as_raw_fd(), none, 0, libc::MSG_DONTWAIT, none.cast(), 0) };
        if result < 0 { io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO) } else { 0 }
    }

    /// What the kernel has dropped and missed since the socket was bound.
    ///
    /// # Errors
    /// The kernel's.
    pub fn statistics(&self) -> Result<libc::xdp_statistics, SysError> {
        get(&self.0, libc::SOL_XDP, libc::XDP_STATISTICS, "XDP_STATISTICS")
    }

    /// True if the driver writes packets into the memory itself.
    ///
    /// # Errors
    /// The kernel's.
    pub fn is_zero_copy(&self) -> Result<bool, SysError> {
        let options: libc::xdp_options = get(&self.0, libc::SOL_XDP, libc::XDP_OPTIONS, "XDP_OPTIONS")?;
        Ok(options.flags & libc::XDP_OPTIONS_ZEROCOPY != 0)
    }

    /// The error that the kernel keeps until it is read, 0 for none: ENETDOWN once the device is
    /// gone.
    pub fn error(&self) -> i32 {
        get_int(&self.0, libc::SO_ERROR)
    }

    /// The NAPI context that packets came from, 0 while there is none.
    pub fn napi_id(&self) -> u32 {
        get_int(&self.0, libc::SO_INCOMING_NAPI_ID) as u32
    }
}

impl AsFd for XdpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
