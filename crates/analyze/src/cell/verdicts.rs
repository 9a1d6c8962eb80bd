// SPDX-License-Identifier: MIT OR Apache-2.0
//! A cell's verdicts from its trials': what spoilt it, what was left out, what is worth knowing.

use super::counts;
use crate::says;
use std::collections::BTreeMap;
use tardy_model::result::TrialResult;
use tardy_model::verdict::{Figure, Level, Verdict};

/// The trials' verdicts carried up, one for each id and weight with the numbers of its trials. If a strict `majority` of the trials counts,
/// those of the trials that do, and a warning that names the ones left out; else those of all.
pub(super) fn of_cell(trials: &[TrialResult], majority: bool) -> Vec<Verdict> {
    if trials.is_empty() {
        return vec![Verdict::new("failed", Level::Invalid, "no trial of this cell was finished").with("trials", 0i64)];
    }
    let counted = trials.iter().filter(|trial| !majority || counts(trial));
    let mut by_id: Vec<(&str, Vec<(u32, &Verdict)>)> = Vec::new();
    for trial in counted {
        for verdict in &trial.verdicts {
            // Of one id and one weight: a warning in one trial is not "alike" to what made another invalid. Nor are two things that a
            // rule tells of with other figures: threads beside each other and packets taken in, both of `shared-cpu`.
            let alike = |seen: &[(u32, &Verdict)]| {
                seen.iter()
                    .all(|(_, other)| other.level == verdict.level && other.evidence.keys().eq(verdict.evidence.keys()))
            };
            match by_id.iter_mut().find(|(id, seen)| *id == verdict.id && alike(seen)) {
                Some((_, seen)) => seen.push((trial.n, verdict)),
                None => by_id.push((&verdict.id, vec![(trial.n, verdict)])),
            }
        }
    }
    // Where no trial counts, the figures are of all.
    let left_out = if trials.iter().any(counts) { left_out(trials, majority) } else { None };
    let carried = by_id.into_iter().filter_map(|(_, seen)| carried(&seen, trials.len()));
    let mut verdicts: Vec<Verdict> = left_out.into_iter().chain(carried).collect();
    // The gravest first; those of equal weight stay in the rules' order.
    verdicts.sort_by_key(|verdict| std::cmp::Reverse(verdict.level));
    verdicts
}

/// One verdict for those of one id and weight: the first trial's speaks.
fn carried(seen: &[(u32, &Verdict)], of: usize) -> Option<Verdict> {
    let (n, first) = seen.first()?;
    let mut numbers: Vec<u32> = seen.iter().map(|(n, _)| *n).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let mut verdict = (*first).clone();
    let others: Vec<u32> = numbers.iter().copied().filter(|other| other != n).collect();
    if of > 1 {
        verdict.says = match others.as_slice() {
            [] => format!("trial {n}: {}", verdict.says),
            others => format!("trial {n}: {} (alike in {})", verdict.says, says::trials(others)),
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
    let mut causes: BTreeMap<&str, &str> = BTreeMap::new();
    for verdict in out.iter().flat_map(|trial| &trial.verdicts).filter(|verdict| verdict.level == Level::Invalid) {
        causes.entry(&verdict.id).or_insert(&verdict.says);
    }
    let be = if numbers.len() == 1 { "is" } else { "are" };
    // Where they are no minority, their verdicts stand beside this one and tell the causes.
    let why =
        if majority { format!(": {}", causes.values().copied().collect::<Vec<_>>().join("; ")) } else { String::new() };
    let says = format!("{} of {} {be} left out of the figures{why}", says::trials(&numbers), trials.len());
    let list = |ids: Vec<Figure>| Figure::List(ids);
    Some(
        Verdict::new("left-out", Level::Warning, says)
            .with("trials", list(numbers.into_iter().map(Figure::from).collect()))
            .with("of", trials.len() as u64)
            .with("causes", list(causes.keys().map(|id| Figure::from(*id)).collect())),
    )
}
