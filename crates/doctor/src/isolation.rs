// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether CPUs are left alone: what was asked for on the kernel's command line, what the kernel
//! made of it, and which tasks may run there all the same.

use crate::check::{Area, Check, Fix, list};
use crate::numa::{near, node_of};
use crate::seen::{Seen, SeenTask};
use crate::tasks::{self, SHOWN_TO, moved, names, place};

const AREA: Area = Area::Isolation;

pub(crate) fn checks(seen: &Seen, cpus: &[u32]) -> Vec<Check> {
    let mut checks = vec![isolcpus(seen, cpus)];
    if cpus.is_empty() {
        return checks;
    }
    checks.push(built(seen));
    checks.extend([nohz_full(seen, cpus), rcu_nocbs(seen, cpus)]);
    checks.extend(cpus.iter().map(|cpu| tasks::of_users(seen, cpus, *cpu)));
    checks.extend(cpus.iter().map(|cpu| tasks::of_kernel(seen, cpus, *cpu)));
    checks.extend(workqueues(seen, cpus));
    checks.extend(watchdog(seen, cpus));
    checks.extend(timer_migration(seen));
    checks
}

fn boot(word: &str, cpus: &[u32]) -> Fix {
    Fix::by(format!("boot with {word}={} on the kernel's command line", list(cpus)))
}

fn missing(of: &[u32], from: &[u32]) -> Vec<u32> {
    of.iter().filter(|cpu| !from.contains(cpu)).copied().collect()
}

/// What was asked for by a word and what the kernel made of it differ, on the CPUs that matter.
fn ignored(seen: &Seen, word: &str, made: &[u32], cpus: &[u32]) -> Option<String> {
    let value = seen.word(word)?;
    // isolcpus has flags before its list: without `domain` it is about other things alone.
    let flags: Vec<&str> =
        value.split(',').filter(|part| part.starts_with(|of: char| of.is_ascii_lowercase())).collect();
    if word == "isolcpus" && !flags.is_empty() && !flags.contains(&"domain") {
        return None;
    }
    let asked = seen.of_words(value);
    let matters = |cpu: &u32| if cpus.is_empty() { seen.online.contains(cpu) } else { cpus.contains(cpu) };
    let left_out = missing(&asked, made).into_iter().any(|cpu| matters(&cpu));
    let none = !asked.is_empty() && !asked.iter().any(|cpu| seen.online.contains(cpu));
    (left_out || none)
        .then(|| format!("{word}={} is on the command line, and the kernel has {}", list(&asked), or_none(made)))
}

fn or_none(cpus: &[u32]) -> String {
    if cpus.is_empty() { "no CPU of it".to_owned() } else { list(cpus) }
}

/// Whether a setting that a word needs is missing in the kernel.
fn not_built(seen: &Seen, setting: &str) -> Option<Fix> {
    (seen.has(setting) == Some(false))
        .then(|| Fix::by(format!("use a kernel that is built with CONFIG_{setting}: this one ignores the word")))
}

fn isolcpus(seen: &Seen, cpus: &[u32]) -> Check {
    const ID: &str = "isolcpus";
    let Some(isolated) = &seen.isolated else {
        return Check::unknown(ID, AREA, "the kernel does not show which CPUs are isolated", "mount /sys");
    };
    let fact = match isolated.is_empty() {
        true => "no CPU is isolated".to_owned(),
        false => format!("CPU {} is isolated", list(isolated)),
    };
    let costs = "the scheduler puts any task there, for milliseconds at a time";
    if let Some(ignored) = ignored(seen, ID, isolated, cpus) {
        let fix = not_built(seen, "CPU_ISOLATION").unwrap_or_else(|| Fix::by("name CPUs that this machine has"));
        return Check::spoils(ID, AREA, ignored, costs, fix);
    }
    let open = missing(cpus, isolated);
    if cpus.is_empty() {
        let fix = Fix::by("choose CPUs to measure on, and see with `tardy doctor --cpu N` what they need");
        return Check::note(ID, AREA, fact, costs, fix);
    }
    if open.is_empty() {
        return Check::fine(ID, AREA, fact);
    }
    let with_cgroup = "or move all other tasks away by a cgroup whose cpuset.cpus.partition is `isolated`";
    let fix = Fix::by(format!("{}, {with_cgroup}", boot(ID, &open).says));
    let fact = if isolated.is_empty() { fact } else { format!("{fact}, and CPU {} is not", list(&open)) };
    Check::spoils(ID, AREA, fact, costs, fix)
}

/// What the kernel must be built with for each word.
const SETTINGS: [(&str, &str); 3] =
    [("CPU_ISOLATION", "isolcpus"), ("NO_HZ_FULL", "nohz_full"), ("RCU_NOCB_CPU", "rcu_nocbs")];

fn built(seen: &Seen) -> Check {
    const ID: &str = "isolation-config";
    if seen.config.is_none() {
        let fact = "what the kernel is built with for CPUs that are left alone is not known";
        return Check::unknown(ID, AREA, fact, "its configuration is in /proc/config.gz or /boot/config-$(uname -r)");
    }
    let named = |of: Vec<(&str, &str)>| of.iter().map(|(setting, _)| format!("CONFIG_{setting}")).collect::<Vec<_>>();
    let (there, missing): (Vec<_>, Vec<_>) =
        SETTINGS.iter().copied().partition(|(setting, _)| seen.has(setting) == Some(true));
    let words: Vec<&str> = missing.iter().map(|(_, word)| *word).collect();
    let missing = named(missing).join(", ");
    if words.is_empty() {
        return Check::fine(ID, AREA, format!("the kernel is built with {}", named(there).join(", ")));
    }
    let fact = format!("the kernel is built without {missing}");
    let costs = format!("it ignores {} on its command line", words.join(" and "));
    Check::note(ID, AREA, fact, costs, Fix::by(format!("use a kernel that is built with {missing}")))
}

fn nohz_full(seen: &Seen, cpus: &[u32]) -> Check {
    const ID: &str = "nohz_full";
    let hz = seen.config.as_ref().and_then(|config| config.get("HZ")).map_or("100 to 1000", String::as_str);
    let costs = format!("the timer interrupts a running task there {hz} times a second, for 1 to 10 µs each");
    let made = seen.nohz_full.clone().unwrap_or_default();
    let not_built = not_built(seen, "NO_HZ_FULL");
    if let Some(ignored) = ignored(seen, ID, &made, cpus) {
        let fix = not_built.unwrap_or_else(|| Fix::by("leave at least one CPU out of it: one has to keep the time"));
        return Check::spoils(ID, AREA, ignored, costs, fix);
    }
    let ticking = missing(cpus, &made);
    if ticking.is_empty() {
        return Check::fine(ID, AREA, format!("CPU {} has no timer tick while one task runs", list(&made)));
    }
    let fix = match not_built {
        Some(_) => Fix::by("use a kernel that is built with CONFIG_NO_HZ_FULL, and boot it with nohz_full"),
        None => boot(ID, &ticking),
    };
    Check::note(ID, AREA, format!("CPU {} has a timer tick", list(&ticking)), costs, fix)
}

/// Threads that run the callbacks of RCU for CPUs that are spared them, as kernels call them.
const RCU: [&str; 5] = ["rcuo/", "rcuog/", "rcuop/", "rcuos/", "rcuob/"];

fn is_rcu(name: &str) -> bool {
    RCU.iter().any(|begin| name.starts_with(begin))
}

fn rcu_nocbs(seen: &Seen, cpus: &[u32]) -> Check {
    const ID: &str = "rcu_nocbs";
    if !seen.shows_kernel() {
        let fact = "whether other CPUs run the callbacks of RCU is not known: no thread of the kernel is shown";
        return Check::unknown(ID, AREA, fact, SHOWN_TO);
    }
    // A CPU that is spared has a thread for its callbacks; that of a group (rcuog) has several.
    let threads =
        seen.tasks.iter().filter(|task| task.is_kernel && is_rcu(&task.name) && !task.name.starts_with("rcuog/"));
    let mut spared: Vec<u32> = threads.filter_map(|task| task.name.rsplit('/').next()?.parse().ok()).collect();
    spared.sort_unstable();
    spared.dedup();
    let costs = "callbacks of RCU run there in softirq context, up to some hundred µs after much was freed";
    if let Some(ignored) = ignored(seen, ID, &spared, cpus) {
        let fix = not_built(seen, "RCU_NOCB_CPU").unwrap_or_else(|| Fix::by("name CPUs that this machine has"));
        return Check::spoils(ID, AREA, ignored, costs, fix);
    }
    let burdened = missing(cpus, &spared);
    if !burdened.is_empty() {
        let fix = match not_built(seen, "RCU_NOCB_CPU") {
            Some(_) => Fix::by("use a kernel that is built with CONFIG_RCU_NOCB_CPU, and boot it with rcu_nocbs"),
            None => boot(ID, &burdened),
        };
        return Check::note(ID, AREA, format!("CPU {} runs callbacks of RCU itself", list(&burdened)), costs, fix);
    }
    // Threads that run them may be on the very CPU; on an isolated one, those that were put there.
    let all = seen.tasks.iter().filter(|task| task.is_kernel && is_rcu(&task.name));
    let there: Vec<&SeenTask> = all.clone().filter(|task| cpus.iter().any(|cpu| seen.runs_on(task, *cpu))).collect();
    let of_cpus = |task: &&SeenTask| {
        let number = task.name.rsplit('/').next().and_then(|number| number.parse().ok());
        number.is_some_and(|number: u32| cpus.contains(&number))
    };
    let runs: Vec<String> =
        all.filter(of_cpus).map(|task| format!("{} on CPU {}", task.name, list(&task.allowed))).collect();
    let fact = format!("threads run the callbacks of RCU of CPU {}: {}", list(&spared), runs.join(", "));
    if there.is_empty() {
        return Check::fine(ID, AREA, fact);
    }
    let (others, near) = near(seen, cpus, cpus.first().and_then(|cpu| node_of(seen, *cpu)));
    let fix = moved(Fix::by(format!("have these threads run on {}", place(&others))), &there, &others);
    let fact = format!("{fact}; {} may run there too{near}", names(&there));
    Check::spoils(ID, AREA, fact, "they take the CPU that they are to spare", fix)
}

fn workqueues(seen: &Seen, cpus: &[u32]) -> Option<Check> {
    const ID: &str = "workqueues";
    const FILE: &str = "/sys/devices/virtual/workqueue/cpumask";
    let there = seen.workqueues.as_ref()?;
    let shared: Vec<u32> = cpus.iter().filter(|cpu| there.contains(cpu)).copied().collect();
    if shared.is_empty() {
        return Some(Check::fine(ID, AREA, format!("work that is bound to no CPU runs on CPU {}", list(there))));
    }
    let fact = format!("work of the kernel that is bound to no CPU may run on CPU {}", list(&shared));
    let rest: Vec<u32> = seen.others(cpus).into_iter().filter(|cpu| there.contains(cpu)).collect();
    let fix = match rest.is_empty() {
        true => Fix::by("leave at least one CPU to the kernel's work"),
        false => Fix::by(format!("leave that work to CPU {}", list(&rest))).file(FILE, mask(&rest), mask(there)),
    };
    Some(Check::note(ID, AREA, fact, "it takes some µs to some ms at a time", fix))
}

/// A mask as the kernel reads it.
fn mask(cpus: &[u32]) -> String {
    let groups = cpus.iter().max().map_or(1, |most| most / 32 + 1);
    let group = |group: u32| {
        let bits = cpus.iter().filter(|cpu| **cpu / 32 == group).fold(0u32, |bits, cpu| bits | 1 << (cpu % 32));
        format!("{bits:08x}")
    };
    (0..groups).rev().map(group).collect::<Vec<_>>().join(",")
}

fn watchdog(seen: &Seen, cpus: &[u32]) -> Option<Check> {
    const ID: &str = "watchdog";
    let watched: Vec<u32> =
        cpus.iter().filter(|cpu| seen.watchdog.as_ref().is_some_and(|of| of.contains(cpu))).copied().collect();
    if watched.is_empty() {
        return Some(Check::fine(ID, AREA, "the kernel's watchdog for lockups is not on these CPUs"));
    }
    let fact = format!("the kernel's watchdog for lockups is on CPU {}", list(&watched));
    let fix = Fix::by("switch it off").file("/proc/sys/kernel/watchdog", "0", "1");
    Some(Check::note(ID, AREA, fact, "a timer and a thread of the highest priority every 4 s, for some µs", fix))
}

fn timer_migration(seen: &Seen) -> Option<Check> {
    const ID: &str = "timer-migration";
    let fine = Check::fine(ID, AREA, "timers of idle CPUs go to busy ones");
    if seen.timer_migration? {
        return Some(fine);
    }
    let fix = Fix::by("switch it on").file("/proc/sys/kernel/timer_migration", "1", "0");
    Some(Check::note(
        ID,
        AREA,
        "timers stay on the CPU that started them",
        "timers of others fire on an isolated CPU",
        fix,
    ))
}
