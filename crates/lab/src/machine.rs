// SPDX-License-Identifier: MIT OR Apache-2.0
//! What of the machines a plan rests on.

use crate::behind::Behind;
use crate::host::HostId;
use crate::names::Names;
use crate::not_found::NotFound;
use crate::station::host_of;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use tardy_host::cpus::Cpus;
use tardy_host::nic::Nic;
use tardy_host::softirq::Steering;
use tardy_model::machine::RtLimit;
use tardy_model::path::PathKind;
use tardy_model::time::{Instant, Tai};
use tardy_spec::experiment::Setup;

/// What of one host a plan rests on. It is read before, so that planning stays pure.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// A process in the network namespace to which devices go back.
    pub home: u32,
    /// Devices that are taken, by the name that the experiment has for them.
    pub nics: BTreeMap<String, Nic>,
    /// The machine's own addresses, if it was asked for them.
    #[serde(default)]
    pub own: Vec<OwnAddress>,
    /// What is behind the devices of virtual machines that are there already, by device.
    #[serde(default)]
    pub behind: BTreeMap<String, Behind>,
    /// By which addresses ssh goes: this machine's, and its own; `None` if it is not reached so.
    #[serde(default)]
    pub reached: Option<[IpAddr; 2]>,
    /// It is reached over a network, by ssh.
    #[serde(default)]
    pub is_far: bool,
    /// By which network devices of the coordinator's machine ssh goes to it; `None` where that
    /// cannot be found out, or it is not reached so.
    #[serde(default)]
    pub goes_by_here: Option<Vec<String>>,
    /// CPUs that may be used.
    pub usable: Vec<u32>,
    /// And those that the kernel keeps apart and that may be used by their numbers.
    #[serde(default)]
    pub apart: Vec<u32>,
    /// What the devices' interrupts and queues are set to, by the same names.
    pub steering: BTreeMap<String, Steering>,
    /// How many transmit queues the devices have, by the same names.
    pub tx_queues: BTreeMap<String, u32>,
    /// The kinds of paths that the machine can have, as files call them.
    pub paths: BTreeSet<String>,
    /// Programs that loads are to run there and that cannot be run, each with what is wrong and
    /// what helps.
    pub no_programs: BTreeMap<String, String>,
    /// Release of its kernel, as `uname -r` prints it.
    pub release: Option<String>,
    /// How many idle states a CPU has; `None` where the kernel does not say.
    pub idle_states: Option<u32>,
    /// Memory that is available, in bytes; `None` where the kernel does not say.
    pub available_bytes: Option<u64>,
    /// How long realtime threads may run; `None` if there is no limit, or it is not known.
    pub rt_limit: Option<RtLimit>,
    /// Whether the kernel compiles BPF programs as it loads them (`net.core.bpf_jit_enable`);
    /// `None` where it does not say, as outside the machine's first network namespace.
    #[serde(default)]
    pub bpf_jit: Option<u8>,
    /// Whether the kernel can interpret them; `None` where that is not known, or was not asked.
    #[serde(default)]
    pub interprets: Option<bool>,
    /// CLOCK_TAI is ahead of CLOCK_REALTIME by this, s; `None` where it was not asked.
    #[serde(default)]
    pub tai_offset_s: Option<i32>,
    /// The time by the host's clock, for schedules that must begin in the future; `None` is the
    /// clock's epoch.
    pub now: Option<Instant<Tai>>,
}

/// An address of a machine, and the device that has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnAddress {
    pub address: IpAddr,
    pub device: String,
    pub mac: String,
    /// Greatest IP packet of the device, bytes; 0 where that is not known.
    #[serde(default)]
    pub mtu: u32,
}

impl Facts {
    /// The CPUs on which threads can be placed.
    pub fn cpus(&self) -> Cpus<'_> {
        Cpus { usable: &self.usable, apart: &self.apart }
    }

    /// The name that the experiment has for a network device that was looked at.
    pub fn named(&self, device: &str) -> Option<&str> {
        self.nics.iter().find(|(_, nic)| nic.name == device).map(|(name, _)| name.as_str())
    }

    /// True if the machine can have a path of this kind.
    pub fn can_have(&self, path: PathKind) -> bool {
        self.paths.contains(path.traits().name)
    }
}

/// The facts of each host of a run. The coordinator's own is always among them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FactsByHost {
    here: Facts,
    others: BTreeMap<HostId, Facts>,
    /// The names that the run has on other hosts.
    names: BTreeMap<HostId, Names>,
}

impl From<Facts> for FactsByHost {
    /// A run on the coordinator's host alone.
    fn from(here: Facts) -> FactsByHost {
        FactsByHost { here, ..FactsByHost::default() }
    }
}

impl FactsByHost {
    /// Also those of another host.
    #[must_use]
    pub fn and(mut self, host: HostId, facts: Facts) -> FactsByHost {
        if host == HostId::HERE {
            self.here = facts;
        } else {
            self.others.insert(host, facts);
        }
        self
    }

    /// Those of the coordinator's own.
    pub fn here(&self) -> &Facts {
        &self.here
    }

    /// The run has a slot on another host, whose names are these.
    pub fn claimed(&mut self, host: HostId, names: Names) {
        self.names.insert(host, names);
    }

    /// The names of what the run makes on a host, where `here` are those on the coordinator's own.
    /// A virtual machine has none of its own.
    pub fn names(&self, host: HostId, here: Names) -> Names {
        self.names.get(&host).copied().unwrap_or(here)
    }

    /// The time of a host's clock was read.
    pub fn read_clock(&mut self, host: HostId, now: Instant<Tai>) {
        match host {
            HostId::HERE => self.here.now = Some(now),
            other => self.others.entry(other).or_default().now = Some(now),
        }
    }

    /// Those of a host.
    ///
    /// # Errors
    /// If the run has not looked at it.
    pub fn of(&self, host: HostId) -> Result<&Facts, NotFound> {
        match host {
            HostId::HERE => Ok(&self.here),
            other => self.others.get(&other).ok_or(NotFound::Host(other)),
        }
    }

    /// Those of the host on which a station is.
    ///
    /// # Errors
    /// If the set-up has no such station, or the run has not looked at its host.
    pub fn at(&self, setup: &Setup, station: &str) -> Result<&Facts, NotFound> {
        self.of(host_of(setup, station)?)
    }

    /// All, the coordinator's own first.
    pub fn iter(&self) -> impl Iterator<Item = (HostId, &Facts)> {
        let others = self.others.iter().map(|(host, facts)| (*host, facts));
        std::iter::once((HostId::HERE, &self.here)).chain(others)
    }
}
