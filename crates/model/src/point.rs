// SPDX-License-Identifier: MIT OR Apache-2.0
//! Points on a packet's way, metrics between two of them, and who took a stamp.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use std::fmt;
use std::str::FromStr;

/// A named place on a packet's way, in causal order; the last two are of copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Point {
    Scheduled,
    /// The sender's timer returned.
    Wakeup,
    /// Just before the send call.
    Send,
    /// Before the queue discipline (SOF_TIMESTAMPING_TX_SCHED).
    TxSched,
    /// In the sending driver (SOF_TIMESTAMPING_TX_SOFTWARE).
    TxKernel,
    /// In the sending NIC.
    TxHw,
    /// In the receiving NIC.
    RxHw,
    /// In the XDP program, by the NIC's hint.
    RxXdp,
    /// In the receiving kernel (SOF_TIMESTAMPING_RX_SOFTWARE).
    RxKernel,
    /// After the receive call returned.
    Receive,
    /// In the reflector, just before it sends the reply.
    ReplySend,
    /// The reply, before the reflector's queue discipline.
    ReplyTxSched,
    /// The reply, in the reflector's driver.
    ReplyTxKernel,
    /// The reply, in the kernel of the station that asked.
    ReplyRxKernel,
    /// The reply, after the receive call of the station that asked.
    ReplyReceive,
    /// A copying thread begins a pass over its buffers.
    Begin,
    /// It has ended it.
    End,
}

impl Point {
    /// How many points there are.
    pub const COUNT: usize = 17;
    /// All of them, in causal order.
    pub const ALL: [Point; Point::COUNT] = [
        Point::Scheduled,
        Point::Wakeup,
        Point::Send,
        Point::TxSched,
        Point::TxKernel,
        Point::TxHw,
        Point::RxHw,
        Point::RxXdp,
        Point::RxKernel,
        Point::Receive,
        Point::ReplySend,
        Point::ReplyTxSched,
        Point::ReplyTxKernel,
        Point::ReplyRxKernel,
        Point::ReplyReceive,
        Point::Begin,
        Point::End,
    ];

    /// Those that packets can have.
    pub const OF_PACKETS: [Point; 15] = {
        let mut points = [Point::Scheduled; 15];
        let mut n = 0;
        while n < points.len() {
            points[n] = Point::ALL[n];
            n += 1;
        }
        points
    };

    /// The points that metrics may use where an experiment names none and the stream is not
    /// answered. Those that a metric needs are stamped, as far as they are available.
    pub const USUAL: [Point; 8] = [
        Point::Wakeup,
        Point::Send,
        Point::TxSched,
        Point::TxKernel,
        Point::TxHw,
        Point::RxHw,
        Point::RxKernel,
        Point::Receive,
    ];

    /// The place in causal order, 0 for `scheduled`.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The name in tables and files.
    pub const fn name(self) -> &'static str {
        match self {
            Point::Scheduled => "scheduled",
            Point::Wakeup => "wakeup",
            Point::Send => "send",
            Point::TxSched => "tx_sched",
            Point::TxKernel => "tx_kernel",
            Point::TxHw => "tx_hw",
            Point::RxHw => "rx_hw",
            Point::RxXdp => "rx_xdp",
            Point::RxKernel => "rx_kernel",
            Point::Receive => "receive",
            Point::ReplySend => "reply_send",
            Point::ReplyTxSched => "reply_tx_sched",
            Point::ReplyTxKernel => "reply_tx_kernel",
            Point::ReplyRxKernel => "reply_rx_kernel",
            Point::ReplyReceive => "reply_receive",
            Point::Begin => "begin",
            Point::End => "end",
        }
    }

    /// True if it is stamped where the request arrives, by that host's clocks.
    pub const fn is_at_receiver(self) -> bool {
        Point::RxHw as usize <= self as usize && self as usize <= Point::ReplyTxKernel as usize
    }

    /// True for the way of a reply back to who asked.
    pub const fn is_of_reply(self) -> bool {
        self as usize >= Point::ReplySend as usize && !self.is_of_copy()
    }

    /// True for a pass of a copying thread, which no packet has.
    pub const fn is_of_copy(self) -> bool {
        self as usize >= Point::Begin as usize
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Point {
    type Err = String;
    fn from_str(name: &str) -> Result<Self, String> {
        Point::ALL.into_iter().find(|p| p.name() == name).ok_or_else(|| format!("`{name}` is not a point"))
    }
}

/// Who took a stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// The application, by `clock_gettime`.
    App,
    /// The kernel's network stack.
    Kernel,
    Driver,
    /// A NIC's own clock.
    Hardware,
    Bpf,
    /// A device model of an emulator.
    Emulated,
    Sim,
}

impl Source {
    pub const ALL: [Source; 7] =
        [Source::App, Source::Kernel, Source::Driver, Source::Hardware, Source::Bpf, Source::Emulated, Source::Sim];

    /// The name in tables and files.
    pub const fn name(self) -> &'static str {
        match self {
            Source::App => "app",
            Source::Kernel => "kernel",
            Source::Driver => "driver",
            Source::Hardware => "hardware",
            Source::Bpf => "bpf",
            Source::Emulated => "emulated",
            Source::Sim => "sim",
        }
    }
}

/// What is measured: the difference of two points, `delta`, or `transit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Metric {
    /// The second point minus the first.
    Span(Point, Point),
    /// Receive stamp minus that of the packet received before it, in arrival order.
    Delta,
    /// The round trip without the reflector's residence: `send..reply_receive` less
    /// `receive..reply_send`. Each of the two has one clock, so it needs no agreement between
    /// stations. RFC 5905, section 8: δ = (T4 − T1) − (T3 − T2).
    Transit,
}

impl Metric {
    /// How long a pass of a copying thread took.
    pub const PASS: Metric = Metric::Span(Point::Begin, Point::End);

    /// What is asked for where an experiment names no metrics.
    pub const DEFAULT: [Metric; 5] = [
        Metric::Span(Point::Scheduled, Point::Wakeup),
        Metric::Span(Point::Scheduled, Point::RxKernel),
        Metric::Span(Point::TxKernel, Point::RxKernel),
        Metric::Span(Point::RxKernel, Point::Receive),
        Metric::Delta,
    ];

    /// What is asked for where an experiment names no metrics and the stream is answered.
    pub const DEFAULT_ANSWERED: [Metric; 7] = [
        Metric::Span(Point::Scheduled, Point::Wakeup),
        Metric::Span(Point::Scheduled, Point::ReplyReceive),
        Metric::Span(Point::Send, Point::ReplyReceive),
        Metric::Transit,
        Metric::Span(Point::TxKernel, Point::RxKernel),
        Metric::Span(Point::Receive, Point::ReplySend),
        Metric::Span(Point::ReplyTxKernel, Point::ReplyRxKernel),
    ];

    /// The metric that leads for a stream whose experiment does not name one: the first of these
    /// that is available. For an answered stream it is the whole round trip, from the schedule or,
    /// in a closed loop, from the send; else the way from the schedule into the receiving station.
    pub const fn leads(answered: bool) -> &'static [Metric] {
        const LEADS: [Metric; 6] = [
            Metric::Span(Point::Scheduled, Point::ReplyReceive),
            Metric::Span(Point::Send, Point::ReplyReceive),
            Metric::Span(Point::Scheduled, Point::RxKernel),
            Metric::Span(Point::Scheduled, Point::RxXdp),
            Metric::Span(Point::Scheduled, Point::RxHw),
            Metric::Span(Point::Scheduled, Point::Receive),
        ];
        if answered { &LEADS } else { LEADS.split_at(2).1 }
    }

    /// The metric that leads for a stream, of those that are `available`: the one that the
    /// experiment names, else the first of [`Metric::leads`], else the earliest on the packet's
    /// way. Headline, page, progress line and `repeats` all call this, so they show the same one.
    pub fn leading(named: Option<Metric>, answered: bool, available: &[Metric]) -> Option<Metric> {
        let mut first = named.into_iter().chain(Metric::leads(answered).iter().copied());
        first.find(|metric| available.contains(metric)).or_else(|| available.iter().min().copied())
    }

    /// Points whose stamps it needs, the earliest first; `delta` also needs its own kind's.
    pub fn points(self) -> Vec<Point> {
        match self {
            Metric::Span(from, to) => vec![from, to],
            Metric::Delta => Vec::new(),
            Metric::Transit => vec![Point::Send, Point::Receive, Point::ReplySend, Point::ReplyReceive],
        }
    }

    /// Points that must be stamped for it. `delta` is of `rx_kernel` where that is stamped, as
    /// here.
    pub fn stamps(self) -> Vec<Point> {
        if self == Metric::Delta { vec![Point::RxKernel] } else { self.points() }
    }

    /// True if it is made of stamps at `rx_kernel`; `delta` is, wherever that point is stamped.
    pub fn has_rx_kernel(self) -> bool {
        self == Metric::Delta || self.points().contains(&Point::RxKernel)
    }

    /// True if it is the difference of an instant at one end and one at the other, so that it is
    /// as wrong as their clocks disagree.
    pub fn crosses_stations(self) -> bool {
        matches!(self, Metric::Span(from, to) if from.is_at_receiver() != to.is_at_receiver())
    }

    /// True if the order of the two points is one of cause and effect, so that a negative value is
    /// a fault of a clock. What counts from `scheduled` may be early.
    pub fn is_causal(self) -> bool {
        match self {
            Metric::Span(from, _) => from != Point::Scheduled,
            Metric::Delta => false,
            Metric::Transit => true,
        }
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Metric::Span(a, b) => write!(f, "{a}..{b}"),
            Metric::Delta => f.write_str("delta"),
            Metric::Transit => f.write_str("transit"),
        }
    }
}

impl FromStr for Metric {
    type Err = String;
    fn from_str(name: &str) -> Result<Self, String> {
        if name == "delta" {
            return Ok(Metric::Delta);
        }
        if name == "transit" {
            return Ok(Metric::Transit);
        }
        let neither = || format!("`{name}` is none of `delta`, `transit` and `POINT..POINT`");
        let (a, b) = name.split_once("..").ok_or_else(neither)?;
        let (a, b) = (a.parse::<Point>()?, b.parse::<Point>()?);
        if a >= b {
            return Err(format!("`{name}`: `{b}` does not come after `{a}`"));
        }
        Ok(Metric::Span(a, b))
    }
}

impl Serialize for Metric {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Metric {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}
