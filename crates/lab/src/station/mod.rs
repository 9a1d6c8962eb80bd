// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stations: where traffic starts or ends. A kind of station is one file here and one line in [`kind`]. It says on which host the station
//! is, builds it there, says what it offers to a path, and has its agent started, to which it gives the coordinator a [`Connection`](crate::connection::Connection).
//! Nothing outside this folder and `host` knows whether an agent is a child process, a thread, or a program in another machine.

mod all;
mod methods;
pub mod netns;
mod planned;

pub(crate) use all::ANSWER;
pub use all::Stations;
pub use methods::StationMethods;
pub use planned::{Offer, PlannedStation};

use crate::host::HostId;
use tardy_model::station::StationKind;
use tardy_spec::experiment::Setup;
use thiserror::Error;

/// What stations of this kind do.
pub fn kind(station: StationKind) -> &'static StationMethods {
    match station {
        StationKind::Netns => &netns::KIND,
    }
}

/// The host of a station.
pub(crate) fn host_of(setup: &Setup, station: &str) -> HostId {
    match setup.stations.get(station) {
        // A namespace is the coordinator's machine's.
        Some(StationKind::Netns) | None => HostId::HERE,
    }
}

/// A station of a built path. A plan gives it for a name, and for a name that it does not know an error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StationId(u16);

impl StationId {
    /// The station at this place of the plan's.
    pub(crate) fn at(place: usize) -> Option<StationId> {
        u16::try_from(place).ok().map(StationId)
    }
}

/// A station that an experiment names and does not have.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("there is no station `{0}`: write a section [station.{0}]")]
pub struct NoStation(pub String);
