// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a check comes to, and all of them together.

use crate::seen::count;
use schemars::JsonSchema;
use serde::Serialize;
use tardy_host::change::Change;

/// What a check is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Area {
    /// Whether CPUs are left alone.
    Isolation,
    Interrupts,
    /// How deep they sleep, and how fast they run.
    Power,
    /// The kernel's scheduler and its limits.
    Scheduler,
    /// The machine's clocks, and what keeps them.
    Clocks,
    Network,
    /// What the kernel can do for packets.
    Kernel,
    /// What a CPU did while it was watched.
    Live,
}

impl Area {
    pub const fn title(self) -> &'static str {
        match self {
            Area::Isolation => "isolation",
            Area::Interrupts => "interrupts",
            Area::Power => "power",
            Area::Scheduler => "scheduler",
            Area::Clocks => "clocks",
            Area::Network => "network",
            Area::Kernel => "kernel",
            Area::Live => "live",
        }
    }
}

/// What a fact means for latencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// As it should be.
    Fine,
    /// Worth knowing. It spoils no figure by itself.
    Note,
    /// Nobody knows: the kernel does not show it, or not to this user.
    Unknown,
    /// It would spoil figures.
    Spoils,
}

impl Verdict {
    /// Its word in the table.
    pub const fn word(self) -> &'static str {
        match self {
            Verdict::Fine => "fine",
            Verdict::Note => "note",
            Verdict::Unknown => "unknown",
            Verdict::Spoils => "spoils",
        }
    }
}

/// A command that fixes something until the next boot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FixCommand {
    /// A line for a shell, as root.
    pub does: String,
    /// The line that takes it back.
    pub undoes: String,
    /// What both are made of.
    #[serde(skip)]
    #[schemars(skip)]
    pub change: Change,
}

/// How something is fixed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Fix {
    pub says: String,
    /// Commands that do it at once; none if it takes a boot, or another kernel or machine.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<FixCommand>,
}

impl Fix {
    /// One that no command does.
    pub fn by(says: impl Into<String>) -> Fix {
        Fix { says: says.into(), commands: Vec::new() }
    }

    /// The same with a change that a command makes, and another one takes back.
    #[must_use]
    pub fn change(mut self, change: Change) -> Fix {
        self.commands.push(FixCommand { does: change.line(), undoes: change.line_back(), change });
        self
    }

    /// The same with a file of the kernel's that gets a value in place of another one.
    #[must_use]
    pub fn file(self, file: impl Into<String>, set: impl Into<String>, was: impl Into<String>) -> Fix {
        self.change(Change::file(file, set, was))
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Check {
    pub id: String,
    pub area: Area,
    /// The CPU that it is about, if it is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u32>,
    /// The network device that it is about, if it is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nic: Option<String>,
    pub fact: String,
    pub verdict: Verdict,
    /// What it does to latencies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub costs: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<Fix>,
}

impl Check {
    fn new(id: &str, area: Area, verdict: Verdict, fact: impl Into<String>) -> Check {
        Check { id: id.to_owned(), area, cpu: None, nic: None, fact: fact.into(), verdict, costs: None, fix: None }
    }

    /// A fact that is as it should be.
    pub fn fine(id: &str, area: Area, fact: impl Into<String>) -> Check {
        Check::new(id, area, Verdict::Fine, fact)
    }

    /// A fact that nobody can read, and what would show it.
    pub fn unknown(id: &str, area: Area, fact: impl Into<String>, shows: impl Into<String>) -> Check {
        Check { fix: Some(Fix::by(shows)), ..Check::new(id, area, Verdict::Unknown, fact) }
    }

    /// A fact that is worth knowing, with what it does.
    pub fn note(id: &str, area: Area, fact: impl Into<String>, costs: impl Into<String>, fix: Fix) -> Check {
        Check { costs: Some(costs.into()), fix: Some(fix), ..Check::new(id, area, Verdict::Note, fact) }
    }

    /// A fact that spoils figures, with what it does and what helps.
    pub fn spoils(id: &str, area: Area, fact: impl Into<String>, costs: impl Into<String>, fix: Fix) -> Check {
        Check { costs: Some(costs.into()), fix: Some(fix), ..Check::new(id, area, Verdict::Spoils, fact) }
    }

    /// The same of one CPU.
    #[must_use]
    pub fn on(self, cpu: u32) -> Check {
        Check { cpu: Some(cpu), ..self }
    }

    /// The same of one network device.
    #[must_use]
    pub fn of(self, nic: &str) -> Check {
        Check { nic: Some(nic.to_owned()), ..self }
    }
}

/// All checks of a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "doctor")]
pub struct Diagnosis {
    /// Version of this format.
    pub format: u32,
    /// Release of the machine's kernel.
    pub kernel: String,
    /// The CPUs that were looked at: those that are to be left alone.
    pub cpus: Vec<u32>,
    /// True if no check spoils figures.
    pub fine: bool,
    pub checks: Vec<Check>,
}

/// The version of the format.
pub const FORMAT: u32 = 1;

impl Diagnosis {
    pub fn of(kernel: String, cpus: Vec<u32>, checks: Vec<Check>) -> Diagnosis {
        let fine = checks.iter().all(|check| check.verdict != Verdict::Spoils);
        Diagnosis { format: FORMAT, kernel, cpus, fine, checks }
    }
}

/// What would spoil figures, one line for each kind of check: of several CPUs or devices the first
/// one's fact.
pub fn problems(checks: &[Check]) -> Vec<String> {
    let mut by_id: Vec<(&Check, usize)> = Vec::new();
    for check in checks.iter().filter(|check| check.verdict == Verdict::Spoils) {
        match by_id.iter_mut().find(|(known, _)| known.id == check.id) {
            Some((_, more)) => *more += 1,
            None => by_id.push((check, 0)),
        }
    }
    let line = |(check, more): (&Check, usize)| {
        let of = match (more, &check.nic) {
            (0, _) => return format!("{}: {}", check.id, check.fact),
            (_, Some(_)) => "device",
            (_, None) => "CPU",
        };
        format!("{}: {}; and the same kind on {}", check.id, check.fact, count(more, &format!("other {of}")))
    };
    by_id.into_iter().map(line).collect()
}

pub(crate) fn micros(ns: i64) -> String {
    format!("{:.1} µs", ns as f64 / 1e3)
}

/// `0-3,7`, as the kernel writes lists of CPUs.
pub fn list(cpus: &[u32]) -> String {
    let mut parts: Vec<(u32, u32)> = Vec::new();
    for cpu in cpus {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == *cpu => *last = *cpu,
            _ => parts.push((*cpu, *cpu)),
        }
    }
    let part = |(from, to): (u32, u32)| if from == to { from.to_string() } else { format!("{from}-{to}") };
    parts.into_iter().map(part).collect::<Vec<_>>().join(",")
}
