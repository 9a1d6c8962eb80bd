// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the kinds of paths and stations do, as one value: the built-in ones, or those of a test
//! that brings its own.

use crate::machine::FactsByHost;
use crate::not_found::NotFound;
use crate::path::{self, PathMethods};
use crate::station::{self, StationMethods};
use tardy_model::path::PathKind;
use tardy_model::station::StationKind;
use tardy_spec::experiment::Setup;

/// What each kind of path and of station does.
#[derive(Clone, Copy, Debug)]
pub struct Kinds {
    pub path: fn(PathKind) -> &'static PathMethods,
    pub station: fn(StationKind) -> &'static StationMethods,
}

impl Default for Kinds {
    /// The built-in ones.
    fn default() -> Kinds {
        Kinds { path: path::kind, station: station::kind }
    }
}

impl Kinds {
    /// Why the stations' hosts cannot have such stations or a path of the set-up's kind, where a
    /// cell that asks for it should not cost the others; `None` if it may be.
    ///
    /// # Errors
    /// If the run has not looked at the host of a station.
    pub fn refusal(&self, setup: &Setup, found: &FactsByHost) -> Result<Option<String>, NotFound> {
        let refusal = (self.path)(setup.path.kind).refusal;
        for (name, station) in &setup.stations {
            let host = found.at(setup, name)?;
            if let Some(why) = ((self.station)(station.kind).needs)(host).or_else(|| refusal(host)) {
                return Ok(Some(why));
            }
        }
        Ok(None)
    }
}
