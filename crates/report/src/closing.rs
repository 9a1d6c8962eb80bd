// SPDX-License-Identifier: MIT OR Apache-2.0
//! The line that one reads first: whether the figures may be used, whether the run was cut short,
//! and whether the limits were kept. Every picture and JUnit share it.

use crate::column::title;
use crate::picture::Picture;
use crate::summary::limited;
use std::collections::BTreeSet;
use tardy_model::result::{CellResult, ExpectationResult, Results};
use tardy_model::verdict::Level;

/// Limits, and cells, that are named in a line.
const NAMED: usize = 2;

/// Whether the numbers may be used, or that there are none.
pub(crate) fn state(results: &Results) -> &'static str {
    match results.valid {
        true => "VALID",
        false if is_unmeasured(results) => "NOT MEASURED",
        false => "NOT VALID",
    }
}

/// No cell has a trial: the machine refused all of them.
fn is_unmeasured(results: &Results) -> bool {
    !results.cells.is_empty() && results.cells.iter().all(|cell| cell.trials.is_empty())
}

/// What follows the word `VALID` or `NOT VALID`.
pub(crate) fn says(picture: &Picture<'_>) -> String {
    let expectations = expectations(picture.results);
    cut(picture).map_or_else(|| expectations.clone(), |cut| format!("({cut}) {expectations}"))
}

/// How much there is of a run that did not come to its end, and why: `1 of 5 trials; the run was
/// killed`. What was measured may be used, but nobody may take it for the whole.
pub(crate) fn cut(picture: &Picture<'_>) -> Option<String> {
    let results = picture.results;
    let ended = |id: &str| results.verdicts.iter().any(|verdict| verdict.id == id);
    let how = match () {
        () if ended("killed") => "was killed",
        () if ended("interrupted") => "was interrupted",
        () if ended("failed") => "failed",
        () => return None,
    };
    let done: usize = results.cells.iter().map(|cell| cell.trials.len()).sum();
    // A cell that the machine cannot run was not cut.
    let asked = picture.manifest.cells.iter().filter(|entry| entry.refused.is_none());
    let asked = asked.map(|entry| entry.trials as usize).sum::<usize>().max(done);
    Some(format!("{done} of {asked} {}; the run {how}", if asked == 1 { "trial" } else { "trials" }))
}

/// Whether they kept the user's limits.
fn expectations(results: &Results) -> String {
    let all = results.expectations.len();
    let of = |met: Option<bool>| results.expectations.iter().filter(move |e| e.met == met);
    let (met, failed, open) = (of(Some(true)).count(), of(Some(false)).count(), of(None).count());
    let not_judged = if open == 0 { String::new() } else { format!(", {open} not judged") };
    let which = if results.valid { String::new() } else { which(of(Some(true))) };
    let says = match results.expectations_met {
        _ if all == 0 && results.valid => "no expectations".to_owned(),
        _ if is_unmeasured(results) => return "there are no figures".to_owned(),
        _ if all == 0 => return format!("{}{}", unusable(results), not_available(results)),
        // The others are of cells that this machine cannot run.
        Some(true) if results.valid && open > 0 => {
            format!("expectations met ({met} of {met}, {open} not judged)")
        }
        Some(true) => format!("expectations met ({met} of {all}{which})"),
        Some(false) => format!("expectations not met ({failed} of {all} failed{not_judged})"),
        None if met == 0 => "expectations not judged".to_owned(),
        None => format!("expectations not judged ({open} of {all}, {met} met{which})"),
    };
    let says = format!("{says}{}", not_available(results));
    if results.valid { format!("{says}{}", unrepeated(results)) } else { format!("{}; {says}", unusable(results)) }
}

/// How many cells have trials that differ by more than chance: their figures are valid, but the
/// next run will have others.
fn unrepeated(results: &Results) -> String {
    let differs = |cell: &&CellResult| cell.verdicts.iter().any(|v| v.id == "repeats" && v.level > Level::Note);
    let measured = results.cells.iter().filter(|cell| cell.not_available.is_none());
    match (measured.clone().filter(differs).count(), measured.count()) {
        (0, _) => String::new(),
        (_, 1) => "; its trials do not repeat".to_owned(),
        (1, all) => format!("; 1 of {all} cells does not repeat"),
        (some, all) => format!("; {some} of {all} cells do not repeat"),
    }
}

/// How many cells the machine could not run, of an experiment that goes on without them.
fn not_available(results: &Results) -> String {
    let all = results.cells.len();
    match results.cells.iter().filter(|cell| cell.not_available.is_some()).count() {
        0 => String::new(),
        missing => format!("; {missing} of {all} cells not available"),
    }
}

/// Which figures of a run that is not valid must not be used: those of some cells, if the others
/// are valid and nothing spoilt the whole run.
fn unusable(results: &Results) -> String {
    let is_spoilt = results.verdicts.iter().any(|verdict| verdict.level == Level::Invalid);
    let bad = results.cells.iter().filter(|cell| !cell.valid && cell.not_available.is_none());
    let bad: BTreeSet<&str> = bad.map(|cell| cell.id.as_str()).collect();
    let some_are_valid = results.cells.iter().any(|cell| cell.valid);
    if is_spoilt || bad.is_empty() || !some_are_valid {
        return "do not use these figures".to_owned();
    }
    format!("do not use the figures of {} (the others may be used)", titles(results, &bad))
}

/// These cells, in the experiment's order.
fn titles(results: &Results, cells: &BTreeSet<&str>) -> String {
    named(results.cells.iter().filter(|cell| cells.contains(cell.id.as_str())).map(|cell| title(&cell.id)), "; ")
}

/// Which limits were kept by a run that is not valid: those on what became of the packets, and
/// those of cells that are valid.
fn which<'a>(met: impl Iterator<Item = &'a ExpectationResult> + Clone) -> String {
    let counts = if met.clone().all(ExpectationResult::needs_no_validity) { ", counts only" } else { "" };
    format!("{counts}: {}", names(met))
}

/// Which limits stay open because the figures that they are of are not valid; `None` if there are
/// none. What else was not judged has a reason of its own: [`crate::summary::not_judged`].
pub(crate) fn open(results: &Results) -> Option<String> {
    let is_of = |cell: &&CellResult| !cell.valid && !cell.trials.is_empty() && cell.not_available.is_none();
    let cells: BTreeSet<&str> = results.cells.iter().filter(is_of).map(|cell| cell.id.as_str()).collect();
    let waits = |e: &&ExpectationResult| e.met.is_none() && !e.needs_no_validity() && cells.contains(e.cell.as_str());
    let open = || results.expectations.iter().filter(waits);
    let of_cells: BTreeSet<&str> = open().map(|e| e.cell.as_str()).collect();
    let open = names(open());
    (!open.is_empty()).then(|| format!("{}: {open}: the figures are not valid", titles(results, &of_cells)))
}

/// What they limit, each once.
fn names<'a>(limits: impl Iterator<Item = &'a ExpectationResult>) -> String {
    named(limits.map(limited), ", ")
}

/// The first of these, each once, and how many more there are.
fn named(all: impl Iterator<Item = String>, separator: &str) -> String {
    let mut names: Vec<String> = Vec::new();
    for name in all {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let more = match names.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    names.truncate(NAMED);
    format!("{}{more}", names.join(separator))
}
