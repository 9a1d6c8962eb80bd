// SPDX-License-Identifier: MIT OR Apache-2.0
//! A machine's own network as a station: nothing is built, and nothing of it is changed. Its agent
//! runs where every program of the machine does.

use super::methods::StationMethods;
use super::planned::{Offer, PlannedStation, Plugged, QUIET};
use crate::command::{Command, OURSELVES};
use crate::host::place::Place;
use tardy_model::station::StationKind;

/// Its host starts its agent.
pub(super) const KIND: StationMethods = StationMethods {
    traits: StationKind::Host.traits(),
    needs: |_| None,
    build: |_, of, _| {
        let place = Place::of(of.host);
        let offers = vec![Offer::Own(place.clone())];
        // Over ssh its live figures would go by the network that it measures.
        let agent = match of.remote {
            Some(_) => Command::new(OURSELVES, &["agent", QUIET]),
            None => Command::new(OURSELVES, &["agent"]),
        };
        PlannedStation { kind: StationKind::Host, place, steps: Vec::new(), offers, agent }
    },
    plug: |planned, _, _, device| {
        Ok(Plugged { steps: Vec::new(), place: planned.place.clone(), device: device.name.clone() })
    },
    connect: |host, station| host.start(&station.agent),
};
