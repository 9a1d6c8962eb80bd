// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packet sockets: whole Ethernet frames to and from one device, with the kernel's stamps.
//!
//! The receiver takes every protocol and filters by itself. A socket bound to one EtherType gets a
//! tagged frame without its tag and without any sign of it, and does not get a frame with two tags
//! at all.

use crate::nic;
use crate::stamps::{Launching, PACKET_AUXDATA, TxStamps};
use crate::udp::{UdpRx, UdpTx, buffer, set};
use crate::{SysError, check};
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

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

/// A socket that receives the frames on `device` that `filter` lets through, but for those that
/// this station sends; `stamp` asks for the kernel's stamps. `tagged` has frames of any VLAN let
/// in by the device.
///
/// # Errors
/// As [`sender`]; or if the kernel refuses the filter.
pub fn receiver(
    device: &str,
    filter: &[Instruction],
    tagged: bool,
    stamp: bool,
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
    UdpRx::over(fd, stamp, true)
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
    UdpRx::over(fd, false, true)
}

fn socket(device: &str) -> Result<OwnedFd, SysError> {
    // SAFETY: takes numbers only. Protocol 0 receives nothing.
    let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    let fd = check(i64::from(fd), "socket(AF_PACKET)", || device.to_owned())?;
    // SAFETY: the descriptor was made just now and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

fn bind(fd: &OwnedFd, device: &str, protocol: u16) -> Result<(), SysError> {
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

fn attach(fd: &OwnedFd, filter: &[Instruction]) -> Result<(), SysError> {
    const { assert!(size_of::<Instruction>() == size_of::<libc::sock_filter>()) };
    let program =
        libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut().cast::<libc::sock_filter>() };
    // The kernel copies the instructions, which have the layout that it wants and live until the
    // call returns.
    set(fd, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program, "SO_ATTACH_FILTER")
}

/// A device that filters VLANs drops frames of those that it does not know, except for a socket
/// that listens to everything. Ends with the socket.
fn listen_to_all(fd: &OwnedFd, device: &str) -> Result<(), SysError> {
    let request = libc::packet_mreq {
        mr_ifindex: nic::index(device)? as i32,
        mr_type: libc::PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    set(fd, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &request, "PACKET_MR_PROMISC")
}
