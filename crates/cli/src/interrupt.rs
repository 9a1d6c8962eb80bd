// SPDX-License-Identifier: MIT OR Apache-2.0
//! SIGINT and SIGTERM: the first one lets the trial under way be finished and kept, the second one ends at once; `undo`
//! then puts back what is left.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The flag that a signal sets.
pub fn on_signal() -> io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // In this order: the shutdown acts only if the flag was set before, that is, on the second signal.
        flag::register_conditional_shutdown(signal, i32::from(super::exit::Exit::Interrupted as u8), stop.clone())?;
        flag::register(signal, stop.clone())?;
    }
    Ok(stop)
}
