// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fewer trials than it takes to tell whether a figure repeats.

use super::foreseen::Foreseen;
use tardy_analyze::repeats::LEAST_TRIALS;
use tardy_model::verdict::Level;
use tardy_spec::experiment::Experiment;

pub(super) fn of(experiment: &Experiment) -> Option<Foreseen> {
    let trials = experiment.trials;
    if usize::try_from(trials).is_ok_and(|trials| trials >= LEAST_TRIALS) {
        return None;
    }
    let why = format!("`repeats` cannot be told from {trials} of each cell: it needs {LEAST_TRIALS}");
    Some(Foreseen::new(Level::Note, "trials".to_owned(), why, format!("write trials = {LEAST_TRIALS} or more")))
}
