// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two stations joined by a pair of virtual Ethernet links. Both links are born inside the
//! stations' namespaces, so that nothing of them ever shows on the host.

use super::link::{Device, Laid, NO_IPV6, PathError, PathId, Plug};
use super::methods::{PathMethods, PlannedStations};
use crate::command::Command;
use crate::host::place::Place;
use crate::machine::FactsByHost;
use crate::names::{LinkNumber, Names};
use crate::station::{Offer, PlannedStation};
use crate::step::{Action, Inverse, Step};
use std::net::{IpAddr, Ipv6Addr};
use tardy_spec::experiment::Setup;

/// Where a link is to meet a station.
pub(super) struct Joint<'a> {
    pub(super) station: &'a str,
    pub(super) offer: &'a Offer,
    pub(super) place: Place,
    /// The network namespace of the place.
    pub(super) netns: &'a str,
    pub(super) link: String,
    pub(super) mac: String,
    pub(super) address: IpAddr,
    pub(super) address6: Option<Ipv6Addr>,
}

impl<'a> Joint<'a> {
    /// The two of a path of this kind, in the network namespaces that the stations offer, by the
    /// slot's names.
    ///
    /// # Errors
    /// If there are not exactly two stations, or one offers no namespace.
    pub(super) fn two(setup: &Setup, stations: &'a PlannedStations, names: Names) -> Result<[Joint<'a>; 2], PathError> {
        let kind = setup.path.traits().name;
        let mut in_order = stations.iter();
        let (Some(first), Some(second), None) = (in_order.next(), in_order.next(), in_order.next()) else {
            return Err(PathError::TwoStations { kind, stations: stations.keys().cloned().collect() });
        };
        let no_namespace = |station: &String| PathError::NoNamespace { kind, station: station.clone() };
        let netns = |(station, built): (&String, &'a PlannedStation)| -> Result<(&'a Offer, &'a str), PathError> {
            let offer = built.namespace().ok_or_else(|| no_namespace(station))?;
            Ok((offer, offer.place().netns().ok_or_else(|| no_namespace(station))?))
        };
        let ends = [(first, LinkNumber::FIRST, netns(first)?), (second, LinkNumber::SECOND, netns(second)?)];
        Ok(ends.map(|((station, _), side, (offer, netns))| Joint {
            station,
            offer,
            place: offer.place().clone(),
            netns,
            link: names.link(side),
            mac: names.mac(side),
            address: names.address(side).into(),
            address6: setup.has_ipv6().then(|| names.address6(side)),
        }))
    }

    /// The same, of stations on one machine.
    ///
    /// # Errors
    /// As [`Joint::two`], or if they are on two machines.
    pub(super) fn two_on_one_host(
        setup: &Setup,
        stations: &'a PlannedStations,
        names: Names,
    ) -> Result<[Joint<'a>; 2], PathError> {
        let [a, b] = Joint::two(setup, stations, names)?;
        if a.place.host != b.place.host {
            let (first, second) = (a.station.to_owned(), b.station.to_owned());
            return Err(PathError::TwoHosts { kind: setup.path.traits().name, first, second });
        }
        Ok([a, b])
    }

    /// The path's device there, for its station.
    pub(super) fn into_plug(self) -> Plug {
        let Joint { station, offer, link: name, mac, address, address6, .. } = self;
        let device = Device { name, address, address6, mac };
        Plug { station: station.to_owned(), path: PathId::FIRST, offer: offer.clone(), device }
    }
}

pub(super) const KIND: PathMethods = PathMethods::made(lay);

/// Plans the pair.
///
/// # Errors
/// If there are not exactly two stations of one machine.
fn lay(setup: &Setup, stations: &PlannedStations, names: Names, _: &FactsByHost) -> Result<Laid, PathError> {
    let (queues, mtu) = (setup.path.queues.unwrap_or(1), setup.path.mtu);
    let [a, b] = Joint::two_on_one_host(setup, stations, names)?;
    let steps = vec![
        pair_step(&a, &b, queues, mtu),
        no_chatter_step(&a),
        address_step(&a, &b),
        no_chatter_step(&b),
        address_step(&b, &a),
    ];
    Ok(Laid { steps, plugs: [a, b].map(Joint::into_plug).into(), ..Laid::default() })
}

fn pair_step(a: &Joint<'_>, b: &Joint<'_>, queues: u32, mtu: u32) -> Step {
    let (queues, mtu) = (queues.to_string(), mtu.to_string());
    fn half<'a>(at: &'a Joint<'_>, queues: &'a str, mtu: &'a str) -> Vec<&'a str> {
        let (link, mac, netns) = (at.link.as_str(), at.mac.as_str(), at.netns);
        vec![link, "numtxqueues", queues, "numrxqueues", queues, "mtu", mtu, "address", mac, "netns", netns]
    }
    let (near, far) = (half(a, &queues, &mtu), half(b, &queues, &mtu));
    let does = Command::ip(&[&["link", "add"], &near[..], &["type", "veth", "peer", "name"], &far[..]].concat());
    // One end takes the other with it. Namespaces alone would do, but only some time after they
    // are deleted, and not while a process is still inside.
    let undoes = Inverse::within(&a.place, Action::DeleteLink { device: a.link.clone() });
    Step::new(&a.place, "the pair of links, each end born in its namespace", vec![does]).undone_by(vec![undoes])
}

pub(super) fn no_chatter_step(at: &Joint<'_>) -> Step {
    let does = at.place.ip(&["link", "set", "dev", &at.link, "addrgenmode", "none"]);
    Step::new(&at.place, "no IPv6 chatter of its own", vec![does]).tolerating(NO_IPV6)
}

pub(super) fn address_step(near: &Joint<'_>, far: &Joint<'_>) -> Step {
    let ip = |args: &[&str]| near.place.ip(args);
    let (link, address) = (near.link.as_str(), format!("{}/{}", near.address, Names::PREFIX));
    let peer = far.address.to_string();
    let mut does = vec![
        ip(&["addr", "add", &address, "dev", link]),
        ip(&["neigh", "replace", &peer, "lladdr", &far.mac, "dev", link, "nud", "permanent"]),
    ];
    if let (Some(here), Some(there)) = (near.address6, far.address6) {
        // Without duplicate address detection, which would keep it from being used for a second.
        let address = format!("{here}/{}", Names::PREFIX6);
        let there = there.to_string();
        does.push(ip(&["addr", "add", &address, "dev", link, "nodad"]));
        does.push(ip(&["neigh", "replace", &there, "lladdr", &far.mac, "dev", link, "nud", "permanent"]));
    }
    does.extend([ip(&["link", "set", "dev", "lo", "up"]), ip(&["link", "set", "dev", link, "up"])]);
    Step::new(&near.place, "an address, and the neighbour fixed so that no ARP falls into a measurement", does)
}
