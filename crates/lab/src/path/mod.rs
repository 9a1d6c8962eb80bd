// SPDX-License-Identifier: MIT OR Apache-2.0
//! How two stations are joined. What a kind builds stands in its file, which [`lay`] calls; ARCHITECTURE.md lists what else a new kind needs.

pub mod igb;
pub mod netdevsim;
pub mod veth;
pub mod wire;

use crate::command::{Command, Step};
use crate::names::Names;
use crate::vlan;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use tardy_host::nic::Nic;
use tardy_host::softirq::Steering;
use tardy_model::time::{Instant, Tai};
use tardy_spec::experiment::{Path, Setup};
use thiserror::Error;

/// What of the machine a plan rests on. Read before, so that planning stays pure.
#[derive(Clone, Debug, Default)]
pub struct Found {
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

/// Where a station meets the path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkEnd {
    /// The station's network namespace.
    pub netns: String,
    /// The device in it.
    pub device: String,
    /// Its address.
    pub address: IpAddr,
    /// Its IPv6 address, where a stream asks for one.
    pub address6: Option<Ipv6Addr>,
    /// The device's hardware address.
    pub mac: String,
    /// VLAN devices over it, by VLAN id.
    pub vlans: BTreeMap<u16, VlanEnd>,
}

/// A VLAN device of a station.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VlanEnd {
    /// Its name.
    pub device: String,
    /// Its address.
    pub address: IpAddr,
    /// Its IPv6 address, where a stream asks for one.
    pub address6: Option<Ipv6Addr>,
}

/// A path that cannot join these stations.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PathError {
    /// This kind of path has exactly two ends.
    #[error("{kind} joins exactly two stations, and the experiment has {}: name two in [station.*]", list(stations))]
    TwoStations {
        /// The path's kind.
        kind: &'static str,
        /// The stations there are.
        stations: Vec<String>,
    },
    /// A device was not looked at before.
    #[error("nothing is known of network device `{device}`: it was not looked at")]
    Unread {
        /// Which.
        device: String,
    },
}

fn list(stations: &[String]) -> String {
    if stations.is_empty() { "none".to_owned() } else { format!("{} ({})", stations.len(), stations.join(", ")) }
}

/// What a path kind plans.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Laid {
    /// Steps that build it.
    pub steps: Vec<Step>,
    /// Commands that tell what the kernel has made of it, beside the links and addresses.
    pub read_back: Vec<Command>,
    /// Where it ends, by station.
    pub ends: BTreeMap<String, LinkEnd>,
}

/// Why no path of this kind can be had here, where a cell that asks for it should not cost the others; `None` if it may be.
pub fn cannot(setup: &Setup, found: &Found) -> Option<String> {
    match setup.path {
        Path::Netdevsim { .. } if !found.simulates => Some(
            "path netdevsim needs the kernel's module of that name, of Linux 6.9 or newer, and it is not loaded: `tardy guest fetch --with \
             netdevsim` builds it for a guest, then `--in guest:exact`"
                .to_owned(),
        ),
        Path::Igb { .. } if !igb::is_here() => Some(igb::WHY_NOT.to_owned()),
        _ => None,
    }
}

/// Plans the path of a set-up.
///
/// # Errors
/// If the path cannot join these stations.
pub fn lay(setup: &Setup, names: Names, found: &Found) -> Result<Laid, PathError> {
    let mut laid = match &setup.path {
        Path::Veth { queues, mtu } => veth::lay(setup, *queues, *mtu, names),
        Path::Netdevsim { queues, mtu } => netdevsim::lay(setup, *queues, *mtu, names),
        Path::Igb { mtu } => igb::lay(setup, *mtu, names, found),
        Path::Wire { a, b, mtu, .. } => wire::lay(setup, [a, b], *mtu, names, found),
    }?;
    vlan::over(setup, names, &mut laid);
    Ok(laid)
}
