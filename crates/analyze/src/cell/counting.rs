// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which trials belong to their cell's figures.

use crate::validity::{path_failed, was_measured_well};
use tardy_model::result::{CellResult, TrialResult};

/// The trials whose rows a cell's figures are of.
pub fn counted(trials: &[TrialResult]) -> Vec<u32> {
    in_figures(trials).map(|trial| trial.n).collect()
}

/// True if the trial belongs to its cell's figures: it is valid, or what made it invalid is the
/// path's doing.
pub(super) fn counts(trial: &TrialResult) -> bool {
    trial.valid || path_failed(&trial.verdicts)
}

/// True if the measuring was sound in a strict majority of the trials.
pub(crate) fn most_were_measured_well(trials: &[TrialResult]) -> bool {
    2 * trials.iter().filter(|trial| was_measured_well(&trial.verdicts)).count() > trials.len()
}

/// The trials that a cell's figures are of.
pub fn pooled(cell: &CellResult) -> impl Iterator<Item = &TrialResult> {
    in_figures(&cell.trials)
}

/// Those that count; all of them where none does.
pub(super) fn in_figures(trials: &[TrialResult]) -> impl Iterator<Item = &TrialResult> {
    let some_count = trials.iter().any(counts);
    trials.iter().filter(move |trial| counts(trial) == some_count)
}
