// SPDX-License-Identifier: MIT OR Apache-2.0
//! The machine's clocks: by what they run, TAI, and who sets or steers them.

use crate::check::{Area, Check, Fix, micros};
use crate::seen::Seen;
use crate::services::{Clock, ClockService, Sets, sets};
use std::collections::BTreeMap;
use tardy_host::timekeeper::Kept;

const AREA: Area = Area::Clocks;
/// Clock sources that a program reads without asking the kernel.
const QUICK: [&str; 4] = ["tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter"];

pub(crate) fn checks(seen: &Seen, _: &[u32]) -> Vec<Check> {
    let mut checks = vec![source(seen), tai(seen), services(seen)];
    checks.extend(seen.kept.iter().map(offset));
    checks
}

fn source(seen: &Seen) -> Check {
    const ID: &str = "clock-source";
    const FILE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let Some(source) = seen.clock_source.as_deref() else {
        return Check::unknown(ID, AREA, "the kernel does not show its clock source", "mount /sys");
    };
    if QUICK.contains(&source) {
        return Check::fine(ID, AREA, format!("clock source {source}: reading a clock takes some tens of ns"));
    }
    let costs = "each reading of a clock is a system call and a slow device: 0.5 to 2 µs in every stamp of a program";
    let quicker = QUICK.iter().find(|quick| seen.clock_sources.iter().any(|of| of == *quick));
    let fix = match quicker {
        Some(quick) => Fix::by(format!("use {quick}")).file(FILE, *quick, source),
        None => Fix::by("this machine offers none that is quicker; the kernel's log says why (of tsc often: unstable)"),
    };
    Check::spoils(ID, AREA, format!("clock source {source}"), costs, fix)
}

fn tai(seen: &Seen) -> Check {
    const ID: &str = "tai-offset";
    match seen.tai_offset_s {
        0 => {
            let costs = "launch times (etf, taprio) of programs that use UTC and of those that use TAI differ by 37 s; on one machine it \
                         harms nothing";
            let fix =
                Fix::by("have chrony (leapsectz right/UTC), ptp4l with phc2sys, or ntpd set it; tardy never does");
            Check::note(ID, AREA, "the kernel's TAI offset is 0: nobody has set it", costs, fix)
        }
        seconds => Check::fine(ID, AREA, format!("CLOCK_TAI is {seconds} s ahead of CLOCK_REALTIME")),
    }
}

/// A clock that is known no better makes one-way figures of little use, ns.
const LOOSE_NS: i64 = 100_000;

/// How near the clock is to what it follows, as the program reports that keeps it.
fn offset(kept: &Kept) -> Check {
    const ID: &str = "clock-offset";
    let Kept { by, reference, ahead_ns, bound_ns, .. } = kept;
    let fact = format!(
        "{} reports CLOCK_TAI as {} ahead of {reference}, within {}",
        by.name(),
        seconds(*ahead_ns),
        micros(*bound_ns)
    );
    if (0..=LOOSE_NS).contains(bound_ns) {
        return Check::fine(ID, AREA, fact);
    }
    let costs = "one-way figures between two machines are uncertain by it; on one machine it harms nothing";
    let fix = Fix::by("follow a nearer server, or a grandmaster of PTP by a device that stamps");
    Check::note(ID, AREA, fact, costs, fix)
}

/// Whole seconds apart, as those of TAI, and the rest in microseconds.
fn seconds(ns: i64) -> String {
    let whole = (ns as f64 / 1e9).round() as i64;
    let rest = micros(ns.saturating_sub(whole.saturating_mul(1_000_000_000)));
    if whole == 0 { rest } else { format!("{whole} s and {rest}") }
}

/// What a program does, in words.
fn says(of: &ClockService, sets: Option<&[Sets]>) -> String {
    let name = &of.name;
    let Some(sets) = sets else { return format!("{name} runs, and what it sets is not shown") };
    let clocks = |always: bool| {
        let of_these = sets.iter().filter(|of| of.always == always);
        of_these.map(|of| of.clock.name()).collect::<Vec<_>>().join(" and ")
    };
    match (clocks(true).as_str(), clocks(false).as_str()) {
        ("", "") => format!("{name} sets no clock itself"),
        (always, "") => format!("{name} sets {always}"),
        ("", may) => format!("{name} sets {may} where it follows others"),
        (always, may) => format!("{name} sets {always}, and {may} where it follows others"),
    }
}

fn services(seen: &Seen) -> Check {
    const ID: &str = "clock-services";
    let all: Vec<(&ClockService, Option<Vec<Sets>>)> =
        seen.clock_services.iter().map(|of| (of, sets(of, &seen.ptp_clocks))).collect();
    if all.is_empty() {
        let costs = "between two machines one-way figures need their clocks compared; on one machine it harms nothing";
        let fix = Fix::by("start chrony, or ptp4l and phc2sys, where several machines are measured");
        return Check::note(ID, AREA, "no program sets or steers this machine's clock", costs, fix);
    }
    let fact = all.iter().map(|(of, sets)| says(of, sets.as_deref())).collect::<Vec<_>>().join("; ");
    // Who sets each clock, and whether always.
    let mut by_clock: BTreeMap<&Clock, Vec<(&str, bool)>> = BTreeMap::new();
    for (of, sets) in &all {
        for Sets { clock, always } in sets.iter().flatten() {
            by_clock.entry(clock).or_default().push((&of.name, *always));
        }
    }
    let shared: Vec<_> = by_clock.iter().filter(|(_, by)| by.len() > 1).collect();
    let names = |by: &[(&str, bool)]| by.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(" and ");
    if let Some((clock, by)) = shared.iter().find(|(_, by)| by.iter().filter(|(_, always)| *always).count() > 1) {
        let costs = format!("{} work against each other: {} jumps to and fro", names(by), clock.name());
        let fix = Fix::by("stop all but one of them, or have phc2sys hand its time to chrony or ntpd (-E ntpshm)");
        return Check::spoils(ID, AREA, format!("several programs set one clock: {fact}"), costs, fix);
    }
    if let Some((clock, by)) = shared.first() {
        let costs = format!("{} may set {} against each other", names(by), clock.name());
        let fix = Fix::by(
            "see with `pmc -u -b 0 'GET TIME_STATUS_NP'` which clock ptp4l follows; one program is to set a clock",
        );
        return Check::note(ID, AREA, fact, costs, fix);
    }
    if all.iter().any(|(_, sets)| sets.is_none()) {
        let fix = Fix::by("see which clock it sets by its arguments and files, and stop what sets the same one");
        return Check::note(ID, AREA, fact, "two programs that set one clock work against each other", fix);
    }
    if !by_clock.contains_key(&Clock::Realtime) {
        let costs = "between two machines one-way figures need their clocks compared, and nobody keeps CLOCK_REALTIME";
        let fix = Fix::by("start phc2sys (-a -r) next to ptp4l, or chrony, where several machines are measured");
        return Check::note(ID, AREA, format!("{fact}; nothing sets CLOCK_REALTIME"), costs, fix);
    }
    Check::fine(ID, AREA, fact)
}
