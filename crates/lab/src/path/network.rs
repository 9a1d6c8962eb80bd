// SPDX-License-Identifier: MIT OR Apache-2.0
//! What joins machines already, or one with itself: their devices, addresses and routes. The path
//! looks up which device has each station's address, and what the kernel's ways to the other ones
//! are. It changes nothing, so a run can be made on a network that others need.

use super::link::{Device, Laid, PathError, PathId, Plug};
use super::methods::{PathMethods, PlannedStations};
use crate::command::Command;
use crate::host::place::Place;
use crate::machine::{FactsByHost, OwnAddress};
use crate::names::Names;
use crate::not_found::NotFound;
use crate::step::Question;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv6Addr};
use tardy_model::ethernet;
use tardy_model::port::Port;
use tardy_model::stream::{Ip, Stream};
use tardy_spec::experiment::{Setup, Station};

pub(super) const KIND: PathMethods = PathMethods { route: Some(route), ..PathMethods::made(lay) };

/// Asks the kernel where a packet from one address to another goes.
fn route(place: &Place, [from, to]: [IpAddr; 2]) -> Command {
    place.ip(&["-j", "route", "get", &to.to_string(), "from", &from.to_string()])
}

/// Plans it.
///
/// # Errors
/// If there are fewer than two stations, or a station's machine does not have its address.
fn lay(setup: &Setup, stations: &PlannedStations, _: Names, found: &FactsByHost) -> Result<Laid, PathError> {
    if setup.stations.len() < 2 {
        let (kind, stations) = (setup.path.traits().name, setup.stations.keys().cloned().collect());
        return Err(PathError::TwoStations { kind, stations });
    }
    let mut addresses: BTreeMap<&String, IpAddr> = BTreeMap::new();
    for (name, station) in &setup.stations {
        addresses.insert(name, address(name, station, setup, found)?);
    }
    for stream in &setup.streams {
        fits(stream, &addresses)?;
    }
    let (mut plugs, mut read_back) = (Vec::new(), Vec::new());
    for (name, station) in &setup.stations {
        let own = addresses[name];
        let has = &found.of(station.host)?.own;
        let of_it = has.iter().find(|of| of.address == own).or_else(|| {
            // Each address of the loopback's network is the machine's.
            let is_local = |of: &&OwnAddress| own.is_loopback() && of.address.is_loopback();
            has.iter().find(is_local)
        });
        let Some(of_it) = of_it else {
            let has = has.iter().map(|of| format!("{} ({})", of.address, of.device)).collect();
            return Err(PathError::NotItsAddress { station: name.clone(), address: own, has });
        };
        if of_it.mtu != 0 && of_it.mtu < setup.path.mtu {
            let (device, mtu) = (of_it.device.clone(), of_it.mtu);
            return Err(PathError::SmallerMtu { station: name.clone(), device, mtu, asked: setup.path.mtu });
        }
        let planned = &stations[name];
        let Some(offer) = planned.offers.first().cloned() else {
            return Err(PathError::NotFound(NotFound::End(name.clone())));
        };
        // Nor is the hardware address of a group one device's.
        let is_groups = ethernet::mac(&of_it.mac).is_some_and(|mac| mac[0] & 1 == 1);
        let mac = if is_groups { String::new() } else { of_it.mac.clone() };
        let address6: Option<Ipv6Addr> = if let IpAddr::V6(address) = own { Some(address) } else { None };
        let device = Device { name: of_it.device.clone(), address: own, address6, mac };
        let others: BTreeSet<&IpAddr> =
            addresses.iter().filter(|(other, _)| **other != name).map(|(_, address)| address).collect();
        let way = |other: &&IpAddr| Question::at(&planned.place, route(&planned.place, [own, **other]));
        read_back.extend(others.iter().map(way));
        plugs.push(Plug { station: name.clone(), path: PathId::FIRST, offer, device });
    }
    Ok(Laid { read_back, plugs, ..Laid::default() })
}

/// A stream goes from one address to another of its own family.
///
/// # Errors
/// If a stream cannot go between the addresses of its stations.
fn fits(stream: &Stream, addresses: &BTreeMap<&String, IpAddr>) -> Result<(), PathError> {
    let ends = [&stream.from, &stream.to].map(|station| Some((station, *addresses.get(station)?)));
    for (station, address) in ends.into_iter().flatten() {
        if stream.port != Port::Packet && address.is_ipv6() != (stream.ip == Ip::Ipv6) {
            let (station, stream) = (station.clone(), stream.name.clone());
            return Err(PathError::OtherFamily { station, address, stream });
        }
    }
    Ok(())
}

/// The address of a station: that of the file, else that by which ssh goes between its machine and
/// the others.
fn address(name: &str, of: &Station, setup: &Setup, found: &FactsByHost) -> Result<IpAddr, PathError> {
    let none = || PathError::NoAddress { station: name.to_owned() };
    if let Some(address) = of.address {
        return Ok(address);
    }
    // An address that anybody may have, or nobody, is not taken from a machine's word.
    let is_ones_own = |address: &IpAddr| !address.is_unspecified() && !address.is_multicast();
    if of.remote.is_some() {
        let there = found.of(of.host)?.reached.map(|[_, there]| there);
        return there.filter(is_ones_own).ok_or_else(none);
    }
    let mut here = BTreeSet::new();
    for other in setup.stations.values().filter(|other| other.remote.is_some()) {
        here.extend(found.of(other.host)?.reached.map(|[here, _]| here));
    }
    // Machines that see this one by different addresses leave open which is meant.
    let mut here = here.into_iter();
    let first = here.next().filter(is_ones_own);
    first.filter(|_| here.next().is_none()).ok_or_else(none)
}
