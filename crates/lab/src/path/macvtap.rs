// SPDX-License-Identifier: MIT OR Apache-2.0
//! Into a virtual machine by a macvtap: the other one of the pair of links that it is on is the
//! other station's device; or it is on a network device, which a cable joins to the other
//! station's. Or between two machines whose macvtaps are on one link.

use super::link::{Laid, PathError};
use super::meeting::Meeting;
use super::methods::{InGuest, PathMethods, PlannedStations};
use super::passages::Passage;
use super::uplink::asks;
use crate::host::place::Place;
use crate::machine::FactsByHost;
use crate::names::Names;
use crate::step::{Question, Step};
use tardy_model::path::{Backend, MacvtapMode};
use tardy_spec::experiment::Setup;

pub(super) const KIND: PathMethods =
    PathMethods { asks, guest: InGuest { modules: || &["macvtap"], ..InGuest::NOTHING }, ..PathMethods::made(lay) };

/// Plans it.
///
/// # Errors
/// If there are neither one namespace and one machine nor two machines.
fn lay(setup: &Setup, stations: &PlannedStations, names: Names, found: &FactsByHost) -> Result<Laid, PathError> {
    let mut meeting = Meeting::of(setup, stations, (names, found), Backend::Macvtap)?;
    let [low, up] = names.below_macvtap();
    // The machine was started with its macvtap on the device.
    let low = meeting.uplink_name(&low);
    let mode = setup.path.macvtap_mode;
    let mode_of = ["type", "macvtap", "mode", mode.name()];
    let lets_pass = |at: &Place| {
        let set = at.ip(&[&["link", "set", "dev", &meeting.backend][..], &mode_of].concat());
        let groups = at.ip(&["link", "set", "dev", &meeting.backend, "allmulticast", "on"]);
        // Each cell sets its own, so nothing is put back; one in mode passthru was made so.
        let set = (mode != MacvtapMode::Passthru).then(|| Step::new(at, "what the macvtap lets pass", vec![set]));
        // QEMU does not say which groups its machine is a member of.
        set.into_iter().chain([Step::new(at, "multicast of all groups passes to the virtual machine", vec![groups])])
    };
    // The link below both macvtaps of two machines is the first one's.
    let owner = meeting.near_behind.unwrap_or(meeting.behind);
    let mut behind: Vec<Step> = meeting.near_behind.into_iter().chain([meeting.behind]).flat_map(lets_pass).collect();
    match (meeting.near_behind, &meeting.uplink) {
        (None, None) => {
            behind.push(meeting.moved(&up, "the far one of the macvtap's pair of links into the other station"));
        }
        (None, Some(_)) => behind.extend(meeting.uplink_steps(&low, "", false)),
        // Without it the link below has no carrier. Nothing else is at that end.
        (Some(_), _) => behind.push(meeting.up_at(owner, &up, "the far one of the macvtaps' pair of links")),
    }
    // No macvtap has a greater MTU than the link below it.
    behind.push(meeting.up_at(owner, &low, "the link below the macvtap"));
    let macvtaps = meeting.near_behind.into_iter().chain([meeting.behind]);
    behind.extend(macvtaps.clone().map(|at| meeting.up_at(at, &meeting.backend, "a virtual machine's macvtap")));
    let show = |at: &Place| Question::at(at, at.ip(&["-j", "-d", "link", "show", "dev", &meeting.backend]));
    let read_back = macvtaps.map(show).collect();
    let inside = meeting.inside(&[(&low, Some(meeting.near.station)), (&meeting.backend, None)], false);
    // A macvtap receives what goes to its machine. Between two, nothing passes the link below.
    let own = (&*meeting.backend, meeting.near.station);
    let mut passages = match meeting.near_behind {
        None => meeting.passages(&[(&low, meeting.near.station), own]),
        Some(_) => meeting.passages(&[own]),
    };
    passages.devices.extend(meeting.near_behind.map(|place| Passage {
        place: place.clone(),
        device: meeting.backend.clone(),
        from: meeting.machine.station.to_owned(),
    }));
    if meeting.near_behind.is_none() && meeting.uplink.is_none() {
        meeting.near.link = up;
    }
    Ok(Laid { read_back, inside, passages, ..meeting.laid(behind) })
}
