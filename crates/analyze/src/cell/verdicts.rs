// SPDX-License-Identifier: MIT OR Apache-2.0
//! A cell's verdicts from its trials': what spoilt it, what was left out, what is worth knowing.

use super::counts;
use crate::says;
use std::collections::BTreeMap;
use tardy_model::result::TrialResult;
use tardy_model::verdict::{Figure, Level, Verdict};

/// The trials' verdicts carried up, one for each id with the numbers of its trials. If a strict `majority` of the trials counts,
/// those of the trials that do, and a warning that names the ones left out; else those of all.
pub(super) fn of_cell(trials: &[TrialResult], majority: bool) -> Vec<Verdict> {
    if trials.is_empty() {
        return vec![Verdict::new("failed", Level::Invalid, "no trial of this cell was finished").with("trials", 0i64)];
    }
    let counted = trials.iter().filter(|trial| !majority || counts(trial));
    let mut by_id: Vec<(&str, Vec<(u32, &Verdict)>)> = Vec::new();
    for trial in counted {
        for verdict in &trial.verdicts {
            match by_id.iter_mut().find(|(id, _)| *id == verdict.id) {
                Some((_, seen)) => seen.push((trial.n, verdict)),
                None => by_id.push((&verdict.id, vec![(trial.n, verdict)])),
            }
        }
    }
    let left_out = if majority { left_out(trials) } else { None };
    let carried = by_id.into_iter().filter_map(|(_, seen)| carried(&seen, trials.len()));
    let mut verdicts: Vec<Verdict> = left_out.into_iter().chain(carried).collect();
    // The gravest first; those of equal weight stay in the rules' order.
    verdicts.sort_by_key(|verdict| std::cmp::Reverse(verdict.level));
    verdicts
}

/// One verdict for those of one id: the gravest speaks.
fn carried(seen: &[(u32, &Verdict)], of: usize) -> Option<Verdict> {
    // Of equals, the first trial's.
    let (n, gravest) = seen.iter().rev().max_by_key(|(_, verdict)| verdict.level)?;
    let mut numbers: Vec<u32> = seen.iter().map(|(n, _)| *n).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let mut verdict = (*gravest).clone();
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

fn left_out(trials: &[TrialResult]) -> Option<Verdict> {
    let out: Vec<&TrialResult> = trials.iter().filter(|trial| !counts(trial)).collect();
    if out.is_empty() {
        return None;
    }
    let numbers: Vec<u32> = out.iter().map(|trial| trial.n).collect();
    let mut causes: BTreeMap<&str, &str> = BTreeMap::new();
    for verdict in out.iter().flat_map(|trial| &trial.verdicts).filter(|verdict| verdict.level == Level::Invalid) {
        causes.entry(&verdict.id).or_insert(&verdict.says);
    }
    let says = format!(
        "{} of {} {} left out: {}",
        says::trials(&numbers),
        trials.len(),
        if numbers.len() == 1 { "is" } else { "are" },
        causes.values().copied().collect::<Vec<_>>().join("; ")
    );
    let list = |ids: Vec<Figure>| Figure::List(ids);
    Some(
        Verdict::new("left-out", Level::Warning, says)
            .with("trials", list(numbers.into_iter().map(Figure::from).collect()))
            .with("of", trials.len() as u64)
            .with("causes", list(causes.keys().map(|id| Figure::from(*id)).collect())),
    )
}
