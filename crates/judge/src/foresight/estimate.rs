// SPDX-License-Identifier: MIT OR Apache-2.0
//! About how long a run takes, and what it leaves on disk.

use tardy_model::stream::Stream;
use tardy_spec::experiment::{Experiment, Setup};

/// Around a trial: its set-up, the warm-up, the time before the first packet and behind the last,
/// collecting and judging, s.
const AROUND_S: f64 = 0.3;
/// Around a run: the ruler before and after, s.
const RUN_S: f64 = 1.0;
/// A round trip of a ping-pong, of which nobody knows before, s.
const ROUND_TRIP_S: f64 = 50e-6;
/// A row of six stages in `samples.parquet`: docs/performance.md, bytes.
const ROW_BYTES: f64 = 8.7;
/// The other files of a trial: its evidence and its histograms, bytes.
const TRIAL_BYTES: f64 = 60e3;
/// The page and the results, bytes.
const RUN_BYTES: f64 = 500e3;

/// One line: how long, how much, and what that assumes. `in_guest`: it is run in one.
pub fn estimate(experiment: &Experiment, in_guest: bool) -> String {
    let trials = f64::from(experiment.trials);
    let of_cells = || experiment.cells.iter().map(|cell| trial_s(&cell.setup));
    let seconds = RUN_S + trials * of_cells().map(|s| s.map_or(0.0, |s| s + AROUND_S)).sum::<f64>();
    let packets = |setup: &Setup| setup.streams.iter().map(|stream| f64::from(stream.count)).sum::<f64>();
    let rows: f64 = trials * experiment.cells.iter().map(|cell| packets(&cell.setup)).sum::<f64>();
    let cells = experiment.cells.len();
    let bytes = RUN_BYTES + trials * cells as f64 * TRIAL_BYTES + rows * ROW_BYTES;
    let spans: Vec<f64> = of_cells().flatten().collect();
    let (least, most) =
        (spans.iter().copied().fold(f64::INFINITY, f64::min), spans.iter().copied().fold(0.0, f64::max));
    let each = match spans.is_empty() {
        true => "simulated".to_owned(),
        false if least == most => format!("of {}", time(most)),
        false => format!("of {} to {}", time(least), time(most)),
    };
    let is_assumed = |stream: &Stream| !stream.kind.is_scheduled();
    let pingpong = experiment.cells.iter().any(|cell| cell.setup.streams.iter().any(is_assumed));
    let mut assumes = match spans.is_empty() {
        true => "time on port sim is not the clock's".to_owned(),
        false => format!("{} around each", time(AROUND_S)),
    };
    if pingpong && !spans.is_empty() {
        assumes += ", 50 µs a round trip";
    }
    if in_guest {
        assumes += ", by the guest's own clock";
    }
    let (cell, trial) =
        (if cells == 1 { "cell" } else { "cells" }, if experiment.trials == 1 { "trial" } else { "trials" });
    let took = if spans.is_empty() { "seconds".to_owned() } else { time(seconds) };
    format!(
        "estimate: about {took} and {} on disk: {cells} {cell} × {} {trial} {each}, {assumes}, {ROW_BYTES} bytes a packet",
        size(bytes),
        experiment.trials
    )
}

/// How long a trial of the cell takes from its first packet to its last, with loads that begin
/// before; `None` where time is simulated.
fn trial_s(setup: &Setup) -> Option<f64> {
    if setup.is_simulated() {
        return None;
    }
    let stream_s = |stream: &Stream| match stream.kind.is_scheduled() {
        true => f64::from(stream.count) * stream.cycle.0 as f64 / 1e9,
        false => f64::from(stream.count) * ROUND_TRIP_S / f64::from(stream.reply.in_flight.max(1)),
    };
    let lead_s = setup.loads.iter().map(|load| -load.start.0 as f64 / 1e9).fold(0.0, f64::max);
    Some(lead_s + setup.streams.iter().map(stream_s).fold(0.0, f64::max))
}

/// A time to two digits, in what people say.
fn time(seconds: f64) -> String {
    match seconds {
        s if s < 0.01 => format!("{:.1} ms", s * 1e3),
        s if s < 10.0 => format!("{} s", two(s)),
        s if s < 120.0 => format!("{s:.0} s"),
        s if s < 7_200.0 => format!("{:.0} min", s / 60.0),
        s if s < 172_800.0 => format!("{} h", two(s / 3_600.0)),
        s => format!("{:.0} days", s / 86_400.0),
    }
}

fn size(bytes: f64) -> String {
    match bytes {
        b if b < 1e9 => format!("{} MB", two(b / 1e6)),
        b => format!("{} GB", two(b / 1e9)),
    }
}

/// One decimal, where it says something.
fn two(number: f64) -> String {
    if number >= 10.0 || number.fract() < 0.05 { format!("{number:.0}") } else { format!("{number:.1}") }
}
