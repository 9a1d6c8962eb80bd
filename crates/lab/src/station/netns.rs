// SPDX-License-Identifier: MIT OR Apache-2.0
//! A network namespace as a station: it is made for the path and deleted with it. Its agent is a
//! child process inside it.

use super::methods::StationMethods;
use super::planned::{Offer, PlannedStation, Plugged};
use crate::command::{Command, OURSELVES};
use crate::host::place::Place;
use crate::names::Names;
use crate::path::link::{Device, EndId, PathError};
use crate::step::{Action, Inverse, Step};
use tardy_model::station::StationKind;
use tardy_spec::experiment::Station;

/// Its host starts its agent.
pub(super) const KIND: StationMethods = StationMethods {
    traits: StationKind::Netns.traits(),
    needs: |_| None,
    build,
    plug,
    connect: |host, station| host.start(&station.agent),
};

/// A step of its own, so that a name that is taken is never mistaken for one that this step made.
fn build(names: Names, of: &Station, station: &str) -> PlannedStation {
    let (host, netns) = (of.host, names.netns(station));
    let does = Command::ip(&["netns", "add", &netns]);
    let undoes = Inverse::here(Action::DeleteNamespace { name: netns.clone() });
    let step = Step::new(&Place::of(host), "a fresh network namespace for the station", vec![does]);
    let place = Place::netns_of(host, &netns);
    let offers = vec![Offer::Netns(place.clone())];
    // It enters the namespace by itself.
    let agent = Command::new(OURSELVES, &["agent", "--netns", &netns]);
    PlannedStation { kind: StationKind::Netns, place, steps: vec![step.undone_by(vec![undoes])], offers, agent }
}

/// The path has put the device into the namespace already.
fn plug(_: &PlannedStation, _: EndId, offer: &Offer, device: &Device) -> Result<Plugged, PathError> {
    Ok(Plugged { steps: Vec::new(), place: offer.place().clone(), device: device.name.clone() })
}
