// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is read of the machine. All of it comes out of files of the kernel below one folder, so
//! that a test can have a machine of its own.

use crate::nics::SeenNic;
use crate::quota::{self, Quota};
use crate::root::Root;
use crate::services::{self, ClockService};
use crate::tried::Tried;
use flate2::read::GzDecoder;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read;
use std::path::Path;
use tardy_host::cpus::{IdleState, parse_list, states_in};
use tardy_host::timekeeper::{self, Kept};

/// The most of a kernel's configuration that is read, bytes.
const MOST_CONFIG: u64 = 4 << 20;

/// A thread of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenTask {
    pub tid: u32,
    /// When it started, in clock ticks since boot: its number is used again after it.
    pub started_ticks: u64,
    pub name: String,
    /// It is the kernel's own.
    pub is_kernel: bool,
    /// CPUs on which it may run.
    pub allowed: Vec<u32>,
    /// The CPU on which it ran last.
    pub last: Option<u32>,
    /// It is the first one of its process.
    pub is_leader: bool,
    /// The kernel keeps it on its CPU, whatever one asks for (PF_NO_SETAFFINITY).
    pub is_fixed: bool,
    /// It comes before all ordinary tasks.
    pub is_realtime: bool,
}

/// An interrupt, and where it may go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interrupt {
    pub number: u32,
    /// Device and queue, as /proc/interrupts has them.
    pub name: String,
    pub allowed: Vec<u32>,
    /// The kernel has chosen its CPUs and takes no others; `None` if that is not shown.
    pub is_managed: Option<bool>,
    /// The NUMA node of its device; `None` if it has none, or the kernel does not say.
    pub node: Option<u32>,
    /// Where the kernel sent the last one. What somebody has changed since takes effect with the
    /// next one.
    pub effective: Vec<u32>,
}

impl Interrupt {
    /// Whether the next one comes to this CPU, as far as can be known.
    pub fn comes_to(&self, cpu: u32) -> bool {
        let stays = self.effective.iter().any(|of| self.allowed.contains(of));
        self.allowed.contains(&cpu) && (!stays || self.effective.contains(&cpu))
    }
}

/// What was read. What the kernel does not show, or not to this user, is `None`.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    pub release: String,
    /// `uname -v`: it has the word of the preemption model.
    pub version: String,
    pub command_line: String,
    /// Settings of the kernel by name, without `CONFIG_`.
    pub config: Option<BTreeMap<String, String>>,
    pub online: Vec<u32>,
    /// What the kernel made of `isolcpus`.
    pub isolated: Option<Vec<u32>>,
    /// What it made of `nohz_full`.
    pub nohz_full: Option<Vec<u32>>,
    /// CPUs of unbound work queues.
    pub workqueues: Option<Vec<u32>>,
    pub tasks: Vec<SeenTask>,
    pub interrupts: Vec<Interrupt>,
    /// How often each interrupt of a device came to a CPU while that was watched, by its number.
    pub came: BTreeMap<u32, BTreeMap<u32, u64>>,
    /// Names and CPUs of the watchdog for lockups; `None` where it is off or not there.
    pub watchdog: Option<Vec<u32>>,
    pub timer_migration: Option<bool>,
    pub idle_driver: Option<String>,
    pub idle_states: BTreeMap<u32, Vec<IdleState>>,
    /// What somebody has limited the time to wake up to for one CPU, µs.
    pub resume_limits_us: BTreeMap<u32, u64>,
    /// How long a CPU may take to wake, as long as somebody holds it, µs.
    pub dma_latency_us: Option<i32>,
    /// Governor of each CPU.
    pub governors: BTreeMap<u32, String>,
    pub frequency_driver: Option<String>,
    /// Whether CPUs may run faster than their rated frequency.
    pub turbo: Option<bool>,
    /// The processors that share a core with each CPU, it among them.
    pub siblings: BTreeMap<u32, Vec<u32>>,
    pub is_virtual: bool,
    pub rt_period_us: Option<i64>,
    pub rt_runtime_us: Option<i64>,
    /// What the control groups of this process leave it of the CPUs.
    pub quota: Option<Quota>,
    /// What the fair server gives ordinary tasks of each CPU of each second, ns.
    pub fair_server_ns: BTreeMap<u32, u64>,
    /// The model that is chosen, of a kernel that can choose (`none`, `voluntary`, `full`, `lazy`).
    pub preempt: Option<String>,
    pub is_realtime_kernel: bool,
    pub autogroup: Option<bool>,
    pub numa_balancing: Option<bool>,
    pub huge_pages: Option<String>,
    pub clock_source: Option<String>,
    pub clock_sources: Vec<String>,
    pub tai_offset_s: i32,
    /// Programs that set or steer clocks.
    pub clock_services: Vec<ClockService>,
    /// The PTP clock of each network device that has one, as `/dev/ptp0`.
    pub ptp_clocks: BTreeMap<String, String>,
    /// CPUs of each NUMA node.
    pub nodes: BTreeMap<u32, Vec<u32>>,
    /// What chrony and ptp4l report, once they are asked.
    pub kept: Vec<Kept>,
    pub is_root: bool,
    pub nics: Vec<SeenNic>,
    /// What the kernel can do for packets; `None` if it was not tried.
    pub tried: Option<Result<Tried, String>>,
}

/// Flags of a task, field 9 of its `stat` (include/linux/sched.h): the kernel's own, and one whose
/// CPUs nobody may change.
const PF_KTHREAD: u64 = 0x0020_0000;
const PF_NO_SETAFFINITY: u64 = 0x0400_0000;

impl Seen {
    pub fn read() -> Seen {
        let mut seen = Seen::of(Path::new("/"));
        seen.tai_offset_s = tardy_sys::clock::tai_offset_s();
        seen.is_root = tardy_sys::process::is_root();
        seen
    }

    /// Asks the programs that keep the clock how near it is to their reference. One that does not
    /// answer takes half a second.
    pub fn ask_keepers(&mut self) {
        if !self.clock_services.is_empty() {
            self.kept = timekeeper::all();
        }
    }

    /// Reads a machine whose files are below a folder.
    pub fn of(root: &Path) -> Seen {
        let root = Root(root);
        let cpu = |n: u32, file: &str| format!("sys/devices/system/cpu/cpu{n}/{file}");
        let online = root.cpus("sys/devices/system/cpu/online").unwrap_or_default();
        let by_cpu = |file: &str| -> BTreeMap<u32, String> {
            online.iter().filter_map(|n| Some((*n, root.text(&cpu(*n, file))?))).collect()
        };
        let siblings = by_cpu("topology/thread_siblings_list");
        let fair = |n: &u32| root.number(&format!("sys/kernel/debug/sched/fair_server/cpu{n}/runtime"));
        let release = root.text("proc/sys/kernel/osrelease").unwrap_or_default();
        let watchdog = root.flag("proc/sys/kernel/watchdog").unwrap_or(false);
        let tasks = tasks(&root);
        let leaders = tasks.iter().filter(|task| task.is_leader).map(|task| (task.tid, task.name.as_str()));
        Seen {
            version: root.text("proc/sys/kernel/version").unwrap_or_default(),
            command_line: root.text("proc/cmdline").unwrap_or_default(),
            config: config(&root, &release),
            isolated: isolated(&root),
            nohz_full: root.cpus("sys/devices/system/cpu/nohz_full"),
            workqueues: root.text("sys/devices/virtual/workqueue/cpumask").map(|mask| of_mask(&mask)),
            clock_services: services::read(&root, leaders),
            ptp_clocks: services::ptp_clocks(&root),
            nodes: nodes(&root),
            tasks,
            interrupts: interrupts(&root),
            watchdog: watchdog.then(|| root.cpus("proc/sys/kernel/watchdog_cpumask")).flatten(),
            timer_migration: root.flag("proc/sys/kernel/timer_migration"),
            idle_driver: root.text("sys/devices/system/cpu/cpuidle/current_driver").filter(|driver| driver != "none"),
            idle_states: online.iter().map(|n| (*n, states_in(&root.path(&cpu(*n, "cpuidle"))))).collect(),
            resume_limits_us: by_cpu("power/pm_qos_resume_latency_us").into_iter().filter_map(limit).collect(),
            dma_latency_us: dma_latency(&root),
            governors: by_cpu("cpufreq/scaling_governor"),
            frequency_driver: root.text("sys/devices/system/cpu/cpu0/cpufreq/scaling_driver"),
            turbo: turbo(&root),
            siblings: siblings.into_iter().map(|(n, list)| (n, parse_list(&list))).collect(),
            is_virtual: is_virtual(&root),
            rt_period_us: root.number("proc/sys/kernel/sched_rt_period_us"),
            rt_runtime_us: root.number("proc/sys/kernel/sched_rt_runtime_us"),
            quota: quota::read(root.0),
            fair_server_ns: online.iter().filter_map(|n| Some((*n, fair(n)?))).collect(),
            preempt: root.text("sys/kernel/debug/sched/preempt").and_then(|text| chosen(&text, ['(', ')'])),
            is_realtime_kernel: root.flag("sys/kernel/realtime").unwrap_or(false),
            autogroup: root.flag("proc/sys/kernel/sched_autogroup_enabled"),
            numa_balancing: root.flag("proc/sys/kernel/numa_balancing"),
            huge_pages: root
                .text("sys/kernel/mm/transparent_hugepage/enabled")
                .and_then(|text| chosen(&text, ['[', ']'])),
            clock_source: root.text("sys/devices/system/clocksource/clocksource0/current_clocksource"),
            clock_sources: root
                .text("sys/devices/system/clocksource/clocksource0/available_clocksource")
                .map(|text| text.split_whitespace().map(str::to_owned).collect())
                .unwrap_or_default(),
            release,
            online,
            ..Seen::default()
        }
    }

    /// The value of a word of the kernel's command line, of the last one as the kernel takes it;
    /// empty for a word without a value.
    pub fn word(&self, name: &str) -> Option<&str> {
        let words = self.command_line.split_whitespace().rev();
        let mut values = words.filter_map(|word| match word.split_once('=') {
            Some((key, value)) if key == name => Some(value),
            None if word == name => Some(""),
            _ => None,
        });
        values.next()
    }

    /// Whether the kernel is built with a setting; `None` if nobody knows.
    pub fn has(&self, setting: &str) -> Option<bool> {
        Some(self.config.as_ref()?.get(setting).is_some_and(|value| value != "n"))
    }

    /// CPUs for what is sent away from these ones: none that somebody wants to be left alone.
    pub fn others(&self, cpus: &[u32]) -> Vec<u32> {
        let quiet = [&self.isolated, &self.nohz_full].into_iter().flatten().flatten();
        let quiet: BTreeSet<&u32> = quiet.chain(cpus).collect();
        self.online.iter().filter(|cpu| !quiet.contains(cpu)).copied().collect()
    }

    /// Whether a task runs on a CPU. Where that is isolated nobody comes who may run elsewhere,
    /// unless it is there already.
    pub fn runs_on(&self, task: &SeenTask, cpu: u32) -> bool {
        let isolated = self.isolated.as_deref().unwrap_or_default();
        let online = || task.allowed.iter().filter(|of| self.online.contains(of));
        task.allowed.contains(&cpu)
            && (!isolated.contains(&cpu) || task.last == Some(cpu) || online().all(|of| isolated.contains(of)))
    }

    /// Whether tasks of the kernel are shown: not in a PID namespace, nor with hidepid.
    pub fn shows_kernel(&self) -> bool {
        self.tasks.iter().any(|task| task.is_kernel)
    }

    /// Whether the kernel's release is at least this one.
    pub fn is_at_least(&self, release: [u32; 2]) -> bool {
        let mut numbers = self.release.split(|of: char| !of.is_ascii_digit()).map_while(|number| number.parse().ok());
        [numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)] >= release
    }

    /// A list of CPUs as the command line has it: behind words such as `domain,managed_irq,`, with
    /// `all`, `N` for the last one, and `1-15:1/2` for the first one of each two.
    pub fn of_words(&self, value: &str) -> Vec<u32> {
        let last = self.online.iter().max().copied().unwrap_or(0);
        let number = |text: &str| if text == "N" { Some(last) } else { text.parse::<u32>().ok() };
        let part = |part: &str| -> Option<Vec<u32>> {
            if part == "all" {
                return Some((0..=last).collect());
            }
            let (range, stride) = part.split_once(':').map_or((part, None), |(range, stride)| (range, Some(stride)));
            let (from, to) = range.split_once('-').unwrap_or((range, range));
            let (from, to) = (number(from)?, number(to)?.min(last.max(MOST_CPU)));
            let (used, group) = match stride {
                Some(stride) => {
                    stride.split_once('/').and_then(|(used, group)| Some((number(used)?, number(group)?)))?
                }
                None => (1, 1),
            };
            Some((from..=to).filter(|cpu| (cpu - from) % group.max(1) < used).collect())
        };
        let mut cpus: Vec<u32> = value.split(',').filter_map(part).flatten().collect();
        cpus.sort_unstable();
        cpus.dedup();
        cpus
    }
}

/// No machine has more CPUs.
const MOST_CPU: u32 = 8_191;

/// Those of `isolcpus`, and those that a cgroup keeps for itself (Linux 6.7 and later show them).
fn isolated(root: &Root<'_>) -> Option<Vec<u32>> {
    let mut cpus = root.cpus("sys/devices/system/cpu/isolated")?;
    cpus.extend(root.cpus("sys/fs/cgroup/cpuset.cpus.isolated").unwrap_or_default());
    cpus.sort_unstable();
    cpus.dedup();
    Some(cpus)
}

/// `0` is no limit, and `n/a` none at all to wake up in.
fn limit((cpu, text): (u32, String)) -> Option<(u32, u64)> {
    match text.as_str() {
        "0" => None,
        "n/a" => Some((cpu, 0)),
        us => Some((cpu, us.parse().ok()?)),
    }
}

/// The CPUs of a mask as the kernel writes it: hexadecimal, in groups of 32 bits, the highest
/// first.
pub fn of_mask(mask: &str) -> Vec<u32> {
    let mut cpus = Vec::new();
    for (group, text) in mask.trim().split(',').rev().enumerate() {
        let bits = u32::from_str_radix(text, 16).unwrap_or(0);
        cpus.extend((0..32).filter(|bit| bits >> bit & 1 == 1).map(|bit| group as u32 * 32 + bit));
    }
    cpus
}

/// What a list of choices has between these signs: `always [madvise] never`.
fn chosen(text: &str, [open, close]: [char; 2]) -> Option<String> {
    let (_, rest) = text.split_once(open)?;
    Some(rest.split_once(close)?.0.to_owned())
}

fn is_virtual(root: &Root<'_>) -> bool {
    const VENDORS: [&str; 8] =
        ["QEMU", "KVM", "VMware", "Xen", "innotek", "Amazon EC2", "Google", "Microsoft Corporation Virtual"];
    let cpuinfo = root.text("proc/cpuinfo").unwrap_or_default();
    let flags = cpuinfo.lines().find(|line| line.starts_with("flags"));
    let dmi = |file: &str| root.text(&format!("sys/class/dmi/id/{file}")).unwrap_or_default();
    let machine = format!("{} {}", dmi("sys_vendor"), dmi("product_name"));
    flags.is_some_and(|flags| flags.split_whitespace().any(|flag| flag == "hypervisor"))
        || root.path("proc/device-tree/hypervisor").exists()
        || VENDORS.iter().any(|vendor| machine.starts_with(vendor))
}

fn turbo(root: &Root<'_>) -> Option<bool> {
    let no_turbo = root.flag("sys/devices/system/cpu/intel_pstate/no_turbo").map(|no| !no);
    no_turbo.or_else(|| root.flag("sys/devices/system/cpu/cpufreq/boost"))
}

/// What holds until somebody closes the file: the kernel gives 4 bytes.
fn dma_latency(root: &Root<'_>) -> Option<i32> {
    let mut bytes = [0; 4];
    fs::File::open(root.path("dev/cpu_dma_latency")).ok()?.read_exact(&mut bytes).ok()?;
    Some(i32::from_ne_bytes(bytes))
}

fn config(root: &Root<'_>, release: &str) -> Option<BTreeMap<String, String>> {
    let mut text = String::new();
    match fs::File::open(root.path("proc/config.gz")) {
        Ok(file) => GzDecoder::new(file).take(MOST_CONFIG).read_to_string(&mut text).ok()?,
        Err(_) => {
            let file = fs::File::open(root.path(&format!("boot/config-{release}"))).ok()?;
            file.take(MOST_CONFIG).read_to_string(&mut text).ok()?
        }
    };
    let line = |line: &str| {
        let (name, value) = line.strip_prefix("CONFIG_")?.split_once('=')?;
        Some((name.to_owned(), value.trim_matches('"').to_owned()))
    };
    Some(text.lines().filter_map(line).collect())
}

/// CPUs of each node.
fn nodes(root: &Root<'_>) -> BTreeMap<u32, Vec<u32>> {
    let of = |name: String| {
        let cpus = root.cpus(&format!("sys/devices/system/node/{name}/cpulist"))?;
        Some((name.strip_prefix("node")?.parse().ok()?, cpus))
    };
    root.names("sys/devices/system/node").into_iter().filter_map(of).collect()
}

fn tasks(root: &Root<'_>) -> Vec<SeenTask> {
    let mut found = Vec::new();
    let ourselves = std::process::id();
    for pid in root.numbers("proc").into_iter().filter(|pid| *pid != ourselves) {
        for tid in root.numbers(&format!("proc/{pid}/task")) {
            let file = |name: &str| root.text(&format!("proc/{pid}/task/{tid}/{name}"));
            // It may have ended meanwhile.
            let (Some(stat), Some(status)) = (file("stat"), file("status")) else { continue };
            found.extend(task(tid, &stat, &status).map(|task| SeenTask { is_leader: tid == pid, ..task }));
        }
    }
    found
}

fn task(tid: u32, stat: &str, status: &str) -> Option<SeenTask> {
    let (head, rest) = stat.rsplit_once(')')?;
    let name = head.split_once('(')?.1.to_owned();
    // The third field is the first one behind the name.
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    let flags = field(9)?;
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).map(parse_list);
    Some(SeenTask {
        tid,
        started_ticks: field(22)?,
        name,
        is_kernel: flags & PF_KTHREAD != 0,
        is_fixed: flags & PF_NO_SETAFFINITY != 0,
        allowed: allowed.unwrap_or_default(),
        last: field(39).and_then(|cpu| u32::try_from(cpu).ok()),
        is_leader: false,
        is_realtime: matches!(field(41), Some(1 | 2 | 6)),
    })
}

/// Parts of the names of queues whose CPUs the kernel has chosen.
const DISKS: [&str; 6] = ["nvme", "-req.", "megasas", "mpt3sas", "qla2xxx", "hisi_sas"];

fn interrupts(root: &Root<'_>) -> Vec<Interrupt> {
    let table = root.text("proc/interrupts").unwrap_or_default();
    let cpus = table.lines().next().map_or(0, |head| head.split_whitespace().count());
    let name = |number: u32| {
        let line = table.lines().find(|line| line.trim_start().starts_with(&format!("{number}:")));
        // The number, a count for each CPU, then who it is.
        let words = line.into_iter().flat_map(|line| line.split_whitespace().skip(1 + cpus));
        words.collect::<Vec<_>>().join(" ")
    };
    let numbers = root.numbers("proc/irq").into_iter();
    let interrupt = |number: u32| {
        let cpus = |file: &str| root.cpus(&format!("proc/irq/{number}/{file}"));
        let allowed = cpus("smp_affinity_list")?;
        let effective = cpus("effective_affinity_list").filter(|cpus| !cpus.is_empty());
        let name = name(number);
        let is_managed = match root.text(&format!("sys/kernel/debug/irq/irqs/{number}")) {
            Some(text) => Some(text.contains("IRQD_AFFINITY_MANAGED")),
            // Drivers of disks have the kernel choose the CPUs of their queues.
            None => DISKS.iter().any(|disk| name.contains(disk)).then_some(true),
        };
        // One that nobody has asked for interrupts nobody.
        (!name.is_empty()).then(|| Interrupt {
            number,
            name,
            is_managed,
            node: root.number(&format!("proc/irq/{number}/node")),
            effective: effective.unwrap_or(allowed.clone()),
            allowed,
        })
    };
    numbers.filter_map(interrupt).collect()
}

/// `1 task`, `2 tasks`.
pub fn count(n: usize, of: &str) -> String {
    format!("{n} {of}{}", if n == 1 { "" } else { "s" })
}
