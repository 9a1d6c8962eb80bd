// SPDX-License-Identifier: MIT OR Apache-2.0
//! What of the machine a plan rests on.

use std::collections::BTreeMap;
use tardy_host::nic::Nic;
use tardy_host::softirq::Steering;
use tardy_model::time::{Instant, Tai};

/// What of the machine a plan rests on. Read before, so that planning stays pure.
#[derive(Clone, Debug, Default)]
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
    /// The kernel's release.
    pub release: Option<String>,
    /// The time, for schedules that must begin in the future; `None` is the clock's epoch.
    pub now: Option<Instant<Tai>>,
}
