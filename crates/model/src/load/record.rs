// SPDX-License-Identifier: MIT OR Apache-2.0
//! What was measured of a load in a trial: of each instance what each of its sides did, and when.

use super::LoadKind;
use crate::placement::ThreadRecord;
use crate::port::TcpRecord;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A load in one trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadRecord {
    /// What it does, with its parameters.
    pub kind: LoadKind,
    /// It may stay this share below what was asked.
    pub shortfall: f64,
    /// When it was to start after the base time, ns.
    pub start_ns: i64,
    /// When it was to end, ns; `None`: with the streams.
    pub stop_ns: Option<i64>,
    pub instances: Vec<InstanceRecord>,
    /// The hosts of its sides: a CPU's number and a thread's id mean something on their host only.
    #[serde(default, skip_serializing_if = "SideHosts::are_here")]
    pub hosts: SideHosts,
}

/// The hosts of a load's two sides, by the names that the trial's record has for other hosts than
/// the coordinator's. They are not in [`SideRecord`]: an agent hands that over, and does not know
/// how its host is called.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SideHosts {
    /// That of the side at `from`; `None` for the coordinator's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// That of the side at `to`; `None` for the coordinator's, or if there is no such side.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
}

impl SideHosts {
    /// True if no side is on another host than the coordinator's.
    pub fn are_here(&self) -> bool {
        self.from.is_none() && self.to.is_none()
    }
}

/// One instance of a load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct InstanceRecord {
    /// Its side at `from`.
    pub from: SideRecord,
    /// Its side at `to`, if it has one.
    pub to: Option<SideRecord>,
}

/// What one side of one instance did. Times count from the trial's base time, ns. Bytes that are
/// sent and received are payload.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SideRecord {
    /// Its thread, read back; of a command the one that watches it, whose CPU and policy the
    /// program inherits.
    pub thread: ThreadRecord,
    /// When it began to work; `None` if it never did.
    pub began_ns: Option<i64>,
    pub ended_ns: i64,
    pub sent_bytes: u64,
    /// Send calls; of datagrams, datagrams.
    pub sends: u64,
    pub received_bytes: u64,
    /// Receive calls that brought something; of datagrams, datagrams.
    pub receives: u64,
    /// Transactions that were completed (`tcp_rr`).
    pub transactions: u64,
    /// What the kernel reports about the connection at its end.
    pub tcp: Option<TcpRecord>,
    /// CPU time that it used (`cpu`), ns.
    pub busy_ns: Option<i64>,
    /// Bytes that it copied (`memory`).
    pub copied_bytes: u64,
    /// What broke it, if something did.
    pub broke: Option<Broke>,
    /// How the program ended (`command`).
    pub exit: Option<ExitRecord>,
    /// Bytes over time: received where it receives, else sent, else copied.
    pub series: Series,
    /// What of its counts lies before the trial, where it began before it and went on.
    #[serde(default)]
    pub lead: Option<Lead>,
}

/// What a side had done when the trial began, in the counters of [`SideRecord`]. The figures of a
/// trial are without it: the stream was not yet there to be held up, nor to hold the load up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lead {
    /// The first call after the base time, ns after it: the first one that is not counted here.
    pub at_ns: i64,
    pub sent_bytes: u64,
    pub sends: u64,
    pub received_bytes: u64,
    pub receives: u64,
    pub transactions: u64,
    pub copied_bytes: u64,
}

/// A side that broke, with the system's reason.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Broke {
    /// What was tried, for a message.
    pub what: String,
    /// The kernel's errno, 0 if there is none.
    pub errno: i32,
    pub at_ns: i64,
}

/// How a program ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExitRecord {
    /// Its process id, which was also its group's.
    pub pid: u32,
    /// When it started: clock ticks since boot.
    pub start: u64,
    /// Its exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// True if tardy ended it: it ran until its stop.
    pub stopped: bool,
    /// Bytes that it wrote to stdout and stderr.
    pub output_bytes: u64,
    /// The bytes of these that are not in the log.
    pub dropped_bytes: u64,
    /// The last lines of its output.
    pub last_lines: Vec<String>,
}

/// Bytes in equal stretches of time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "series")]
pub struct Series {
    /// Length of a stretch, ns; 0 if there is none.
    pub every_ns: i64,
    /// Where the first begins, after the trial's base time, ns.
    pub first_ns: i64,
    /// Bytes of each stretch, in order.
    pub bytes: Vec<u64>,
}

impl Series {
    /// A series has at most this number of stretches; a longer load has longer ones.
    pub const MOST: usize = 1_000;
    /// The shortest stretch, ns.
    pub const LEAST_NS: i64 = 100_000_000;

    /// One that begins at `first_ns`.
    pub fn from(first_ns: i64) -> Series {
        Series { every_ns: Self::LEAST_NS, first_ns, bytes: Vec::with_capacity(Self::MOST) }
    }

    /// Counts bytes at an instant; what lies before the first stretch belongs to it.
    pub fn add(&mut self, at_ns: i64, bytes: u64) {
        if self.every_ns <= 0 {
            return;
        }
        loop {
            let at = usize::try_from(at_ns.saturating_sub(self.first_ns).max(0) / self.every_ns).unwrap_or(usize::MAX);
            if at < Self::MOST {
                if self.bytes.len() <= at {
                    self.bytes.resize(at + 1, 0);
                }
                self.bytes[at] = self.bytes[at].saturating_add(bytes);
                return;
            }
            self.widen();
        }
    }

    /// Makes stretches twice as long.
    fn widen(&mut self) {
        self.every_ns = self.every_ns.saturating_mul(2);
        let pairs = self.bytes.chunks(2).map(|pair| pair.iter().fold(0u64, |sum, n| sum.saturating_add(*n)));
        self.bytes = pairs.collect();
    }

    /// Adds another series of the same beginning to this one.
    pub fn merge(&mut self, other: &Series) {
        if other.every_ns <= 0 {
            return;
        }
        if self.every_ns <= 0 {
            self.clone_from(other);
            return;
        }
        let mut other = other.clone();
        while self.every_ns < other.every_ns {
            self.widen();
        }
        while other.every_ns < self.every_ns {
            other.widen();
        }
        if self.bytes.len() < other.bytes.len() {
            self.bytes.resize(other.bytes.len(), 0);
        }
        self.bytes.iter_mut().zip(&other.bytes).for_each(|(sum, more)| *sum = sum.saturating_add(*more));
    }
}

impl SideRecord {
    /// Without what it did before the trial began. A load that was over by then stays as it is.
    fn in_trial(&self) -> SideRecord {
        let Some(lead) = self.lead else { return self.clone() };
        SideRecord {
            began_ns: self.began_ns.map(|began| began.max(0)),
            sent_bytes: self.sent_bytes.saturating_sub(lead.sent_bytes),
            sends: self.sends.saturating_sub(lead.sends),
            received_bytes: self.received_bytes.saturating_sub(lead.received_bytes),
            receives: self.receives.saturating_sub(lead.receives),
            transactions: self.transactions.saturating_sub(lead.transactions),
            copied_bytes: self.copied_bytes.saturating_sub(lead.copied_bytes),
            ..self.clone()
        }
    }
}

impl LoadRecord {
    /// The host of the side of this role; `None` for the coordinator's.
    pub fn host(&self, role: &str) -> Option<&str> {
        if role == "to" { self.hosts.to.as_deref() } else { self.hosts.from.as_deref() }
    }

    /// The sides of all instances that are on a host, with the station's role.
    pub fn sides_on(&self, host: Option<&str>) -> impl Iterator<Item = (&'static str, &SideRecord)> {
        let all = self.instances.iter().flat_map(InstanceRecord::sides);
        all.filter(move |(role, _)| self.host(role) == host)
    }

    /// True if one of its sides is on a host.
    pub fn is_on(&self, host: Option<&str>) -> bool {
        let has_to = self.instances.iter().any(|instance| instance.to.is_some());
        self.host("from") == host || (has_to && self.host("to") == host)
    }
}

impl InstanceRecord {
    /// Both sides, with the station's role.
    pub fn sides(&self) -> impl Iterator<Item = (&'static str, &SideRecord)> {
        std::iter::once(("from", &self.from)).chain(self.to.as_ref().map(|to| ("to", to)))
    }

    /// The same without what its sides did before the trial began.
    pub fn in_trial(&self) -> InstanceRecord {
        InstanceRecord { from: self.from.in_trial(), to: self.to.as_ref().map(SideRecord::in_trial) }
    }

    /// The side that sends: of `tcp_maerts` the one at `to`.
    pub fn sender<'a>(&'a self, kind: &LoadKind) -> &'a SideRecord {
        match (kind, &self.to) {
            (LoadKind::TcpMaerts { .. }, Some(to)) => to,
            _ => &self.from,
        }
    }

    /// The side that receives, of a load whose bytes go one way.
    pub fn receiver<'a>(&'a self, kind: &LoadKind) -> Option<&'a SideRecord> {
        match kind {
            LoadKind::TcpMaerts { .. } | LoadKind::TcpRr { .. } => Some(&self.from),
            _ => self.to.as_ref(),
        }
    }

    /// From when to when its sending side worked, ns after the base time; `None` if it never began.
    pub fn span(&self, kind: &LoadKind) -> Option<(i64, i64)> {
        let sender = self.sender(kind);
        sender.began_ns.map(|began| (began, sender.ended_ns.max(began)))
    }

    /// The same, until its last byte had arrived where that is known: over a connection all that
    /// was sent arrives, some of it when the sending side has ended.
    pub fn arrival_span(&self, kind: &LoadKind) -> Option<(i64, i64)> {
        let (began, ended) = self.span(kind)?;
        let arrived = self.receiver(kind).filter(|_| kind.is_tcp()).map_or(ended, |receiver| receiver.ended_ns);
        Some((began, ended.max(arrived)))
    }
}
