// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stations: where traffic starts or ends. A kind of station is one file here and one line in [`kind`]. It says on which host the station
//! is, builds it there, says what it offers to a path, and has its agent started, to which it gives the coordinator a [`Connection`].
//! Nothing outside this folder and `host` knows whether an agent is a child process, a thread, or a program in another machine.

mod all;
mod host;
pub mod netns;

pub(crate) use all::ANSWER;
pub use all::Stations;
pub use host::host_of;

use crate::command::Command;
use crate::connection::Connection;
use crate::host::place::Place;
use crate::host::{ApplyError, Host, HostId};
use crate::names::Names;
use crate::step::Step;
use std::fmt;
use tardy_model::station::{StationKind, StationTraits};

/// What a kind of station does, in the order of its life. For each set-up the coordinator calls `build` when it plans; this touches nothing. The
/// steps of a station that lives for a set-up are carried out before those of the path, and then `connect` is called. The agent ends and the
/// steps are put back behind the last trial on this path, the path first. Of a station that lives for the run the same is done once, before the
/// first path and behind the last one; `build` must plan it alike each time.
#[derive(Debug)]
pub struct StationMethods {
    /// What it is.
    pub traits: StationTraits,
    /// Plans what is done on its host before the path is built, under this station's name. Pure: what cannot be done is found when the
    /// steps are applied, and what they did is put back by their inverses.
    pub build: fn(Names, HostId, &str) -> PlannedStation,
    /// Starts the agent of a station that is built: once for each path, or once for the run. An error ends the run, and all that was built is put back. Whoever drops the
    /// connection ends the agent.
    pub connect: fn(&mut dyn Host, &PlannedStation) -> Result<Connection, ApplyError>,
}

/// What stations of this kind do.
pub fn kind(station: StationKind) -> &'static StationMethods {
    match station {
        StationKind::Netns => &netns::KIND,
    }
}

/// What a station offers to a path: where its link may end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Offer {
    /// A network namespace of its own.
    Netns(Place),
}

impl Offer {
    /// Where the link will be.
    pub fn place(&self) -> &Place {
        match self {
            Offer::Netns(place) => place,
        }
    }
}

/// A station as it is planned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedStation {
    /// Its kind.
    pub kind: StationKind,
    /// Steps that build it.
    pub steps: Vec<Step>,
    /// What it offers to a path.
    pub offer: Offer,
    /// The command that is its agent, on its host.
    pub agent: Command,
}

/// A station of a built path. A plan gives it for a name, and for a name that it does not know an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StationId(u16);

impl StationId {
    /// The station at this place of the plan's.
    pub(crate) fn at(place: usize) -> Option<StationId> {
        u16::try_from(place).ok().map(StationId)
    }
}

impl fmt::Display for StationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "station {}", self.0)
    }
}
