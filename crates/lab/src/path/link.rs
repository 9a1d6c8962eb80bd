// SPDX-License-Identifier: MIT OR Apache-2.0
//! What every kind of path gives: its steps and its ends.

use crate::host::place::Place;
use crate::step::{Question, Step, Text};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use thiserror::Error;

/// What the kernel says to `addrgenmode` where IPv6 is switched off (`ipv6.disable=1`, or not built in).
pub(crate) const NO_IPV6: &[Text] =
    &[Cow::Borrowed("Address family not supported"), Cow::Borrowed("Operation not supported")];

/// Where a station meets the path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkEnd {
    /// Where the device is: the station's host, and its network namespace there.
    pub place: Place,
    /// The device.
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
    /// Steps that come before those that build the stations.
    pub before: Vec<Step>,
    /// Steps that build it.
    pub steps: Vec<Step>,
    /// Commands that tell what the kernel has made of it, beside the links and addresses.
    pub read_back: Vec<Question>,
    /// Where it ends, by station.
    pub ends: BTreeMap<String, LinkEnd>,
}
