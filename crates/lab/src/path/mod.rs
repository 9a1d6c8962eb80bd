// SPDX-License-Identifier: MIT OR Apache-2.0
//! How two stations are joined. What a kind of path *is* is its record in `tardy_model::path`; what it builds, and what a guest needs for
//! it, is its file here, which [`kind`] finds.

pub mod emulated;
pub mod igb;
pub mod link;
pub mod netdevsim;
pub mod veth;
pub mod wire;

use crate::machine::{Facts, FactsByHost};
use crate::names::Names;
use crate::station::{self, PlannedStation};
use crate::vlan;
pub use link::{Laid, LinkEnd, PathError, VlanEnd};
use std::collections::BTreeMap;
use tardy_model::path::PathKind;
use tardy_spec::experiment::Setup;

/// What a kind of path does.
pub(crate) struct PathMethods {
    /// Why none of this kind can be had on a host, where a cell that asks for it should not cost the others; `None` if it may be.
    cannot: fn(&Facts) -> Option<String>,
    /// Plans the path of a set-up between stations that are built before it.
    lay: fn(&Setup, &PlannedStations, Names, &FactsByHost) -> Result<Laid, PathError>,
    /// What a guest needs for it.
    pub(crate) guest: InGuest,
}

/// What a guest needs for a kind of path, beside what every guest has.
pub(crate) struct InGuest {
    /// Kernel modules, in the order in which they are loaded.
    pub(crate) modules: fn() -> &'static [&'static str],
    /// What QEMU is told.
    pub(crate) arguments: &'static str,
    /// The first version of QEMU that understands it, and what a message says of it.
    pub(crate) since: Option<(u32, &'static str)>,
}

impl InGuest {
    /// Nothing.
    const NOTHING: InGuest = InGuest { modules: || &[], arguments: "", since: None };
}

/// What paths of this kind do.
pub(crate) const fn kind(kind: PathKind) -> &'static PathMethods {
    match kind {
        PathKind::Veth => &veth::KIND,
        PathKind::Netdevsim => &netdevsim::KIND,
        PathKind::Igb => &igb::KIND,
        PathKind::Wire => &wire::KIND,
    }
}

/// Why no path of this kind can be had on the stations' hosts, where a cell that asks for it should not cost the others; `None` if it may be.
pub fn cannot(setup: &Setup, found: &FactsByHost) -> Option<String> {
    setup.stations.keys().find_map(|name| (kind(setup.path.kind).cannot)(&found[station::host_of(setup, name)]))
}

/// PlannedStations as they are planned, by name.
type PlannedStations = BTreeMap<String, PlannedStation>;

/// Plans the path of a set-up between stations that are built before it.
///
/// # Errors
/// If the path cannot join these stations.
pub fn lay(setup: &Setup, stations: &PlannedStations, names: Names, found: &FactsByHost) -> Result<Laid, PathError> {
    let mut laid = (kind(setup.path.kind).lay)(setup, stations, names, found)?;
    vlan::over(setup, names, &mut laid);
    Ok(laid)
}
