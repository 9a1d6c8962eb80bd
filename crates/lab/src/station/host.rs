// SPDX-License-Identifier: MIT OR Apache-2.0
//! On which host a station is. Whoever decides something for a station asks here.

use crate::host::HostId;
use crate::not_found::NotFound;
use tardy_spec::experiment::Setup;

/// The host of a station.
///
/// # Errors
/// If the set-up has none of this name.
pub fn host_of(setup: &Setup, station: &str) -> Result<HostId, NotFound> {
    let station = setup.stations.get(station).ok_or_else(|| NotFound::Station(station.to_owned()))?;
    Ok(station.host)
}
