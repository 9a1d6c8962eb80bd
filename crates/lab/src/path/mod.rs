// SPDX-License-Identifier: MIT OR Apache-2.0
//! How two stations are joined. What a kind builds stands in its file, which [`lay`] calls; ARCHITECTURE.md lists what else a new kind needs.

pub mod emulated;
pub mod igb;
pub mod link;
pub mod netdevsim;
pub mod veth;
pub mod wire;

use crate::machine::Facts;
use crate::names::Names;
use crate::vlan;
pub use link::{Laid, LinkEnd, PathError, VlanEnd};
use tardy_spec::experiment::{Path, Setup};

/// Why no path of this kind can be had here, where a cell that asks for it should not cost the others; `None` if it may be.
pub fn cannot(setup: &Setup, found: &Facts) -> Option<String> {
    match setup.path {
        Path::Netdevsim { .. } if !found.simulates => Some(
            "path netdevsim needs the kernel's module of that name, of Linux 6.9 or newer, and it is not loaded: `tardy guest fetch --with \
             netdevsim` builds it for a guest, then `--in guest:exact`"
                .to_owned(),
        ),
        Path::Igb { .. } if !emulated::is_here() => Some(igb::WHY_NOT.to_owned()),
        _ => None,
    }
}

/// Plans the path of a set-up.
///
/// # Errors
/// If the path cannot join these stations.
pub fn lay(setup: &Setup, names: Names, found: &Facts) -> Result<Laid, PathError> {
    let mut laid = match &setup.path {
        Path::Veth { queues, mtu } => veth::lay(setup, *queues, *mtu, names),
        Path::Netdevsim { queues, mtu } => netdevsim::lay(setup, *queues, *mtu, names),
        Path::Igb { mtu } => igb::lay(setup, *mtu, names, found),
        Path::Wire { a, b, mtu, .. } => wire::lay(setup, [a, b], *mtu, names, found),
    }?;
    vlan::over(setup, names, &mut laid);
    Ok(laid)
}
