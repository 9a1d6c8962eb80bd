// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a stream is asked to be: the vocabulary that the experiment file, the engine and the
//! reports share.

use crate::ethernet::Tag;
use crate::path::PathId;
use crate::point::{Metric, Point};
use crate::port::{Headers, Port, Sim};
use crate::shaper;
use crate::time::Nanos;
use crate::xdp::{Core, DeviceHint, Triggered, XdpObject};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Bytes of a UDP header.
const UDP_HEADER: u32 = 8;
/// Bytes of a TCP header with the time stamps that Linux puts into each.
const TCP_HEADER: u32 = 32;

/// Which end of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// The sender; of a ping-pong the end that asks.
    Tx,
    /// The receiver, or the reflector.
    Rx,
    /// The receiver of a reflected stream's replies.
    Reply,
}

impl Side {
    /// The ends that a stream has.
    pub fn of(stream: &Stream) -> impl Iterator<Item = Side> {
        [Side::Tx, Side::Rx].into_iter().chain((stream.kind == Kind::Reflected).then_some(Side::Reply))
    }

    /// The CPU that its thread is to have.
    pub fn cpu(self, stream: &Stream) -> CpuChoice {
        match self {
            Side::Tx => stream.tx.cpu,
            Side::Rx => stream.rx.cpu,
            Side::Reply => stream.reply.cpu,
        }
    }

    /// The thread that its `same` and `different` mean.
    pub fn other(self) -> Side {
        if self == Side::Tx { Side::Rx } else { Side::Tx }
    }

    /// The policy that its thread is to have.
    pub fn policy(self, stream: &Stream) -> Policy {
        match self {
            Side::Tx => stream.tx.policy,
            Side::Rx => stream.rx.policy,
            Side::Reply => stream.reply.policy,
        }
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Side::Tx => "tx",
            Side::Rx => "rx",
            Side::Reply => "reply",
        })
    }
}

/// The end that can compute a metric while a trial runs, for the progress line; `None` if no end
/// has both of its instants before the trial is over.
pub fn live_end(kind: Kind, metric: Metric) -> Option<Side> {
    let Metric::Span(from, to) = metric else { return None };
    match (kind, from, to) {
        (Kind::Cyclic, Point::Scheduled, Point::RxKernel | Point::RxXdp | Point::Receive) => Some(Side::Rx),
        (Kind::Reflected, Point::Scheduled, Point::ReplyReceive) => Some(Side::Reply),
        (Kind::Pingpong, Point::Send, Point::ReplyReceive) => Some(Side::Tx),
        _ => None,
    }
}

/// Which CPU a thread is to run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CpuChoice {
    Auto,
    /// The other end's CPU.
    Same,
    /// Not the other end's CPU.
    Different,
    /// Not pinned at all.
    Any,
    Number(u32),
}

impl fmt::Display for CpuChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CpuChoice::Auto => f.write_str("auto"),
            CpuChoice::Same => f.write_str("same"),
            CpuChoice::Different => f.write_str("different"),
            CpuChoice::Any => f.write_str("any"),
            CpuChoice::Number(n) => write!(f, "{n}"),
        }
    }
}

/// A scheduling policy with its parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Policy {
    /// SCHED_OTHER: the kernel's ordinary policy.
    Other,
    /// SCHED_FIFO, priority 1 to 99.
    Fifo(u8),
    /// SCHED_RR, priority 1 to 99.
    Rr(u8),
    /// SCHED_DEADLINE. The kernel refuses it together with an affinity.
    Deadline {
        /// Run time in each period.
        runtime: Nanos,
        /// The run time must be available by then.
        deadline: Nanos,
        period: Nanos,
    },
}

impl Policy {
    /// True for FIFO and RR, which the RT bandwidth limit concerns.
    pub fn is_realtime(self) -> bool {
        matches!(self, Policy::Fifo(_) | Policy::Rr(_))
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Policy::Other => f.write_str("other"),
            Policy::Fifo(p) => write!(f, "fifo:{p}"),
            Policy::Rr(p) => write!(f, "rr:{p}"),
            Policy::Deadline { runtime, deadline, period } => {
                write!(f, "deadline:{}ns/{}ns/{}ns", runtime.0, deadline.0, period.0)
            }
        }
    }
}

/// What a stream does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Sent by the clock, one way.
    Cyclic,
    /// Sent by the clock and sent back; the schedule goes on whatever comes back.
    Reflected,
    /// Request and response: the next request goes out when a reply has come.
    Pingpong,
}

impl Kind {
    /// True if each packet is answered: a row then ends with the reply.
    pub const fn is_answered(self) -> bool {
        match self {
            Kind::Reflected | Kind::Pingpong => true,
            Kind::Cyclic => false,
        }
    }
    /// True if a schedule decides when packets go out.
    pub const fn is_scheduled(self) -> bool {
        match self {
            Kind::Cyclic | Kind::Reflected => true,
            Kind::Pingpong => false,
        }
    }
}

/// Version of the Internet protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ip {
    Ipv4,
    Ipv6,
}

impl Ip {
    /// Bytes of an IP and a UDP header.
    pub const fn headers(self) -> u32 {
        match self {
            Ip::Ipv4 => 28,
            Ip::Ipv6 => 48,
        }
    }
}

listed! {
    /// Whether packets have a launch time (SO_TXTIME).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Launch {
        #[default]
        None,
        /// The scheduled instant, before which none is to leave.
        Strict,
        /// The scheduled instant, by which each is to have left.
        Deadline,
    }
}

impl Launch {
    /// The name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Launch::None => "none",
            Launch::Strict => "strict",
            Launch::Deadline => "deadline",
        }
    }
    /// True if they have one.
    pub const fn is_some(self) -> bool {
        !matches!(self, Launch::None)
    }
}

/// What the sender does with packets whose slot has passed when it wakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Overrun {
    /// Sends them at once.
    Burst,
    Skip,
}

listed! {
    /// How a receiver waits.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Wait {
        /// In the receive call.
        Block,
        Poll,
        Select,
        Epoll,
        /// Asks again and again without sleeping.
        Spin,
        /// In the receive call, the kernel polling the device (SO_BUSY_POLL).
        Busypoll,
        /// Sleeps until just after a bulk of packets should have arrived (port `xdp`).
        Scheduled,
    }
}

impl Wait {
    /// The name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Wait::Block => "block",
            Wait::Poll => "poll",
            Wait::Select => "select",
            Wait::Epoll => "epoll",
            Wait::Spin => "spin",
            Wait::Busypoll => "busypoll",
            Wait::Scheduled => "scheduled",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tx {
    /// Where the thread runs.
    pub cpu: CpuChoice,
    /// How it is scheduled.
    pub policy: Policy,
    /// It aims to wake this long before the scheduled instant.
    pub advance: Nanos,
    /// It spins for the last stretch of this length instead of sleeping.
    pub spin: Nanos,
    /// How it waits for replies, where the stream is answered.
    pub wait: Wait,
    /// The queue that port `xdp` sends through; `None` for the one of its class.
    pub queue: Option<u32>,
    /// Frames of the memory that port `xdp` sends from, a power of two.
    pub frames: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rx {
    /// What packets are received through.
    pub port: Port,
    /// Where the thread runs; without meaning where there is a `core`.
    pub cpu: CpuChoice,
    /// The same by the CPU of the XDP program, where the port has one.
    pub core: Option<Core>,
    /// How it is scheduled.
    pub policy: Policy,
    pub wait: Wait,
    /// The one receive queue that has a socket, on port `xdp`; `None` for all of them.
    pub queue: Option<u32>,
    /// Frames of each queue's memory on port `xdp`, a power of two.
    pub frames: u32,
    /// The program that port `xdp` loads in place of tardy's own.
    pub object: Option<XdpObject>,
    /// What tardy's own program there asks the device for each packet.
    pub hints: Vec<DeviceHint>,
}

/// The replies of a stream that is answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    /// Payload bytes of a reply.
    pub size: u16,
    /// Where the thread runs that receives the replies of a reflected stream; a ping-pong's is the
    /// sending one.
    pub cpu: CpuChoice,
    /// How it is scheduled.
    pub policy: Policy,
    /// Requests that may be on their way at once (ping-pong).
    pub in_flight: u32,
    /// After this time a request counts as lost, and the next may go out (ping-pong over UDP).
    pub timeout: Nanos,
    /// TCP_NODELAY at both ends.
    pub nodelay: bool,
}

/// A stream, every default filled in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stream {
    /// Its name in the experiment.
    pub name: String,
    /// The station that sends.
    pub from: String,
    /// The station that receives.
    pub to: String,
    /// Which path it takes, where several join its two stations.
    pub path: Option<PathId>,
    pub kind: Kind,
    /// What its packets are sent through; they look as this port makes them. Replies go through it
    /// both ways.
    pub port: Port,
    /// Over which version of IP.
    pub ip: Ip,
    /// Time between scheduled instants; zero where there is no schedule.
    pub cycle: Nanos,
    /// Intended packets in a trial.
    pub count: u32,
    /// Payload bytes of a packet: of UDP, or after the EtherType.
    pub size: u16,
    /// The frames' EtherType, where `port` is `packet`.
    pub ethertype: u16,
    /// The VLAN tag of its packets.
    pub tag: Option<Tag>,
    pub priority: u32,
    /// Whether packets have a launch time.
    pub launch: Launch,
    /// What happens to packets whose slot has passed.
    pub overrun: Overrun,
    /// The schedule that its packets carry.
    pub triggered: Triggered,
    /// Received later than scheduled + this: late.
    pub deadline: Nanos,
    /// The share of packets that may be lost before the trial is invalid, 0 to 1.
    pub max_loss: f64,
    /// How long the warm-up may take until stamps flow; then the trial starts without them.
    pub warmup: Nanos,
    /// Points to stamp, of those the machine offers.
    pub stamps: Vec<Point>,
    /// True if the experiment names them: then tardy refuses one that is not available.
    pub stamps_named: bool,
    /// Metrics that are asked for: each is in the results, if only to say why it is not available.
    pub metrics: Vec<Metric>,
    /// The metric that leads for it, if the experiment names one: by the key `lead`, or by the
    /// first limit on a latency.
    pub lead: Option<Metric>,
    pub tx: Tx,
    pub rx: Rx,
    /// Replies; without meaning where there are none.
    pub reply: Reply,
    /// The simulated path, where `port` is `sim`.
    pub sim: Sim,
}

/// No trial is taken for longer, for all that a dead connection costs.
const LONGEST: Nanos = Nanos(86_400_000_000_000);

/// No sender takes longer for a packet.
const SLOWEST: Nanos = Nanos(50_000);

impl Stream {
    /// The longest that its packets of a trial and their warm-up may take: every request of a
    /// ping-pong waits for its whole timeout, and a sender that does not keep its cycle sends as
    /// fast as a slow machine can. Twice as long, for whatever else holds it up.
    pub fn longest(&self) -> Nanos {
        let each = if self.kind.is_scheduled() { self.cycle.max(SLOWEST) } else { self.reply.timeout };
        let all = each.0.saturating_mul(i64::from(self.count)).saturating_add(self.warmup.0);
        Nanos(all.saturating_mul(2).clamp(0, LONGEST.0))
    }

    /// The metric that leads for it, as far as its stamps show before the run.
    pub fn leading(&self) -> Option<Metric> {
        let has = |point: &Point| match point {
            Point::Scheduled => self.kind.is_scheduled(),
            // Every reply that arrives has this stamp.
            Point::ReplyReceive => self.kind.is_answered(),
            point => self.stamps.contains(point),
        };
        let of_delta = || has(&Point::RxKernel) || has(&Point::RxXdp);
        let can = |metric: &Metric| if *metric == Metric::Delta { of_delta() } else { metric.points().iter().all(has) };
        let available: Vec<Metric> = self.metrics.iter().copied().filter(can).collect();
        Metric::leading(self.lead, self.kind.is_answered(), &available)
    }

    /// Bytes between the Ethernet header, with its tag, and the payload. A TCP header counts with
    /// its time stamps.
    pub const fn headers(&self) -> u32 {
        match self.port.traits().headers {
            Headers::None => 0,
            Headers::Udp => self.ip.headers(),
            Headers::Tcp => self.ip.headers() - UDP_HEADER + TCP_HEADER,
        }
    }
    /// Bytes of a packet after the Ethernet header and the tag. A TCP header counts with its time
    /// stamps.
    pub const fn packet_bytes(&self) -> u32 {
        self.size as u32 + self.headers()
    }
    /// How long a packet takes on a wire of this rate.
    pub fn frame_time(&self, bit_s: u64) -> Nanos {
        shaper::frame_time(self.packet_bytes(), self.tag.is_some(), bit_s)
    }
}

/// The stream under test, if there is one of this name; else it is the one that the experiment
/// names first.
pub const UNDER_TEST: &str = "ctl";

/// True if every stream goes through port `sim`: then nothing is built.
pub fn all_simulated(streams: &[Stream]) -> bool {
    streams.iter().all(|stream| stream.port.traits().is_simulated)
}
