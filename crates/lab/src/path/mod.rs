// SPDX-License-Identifier: MIT OR Apache-2.0
//! How stations are joined. What a kind of path *is* is its record in `tardy_model::path`;
//! what it builds, and what a guest needs for it, is its file here, which [`kind`] finds.

mod bridge;
pub mod igb;
pub mod keeper;
pub(crate) mod link;
mod macvtap;
mod meeting;
mod methods;
pub mod netdevsim;
mod network;
mod ovs;
pub mod passages;
pub mod switch;
mod tap;
mod uplink;
pub mod veth;
pub mod vfio;
pub mod wire;
mod xdp;

pub use link::{Device, EndId, Ends, Inside, Laid, LinkEnd, PathError, PathId, Plug, VlanEnd};
pub use methods::{InGuest, PathMethods, PlannedStations};
use tardy_model::path::PathKind;

/// What paths of this kind do.
pub fn kind(kind: PathKind) -> &'static PathMethods {
    match kind {
        PathKind::Veth => &veth::KIND,
        PathKind::Netdevsim => &netdevsim::KIND,
        PathKind::Igb => &igb::KIND,
        PathKind::Wire => &wire::KIND,
        PathKind::Network => &network::KIND,
        PathKind::Tap => &tap::KIND,
        PathKind::Bridge => &bridge::KIND,
        PathKind::Macvtap => &macvtap::KIND,
        PathKind::Ovs => &ovs::KIND,
        PathKind::OvsNetdev => &ovs::NETDEV,
        PathKind::Xdp => &xdp::KIND,
        PathKind::Vfio => &vfio::KIND,
    }
}
