// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's scheduler: how it preempts, what it keeps back from realtime threads, and what it
//! does on its own.

use crate::check::{Area, Check, Fix, list};
use crate::quota::Quota;
use crate::seen::Seen;

const AREA: Area = Area::Scheduler;
/// What shows settings of the scheduler.
const DEBUGFS: &str = "look as root with debugfs mounted on /sys/kernel/debug; a kernel that is locked down (Secure Boot) shows it to nobody";

pub(crate) fn checks(seen: &Seen, cpus: &[u32]) -> Vec<Check> {
    let mut checks = vec![preemption(seen), tick(seen), rt_limit(seen), cpu_quota(seen)];
    checks.extend(fair_server(seen, if cpus.is_empty() { &seen.online } else { cpus }));
    checks.extend(autogroup(seen));
    checks.extend(numa(seen));
    checks.extend(huge_pages(seen));
    checks
}

fn preemption(seen: &Seen) -> Check {
    const ID: &str = "preemption";
    if seen.is_realtime_kernel || seen.version.contains("PREEMPT_RT") {
        return Check::fine(ID, AREA, "PREEMPT_RT: the kernel can be preempted nearly everywhere");
    }
    let model = match &seen.preempt {
        Some(model) => model.clone(),
        None if seen.version.contains("PREEMPT_DYNAMIC") => {
            return Check::unknown(ID, AREA, "the preemption model is chosen at boot, and not shown", DEBUGFS);
        }
        None if seen.version.contains("PREEMPT") => "full".to_owned(),
        None => "none or voluntary".to_owned(),
    };
    let fact = format!("preemption model {model}");
    let (costs, fix) = match model.as_str() {
        "full" => (
            "a realtime thread waits for spin locks and softirqs of others: up to some hundred µs",
            Fix::by("for guaranteed wake-ups use a kernel with PREEMPT_RT"),
        ),
        _ => (
            "a thread that wakes waits until a system call of another one ends or the tick comes: up to some ms",
            Fix::by("boot with preempt=full, or use a kernel with PREEMPT_RT"),
        ),
    };
    let fix = match seen.preempt.as_deref() {
        Some(model) if model != "full" => fix.file("/sys/kernel/debug/sched/preempt", "full", model),
        _ => fix,
    };
    Check::note(ID, AREA, fact, costs, fix)
}

fn tick(seen: &Seen) -> Check {
    const ID: &str = "tick";
    let resolution = match seen.has("HIGH_RES_TIMERS") {
        Some(false) => {
            let fix = Fix::by("use a kernel that is built with CONFIG_HIGH_RES_TIMERS");
            let costs = "a sleep ends at the next tick: up to some ms late";
            return Check::spoils(ID, AREA, "this kernel has no timers finer than its tick", costs, fix);
        }
        Some(true) => "timers are finer than the tick",
        None => "whether timers are finer than the tick is not known",
    };
    match seen.config.as_ref().and_then(|config| config.get("HZ")) {
        Some(hz) => Check::fine(ID, AREA, format!("the tick comes {hz} times a second; {resolution}")),
        None => {
            let shows = "look at /proc/config.gz or /boot/config-$(uname -r)";
            Check::unknown(ID, AREA, "how often the tick comes is not known", shows)
        }
    }
}

fn rt_limit(seen: &Seen) -> Check {
    const ID: &str = "rt-limit";
    let (Some(period), Some(runtime)) = (seen.rt_period_us, seen.rt_runtime_us) else {
        return Check::fine(ID, AREA, "this kernel does not limit realtime threads by sched_rt_runtime_us");
    };
    if runtime < 0 || runtime >= period {
        return Check::fine(ID, AREA, "realtime threads may use their whole CPU (sched_rt_runtime_us)");
    }
    // Linux 6.12 took the limit of ordinary kernels away; the setting is still there.
    if seen.is_at_least([6, 12]) && seen.has("RT_GROUP_SCHED") != Some(true) {
        let says =
            "sched_rt_runtime_us limits no realtime thread on this kernel (since Linux 6.12 the fair server does)";
        return Check::fine(ID, AREA, says);
    }
    let fact = format!("realtime threads may run {runtime} µs of each {period} µs");
    let costs = format!("a realtime thread that spins stops for {} µs in each period", period - runtime);
    let file = "/proc/sys/kernel/sched_rt_runtime_us";
    let fix = Fix::by("take the limit off while you measure").file(file, "-1", runtime.to_string());
    Check::note(ID, AREA, fact, costs, fix)
}

fn cpu_quota(seen: &Seen) -> Check {
    const ID: &str = "cpu-quota";
    let Some(Quota { file, quota_us, period_us }) = &seen.quota else {
        return Check::fine(ID, AREA, "no control group limits the CPU time of this process");
    };
    let fact = format!("the control group of {file} gives its tasks {quota_us} µs of CPU time in each {period_us} µs");
    let costs = format!(
        "once they have used that up, all their ordinary threads stop until the next period: up to {} µs",
        period_us.saturating_sub(quota_us / (seen.online.len() as u64).max(1))
    );
    let [off, on] = match file.ends_with("cpu.max") {
        true => ["max".to_owned(), format!("{quota_us} {period_us}")],
        false => ["-1".to_owned(), quota_us.to_string()],
    };
    let fix =
        Fix::by("take the limit off while you measure, or run outside of the container").file(file.as_str(), off, on);
    Check::spoils(ID, AREA, fact, costs, fix)
}

fn fair_server(seen: &Seen, cpus: &[u32]) -> Option<Check> {
    const ID: &str = "fair-server";
    let on: Vec<(u32, u64)> =
        cpus.iter().filter_map(|cpu| Some((*cpu, *seen.fair_server_ns.get(cpu)?))).filter(|(_, ns)| *ns > 0).collect();
    if seen.fair_server_ns.is_empty() && seen.is_at_least([6, 12]) {
        let fact =
            "how much of a CPU the fair server gives ordinary tasks is not shown (50 ms of each second by default)";
        return Some(Check::unknown(ID, AREA, fact, DEBUGFS));
    }
    let (_, ns) = on.first()?;
    let which: Vec<u32> = on.iter().map(|(cpu, _)| *cpu).collect();
    let fact = format!(
        "ordinary tasks that wait get {} ms of each second on CPU {} (fair server)",
        ns / 1_000_000,
        list(&which)
    );
    let costs = "a realtime thread that spins stops for as long, wherever an ordinary task waits for its CPU";
    let mut fix = Fix::by("switch it off for this CPU");
    for (cpu, ns) in &on {
        let file = format!("/sys/kernel/debug/sched/fair_server/cpu{cpu}/runtime");
        fix = fix.file(file, "0", ns.to_string());
    }
    Some(Check::note(ID, AREA, fact, costs, fix))
}

fn autogroup(seen: &Seen) -> Option<Check> {
    const ID: &str = "autogroup";
    if !seen.autogroup? {
        return Some(Check::fine(ID, AREA, "tasks are not grouped by their session (autogroup)"));
    }
    let fix = Fix::by("switch it off").file("/proc/sys/kernel/sched_autogroup_enabled", "0", "1");
    let costs = "the nice value of an ordinary thread counts within its session only";
    Some(Check::note(ID, AREA, "tasks are grouped by their session (autogroup)", costs, fix))
}

fn numa(seen: &Seen) -> Option<Check> {
    const ID: &str = "numa-balancing";
    if !seen.numa_balancing? {
        return Some(Check::fine(ID, AREA, "the kernel moves no memory between NUMA nodes on its own"));
    }
    let fix = Fix::by("switch it off").file("/proc/sys/kernel/numa_balancing", "0", "1");
    let costs = "it unmaps memory to see who uses it: page faults of some µs at any time";
    Some(Check::note(ID, AREA, "the kernel moves memory between NUMA nodes on its own", costs, fix))
}

fn huge_pages(seen: &Seen) -> Option<Check> {
    const ID: &str = "huge-pages";
    const FILE: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
    let mode = seen.huge_pages.as_deref()?;
    if mode != "always" {
        return Some(Check::fine(ID, AREA, format!("transparent huge pages: {mode}")));
    }
    let fix = Fix::by("have only those get them that ask").file(FILE, "madvise", "always");
    let costs = "khugepaged copies memory of any process, which stops for up to some hundred µs";
    Some(Check::note(ID, AREA, "transparent huge pages: always", costs, fix))
}
