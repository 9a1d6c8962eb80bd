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
    // The farthest of a cell's streams: what it shares with others is told of them.
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
    let told: Vec<String> =
        groups.iter().map(|(at, cells)| format!("{} in {}", at.says(), says::list(cells))).collect();
    let says = format!(
        "rx_kernel is taken {}: these must not be compared by it; give all streams the same launch and port",
        told.join("; ")
    );
    let list = |cells: &[&str]| Figure::List(cells.iter().map(|id| (*id).into()).collect());
    let verdict = Verdict::new("moved-point", Level::Warning, says);
    Some(groups.iter().fold(verdict, |verdict, (at, cells)| verdict.with(&at.name().replace('-', "_"), list(cells))))
}
