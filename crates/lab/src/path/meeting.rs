// SPDX-License-Identifier: MIT OR Apache-2.0
//! What all ways into a virtual machine have in common: the station in a network namespace, or
//! another machine, the machine, what is behind the machine's network device, and the addresses of
//! both ends.

use super::link::{Device, Inside, Laid, NO_IPV6, PathError, PathId, Plug};
use super::methods::PlannedStations;
use super::passages::{Passage, Passages};
use super::uplink::Uplink;
use super::veth::{self, Joint};
use super::wire;
use crate::host::place::Place;
use crate::machine::FactsByHost;
use crate::names::{self, LinkNumber, Names};
use crate::station::{Offer, PlannedStation};
use crate::step::{Action, Inverse, Step};
use std::net::{IpAddr, Ipv6Addr};
use tardy_model::path::Backend;
use tardy_model::xdp::DeviceWithin;
use tardy_spec::experiment::Setup;

/// Both ends, and where what is behind the machine's device is.
pub(super) struct Meeting<'a> {
    /// The station in a namespace, the name of whose link is the path's affair; or another machine.
    pub(super) near: Joint<'a>,
    /// The namespace of what is behind the device of that other machine.
    pub(super) near_behind: Option<&'a Place>,
    /// The network devices by which packets go to the other station; `None` where the path makes a
    /// pair of links, or there is another machine.
    pub(super) uplink: Option<Uplink<'a>>,
    /// The machine, with the name that it has for its device.
    pub(super) machine: Joint<'a>,
    /// The namespace of what is behind the device.
    pub(super) behind: &'a Place,
    /// The name of that namespace.
    pub(super) behind_netns: &'a str,
    /// What is behind the device, by its name there.
    pub(super) backend: String,
    pub(super) mtu: String,
    mtu_bytes: u32,
}

impl<'a> Meeting<'a> {
    /// Those of a path whose machine has this behind its device.
    ///
    /// # Errors
    /// If there are not exactly one namespace and one machine that offers such a device, or two
    /// such machines where the path joins them; or a network device was not looked at.
    pub(super) fn of(
        setup: &Setup,
        stations: &'a PlannedStations,
        (names, found): (Names, &'a FactsByHost),
        backend: Backend,
    ) -> Result<Meeting<'a>, PathError> {
        let traits = setup.path.traits();
        let not_met = || PathError::NoMachine { kind: traits.name, stations: stations.keys().cloned().collect() };
        let slot = |offer: &&Offer| matches!(offer, Offer::Slot { number, .. } if *number == backend.slot());
        let (mut namespace, mut machines) = (None, Vec::new());
        for ((station, built), number) in stations.iter().zip([LinkNumber::FIRST, LinkNumber::SECOND]) {
            match (built.offers.iter().find(slot), built.namespace()) {
                (Some(offer), _) => machines.push((station, built, offer, number)),
                (None, Some(offer)) => namespace = Some((station, offer, number)),
                (None, None) => {}
            }
        }
        let address6 = |number| -> Option<Ipv6Addr> { setup.has_ipv6().then(|| names.address6(number)) };
        let of_machine =
            |(station, built, offer, number): (&'a String, &'a PlannedStation, &'a Offer, LinkNumber)| Joint {
                station,
                offer,
                place: built.place.clone(),
                netns: "",
                link: names::in_machine(backend.slot()),
                mac: names.machine_mac(built.place.host, backend.slot()),
                address: IpAddr::from(names.address(number)),
                address6: address6(number),
            };
        let uplink = Uplink::of(setup, names, found)?;
        let (near, near_behind, machine) = match (namespace, &machines[..]) {
            (Some((station, offer, number)), [machine]) if stations.len() == 2 => {
                let near = Joint {
                    station,
                    offer,
                    place: offer.place().clone(),
                    netns: offer.place().netns().ok_or_else(not_met)?,
                    // Devices that were there before have names and addresses of their own.
                    link: uplink.as_ref().map_or_else(|| names.link(number), |of| of.near.name.clone()),
                    mac: uplink.as_ref().map_or_else(|| names.mac(number), |of| of.near.mac.clone()),
                    address: IpAddr::from(names.address(number)),
                    address6: address6(number),
                };
                (near, None, *machine)
            }
            (None, [first, machine]) if stations.len() == 2 && traits.joins_machines && uplink.is_none() => {
                (of_machine(*first), Some(first.2.place()), *machine)
            }
            _ => return Err(not_met()),
        };
        let offer = machine.2;
        Ok(Meeting {
            near,
            near_behind,
            uplink,
            machine: of_machine(machine),
            behind: offer.place(),
            behind_netns: offer.place().netns().ok_or_else(not_met)?,
            backend: names.backend(backend),
            mtu: setup.path.mtu.to_string(),
            mtu_bytes: setup.path.mtu,
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
        let queues = ["numtxqueues", Names::PAIR_QUEUES, "numrxqueues", Names::PAIR_QUEUES];
        let near = ["link", "add", link, "mtu", &self.mtu, "address", mac];
        let far = ["netns", self.behind_netns];
        let does = place.ip(&[&near[..], &queues, &["type", "veth", "peer", "name", uplink], &queues, &far].concat());
        let undoes = Inverse::within(place, Action::DeleteLink { device: link.clone() });
        Step::new(place, why, vec![does]).undone_by(vec![undoes])
    }

    /// What the other station's way to what is behind the machine's device is called there: one of
    /// a pair of links, which gets the name `made`, or a network device.
    pub(super) fn uplink_name(&self, made: &str) -> String {
        self.uplink.as_ref().map_or_else(|| made.to_owned(), |of| of.own.name.clone())
    }

    /// The same way under that name: one of a pair of links, a network device that is taken, or
    /// what is behind the other machine's device. With `is_forwarded` a program reads packets as
    /// they are in memory.
    pub(super) fn uplink_steps(&self, name: &str, why: &'static str, is_forwarded: bool) -> Vec<Step> {
        if let Some(uplink) = &self.uplink {
            let mut steps = uplink.take_steps(&self.near.place, self.behind, is_forwarded);
            steps.push(self.quiet(name));
            if is_forwarded {
                steps.extend(uplink.forwarded_steps(self.behind));
            }
            return steps;
        }
        let Some(other) = self.near_behind else { return vec![self.pair(name, why)] };
        let does = other.ip(&["link", "set", "dev", &self.backend, "netns", self.behind_netns, "name", name]);
        let back = Action::ReturnRenamed {
            device: name.to_owned(),
            to: other.netns().unwrap_or_default().to_owned(),
            called: self.backend.clone(),
        };
        let why = "what is behind the other machine's device comes to where this one's is";
        vec![Step::new(other, why, vec![does]).undone_by(vec![Inverse::within(self.behind, back)])]
    }

    /// A device behind the machine that sends nothing of its own.
    pub(super) fn quiet(&self, device: &str) -> Step {
        let does = self.behind.ip(&["link", "set", "dev", device, "addrgenmode", "none"]);
        Step::new(self.behind, "a port that sends nothing of its own", vec![does]).tolerating(NO_IPV6)
    }

    /// The other station's device, once it is there.
    fn near_steps(&self) -> Vec<Step> {
        match (self.near_behind, &self.uplink) {
            (Some(_), _) => self.steps_in_machine(&self.near, &self.machine),
            (None, None) => self.namespace_steps(),
            (None, Some(_)) => vec![
                wire::mtu_step(&self.near, self.mtu_bytes),
                veth::no_chatter_step(&self.near),
                veth::address_step(&self.near, &self.machine),
            ],
        }
    }

    /// The device of a station in a namespace: MTU, MAC, addresses.
    fn namespace_steps(&self) -> Vec<Step> {
        let (link, place) = (self.near.link.as_str(), &self.near.place);
        let does = place.ip(&["link", "set", "dev", link, "mtu", &self.mtu, "address", &self.near.mac]);
        vec![
            Step::new(place, "the path's MTU, and an address that the machine knows", vec![does]),
            veth::no_chatter_step(&self.near),
            veth::address_step(&self.near, &self.machine),
        ]
    }

    /// A machine's device: MTU and addresses, which it has only as long as the path.
    pub(super) fn steps_in_machine(&self, own: &Joint<'_>, other: &Joint<'_>) -> Vec<Step> {
        let (link, place) = (own.link.as_str(), &own.place);
        let does = place.ip(&["link", "set", "dev", link, "mtu", &self.mtu]);
        let clear = Inverse::within(place, Action::ClearLink { device: link.to_owned() });
        vec![
            Step::new(place, "in the virtual machine: the path's MTU", vec![does]).undone_by(vec![clear]),
            veth::no_chatter_step(own),
            veth::address_step(own, other),
        ]
    }

    /// A link behind the machine, up for as long as the path is there.
    pub(super) fn up(&self, device: &str, why: &'static str) -> Step {
        self.up_at(self.behind, device, why)
    }

    /// The same behind either machine.
    pub(super) fn up_at(&self, at: &Place, device: &str, why: &'static str) -> Step {
        let does = at.ip(&["link", "set", "dev", device, "mtu", &self.mtu, "up"]);
        let down = Inverse::within(at, Action::ClearLink { device: device.to_owned() });
        Step::new(at, why, vec![does]).undone_by(vec![down])
    }

    /// Devices behind the machine that the station in a namespace watches, each with the station
    /// whose packets come in by it. An agent in a machine sees nothing of what is behind it.
    pub(super) fn inside(&self, devices: &[(&str, Option<&str>)], has_program: bool) -> Vec<Inside> {
        let inside = |(device, from): &(&str, Option<&str>)| Inside {
            station: self.near.station.to_owned(),
            device: DeviceWithin { netns: self.behind_netns.to_owned(), device: (*device).to_owned(), has_program },
            from: from.map(str::to_owned),
        };
        devices.iter().filter(|_| self.near_behind.is_none()).map(inside).collect()
    }

    /// Devices behind the machine that all packets pass, each with the station whose packets it
    /// receives.
    pub(super) fn passages(&self, devices: &[(&str, &str)]) -> Passages {
        let passage = |(device, from): &(&str, &str)| Passage {
            place: self.behind.clone(),
            device: (*device).to_owned(),
            from: (*from).to_owned(),
        };
        Passages { devices: devices.iter().map(passage).collect(), lookups: None }
    }

    /// The path, of what was done behind the machine's device.
    pub(super) fn laid(self, behind: Vec<Step>) -> Laid {
        let before = self.uplink.iter().map(Uplink::home_step).collect();
        let cabled = self.uplink.iter().map(|of| (self.behind.clone(), of.own.name.clone())).collect();
        let of_machine = self.steps_in_machine(&self.machine, &self.near);
        let steps = behind.into_iter().chain(self.near_steps()).chain(of_machine).collect();
        let plug = |joint: Joint<'_>| Plug {
            station: joint.station.to_owned(),
            path: PathId::FIRST,
            offer: joint.offer.clone(),
            device: Device { name: joint.link, address: joint.address, address6: joint.address6, mac: joint.mac },
        };
        Laid { before, steps, cabled, plugs: vec![plug(self.near), plug(self.machine)], ..Laid::default() }
    }
}
