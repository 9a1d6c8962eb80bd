// SPDX-License-Identifier: MIT OR Apache-2.0
//! What one end of a stream is ordered to do in one trial. All choices are made by then; a station
//! decides nothing.

mod probe;

pub use probe::{Checksum, GROUPS, ProbeOrder, SpecialFrame};

use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::IpAddr;
use std::ops::Range;
use tardy_bpf::hints::Columns;
use tardy_bpf::program::device_columns;
use tardy_bpf::user::{UserError, UserObject};
use tardy_model::ethernet::{Mac, Tag};
use tardy_model::frame::{Heads, PacketKind};
use tardy_model::point::{Metric, Point};
use tardy_model::port::{Port, TagBy};
use tardy_model::stream::{Kind, Launch, Overrun, Policy, Side, Stream, Wait};
use tardy_model::stream_id::StreamId;
use tardy_model::time::Nanos;
use tardy_model::xdp::{DeviceHint, Triggered};
use tardy_sys::stamps::RxStamps;

/// How a measuring thread is to run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ThreadOrder {
    /// CPU to pin to, by its number on the host of who gets the order: an agent lives on one host.
    /// `None` leaves the thread free.
    pub cpu: Option<u32>,
    pub policy: Policy,
}

/// A thread to measure the ruler with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RulerOrder {
    /// How it is to run.
    pub thread: ThreadOrder,
    /// A thread that runs like this sends packets, and may sleep until their instants.
    pub sends: bool,
}

/// What both ends know of a stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StreamOrder {
    /// Which of the set-up.
    pub stream: StreamId,
    /// The trial's random number.
    pub nonce: u64,
    pub kind: Kind,
    pub port: Port,
    /// Time between packets; zero without a schedule.
    pub cycle: Nanos,
    pub count: u32,
    /// Payload bytes of a packet.
    pub size: u16,
    /// Payload bytes of a reply.
    pub reply_size: u16,
    /// TCP_NODELAY at both ends of a connection.
    pub nodelay: bool,
    /// The frames' EtherType, on port `packet`.
    pub ethertype: u16,
    /// The VLAN tag of its packets, of both ways.
    pub tag: Option<Tag>,
    pub stamps: Vec<Point>,
    /// The schedule that its packets carry.
    pub triggered: Triggered,
    /// The metric that leads for it: the live figures are of this one, if its end can compute it
    /// (`tardy_model::stream::live_end`).
    pub lead: Option<Metric>,
}

impl StreamOrder {
    /// Of this stream of the set-up, in the trial of that nonce.
    pub fn of(stream: &Stream, id: StreamId, nonce: u64) -> Self {
        StreamOrder {
            stream: id,
            nonce,
            kind: stream.kind,
            port: stream.port,
            cycle: stream.cycle,
            count: stream.count,
            size: stream.size,
            reply_size: stream.reply.size,
            nodelay: stream.reply.nodelay,
            ethertype: stream.ethertype,
            tag: stream.tag,
            stamps: stream.stamps.clone(),
            triggered: stream.triggered,
            lead: stream.leading(),
        }
    }

    /// True if this point is to be stamped.
    pub fn wants(&self, point: Point) -> bool {
        self.stamps.contains(&point)
    }

    /// How its synchronisation frames begin; `None` if it has none.
    pub fn marks(&self) -> Option<Heads> {
        let has = self.triggered.sync > 0;
        has.then(|| Heads::marks(self.stream.number(), self.size, self.nonce))
    }

    /// True if each end of it takes one socket for both directions: a ping-pong over UDP whose
    /// sending nothing stamps. A stamp that comes back would wake who waits on that socket for a
    /// packet.
    pub fn takes_one_socket(&self) -> bool {
        let sending = [Point::TxSched, Point::TxKernel, Point::TxHw, Point::ReplyTxSched, Point::ReplyTxKernel];
        self.kind == Kind::Pingpong
            && self.port.traits().may_share_socket
            && !sending.into_iter().any(|point| self.wants(point))
    }
}

/// How packets carry their scheduled instant as launch time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaunchOrder {
    /// It is a deadline.
    pub deadline: bool,
    /// The trial's shift of the schedule: launch times of the warm-up fall into the same windows.
    pub phase: Nanos,
}

/// What a stream whose schedule is shifted by `phase` asks for.
pub fn launch_order(stream: &Stream, phase: Nanos) -> Option<LaunchOrder> {
    stream.launch.is_some().then_some(LaunchOrder { deadline: stream.launch == Launch::Deadline, phase })
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SendOrder {
    pub order: StreamOrder,
    pub thread: ThreadOrder,
    pub local: IpAddr,
    /// The address at the other end.
    pub peer: IpAddr,
    pub port: u16,
    /// The network device, to ask what it can stamp.
    pub device: String,
    /// Hardware addresses of the other end and of this one; on port `packet` they are in the
    /// frames.
    pub macs: [Mac; 2],
    pub priority: u32,
    /// The transmit queues that it may go through, where its port chooses them; `None` for all that
    /// the device has.
    pub queues: Option<Range<u32>>,
    /// Frames of the memory that it sends from, on port `xdp`.
    pub frames: u32,
    /// Wake this long before a packet is due.
    pub advance: Nanos,
    /// Spin for this last stretch.
    pub spin: Nanos,
    /// What to do with packets whose slot has passed.
    pub overrun: Overrun,
    /// True for the end that sends the replies.
    pub replies: bool,
    /// How packets carry a launch time; `None` if they do not.
    pub launch: Option<LaunchOrder>,
}

impl SendOrder {
    /// Payload bytes of what it sends.
    pub fn size(&self) -> u16 {
        if self.replies { self.order.reply_size } else { self.order.size }
    }

    /// True if the device's own stamps come back too. Whoever prepares the order has dropped the
    /// point if they do not.
    pub fn hardware(&self) -> bool {
        !self.replies && self.order.wants(Point::TxHw)
    }

    /// True if its packets pass two queue disciplines, that of a VLAN device and that of the
    /// device below it, and the kernel stamps them before both.
    pub fn passes_two_devices(&self) -> bool {
        self.order.port.traits().tag == TagBy::Device && self.order.tag.is_some()
    }

    /// Stamps, or reports of dropped packets, that come back for each packet.
    pub fn stamps(&self) -> u32 {
        let [_, sched, driver] = self.points();
        let [before, below] = [sched, driver].map(|point| u32::from(self.order.wants(point)));
        let devices = 1 + u32::from(self.passes_two_devices());
        let stamps = before * devices + below + u32::from(self.hardware());
        // Reports of what was dropped come back the same way.
        stamps.max(u32::from(self.launch.is_some()))
    }

    /// The points of its send call and of its kernel's stamps: before the queue discipline, in the
    /// driver.
    pub fn points(&self) -> [Point; 3] {
        match self.replies {
            false => [Point::Send, Point::TxSched, Point::TxKernel],
            true => [Point::ReplySend, Point::ReplyTxSched, Point::ReplyTxKernel],
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReceiveOrder {
    pub order: StreamOrder,
    pub thread: ThreadOrder,
    pub local: IpAddr,
    pub port: u16,
    /// The network device, to ask what it can stamp.
    pub device: String,
    pub wait: Wait,
    /// The one receive queue that has a socket, on port `xdp`; `None` for all of them.
    pub queue: Option<u32>,
    /// Frames of each queue's memory there.
    pub frames: u32,
    /// True for the end that receives the replies.
    pub replies: bool,
    /// The program that port `xdp` loads in place of tardy's own.
    pub object: Option<ObjectOrder>,
    /// What tardy's own program there asks the device for each packet.
    pub hints: Vec<DeviceHint>,
}

/// A user's own XDP program.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct ObjectOrder {
    /// The object's bytes: the receiver may be on a host that does not have the file.
    pub bytes: Vec<u8>,
    pub section: Option<String>,
    /// Members of its hint structs that are times, the packet's arrival time first.
    pub times: Vec<String>,
}

impl ObjectOrder {
    /// The same with what is known of it.
    ///
    /// # Errors
    /// What it lacks.
    pub fn read(&self) -> Result<UserObject<'_>, UserError> {
        UserObject::of(&self.bytes, self.section.as_deref())?.timed_by(&self.times)
    }
}

/// Whose cost is to be measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum CostOrder {
    /// One line that a program writes into the kernel's trace.
    Line,
    /// The lines that a user's own program writes.
    Object {
        object: ObjectOrder,
        /// One like those that it will see.
        packet: Vec<u8>,
    },
}

impl fmt::Debug for ObjectOrder {
    /// The bytes would say nothing.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ObjectOrder({} bytes, section {:?})", self.bytes.len(), self.section)
    }
}

/// The columns of what a user's object leaves before packets, or tardy's program that asks the
/// device for these hints. An object that cannot be read is never loaded.
pub(crate) fn columns_of(object: Option<(&[u8], Option<&str>)>, hints: &[DeviceHint]) -> Option<Columns> {
    match object {
        Some((bytes, section)) => UserObject::of(bytes, section).ok().map(|object| object.columns().clone()),
        None if hints.is_empty() => None,
        None => device_columns().ok(),
    }
}

/// Arrivals of a trial of this number of packets that are recorded: each eighth packet may come
/// twice.
pub fn room(count: u32) -> usize {
    count as usize + count as usize / 8 + 1_024
}

impl ReceiveOrder {
    /// What this end receives, in a trial and while warming up, and its payload bytes.
    pub fn expects(&self) -> (PacketKind, PacketKind, u16) {
        match self.replies {
            false => (PacketKind::Test, PacketKind::WarmUp, self.order.size),
            true => (PacketKind::Reply, PacketKind::WarmUpReply, self.order.reply_size),
        }
    }

    /// The columns of what the XDP program leaves before each packet, where that is kept: a user's
    /// own program, or one that asks the device.
    pub fn columns(&self) -> Option<Columns> {
        let object = self.object.as_ref().map(|object| (&object.bytes[..], object.section.as_deref()));
        columns_of(object, &self.hints)
    }

    /// How the trial's packets that it receives begin.
    pub fn heads(&self) -> Heads {
        let (kind, _, size) = self.expects();
        Heads::new(kind, self.order.stream.number(), size, self.order.nonce)
    }

    /// Arrivals that are recorded.
    pub fn room(&self) -> usize {
        room(self.order.count)
    }

    /// Bytes before each packet that are recorded: as many as the largest struct has of what
    /// [`ReceiveOrder::columns`] has, 0 where nothing of it is kept.
    pub fn area(&self) -> usize {
        self.columns().map_or(0, |columns| columns.area())
    }

    /// The point of its kernel's stamps.
    pub fn rx_kernel(&self) -> Point {
        if self.replies { Point::ReplyRxKernel } else { Point::RxKernel }
    }

    /// True if the device stamps what comes in too. Whoever prepares the order has dropped the
    /// point if it does not.
    pub fn hardware(&self) -> bool {
        !self.replies && self.order.wants(Point::RxHw)
    }

    /// What it asks its socket for.
    pub fn stamps(&self) -> RxStamps {
        RxStamps { software: self.order.wants(self.rx_kernel()), hardware: self.hardware() }
    }
}

/// The end that sends requests and waits for their replies, in one thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AskOrder {
    /// How requests are sent.
    pub send: SendOrder,
    /// How replies are received.
    pub receive: ReceiveOrder,
    /// Requests that may be on their way at once.
    pub in_flight: u32,
    /// A request without a reply after this time is given up.
    pub timeout: Nanos,
}

/// The end that sends each packet back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReflectOrder {
    /// How packets are received.
    pub receive: ReceiveOrder,
    /// How replies are sent: always to the station of the stream, whoever seems to have sent the
    /// packet.
    pub send: SendOrder,
}

/// What one end is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum EndOrder {
    /// Sends by the schedule.
    Send(SendOrder),
    Receive(ReceiveOrder),
    /// Sends requests and receives their replies.
    Ask(AskOrder),
    /// Receives and sends back.
    Reflect(ReflectOrder),
}

/// What an end has for the two directions that packets go: one thing for each that it owns.
pub enum Ways<S, R> {
    Send(S),
    Receive(R),
    Both(S, R),
}

impl<S, R> Ways<S, R> {
    /// Of sending; `None` of an end that only receives.
    pub fn send(&self) -> Option<&S> {
        match self {
            Ways::Send(send) | Ways::Both(send, _) => Some(send),
            Ways::Receive(_) => None,
        }
    }

    /// Of receiving; `None` of an end that only sends.
    pub fn receive(&self) -> Option<&R> {
        match self {
            Ways::Receive(receive) | Ways::Both(_, receive) => Some(receive),
            Ways::Send(_) => None,
        }
    }

    /// That of an end that only sends; `None` of another.
    pub fn only_send(self) -> Option<S> {
        if let Ways::Send(send) = self { Some(send) } else { None }
    }

    /// That of an end that only receives; `None` of another.
    pub fn only_receive(self) -> Option<R> {
        if let Ways::Receive(receive) = self { Some(receive) } else { None }
    }

    /// Those of an end that does both; `None` of another.
    pub fn both(self) -> Option<(S, R)> {
        if let Ways::Both(send, receive) = self { Some((send, receive)) } else { None }
    }
}

impl EndOrder {
    /// How it sends and how it receives.
    pub fn ways(&self) -> Ways<&SendOrder, &ReceiveOrder> {
        match self {
            EndOrder::Send(send) => Ways::Send(send),
            EndOrder::Receive(receive) => Ways::Receive(receive),
            EndOrder::Ask(ask) => Ways::Both(&ask.send, &ask.receive),
            EndOrder::Reflect(reflect) => Ways::Both(&reflect.send, &reflect.receive),
        }
    }

    /// Through what it goes.
    pub fn port(&self) -> Port {
        match self {
            EndOrder::Send(order) => order.order.port,
            EndOrder::Receive(order) => order.order.port,
            EndOrder::Ask(order) => order.send.order.port,
            EndOrder::Reflect(order) => order.receive.order.port,
        }
    }

    pub fn stream(&self) -> StreamId {
        match self {
            EndOrder::Send(order) => order.order.stream,
            EndOrder::Receive(order) => order.order.stream,
            EndOrder::Ask(order) => order.send.order.stream,
            EndOrder::Reflect(order) => order.receive.order.stream,
        }
    }

    /// Which end of it.
    pub fn side(&self) -> Side {
        match self {
            EndOrder::Send(_) | EndOrder::Ask(_) => Side::Tx,
            EndOrder::Receive(order) if order.replies => Side::Reply,
            EndOrder::Receive(_) | EndOrder::Reflect(_) => Side::Rx,
        }
    }
}
