// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kinds of paths. What a kind *is* is one record here, [`PathTraits`], and whoever has to know
//! asks the record, not the kind. What a kind *does* is a file in `lab/src/path`. A [`PathId`] is
//! one of the paths of a set-up.

use serde::{Deserialize, Serialize};
use std::fmt;

listed! {
    /// A kind of path between stations.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum PathKind {
        Veth,
        /// Two network devices of this host, cabled back to back.
        Wire,
        /// What joins the machines already: their own devices, addresses and routes, of which
        /// nothing is changed.
        Network,
        /// Two devices of the kernel's simulator of network devices, joined.
        Netdevsim,
        /// The two igb ports of a guest, joined: whole network devices, emulated.
        Igb,
        /// A virtual machine's tap in the namespace of the other station.
        Tap,
        /// A bridge between a virtual machine's tap and a pair of virtual links to the other
        /// station, or a network device of the host's that a cable joins to that station's.
        Bridge,
        /// A virtual machine's macvtap on one of a pair of virtual links, the other of which is in
        /// the other station.
        Macvtap,
        /// Open vSwitch's datapath in the kernel between a virtual machine's tap and a pair of
        /// virtual links to the other station.
        Ovs,
        /// The same, by Open vSwitch's datapath in user space: its own program moves the packets.
        OvsNetdev,
        /// Two XDP programs between a virtual machine's tap and a pair of virtual links to the
        /// other station: what arrives at the one device leaves by the other.
        Xdp,
        /// A network device of the host, or a virtual function of one, that a virtual machine has
        /// for itself (VFIO). The other station has the device at the other end of its cable.
        Vfio,
    }
}

/// A path of a set-up, by its place among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PathId(u16);

impl PathId {
    /// The only one of most set-ups.
    pub const FIRST: PathId = PathId(0);

    /// The path at this place.
    pub const fn numbered(number: u16) -> PathId {
        PathId(number)
    }
}

impl fmt::Display for PathId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "path {}", self.0)
    }
}

/// What is behind a network device of a virtual machine, on the host that runs it. A machine has
/// one device for each that its cells need, from its start on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Backend {
    Tap,
    /// A macvtap on one of a pair of virtual links.
    Macvtap,
    /// Nothing: the device is the host's own, which the machine has for itself. Such a machine has
    /// no other device.
    Vfio,
}

impl Backend {
    /// The number of the machine's slot for it.
    pub const fn slot(self) -> u8 {
        match self {
            Backend::Tap | Backend::Vfio => 0,
            Backend::Macvtap => 1,
        }
    }
}

listed! {
    /// What a macvtap lets pass (macvlan's modes). Between one virtual machine and what is beyond
    /// the link below, each of them carries everything; they differ between macvtaps on one link.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum MacvtapMode {
        /// Those on one link reach each other.
        #[default]
        Bridge,
        /// They reach each other only by a switch beyond the link that sends packets back.
        Vepa,
        /// They never reach each other.
        Private,
        /// There is one, which has the link for itself: it gets every frame, to whatever address.
        Passthru,
    }
}

impl MacvtapMode {
    /// The name in files, as `ip link` calls it too.
    pub const fn name(self) -> &'static str {
        match self {
            MacvtapMode::Bridge => "bridge",
            MacvtapMode::Vepa => "vepa",
            MacvtapMode::Private => "private",
            MacvtapMode::Passthru => "passthru",
        }
    }
}

listed! {
    /// What the kernel does with BPF programs as they are loaded (`net.core.bpf_jit_enable`).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum BpfJit {
        /// What the machine is set to.
        #[default]
        AsSet,
        /// Each becomes machine code.
        On,
        /// Its interpreter runs them, some times slower.
        Off,
    }
}

impl BpfJit {
    /// The name in files.
    pub const fn name(self) -> &'static str {
        match self {
            BpfJit::AsSet => "default",
            BpfJit::On => "on",
            BpfJit::Off => "off",
        }
    }
}

/// Where the network devices of a path come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Devices {
    /// The path makes them, with as many queues as the experiment says.
    Made {
        /// Their driver, where it is one that a queue discipline may be offloaded to.
        driver: Option<&'static str>,
    },
    /// They are there before the path is, always by these names, in the order of the stations.
    There(&'static [&'static str]),
    /// They are there before the path is, and the experiment names them.
    Named,
    /// They are the stations' own: the path takes none and makes none.
    Own,
    /// The path ends at a virtual machine, which has its device from its start on; the path makes
    /// the rest, or takes devices that the experiment names. The other station is a network
    /// namespace.
    OfGuest(Backend),
}

/// The clock of a path's network devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceClock {
    None,
    /// They have one, and it is a real device's or acts for one.
    Own,
    /// They have one that an emulator makes.
    Emulated,
}

/// Where a path of a kind is available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Where {
    /// On this machine and in a guest.
    Anywhere,
    /// Only in a guest, which gets its devices.
    OnlyInGuest,
    /// Only on this machine, whose devices it takes.
    OnlyHere,
}

/// What a kind of path is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathTraits {
    /// The word for `path.kind`.
    pub name: &'static str,
    /// Where its network devices come from.
    pub devices: Devices,
    /// The most stations that it joins.
    pub most_stations: usize,
    /// The clock of its devices.
    pub clock: DeviceClock,
    /// Where it is available.
    pub place: Where,
    /// The links of the stations' devices take a while to come up, and are waited for. Devices
    /// inside the path are the path's to wait for.
    pub waits_for_link: bool,
    /// Its packets may take NAPI, if the experiment says so (`path.napi`); on other paths the
    /// driver decides.
    pub napi_on_request: bool,
    /// XDP programs hand its packets on, in the mode that the experiment says (`path.xdp_mode`),
    /// and print each if it says so (`path.xdp_printk`).
    pub by_xdp: bool,
    /// The other end receives the same packet (skb) that one end sends, with all that the kernel
    /// has noted on it. This is also true across a bridge.
    pub hands_packets_over: bool,
    /// It also joins two virtual machines of one host.
    pub joins_machines: bool,
    /// Its way to the other station may be a network device of the host's and its cable, in place
    /// of a pair of virtual links.
    pub takes_uplink: bool,
    /// It also joins stations of two hosts.
    pub joins_hosts: bool,
    /// PTP frames may go over it next to the experiment's.
    pub carries_ptp: bool,
}

/// Stations on one network: each has an agent and, if it is on another machine, a login.
const MOST_OF_NETWORK: usize = 16;

impl PathKind {
    /// The name in files.
    pub const fn name(self) -> &'static str {
        self.traits().name
    }

    pub const fn traits(self) -> PathTraits {
        match self {
            PathKind::Veth => PathTraits {
                name: "veth",
                devices: Devices::Made { driver: None },
                // A device has one peer.
                most_stations: 2,
                clock: DeviceClock::None,
                place: Where::Anywhere,
                waits_for_link: false,
                napi_on_request: true,
                by_xdp: false,
                hands_packets_over: true,
                joins_machines: false,
                takes_uplink: false,
                joins_hosts: false,
                carries_ptp: false,
            },
            PathKind::Wire => PathTraits {
                name: "wire",
                devices: Devices::Named,
                // A cable has two ends.
                most_stations: 2,
                clock: DeviceClock::Own,
                place: Where::OnlyHere,
                waits_for_link: true,
                napi_on_request: false,
                by_xdp: false,
                hands_packets_over: false,
                joins_machines: false,
                takes_uplink: false,
                joins_hosts: true,
                carries_ptp: true,
            },
            PathKind::Network => PathTraits {
                name: "network",
                devices: Devices::Own,
                most_stations: MOST_OF_NETWORK,
                clock: DeviceClock::Own,
                place: Where::OnlyHere,
                waits_for_link: false,
                napi_on_request: false,
                by_xdp: false,
                hands_packets_over: false,
                joins_machines: false,
                takes_uplink: false,
                joins_hosts: true,
                carries_ptp: false,
            },
            PathKind::Netdevsim => PathTraits {
                name: "netdevsim",
                devices: Devices::Made { driver: Some("netdevsim") },
                // The bus links a device to one other.
                most_stations: 2,
                clock: DeviceClock::Own,
                place: Where::Anywhere,
                waits_for_link: true,
                napi_on_request: false,
                by_xdp: false,
                hands_packets_over: true,
                joins_machines: false,
                takes_uplink: false,
                joins_hosts: false,
                carries_ptp: false,
            },
            PathKind::Igb => PathTraits {
                name: "igb",
                // A guest has no other Ethernet devices.
                devices: Devices::There(&["eth0", "eth1"]),
                // The hub has two ports.
                most_stations: 2,
                clock: DeviceClock::Emulated,
                place: Where::OnlyInGuest,
                waits_for_link: true,
                napi_on_request: false,
                by_xdp: false,
                hands_packets_over: false,
                joins_machines: false,
                takes_uplink: false,
                joins_hosts: false,
                carries_ptp: false,
            },
            PathKind::Tap => into_guest("tap", Backend::Tap),
            PathKind::Bridge => forwarded("bridge", Backend::Tap),
            PathKind::Macvtap => forwarded("macvtap", Backend::Macvtap),
            PathKind::Ovs => forwarded("ovs", Backend::Tap),
            PathKind::OvsNetdev => forwarded("ovs-netdev", Backend::Tap),
            PathKind::Xdp => PathTraits { by_xdp: true, ..forwarded("xdp", Backend::Tap) },
            PathKind::Vfio => into_guest("vfio", Backend::Vfio),
        }
    }
}

/// A path into a virtual machine, from a network namespace.
const fn into_guest(name: &'static str, backend: Backend) -> PathTraits {
    PathTraits {
        name,
        devices: Devices::OfGuest(backend),
        // The machine and the namespace.
        most_stations: 2,
        clock: DeviceClock::None,
        place: Where::OnlyHere,
        waits_for_link: true,
        napi_on_request: false,
        by_xdp: false,
        hands_packets_over: false,
        joins_machines: false,
        takes_uplink: false,
        joins_hosts: false,
        carries_ptp: false,
    }
}

/// The same, where something of the host's forwards packets between the machine's device and
/// another one: that of a second machine, one of a pair of links, or a network device.
const fn forwarded(name: &'static str, backend: Backend) -> PathTraits {
    PathTraits { joins_machines: true, takes_uplink: true, ..into_guest(name, backend) }
}

impl PathTraits {
    /// True if the experiment names devices of the host's: it has to, or it may, where the path or
    /// a guest has some of its own.
    pub const fn may_be_named(&self) -> bool {
        self.takes_uplink || matches!(self.devices, Devices::Named | Devices::OfGuest(Backend::Vfio))
    }
}

impl Devices {
    /// True if the path makes them.
    pub const fn are_made(self) -> bool {
        matches!(self, Devices::Made { .. })
    }

    /// True if they are the run's own, whose names differ from run to run.
    pub const fn are_the_runs(self) -> bool {
        self.are_made() || self.backend().is_some()
    }

    /// What is behind the virtual machine's device; `None` if the path ends at none.
    pub const fn backend(self) -> Option<Backend> {
        match self {
            Devices::OfGuest(backend) => Some(backend),
            Devices::Made { .. } | Devices::There(_) | Devices::Named | Devices::Own => None,
        }
    }
}
