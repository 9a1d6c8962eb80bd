// SPDX-License-Identifier: MIT OR Apache-2.0
//! Background load: what it is asked to be, and what was measured of it in a trial.

use crate::machine::ThreadRecord;
use crate::path::PathId;
use crate::port::TcpRecord;
use crate::stream::{CpuChoice, Policy};
use crate::time::Nanos;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Most instances of one load.
pub const MOST_INSTANCES: u32 = 64;

/// How a number is drawn: bytes of a burst, ns of a gap.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Distribution {
    /// Always the same.
    Fixed(u64),
    /// From one to the other, both included, each as likely.
    Uniform(u64, u64),
    /// With this mean.
    Exponential(u64),
    /// Never below `scale`; the smaller `shape` is, the longer the tail.
    Pareto {
        /// The least value.
        scale: u64,
        /// The tail's exponent.
        shape: f64,
    },
}

/// A value drawn from a tail is cut at this multiple of the parameter, so that every loop is
/// bounded.
pub const CUT: u64 = 10_000;

impl Distribution {
    /// The value below which a share `u` (0 to 1, 1 excluded) of all draws lie. Fed with uniform
    /// randomness it draws.
    pub fn at(self, u: f64) -> u64 {
        let u = u.clamp(0.0, 1.0 - f64::EPSILON);
        match self {
            Distribution::Fixed(value) => value,
            Distribution::Uniform(low, high) => {
                let span = high.saturating_sub(low);
                low.saturating_add((u * (span as f64 + 1.0)) as u64).min(high.max(low))
            }
            Distribution::Exponential(mean) => {
                let value = -(1.0 - u).ln() * mean as f64;
                (value.round() as u64).min(mean.saturating_mul(CUT))
            }
            Distribution::Pareto { scale, shape } => {
                let value = scale as f64 / (1.0 - u).powf(1.0 / shape);
                (value.round() as u64).clamp(scale, scale.saturating_mul(CUT))
            }
        }
    }
}

/// A rate that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Rate {
    /// Payload bits a second.
    Bits(u64),
    /// Packets a second.
    Packets(u64),
}

listed! {
    /// The word for `load.*.kind`: a kind of load without what belongs to it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum LoadWord {
        TcpStream,
        TcpMaerts,
        TcpRr,
        UdpFlood,
        Camera,
        Sporadic,
        Cpu,
        Memory,
        Command,
    }
}

impl LoadWord {
    /// The name in files.
    pub const fn name(self) -> &'static str {
        match self {
            LoadWord::TcpStream => "tcp_stream",
            LoadWord::TcpMaerts => "tcp_maerts",
            LoadWord::TcpRr => "tcp_rr",
            LoadWord::UdpFlood => "udp_flood",
            LoadWord::Camera => "camera",
            LoadWord::Sporadic => "sporadic",
            LoadWord::Cpu => "cpu",
            LoadWord::Memory => "memory",
            LoadWord::Command => "command",
        }
    }
}

/// What a load does, with what belongs to its kind alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum LoadKind {
    /// Bulk over TCP, from → to.
    TcpStream {
        /// Bytes a send call.
        size: u64,
        /// As fast as possible if `None`.
        rate: Option<u64>,
    },
    /// Bulk over TCP, to → from: the station that asks receives.
    TcpMaerts {
        /// Bytes a send call.
        size: u64,
    },
    /// Request and response over TCP, one in flight.
    TcpRr {
        /// Bytes of a request.
        size: u64,
        /// Bytes of a response.
        reply_size: u64,
    },
    /// Datagrams at a rate, from → to.
    UdpFlood {
        /// Payload bytes of a datagram.
        size: u64,
        /// As fast as possible if `None`.
        rate: Option<Rate>,
    },
    /// Frames as of a camera, each a burst of datagrams, from → to.
    Camera {
        /// Frames a second.
        fps: u32,
        /// Bytes of a frame.
        frame_size: u64,
        /// Payload bytes of a datagram, the last of a frame may be shorter.
        packet_size: u64,
    },
    /// Bursts over TCP with gaps between, both drawn, from → to.
    Sporadic {
        /// Bytes a send call.
        size: u64,
        /// Bytes of a burst.
        burst: Distribution,
        /// From the end of a burst to the next, ns.
        gap: Distribution,
    },
    /// Computes for a share of the time.
    Cpu {
        /// The share.
        duty: f64,
        /// In each such period.
        period: Nanos,
    },
    /// Copies memory.
    Memory {
        /// Bytes that are copied back and forth within.
        working_set: u64,
    },
    /// A program of the user's.
    Command {
        /// Program and arguments, at `from`.
        command: Vec<String>,
        /// The same at `to`, started before; empty if there is none.
        peer_command: Vec<String>,
    },
}

impl LoadKind {
    /// Its word.
    pub const fn word(&self) -> LoadWord {
        match self {
            LoadKind::TcpStream { .. } => LoadWord::TcpStream,
            LoadKind::TcpMaerts { .. } => LoadWord::TcpMaerts,
            LoadKind::TcpRr { .. } => LoadWord::TcpRr,
            LoadKind::UdpFlood { .. } => LoadWord::UdpFlood,
            LoadKind::Camera { .. } => LoadWord::Camera,
            LoadKind::Sporadic { .. } => LoadWord::Sporadic,
            LoadKind::Cpu { .. } => LoadWord::Cpu,
            LoadKind::Memory { .. } => LoadWord::Memory,
            LoadKind::Command { .. } => LoadWord::Command,
        }
    }

    /// The name in files.
    pub const fn name(&self) -> &'static str {
        self.word().name()
    }

    /// True if it needs an address of its station's: it sends or receives, or a program is given
    /// the address.
    pub const fn has_address(&self) -> bool {
        !matches!(self, LoadKind::Cpu { .. } | LoadKind::Memory { .. })
    }

    /// True if its bytes go over a connection.
    pub const fn is_tcp(&self) -> bool {
        matches!(
            self,
            LoadKind::TcpStream { .. }
                | LoadKind::TcpMaerts { .. }
                | LoadKind::TcpRr { .. }
                | LoadKind::Sporadic { .. }
        )
    }

    /// True if it has a side at `to`.
    pub fn has_peer(&self) -> bool {
        match self {
            LoadKind::Cpu { .. } | LoadKind::Memory { .. } => false,
            LoadKind::Command { peer_command, .. } => !peer_command.is_empty(),
            _ => true,
        }
    }

    /// What it is asked to reach.
    pub fn asked(&self) -> Asked {
        let bits = |bit_s: u64, grain_bytes: u64| Asked { bit_s: Some(bit_s), grain_bytes, duty: None };
        match *self {
            LoadKind::TcpStream { size, rate: Some(rate) } => bits(rate, size),
            LoadKind::UdpFlood { size, rate: Some(Rate::Bits(rate)) } => bits(rate, size),
            LoadKind::UdpFlood { size, rate: Some(Rate::Packets(rate)) } => {
                bits(rate.saturating_mul(size).saturating_mul(8), size)
            }
            LoadKind::Camera { fps, frame_size, .. } => {
                bits(frame_size.saturating_mul(u64::from(fps)).saturating_mul(8), frame_size)
            }
            LoadKind::Cpu { duty, .. } => Asked { duty: Some(duty), ..Asked::default() },
            _ => Asked::default(),
        }
    }
}

/// A background load, every default filled in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// Its name in the experiment.
    pub name: String,
    /// What it does.
    pub kind: LoadKind,
    /// How many at once, 1 or more.
    pub count: u32,
    /// The station where it runs or starts from.
    pub from: String,
    /// The other station, of a load that has one.
    pub to: Option<String>,
    /// Which path it takes, where several lead there.
    pub path: Option<PathId>,
    /// CPU of the thread at `from`, as against that of the stream under test.
    pub cpu: CpuChoice,
    /// The same at `to`.
    pub peer_cpu: CpuChoice,
    /// How the thread at `from` is scheduled.
    pub policy: Policy,
    /// The same at `to`.
    pub peer_policy: Policy,
    /// When it starts after the trial's base time; negative: before the first packet.
    pub start: Nanos,
    /// When it ends after the base time; `None`: when the trial's streams are done.
    pub stop: Option<Nanos>,
    /// SO_SNDBUF, bytes; `None` leaves the kernel's.
    pub send_buffer: Option<u64>,
    /// SO_RCVBUF, bytes.
    pub receive_buffer: Option<u64>,
    /// It may stay this share below what was asked.
    pub shortfall: f64,
}

/// What one instance of a load is asked to reach.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Asked {
    /// Payload bits a second.
    pub bit_s: Option<u64>,
    /// What it sends at once, bytes: so much may be missing at the end of a whole trial.
    pub grain_bytes: u64,
    /// Share of a CPU.
    pub duty: Option<f64>,
}

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
    /// Its instances.
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

/// What one side of one instance did. Times count from the trial's base time, ns.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SideRecord {
    /// Its thread, read back; of a command the one that watches it, whose CPU and policy the
    /// program inherits.
    pub thread: ThreadRecord,
    /// When it began to work; `None` if it never did.
    pub began_ns: Option<i64>,
    /// When it ended.
    pub ended_ns: i64,
    /// Payload bytes sent.
    pub sent_bytes: u64,
    /// Send calls; of datagrams, datagrams.
    pub sends: u64,
    /// Payload bytes received.
    pub received_bytes: u64,
    /// Receive calls that brought something; of datagrams, datagrams.
    pub receives: u64,
    /// Whole transactions (`tcp_rr`).
    pub transactions: u64,
    /// What the kernel reports about the connection at its end.
    pub tcp: Option<TcpRecord>,
    /// CPU time that it used (`cpu`), ns.
    pub busy_ns: Option<i64>,
    /// Bytes copied (`memory`).
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

/// What a side had done when the trial began. The figures of a trial are without it: the stream
/// was not yet there to be held up, nor to hold the load up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lead {
    /// The first call after the base time, ns after it: the first one that is not counted here.
    pub at_ns: i64,
    /// Payload bytes sent.
    pub sent_bytes: u64,
    /// Send calls.
    pub sends: u64,
    /// Payload bytes received.
    pub received_bytes: u64,
    /// Receive calls.
    pub receives: u64,
    /// Whole transactions.
    pub transactions: u64,
    /// Bytes copied.
    pub copied_bytes: u64,
}

/// A side that broke, with the system's reason.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Broke {
    /// What was tried.
    pub what: String,
    /// The kernel's errno, 0 if there is none.
    pub errno: i32,
    /// When.
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
    /// Bytes of output.
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
    /// Bytes in each.
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
