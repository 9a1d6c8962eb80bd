// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two runs side by side: first what differed in the machine and in what was asked, then what
//! differs in the numbers, and whether it means anything. Noisy runs are only shown next to
//! each other, not judged. In exact runs each trial is one deterministic draw, so a claim rests on
//! many seeded phases. How: `docs/method/compare.md`.

mod bandwidth;
pub mod condition;
pub mod decide;
pub mod phases;
mod run;

pub use run::Run;
use run::print;
use tardy_model::FORMAT;
use tardy_model::comparison::{CellComparison, Comparison};

/// Compares run B with run A.
pub fn compare(a: &Run<'_>, b: &Run<'_>) -> Comparison {
    let (facts, differences) = run::differences(a, b);
    let of_b_alone = b.results.cells.iter().filter(|cell| a.cell(&cell.id).is_none());
    let cells = a.results.cells.iter().chain(of_b_alone).map(|cell| self::cell(&cell.id, a, b)).collect();
    Comparison {
        format: FORMAT,
        a: a.compared(),
        b: b.compared(),
        one_folder: a.folder.is_some() && a.folder == b.folder,
        identical: equal(print(a), print(b)),
        facts,
        differences,
        cells,
        conditions: Vec::new(),
    }
}

/// True if both fingerprints are equal; `None` unless there are two.
fn equal(a: Option<&String>, b: Option<&String>) -> Option<bool> {
    Some(a? == b?)
}

fn cell(id: &str, a: &Run<'_>, b: &Run<'_>) -> CellComparison {
    let (in_a, in_b) = (a.cell(id), b.cell(id));
    let mut compared = CellComparison {
        id: id.to_owned(),
        a_valid: in_a.map(|cell| cell.valid),
        b_valid: in_b.map(|cell| cell.valid),
        a_not_available: in_a.and_then(|cell| cell.not_available.clone()),
        b_not_available: in_b.and_then(|cell| cell.not_available.clone()),
        ..CellComparison::default()
    };
    let (Some(in_a), Some(in_b)) = (in_a, in_b) else { return compared };
    compared.identical = equal(in_a.fingerprint.as_ref(), in_b.fingerprint.as_ref());
    if compared.identical == Some(true) {
        return compared;
    }
    for (name, of_a) in &in_a.streams {
        let Some(of_b) = in_b.streams.get(name) else { continue };
        let judged = in_a.valid && in_b.valid;
        let pairs = compared.identical.map(|_| phases::pairs(name, [(a.phases, in_a), (b.phases, in_b)]));
        compared.pairs = compared.pairs.max(pairs.as_ref().map_or(0, |pairs| pairs.len() as u32));
        compared.streams.insert(name.clone(), phases::stream(name, [of_a, of_b], pairs.as_deref(), judged));
    }
    compared
}
