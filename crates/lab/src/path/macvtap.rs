// SPDX-License-Identifier: MIT OR Apache-2.0
//! Into a virtual machine by a macvtap: the other one of the pair of links that it is on is the
//! other station's device.

use super::link::{Laid, PathError};
use super::meeting::Meeting;
use super::methods::{InGuest, PathMethods, PlannedStations};
use crate::machine::FactsByHost;
use crate::names::Names;
use tardy_model::path::Backend;
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
    let behind = vec![
        meeting.moved(&up, "the far one of the macvtap's pair of links into the other station"),
        // No macvtap has a greater MTU than the link below it.
        meeting.up(&low, "the link below the macvtap"),
        meeting.up(&meeting.backend, "the virtual machine's macvtap"),
    ];
    Ok(meeting.laid(behind))
}
