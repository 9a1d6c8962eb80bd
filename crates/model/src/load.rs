// SPDX-License-Identifier: MIT OR Apache-2.0
//! Background load: what it is asked to be, and what was measured of it in a trial.

mod record;

use crate::path::PathId;
use crate::stream::{CpuChoice, Policy};
use crate::time::Nanos;
pub use record::{Broke, ExitRecord, InstanceRecord, Lead, LoadRecord, Series, SideHosts, SideRecord};
use serde::{Deserialize, Serialize};

/// Most instances of one load.
pub const MOST_INSTANCES: u32 = 64;

/// How a number is drawn: bytes of a burst, ns of a gap.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Distribution {
    /// Every draw is this value.
    Fixed(u64),
    /// From one to the other, both included, each as likely.
    Uniform(u64, u64),
    /// An exponential distribution with this mean.
    Exponential(u64),
    /// Never below `scale`; the smaller `shape` is, the longer the tail.
    Pareto { scale: u64, shape: f64 },
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
    /// Packets a second, each of the load's size.
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
        /// Frames a second, not datagrams.
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
        /// The fraction of each period in which it computes, 0 to 1.
        duty: f64,
        period: Nanos,
    },
    /// Copies memory as fast as possible.
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
    /// SO_RCVBUF, bytes; `None` leaves the kernel's.
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
