// SPDX-License-Identifier: MIT OR Apache-2.0
//! Realtime threads that spin for longer than the kernel lets them: the rule `rt-bandwidth` makes
//! such trials not valid.

use super::foreseen::{Foreseen, Machine};
use tardy_model::machine::RtLimit;
use tardy_model::stream::{Kind, Side, Stream};
use tardy_model::time::Nanos;
use tardy_model::verdict::Level;
use tardy_spec::experiment::spins_realtime;
use tardy_spec::experiment::{Cell, Experiment};
use tardy_spec::schema::show_duration;

/// The first kernel with the fair server, which took the place of the limit for kernels without
/// groups of realtime tasks.
const FAIR_SERVER: (u32, u32) = (6, 12);
/// What it leaves a realtime thread while ordinary tasks wait for its CPU: all but 50 ms of each
/// second (`fair_server/runtime`).
const FAIR: RtLimit = RtLimit { period_ns: 1_000_000_000, runtime_ns: 950_000_000 };

/// The share of the time that the thread spins, and the key that says so.
fn spins(stream: &Stream, side: Side) -> (f64, &'static str) {
    match side {
        Side::Tx if stream.kind != Kind::Pingpong => {
            ((stream.tx.spin.0 as f64 / stream.cycle.0.max(1) as f64).min(1.0), "tx.spin")
        }
        Side::Tx | Side::Reply => (1.0, "tx.wait"),
        Side::Rx => (1.0, "rx.wait"),
    }
}

/// How long a trial lasts; `None` of a ping-pong, which measures that.
fn trial_ns(stream: &Stream) -> Option<i64> {
    stream.kind.is_scheduled().then(|| i64::from(stream.count).saturating_mul(stream.cycle.0))
}

/// `6.18.44-fc` as 6 and 18.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut parts = release.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

pub(super) fn of(_: &Experiment, cell: &Cell, machine: &Machine) -> Vec<Foreseen> {
    let release = machine.release.as_deref();
    let is_fair = release.and_then(version).is_some_and(|version| version >= FAIR_SERVER);
    let Some(limit) = (if is_fair { Some(FAIR) } else { machine.rt_limit }) else { return Vec::new() };
    if limit.period_ns <= 0 || limit.runtime_ns >= limit.period_ns {
        return Vec::new();
    }
    let mut found = Vec::new();
    for stream in &cell.setup.streams {
        for side in Side::of(stream).filter(|side| spins_realtime(stream, *side)) {
            let (share, field) = spins(stream, side);
            let is_short = trial_ns(stream).is_some_and(|ns| ns < limit.runtime_ns);
            if is_short || share <= limit.runtime_ns as f64 / limit.period_ns as f64 {
                continue;
            }
            let thread = format!("{}.{side}, which spins as {},", stream.name, side.policy(stream));
            let [stop, period, runtime] = [limit.period_ns - limit.runtime_ns, limit.period_ns, limit.runtime_ns]
                .map(|ns| show_duration(Nanos(ns)));
            let why = match is_fair {
                true => format!(
                    "{thread} would be stopped for {stop} of each {period} in which another task waits for its CPU, by the fair server of \
                     this kernel, {}, whatever sched_rt_runtime_us says; the rule rt-bandwidth then makes the trial not valid",
                    release.unwrap_or_default()
                ),
                false => format!(
                    "{thread} would be stopped for {stop} of each {period}: realtime threads may run {runtime} of it (sched_rt_runtime_us), \
                     and the rule rt-bandwidth makes every trial not valid"
                ),
            };
            let instead = match field {
                "tx.spin" => format!("write a tx.spin below {}", show_duration(Nanos(stream.cycle.0 / 10 * 9))),
                field => format!("write {field} = \"block\", or policy = \"other\""),
            };
            let help = match is_fair {
                true => format!("{instead}, or keep all other tasks off that CPU: docs/how-to/isolation.md"),
                false => format!("{instead}, or lift the limit: sysctl kernel.sched_rt_runtime_us=-1"),
            };
            found.push(Foreseen::new(Level::Warning, format!("stream.{}.{field}", stream.name), why, help));
        }
    }
    found
}
