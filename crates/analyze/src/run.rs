// SPDX-License-Identifier: MIT OR Apache-2.0
//! The whole run from its cells.

use crate::cell::CellAnswer;
use tardy_model::FORMAT;
use tardy_model::result::Results;
use tardy_model::verdict::Verdict;

/// Combines cells, in the experiment's order. The run is valid if there are cells and each is; expectations are judged only
/// then. `verdicts` are those of the whole run.
pub fn run(name: &str, cells: impl IntoIterator<Item = CellAnswer>, verdicts: Vec<Verdict>) -> Results {
    let (mut results, mut expectations) = (Vec::new(), Vec::new());
    for cell in cells {
        results.push(cell.result);
        expectations.extend(cell.expectations);
    }
    let valid = !results.is_empty() && results.iter().all(|cell| cell.valid) && crate::validity::is_valid(&verdicts);
    let judged = valid && !expectations.is_empty();
    Results {
        format: FORMAT,
        name: name.to_owned(),
        valid,
        expectations_met: judged.then(|| expectations.iter().all(|expectation| expectation.met)),
        expectations,
        fingerprint: None,
        cells: results,
        verdicts,
    }
}
