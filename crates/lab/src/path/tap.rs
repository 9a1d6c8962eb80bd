// SPDX-License-Identifier: MIT OR Apache-2.0
//! Into a virtual machine by its tap alone: the tap is the other station's device, in that
//! station's namespace.

use super::link::{Laid, PathError};
use super::meeting::Meeting;
use super::methods::{PathMethods, PlannedStations};
use super::passages::{Passage, Passages};
use crate::machine::FactsByHost;
use crate::names::Names;
use tardy_model::path::Backend;
use tardy_spec::experiment::Setup;

pub(super) const KIND: PathMethods = PathMethods::made(lay);

/// Plans it.
///
/// # Errors
/// If there are not exactly one namespace and one machine.
fn lay(setup: &Setup, stations: &PlannedStations, names: Names, found: &FactsByHost) -> Result<Laid, PathError> {
    let mut meeting = Meeting::of(setup, stations, (names, found), Backend::Tap)?;
    meeting.near.link.clone_from(&meeting.backend);
    let behind = vec![meeting.moved(&meeting.backend, "the virtual machine's tap into the other station")];
    let tap = Passage {
        place: meeting.near.place.clone(),
        device: meeting.backend.clone(),
        from: meeting.machine.station.to_owned(),
    };
    let passages = Passages { devices: vec![tap], lookups: None };
    Ok(Laid { passages, ..meeting.laid(behind) })
}
