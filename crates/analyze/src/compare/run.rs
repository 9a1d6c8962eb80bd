// SPDX-License-Identifier: MIT OR Apache-2.0
//! One of the two runs that are compared.

use super::phases::Phases;
use std::collections::BTreeMap;
use std::path::Path;
use tardy_model::comparison::Compared;
use tardy_model::manifest::Manifest;
use tardy_model::result::{CellResult, Results};

/// All that a comparison uses of one run.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// Its folder, as it was named.
    pub name: &'a str,
    /// The folder that the name leads to; `None` if that is not known.
    pub folder: Option<&'a Path>,
    /// What the machine and the tools were.
    pub manifest: &'a Manifest,
    pub results: &'a Results,
    /// The experiment's keys with their values.
    pub keys: &'a BTreeMap<String, String>,
    /// The phase of each stream of each finished trial, ns.
    pub phases: &'a Phases,
}

/// Verdicts on a run that did not come to its end.
const CUT: [&str; 3] = ["killed", "interrupted", "failed"];

impl Run<'_> {
    pub(super) fn compared(&self) -> Compared {
        Compared {
            run: self.name.to_owned(),
            name: self.results.name.clone(),
            started_utc: self.manifest.started_utc.clone(),
            valid: self.results.valid,
            fingerprint: print(self).cloned(),
            trials: self.results.cells.iter().map(|cell| cell.trials.len() as u32).sum(),
            cut: CUT.into_iter().find(|id| self.results.verdicts.iter().any(|of| of.id == *id)).map(str::to_owned),
            validity: self.results.validity.clone(),
        }
    }

    pub(super) fn cell(&self, id: &str) -> Option<&CellResult> {
        self.results.cells.iter().find(|cell| cell.id == id)
    }
}

/// A run's fingerprint. One over no cell's, as a run without a finished trial may have it, is
/// equal to any other such one and says nothing.
pub(super) fn print<'a>(run: &Run<'a>) -> Option<&'a String> {
    run.results.fingerprint.as_ref().filter(|_| run.results.cells.iter().any(|cell| cell.fingerprint.is_some()))
}
