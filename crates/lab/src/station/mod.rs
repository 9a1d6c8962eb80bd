// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stations: where traffic starts or ends. A kind of station is one file here and one line in
//! [`kind`]. It says on which host the station is, builds it there, says what it offers to a path,
//! and has its agent started, to which it gives the coordinator a
//! [`Connection`](crate::connection::Connection). Nothing outside this folder and `host` knows
//! whether an agent is a child process, a thread, or a program in another machine.

mod all;
pub mod guest;
mod methods;
pub mod netns;
mod own;
mod planned;

pub use all::Stations;
pub(crate) use all::{ANSWER, Costs, Look};
pub use methods::StationMethods;
pub use planned::{Offer, PlannedStation, Plugged, StationId, host_of};
use tardy_model::station::StationKind;

/// What stations of this kind do.
pub fn kind(station: StationKind) -> &'static StationMethods {
    match station {
        StationKind::Netns => &netns::KIND,
        StationKind::Guest => &guest::KIND,
        StationKind::Host => &own::KIND,
    }
}
