// SPDX-License-Identifier: MIT OR Apache-2.0
//! Into a virtual machine by two XDP programs: what arrives at the machine's tap leaves by one of a
//! pair of links, and the other way round. The other one of the pair is the other station's device.
//! A network device, which a cable joins to the other station's, may take the place of the pair.
//!
//! A packet that such a program takes leaves as it is in memory. What a driver would still have
//! done to it is never done: a checksum that is not filled in, and a VLAN tag that the kernel keeps
//! apart from the packet, would be lost. So both stations' devices do that before they send.

use super::keeper::Keeper;
use super::link::{Laid, PathError};
use super::meeting::Meeting;
use super::methods::{PathMethods, PlannedStations};
use super::uplink::{Uplink, asks};
use super::veth::Joint;
use crate::bpf_jit;
use crate::command::{Command, OURSELVES};
use crate::host::place::Place;
use crate::machine::FactsByHost;
use crate::names::Names;
use crate::step::{Action, Inverse, Question, Step, offloads_off};
use tardy_model::path::{Backend, BpfJit};
use tardy_model::xdp::XdpMode;
use tardy_spec::experiment::Setup;

pub(super) const KIND: PathMethods = PathMethods { asks, ..PathMethods::made(lay) };

/// Plans it.
///
/// # Errors
/// If there are not exactly one namespace and one machine.
fn lay(setup: &Setup, stations: &PlannedStations, names: Names, found: &FactsByHost) -> Result<Laid, PathError> {
    let meeting = Meeting::of(setup, stations, (names, found), Backend::Tap)?;
    let [_, uplink] = names.bridge();
    let uplink = meeting.uplink_name(&uplink);
    let (jit, host) = (setup.path.bpf_jit, Place::of(meeting.behind.host));
    let mut behind: Vec<Step> = bpf_jit::step(jit, &host, found.of(host.host)?)?.into_iter().collect();
    behind.extend(meeting.uplink_steps(&uplink, "a pair of links from the other station to the XDP programs", true));
    if meeting.near_behind.is_none() && meeting.uplink.as_ref().is_none_or(Uplink::is_veth) {
        // The driver of a veth pair takes redirected packets only at a link that polls.
        behind.push(polling_step(&meeting.near));
    }
    behind.extend([
        whole_packets_of_near(&meeting, WHOLE),
        whole_packets_step(&meeting.machine, WHOLE),
        meeting.up(&uplink, "the XDP programs' end of the way to the other station"),
        meeting.up(&meeting.backend, "the virtual machine's tap"),
    ]);
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
    read_back.extend(bpf_jit::question(jit, &host));
    let inside = meeting.inside(&[(&uplink, None), (&meeting.backend, None)], true);
    let mut passages =
        meeting.passages(&[(&uplink, meeting.near.station), (&meeting.backend, meeting.machine.station)]);
    if setup.path.xdp_mode == XdpMode::Native && meeting.uplink.as_ref().is_some_and(|of| !of.is_veth()) {
        // Not every driver counts among a device's packets what an XDP program takes from it.
        passages.devices.retain(|of| of.device != uplink);
    }
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

/// The same of the other station's device. A network device gets its offloads back when it goes
/// back.
pub(super) fn whole_packets_of_near(meeting: &Meeting<'_>, why: &'static str) -> Step {
    let step = whole_packets_step(&meeting.near, why);
    if meeting.uplink.is_some() { step.undone_by(Vec::new()) } else { step }
}

fn polling_step(at: &Joint<'_>) -> Step {
    let does = at.place.exec(&["ethtool", "-K", &at.link, "gro", "on"]);
    Step::new(&at.place, "a link that polls (NAPI), which takes redirected packets", vec![does])
}
