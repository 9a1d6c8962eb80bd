// SPDX-License-Identifier: MIT OR Apache-2.0
//! Into a virtual machine by two XDP programs: what arrives at the machine's tap leaves by one of a
//! pair of links, and the other way round. The other one of the pair is the other station's device.
//!
//! A packet that such a program takes leaves as it is in memory. What a driver would still have
//! done to it is never done: a checksum that is not filled in, and a VLAN tag that the kernel keeps
//! apart from the packet, would be lost. So both stations' devices do that before they send.

use super::keeper::Keeper;
use super::link::{Laid, PathError};
use super::meeting::Meeting;
use super::methods::{PathMethods, PlannedStations};
use super::veth::Joint;
use crate::bpf_jit;
use crate::command::{Command, OURSELVES};
use crate::host::place::Place;
use crate::machine::FactsByHost;
use crate::names::Names;
use crate::step::{Action, Inverse, Question, Step, offloads_off};
use tardy_model::path::{Backend, BpfJit};
use tardy_spec::experiment::Setup;

pub(super) const KIND: PathMethods = PathMethods::made(lay);

/// Plans it.
///
/// # Errors
/// If there are not exactly one namespace and one machine.
fn lay(setup: &Setup, stations: &PlannedStations, names: Names, found: &FactsByHost) -> Result<Laid, PathError> {
    let meeting = Meeting::of(setup, stations, names, Backend::Tap)?;
    let [_, uplink] = names.bridge();
    let mut behind = vec![
        meeting.uplink(&uplink, "a pair of links from the other station to the XDP programs"),
        whole_packets_step(&meeting.near, WHOLE),
        whole_packets_step(&meeting.machine, WHOLE),
        meeting.up(&uplink, "the XDP programs' end of the pair of links"),
        meeting.up(&meeting.backend, "the virtual machine's tap"),
    ];
    let mut forward = vec!["forward", "--mode", setup.path.xdp_mode.name(), "--netns", meeting.behind_netns];
    forward.extend(setup.path.xdp_prints.then_some("--printk"));
    if setup.path.bpf_jit != BpfJit::AsSet {
        forward.extend(["--jit", setup.path.bpf_jit.name()]);
    }
    forward.extend([&uplink[..], &meeting.backend]);
    let keeper = Keeper {
        place: meeting.behind.clone(),
        why: "hands packets from one device to the other by XDP programs",
        command: Command::new(OURSELVES, &forward),
        is_optional: false,
    };
    let mut read_back = vec![features(&meeting.near), features(&meeting.machine)];
    if meeting.near_behind.is_none() {
        // The driver of a veth pair takes redirected packets only at a link that polls.
        behind.insert(1, polling_step(&meeting.near));
    }
    let (jit, machine) = (setup.path.bpf_jit, Place::of(meeting.behind.host));
    if let Some(set) = bpf_jit::step(jit, &machine, found.of(machine.host)?)? {
        behind.insert(0, set);
    }
    read_back.extend(bpf_jit::question(jit, &machine));
    let inside = meeting.inside(&[(&uplink, None), (&meeting.backend, None)], true);
    let passages = meeting.passages(&[(&uplink, meeting.near.station), (&meeting.backend, meeting.machine.station)]);
    Ok(Laid { keepers: vec![keeper], read_back, inside, passages, ..meeting.laid(behind) })
}

/// What the kernel says of a device's offloads.
pub(super) fn features(at: &Joint<'_>) -> Question {
    Question::at(&at.place, at.place.exec(&["ethtool", "--json", "-k", &at.link]))
}

const WHOLE: &str = "packets that are whole when they are sent: checksums and tags are in them";

/// A station's device leaves nothing of a packet to the device that sends it.
pub(super) fn whole_packets_step(at: &Joint<'_>, why: &'static str) -> Step {
    let does = at.place.shell(&offloads_off(&at.link), &[]);
    let undoes = Inverse::within(&at.place, Action::SwitchOffloadsOn { device: at.link.clone() });
    Step::new(&at.place, why, vec![does]).undone_by(vec![undoes])
}

fn polling_step(at: &Joint<'_>) -> Step {
    let does = at.place.exec(&["ethtool", "-K", &at.link, "gro", "on"]);
    Step::new(&at.place, "a link that polls (NAPI), which takes redirected packets", vec![does])
}
