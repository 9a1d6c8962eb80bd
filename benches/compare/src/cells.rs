// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a run takes in addition to its packets: building and taking down a cell, and the way from
//! the command to the first packet.

use crate::row::{Better, Bound, Pair, Raw, Row};
use crate::{Bench, samples};
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since the epoch of a time of `events.jsonl`.
fn at_ms(event: &Value) -> Result<f64> {
    let text = event.get("at_utc").and_then(Value::as_str).context("an event without a time")?;
    // Only differences within one run are taken, so the day matters and the month does not.
    let field = |from: usize, to: usize| text.get(from..to).and_then(|digits| digits.parse::<f64>().ok());
    let (day, hour, minute, second) = (field(8, 10), field(11, 13), field(14, 16), field(17, 23));
    let of = |part: Option<f64>| part.with_context(|| format!("`{text}` is no time"));
    Ok((((of(day)? * 24.0 + of(hour)?) * 60.0 + of(minute)?) * 60.0 + of(second)?) * 1e3)
}

/// Set-up and tear-down of each cell, ms: from its first command to `built`, and from its last
/// trial, or the ruler behind it, to `torn_down`. The peer's figure is the part of it that its
/// commands took: they are `ip` and `tc`, and as slow as the machine is today.
fn costs(events: &[Value]) -> Result<Vec<Pair>> {
    let (mut began, mut built, mut trials, mut commands) = (None, None, None, 0.0);
    let mut costs = Vec::new();
    for event in events {
        let at = at_ms(event)?;
        match event.get("event").and_then(Value::as_str).unwrap_or_default() {
            // Told when it is over.
            "commands" => {
                let took = took_ms(event);
                began.get_or_insert(at - took);
                commands += took;
            }
            "built" => built = Some(at),
            // After the last trial the ruler measures once more, which is neither set-up nor
            // tear-down.
            "trial_kept" | "ruler" => trials = Some(at),
            "torn_down" => {
                if let (Some(began), Some(built), Some(trials)) = (began.take(), built.take(), trials.take()) {
                    costs.push((built - began + at - trials, Some(commands)));
                    commands = 0.0;
                }
            }
            _ => {}
        }
    }
    Ok(costs)
}

/// What lies before the first trial and takes as long as it takes, ms: the commands that build its
/// cell, and the ruler.
fn needed(events: &[Value]) -> Result<f64> {
    let (mut needed, mut built) = (0.0, None);
    for event in events {
        match event.get("event").and_then(Value::as_str).unwrap_or_default() {
            "commands" => needed += took_ms(event),
            "built" => built = Some(at_ms(event)?),
            "ruler" => return Ok(needed + at_ms(event)? - built.context("a ruler before its cell")?),
            _ => {}
        }
    }
    bail!("no ruler before the first trial")
}

fn took_ms(event: &Value) -> f64 {
    event.get("took_ns").and_then(Value::as_f64).unwrap_or(0.0) / 1e6
}

fn epoch_ns(time: SystemTime) -> Result<f64> {
    Ok(time.duration_since(UNIX_EPOCH)?.as_nanos() as f64)
}

/// Four cells a run; their worst counts.
pub fn measure(bench: &Bench, raw: &Raw) -> Result<Vec<Row>> {
    let (mut worst, mut start, mut command) = (Vec::new(), Vec::new(), String::new());
    for pair in 0..bench.pairs {
        let began = epoch_ns(SystemTime::now())?;
        let run = samples::run(bench, "cells.toml", &[])?;
        let events = run.events()?;
        raw.keep(pair, "events", &events.iter().map(|event| format!("{event}\n")).collect::<String>())?;
        let costs = costs(&events)?;
        worst.push(costs.into_iter().max_by(|a, b| a.0.total_cmp(&b.0)).context("no cell was built")?);
        let folder = run.open()?;
        let records: Result<Vec<_>, _> = folder.trials()?.iter().map(|id| folder.record(&id.cell, id.n)).collect();
        let records = records?;
        let first = records.iter().min_by_key(|record| record.order).context("no trial")?;
        let clocks = first.before.clocks;
        let tai_ahead_ns = clocks.tai_ns - clocks.realtime_ns;
        start.push((((first.base_tai_ns - tai_ahead_ns) as f64 - began) / 1e6, Some(needed(&events)?)));
        command = run.command;
    }
    let row = |what: &str, peer: &str, pairs, most| Row {
        peer: peer.to_owned(),
        command: command.clone(),
        pairs,
        bound: Bound::AtMost(most),
        ..Row::new(what, "ms", Better::Lower)
    };
    Ok(vec![
        row("a cell's set-up and tear-down, the worst of four", "its ip and tc commands", worst, 150.0),
        row("from the command to the first packet of the first trial", "ip, tc and the ruler", start, 1_000.0),
    ])
}
