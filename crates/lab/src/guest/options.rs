// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the caller tells a run in a guest in addition to the experiment.

use super::parts::Guest;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// What a run in a guest needs in addition to the experiment.
pub struct GuestOptions<'a> {
    pub guest: &'a Guest,
    /// Folder for what is kept of it, which is there.
    pub folder: &'a Path,
    /// Folder of slots and journals.
    pub state: &'a Path,
    /// Where fetched kernels lie, and what was found out about this machine.
    pub cache: &'a Path,
    /// Set by a signal.
    pub stop: &'a AtomicBool,
    /// A guest that says nothing for so much processor time hangs.
    pub silence: Duration,
}
