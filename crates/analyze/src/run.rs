// SPDX-License-Identifier: MIT OR Apache-2.0
//! The whole run from its cells.

use crate::cell::CellAnswer;
use crate::says;
use tardy_model::FORMAT;
use tardy_model::qdisc::RxKernelAt;
use tardy_model::result::{CellResult, Results};
use tardy_model::verdict::{Figure, Level, Verdict};

/// Combines cells, in the experiment's order. The run is valid if there are cells and each is; expectations are judged only
/// then. `verdicts` are those of the whole run.
pub fn run(name: &str, cells: impl IntoIterator<Item = CellAnswer>, verdicts: Vec<Verdict>) -> Results {
    let (mut results, mut expectations) = (Vec::new(), Vec::new());
    for cell in cells {
        results.push(cell.result);
        expectations.extend(cell.expectations);
    }
    let mut verdicts = verdicts;
    verdicts.extend(moved_points(&results));
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

/// Cells whose `rx_kernel` is not taken at one point must not be compared by it.
fn moved_points(cells: &[CellResult]) -> Option<Verdict> {
    let taken = |cell: &CellResult| {
        cell.streams.values().any(|stream| stream.rx_kernel_at.as_deref() == Some(RxKernelAt::LocalDelivery.name()))
    };
    let has = |cell: &&CellResult| !cell.trials.is_empty();
    let (moved, others): (Vec<_>, Vec<_>) = cells.iter().filter(has).partition(|cell| taken(cell));
    if moved.is_empty() || others.is_empty() {
        return None;
    }
    let names = |cells: &[&CellResult]| Figure::List(cells.iter().map(|cell| cell.id.as_str().into()).collect());
    let list = |cells: &[&CellResult]| says::list(&cells.iter().map(|cell| cell.id.as_str()).collect::<Vec<_>>());
    let says = format!(
        "rx_kernel is taken at local delivery in {} and at arrival in {}: the two groups must not be compared by it; give all streams the \
         same launch",
        list(&moved),
        list(&others)
    );
    let verdict = Verdict::new("moved-point", Level::Warning, says);
    Some(verdict.with("local_delivery", names(&moved)).with("arrival", names(&others)))
}
