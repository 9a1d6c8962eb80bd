// SPDX-License-Identifier: MIT OR Apache-2.0
//! What every kind of path gives: its steps and its ends.

use super::keeper::Keeper;
use super::passages::Passages;
use crate::bpf_jit::NoJit;
use crate::host::HostId;
use crate::host::place::Place;
use crate::names::{LinkNumber, Names};
use crate::not_found::NotFound;
use crate::station::{Offer, StationId};
use crate::step::{Question, Step, Text};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use tardy_host::timekeeper::PtpSocket;
pub use tardy_model::path::PathId;
use tardy_model::stream::Stream;
use tardy_model::xdp::DeviceWithin;
use thiserror::Error;

/// What the kernel says to `addrgenmode` where IPv6 is switched off (`ipv6.disable=1`, or not
/// built in).
pub(crate) const NO_IPV6: &[Text] =
    &[Cow::Borrowed("Address family not supported"), Cow::Borrowed("Operation not supported")];

/// A network device that a path gives to a station.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Its name where the path made it.
    pub name: String,
    pub address: IpAddr,
    /// Its IPv6 address, where a stream asks for one.
    pub address6: Option<Ipv6Addr>,
    /// The device's hardware address.
    pub mac: String,
}

/// A path's device, and what a station offers for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plug {
    pub station: String,
    /// Of which path it is the end.
    pub path: PathId,
    /// What the station offers for it.
    pub offer: Offer,
    pub device: Device,
}

/// Where a station meets the path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkEnd {
    pub station: String,
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

/// Where a path meets a station. A station has one end for each path that leads to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EndId {
    pub station: StationId,
    pub path: PathId,
}

/// Where the paths of a set-up end, in the order of the stations' names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ends(BTreeMap<EndId, LinkEnd>);

impl FromIterator<(EndId, LinkEnd)> for Ends {
    fn from_iter<I: IntoIterator<Item = (EndId, LinkEnd)>>(ends: I) -> Ends {
        Ends(ends.into_iter().collect())
    }
}

impl Ends {
    /// A station's only end.
    ///
    /// # Errors
    /// If no path leads to it, or several do.
    pub fn at(&self, station: &str) -> Result<&LinkEnd, NotFound> {
        self.chosen(station, None)
    }

    /// A station's only end, or that on the path that was chosen.
    ///
    /// # Errors
    /// If that path does not lead to it, or none was chosen and not exactly one does.
    pub fn chosen(&self, station: &str, path: Option<PathId>) -> Result<&LinkEnd, NotFound> {
        self.is_met(station)?;
        let all = self.of(station).filter(|(id, _)| path.is_none_or(|path| id.path == path));
        match (&all.collect::<Vec<_>>()[..], path) {
            ([(_, end)], _) => Ok(end),
            (_, Some(path)) => Err(NotFound::NotAt { path, station: station.to_owned() }),
            (several, None) => {
                let paths = several.iter().map(|(id, _)| id.path).collect();
                Err(NotFound::WhichEnd { station: station.to_owned(), paths })
            }
        }
    }

    /// Finds out whether some path leads to a station.
    ///
    /// # Errors
    /// If none does.
    pub(crate) fn is_met(&self, station: &str) -> Result<(), NotFound> {
        self.of(station).next().map(drop).ok_or_else(|| NotFound::End(station.to_owned()))
    }

    /// Both ends of the only path that joins two stations, or of the one that was chosen: what one
    /// sends to the other leaves by the first end and arrives at the second one.
    ///
    /// # Errors
    /// If no path leads to one of them, the one that was chosen does not join them, or none was
    /// chosen and not exactly one does.
    pub fn between(&self, from: &str, to: &str, path: Option<PathId>) -> Result<[EndId; 2], NotFound> {
        self.is_met(from)?;
        self.is_met(to)?;
        let joins = |(near, _): (EndId, &LinkEnd)| {
            let (far, _) = self.of(to).find(|(far, _)| far.path == near.path)?;
            path.is_none_or(|path| near.path == path).then_some([near, far])
        };
        let (from_name, to_name) = (from.to_owned(), to.to_owned());
        match (&self.of(from).filter_map(joins).collect::<Vec<_>>()[..], path) {
            ([both], _) => Ok(*both),
            (_, Some(path)) => Err(NotFound::NotBetween { path, from: from_name, to: to_name }),
            ([], None) => Err(NotFound::Path { from: from_name, to: to_name }),
            (several, None) => {
                let paths = several.iter().map(|[near, _]| near.path).collect();
                Err(NotFound::WhichPath { from: from_name, to: to_name, paths })
            }
        }
    }

    /// The ends of the path that a stream takes.
    ///
    /// # Errors
    /// As [`Ends::between`].
    pub fn of_stream(&self, stream: &Stream) -> Result<[EndId; 2], NotFound> {
        self.between(&stream.from, &stream.to, stream.path)
    }

    /// An end.
    ///
    /// # Errors
    /// If the path does not lead to the station.
    pub fn end(&self, id: EndId) -> Result<&LinkEnd, NotFound> {
        self.0.get(&id).ok_or_else(|| NotFound::End(id.station.to_string()))
    }

    /// What records and results call an end: the station's name, and for a further end of the same
    /// station its number behind it, from 2 on.
    ///
    /// # Errors
    /// If the path does not lead to the station.
    pub fn label(&self, id: EndId) -> Result<String, NotFound> {
        let station = &self.end(id)?.station;
        let before = self.of(station).take_while(|(other, _)| *other != id).count();
        Ok(if before == 0 { station.clone() } else { format!("{station}.{}", before + 1) })
    }

    /// All ends of a station, in the order of the paths.
    pub fn of<'e>(&'e self, station: &str) -> impl Iterator<Item = (EndId, &'e LinkEnd)> {
        self.iter().filter(move |(_, end)| end.station == station)
    }

    pub fn iter(&self) -> impl Iterator<Item = (EndId, &LinkEnd)> {
        self.0.iter().map(|(id, end)| (*id, end))
    }

    pub fn values(&self) -> impl Iterator<Item = &LinkEnd> {
        self.0.values()
    }

    /// All, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (EndId, &mut LinkEnd)> {
        self.0.iter_mut().map(|(id, end)| (*id, end))
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
    /// Its device for a VLAN.
    ///
    /// # Errors
    /// If it has none.
    pub fn vlan(&self, vlan: u16) -> Result<&VlanEnd, NotFound> {
        self.vlans.get(&vlan).ok_or_else(|| NotFound::Vlan { station: self.station.clone(), vlan })
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
        kind: &'static str,
        /// The stations there are.
        stations: Vec<String>,
    },
    /// A station offers something else than a network namespace.
    #[error("{kind} joins network namespaces, and station `{station}` has none of its own: use another kind of path")]
    NoNamespace { kind: &'static str, station: String },
    /// Such a path leads from a namespace into a virtual machine.
    #[error(
        "{kind} joins a network namespace with a virtual machine, and the experiment has {}: write kind = \"netns\" for one of two \
         stations and kind = \"guest\" for the other",
        list(stations)
    )]
    NoMachine {
        kind: &'static str,
        /// The stations there are.
        stations: Vec<String>,
    },
    /// What the machine is set to is not known.
    #[error(transparent)]
    NoJit(#[from] NoJit),
    /// The stations are on two machines, which this kind of path does not join.
    #[error("{kind} joins stations of one machine, and `{first}` and `{second}` are on two: use path \"wire\"")]
    TwoHosts { kind: &'static str, first: String, second: String },
    /// The experiment does not name the devices that such a path joins.
    #[error("{kind} joins two network devices, and the experiment names {}: write path.a and path.b", list(devices))]
    TwoDevices {
        kind: &'static str,
        /// The devices that are named.
        devices: Vec<String>,
    },
    /// A path that gives a station a second device.
    #[error(
        "{path} gives station `{station}` two devices, and a station has one end on a path: let two paths lead to it"
    )]
    TwoEnds { path: PathId, station: String },
    /// Two devices for a slot that takes one.
    #[error("slot {number} of station `{station}` is to take two devices: give each a slot of its own")]
    SlotTaken {
        station: String,
        /// The slot's number at its station.
        number: u8,
    },
    /// More ends than the slot has names for.
    #[error(
        "station `{station}` has end {number} of the set-up's paths, and {} of them can have VLANs: use fewer stations",
        LinkNumber::MOST
    )]
    TooManyEnds {
        /// The first one too many.
        station: String,
        /// Its place among them, from 1.
        number: usize,
    },
    /// More VLANs than the slot has addresses for.
    #[error(
        "the streams go over {count} VLANs, those of each path counted by themselves, and a run has addresses for {}: use \
         fewer, or port \"packet\"",
        Names::VLANS
    )]
    TooManyVlans { count: usize },
    /// A station or a host that is not there.
    #[error(transparent)]
    NotFound(#[from] NotFound),
    /// A device of this machine that is to be taken is the way to another one.
    #[error(
        "ssh goes to `{to}` by network device {device} of this machine, and to take that for the path would cut the connection: \
         measure by another device, or have ssh go by another one"
    )]
    CarriesLogin { device: String, to: String },
    /// Nobody knows by which device of this machine ssh goes to another one.
    #[error(
        "by which network device of this machine ssh goes to `{to}` cannot be found out (a ProxyCommand, or a name without an \
         address), and {device} has addresses, so to take it for the path may cut the connection: take a device without addresses, \
         or reach `{to}` by a HostName, with ProxyJump where it is behind another machine"
    )]
    MayCarryLogin { device: String, to: String },
    /// A machine's own network has several addresses.
    #[error(
        "which of its machine's addresses station `{station}` has is not known: write station.{station}.address = \"…\", as `ip addr` \
         shows it there"
    )]
    NoAddress { station: String },
    /// A machine does not have that address.
    #[error(
        "station `{station}` is to have the address {address}, and its machine has {}: write one of those (behind an address \
         translation, ssh sees another one)",
        has.join(", ")
    )]
    NotItsAddress {
        station: String,
        address: IpAddr,
        /// The addresses there, with their devices.
        has: Vec<String>,
    },
    /// An address is of the other family than a stream's packets.
    #[error(
        "station `{station}` has the address {address}, and stream `{stream}` is not of that family: write stream.{stream}.ip = \
         \"{}\", or an address of the other family in station.{station}.address", if address.is_ipv6() { "ipv6" } else { "ipv4" }
    )]
    OtherFamily { station: String, address: IpAddr, stream: String },
    /// A device takes smaller packets than the path's.
    #[error(
        "network device {device} of station `{station}` has an MTU of {mtu}, and the path's is {asked}, so packets would go in pieces: \
         write path.mtu = {mtu}"
    )]
    SmallerMtu { station: String, device: String, mtu: u32, asked: u32 },
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
    /// Commands that show what the kernel has made of it, in addition to the links and addresses.
    pub read_back: Vec<Question>,
    pub plugs: Vec<Plug>,
    /// Devices inside the path that a station watches while probe packets pass.
    pub inside: Vec<Inside>,
    /// Devices that all packets have to pass, and their counters.
    pub passages: Passages,
    /// Sockets of ptp4l that observe the clocks of its ends, with their hosts.
    pub ptp: Vec<(HostId, PtpSocket)>,
    /// Devices inside the path whose cable is waited for, each with its place.
    pub cabled: Vec<(Place, String)>,
}

/// A device inside a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inside {
    /// The station that watches it, on the same host.
    pub station: String,
    pub device: DeviceWithin,
    /// The station whose packets come in by it; `None` where no socket sees them, for a program of
    /// the path takes them before.
    pub from: Option<String>,
}
