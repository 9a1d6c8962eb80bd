// SPDX-License-Identifier: MIT OR Apache-2.0
//! The way out of what is behind a virtual machine's device by a network device of this host and
//! its cable, in place of a pair of links. The other station has the device at the other end of
//! the cable. Both are taken, and go back, as those of path `wire` do.
//!
//! A path may change more of such a device than a wire does. What a program forwards has to be
//! whole, so the device must leave nothing of a packet to its hardware; and a bridge, Open vSwitch
//! and an XDP program switch off what puts packets together. Each device gets back what it had.

use super::link::PathError;
use super::wire;
use crate::host::HostId;
use crate::host::ask::DeviceAsk;
use crate::host::place::Place;
use crate::machine::FactsByHost;
use crate::names::Names;
use crate::step::{NicWas, Step, offloads_off};
use std::collections::BTreeMap;
use tardy_host::nic::Nic;
use tardy_spec::experiment::Setup;

/// Features that the kernel itself switches off at a port of a bridge or of Open vSwitch, and where
/// it runs an XDP program.
const OFF_BY_THE_KERNEL: [&str; 2] = ["rx-lro", "rx-gro-hw"];
/// What puts packets together that arrive.
const GROUPS: &str = "gro lro";
const TAKEN: &str = "the device into its station; back with the MTU, state, offloads and addresses that it had";
const UPLINK: &str = "the uplink to where the virtual machine's device is; back as it was";

/// Both devices of such a way, as they were found.
pub(super) struct Uplink<'a> {
    /// The one of the station in a namespace.
    pub(super) near: &'a Nic,
    /// The one on the machine's side.
    pub(super) own: &'a Nic,
    /// The name of the namespace that they come from, and a process in it.
    home: (String, u32),
}

/// The devices of a set-up that this host is to have.
pub(super) fn asks(setup: &Setup, host: HostId) -> Result<Vec<DeviceAsk>, PathError> {
    let path = &setup.path;
    let Some([near, own]) = path.uplink().filter(|_| host == HostId::HERE) else { return Ok(Vec::new()) };
    let ask = |device: &str, peer: &str| DeviceAsk {
        device: device.to_owned(),
        mtu: path.mtu,
        take: path.take,
        path: path.traits().name.to_owned(),
        peer: Some(peer.to_owned()),
    };
    Ok(vec![ask(near, own), ask(own, near)])
}

impl<'a> Uplink<'a> {
    /// That of a set-up; `None` if its path makes a pair of links.
    ///
    /// # Errors
    /// If a device was not looked at.
    pub(super) fn of(setup: &Setup, names: Names, found: &'a FactsByHost) -> Result<Option<Uplink<'a>>, PathError> {
        let Some([near, own]) = setup.path.uplink() else { return Ok(None) };
        let facts = found.of(HostId::HERE)?;
        let nic = |device: &str| facts.nics.get(device).ok_or_else(|| PathError::Unread { device: device.to_owned() });
        let home = (found.names(HostId::HERE, names).home(), facts.home);
        Ok(Some(Uplink { near: nic(near)?, own: nic(own)?, home }))
    }

    /// True if packets that are redirected to the device wait for a reader at its peer.
    pub(super) fn is_veth(&self) -> bool {
        self.own.kind.as_deref() == Some("veth")
    }

    /// A name for the namespace that the devices go back to.
    pub(super) fn home_step(&self) -> Step {
        wire::home_step(HostId::HERE, &self.home.0, self.home.1)
    }

    /// Takes both, one into its station and one to what is behind the machine's device. With
    /// `is_forwarded` a program reads packets as they are in memory.
    pub(super) fn take_steps(&self, near: &Place, behind: &Place, is_forwarded: bool) -> Vec<Step> {
        let off = |name: &str| is_forwarded || OFF_BY_THE_KERNEL.contains(&name);
        let features = |nic: &Nic, of: &dyn Fn(&str) -> bool| -> BTreeMap<String, bool> {
            nic.offloads.iter().filter(|(name, _)| of(name)).map(|(name, on)| (name.clone(), *on)).collect()
        };
        let near_was = NicWas { offloads: features(self.near, &|_| is_forwarded), ..wire::was(self.near) };
        let promisc = Some(self.own.promisc);
        let own_was = NicWas { offloads: features(self.own, &off), promisc, ..wire::was(self.own) };
        vec![
            wire::take_step_of(near, self.near, near_was, &self.home.0, TAKEN),
            wire::take_step_of(behind, self.own, own_was, &self.home.0, UPLINK),
        ]
    }

    /// The uplink receives what is for other addresses than its own, and hands on each packet as it
    /// came: with its VLAN tag in it, and by itself.
    pub(super) fn forwarded_steps(&self, behind: &Place) -> Vec<Step> {
        let device = self.own.name.as_str();
        let groups = format!(
            "{}; for offload in {GROUPS}; do ethtool -K {device} $offload off >/dev/null 2>&1 || :; done",
            offloads_off(device)
        );
        let promisc = behind.ip(&["link", "set", "dev", device, "promisc", "on"]);
        vec![
            Step::new(behind, "the uplink hands on each packet as it came", vec![behind.shell(&groups, &[])]),
            Step::new(behind, "the uplink receives what is for the virtual machine's address", vec![promisc]),
        ]
    }
}
