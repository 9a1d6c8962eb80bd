// SPDX-License-Identifier: MIT OR Apache-2.0
//! Settings of a machine that somebody may change and put back, as values: what it is, what it is
//! set to, and what it was. A line for a shell is made of them, and what they are now is read here.
//! Nothing is changed. Only what is listed can be a value, and so only that can be put back.

use crate::cpus::parse_list;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::{ErrorKind, Read};
use std::path::{Component, Path};
use tardy_sys::proc::{Stat, Status, Task};
use tardy_sys::{ethtool, nic};

/// One change of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    File(FileChange),
    Device(DeviceChange),
    Thread(ThreadChange),
}

/// A file of the kernel's with another value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileChange {
    pub file: String,
    pub set: String,
    pub was: String,
}

/// A network device that is set otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceChange {
    pub device: String,
    /// Its number: another device may get its name.
    pub ifindex: u32,
    pub setting: DeviceSetting,
    pub set: String,
    pub was: String,
}

/// A thread that may run on other CPUs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ThreadChange {
    pub tid: u32,
    /// When it started, in clock ticks since boot: another thread may get its number.
    pub started_ticks: u64,
    pub set: String,
    pub was: String,
}

/// What of a network device is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeviceSetting {
    AdaptiveRx,
    AdaptiveTx,
    RxUsecs,
    TxUsecs,
    Eee,
    /// All three words of pause frames at once: drivers refuse some pairs.
    Pause,
    Gro,
    GroHw,
    Lro,
    Tso,
    GsoMaxSize,
}

/// What a setting is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Now {
    Is(String),
    /// There is no such file, device or thread.
    Gone,
    /// It is there, and this user or this kernel does not show it.
    Unknown,
}

/// What a file takes.
#[derive(Clone, Copy)]
enum Values {
    Integer,
    Switch,
    Cpus,
    Mask,
    Word,
    /// The file shows all words, and the one that is set between these signs.
    Chosen([char; 2]),
}

/// The files that may be changed. `#` is a number.
const FILES: [(&str, Values); 15] = [
    ("/proc/sys/kernel/watchdog", Values::Switch),
    ("/proc/sys/kernel/timer_migration", Values::Switch),
    ("/proc/sys/kernel/sched_rt_runtime_us", Values::Integer),
    ("/proc/sys/kernel/sched_autogroup_enabled", Values::Switch),
    ("/proc/sys/kernel/numa_balancing", Values::Integer),
    ("/proc/irq/#/smp_affinity_list", Values::Cpus),
    ("/sys/devices/system/cpu/cpu#/cpuidle/state#/disable", Values::Switch),
    ("/sys/devices/system/cpu/cpu#/cpufreq/scaling_governor", Values::Word),
    ("/sys/devices/system/cpu/intel_pstate/no_turbo", Values::Switch),
    ("/sys/devices/system/cpu/cpufreq/boost", Values::Switch),
    ("/sys/devices/system/clocksource/clocksource0/current_clocksource", Values::Word),
    ("/sys/devices/virtual/workqueue/cpumask", Values::Mask),
    ("/sys/kernel/mm/transparent_hugepage/enabled", Values::Chosen(['[', ']'])),
    ("/sys/kernel/debug/sched/preempt", Values::Chosen(['(', ')'])),
    ("/sys/kernel/debug/sched/fair_server/cpu#/runtime", Values::Integer),
];
/// Where control groups are, and their files that limit the CPU time.
const GROUPS: &str = "/sys/fs/cgroup/";
const QUOTA: &str = "cpu.max";
const QUOTA_OF_VERSION_1: &str = "cpu.cfs_quota_us";
/// What `sysctl` calls settings by.
const SYSCTL: &str = "/proc/sys/";
/// The most that is read of a file, bytes.
const LONGEST: u64 = 64 << 10;

impl Change {
    /// A file with another value.
    pub fn file(file: impl Into<String>, set: impl Into<String>, was: impl Into<String>) -> Change {
        Change::File(FileChange { file: file.into(), set: set.into(), was: was.into() })
    }

    /// The line for a shell that makes it.
    pub fn line(&self) -> String {
        self.with(self.set())
    }

    /// The line that takes it back.
    pub fn line_back(&self) -> String {
        self.with(self.was())
    }

    fn with(&self, value: &str) -> String {
        match self {
            Change::File(of) => of.line(value),
            Change::Device(of) => of.line(value),
            Change::Thread(of) => of.line(value),
        }
    }

    pub fn set(&self) -> &str {
        match self {
            Change::File(FileChange { set, .. })
            | Change::Device(DeviceChange { set, .. })
            | Change::Thread(ThreadChange { set, .. }) => set,
        }
    }

    pub fn was(&self) -> &str {
        match self {
            Change::File(FileChange { was, .. })
            | Change::Device(DeviceChange { was, .. })
            | Change::Thread(ThreadChange { was, .. }) => was,
        }
    }

    /// The same change from another value.
    #[must_use]
    pub fn from(mut self, value: String) -> Change {
        match &mut self {
            Change::File(FileChange { was, .. })
            | Change::Device(DeviceChange { was, .. })
            | Change::Thread(ThreadChange { was, .. }) => *was = value,
        }
        self
    }

    /// True if both change the same thing, whatever to.
    pub fn is_of_the_same(&self, other: &Change) -> bool {
        match (self, other) {
            (Change::File(one), Change::File(other)) => one.file == other.file,
            (Change::Device(one), Change::Device(other)) => {
                (one.ifindex, one.setting) == (other.ifindex, other.setting)
            }
            (Change::Thread(one), Change::Thread(other)) => {
                (one.tid, one.started_ticks) == (other.tid, other.started_ticks)
            }
            _ => false,
        }
    }

    /// What it is about, in words.
    pub fn names(&self) -> String {
        match self {
            Change::File(of) => of.file.clone(),
            Change::Device(of) => format!("{} of network device {}", of.setting.word(), of.device),
            Change::Thread(of) => format!("the CPUs of thread {}", of.tid),
        }
    }

    /// What is wrong with it, if something is: no such setting may be changed, or not to that.
    pub fn fault(&self) -> Option<String> {
        match self {
            Change::File(of) => of.fault(),
            Change::Device(of) => of.fault(),
            Change::Thread(of) => of.fault(),
        }
    }

    /// What it is now.
    pub fn now(&self) -> Now {
        match self {
            Change::File(of) => of.now(),
            Change::Device(of) => of.now(),
            Change::Thread(of) => of.now(),
        }
    }

    /// True if both words are one value.
    pub fn is_same(&self, one: &str, other: &str) -> bool {
        match self {
            Change::File(of) => of.values().is_some_and(|values| values.is_same(one, other)),
            Change::Device(_) => one == other,
            Change::Thread(_) => Values::Cpus.is_same(one, other),
        }
    }
}

impl Values {
    fn takes(self, value: &str) -> bool {
        let made_of =
            |allowed: fn(char) -> bool| !value.is_empty() && value.len() <= 4_096 && value.chars().all(allowed);
        match self {
            Values::Integer => value.parse::<i64>().is_ok_and(|number| number >= -1),
            Values::Switch => ["0", "1"].contains(&value),
            // What begins with a dash is an option to `taskset`.
            Values::Cpus => made_of(|of| of.is_ascii_digit() || of == ',' || of == '-') && !value.starts_with('-'),
            Values::Mask => made_of(|of| of.is_ascii_hexdigit() || of == ','),
            Values::Word | Values::Chosen(_) => {
                made_of(|of| of.is_ascii_alphanumeric() || of == '_' || of == '-') && !value.starts_with('-')
            }
        }
    }

    fn of(self, text: &str) -> String {
        let chosen = |[open, close]: [char; 2]| Some(text.split_once(open)?.1.split_once(close)?.0.to_owned());
        match self {
            Values::Chosen(signs) => chosen(signs).unwrap_or_else(|| text.to_owned()),
            _ => text.to_owned(),
        }
    }

    fn is_same(self, one: &str, other: &str) -> bool {
        let bits = |mask: &str| mask.replace(',', "").trim_start_matches('0').to_ascii_lowercase();
        match self {
            Values::Cpus => parse_list(one) == parse_list(other),
            Values::Mask => bits(one) == bits(other),
            _ => one == other,
        }
    }
}

/// True for a path that is this pattern with numbers in it.
fn fits(pattern: &str, path: &str) -> bool {
    let mut rest = path;
    for (n, part) in pattern.split('#').enumerate() {
        if n > 0 {
            let digits = rest.chars().take_while(char::is_ascii_digit).count();
            if !(1..=9).contains(&digits) {
                return false;
            }
            rest = &rest[digits..];
        }
        let Some(after) = rest.strip_prefix(part) else { return false };
        rest = after;
    }
    rest.is_empty()
}

impl FileChange {
    fn is_of_group(&self) -> bool {
        let Some(below) = self.file.strip_prefix(GROUPS) else { return false };
        // No path leaves the mount, and none reads otherwise than it is written.
        let is_sound = Path::new(below).components().all(|part| matches!(part, Component::Normal(_)))
            && !below.split('/').any(|part| part.is_empty() || part == ".");
        let name = below.rsplit('/').next().unwrap_or_default();
        is_sound && [QUOTA, QUOTA_OF_VERSION_1].contains(&name) && !below.contains(char::is_control)
    }

    fn values(&self) -> Option<Values> {
        if self.is_of_group() {
            return Some(Values::Integer);
        }
        FILES.iter().find(|(pattern, _)| fits(pattern, &self.file)).map(|(_, values)| *values)
    }

    fn takes(&self, value: &str) -> bool {
        let is_limit = |value: &str| {
            let (quota, period) = value.split_once(' ').unwrap_or((value, "1"));
            (quota == "max" || quota.parse::<u64>().is_ok()) && period.parse::<u64>().is_ok()
        };
        match self.values() {
            Some(_) if self.file.ends_with(QUOTA) => is_limit(value),
            values => values.is_some_and(|values| values.takes(value)),
        }
    }

    fn fault(&self) -> Option<String> {
        if self.values().is_none() {
            return Some(format!("`{}` is no setting that tardy changes", self.file));
        }
        let wrong = [&self.set, &self.was].into_iter().find(|value| !self.takes(value));
        wrong.map(|value| format!("`{value}` is no value of {}", self.file))
    }

    /// As a person writes it.
    fn line(&self, value: &str) -> String {
        match self.file.strip_prefix(SYSCTL) {
            Some(name) => format!("sysctl -w {}={value}", name.replace('/', ".")),
            None => self.script(value),
        }
    }

    /// What writes this value, as a line of POSIX shell that needs no other program.
    pub fn script(&self, value: &str) -> String {
        let file = if self.is_of_group() { word(&self.file) } else { self.file.clone() };
        format!("echo {value} >{file}")
    }

    fn now(&self) -> Now {
        let Some(values) = self.values() else { return Now::Unknown };
        let mut text = String::new();
        match fs::File::open(&self.file).and_then(|file| file.take(LONGEST).read_to_string(&mut text)) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Now::Gone,
            Err(_) => return Now::Unknown,
            Ok(_) => {}
        }
        let text = values.of(text.trim());
        // Without a limit the period is shown, and need not be written.
        let no_limit = self.is_of_group() && text.starts_with("max ");
        Now::Is(if no_limit { "max".to_owned() } else { text })
    }
}

impl DeviceSetting {
    /// What `ethtool` and `ip` call it.
    fn word(self) -> &'static str {
        match self {
            DeviceSetting::AdaptiveRx => "adaptive-rx",
            DeviceSetting::AdaptiveTx => "adaptive-tx",
            DeviceSetting::RxUsecs => "rx-usecs",
            DeviceSetting::TxUsecs => "tx-usecs",
            DeviceSetting::Eee => "eee",
            DeviceSetting::Pause => "pause",
            DeviceSetting::Gro => "gro",
            DeviceSetting::GroHw => "rx-gro-hw",
            DeviceSetting::Lro => "lro",
            DeviceSetting::Tso => "tso",
            DeviceSetting::GsoMaxSize => "gso_max_size",
        }
    }

    /// The setting that `ethtool -K` calls so.
    pub fn feature(option: &str) -> Option<DeviceSetting> {
        use DeviceSetting::{Gro, GroHw, Lro, Tso};
        [Gro, GroHw, Lro, Tso].into_iter().find(|of| of.word() == option)
    }

    /// What the kernel calls a feature.
    fn in_kernel(self) -> Option<&'static str> {
        match self {
            DeviceSetting::Gro => Some("rx-gro"),
            DeviceSetting::GroHw => Some("rx-gro-hw"),
            DeviceSetting::Lro => Some("rx-lro"),
            DeviceSetting::Tso => Some("tx-tcp-segmentation"),
            _ => None,
        }
    }

    fn takes(self, value: &str) -> bool {
        let is_switch = |value: &str| ["on", "off"].contains(&value);
        match self {
            DeviceSetting::RxUsecs | DeviceSetting::TxUsecs | DeviceSetting::GsoMaxSize => {
                value.parse::<u32>().is_ok_and(|number| number.to_string() == value)
            }
            DeviceSetting::Pause => {
                let words: Vec<&str> = value.split(' ').collect();
                matches!(words[..], ["autoneg", a, "rx", b, "tx", c] if [a, b, c].into_iter().all(is_switch))
            }
            _ => is_switch(value),
        }
    }
}

/// As `ethtool` takes a switch.
pub fn switch(on: bool) -> String {
    if on { "on" } else { "off" }.to_owned()
}

/// Pause frames as `ethtool -A` takes them.
pub fn pause_words(set: ethtool::Pause) -> String {
    format!("autoneg {} rx {} tx {}", switch(set.autoneg), switch(set.rx), switch(set.tx))
}

impl DeviceChange {
    fn fault(&self) -> Option<String> {
        let plain = |of: char| of.is_ascii_alphanumeric() || "._:@+-".contains(of);
        let is_named = (1..=15).contains(&self.device.len())
            && !self.device.starts_with(['-', '.'])
            && self.device.chars().all(plain);
        if !is_named {
            return Some(format!("`{}` is no network device's name", self.device));
        }
        let wrong = [&self.set, &self.was].into_iter().find(|value| !self.setting.takes(value));
        wrong.map(|value| format!("`{value}` is no value of {}", self.setting.word()))
    }

    /// The line that sets this value.
    pub fn line(&self, value: &str) -> String {
        let (device, option) = (word(&self.device), self.setting.word());
        match self.setting {
            DeviceSetting::Eee => format!("ethtool --set-eee {device} eee {value}"),
            DeviceSetting::Pause => format!("ethtool -A {device} {value}"),
            DeviceSetting::GsoMaxSize => format!("ip link set dev {device} {option} {value}"),
            of if of.in_kernel().is_some() => format!("ethtool -K {device} {option} {value}"),
            _ => format!("ethtool -C {device} {option} {value}"),
        }
    }

    fn now(&self) -> Now {
        let name = self.device.as_str();
        match nic::index(name) {
            Ok(index) if index == self.ifindex => {}
            _ => return Now::Gone,
        }
        let coalescing = || ethtool::coalescing(name).ok();
        let value = match self.setting {
            DeviceSetting::AdaptiveRx => coalescing().map(|of| switch(of.adaptive_rx)),
            DeviceSetting::AdaptiveTx => coalescing().map(|of| switch(of.adaptive_tx)),
            DeviceSetting::RxUsecs => coalescing().map(|of| of.rx_us.to_string()),
            DeviceSetting::TxUsecs => coalescing().map(|of| of.tx_us.to_string()),
            DeviceSetting::Eee => ethtool::eee(name).ok().map(|of| switch(of.is_enabled)),
            DeviceSetting::Pause => ethtool::pause(name).ok().map(pause_words),
            DeviceSetting::GsoMaxSize => {
                crate::nic::read(name).ok().and_then(|of| of.gso_max_size).map(|of| of.to_string())
            }
            of => {
                let feature = of.in_kernel().and_then(|feature| nic::feature(name, feature).ok().flatten());
                feature.map(|of| switch(of.on))
            }
        };
        value.map_or(Now::Unknown, Now::Is)
    }
}

impl ThreadChange {
    fn fault(&self) -> Option<String> {
        let wrong = [&self.set, &self.was].into_iter().find(|value| !Values::Cpus.takes(value));
        wrong.map(|value| format!("`{value}` is no list of CPUs"))
    }

    /// The line that has it run there.
    pub fn line(&self, value: &str) -> String {
        format!("taskset -pc {value} {}", self.tid)
    }

    fn now(&self) -> Now {
        let task = Task::Process(self.tid);
        match Stat::of(task) {
            Ok(stat) if stat.started_ticks == self.started_ticks && !matches!(stat.state, 'Z' | 'X') => {}
            _ => return Now::Gone,
        }
        let status = Status::of(task).ok();
        status.and_then(|of| of.allowed_cpus().map(str::to_owned)).map_or(Now::Unknown, Now::Is)
    }
}

/// A name as one word for a shell, whatever is in it.
pub fn word(name: &str) -> String {
    let is_plain = |of: char| of.is_ascii_alphanumeric() || "._-:@".contains(of);
    if !name.is_empty() && name.chars().all(is_plain) {
        name.to_owned()
    } else {
        format!("'{}'", name.replace('\'', "'\\''"))
    }
}
