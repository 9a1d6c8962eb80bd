// SPDX-License-Identifier: MIT OR Apache-2.0
//! What keeps this machine's clock near a reference, as it reports itself: chrony
//! (`chronyc tracking`), and ptp4l of linuxptp (its management socket). Each report says by how
//! much the clock may be wrong, so that two machines with one reference can be compared by it. Each
//! keeper is a file here; `observing` is a ptp4l of tardy's own, and `syncs` what follows from what
//! it measured.

mod chrony;
mod kept;
mod observing;
mod ptp4l;
mod syncs;

pub use chrony::tracking;
pub use kept::{Apart, Keeper, Kept, Later, MOST_KEPT};
pub use observing::{DOMAIN, Observing, OnTheWire, PtpSocket, observed};
pub use ptp4l::{
    CURRENT_DATA_SET, PORT_PROPERTIES_NP, PTP4L, PtpStatus, TIME_PROPERTIES_DATA_SET, TIME_STATUS_NP, answer,
    ptp_status, question, status_of,
};
pub use syncs::{LEAST_SYNCS, Reports, SYNCS, Sync, Syncs};

use std::path::{Path, PathBuf};

/// What keeps this machine's clock, each with its report.
pub fn all() -> Vec<Kept> {
    let own = own_socket();
    let ptp4l = Path::new(PTP4L);
    let by_ptp = ptp4l.exists().then(|| ptp_status(ptp4l, &own, 0).ok().flatten()).flatten();
    chrony::kept().into_iter().chain(by_ptp.and_then(|status| status.of_system())).collect()
}

/// Only root writes there, and only root may ask ptp4l.
fn own_socket() -> PathBuf {
    PathBuf::from(format!("/run/tardy-ptp4l-{}", std::process::id()))
}
