// SPDX-License-Identifier: MIT OR Apache-2.0
//! How two stations are joined. What a kind of path *is* is its record in `tardy_model::path`;
//! what it builds, and what a guest needs for it, is its file here, which [`kind`] finds.

pub mod emulated;
pub mod igb;
pub mod keeper;
pub mod link;
mod methods;
pub mod netdevsim;
pub mod veth;
pub mod wire;

use crate::machine::FactsByHost;
use crate::names::Names;
use crate::vlan;
pub use link::{Ends, Laid, LinkEnd, PathError, PathId, VlanEnd};
pub use methods::{InGuest, PathMethods, PlannedStations};
use tardy_model::path::PathKind;
use tardy_spec::experiment::Setup;

/// What paths of this kind do.
pub fn kind(kind: PathKind) -> &'static PathMethods {
    match kind {
        PathKind::Veth => &veth::KIND,
        PathKind::Netdevsim => &netdevsim::KIND,
        PathKind::Igb => &igb::KIND,
        PathKind::Wire => &wire::KIND,
    }
}

/// Plans the path of a set-up between stations that are built before it, with the VLANs on it.
///
/// # Errors
/// If the path cannot join these stations.
pub fn lay(
    methods: &PathMethods,
    setup: &Setup,
    stations: &PlannedStations,
    names: Names,
    found: &FactsByHost,
) -> Result<Laid, PathError> {
    let mut laid = (methods.lay)(setup, stations, names, found)?;
    vlan::over(setup, names, &mut laid)?;
    Ok(laid)
}
