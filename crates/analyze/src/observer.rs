// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the run's own stamps add to its figures, said once for each path and port.

use crate::says;
use tardy_model::trial::{ObserverRecord, TrialRecord};
use tardy_model::verdict::{Level, Verdict};

/// The verdict's id.
pub const ID: &str = "observer";

/// What the short trials before this trial found; nothing where there were none.
pub fn judge(record: &TrialRecord) -> Option<Verdict> {
    let of = |record: &ObserverRecord| {
        let (added, low, high) = (record.added_ns, record.low_ns, record.high_ns);
        let certain = if low <= 0 && high >= 0 { ", which may be nothing" } else { "" };
        format!(
            "{} to {} of {} ({} to {}{certain})",
            says::time(added),
            record.metric,
            record.stream,
            says::time(low),
            says::time(high)
        )
    };
    let added: Vec<String> = record.observer.iter().map(of).collect();
    if added.is_empty() {
        return None;
    }
    let added = says::list(&added.iter().map(String::as_str).collect::<Vec<_>>());
    let says = format!("{}: tx stamps add {added}, by the medians of short trials with them and without", record.cell);
    let verdict = Verdict::new(ID, Level::Note, says).with("trial", u64::from(record.n));
    Some(record.observer.iter().fold(verdict, |verdict, of| {
        let name = |what: &str| format!("{}_{}_{what}", of.stream, of.metric);
        verdict
            .with(&name("packets"), u64::from(of.packets))
            .with(&name("added_ns"), of.added_ns)
            .with(&name("low_ns"), of.low_ns)
            .with(&name("high_ns"), of.high_ns)
    }))
}
