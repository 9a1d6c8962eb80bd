// SPDX-License-Identifier: MIT OR Apache-2.0
//! The sender's timer against cyclictest's: the same cycle, policy and CPU, and the same rule for
//! cycles that were missed.

use crate::row::{Better, Bound, Raw, Row};
use crate::{Bench, child, samples};
use anyhow::{Context, Result, bail};
use std::process::Command;
use std::time::Duration;
use tardy_model::point::Point;

/// Cycles of one measurement: 5 s.
const CYCLES: usize = 10_000;
const CYCLE_NS: i64 = 500_000;
/// cyclictest's histogram ends here, at its greatest possible size with one bucket a nanosecond.
const HISTOGRAM_NS: usize = 1_000_000;

/// Nearest rank of the quantile `q`, from 1.
fn rank(q: f64, count: usize) -> usize {
    ((q * count as f64).ceil() as usize).clamp(1, count.max(1))
}

/// The lateness of the cycles that cyclictest would have counted: after each wake-up it leaves out
/// the cycles that are in the past by then, where tardy records a wake-up for each of them.
fn counted(due_and_woke: impl Iterator<Item = (i64, i64)>) -> Vec<i64> {
    let mut free = i64::MIN;
    let mut late = Vec::new();
    for (due, woke) in due_and_woke {
        if due >= free {
            late.push(woke - due);
            free = woke;
        }
    }
    late.sort_unstable();
    late
}

fn ours(run: &samples::Run) -> Result<Vec<i64>> {
    let mut rows = Vec::new();
    for batch in run.open()?.batches("all", 1, "ctl")? {
        let batch = batch?;
        rows.extend(
            (0..batch.len()).filter_map(|row| Some((batch.scheduled_ns[row], batch.stamp_ns(row, Point::Wakeup)?))),
        );
    }
    Ok(counted(rows.into_iter()))
}

/// Buckets in use, and how many values lie beyond them.
fn histogram(text: &str) -> Result<(Vec<(i64, usize)>, usize)> {
    let mut buckets = Vec::new();
    let mut beyond = None;
    for line in text.lines() {
        if let Some(count) = line.strip_prefix("# Histogram Overflows:") {
            beyond = Some(count.trim().parse()?);
        } else if let Some((ns, count)) = line.split_once(' ')
            && let (Ok(ns), Ok(count)) = (ns.parse(), count.trim().parse::<usize>())
            && count > 0
        {
            buckets.push((ns, count));
        }
    }
    Ok((buckets, beyond.context("cyclictest printed no `Histogram Overflows`")?))
}

/// `None` where the rank lies beyond the histogram.
fn at_rank(buckets: &[(i64, usize)], beyond: usize, q: f64) -> Option<f64> {
    let count = buckets.iter().map(|(_, count)| count).sum::<usize>() + beyond;
    let (rank, mut seen) = (rank(q, count), 0);
    buckets.iter().find_map(|(ns, count)| {
        seen += count;
        (seen >= rank).then_some(*ns as f64)
    })
}

/// Value, ns, and how often it was seen.
type Buckets = Vec<(i64, usize)>;

/// One run of cyclictest.
fn cyclictest(args: &str) -> Result<(child::Ended, Buckets, usize)> {
    let ended = child::run(Command::new("cyclictest").args(args.split(' ')), &[0], Duration::from_secs(120))?;
    let (buckets, beyond) = histogram(&ended.stdout)?;
    Ok((ended, buckets, beyond))
}

/// Twice as many pairs as other comparisons: a timer's tail differs most from one time to the next.
pub fn measure(bench: &Bench, raw: &Raw) -> Result<Vec<Row>> {
    let cpu = 0;
    let peer_args = format!(
        "-q -N -h {HISTOGRAM_NS} -l {CYCLES} -i {} -p 90 -a {cpu} -t 1 -m --policy fifo --default-system",
        CYCLE_NS / 1_000
    );
    let mut pairs = [(0.5, Vec::new()), (0.99, Vec::new())];
    let mut command = String::new();
    for pair in 0..bench.pairs * 2 {
        let (mut mine, mut theirs) = (Vec::new(), None);
        // Who goes first changes, so that a drift of the machine favours nobody.
        for turn in 0..2 {
            if (pair + turn) % 2 == 0 {
                let run = samples::run(bench, "timer.toml", &[])?;
                mine = ours(&run)?;
                let lines: String = mine.iter().map(|ns| format!("{ns}\n")).collect();
                raw.keep(pair, "tardy", &lines)?;
                command = run.command;
            } else {
                let (ended, buckets, beyond) = cyclictest(&peer_args)?;
                let told = |line: &&str| line.starts_with('#') || !line.ends_with(" 000000");
                let kept: String = ended.stdout.lines().filter(told).map(|line| format!("{line}\n")).collect();
                raw.keep(pair, "cyclictest", &kept)?;
                theirs = Some((buckets, beyond));
            }
        }
        let Some((buckets, beyond)) = theirs else { bail!("no measurement of cyclictest") };
        if mine.is_empty() {
            bail!("the run has no wake-up");
        }
        for (q, pairs) in &mut pairs {
            let mine = mine[rank(*q, mine.len()) - 1] as f64;
            // Where it lies beyond the histogram it is more than this, which only makes the ratio
            // worse for us.
            let peer = at_rank(&buckets, beyond, *q).unwrap_or(HISTOGRAM_NS as f64);
            pairs.push((mine / 1e3, Some(peer / 1e3)));
        }
    }
    let [p50, p99] = pairs;
    let row = |what: &str, pairs, bound| Row {
        peer: "cyclictest".to_owned(),
        command: command.clone(),
        peer_command: format!("cyclictest {peer_args}"),
        pairs,
        bound,
        ..Row::new(what, "µs", Better::Lower)
    };
    Ok(vec![
        row("timer: scheduled..wakeup, p50", p50.1, Bound::RatioAtMost(1.1)),
        row("timer: scheduled..wakeup, p99", p99.1, Bound::RatioAtMost(1.3)),
    ])
}
