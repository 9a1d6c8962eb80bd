// SPDX-License-Identifier: MIT OR Apache-2.0
//! What every kind of path must be able to do, and what it needs in a guest.

use super::link::{Laid, PathError};
use crate::machine::{Facts, FactsByHost};
use crate::names::Names;
use crate::station::PlannedStation;
use std::collections::BTreeMap;
use tardy_spec::experiment::Setup;

/// What a kind of path does.
#[derive(Debug)]
pub struct PathMethods {
    /// Why none of this kind can be had on a host, by what is known of it (`Facts`), where a cell
    /// that asks for it should not cost the others; `None` if it may be. What only the kernel can
    /// say fails in its step, and ends the run.
    pub refusal: fn(&Facts) -> Option<String>,
    /// Plans the path of a set-up between stations that are built before it. Pure: what cannot be
    /// done is found when the steps are applied, and what they did is put back by their inverses.
    /// An error ends the run before anything is touched.
    pub lay: fn(&Setup, &PlannedStations, Names, &FactsByHost) -> Result<Laid, PathError>,
    /// What a guest needs for it.
    pub guest: InGuest,
}

/// What a guest needs for a kind of path, beside what every guest has.
#[derive(Debug)]
pub struct InGuest {
    /// Kernel modules, in the order in which they are loaded.
    pub modules: fn() -> &'static [&'static str],
    /// What QEMU is told.
    pub arguments: &'static str,
    /// The first version of QEMU that understands it, and what a message says of it.
    pub since: Option<(u32, &'static str)>,
}

impl InGuest {
    pub const NOTHING: InGuest = InGuest { modules: || &[], arguments: "", since: None };
}

/// Stations as they are planned, by name.
pub type PlannedStations = BTreeMap<String, PlannedStation>;
