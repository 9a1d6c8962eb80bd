// SPDX-License-Identifier: MIT OR Apache-2.0
//! What every kind of station must be able to do.

use super::planned::{Offer, PlannedStation, Plugged};
use crate::connection::Connection;
use crate::host::{ApplyError, Host};
use crate::machine::Facts;
use crate::names::Names;
use crate::path::link::{Device, EndId, PathError};
use tardy_model::station::StationTraits;
use tardy_spec::experiment::Station;

/// What a kind of station does, in the order of its life.
///
/// A run asks `needs` first, once for each cell. For each set-up the coordinator then calls
/// `build` and `plug` when it plans; neither touches the machine. The steps of a station that
/// lives for a set-up are carried out before those of the path, and the steps of its plugs after
/// them. Then the coordinator calls `connect`. After the last trial on this path the agent ends,
/// and the steps are put back in reverse: the plugs, the path, the station. A station that lives
/// for the run is built and connected once, before the first path, and put back after the last
/// one; its plugs still come and go with each path, and `build` must plan it equally each time. One
/// that is a machine of its own is built and started before the run looks at its hosts.
#[derive(Debug)]
pub struct StationMethods {
    pub traits: StationTraits,
    /// Why a host cannot have a station of this kind, by what is known of the host; `None` if it
    /// can. A cell that asks for such a station is refused, and the others run.
    pub needs: fn(&Facts) -> Option<String>,
    /// Plans what is done before the path is built, under this station's name. Pure: what cannot be
    /// done is found when the steps are applied, and what they did is put back by their inverses.
    /// The steps of a station that is a machine of its own are those of the host that runs it.
    pub build: fn(Names, &Station, &str) -> PlannedStation,
    /// Plans how the station takes in a device that a path gives to one of its offers, which makes
    /// it this end: a station that takes in several devices keeps them apart by their ends and, if
    /// it has slots, by the slots' numbers. It is called once for each end, and at most once for a
    /// slot. Pure. An error ends the run before anything is touched.
    pub plug: fn(&PlannedStation, EndId, &Offer, &Device) -> Result<Plugged, PathError>,
    /// Starts the agent of a station that is built: once for each path, or once for the run. An
    /// error ends the run, and all that was built is put back. Whoever drops the connection ends
    /// the agent.
    pub connect: fn(&mut dyn Host, &PlannedStation) -> Result<Connection, ApplyError>,
}
