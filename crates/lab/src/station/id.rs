// SPDX-License-Identifier: MIT OR Apache-2.0
//! The number of a station in a plan.

use std::fmt;

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
