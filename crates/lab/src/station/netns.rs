// SPDX-License-Identifier: MIT OR Apache-2.0
//! A network namespace as a station: it is made for the path and deleted with it. Its agent is a
//! child process inside it.

use super::methods::StationMethods;
use super::planned::{Offer, PlannedStation};
use crate::command::{Command, OURSELVES};
use crate::host::HostId;
use crate::host::place::Place;
use crate::inverse::{Action, Inverse};
use crate::names::Names;
use crate::step::Step;
use tardy_model::station::StationKind;

/// Its host starts its agent.
pub(super) const KIND: StationMethods =
    StationMethods { traits: StationKind::Netns.traits(), build, connect: |host, station| host.start(&station.agent) };

/// A step of its own, so that a name that is taken is never mistaken for one that this step made.
fn build(names: Names, host: HostId, station: &str) -> PlannedStation {
    let netns = names.netns(station);
    let does = Command::ip(&["netns", "add", &netns]);
    let undoes = Inverse::here(Action::DeleteNamespace { name: netns.clone() });
    let step = Step::new(&Place::of(host), "a fresh network namespace for the station", vec![does]);
    let offer = Offer::Netns(Place::netns_of(host, &netns));
    // It enters the namespace by itself.
    let agent = Command::new(OURSELVES, &["agent", "--netns", &netns]);
    PlannedStation { kind: StationKind::Netns, steps: vec![step.undone_by(vec![undoes])], offer, agent }
}
