// SPDX-License-Identifier: MIT OR Apache-2.0
//! Into a virtual machine by a macvtap: the other one of the pair of links that it is on is the
//! other station's device.

use super::link::{Laid, PathError};
use super::meeting::Meeting;
use super::methods::{InGuest, PathMethods, PlannedStations};
use crate::machine::FactsByHost;
use crate::names::Names;
use crate::step::{Question, Step};
use tardy_model::path::{Backend, MacvtapMode};
use tardy_spec::experiment::Setup;

pub(super) const KIND: PathMethods =
    PathMethods { guest: InGuest { modules: || &["macvtap"], ..InGuest::NOTHING }, ..PathMethods::made(lay) };

/// Plans it.
///
/// # Errors
/// If there are not exactly one namespace and one machine.
fn lay(setup: &Setup, stations: &PlannedStations, names: Names, _: &FactsByHost) -> Result<Laid, PathError> {
    let mut meeting = Meeting::of(setup, stations, names, Backend::Macvtap)?;
    let [low, up] = names.below_macvtap();
    meeting.near.link.clone_from(&up);
    let mode = setup.path.macvtap_mode;
    let mode_of = ["type", "macvtap", "mode", mode.name()];
    let set = meeting.behind.ip(&[&["link", "set", "dev", &meeting.backend][..], &mode_of].concat());
    let groups = meeting.behind.ip(&["link", "set", "dev", &meeting.backend, "allmulticast", "on"]);
    // Each cell sets its own, so nothing is put back; one in mode passthru was made so.
    let set =
        (mode != MacvtapMode::Passthru).then(|| Step::new(meeting.behind, "what the macvtap lets pass", vec![set]));
    let behind = [
        // QEMU does not say which groups its machine is a member of.
        Step::new(meeting.behind, "multicast of all groups passes to the virtual machine", vec![groups]),
        meeting.moved(&up, "the far one of the macvtap's pair of links into the other station"),
        // No macvtap has a greater MTU than the link below it.
        meeting.up(&low, "the link below the macvtap"),
        meeting.up(&meeting.backend, "the virtual machine's macvtap"),
    ];
    let behind = set.into_iter().chain(behind).collect();
    let show = meeting.behind.ip(&["-j", "-d", "link", "show", "dev", &meeting.backend]);
    let read_back = vec![Question::at(meeting.behind, show)];
    Ok(Laid { read_back, ..meeting.laid(behind) })
}
