// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which trials belong to their cell's figures, and a cell's verdicts from its trials': what spoilt
//! it, what was left out, what is worth knowing.

use crate::says;
use crate::validity::{RULES, competing_cpu, path_failed, was_measured_well};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use tardy_model::result::{CellResult, TrialResult};
use tardy_model::verdict::{Figure, Level, Verdict};

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

/// What a verdict is about. Two verdicts of one rule about two CPUs are not the same.
const SUBJECTS: [&str; 9] = ["stream", "cpu", "thread", "threads", "load", "station", "point", "metric", "device"];

/// How much of it there is, by which the worst trial of several speaks.
const MEASURES: [&str; 7] =
    ["waited_share", "others_share", "steal_share", "shortfall_share", "lost", "refused", "longest_gap_ns"];

/// The trials' verdicts carried up: one for each rule, subject and weight, with the numbers of its
/// trials; of who used a CPU, one for each CPU. If a strict `majority` of the trials counts, those
/// of the trials that do, and a warning that names the ones left out; else those of all.
pub(super) fn of_cell(trials: &[TrialResult], majority: bool) -> Vec<Verdict> {
    if trials.is_empty() {
        return vec![Verdict::new("failed", Level::Invalid, "no trial of this cell was finished").with("trials", 0i64)];
    }
    let counted = trials.iter().filter(|trial| !majority || counts(trial));
    let mut groups: Vec<Vec<(u32, &Verdict)>> = Vec::new();
    for trial in counted {
        for verdict in &trial.verdicts {
            match groups.iter_mut().find(|seen| seen.iter().all(|(_, other)| says_the_same(other, verdict))) {
                Some(seen) => seen.push((trial.n, verdict)),
                None => groups.push(vec![(trial.n, verdict)]),
            }
        }
    }
    // Where no trial counts, the figures are of all.
    let left_out = if trials.iter().any(counts) { left_out(trials, majority) } else { None };
    let carried = groups.into_iter().filter_map(|seen| carried(&seen, trials.len()));
    let mut verdicts: Vec<Verdict> = left_out.into_iter().chain(carried).collect();
    let rule = |verdict: &Verdict| RULES.iter().position(|rule| rule.id == verdict.id).map_or(-1, |at| at as i64);
    // The most severe first; those of equal weight in the rules' order, and of one rule the one
    // with the greatest measure.
    verdicts.sort_by(|a, b| (b.level, rule(a)).cmp(&(a.level, rule(b))).then_with(|| more(b, a)));
    verdicts
}

/// True if what two trials' verdicts say is the same but for its figures.
fn says_the_same(a: &Verdict, b: &Verdict) -> bool {
    if a.id != b.id {
        return false;
    }
    if a.id == competing_cpu::ID {
        return a.evidence.get("cpu") == b.evidence.get("cpu");
    }
    // A warning in one trial is not the same as what made another invalid. Nor are two findings of
    // one rule that have different figures: `shared-cpu` reports threads on one CPU as well as
    // packets that were received there.
    let about = |verdict: &Verdict| SUBJECTS.map(|subject| verdict.evidence.get(subject).cloned());
    a.level == b.level && a.evidence.keys().eq(b.evidence.keys()) && about(a) == about(b)
}

/// How much of its cause a verdict reports, by each measure; 0 for a measure that it lacks.
fn measure(verdict: &Verdict) -> [f64; MEASURES.len()] {
    MEASURES.map(|name| match verdict.evidence.get(name) {
        Some(Figure::Float(x)) => *x,
        Some(Figure::Int(n)) => *n as f64,
        _ => 0.0,
    })
}

/// The one of which there is more.
fn more(a: &Verdict, b: &Verdict) -> Ordering {
    let pairs = measure(a).into_iter().zip(measure(b));
    pairs.map(|(a, b)| a.total_cmp(&b)).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

/// One verdict for those that are the same: that of the trial in which it is most severe, and of
/// equally severe ones that with the greatest measure.
fn carried(seen: &[(u32, &Verdict)], of: usize) -> Option<Verdict> {
    let mut worst = seen.first()?;
    for other in seen {
        if other.1.level.cmp(&worst.1.level).then(more(other.1, worst.1)).is_gt() {
            worst = other;
        }
    }
    let (n, speaks) = worst;
    let mut numbers: Vec<u32> = seen.iter().map(|(n, _)| *n).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let mut verdict = (*speaks).clone();
    let others: Vec<u32> = numbers.iter().copied().filter(|other| other != n).collect();
    let is_use_of_cpu = verdict.id == competing_cpu::ID;
    if is_use_of_cpu {
        let all: Vec<&Verdict> = seen.iter().map(|(_, verdict)| *verdict).collect();
        competing_cpu::gather(&mut verdict, &all, &others);
    }
    if of > 1 {
        verdict.says = match others.as_slice() {
            others if others.is_empty() || is_use_of_cpu => format!("trial {n}: {}", verdict.says),
            others => format!("trial {n}: {} (the same in {})", verdict.says, says::trials(others)),
        };
    }
    let numbers = Figure::List(numbers.into_iter().map(Figure::from).collect());
    Some(verdict.with("trials", numbers))
}

fn left_out(trials: &[TrialResult], majority: bool) -> Option<Verdict> {
    let out: Vec<&TrialResult> = trials.iter().filter(|trial| !counts(trial)).collect();
    if out.is_empty() {
        return None;
    }
    let numbers: Vec<u32> = out.iter().map(|trial| trial.n).collect();
    let mut causes: BTreeMap<&str, &Verdict> = BTreeMap::new();
    for verdict in out.iter().flat_map(|trial| &trial.verdicts).filter(|verdict| verdict.level == Level::Invalid) {
        let worst = causes.entry(&verdict.id).or_insert(verdict);
        if more(verdict, worst).is_gt() {
            *worst = verdict;
        }
    }
    let be = if numbers.len() == 1 { "is" } else { "are" };
    // If they are no minority, their own verdicts are in the list too and name the causes.
    let why = if majority {
        format!(": {}", causes.values().map(|verdict| verdict.says.as_str()).collect::<Vec<_>>().join("; "))
    } else {
        String::new()
    };
    let says = format!("{} of {} {be} left out of the figures{why}", says::trials(&numbers), trials.len());
    let list = |ids: Vec<Figure>| Figure::List(ids);
    Some(
        Verdict::new("left-out", Level::Warning, says)
            .with("trials", list(numbers.into_iter().map(Figure::from).collect()))
            .with("of", trials.len() as u64)
            .with("causes", list(causes.keys().map(|id| Figure::from(*id)).collect())),
    )
}
