// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two network devices of this host, cabled back to back. Each is moved into its station's
//! namespace, and afterwards goes back to where it was, with the addresses, MTU, admin state and
//! stamping that it had.
//!
//! The namespace that the devices came from is kept under a name, so that the way back is the same
//! from anywhere, also for `tardy undo` in another one. A device never goes by the fall of its
//! namespace: a virtual one would be destroyed, a physical one would land in the machine's first
//! namespace.

use super::keeper::Keeper;
use super::link::{Laid, PathError};
use super::methods::{PathMethods, PlannedStations};
use super::veth::{self, Joint};
use crate::command::{Command, OURSELVES};
use crate::host::HostId;
use crate::host::ask::DeviceAsk;
use crate::host::place::Place;
use crate::machine::FactsByHost;
use crate::names::{LinkNumber, Names};
use crate::station;
use crate::step::{Action, Inverse, NicWas, Question, StampingWas, Step, TakenNic, Text};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::IpAddr;
use tardy_host::nic::Nic;
use tardy_host::timekeeper::PtpSocket;
use tardy_model::point::Point;
use tardy_spec::experiment::Setup;
use tardy_sys::hwtstamp::{HwStamp, RX_ALL, TX_ON};
use tardy_sys::nic::TsInfo;

/// What a driver says to a kind of stamping that it lists and does not grant. The point is absent
/// then, with the device's own reason.
const NOT_GRANTED: &[Text] = &[
    Cow::Borrowed("Operation not supported"),
    Cow::Borrowed("Numerical result out of range"),
    Cow::Borrowed("Invalid argument"),
];

/// The devices at both ends, in the order of the stations.
fn two_devices(setup: &Setup) -> Result<[&str; 2], PathError> {
    let devices = setup.path.devices();
    <[&str; 2]>::try_from(devices).map_err(|devices| PathError::TwoDevices {
        kind: setup.path.traits().name,
        devices: devices.into_iter().map(str::to_owned).collect(),
    })
}

/// The devices of a set-up that a host is to have.
///
/// # Errors
/// If the path does not join exactly two stations, or does not have exactly two devices.
fn asks(setup: &Setup, host: HostId) -> Result<Vec<DeviceAsk>, PathError> {
    let path = &setup.path;
    if path.devices().is_empty() {
        return Ok(Vec::new());
    }
    let [a, b] = two_devices(setup)?;
    let stations: Vec<&String> = setup.stations.keys().collect();
    let [of_a, of_b] = stations[..] else {
        let stations = stations.into_iter().cloned().collect();
        return Err(PathError::TwoStations { kind: path.traits().name, stations });
    };
    let [of_a, of_b] = [station::host_of(setup, of_a)?, station::host_of(setup, of_b)?];
    let ask = |(device, at, peer, at_peer): (&str, HostId, &str, HostId)| {
        let ask = DeviceAsk {
            device: device.to_owned(),
            mtu: path.mtu,
            take: path.take,
            path: path.traits().name.to_owned(),
            peer: Some(peer.to_owned()).filter(|_| at == at_peer),
        };
        (at == host).then_some(ask)
    };
    Ok([(a, of_a, b, of_b), (b, of_b, a, of_a)].into_iter().filter_map(ask).collect())
}

/// What the streams ask a station's device to stamp: packets that it sends, packets that arrive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StampsAsked {
    tx: bool,
    rx: bool,
}

/// What is asked of the device of each station.
pub fn asked(setup: &Setup) -> BTreeMap<&str, StampsAsked> {
    let mut asked: BTreeMap<&str, StampsAsked> = BTreeMap::new();
    let host = |station: &String| setup.stations.get(station).map(|of| of.host);
    for stream in &setup.streams {
        let [tx, rx] = [Point::TxHw, Point::RxHw].map(|point| stream.stamps.contains(&point));
        // The exchange over the path then takes the devices' stamps too, and has packets both ways.
        let both = tx && rx && host(&stream.from) != host(&stream.to);
        let of_sender = asked.entry(&stream.from).or_default();
        (of_sender.tx, of_sender.rx) = (of_sender.tx | tx, of_sender.rx | both);
        let of_receiver = asked.entry(&stream.to).or_default();
        (of_receiver.tx, of_receiver.rx) = (of_receiver.tx | both, of_receiver.rx | rx);
    }
    if setup.observes_ptp {
        // PTP stamps its own packets, both ways.
        for station in setup.stations.keys() {
            asked.insert(station, StampsAsked { tx: true, rx: true });
        }
    }
    asked
}

/// What a device is to be set to, of what it can; `None` if it is as it should be.
pub fn setting(can: &TsInfo, now: HwStamp, asked: StampsAsked) -> Option<HwStamp> {
    let tx = if asked.tx && can.tx_hardware() && now.tx == tardy_sys::hwtstamp::TX_OFF { TX_ON } else { now.tx };
    // A filter for PTP's packets alone would not see a stream's.
    let rx = if asked.rx && can.rx_all() { RX_ALL } else { now.rx };
    let to = HwStamp { tx, rx, ..now };
    (to != now).then_some(to)
}

/// ssh's own connection to another machine must not end because its device here is taken. The
/// other machine looks by itself at the devices there.
fn carries_no_login(taken: [(&Nic, &Joint<'_>); 2], setup: &Setup, found: &FactsByHost) -> Result<(), PathError> {
    let here = || taken.iter().filter(|(_, at)| at.place.host == HostId::HERE).map(|(nic, _)| *nic);
    for station in setup.stations.values() {
        let Some(remote) = &station.remote else { continue };
        let facts = found.of(station.host)?;
        let address = facts.reached.map(|[here, _]| here);
        let has = |nic: &Nic| {
            let addresses = nic.addresses.iter().filter_map(|of| of.cidr.split('/').next());
            addresses.filter_map(|of| of.parse::<IpAddr>().ok()).any(|of| Some(of) == address)
        };
        let goes_by = |nic: &Nic| facts.goes_by_here.iter().flatten().any(|device| *device == nic.name);
        let named = |nic: &Nic| (nic.name.clone(), remote.ssh.clone());
        if let Some((device, to)) = here().find(|nic| has(nic) || goes_by(nic)).map(named) {
            return Err(PathError::CarriesLogin { device, to });
        }
        // By a device without an address no connection goes that is there now.
        let may = |nic: &&Nic| facts.is_far && facts.goes_by_here.is_none() && !nic.addresses.is_empty();
        if let Some((device, to)) = here().find(may).map(named) {
            return Err(PathError::MayCarryLogin { device, to });
        }
    }
    Ok(())
}

pub(super) const KIND: PathMethods =
    // What the devices are set to stamp depends on what the streams ask of them.
    PathMethods { asks, may_share: |a, b| asked(a) == asked(b), ..PathMethods::made(lay) };

/// Plans the wire: each device into its station's namespace.
///
/// # Errors
/// If there are not exactly two stations and two devices, or a device was not looked at.
fn lay(setup: &Setup, stations: &PlannedStations, names: Names, found: &FactsByHost) -> Result<Laid, PathError> {
    let devices = two_devices(setup)?;
    let mtu = setup.path.mtu;
    let [a, b] = Joint::two(setup, stations, names)?;
    let nic = |device: &str, at: &Joint<'_>| {
        let nic = found.of(at.place.host)?.nics.get(device);
        nic.ok_or_else(|| PathError::Unread { device: device.to_owned() })
    };
    let [near, far] = [nic(devices[0], &a)?, nic(devices[1], &b)?];
    carries_no_login([(near, &a), (far, &b)], setup, found)?;
    // Devices that were there before have names of their own.
    let at = |joint, nic: &Nic| Joint { link: nic.name.clone(), mac: nic.mac.clone(), ..joint };
    let (a, b) = (at(a, near), at(b, far));
    let home = |host: HostId| found.names(host, names).home();
    let mut hosts = vec![a.place.host, b.place.host];
    hosts.dedup();
    let keep = |host| Ok(home_step(host, &home(host), found.of(host)?.home));
    let before = hosts.into_iter().map(keep).collect::<Result<_, PathError>>()?;
    let homes = [home(a.place.host), home(b.place.host)];
    let mut steps = vec![take_step(&a, near, &homes[0]), take_step(&b, far, &homes[1])];
    steps.extend([
        veth::no_chatter_step(&a),
        mtu_step(&a, mtu),
        veth::address_step(&a, &b),
        veth::no_chatter_step(&b),
        mtu_step(&b, mtu),
        veth::address_step(&b, &a),
    ]);
    let asked = asked(setup);
    let mut read_back = Vec::new();
    for ((at, nic), home) in [(&a, near), (&b, far)].into_iter().zip(&homes) {
        let (Ok(can), Ok(now)) = (&nic.can, &nic.stamps) else { continue };
        let to = setting(can, *now, asked.get(at.station).copied().unwrap_or_default());
        steps.extend(to.map(|to| stamping_step(at, *now, to, home)));
        let show = Command::hwtstamp("show", &at.link, &[at.netns], &[]);
        read_back.push(Question::at(&at.place, show));
    }
    let mut laid = Laid { before, steps, read_back, ..Laid::default() };
    if setup.observes_ptp {
        for (at, side) in [(&a, LinkNumber::FIRST), (&b, LinkNumber::SECOND)] {
            let folder = found.names(at.place.host, names).ptp_folder(side);
            laid.steps.push(ptp_step(at, &folder));
            laid.keepers.push(ptp_keeper(at, &folder, side == LinkNumber::SECOND));
            let socket = format!("{folder}/{PTP_SOCKET}").into();
            laid.ptp.push((at.place.host, PtpSocket { socket, netns: at.netns.to_owned() }));
        }
    }
    Ok(Laid { plugs: [a, b].map(Joint::into_plug).into(), ..laid })
}

/// The socket of ptp4l in its folder.
const PTP_SOCKET: &str = "ptp4l";

/// Where ptp4l has its socket, which goes with it.
fn ptp_step(at: &Joint<'_>, folder: &str) -> Step {
    let host = Place::of(at.place.host);
    let files = Action::RemoveGuestFiles { paths: vec![folder.to_owned()] };
    let does = host.exec(&["mkdir", "-m", "700", folder]);
    Step::new(&host, "the folder of a ptp4l that steers no clock", vec![does])
        .undone_by(vec![Inverse::within(&host, files)])
}

/// The ptp4l of one end. The other end's leads.
fn ptp_keeper(at: &Joint<'_>, folder: &str, follows: bool) -> Keeper {
    let socket = format!("{folder}/{PTP_SOCKET}");
    let mut words = vec!["ptp", "--netns", at.netns, "--socket", &socket];
    words.extend(follows.then_some("--follows"));
    words.push(&at.link);
    Keeper {
        place: at.place.clone(),
        why: "observes by PTP how far the clocks of both ends are apart, and steers none",
        command: Command::new(OURSELVES, &words),
        is_optional: true,
    }
}

pub(super) fn home_step(host: HostId, home: &str, pid: u32) -> Step {
    let does = Command::ip(&["netns", "attach", home, &pid.to_string()]);
    let undoes = Inverse::here(Action::DeleteNamespace { name: home.to_owned() });
    Step::new(&Place::of(host), "a name for the namespace that the devices come from and go back to", vec![does])
        .undone_by(vec![undoes])
}

/// The device moves, and the inverse gives it back what the move takes from it or what is changed
/// in the station.
pub(super) fn take_step(at: &Joint<'_>, nic: &Nic, home: &str) -> Step {
    let why = "the device into its station; back with the MTU, state and addresses that it had";
    take_step_of(&at.place, nic, was(nic), home, why)
}

/// The same with any place, and what the device is to have again.
pub(super) fn take_step_of(to: &Place, nic: &Nic, was: NicWas, home: &str, why: &'static str) -> Step {
    let taken =
        TakenNic { device: nic.name.clone(), ifindex: nic.ifindex, mac: nic.mac.clone(), to: home.to_owned(), was };
    let does = Command::ip(&["link", "set", "dev", &nic.name, "netns", to.netns().unwrap_or_default()]);
    Step::new(to, why, vec![does]).undone_by(vec![Inverse::within(to, Action::GiveBackNic(Box::new(taken)))])
}

/// What a device has that a wire takes from it.
pub(super) fn was(nic: &Nic) -> NicWas {
    NicWas {
        mtu: nic.mtu,
        up: nic.up,
        // `stable_secret` cannot be set without its secret, which stayed with the namespace's own
        // settings.
        addr_gen_mode: nic.addr_gen_mode.clone().filter(|mode| *mode != "stable_secret"),
        addresses: nic.addresses.clone(),
        promisc: None,
        offloads: BTreeMap::new(),
    }
}

pub(super) fn mtu_step(at: &Joint<'_>, mtu: u32) -> Step {
    let does = at.place.ip(&["link", "set", "dev", &at.link, "mtu", &mtu.to_string()]);
    Step::new(&at.place, "the path's MTU", vec![does])
}

/// Behind the device's start, since some drivers set it only while up; its inverse, run while it
/// is up, comes first of all.
fn stamping_step(at: &Joint<'_>, now: HwStamp, to: HwStamp, home: &str) -> Step {
    let (tx, rx, flags) = (to.tx.to_string(), to.rx.to_string(), to.flags.to_string());
    let words = ["--tx", &tx, "--rx", &rx, "--flags", &flags];
    let was = StampingWas { tx: now.tx, rx: now.rx, flags: now.flags };
    let restore = Action::RestoreStamping { device: at.link.clone(), or_in: home.to_owned(), was };
    let does = Command::hwtstamp("set", &at.link, &[at.netns], &words);
    let why = "stamps taken by the device (as linuxptp's `hwstamp_ctl -i DEV -t TX -r RX`)";
    let step = Step::new(&at.place, why, vec![does]).undone_by(vec![Inverse::within(&at.place, restore)]);
    step.tolerating(NOT_GRANTED)
}
