// SPDX-License-Identifier: MIT OR Apache-2.0
//! The whole run from its cells.

use crate::cell::{CellAnswer, most_were_measured_well};
use crate::copying;
use crate::says;
use crate::validity::was_measured_well;
use tardy_model::FORMAT;
use tardy_model::qdisc::RxKernelAt;
use tardy_model::result::{CellResult, Results};
use tardy_model::validity::Validity;
use tardy_model::verdict::{Figure, Level, Verdict};

/// What a run comes to, by which its exit code is chosen; the later, the harsher.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// Valid, and no expectation was broken.
    Good,
    /// Not valid, or an expectation could not be judged.
    Unknown,
    /// An expectation was broken.
    Unmet,
}

/// Combines cells, in the experiment's order. The run is valid if there are cells and each is;
/// those that are not available have no say, unless none is. `verdicts` are those of the whole
/// run.
pub fn run(name: &str, cells: impl IntoIterator<Item = CellAnswer>, verdicts: Vec<Verdict>) -> Results {
    let (mut results, mut expectations) = (Vec::new(), Vec::new());
    for cell in cells {
        results.push(cell.result);
        expectations.extend(cell.expectations);
    }
    let mut verdicts = verdicts;
    verdicts.extend(moved_points(&results));
    verdicts.extend(copying::cliffs(&results));
    let mut results = Results {
        format: FORMAT,
        name: name.to_owned(),
        valid: is_valid(&results, &verdicts),
        expectations_met: None,
        expectations,
        fingerprint: None,
        validity: Validity::default(),
        cells: results,
        verdicts,
    };
    judge_expectations(&mut results);
    results
}

/// True if a run with these cells and these verdicts of its own may be used.
pub fn is_valid(cells: &[CellResult], verdicts: &[Verdict]) -> bool {
    let mut available = cells.iter().filter(|cell| cell.not_available.is_none()).peekable();
    available.peek().is_some() && available.all(|cell| cell.valid) && crate::validity::is_valid(verdicts)
}

/// Takes the judgement from limits whose figures must not be used, and says whether the
/// expectations were met. What became of the packets needs no validity. Every other limit needs
/// that of its cell, and that nothing spoilt the whole run; but where the measuring was sound and
/// only the path failed, a limit that is broken stays so, or losing more packets would excuse it.
/// Where it was sound in most trials only, the limits were judged by those.
pub fn judge_expectations(results: &mut Results) {
    let run_is_valid = crate::validity::is_valid(&results.verdicts);
    // What is expected of a cell that is not available is neither met nor broken.
    let unavailable = |id: &str| results.cells.iter().any(|cell| cell.id == id && cell.not_available.is_some());
    for expectation in results.expectations.iter_mut().filter(|expectation| unavailable(&expectation.cell)) {
        (expectation.met, expectation.why) = (None, Some("the cell is not available".to_owned()));
    }
    for expectation in results.expectations.iter_mut().filter(|expectation| !expectation.needs_no_validity()) {
        let stands =
            |cell: &CellResult| cell.valid || (expectation.met == Some(false) && limits_are_of_the_well_measured(cell));
        let of_cell = || results.cells.iter().filter(|cell| cell.id == expectation.cell);
        if !(run_is_valid && of_cell().next().is_some() && of_cell().all(stands)) {
            expectation.met = None;
            expectation.why.get_or_insert_with(|| "the figures are not valid".to_owned());
        }
    }
    let judged = results.expectations.iter().filter(|expectation| !unavailable(&expectation.cell));
    let all: Vec<Option<bool>> = judged.map(|expectation| expectation.met).collect();
    results.expectations_met = match () {
        () if all.contains(&Some(false)) => Some(false),
        () if all.is_empty() || all.contains(&None) => None,
        () => Some(true),
    };
}

/// True if the measuring was sound where the cell's limits were judged.
fn limits_are_of_the_well_measured(cell: &CellResult) -> bool {
    let of_trials = |verdict: &Verdict| verdict.evidence.contains_key("trials");
    let of_cell = cell.verdicts.iter().filter(|verdict| !of_trials(verdict));
    was_measured_well(&cell.verdicts)
        || (most_were_measured_well(&cell.trials)
            && of_cell.into_iter().all(|verdict| was_measured_well(std::slice::from_ref(verdict))))
}

/// What the run comes to. A broken expectation outweighs that others could not be judged.
pub fn outcome(results: &Results) -> Outcome {
    match results.expectations_met {
        Some(false) => Outcome::Unmet,
        _ if !results.valid => Outcome::Unknown,
        None if !results.expectations.is_empty() => Outcome::Unknown,
        None | Some(true) => Outcome::Good,
    }
}

/// Cells whose `rx_kernel` is not taken at one point must not be compared by it.
fn moved_points(cells: &[CellResult]) -> Option<Verdict> {
    // Of a cell's streams the one whose point is farthest on the way. A cause that it shares with
    // other streams is reported for them.
    let taken = |cell: &CellResult| {
        let is =
            |at: &RxKernelAt| cell.streams.values().any(|stream| stream.rx_kernel_at.as_deref() == Some(at.name()));
        [RxKernelAt::LocalDelivery, RxKernelAt::PacketSocket].into_iter().find(is).unwrap_or(RxKernelAt::Arrival)
    };
    let points = [RxKernelAt::LocalDelivery, RxKernelAt::PacketSocket, RxKernelAt::Arrival];
    let groups: Vec<(RxKernelAt, Vec<&str>)> = points
        .into_iter()
        .map(|at| {
            let there = cells.iter().filter(|cell| !cell.trials.is_empty() && taken(cell) == at);
            (at, there.map(|cell| cell.id.as_str()).collect())
        })
        .filter(|(_, cells): &(_, Vec<&str>)| !cells.is_empty())
        .collect();
    if groups.len() < 2 {
        return None;
    }
    let places: Vec<String> =
        groups.iter().map(|(at, cells)| format!("{} in {}", at.says(), says::list(cells))).collect();
    // With launch times everywhere, and sockets of one kind, it is the path that decides.
    let ran = || cells.iter().filter(|cell| !cell.trials.is_empty()).flat_map(|cell| cell.streams.values());
    let by_path = ran().all(|stream| stream.rx_kernel_at.is_some())
        && groups.iter().all(|(at, _)| *at != RxKernelAt::PacketSocket);
    let advice = match by_path {
        true => "it follows from the path, so compare metrics without it, such as scheduled..receive",
        false => "give all streams the same launch and port",
    };
    let says = format!("rx_kernel is taken {}: these must not be compared by it; {advice}", places.join("; "));
    let list = |cells: &[&str]| Figure::List(cells.iter().map(|id| (*id).into()).collect());
    let verdict = Verdict::new("moved-point", Level::Warning, says);
    Some(groups.iter().fold(verdict, |verdict, (at, cells)| verdict.with(&at.name().replace('-', "_"), list(cells))))
}
