// SPDX-License-Identifier: MIT OR Apache-2.0
//! Into a virtual machine by Open vSwitch: its ports are the machine's tap and one of a pair of
//! links, the other of which is the other station's device; or a network device, which a cable
//! joins to the other station's.
//!
//! With the datapath in the kernel no daemon runs. The datapath gets its flows before the first
//! packet, as a daemon would have left them in the kernel's cache, so no packet waits for a program
//! that decides on it. With the datapath in user space Open vSwitch's own program moves the packets
//! (`switch.rs`).

use super::bridge::own_address_step;
use super::keeper::Keeper;
use super::link::{Laid, PathError};
use super::meeting::Meeting;
use super::methods::{InGuest, PathMethods, PlannedStations};
use super::passages::Passages;
use super::switch;
use super::uplink::asks;
use super::xdp::{features, whole_packets_of_near, whole_packets_step};
use crate::command::{Command, OURSELVES};
use crate::host::child;
use crate::host::place::Place;
use crate::machine::{Facts, FactsByHost};
use crate::names::{LinkNumber, Names};
use crate::step::{Action, DPCTL, Inverse, Question, Step};
use std::collections::BTreeMap;
use std::path::Path;
use tardy_model::ethernet::TAG;
use tardy_model::path::{Backend, PathKind};
use tardy_spec::experiment::Setup;

/// Debian's package of the program that makes a datapath and its flows.
const PACKAGE: &str = "openvswitch-switch";
/// The lines that a program prints, as JSON: an array of texts. It quotes nothing in them.
const LINES: &str = r#"all=$("$0" "$@") || exit; printf '['; comma=; printf '%s\n' "$all" | while IFS= read -r line; do printf '%s"%s"' "$comma" "$line"; comma=,; done; printf ']'"#;

/// What a guest loads. The datapath's connection tracking is linked with a library whose checksum
/// the kernel asks for by an alias of its own when it is loaded.
const MODULES: &[&str] = &["crc32c_generic", "openvswitch"];

pub(super) const KIND: PathMethods = PathMethods {
    is_possible: || child::find(DPCTL).is_ok() && Path::new("/sys/module/openvswitch").exists(),
    asks,
    refusal,
    guest: InGuest { modules: || MODULES, programs: &[DPCTL], ..InGuest::NOTHING },
    ..PathMethods::made(lay)
};

/// The same with the datapath in user space. A guest would need the daemons and their database's
/// schema, and gets neither.
pub(super) const NETDEV: PathMethods =
    PathMethods { is_possible: switch::is_installed, asks, refusal: netdev_refusal, ..PathMethods::made(lay_netdev) };

fn netdev_refusal(host: &Facts) -> Option<String> {
    (!host.can_have(PathKind::OvsNetdev)).then(|| {
        format!(
            "path ovs-netdev needs Open vSwitch's programs and its database's schema, {}: apt install {PACKAGE} (the daemons \
             that this starts are not used); --in guest does not have them",
            switch::SCHEMA
        )
    })
}

fn refusal(host: &Facts) -> Option<String> {
    (!host.can_have(PathKind::Ovs)).then(|| {
        format!(
            "path ovs needs {DPCTL} and the kernel's module openvswitch: apt install {PACKAGE} (it starts daemons, which no run needs), \
             then modprobe openvswitch, or --in guest:exact, whose kernel has the module"
        )
    })
}

/// Plans it.
///
/// # Errors
/// If there are not exactly one namespace and one machine.
fn lay(setup: &Setup, stations: &PlannedStations, names: Names, found: &FactsByHost) -> Result<Laid, PathError> {
    let meeting = Meeting::of(setup, stations, (names, found), Backend::Tap)?;
    let ([_, uplink], datapath) = (names.bridge(), names.datapath());
    let uplink = meeting.uplink_name(&uplink);
    let ports = [uplink.as_str(), meeting.backend.as_str()];
    let mut behind = meeting.uplink_steps(&uplink, "a pair of links from the other station to the datapath", false);
    behind.extend([
        datapath_step(&meeting, &datapath, ports),
        flows_step(&meeting, &datapath, setup),
        meeting.up(&uplink, "the datapath's end of the way to the other station"),
        meeting.up(&meeting.backend, "the virtual machine's tap"),
    ]);
    let ask = |what: &str| Question::at(meeting.behind, meeting.behind.shell(LINES, &[DPCTL, what, &datapath]));
    let read_back = vec![ask("show"), ask("dump-flows")];
    let ports = [(&*uplink, Some(meeting.near.station)), (&*meeting.backend, Some(meeting.machine.station))];
    let inside = meeting.inside(&ports, false);
    let passages = meeting.passages(&[(&uplink, meeting.near.station), (&meeting.backend, meeting.machine.station)]);
    let passages = Passages { lookups: Some(ask("show")), ..passages };
    Ok(Laid { read_back, inside, passages, ..meeting.laid(behind) })
}

/// Plans it with the datapath in user space.
///
/// # Errors
/// If there are not exactly one namespace and one machine, or two machines.
fn lay_netdev(setup: &Setup, stations: &PlannedStations, names: Names, found: &FactsByHost) -> Result<Laid, PathError> {
    let meeting = Meeting::of(setup, stations, (names, found), Backend::Tap)?;
    let ([_, uplink], bridge, folder) = (names.bridge(), names.switch_bridge(), names.switch_folder());
    let uplink = meeting.uplink_name(&uplink);
    let whole = "packets that are whole when they are sent: the switch hands on what it reads";
    let mut behind = vec![files_step(&meeting, &bridge, &folder)];
    behind.extend(meeting.uplink_steps(&uplink, "a pair of links from the other station to the switch", true));
    if meeting.near_behind.is_some() {
        // So may the other machine's tap. No link in a namespace has this address then.
        behind.push(own_address_step(&meeting, &uplink, &names.mac(LinkNumber::FIRST)));
    }
    behind.extend([
        // As a station's device the tap may have had that station's address.
        own_address_step(&meeting, &meeting.backend, &names.port_mac()),
        meeting.quiet(&uplink),
        meeting.quiet(&meeting.backend),
        whole_packets_of_near(&meeting, whole),
        whole_packets_step(&meeting.machine, whole),
        meeting.up(&uplink, "the switch's end of the way to the other station"),
        meeting.up(&meeting.backend, "the virtual machine's tap"),
    ]);
    let words = ["switch", "--netns", meeting.behind_netns, "--folder", &folder, &bridge, &uplink, &meeting.backend];
    let keeper = Keeper {
        place: meeting.behind.clone(),
        why: "Open vSwitch's switch in user space: what arrives at one port leaves by the other",
        command: Command::new(OURSELVES, &words),
        is_optional: false,
    };
    let ask = |words: &[&str]| Question::at(meeting.behind, meeting.behind.shell(LINES, words));
    let control = format!("--target={folder}/{}", switch::CONTROL);
    let read_back = vec![
        ask(&[switch::APPCTL, &control, "dpctl/show"]),
        ask(&[switch::OFCTL, "dump-flows", &format!("{folder}/{bridge}.mgmt")]),
        features(&meeting.near),
        features(&meeting.machine),
    ];
    let ports = [(&*uplink, Some(meeting.near.station)), (&*meeting.backend, Some(meeting.machine.station))];
    let inside = meeting.inside(&ports, false);
    let passages = meeting.passages(&[(&uplink, meeting.near.station), (&meeting.backend, meeting.machine.station)]);
    Ok(Laid { keepers: vec![keeper], read_back, inside, passages, ..meeting.laid(behind) })
}

/// What a switch that is killed leaves: its files, and the devices of the bridge and of the
/// datapath.
fn files_step(meeting: &Meeting<'_>, bridge: &str, folder: &str) -> Step {
    let delete = |device: &str| Inverse::within(meeting.behind, Action::DeleteLink { device: device.to_owned() });
    let files = Action::RemoveGuestFiles { paths: vec![folder.to_owned()] };
    let files = Inverse::within(&Place::of(meeting.behind.host), files);
    let undoes = vec![delete(bridge), delete(switch::DEVICE), files];
    Step::new(meeting.behind, "the switch's files and devices", Vec::new()).undone_by(undoes)
}

/// The datapath and its ports, 1 and 2.
fn datapath_step(meeting: &Meeting<'_>, datapath: &str, ports: [&str; 2]) -> Step {
    let call = |words: &[&str]| meeting.behind.exec(&[&[DPCTL], words].concat());
    let port = |number: usize| call(&["add-if", datapath, &format!("{},port_no={number}", ports[number - 1])]);
    let undoes = Inverse::within(meeting.behind, Action::DeleteDatapath { name: datapath.to_owned() });
    let why = "Open vSwitch's datapath: what arrives at one port leaves by the other";
    Step::new(meeting.behind, why, vec![call(&["add-dp", datapath]), port(1), port(2)]).undone_by(vec![undoes])
}

/// A flow matches exactly one EtherType, so there is one for each that the path carries, with a
/// VLAN tag and without, each way.
fn flows_step(meeting: &Meeting<'_>, datapath: &str, setup: &Setup) -> Step {
    let known = [(0x0800, ",ipv4()"), (0x0806, ",arp()"), (0x86dd, ",ipv6()")];
    let of_frames = setup.streams.iter().map(|stream| (stream.ethertype, ""));
    // What is known comes last, and replaces what a stream asks for under the same EtherType.
    let all: BTreeMap<u16, &str> = of_frames.chain(known).collect();
    let carried: Vec<_> = all.iter().map(|(ethertype, more)| format!("eth_type({ethertype:#06x}){more}")).collect();
    let mut does = Vec::new();
    for (from, to) in [("1", "2"), ("2", "1")] {
        for kind in &carried {
            for flow in [kind.clone(), format!("eth_type({TAG:#06x}),vlan(vid=0/0,pcp=0/0),encap({kind})")] {
                let flow = format!("in_port({from}),eth(),{flow}");
                does.push(meeting.behind.exec(&[DPCTL, "add-flow", datapath, &flow, to]));
            }
        }
    }
    let why = "its flows, one for each EtherType and way: no packet waits for a program to decide";
    Step::new(meeting.behind, why, does)
}
