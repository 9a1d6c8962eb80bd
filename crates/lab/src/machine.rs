// SPDX-License-Identifier: MIT OR Apache-2.0
//! What of the machines a plan rests on.

use crate::host::HostId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::{Index, IndexMut};
use tardy_host::nic::Nic;
use tardy_host::softirq::Steering;
use tardy_model::machine::RtLimit;
use tardy_model::time::{Instant, Tai};

/// What of one host a plan rests on. It is read before, so that planning stays pure.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// A process in the network namespace to which devices go back.
    pub home: u32,
    /// Devices that are taken, by the name that the experiment has for them.
    pub nics: BTreeMap<String, Nic>,
    /// CPUs that may be used.
    pub usable: Vec<u32>,
    /// What the devices' interrupts and queues are set to, by the same names.
    pub steering: BTreeMap<String, Steering>,
    /// How many transmit queues the devices have, by the same names.
    pub tx_queues: BTreeMap<String, u32>,
    /// The kernel simulates network devices.
    pub simulates: bool,
    /// It is a guest with the two igb ports that QEMU emulates.
    pub emulates: bool,
    /// The kernel's release.
    pub release: Option<String>,
    /// Memory that can be had, bytes; `None` where the kernel does not say.
    pub available_bytes: Option<u64>,
    /// How long realtime threads may run; `None` if there is no limit, or it is not known.
    pub rt_limit: Option<RtLimit>,
    /// The time by the host's clock, for schedules that must begin in the future; `None` is the clock's epoch.
    pub now: Option<Instant<Tai>>,
}

/// The facts of each host of a run. The coordinator's own is always among them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FactsByHost(BTreeMap<HostId, Facts>);

impl Default for FactsByHost {
    /// This machine, of which nothing is known.
    fn default() -> FactsByHost {
        Facts::default().into()
    }
}

impl From<Facts> for FactsByHost {
    /// A run on the coordinator's host alone.
    fn from(here: Facts) -> FactsByHost {
        FactsByHost([(HostId::HERE, here)].into())
    }
}

impl FactsByHost {
    /// Also those of another host.
    #[must_use]
    pub fn and(mut self, host: HostId, facts: Facts) -> FactsByHost {
        self.0.insert(host, facts);
        self
    }

    /// All, the coordinator's own first.
    pub fn iter(&self) -> impl Iterator<Item = (HostId, &Facts)> {
        self.0.iter().map(|(host, facts)| (*host, facts))
    }
}

impl Index<HostId> for FactsByHost {
    type Output = Facts;

    /// # Panics
    /// If the host is none of the run's. A run looks at all its hosts before it plans.
    fn index(&self, host: HostId) -> &Facts {
        &self.0[&host]
    }
}

impl IndexMut<HostId> for FactsByHost {
    fn index_mut(&mut self, host: HostId) -> &mut Facts {
        self.0.entry(host).or_default()
    }
}
