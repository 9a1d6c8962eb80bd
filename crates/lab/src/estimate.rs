// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a run will take, before anything is touched: its time, its place on the disk and, of
//! copies, its memory. Pure.

use crate::copying::all_bytes;
use tardy_engine::copy::region_bytes;
use tardy_model::copy::{CopyBackend, Copying, Sizes};
use tardy_model::point::Point;
use tardy_model::stream::Stream;
use tardy_spec::experiment::{Experiment, Setup};

/// Around a trial: its set-up, the warm-up, the time before the first packet and behind the last,
/// collecting and judging, s.
const AROUND_S: f64 = 0.3;
/// Around a run: the ruler before and after, s.
const RUN_S: f64 = 1.0;
/// A round trip of a ping-pong, of which nobody knows before, s.
const ROUND_TRIP_S: f64 = 50e-6;
/// What is noted of the pauses of a ping-pong for each request, bytes.
const PAUSES_BYTES: f64 = 13.0;
/// Both ends note this number of pauses at most, each after two requests.
const MOST_PAUSES: u32 = 1 << 19;
/// With more in flight there are hardly any pauses.
const FEW_IN_FLIGHT: u32 = 4;
/// A row of six stages in `samples.parquet`: docs/performance.md, bytes.
const ROW_BYTES: f64 = 8.7;
/// The other files of a trial: its evidence and its histograms, bytes.
const TRIAL_BYTES: f64 = 60e3;
/// The page and the results, bytes.
const RUN_BYTES: f64 = 500e3;

/// One line: how long, how much, and what that assumes. `in_guest`: it is run in one. `sizes` are
/// those of the machine on which it copies.
pub fn estimate(experiment: &Experiment, in_guest: bool, sizes: &Sizes) -> String {
    if experiment.cells.iter().any(|cell| cell.setup.copy.is_some()) {
        return of_copies(experiment, in_guest, sizes);
    }
    let trials = f64::from(experiment.trials);
    let of_cells = || experiment.cells.iter().map(|cell| trial_s(&cell.setup));
    let seconds = RUN_S + trials * of_cells().map(|s| s.map_or(0.0, |s| s + AROUND_S)).sum::<f64>();
    let packets = |setup: &Setup| setup.streams.iter().map(|stream| f64::from(stream.count)).sum::<f64>();
    let rows: f64 = trials * experiment.cells.iter().map(|cell| packets(&cell.setup)).sum::<f64>();
    let cells = experiment.cells.len();
    let pausing = |setup: &Setup| {
        let pausing = setup.streams.iter().filter(|stream| pauses(stream) && !setup.builds_nothing());
        pausing.map(|stream| f64::from(stream.count.min(MOST_PAUSES))).sum::<f64>()
    };
    let paused = trials * experiment.cells.iter().map(|cell| pausing(&cell.setup)).sum::<f64>();
    let bytes = RUN_BYTES + trials * cells as f64 * TRIAL_BYTES + rows * ROW_BYTES + paused * PAUSES_BYTES;
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
        let streams = experiment.cells.iter().flat_map(|cell| &cell.setup.streams);
        let each: Vec<f64> = streams.filter(|stream| pauses(stream)).map(unmeasured).collect();
        if let Some(most) = each.iter().copied().reduce(f64::max) {
            let up_to = if each.iter().all(|number| *number == most) { "" } else { "up to " };
            assumes += &format!(", {up_to}{} that are not measured for each", two(most));
        }
    }
    if in_guest {
        assumes += ", by the guest's own clock";
    }
    let took = if spans.is_empty() { "seconds".to_owned() } else { time(seconds) };
    format!(
        "estimate: about {took} and {} on disk: {} {each}, {assumes}, {ROW_BYTES} bytes a packet",
        size(bytes),
        trials_of(experiment)
    )
}

fn trials_of(experiment: &Experiment) -> String {
    let (cells, trials) = (experiment.cells.len(), experiment.trials);
    format!(
        "{cells} {} × {trials} {}",
        if cells == 1 { "cell" } else { "cells" },
        if trials == 1 { "trial" } else { "trials" }
    )
}

/// What all CPUs of a usual machine copy together in its memory, bytes a second.
const COPY_BYTES_S: f64 = 5e9;
/// How fast the kernel hands out memory that is touched and locked, bytes a second.
const MAP_BYTES_S: f64 = 2e9;
/// A pass in `samples.parquet`, bytes.
const PASS_BYTES: f64 = 4.0;

/// The same for copies, whose memory is the most that one of them needs.
fn of_copies(experiment: &Experiment, in_guest: bool, sizes: &Sizes) -> String {
    let copies = || experiment.cells.iter().filter_map(|cell| cell.setup.copy.as_ref());
    let trials = f64::from(experiment.trials);
    let rows = trials * copies().map(|copy| copy.all_iterations() as f64).sum::<f64>();
    let bytes = RUN_BYTES + trials * experiment.cells.len() as f64 * TRIAL_BYTES + rows * PASS_BYTES;
    let guest = if in_guest { ", by the guest's own clock and this machine's caches" } else { "" };
    let are_drawn = copies().all(|copy| copy.backend == CopyBackend::Sim);
    let memory = copies().map(|copy| all_bytes(copy, sizes, 0)).max().unwrap_or(0);
    let all = trials_of(experiment);
    if are_drawn {
        let on_disk = size(bytes);
        return format!(
            "estimate: about seconds, {} of memory and {on_disk} on disk: {all} simulated, {PASS_BYTES} bytes a pass{guest}",
            size(memory as f64)
        );
    }
    let copied = |copy: &Copying| {
        // Once more before each trial.
        let passes = f64::from(copy.iterations) + 1.0;
        copy.bytes as f64 * f64::from(copy.buffers) * passes * f64::from(copy.all_threads())
    };
    let spans = copies().map(|copy| (copied(copy) / COPY_BYTES_S).min(copy.longest.0 as f64 / 1e9));
    let (least, most, sum) = spans.fold((f64::INFINITY, 0.0, 0.0), |(least, most, sum): (f64, f64, f64), span| {
        (least.min(span), most.max(span), sum + span)
    });
    // The next trial has the same memory, unless it needs more.
    let mapped: f64 = copies().map(|copy| region_bytes(copy, sizes) as f64).sum();
    let seconds = RUN_S + mapped / MAP_BYTES_S + trials * (sum + experiment.cells.len() as f64 * AROUND_S);
    let each =
        if least == most { format!("of {}", time(most)) } else { format!("of {} to {}", time(least), time(most)) };
    format!(
        "estimate: about {}, {} of memory and {} on disk: {all} {each}, all threads together {} GB/s and each trial no longer than \
         copy.longest, {} around each, memory mapped at {} GB/s, {PASS_BYTES} bytes a pass{guest}",
        time(seconds),
        size(memory as f64),
        size(bytes),
        COPY_BYTES_S / 1e9,
        time(AROUND_S),
        MAP_BYTES_S / 1e9,
    )
}

/// True for a closed loop that pauses every few requests, because stamps of what it sends come
/// back.
fn pauses(stream: &Stream) -> bool {
    let comes_back = |point: &Point| {
        matches!(point, Point::TxSched | Point::TxKernel | Point::TxHw | Point::ReplyTxSched | Point::ReplyTxKernel)
    };
    let of_one = !stream.port.traits().is_connection || stream.reply.in_flight <= 1;
    let is_closed = !stream.kind.is_scheduled() && stream.reply.in_flight <= FEW_IN_FLIGHT;
    is_closed && of_one && stream.stamps.iter().any(comes_back)
}

/// How many requests that nobody measures go out for each one of a closed loop that pauses every
/// few requests: the pause's own, those before the stretch (three, or one for each in flight, and
/// up to three more where several are), and those after it.
fn unmeasured(stream: &Stream) -> f64 {
    let in_flight = f64::from(stream.reply.in_flight.max(1));
    let more = if in_flight > 1.0 { 1.5 } else { 0.0 };
    (1.0 + in_flight.max(3.0) + more + in_flight) / in_flight.max(2.0)
}

/// How long a trial of the cell takes from its first packet to its last, with loads that begin
/// before; `None` where time is simulated.
fn trial_s(setup: &Setup) -> Option<f64> {
    if setup.builds_nothing() {
        return None;
    }
    let stream_s = |stream: &Stream| match stream.kind.is_scheduled() {
        true => f64::from(stream.count) * stream.cycle.0 as f64 / 1e9,
        false => {
            let each = if pauses(stream) { 1.0 + unmeasured(stream) } else { 1.0 };
            f64::from(stream.count) * each * ROUND_TRIP_S / f64::from(stream.reply.in_flight.max(1))
        }
    };
    let lead_s = setup.loads.iter().map(|load| -load.start.0 as f64 / 1e9).fold(0.0, f64::max);
    Some(lead_s + setup.streams.iter().map(stream_s).fold(0.0, f64::max))
}

/// A time to two digits, in what people say.
fn time(seconds: f64) -> String {
    match seconds {
        s if s < 1e-3 => format!("{} µs", two(s * 1e6)),
        s if s < 0.1 => format!("{} ms", two(s * 1e3)),
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
