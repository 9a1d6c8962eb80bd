// SPDX-License-Identifier: MIT OR Apache-2.0
//! Devices of a guest's that an experiment needs: modules that only it gets, beside those that every guest has.

use super::extra;
use tardy_spec::experiment::{Experiment, Path};

/// Modules that the experiment's paths need, in the order in which they are loaded.
pub fn modules(experiment: &Experiment) -> &'static [&'static str] {
    let simulated = experiment.cells.iter().any(|cell| matches!(cell.setup.path, Path::Netdevsim { .. }));
    if simulated { extra::extra("netdevsim").map_or(&[], |extra| extra.modules) } else { &[] }
}
