// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kinds of stations. What a kind *is* is one record here, [`StationTraits`], and whoever has to
//! know asks the record, not the kind. What a kind *does* is a file in `lab/src/station`.

use crate::machine::HostId;
use crate::path::Backend;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;

listed! {
    /// A place where traffic starts or ends.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum StationKind {
        /// A fresh network namespace.
        Netns,
        /// A virtual machine that QEMU runs, with a kernel of its own.
        Guest,
        /// A machine's own network, as it is.
        Host,
    }
}

/// How long a station lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// As long as a path: it is built before each one, and put back with it.
    SetUp,
    /// For the whole run: it is built once, before the first path, and put back after the last one.
    /// Its agent serves all cells.
    Run,
}

/// What a kind of station is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StationTraits {
    /// The word for `station.*.kind`.
    pub name: &'static str,
    /// How long it lives.
    pub life: Life,
    /// It is a machine with a kernel and clocks of its own, which is started before the run looks
    /// at its hosts.
    pub is_machine: bool,
}

impl StationKind {
    /// The name in files.
    pub const fn name(self) -> &'static str {
        self.traits().name
    }

    pub const fn traits(self) -> StationTraits {
        match self {
            StationKind::Netns => StationTraits { name: "netns", life: Life::SetUp, is_machine: false },
            StationKind::Guest => StationTraits { name: "guest", life: Life::Run, is_machine: true },
            StationKind::Host => StationTraits { name: "host", life: Life::SetUp, is_machine: false },
        }
    }
}

listed! {
    /// The network devices of a virtual machine, and who moves its packets.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Net {
        /// virtio, by QEMU's own thread.
        Virtio,
        /// virtio, by a thread of the host's kernel.
        Vhost,
        /// An emulated Intel 82574.
        E1000e,
        /// An emulated Intel 82576.
        Igb,
    }
}

impl Net {
    /// The word for `station.*.net`.
    pub const fn name(self) -> &'static str {
        match self {
            Net::Virtio => "virtio",
            Net::Vhost => "vhost",
            Net::E1000e => "e1000e",
            Net::Igb => "igb",
        }
    }

    /// QEMU's name of the device.
    pub const fn device(self) -> &'static str {
        match self {
            Net::Virtio | Net::Vhost => "virtio-net-pci",
            Net::E1000e => "e1000e",
            Net::Igb => "igb",
        }
    }

    /// The module of its driver in the machine.
    pub const fn module(self) -> &'static str {
        match self {
            Net::Virtio | Net::Vhost => "virtio_net",
            Net::E1000e => "e1000e",
            Net::Igb => "igb",
        }
    }

    /// The first version of QEMU that has it.
    pub const fn since(self) -> u32 {
        match self {
            Net::Igb => 8,
            Net::Virtio | Net::Vhost | Net::E1000e => 0,
        }
    }
}

listed! {
    /// The threads by which a host runs a virtual machine, by what they do.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum MachinePart {
        /// A virtual CPU, one thread for each, or one for all where the processor is emulated so.
        Vcpu,
        /// The kernel's thread that moves the packets of a device.
        Vhost,
        /// All other threads of QEMU: its main loop, which moves packets without vhost.
        Emulator,
    }
}

impl MachinePart {
    /// The word in `station.*.vcpu`, and in the names of threads.
    pub const fn name(self) -> &'static str {
        match self {
            MachinePart::Vcpu => "vcpu",
            MachinePart::Vhost => "vhost",
            MachinePart::Emulator => "emulator",
        }
    }

    /// What the thread of a virtual machine does, by the name that it has: QEMU calls its virtual
    /// CPUs `CPU 0/KVM`, or `ALL CPUs/TCG`, and the kernel its own thread `vhost-` and the number
    /// of the process.
    pub fn of_thread(name: &str) -> MachinePart {
        match name {
            _ if name.starts_with("CPU ") || name.starts_with("ALL CPUs") => MachinePart::Vcpu,
            _ if name.starts_with("vhost-") => MachinePart::Vhost,
            _ => MachinePart::Emulator,
        }
    }

    /// The number that QEMU has for a virtual CPU, by the name of its thread: 11 of `CPU 11/KVM`.
    pub fn number(name: &str) -> Option<u32> {
        name.strip_prefix("CPU ")?.split('/').next()?.parse().ok()
    }
}

impl fmt::Display for MachinePart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Kernels that a virtual machine may be asked to boot by an experiment's file: those that are
/// fetched, with checked sums, and this machine's own. A file of the user's is no choice of a file.
pub const KERNELS: [&str; 4] = ["debian:6.12", "debian:6.12-rt", "debian:6.1", "running"];

/// A network device of the host's that a virtual machine has for itself, or of which it has a
/// virtual function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passed {
    /// Its name, as long as the host has it.
    pub device: String,
    /// It is one of the ports that a guest gets for this. The experiment names none then.
    pub is_guests: bool,
    /// The machine gets a virtual function of it (SR-IOV), and the host keeps the device.
    pub vf: bool,
}

/// The virtual machine of a station.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Which kernel it boots, one of [`KERNELS`].
    pub kernel: String,
    pub cpus: u32,
    pub memory_mib: u64,
    pub net: Net,
    /// Queues of each network device.
    pub queues: u32,
    /// More words for its kernel's command line.
    pub append: String,
    /// What is behind its network devices: what all cells of the experiment need.
    pub backends: BTreeSet<Backend>,
    /// Its macvtap has the link below it for itself. The kernel lets no macvtap change that.
    pub passthru: bool,
    /// Its macvtap is on the link below the macvtap of this machine, which was made before it.
    pub macvtap_on: Option<HostId>,
    /// The network device of the host's that its macvtap is on; `None` if it is on one of a pair of
    /// virtual links. No macvtap moves to another link.
    pub macvtap_over: Option<String>,
    /// What it has for itself of the host's network devices.
    pub passed: Option<Passed>,
    /// Each of its processors computes all the time.
    pub computes: bool,
}
