// SPDX-License-Identifier: MIT OR Apache-2.0
//! The agents of stations that live for the whole run.

use crate::agent::Agent;
use tardy_model::station::StationKind;

/// The agents of stations that live for the whole run, while no path has them.
#[derive(Default)]
pub(super) struct Standing {
    /// Every such station that was built.
    pub(super) built: Vec<(String, StationKind)>,
    pub(super) agents: Vec<(String, StationKind, Agent)>,
}

impl Standing {
    pub(super) fn has(&self, name: &str, kind: StationKind) -> bool {
        self.built.iter().any(|(built, of)| built == name && *of == kind)
    }

    pub(super) fn take(&mut self, name: &str, kind: StationKind) -> Option<Agent> {
        let at = self.agents.iter().position(|(standing, of, _)| standing == name && *of == kind)?;
        Some(self.agents.swap_remove(at).2)
    }
}
