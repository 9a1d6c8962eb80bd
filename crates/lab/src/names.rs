// SPDX-License-Identifier: MIT OR Apache-2.0
//! One number for each run of tardy on this machine, and every name and address that follows from
//! it. Two runs hold two numbers, so nothing that they make can clash.

use crate::guest::folder::OF_MACHINE;
use std::net::{Ipv4Addr, Ipv6Addr};
use tardy_model::machine::HostId;
use tardy_model::path::Backend;

/// Where a run's slot lies unless the user names another folder.
pub const STATE: &str = "/run/tardy";
pub const SLOTS: u16 = 4096;
/// Where iproute2 keeps its named namespaces.
pub(crate) const NETNS: &str = "/run/netns";

/// How the MAC addresses of all that runs make begin.
const MAC: &str = "02:74:64";

/// The name of a virtual machine's network device in the machine, by the number of its slot.
pub fn in_machine(slot: u8) -> String {
    format!("tardy-vm{slot}")
}

/// The slot of a virtual machine's network device with this MAC address; `None` if it is none of
/// tardy's.
pub fn slot_of_mac(mac: &str) -> Option<u8> {
    let last = mac.strip_prefix(MAC)?.rsplit(':').next()?;
    u8::from_str_radix(last, 16).ok().filter(|last| *last >= 0x80).map(|last| last & 1)
}

/// The number of a link's end in a set-up, from 0: the path's ends in the order of their stations'
/// names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LinkNumber(u8);

impl LinkNumber {
    /// Of the station that comes first by name.
    pub const FIRST: LinkNumber = LinkNumber(0);
    /// Of the next one.
    pub const SECOND: LinkNumber = LinkNumber(1);
    /// The number of ends that a subnet has room for.
    pub const MOST: u8 = 126;

    /// The `number`th, from 0; `None` from [`LinkNumber::MOST`] on.
    pub fn new(number: usize) -> Option<LinkNumber> {
        u8::try_from(number).ok().filter(|number| *number < LinkNumber::MOST).map(LinkNumber)
    }
}

/// The IPv4 addresses of a path or of a VLAN on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subnet {
    base: u32,
    /// The prefix length that belongs to its addresses.
    pub prefix: u8,
}

impl Subnet {
    /// That of one end.
    pub fn address(self, link: LinkNumber) -> Ipv4Addr {
        Ipv4Addr::from(self.base + 1 + u32::from(link.0))
    }
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

    pub fn slot(self) -> u16 {
        self.slot
    }

    /// The network namespace of a station.
    pub fn netns(self, station: &str) -> String {
        format!("tardy-{}-{station}", self.slot)
    }

    /// The name under which a run keeps the network namespace that its devices came from. No
    /// station is called so.
    pub fn home(self) -> String {
        format!("tardy-{}-_home", self.slot)
    }

    /// The network namespace that holds what is behind a virtual machine's network devices, and in
    /// which QEMU runs. No station is called so.
    pub fn machine_netns(self, machine: HostId) -> String {
        format!("tardy-{}-_vm{}", self.slot, machine.number())
    }

    /// What is behind a virtual machine's network device, in that namespace: at most 15 characters.
    pub fn backend(self, backend: Backend) -> String {
        match backend {
            Backend::Tap => format!("tardy{}-tap", self.slot),
            Backend::Macvtap => format!("tardy{}-mvt", self.slot),
            Backend::Vfio => format!("tardy{}-vfio", self.slot),
        }
    }

    /// The link below a macvtap, and the other one of that pair, which goes to the other station.
    pub fn below_macvtap(self) -> [String; 2] {
        ["low", "up"].map(|end| format!("tardy{}-{end}", self.slot))
    }

    /// A bridge to a virtual machine, and its end of the pair of links that goes to the other
    /// station.
    pub fn bridge(self) -> [String; 2] {
        ["br", "brup"].map(|part| format!("tardy{}-{part}", self.slot))
    }

    /// Transmit and receive queues of a pair of links to a virtual machine: as many as those of
    /// path veth have by default, so that a shaper with classes finds one for each.
    pub const PAIR_QUEUES: &str = "4";

    /// Open vSwitch's datapath to a virtual machine, which is also the name of its own device.
    pub fn datapath(self) -> String {
        format!("tardy{}-ovs", self.slot)
    }

    /// The bridge of a switch that runs in user space, which is also the name of a device.
    pub fn switch_bridge(self) -> String {
        format!("tardy{}-sw", self.slot)
    }

    /// The folder of a switch that runs in user space, as long as its path is there.
    pub fn switch_folder(self) -> String {
        format!("/run/{OF_MACHINE}{}-switch", self.slot)
    }

    /// The folder of a ptp4l of tardy's own on one end of a path, as long as the path is there.
    pub fn ptp_folder(self, side: LinkNumber) -> String {
        format!("/run/{OF_MACHINE}{}-ptp{}", self.slot, side.0)
    }

    /// The number of a macvtap in its namespace. The file in /dev by which a program opens it is
    /// called by this number, and all namespaces share /dev.
    pub fn macvtap_index(self, machine: HostId) -> u32 {
        0x7464_0000 + u32::from(self.slot) * u32::from(Names::MACHINES) + u32::from(machine.number())
    }

    /// Virtual machines of a run whose devices have addresses of their own.
    pub const MACHINES: u16 = 60;

    /// The MAC address of a virtual machine's network device. Its last byte is above those of
    /// [`Names::mac`]; the lowest bit is the number of the machine's slot.
    pub fn machine_mac(self, machine: HostId, slot: u8) -> String {
        let [high, low] = self.slot.to_be_bytes();
        let last = 0x80 | ((machine.number() as u8).wrapping_sub(1) & 0x3f) << 1 | (slot & 1);
        format!("{MAC}:{high:02x}:{low:02x}:{last:02x}")
    }

    /// The MAC address of a virtual machine's tap that is a port of a bridge. A bridge takes frames
    /// to an address of one of its ports for its own, so it is none of [`Names::mac`].
    pub fn port_mac(self) -> String {
        let [high, low] = self.slot.to_be_bytes();
        format!("{MAC}:{high:02x}:{low:02x}:{:02x}", LinkNumber::MOST)
    }

    /// The link at one end: at most 15 characters (IFNAMSIZ − 1).
    pub fn link(self, link: LinkNumber) -> String {
        format!("tardy{}-{}", self.slot, link.0)
    }

    /// The number of the simulated device at one end, on its bus. Others begin to count at 0 or 1.
    pub fn simulated(self, link: LinkNumber) -> u32 {
        let (slot, number) = (u32::from(self.slot), u32::from(link.0));
        if number < 2 {
            0x7464_0000 + slot * 2 + number
        } else {
            0x7474_0000 + slot * u32::from(LinkNumber::MOST) + number
        }
    }

    /// The addresses of a path with this number of ends. Two ends have a /30 of 198.18.0.0/15,
    /// which RFC 2544 sets aside for benchmarks; a slot owns 32 addresses of the 2^17. More ends
    /// have a /25 of 100.64.0.0/10 (RFC 6598), of whose 2^22 addresses a slot owns 1024.
    pub fn subnet(self, ends: usize) -> Subnet {
        self.subnet_at(ends, 0)
    }

    /// VLANs of a set-up that have addresses, those of each path counted by themselves: a slot has
    /// eight subnets, and the first one is the path's.
    pub const VLANS: u8 = 7;

    /// The addresses of the `n`th VLAN of a set-up, below [`Names::VLANS`], on a path with this
    /// number of ends: a subnet of the slot's own, after the path's.
    pub fn vlan_subnet(self, ends: usize, n: u8) -> Subnet {
        self.subnet_at(ends, u32::from(n) + 1)
    }

    fn subnet_at(self, ends: usize, number: u32) -> Subnet {
        let (first, each, prefix) = match ends {
            0..=2 => (Ipv4Addr::new(198, 18, 0, 0), 4, Names::PREFIX),
            _ => (Ipv4Addr::new(100, 64, 0, 0), 128, 25),
        };
        Subnet { base: u32::from(first) + (u32::from(self.slot) * 8 + number) * each, prefix }
    }

    /// The address of one end of a path that has two.
    pub fn address(self, link: LinkNumber) -> Ipv4Addr {
        self.subnet(2).address(link)
    }

    /// The IPv6 address of one end, in a /64 of its own that is unique local (RFC 4193).
    pub fn address6(self, link: LinkNumber) -> Ipv6Addr {
        Ipv6Addr::new(0xfd74, 0x6172, 0x6479, self.slot, 0, 0, 0, 1 + u16::from(link.0))
    }

    /// The VLAN device at one end of all that a set-up has: at most 15 characters.
    pub fn vlan(self, link: LinkNumber, vlan: u16) -> String {
        // Decimal for two ends, as before there were more; hexadecimal numbers of two digits keep
        // within 15 characters.
        format!("tdy{}-{:x}.{vlan}", self.slot, link.0)
    }

    /// The IPv6 address of one end in a VLAN, in a /80 within the slot's /64. `path` is the path's
    /// place among those with VLANs, below [`Names::VLANS`].
    pub fn vlan_address6(self, link: LinkNumber, path: u8, vlan: u16) -> Ipv6Addr {
        let [a, b, c, d, _, _, _, last] = self.address6(link).segments();
        // VLAN 0 must not have the path's own. An id has 12 bits.
        Ipv6Addr::new(a, b, c, d, (u16::from(path) << 12) | (vlan + 1), 0, 0, last)
    }

    /// The prefix length that belongs to [`Names::vlan_address6`].
    pub const VLAN_PREFIX6: u8 = 80;

    /// The prefix length that belongs to [`Names::address6`].
    pub const PREFIX6: u8 = 64;

    /// The prefix length that belongs to the addresses of a path with two ends.
    pub const PREFIX: u8 = 30;

    /// The MAC address of one end: unicast and locally administered (second-lowest bit of the
    /// first byte, IEEE 802).
    pub fn mac(self, link: LinkNumber) -> String {
        let [high, low] = self.slot.to_be_bytes();
        format!("{MAC}:{high:02x}:{low:02x}:{:02x}", link.0)
    }
}
