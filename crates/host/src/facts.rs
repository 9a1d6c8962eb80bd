// SPDX-License-Identifier: MIT OR Apache-2.0
//! Facts of the machine for the manifest: what could explain that a number is different elsewhere.

use crate::cpus;
use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use tardy_model::verdict::Figure;
use tardy_sys::proc;

fn text(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let text = text.trim_end_matches(['\n', '\0']).trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// An empty list means that there are none; a missing file means that it is not known.
fn list(cpus: Option<Vec<u32>>) -> Option<Figure> {
    cpus.map(|cpus| Figure::List(cpus.into_iter().map(Figure::from).collect()))
}

/// Facts by dotted name; what cannot be read is left out.
pub fn read() -> BTreeMap<String, Figure> {
    let mut facts = BTreeMap::new();
    let mut put = |name: &str, value: Option<Figure>| {
        if let Some(value) = value {
            facts.insert(name.to_owned(), value);
        }
    };
    put("kernel.release", proc::kernel_release().map(Figure::from));
    let plain = [
        ("host.name", "/proc/sys/kernel/hostname"),
        ("kernel.version", "/proc/sys/kernel/version"),
        ("kernel.command_line", "/proc/cmdline"),
        ("kernel.preempt", "/sys/kernel/debug/sched/preempt"),
        ("kernel.realtime", "/sys/kernel/realtime"),
        ("clock.source", "/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        ("cpu.governor", "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        ("cpu.smt", "/sys/devices/system/cpu/smt/active"),
        ("cpu.idle_driver", "/sys/devices/system/cpu/cpuidle/current_driver"),
        ("cpu.idle_governor", "/sys/devices/system/cpu/cpuidle/current_governor_ro"),
        ("cpu.frequency_driver", "/sys/devices/system/cpu/cpu0/cpufreq/scaling_driver"),
        ("machine.vendor", "/sys/class/dmi/id/sys_vendor"),
        ("machine.product", "/sys/class/dmi/id/product_name"),
        ("rt.period_us", "/proc/sys/kernel/sched_rt_period_us"),
        ("rt.runtime_us", "/proc/sys/kernel/sched_rt_runtime_us"),
        ("sched.autogroup", "/proc/sys/kernel/sched_autogroup_enabled"),
        ("net.rps_sock_flow_entries", "/proc/sys/net/core/rps_sock_flow_entries"),
        ("net.busy_poll_us", "/proc/sys/net/core/busy_poll"),
    ];
    for (name, path) in plain {
        put(name, text(path).map(Figure::from));
    }
    let idle: Vec<_> = cpus::states().iter().map(|state| Figure::from(state.describe())).collect();
    put("cpu.idle_states", Some(Figure::List(idle)));
    put("cpu.online", list(cpus::kernel_list("online")));
    put("cpu.usable", list(Some(cpus::usable())));
    put("cpu.isolated", list(cpus::kernel_list("isolated")));
    put("cpu.nohz_full", list(cpus::kernel_list("nohz_full")));
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        let line = cpuinfo.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    put("cpu.model", field("model name").map(Figure::from));
    let hypervisor = field("flags").map(|flags| flags.split_whitespace().any(|flag| flag == "hypervisor"));
    put("machine.virtual", hypervisor.map(|is| Figure::from(if is { "yes" } else { "no" })));
    put("clock.tai_offset_s", Some(Figure::from(i64::from(tardy_sys::clock::tai_offset_s()))));
    let load = text("/proc/loadavg").and_then(|load| load.split(' ').next()?.parse::<f64>().ok());
    put("load.one_minute", load.map(Figure::from));
    facts
}

/// Programs that a run uses, with what they say of their version; a program that is missing is
/// left out.
pub fn programs() -> BTreeMap<String, String> {
    let version = |program: &str, flag: &str| {
        let output = Command::new(program).arg(flag).output().ok()?;
        let said = if output.stdout.is_empty() { output.stderr } else { output.stdout };
        Some(String::from_utf8_lossy(&said).lines().next()?.trim().to_owned())
    };
    let known = [("ip", "-V"), ("tc", "-V"), ("ethtool", "--version")];
    known.into_iter().filter_map(|(name, flag)| Some((name.to_owned(), version(name, flag)?))).collect()
}
