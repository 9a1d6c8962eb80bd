// SPDX-License-Identifier: MIT OR Apache-2.0
//! The agents of stations that live for the whole run.

use crate::agent::Agent;
use crate::station::PlannedStation;

/// The agents of stations that live for the whole run, while no path has them.
///
/// A cell's station is one of those that stand only if all of it is planned the same: its kind, its
/// host, and what is done there. One of the same name that another cell has on another host, or
/// plans otherwise, is another station.
#[derive(Default)]
pub(super) struct Standing {
    /// Every such station that was built, with its name.
    pub(super) built: Vec<(String, PlannedStation)>,
    pub(super) agents: Vec<(String, PlannedStation, Agent)>,
}

impl Standing {
    pub(super) fn has(&self, name: &str, planned: &PlannedStation) -> bool {
        self.built.iter().any(|(built, of)| built == name && of == planned)
    }

    pub(super) fn take(&mut self, name: &str, planned: &PlannedStation) -> Option<Agent> {
        let at = self.agents.iter().position(|(standing, of, _)| standing == name && of == planned)?;
        Some(self.agents.swap_remove(at).2)
    }
}
