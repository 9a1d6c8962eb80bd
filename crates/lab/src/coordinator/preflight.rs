// SPDX-License-Identifier: MIT OR Apache-2.0
//! Before the first packet every queue discipline of the experiment is tried once, on a path of
//! its own that is taken down again: what this kernel refuses must not show when half of the cells
//! are measured.

use super::under_way::Run;
use crate::host::ApplyError;
use crate::names::Names;
use crate::orders::is_same_path;
use crate::plan;
use crate::run::RunError;
use crate::shaper;
use crate::undo::UndoError;
use tardy_model::shaper::Shaper;
use tardy_spec::experiment::Setup;

impl Run<'_, '_> {
    /// Tries each once. What only a device can do and it does not costs the cells that ask for it;
    /// anything else that is refused ends the run.
    pub(super) fn preflight(&mut self, names: Names, not_put_back: &mut Option<UndoError>) -> Result<(), RunError> {
        let experiment = self.experiment;
        let mut tried: Vec<(&Setup, Option<String>)> = Vec::new();
        for cell in &experiment.cells {
            let refused = self.refused.contains(&cell.id);
            if refused || cell.setup.is_simulated() || cell.setup.shaper == Shaper::None || self.stopped() {
                continue;
            }
            let known =
                tried.iter().find(|(setup, _)| is_same_path(&self.options.kinds, setup, &cell.setup, &self.found));
            let refused = match known.map(|(_, refused)| refused.clone()) {
                Some(refused) => refused,
                None => {
                    let refused = self.try_out(names, &cell.setup, not_put_back)?;
                    tried.push((&cell.setup, refused.clone()));
                    refused
                }
            };
            if let Some(why) = refused {
                self.refuse(cell, why);
            }
        }
        Ok(())
    }

    /// Builds the path of a cell and takes it down; why its device refuses, if it does.
    fn try_out(
        &mut self,
        names: Names,
        setup: &Setup,
        not_put_back: &mut Option<UndoError>,
    ) -> Result<Option<String>, RunError> {
        // Its ends are the same whatever the clocks read, and these are read only if it is built.
        let ends = plan::plan_of(&self.options.kinds, setup, names, &self.found)?.ends;
        let blind = shaper::offload_refusal(setup, &ends, &self.found)?;
        if let Some(why) = blind.filter(|_| !setup.path.traits().devices.are_made()) {
            return Ok(Some(why));
        }
        self.read_clocks(setup)?;
        let plan = plan::plan_of(&self.options.kinds, setup, names, &self.found)?;
        let applied = self.hosts.apply(&plan.steps);
        if let Err(error) = self.hosts.put_back() {
            *not_put_back = Some(error);
        }
        self.tell_commands();
        match applied {
            Ok(()) => Ok(None),
            Err(ApplyError::Failed { why, says, command })
                if why == shaper::WHY && setup.shaper.offloads().is_some() =>
            {
                Ok(Some(shaper::with_the_kernels_refusal(setup, &ends, &self.found, &command.to_string(), &says)?))
            }
            Err(error) => Err(error.into()),
        }
    }
}
