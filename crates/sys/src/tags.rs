// SPDX-License-Identifier: MIT OR Apache-2.0
//! Frames with two VLAN tags that arrive at a device. A filter in the kernel picks them, and the
//! kernel counts them: of each frame a program would only see that it is there.

use crate::SysError;
use crate::packet::{Instruction, attach, bind, get, socket};
use crate::udp::set;
use std::os::fd::OwnedFd;

/// The EtherTypes of tags: of customers (IEEE 802.1Q), and of providers (802.1ad).
const CUSTOMER: u32 = 0x8100;
const PROVIDER: u32 = 0x88a8;
/// Where a frame has its EtherType, and the one behind a tag in it.
const OUTER: u32 = 12;
const INNER: u32 = 16;
/// Whether the kernel has taken a tag out of the frame (SKF_AD_OFF + SKF_AD_VLAN_TAG_PRESENT).
const IS_TAKEN: u32 = 0xffff_f030;

/// Lets one byte of each frame on that has two tags or more. The outer one is taken out of it, or
/// is still in it.
const TWO_TAGS: [Instruction; 13] = {
    const fn load(code: u16, k: u32) -> Instruction {
        Instruction { code, yes: 0, no: 0, k }
    }
    const fn is(k: u32, yes: u8, no: u8) -> Instruction {
        Instruction { code: 0x15, yes, no, k }
    }
    [
        load(0x30, IS_TAKEN),
        is(0, 3, 0),
        // It is: the next one is in its place.
        load(0x28, OUTER),
        is(CUSTOMER, 7, 0),
        is(PROVIDER, 6, 7),
        // It is not.
        load(0x28, OUTER),
        is(CUSTOMER, 1, 0),
        is(PROVIDER, 0, 4),
        load(0x28, INNER),
        is(CUSTOMER, 1, 0),
        is(PROVIDER, 0, 1),
        load(6, 1),
        load(6, 0),
    ]
};

/// Counts frames with two VLAN tags or more that a device lets in, from now on.
pub struct TwiceTagged(OwnedFd);

impl TwiceTagged {
    /// Begins to count, in the network namespace of the calling thread. A device that filters VLANs
    /// keeps those back that nobody has asked it for, as before.
    ///
    /// # Errors
    /// If there is no such device, or a packet socket is not granted (CAP_NET_RAW).
    pub fn at(device: &str) -> Result<TwiceTagged, SysError> {
        let fd = socket(device)?;
        attach(&fd, &TWO_TAGS)?;
        set(&fd, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1i32, "PACKET_IGNORE_OUTGOING")?;
        bind(&fd, device, libc::ETH_P_ALL as u16)?;
        Ok(TwiceTagged(fd))
    }

    /// How many have come since the last call, also those for which the socket has no room.
    ///
    /// # Errors
    /// The kernel's.
    pub fn count(&self) -> Result<u32, SysError> {
        let of: libc::tpacket_stats = get(&self.0, libc::SOL_PACKET, libc::PACKET_STATISTICS, "PACKET_STATISTICS")?;
        Ok(of.tp_packets)
    }
}
