// SPDX-License-Identifier: MIT OR Apache-2.0
//! A cell's departures in words, and its traffic classes: what left inside the windows, what the
//! queue disciplines dropped.

use crate::says;
use std::collections::BTreeMap;
use tardy_model::gates::windows;
use tardy_model::qdisc::ShaperRecord;
use tardy_model::result::{ClassResult, GateResult, StreamResult};
use tardy_model::shaper::MOST_CLASSES;
use tardy_model::verdict::{Level, Verdict};

/// As large a share must be inside for the gates to count as kept, and of those that left as large
/// a share in its own window.
const KEPT: f64 = 0.995;

/// The cycles by which packets slipped, in words; `None` if none did.
fn slips(result: &GateResult) -> Option<String> {
    let in_words = |slips: &BTreeMap<i64, u64>, cycle_ns: i64, whose: &str| {
        let slipped = || slips.iter().filter(|(cycles, _)| **cycles != 0);
        let (cycles, count) = slipped().max_by_key(|(_, count)| **count)?;
        let cycle = says::count(cycles.unsigned_abs(), "cycle", "cycles");
        let way = if *cycles < 0 { "early" } else { "late" };
        let others = slipped().map(|(_, count)| count).sum::<u64>() - count;
        let others = if others > 0 { format!(", {others} by others") } else { String::new() };
        let by = cycles.saturating_mul(cycle_ns);
        Some((*count, by, format!("{cycle} of {whose} ({} each) {way}{others}", says::time(cycle_ns))))
    };
    let of_gates = result.gate_cycle_ns.and_then(|cycle_ns| in_words(&result.slips_gate_cycles, cycle_ns, "the gates"));
    let of_stream = in_words(&result.slips_stream_cycles, result.stream_cycle_ns, "the stream");
    Some(match (of_gates, of_stream) {
        (Some((count, by, gates)), Some((same, as_much, stream))) if (count, by) == (same, as_much) => {
            format!("{count} slipped by {gates}, which is {stream}")
        }
        // A slow stream may slip by whole cycles of the gates and by none of its own, or nearest
        // to one of another length.
        (Some((count, _, gates)), Some((same, _, stream))) => {
            format!("{count} slipped by {gates}; in cycles of its own {same} by {stream}")
        }
        (None, Some((count, _, cycles))) | (Some((count, _, cycles)), None) => format!("{count} slipped by {cycles}"),
        (None, None) => return None,
    })
}

/// What is to be said first where too many left elsewhere than in their own window: inside another
/// one they are not where they belong.
fn astray(stream: &str, result: &GateResult) -> Option<String> {
    let slipped = result.slipped?;
    if slipped as f64 <= (1.0 - KEPT) * result.judged as f64 {
        return None;
    }
    let share = says::share(slipped as f64 / result.judged as f64);
    let own = if result.gate_cycle_ns.is_some() { "window" } else { "cycle" };
    Some(format!(
        "{slipped} of {} packets of {stream} that left did so in another {own} than their own ({share})",
        result.judged
    ))
}

/// What is to be said of a stream of which no departure could be judged; `None` if it has no
/// packets.
fn unjudged(stream: &str, result: &GateResult) -> Option<Verdict> {
    let says = match (result.unjudged, result.not_sent) {
        (0, 0) => return None,
        (0, not_sent) => format!("departures of {stream} cannot be judged: all its {not_sent} packets are not_sent"),
        (sent, 0) => {
            format!("departures of {stream} cannot be judged: none of {sent} packets has a {} stamp", result.at)
        }
        (sent, not_sent) => format!(
            "departures of {stream} cannot be judged: none of {sent} packets that were sent has a {} stamp, and {not_sent} are not_sent",
            result.at
        ),
    };
    let verdict = Verdict::new("gates", Level::Warning, says);
    Some(verdict.with("stream", stream).with("keeper", result.keeper.as_str()).with("judged", 0u64))
}

/// What is to be said of a stream's departures; `None` if it has no packets. Shares are of the
/// packets that were sent: one that nothing is known of does not count as inside.
pub(super) fn verdict(stream: &str, result: &GateResult) -> Option<Verdict> {
    if result.judged == 0 {
        return unjudged(stream, result).map(|verdict| counts(verdict, result));
    }
    let sent = result.judged + result.unjudged;
    let share = result.inside as f64 / sent as f64;
    let astray = astray(stream, result);
    let is_astray = astray.is_some();
    let intended = sent + result.not_sent;
    let level = match share >= KEPT && !is_astray {
        true if sent as f64 >= KEPT * intended as f64 => Level::Ok,
        // The gates were kept by those that got as far; why others did not is another verdict's.
        true => Level::Note,
        false => Level::Warning,
    };
    let mut verdict = Verdict::new("gates", level, sentence(stream, result, share, astray))
        .with("stream", stream)
        .with("keeper", result.keeper.as_str())
        .with("judged", result.judged)
        .with("inside", result.inside)
        .with("inside_share", share)
        .with("early", result.early)
        .with("late", result.late)
        .with("most_early_ns", result.most_early_ns)
        .with("most_late_ns", result.most_late_ns)
        .with("release_before_ns", result.release_before_ns)
        .with("tolerance_ns", result.tolerance_ns);
    if let Some(slipped) = result.slipped {
        verdict = verdict.with("slipped", slipped);
    }
    if let Some(class) = result.class {
        verdict = verdict.with("class", u32::from(class));
    }
    Some(counts(verdict, result))
}

/// How the departures were, in words; what went `astray` comes first.
fn sentence(stream: &str, result: &GateResult, share: f64, astray: Option<String>) -> String {
    let of = format!("{} of {} packets of {stream}", result.inside, result.judged + result.unjudged);
    let class = result.class.map_or_else(String::new, |class| format!(" of class {class}"));
    let (delta, tolerance) = (says::time(result.release_before_ns), says::time(result.tolerance_ns));
    let is_astray = astray.is_some();
    let mut parts: Vec<String> = astray.into_iter().collect();
    if is_astray {
        parts.extend(slips(result));
    }
    parts.push(match result.keeper.as_str() {
        "taprio" => format!("{of} came to the driver inside the windows{class} ({})", says::share(share)),
        "etf-deadline" => format!("{of} came to the driver by their launch time ({})", says::share(share)),
        keeper => {
            let who = if keeper == "etf" { "" } else { " that taprio gave or let pass" };
            format!(
                "{of} came to the driver at the launch time{who} less etf.delta, {delta}, at most {tolerance} after that ({}): nothing \
                 behind etf holds them, so they leave early by it",
                says::share(share)
            )
        }
    });
    if result.early > 0 {
        parts.push(format!("{} too early, by up to {}", result.early, says::time(-result.most_early_ns)));
    }
    if result.late > 0 {
        parts.push(format!("{} too late, by up to {}", result.late, says::time(result.most_late_ns)));
    }
    if result.unjudged > 0 {
        parts.push(format!("{} have no {} stamp and cannot be judged", result.unjudged, result.at));
    }
    if !is_astray {
        parts.extend(slips(result));
    }
    if result.not_sent > 0 {
        parts.push(format!("{} more are not_sent and not among these", result.not_sent));
    }
    parts.join("; ")
}

/// Packets that are in no departure.
fn counts(verdict: Verdict, result: &GateResult) -> Verdict {
    verdict.with("unjudged", result.unjudged).with("not_sent", result.not_sent)
}

/// Counters of queue disciplines by class, of the trials that the cell's figures are of.
#[derive(Clone, Debug, Default)]
pub(super) struct Classes(BTreeMap<Option<u8>, ClassResult>);

impl Classes {
    fn of(&mut self, class: Option<u8>) -> &mut ClassResult {
        self.0.entry(class).or_insert_with(|| ClassResult { class, ..ClassResult::default() })
    }

    /// Adds what the queue disciplines counted in one trial.
    pub(super) fn add(&mut self, shapers: &BTreeMap<String, ShaperRecord>) {
        for schedule in shapers.values().filter_map(|shaper| shaper.schedule.as_ref()) {
            for class in 0..MOST_CLASSES {
                let windows = windows(&schedule.entries, class);
                if !windows.is_empty() {
                    self.of(Some(class)).windows = windows;
                }
            }
        }
        for qdisc in shapers.values().filter(|shaper| shaper.asked != "none").flat_map(|shaper| &shaper.qdiscs) {
            // The root's drops are nobody's but its own; what passed it is the classes'.
            if qdisc.is_sum() {
                continue;
            }
            let sum = self.of(qdisc.class);
            if !sum.qdiscs.contains(&qdisc.kind) {
                sum.qdiscs.push(qdisc.kind.clone());
            }
            sum.packets += qdisc.packets;
            sum.drops += qdisc.drops;
            sum.overlimits += qdisc.overlimits;
        }
    }

    /// With what the streams' departures were.
    pub(super) fn finish(mut self, streams: &BTreeMap<String, StreamResult>) -> Vec<ClassResult> {
        for gates in streams.values().filter_map(|stream| stream.gates.as_ref()) {
            let sum = self.of(gates.class);
            sum.judged += gates.judged;
            sum.inside += gates.inside;
            sum.early += gates.early;
            sum.late += gates.late;
        }
        self.0.into_values().collect()
    }
}
