// SPDX-License-Identifier: MIT OR Apache-2.0
//! How two stations are joined. A kind is one file and one line in [`lay`].

pub mod veth;

use crate::command::Step;
use crate::names::Names;
use crate::plan::{End, PlanError};
use std::collections::BTreeMap;
use tardy_spec::experiment::{Path, Setup};

/// What a path kind plans.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Laid {
    /// Steps that build it.
    pub steps: Vec<Step>,
    /// Where it ends, by station.
    pub ends: BTreeMap<String, End>,
}

/// Plans the path of a set-up.
///
/// # Errors
/// If the path cannot join these stations.
pub fn lay(setup: &Setup, names: Names) -> Result<Laid, PlanError> {
    match setup.path {
        Path::Veth { queues, mtu } => veth::lay(&setup.stations, queues, mtu, names),
    }
}
