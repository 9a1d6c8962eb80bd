// SPDX-License-Identifier: MIT OR Apache-2.0
//! A station as it is planned: its number and its host, the steps that build it, what it offers to
//! a path, and its agent's command.

use crate::command::Command;
use crate::host::HostId;
use crate::host::place::Place;
use crate::not_found::NotFound;
use crate::step::Step;
use std::fmt;
use tardy_model::station::StationKind;
use tardy_spec::experiment::Setup;

/// A station of a built path. A plan gives it for a name, and for a name that it does not know an
/// error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StationId(u16);

impl StationId {
    /// The station at this place in the plan's order.
    pub(crate) fn at(place: usize) -> Option<StationId> {
        u16::try_from(place).ok().map(StationId)
    }

    /// Its place in the plan's order.
    pub(crate) fn place(self) -> usize {
        usize::from(self.0)
    }

    /// The first `count` stations, in the plan's order.
    pub(crate) fn first(count: usize) -> impl Iterator<Item = StationId> {
        (0..count).map_while(StationId::at)
    }
}

impl fmt::Display for StationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "station {}", self.0)
    }
}

/// The host of a station. Whoever decides something for a station asks here.
///
/// # Errors
/// If the set-up has none of this name.
pub fn host_of(setup: &Setup, station: &str) -> Result<HostId, NotFound> {
    let station = setup.stations.get(station).ok_or_else(|| NotFound::Station(station.to_owned()))?;
    Ok(station.host)
}

/// What a station offers to a path: where a link may end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Offer {
    /// A network namespace. The path makes its device inside it, or moves one into it, and any
    /// number of devices fit.
    Netns(Place),
    /// The machine's own network, with the devices that it has: a path makes none there and moves
    /// none into it.
    Own(Place),
    /// A slot for one device, as a virtual machine has for a tap. The path makes the device at
    /// this place, and the station takes it in.
    Slot {
        /// Which of the station's slots, from 0: no two of them have the same number.
        number: u8,
        place: Place,
    },
}

impl Offer {
    /// Where the path makes the device.
    pub fn place(&self) -> &Place {
        match self {
            Offer::Netns(place) | Offer::Own(place) | Offer::Slot { place, .. } => place,
        }
    }
}

/// By which an agent reports nothing while a trial runs.
pub(super) const QUIET: &str = "--quiet";

/// A station as it is planned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedStation {
    pub kind: StationKind,
    /// Where its agent runs.
    pub place: Place,
    /// Steps that build it.
    pub steps: Vec<Step>,
    /// What it offers to a path, in an order of its own.
    pub offers: Vec<Offer>,
    /// The command that is its agent, on its host.
    pub agent: Command,
}

impl PlannedStation {
    /// Its agent reports nothing while a trial runs.
    pub fn is_quiet(&self) -> bool {
        self.agent.argv().iter().any(|word| word == QUIET)
    }

    /// Its first network namespace; `None` if it offers none.
    pub fn namespace(&self) -> Option<&Offer> {
        self.offers.iter().find(|offer| matches!(offer, Offer::Netns(_)))
    }
}

/// A device that a station has taken in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plugged {
    /// What is done for it after the path is built. The inverses of these steps give the device
    /// back, before those of the path take it away.
    pub steps: Vec<Step>,
    /// Where the station has the device.
    pub place: Place,
    /// The device's name there.
    pub device: String,
}
