// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the rest of a cell says, which a queue discipline must fit.

use crate::cell::View;
use crate::experiment::Path;
use tardy_model::load::Load;
use tardy_model::stream::{Stream, all_simulated};

/// What the rest of the cell says, for the checks.
#[derive(Clone, Copy)]
pub(super) struct Rest<'a> {
    pub(super) view: &'a View<'a>,
    pub(super) path: &'a Path,
    pub(super) streams: &'a [Stream],
    pub(super) loads: &'a [Load],
}

impl Rest<'_> {
    pub(super) fn is_simulated(&self) -> bool {
        all_simulated(self.streams)
    }
}
