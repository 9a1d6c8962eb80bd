// SPDX-License-Identifier: MIT OR Apache-2.0
//! One number for each run of tardy on this machine, and every name and address that follows from it. Two runs hold two
//! numbers, so nothing that they make can clash.

use std::net::{Ipv4Addr, Ipv6Addr};

/// Where a run's slot lies if nothing else is said.
pub const STATE: &str = "/run/tardy";
/// Numbers there are.
pub const SLOTS: u16 = 4096;
/// Where iproute2 keeps its named namespaces.
pub(crate) const NETNS: &str = "/run/netns";

/// One of the two ends of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The end of the station that comes first by name.
    First,
    /// The other.
    Second,
}

/// The names and addresses of one slot. Pure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Names {
    slot: u16,
}

impl Names {
    /// Those of slot 0: for showing what would be done.
    pub const FIRST: Names = Names { slot: 0 };

    /// Those of one slot; `None` from [`SLOTS`] on.
    pub fn of(slot: u16) -> Option<Names> {
        (slot < SLOTS).then_some(Names { slot })
    }

    /// The slot's number.
    pub fn slot(self) -> u16 {
        self.slot
    }

    /// The network namespace of a station.
    pub fn netns(self, station: &str) -> String {
        format!("tardy-{}-{station}", self.slot)
    }

    /// The name under which a run keeps the network namespace that its devices came from. No station is called so.
    pub fn home(self) -> String {
        format!("tardy-{}-_home", self.slot)
    }

    /// The link at one end: at most 15 characters (IFNAMSIZ − 1).
    pub fn link(self, side: Side) -> String {
        format!("tardy{}-{}", self.slot, side as u8)
    }

    /// The number of the simulated device at one end, on its bus. Others begin to count at 0 or 1.
    pub fn simulated(self, side: Side) -> u32 {
        0x7464_0000 + u32::from(self.slot) * 2 + side as u32
    }

    /// The address of one end, in a /30 of 198.18.0.0/15, which RFC 2544 sets aside for benchmarks. A slot owns 32
    /// addresses of the 2^17.
    pub fn address(self, side: Side) -> Ipv4Addr {
        let first = u32::from(Ipv4Addr::new(198, 18, 0, 0));
        Ipv4Addr::from(first + u32::from(self.slot) * 32 + 1 + side as u32)
    }

    /// The IPv6 address of one end, in a /64 of its own that is unique local (RFC 4193).
    pub fn address6(self, side: Side) -> Ipv6Addr {
        Ipv6Addr::new(0xfd74, 0x6172, 0x6479, self.slot, 0, 0, 0, 1 + side as u16)
    }

    /// The VLAN device at one end: at most 15 characters.
    pub fn vlan(self, side: Side, vlan: u16) -> String {
        format!("tdy{}-{}.{vlan}", self.slot, side as u8)
    }

    /// The address of one end in the `n`th VLAN, from 0 to 6: a /30 of the slot's own, behind the path's.
    pub fn vlan_address(self, side: Side, n: u8) -> Ipv4Addr {
        Ipv4Addr::from(u32::from(self.address(side)) + 4 * (u32::from(n) + 1))
    }

    /// The IPv6 address of one end in a VLAN, in a /80 within the path's /64.
    pub fn vlan_address6(self, side: Side, vlan: u16) -> Ipv6Addr {
        let [a, b, c, d, _, _, _, last] = self.address6(side).segments();
        // VLAN 0 must not have the path's own.
        Ipv6Addr::new(a, b, c, d, vlan + 1, 0, 0, last)
    }

    /// The prefix length that belongs to [`Names::vlan_address6`].
    pub const VLAN_PREFIX6: u8 = 80;

    /// The prefix length that belongs to [`Names::address6`].
    pub const PREFIX6: u8 = 64;

    /// The prefix length that belongs to [`Names::address`].
    pub const PREFIX: u8 = 30;

    /// The MAC address of one end: unicast and locally administered (second-lowest bit of the first byte, IEEE 802).
    pub fn mac(self, side: Side) -> String {
        let [high, low] = self.slot.to_be_bytes();
        format!("02:74:64:{high:02x}:{low:02x}:{:02x}", side as u8)
    }
}
