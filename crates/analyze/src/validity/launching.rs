// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rules about launch times, gates and the queue disciplines that hold packets until then.

use super::{Evidence, Rule, Spoils};
use crate::says;
use tardy_model::gates::Window;
use tardy_model::point::Point;
use tardy_model::qdisc::Keeper;
use tardy_model::verdict::{Figure, Level, Verdict};

/// `shaper`: the queue discipline that was read back is not the one that was asked for.
pub(super) const SHAPER: Rule = Rule { id: "shaper", spoils: Spoils::Measuring, judge: shaper };

fn shaper(evidence: &Evidence<'_>) -> Vec<Verdict> {
    let differs = evidence.record.shapers.iter().filter(|(_, shaper)| !shaper.differs.is_empty());
    let found = differs.map(|(station, shaper)| {
        let says = format!(
            "the queue discipline of {} at {station} is not what was asked for: {}",
            shaper.device,
            shaper.differs.join("; ")
        );
        Verdict::new(SHAPER.id, Level::Invalid, says)
            .with("station", station.as_str())
            .with("asked", shaper.asked.as_str())
            .with("root", shaper.root())
            .with("differs", Figure::List(shaper.differs.iter().map(|what| what.as_str().into()).collect()))
    });
    found.collect()
}

/// `no-gates`: the device takes a schedule and reports it, and keeps none: netdevsim has no
/// hardware behind it. No measured value shows anything about gates, so no figure is given.
pub(super) const NO_GATES: Rule = Rule { id: "no-gates", spoils: Spoils::Measuring, judge: no_gates };

/// A driver that accepts every offload and does none.
const SIMULATED: &str = "netdevsim";

fn no_gates(evidence: &Evidence<'_>) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for (stream, record) in &evidence.record.streams {
        let launching = &record.launching;
        let by_device = launching.gate.as_ref().is_some_and(|gate| gate.keeper == Keeper::Device);
        let shaper = evidence.record.shapers.get(&launching.station);
        let Some(shaper) = shaper.filter(|shaper| by_device && shaper.driver.as_deref() == Some(SIMULATED)) else {
            continue;
        };
        let says = format!(
            "{} takes the schedule of {stream} and keeps none: its driver is {SIMULATED}, which has no gates; figures would show nothing about them",
            shaper.device
        );
        let verdict = Verdict::new(NO_GATES.id, Level::Invalid, says).with("stream", stream.as_str());
        verdicts.push(verdict.with("device", shaper.device.as_str()).with("driver", SIMULATED));
    }
    verdicts
}

/// `launch-drops`: the queue discipline dropped packets before they came to the driver. They are
/// not_sent, not lost.
pub(super) const LAUNCH_DROPS: Rule = Rule { id: "launch-drops", spoils: Spoils::Path, judge: launch_drops };

fn launch_drops(evidence: &Evidence<'_>) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for (stream, record) in &evidence.record.streams {
        let counters = &record.counters;
        let (missed, invalid, silent) = (counters.launch_missed, counters.launch_invalid, counters.qdisc_dropped);
        let dropped = missed + invalid + silent;
        let Some(intended) = evidence.results.get(stream).map(|result| result.outcomes.intended) else { continue };
        if dropped == 0 {
            continue;
        }
        let share = dropped as f64 / intended.max(1) as f64;
        let level = if share > record.max_loss { Level::Invalid } else { Level::Warning };
        let delta = record.launching.delta_ns;
        let of_delta = delta.map_or_else(String::new, |delta| format!(", etf.delta being {}", says::time(delta)));
        let causes = [
            (missed, format!("of {missed} the launch time had passed when they could go{of_delta}")),
            (
                invalid,
                format!(
                    "of {invalid} it was refused when they came, having passed or not being what the queue discipline takes"
                ),
            ),
            (silent, format!("{silent} without a report, which its own counters show")),
        ];
        let causes: Vec<String> = causes.into_iter().filter(|(n, _)| *n > 0).map(|(_, says)| says).collect();
        let says = format!(
            "the queue discipline dropped {dropped} of {intended} packets of {stream} ({}): {}",
            says::share(share),
            causes.join("; ")
        );
        let mut verdict = Verdict::new(LAUNCH_DROPS.id, level, says)
            .with("stream", stream.as_str())
            .with("dropped", dropped)
            .with("intended", intended)
            .with("dropped_share", share)
            .with("max_loss_share", record.max_loss)
            .with("launch_missed", missed)
            .with("launch_invalid", invalid)
            .with("qdisc_dropped", silent);
        if let Some(delta) = delta {
            verdict = verdict.with("delta_ns", delta);
        }
        verdicts.push(verdict);
    }
    verdicts
}

/// `advance`: the sender is to wake too late for etf: what it hands over less than `etf.delta`
/// before the launch time goes out at once, and what comes behind it is dropped. The ruler's timer
/// error is part of it.
pub(super) const ADVANCE: Rule = Rule { id: "advance", spoils: Spoils::Measuring, judge: advance };

fn advance(evidence: &Evidence<'_>) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for (stream, record) in &evidence.record.streams {
        let launching = &record.launching;
        let Some(delta) = launching.delta_ns.filter(|_| launching.launch.is_some()) else { continue };
        let timer = launching.timer_p99_9_ns.unwrap_or(0);
        if launching.advance_ns > delta.saturating_add(timer) {
            if launching.timer_p99_9_ns.is_none() {
                let says = format!(
                    "whether {stream} wakes early enough for etf is not checked: the ruler has no figure of its thread's timer; its advance, {}, \
                     is above etf.delta, {}",
                    says::time(launching.advance_ns),
                    says::time(delta)
                );
                verdicts.push(
                    Verdict::new(ADVANCE.id, Level::Note, says)
                        .with("stream", stream.as_str())
                        .with("advance_ns", launching.advance_ns)
                        .with("delta_ns", delta),
                );
            }
            continue;
        }
        let with = match launching.timer_p99_9_ns {
            Some(timer) => format!(" and what the timer of its thread is late by at p99.9, {}", says::time(timer)),
            None => String::new(),
        };
        let says = format!(
            "{stream} wakes {} before its launch times, which is not more than etf.delta, {}{with}: packets may come too late to be held",
            says::time(launching.advance_ns),
            says::time(delta)
        );
        let mut verdict = Verdict::new(ADVANCE.id, Level::Warning, says)
            .with("stream", stream.as_str())
            .with("advance_ns", launching.advance_ns)
            .with("delta_ns", delta);
        if let Some(timer) = launching.timer_p99_9_ns {
            verdict = verdict.with("timer_p99_9_ns", timer);
        }
        verdicts.push(verdict);
    }
    verdicts
}

/// `narrow-windows`: taprio in software opens its gates by a timer of the kernel's, and the sender
/// wakes by one. A window that is over before they are there lets nothing go, and packets wait
/// cycle after cycle. How late such timers are, the ruler knows.
pub(super) const NARROW_WINDOWS: Rule = Rule { id: "narrow-windows", spoils: Spoils::Measuring, judge: narrow_windows };

fn narrow_windows(evidence: &Evidence<'_>) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for (stream, record) in &evidence.record.streams {
        let launching = &record.launching;
        let Some(gate) = launching.gate.as_ref().filter(|gate| gate.keeper == Keeper::Taprio) else { continue };
        // A gate that never closes waits for no timer.
        let Some(gates) = gate.gates.as_ref().filter(|gates| !gates.always_open()) else { continue };
        let Some(shortest_ns) = gates.windows.iter().copied().map(Window::length_ns).min() else { continue };
        let class = gate.class.map_or_else(String::new, |class| format!(" of class {class}"));
        let (level, says) = match launching.timer_p99_9_ns {
            Some(timer_ns) if shortest_ns - gate.frame_ns > timer_ns => continue,
            Some(timer_ns) => (
                Level::Warning,
                format!(
                    "the shortest window{class} lasts {}, of which a frame of {stream} takes {}, and the timer of its thread is late by {} at \
                     p99.9: when packets come, or the timer by which taprio in software opens it, it may be over; they then wait for another, and are \
                     dropped when the queue is full; write longer windows",
                    says::time(shortest_ns),
                    says::time(gate.frame_ns),
                    says::time(timer_ns)
                ),
            ),
            None => (
                Level::Note,
                format!(
                    "whether taprio in software meets the windows{class} is not checked: the ruler has no figure of the timer of {stream}'s \
                     thread; the shortest lasts {}",
                    says::time(shortest_ns)
                ),
            ),
        };
        let mut verdict = Verdict::new(NARROW_WINDOWS.id, level, says)
            .with("stream", stream.as_str())
            .with("window_ns", shortest_ns)
            .with("frame_ns", gate.frame_ns);
        if let Some(class) = gate.class {
            verdict = verdict.with("class", u32::from(class));
        }
        if let Some(timer_ns) = launching.timer_p99_9_ns {
            verdict = verdict.with("timer_p99_9_ns", timer_ns);
        }
        verdicts.push(verdict);
    }
    verdicts
}

/// `launch-ignored`: packets carry launch times, and the queue discipline that was read back
/// ignores them. A socket option that is accepted says nothing.
pub(super) const LAUNCH_IGNORED: Rule = Rule { id: "launch-ignored", spoils: Spoils::Measuring, judge: launch_ignored };

fn launch_ignored(evidence: &Evidence<'_>) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for (stream, record) in &evidence.record.streams {
        let launching = &record.launching;
        let Some(shaper) = evidence.record.shapers.get(&launching.station).filter(|_| launching.launch.is_some())
        else {
            continue;
        };
        let by_device = launching.gate.as_ref().is_some_and(|gate| gate.keeper == Keeper::Device);
        let root = shaper.root();
        // Of what could not be read back nothing is known, and `shaper` says so.
        if root.is_empty() || shaper.honours_launch(launching.class) || by_device {
            continue;
        }
        let does = match root {
            "taprio" => "drops those outside the windows of their class and holds none until its own",
            _ => "does not look at them",
        };
        let says = format!("the launch times of {stream} hold no packet: {root} on {} {does}", shaper.device);
        verdicts.push(
            Verdict::new(LAUNCH_IGNORED.id, Level::Note, says)
                .with("stream", stream.as_str())
                .with("station", launching.station.as_str())
                .with("root", root)
                .with("launch", launching.launch.name()),
        );
    }
    verdicts
}

/// `moved-point`: a launch time stays with the packet in the place of its arrival's stamp, so
/// `rx_kernel` is taken further on the way.
pub(super) const MOVED_POINT: Rule = Rule { id: "moved-point", spoils: Spoils::Measuring, judge: moved_point };

fn moved_point(evidence: &Evidence<'_>) -> Vec<Verdict> {
    let moved = evidence.record.streams.iter().filter_map(|(stream, record)| {
        let at = record.launching.rx_kernel_at.filter(|at| at.is_moved())?;
        record.sources.contains_key(&Point::RxKernel).then_some((stream, record, at))
    });
    let found = moved.map(|(stream, record, at)| {
        let says = format!(
            "rx_kernel of {stream} is taken {}, because its packets carry launch times: compare it only with streams of the same port \
             that carry them too",
            at.says()
        );
        Verdict::new(MOVED_POINT.id, Level::Note, says)
            .with("stream", stream.as_str())
            .with("rx_kernel_at", at.name())
            .with("launch", record.launching.launch.name())
    });
    found.collect()
}
