// SPDX-License-Identifier: MIT OR Apache-2.0
//! What all ways into a virtual machine have in common: the station in a network namespace, the
//! machine, what is behind the machine's network device, and the addresses of both ends.

use super::link::{Device, Laid, PathError, PathId, Plug};
use super::methods::PlannedStations;
use super::veth::{self, Joint};
use crate::host::place::Place;
use crate::names::{self, LinkNumber, Names};
use crate::station::Offer;
use crate::step::{Action, Inverse, Step};
use std::net::{IpAddr, Ipv6Addr};
use tardy_model::path::Backend;
use tardy_spec::experiment::Setup;

/// Both ends, and where what is behind the machine's device is.
pub(super) struct Meeting<'a> {
    /// The station in a namespace. The name of its link is the path's affair.
    pub(super) near: Joint<'a>,
    /// The machine, with the name that it has for its device.
    pub(super) machine: Joint<'a>,
    /// The namespace of what is behind the device.
    pub(super) behind: &'a Place,
    /// The name of that namespace.
    pub(super) behind_netns: &'a str,
    /// What is behind the device, by its name there.
    pub(super) backend: String,
    pub(super) mtu: String,
}

impl<'a> Meeting<'a> {
    /// Those of a path whose machine has this behind its device.
    ///
    /// # Errors
    /// If there are not exactly one namespace and one machine that offers such a device.
    pub(super) fn of(
        setup: &Setup,
        stations: &'a PlannedStations,
        names: Names,
        backend: Backend,
    ) -> Result<Meeting<'a>, PathError> {
        let kind = setup.path.traits().name;
        let not_met = || PathError::NoMachine { kind, stations: stations.keys().cloned().collect() };
        let slot = |offer: &&Offer| matches!(offer, Offer::Slot { number, .. } if *number == backend.slot());
        let (mut near, mut machine) = (None, None);
        for ((station, built), number) in stations.iter().zip([LinkNumber::FIRST, LinkNumber::SECOND]) {
            match (built.offers.iter().find(slot), built.namespace()) {
                (Some(offer), _) => machine = Some((station, built, offer, number)),
                (None, Some(offer)) => near = Some((station, offer, number)),
                (None, None) => {}
            }
        }
        let ((near, namespace, first), (station, built, offer, second)) = match (near, machine) {
            (Some(near), Some(machine)) if stations.len() == 2 => (near, machine),
            _ => return Err(not_met()),
        };
        let address6 = |number| -> Option<Ipv6Addr> { setup.has_ipv6().then(|| names.address6(number)) };
        Ok(Meeting {
            near: Joint {
                station: near,
                offer: namespace,
                place: namespace.place().clone(),
                netns: namespace.place().netns().ok_or_else(not_met)?,
                link: names.link(first),
                mac: names.mac(first),
                address: IpAddr::from(names.address(first)),
                address6: address6(first),
            },
            machine: Joint {
                station,
                offer,
                place: built.place.clone(),
                netns: "",
                link: names::in_machine(backend.slot()),
                mac: names.machine_mac(built.place.host, backend.slot()),
                address: IpAddr::from(names.address(second)),
                address6: address6(second),
            },
            behind: offer.place(),
            behind_netns: offer.place().netns().ok_or_else(not_met)?,
            backend: names.backend(backend),
            mtu: setup.path.mtu.to_string(),
        })
    }

    /// What is behind the device, or belongs to it, into the station's namespace under its own
    /// name; it goes back before that namespace falls, which would take it away from the machine.
    pub(super) fn moved(&self, device: &str, why: &'static str) -> Step {
        let does = self.behind.ip(&["link", "set", "dev", device, "netns", self.near.netns]);
        let back = Action::ReturnLink { device: device.to_owned(), to: self.behind_netns.to_owned() };
        Step::new(&self.near.place, why, vec![does]).undone_by(vec![Inverse::within(&self.near.place, back)])
    }

    /// A pair of links: one is the station's device, and the other one, `uplink`, is where the
    /// machine's is.
    pub(super) fn pair(&self, uplink: &str, why: &'static str) -> Step {
        let Joint { place, link, mac, .. } = &self.near;
        let near = ["link", "add", link, "mtu", &self.mtu, "address", mac];
        let does =
            place.ip(&[&near[..], &["type", "veth", "peer", "name", uplink, "netns", self.behind_netns]].concat());
        let undoes = Inverse::within(place, Action::DeleteLink { device: link.clone() });
        Step::new(place, why, vec![does]).undone_by(vec![undoes])
    }

    /// The station's device, once it is there: MTU, MAC, addresses.
    pub(super) fn near_steps(&self) -> Vec<Step> {
        let (link, place) = (self.near.link.as_str(), &self.near.place);
        let does = place.ip(&["link", "set", "dev", link, "mtu", &self.mtu, "address", &self.near.mac]);
        vec![
            Step::new(place, "the path's MTU, and an address that the machine knows", vec![does]),
            veth::no_chatter_step(&self.near),
            veth::address_step(&self.near, &self.machine),
        ]
    }

    /// The machine's device: MTU and addresses, which it has only as long as the path.
    pub(super) fn machine_steps(&self) -> Vec<Step> {
        let (link, place) = (self.machine.link.as_str(), &self.machine.place);
        let does = place.ip(&["link", "set", "dev", link, "mtu", &self.mtu]);
        let clear = Inverse::within(place, Action::ClearLink { device: link.to_owned() });
        vec![
            Step::new(place, "in the virtual machine: the path's MTU", vec![does]).undone_by(vec![clear]),
            veth::no_chatter_step(&self.machine),
            veth::address_step(&self.machine, &self.near),
        ]
    }

    /// A link behind the machine, up for as long as the path is there.
    pub(super) fn up(&self, device: &str, why: &'static str) -> Step {
        let does = self.behind.ip(&["link", "set", "dev", device, "mtu", &self.mtu, "up"]);
        let down = Inverse::within(self.behind, Action::ClearLink { device: device.to_owned() });
        Step::new(self.behind, why, vec![does]).undone_by(vec![down])
    }

    /// The path, of what was done behind the machine's device.
    pub(super) fn laid(self, behind: Vec<Step>) -> Laid {
        let steps = behind.into_iter().chain(self.near_steps()).chain(self.machine_steps()).collect();
        let plug = |joint: Joint<'_>| Plug {
            station: joint.station.to_owned(),
            path: PathId::FIRST,
            offer: joint.offer.clone(),
            device: Device { name: joint.link, address: joint.address, address6: joint.address6, mac: joint.mac },
        };
        Laid { steps, plugs: vec![plug(self.near), plug(self.machine)], ..Laid::default() }
    }
}
