// SPDX-License-Identifier: MIT OR Apache-2.0
//! What every kind of path gives: its steps and its ends.

use super::keeper::Keeper;
use crate::host::place::Place;
use crate::names::LinkNumber;
use crate::not_found::NotFound;
use crate::step::{Question, Step, Text};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use thiserror::Error;

/// What the kernel says to `addrgenmode` where IPv6 is switched off (`ipv6.disable=1`, or not
/// built in).
pub(crate) const NO_IPV6: &[Text] =
    &[Cow::Borrowed("Address family not supported"), Cow::Borrowed("Operation not supported")];

/// Where a station meets the path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkEnd {
    /// Where the device is: the station's host, and its network namespace there.
    pub place: Place,
    pub device: String,
    pub address: IpAddr,
    /// Its IPv6 address, where a stream asks for one.
    pub address6: Option<Ipv6Addr>,
    /// The device's hardware address.
    pub mac: String,
    /// VLAN devices over it, by VLAN id.
    pub vlans: BTreeMap<u16, VlanEnd>,
}

/// A path of a set-up, by its place among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathId(u16);

impl PathId {
    /// The only one of most set-ups.
    pub const FIRST: PathId = PathId(0);

    /// The path at this place.
    pub const fn numbered(number: u16) -> PathId {
        PathId(number)
    }
}

/// Where the paths of a set-up end, in the order of the stations' names. A station has an end for
/// each path that leads to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ends(BTreeMap<(String, PathId), LinkEnd>);

impl Ends {
    /// Those of one path, by station.
    pub fn of(path: PathId, ends: impl IntoIterator<Item = (String, LinkEnd)>) -> Ends {
        Ends(ends.into_iter().map(|(station, end)| ((station, path), end)).collect())
    }

    /// Also those of another path.
    pub fn join(&mut self, other: Ends) {
        self.0.extend(other.0);
    }

    /// A station's end on the first path that leads to it.
    ///
    /// # Errors
    /// If none does.
    pub fn at(&self, station: &str) -> Result<&LinkEnd, NotFound> {
        let end = self.iter().find(|(name, _)| *name == station).map(|(_, end)| end);
        end.ok_or_else(|| NotFound::End(station.to_owned()))
    }

    /// A station's end on a path; `None` if that one does not lead to it.
    pub fn on(&self, station: &str, path: PathId) -> Option<&LinkEnd> {
        self.0.get(&(station.to_owned(), path))
    }

    /// All, each with its station.
    pub fn iter(&self) -> impl Iterator<Item = (&String, &LinkEnd)> {
        self.0.iter().map(|((station, _), end)| (station, end))
    }

    pub fn values(&self) -> impl Iterator<Item = &LinkEnd> {
        self.0.values()
    }

    /// All, to be changed.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut LinkEnd> {
        self.0.values_mut()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if no path leads anywhere.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl LinkEnd {
    /// Its device for a VLAN. `station` is whose end it is.
    ///
    /// # Errors
    /// If it has none.
    pub fn vlan(&self, station: &str, vlan: u16) -> Result<&VlanEnd, NotFound> {
        self.vlans.get(&vlan).ok_or_else(|| NotFound::Vlan { station: station.to_owned(), vlan })
    }
}

/// A VLAN device of a station.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VlanEnd {
    pub device: String,
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
    /// A station offers something else than a network namespace.
    #[error("{kind} joins network namespaces, and station `{station}` has none of its own: use another kind of path")]
    NoNamespace {
        /// The path's kind.
        kind: &'static str,
        station: String,
    },
    /// The experiment does not name the devices that such a path joins.
    #[error("{kind} joins two network devices, and the experiment names none: write path.a and path.b")]
    Unnamed {
        /// The path's kind.
        kind: &'static str,
    },
    /// More ends than the slot has names for.
    #[error(
        "station `{station}` has end {number} of the path, and a VLAN has room for {}: use fewer stations",
        LinkNumber::MOST
    )]
    TooManyEnds {
        /// The first one too many.
        station: String,
        /// Its place among them, from 1.
        number: usize,
    },
    /// A station or a host that is not there.
    #[error(transparent)]
    NotFound(#[from] NotFound),
    /// A device was not looked at before.
    #[error("nothing is known of network device `{device}`: it was not looked at")]
    Unread { device: String },
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
    /// Programs that run as long as it does, started in this order behind the steps.
    pub keepers: Vec<Keeper>,
    /// Commands that tell what the kernel has made of it, beside the links and addresses.
    pub read_back: Vec<Question>,
    pub ends: Ends,
}
