// SPDX-License-Identifier: MIT OR Apache-2.0
//! How deep CPUs sleep, how fast they run, and with whom they share a core.

use crate::check::{Area, Check, Fix, list};
use crate::seen::Seen;
use tardy_host::cpus::IdleState;

const AREA: Area = Area::Power;
/// A CPU that wakes within this time costs no figure anything, µs.
const QUICK_US: u64 = 2;
/// One that takes longer spoils figures, µs.
const SLOW_US: u64 = 10;

pub(crate) fn checks(seen: &Seen, cpus: &[u32]) -> Vec<Check> {
    let judged = if cpus.is_empty() { &seen.online } else { cpus };
    let mut checks = vec![idle(seen, judged)];
    checks.extend(frequency(seen, judged));
    checks.extend(turbo(seen));
    checks.extend(siblings(seen, cpus));
    checks
}

/// What holds the CPUs awake, µs.
fn held(seen: &Seen) -> Option<u64> {
    // The kernel's word for no limit.
    seen.dma_latency_us.filter(|us| (0..2_000_000_000).contains(us)).and_then(|us| u64::try_from(us).ok())
}

/// The deepest state that a CPU may enter, by its number and what it is: limits of the machine and
/// of the CPU keep it from deeper ones.
fn deepest(seen: &Seen, cpu: u32) -> Option<(usize, &IdleState)> {
    let limits = [held(seen), seen.resume_limits_us.get(&cpu).copied()];
    let most = limits.into_iter().flatten().min().unwrap_or(u64::MAX);
    let states = seen.idle_states.get(&cpu)?.iter().enumerate();
    states
        .filter(|(_, state)| !state.is_disabled && state.exit_latency_us <= most)
        .max_by_key(|(_, of)| of.exit_latency_us)
}

fn idle(seen: &Seen, cpus: &[u32]) -> Check {
    const ID: &str = "idle-states";
    let Some(driver) = &seen.idle_driver else {
        let why = match seen.is_virtual {
            true => "the host's processor sleeps as the host decides; /dev/cpu_dma_latency has no effect here",
            false => "idle CPUs only halt; /dev/cpu_dma_latency has no effect here",
        };
        return Check::fine(ID, AREA, format!("this kernel has no driver for idle states: {why}"));
    };
    let by_cpu: Vec<(u32, usize, &IdleState)> =
        cpus.iter().filter_map(|cpu| deepest(seen, *cpu).map(|(number, state)| (*cpu, number, state))).collect();
    let limit = held(seen).map(|us| format!("; /dev/cpu_dma_latency is held at {us} µs")).unwrap_or_default();
    let Some((_, _, worst)) = by_cpu.iter().max_by_key(|(_, _, state)| state.exit_latency_us) else {
        return Check::fine(ID, AREA, format!("idle states by {driver}: none may be entered{limit}"));
    };
    let which: Vec<u32> =
        by_cpu.iter().filter(|of| of.2.exit_latency_us == worst.exit_latency_us).map(|of| of.0).collect();
    let us = worst.exit_latency_us;
    let fact = format!(
        "idle states by {driver}: CPU {} may sleep as deep as {}, and takes {us} µs to wake{limit}",
        list(&which),
        worst.name
    );
    // In a virtual machine the state is a halt, and how long that takes to end is for the host.
    if seen.is_virtual && driver == "haltpoll" {
        let costs = "the host decides how deep its processor sleeps meanwhile, and wakes the CPU tens of µs late";
        let fix = Fix::by(
            "have the measured threads spin (wait = \"spin\"), boot this guest with idle=poll, or have the host poll for longer \
             (its kvm.halt_poll_ns)",
        );
        return Check::note(ID, AREA, format!("{fact}, as this kernel reckons"), costs, fix);
    }
    if us <= QUICK_US {
        return Check::fine(ID, AREA, fact);
    }
    let mut fix = Fix::by(
        "write cpu.dma_latency = \"0us\" into the experiment, which holds /dev/cpu_dma_latency (in whole µs) during a run, or \
         disable the deep states of these CPUs",
    );
    for cpu in cpus {
        let deep = seen.idle_states.get(cpu).into_iter().flatten().enumerate();
        for (number, _) in deep.filter(|(_, state)| !state.is_disabled && state.exit_latency_us > QUICK_US) {
            let file = format!("/sys/devices/system/cpu/cpu{cpu}/cpuidle/state{number}/disable");
            fix = fix.file(file, "1", "0");
        }
    }
    let costs = format!("a packet that finds the CPU asleep waits up to {us} µs");
    match us > SLOW_US {
        true => Check::spoils(ID, AREA, fact, costs, fix),
        false => Check::note(ID, AREA, fact, costs, fix),
    }
}

fn frequency(seen: &Seen, cpus: &[u32]) -> Option<Check> {
    const ID: &str = "governor";
    let Some(driver) = &seen.frequency_driver else {
        return Some(Check::fine(ID, AREA, "this kernel does not change the frequency of CPUs"));
    };
    let slow: Vec<(u32, &String)> = cpus
        .iter()
        .filter_map(|cpu| Some((*cpu, seen.governors.get(cpu)?)))
        .filter(|(_, governor)| *governor != "performance")
        .collect();
    let Some((_, governor)) = slow.first() else {
        return Some(Check::fine(ID, AREA, format!("governor performance, by {driver}")));
    };
    let which: Vec<u32> = slow.iter().map(|(cpu, _)| *cpu).collect();
    let mut fix = Fix::by("set the governor performance");
    for (cpu, governor) in &slow {
        let file = format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor");
        fix = fix.file(file, "performance", *governor);
    }
    let costs = "the CPU is slow when a packet comes, and takes up to some ms to become fast";
    Some(Check::spoils(ID, AREA, format!("governor {governor} on CPU {}, by {driver}", list(&which)), costs, fix))
}

fn turbo(seen: &Seen) -> Option<Check> {
    const ID: &str = "turbo";
    if !seen.turbo? {
        return Some(Check::fine(ID, AREA, "no CPU runs faster than its rated frequency"));
    }
    let file = "/sys/devices/system/cpu/intel_pstate/no_turbo";
    let fix = match seen.frequency_driver.as_deref().is_some_and(|driver| driver.starts_with("intel")) {
        true => Fix::by("switch it off").file(file, "1", "0"),
        false => Fix::by("switch it off").file("/sys/devices/system/cpu/cpufreq/boost", "0", "1"),
    };
    let costs =
        "how fast it is depends on how warm the processor is and who else computes: figures move by some per cent";
    Some(Check::note(ID, AREA, "CPUs may run faster than their rated frequency", costs, fix))
}

fn siblings(seen: &Seen, cpus: &[u32]) -> Vec<Check> {
    const ID: &str = "smt-sibling";
    let of_cpu = |cpu: &u32| {
        let others: Vec<u32> = seen.siblings.get(cpu)?.iter().filter(|of| *of != cpu).copied().collect();
        if others.is_empty() {
            return Some(Check::fine(ID, AREA, format!("CPU {cpu} has its core for itself")).on(*cpu));
        }
        // To unplug a CPU moves its tasks and interrupts for good: that is for nobody's script.
        let fix = Fix::by(format!("leave CPU {} idle, or boot with nosmt", list(&others)));
        let fact = format!("CPU {cpu} shares its core with CPU {}", list(&others));
        let costs = "what runs there takes up to half of this one's speed and its nearest caches";
        Some(Check::note(ID, AREA, fact, costs, fix).on(*cpu))
    };
    cpus.iter().filter_map(of_cpu).collect()
}
