// SPDX-License-Identifier: MIT OR Apache-2.0
//! What every kind of station must be able to do.

use super::planned::PlannedStation;
use crate::connection::Connection;
use crate::host::{ApplyError, Host, HostId};
use crate::names::Names;
use tardy_model::station::StationTraits;

/// What a kind of station does, in the order of its life. For each set-up the coordinator calls
/// `build` when it plans; this touches nothing. The steps of a station that lives for a set-up are
/// carried out before those of the path, and then `connect` is called. The agent ends and the
/// steps are put back behind the last trial on this path, the path first. Of a station that lives
/// for the run the same is done once, before the first path and behind the last one; `build` must
/// plan it alike each time.
#[derive(Debug)]
pub struct StationMethods {
    pub traits: StationTraits,
    /// Plans what is done on its host before the path is built, under this station's name. Pure:
    /// what cannot be done is found when the steps are applied, and what they did is put back by
    /// their inverses.
    pub build: fn(Names, HostId, &str) -> PlannedStation,
    /// Starts the agent of a station that is built: once for each path, or once for the run. An
    /// error ends the run, and all that was built is put back. Whoever drops the connection ends
    /// the agent.
    pub connect: fn(&mut dyn Host, &PlannedStation) -> Result<Connection, ApplyError>,
}
