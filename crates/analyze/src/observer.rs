// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the run's own stamps add to its figures, said once for each path and port.

use crate::says;
use tardy_model::trial::{ObserverRecord, TrialRecord};
use tardy_model::verdict::{Level, Verdict};

pub const ID: &str = "observer";

/// What the short trials before this trial found; nothing where there were none.
pub fn judge(record: &TrialRecord) -> Option<Verdict> {
    let is_none = |record: &&ObserverRecord| (record.low_ns, record.high_ns) == (0, 0);
    let is_open = |record: &&ObserverRecord| record.low_ns <= 0 && record.high_ns >= 0 && !is_none(record);
    let of = |record: &ObserverRecord| {
        let interval = [record.low_ns, record.high_ns];
        // A sender that fetches stamps sleeps twice in a cycle, and may wake earlier for it.
        let takes = record.high_ns < 0;
        let (word, [low, high]) = if takes { ("off", [-interval[1], -interval[0]]) } else { ("to", interval) };
        let [by, low, high] = says::times([record.added_ns.abs(), low, high]);
        (takes, format!("{by} {word} {} of {} ({low} to {high})", record.metric, record.stream))
    };
    let seen: Vec<(bool, String)> =
        record.observer.iter().filter(|record| !is_open(record) && !is_none(record)).map(of).collect();
    let all = |verb: &str, takes: bool| {
        let all: Vec<&str> = seen.iter().filter(|seen| seen.0 == takes).map(|(_, says)| says.as_str()).collect();
        (!all.is_empty()).then(|| format!("{verb} {}", says::list(&all)))
    };
    let seen: Vec<String> = [all("add", false), all("take", true)].into_iter().flatten().collect();
    let metrics = |of: &[&ObserverRecord]| match of {
        [one] => format!("{} of {}", one.metric, one.stream),
        several => format!("{} metrics", several.len()),
    };
    let none: Vec<&ObserverRecord> = record.observer.iter().filter(is_none).collect();
    let none = (!none.is_empty()).then(|| format!("what they add to {} is 0", metrics(&none)));
    let open: Vec<&ObserverRecord> = record.observer.iter().filter(is_open).collect();
    // What it cannot be more than, in either direction.
    let most = open.iter().map(|record| record.high_ns.max(-record.low_ns)).max();
    let unknown = most.map(|most| {
        let [most] = says::times([most]);
        format!("what they add to {} cannot be distinguished from 0 (it is at most {most} either way)", metrics(&open))
    });
    let others: Vec<String> = none.into_iter().chain(unknown).collect();
    let what = match (seen.is_empty(), others.join("; ")) {
        (true, others) if others.is_empty() => return None,
        (true, others) => others.replacen("they add", "tx stamps add", 1),
        (false, others) if others.is_empty() => format!("tx stamps {}", seen.join("; they ")),
        (false, others) => format!("tx stamps {}; {others}", seen.join("; they ")),
    };
    let says = format!("{}: {what}, by the medians of short trials with them and without", record.cell);
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
