// SPDX-License-Identifier: MIT OR Apache-2.0
//! The agent's messages and their framing: a length prefix and postcard, over any pair of byte
//! streams.
//!
//! The first frame each way is a greeting in a fixed form, so that two versions can at least
//! identify themselves to each other.
//!
//! An activity is one thing that runs at a station in a trial: an end of a stream or a side of a
//! load. The coordinator numbers them, and every order and every answer names the activity that it
//! is about.

use crate::live::Digest;
use crate::load::LoadOrder;
use crate::order::{CostOrder, EndOrder, ObjectOrder, ProbeOrder, RulerOrder};
use crate::port::XdpStamp;
use crate::receiver::{Arrival, ReceiverCounters};
use crate::sender::{SenderCounters, SentRows};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io::{self, Read, Write};
use tardy_model::load::SideRecord;
use tardy_model::machine::RulerRecord;
use tardy_model::placement::ThreadRecord;
use tardy_model::point::Point;
use tardy_model::port::TcpRecord;
use tardy_model::stream::Side;
use tardy_model::time::{ClockReading, CounterReading, Instant, Nanos, Tai};
use tardy_model::trial::{OwnNotes, SpinGaps};
use tardy_model::xdp::{
    ArrivedProbes, AwaitedProbes, DeviceWithin, ObjectRecord, ProgramCost, ProgramRecord, XdpRecord, XdpSendRecord,
};

/// Version of the messages, also of those to a steward. Both sides must have the same.
pub const PROTOCOL: u32 = 33;
/// No message is longer; a longer length prefix is not one of ours.
pub const LONGEST: usize = 64 << 20;
/// Rows in one piece of a half.
pub const PIECE: usize = 65_536;
/// Bytes in one piece of what was before packets.
pub const AREA_PIECE: usize = 1 << 20;
const MAGIC: &[u8; 5] = b"tardy";

/// Why a message is not available.
#[derive(Debug, thiserror::Error)]
pub enum MessageError {
    /// The other side is gone.
    #[error("the other side closed the connection")]
    Closed,
    /// Reading or writing failed.
    #[error("the connection broke: {0}")]
    Broken(#[from] io::Error),
    /// These bytes are no message.
    #[error("not a message of this protocol: {0}")]
    Garbled(String),
    /// The greeting is of another version.
    #[error(
        "the agent is tardy {theirs} (protocol {protocol}), this is tardy {ours} (protocol {PROTOCOL}); run the same version on both"
    )]
    Version { theirs: String, protocol: u32, ours: String },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ToAgent {
    /// Measure the ruler for threads like these, one after the other.
    Measure(Vec<RulerOrder>),
    /// Look at these devices, from now until [`ToAgent::Inspected`].
    Inspect {
        /// Those whose programs are watched.
        devices: Vec<String>,
        /// Those inside the path.
        inside: Vec<DeviceWithin>,
        awaited: Vec<AwaitedProbes>,
    },
    /// Send each of these probe packets this number of times.
    Probe { probes: Vec<ProbeOrder>, times: u32 },
    /// What was seen, when all packets have arrived or no more will?
    Inspected {
        /// Packets of all that is awaited.
        each: u32,
        /// Users' own programs that this station will receive through.
        objects: Vec<ObjectOrder>,
    },
    /// Measure what this costs. No station of the host watches programs meanwhile: what watches
    /// them, and the kernel's count of their runs, would be measured too.
    Cost(CostOrder),
    /// What time is it on this host?
    Time,
    /// Make these activities ready: sockets, memory, threads. Those of the trial before end.
    Prepare {
        /// What this station does in the trial.
        activities: Vec<(ActivityId, ActivityOrder)>,
    },
    /// Connect what needs another station: there everything is ready.
    Connect,
    /// Send this number of warm-up packets, this far apart.
    WarmUp {
        /// The end that sends them.
        activity: ActivityId,
        count: u32,
        apart: Nanos,
    },
    /// How many warm-up packets came?
    WarmStatus {
        /// The end at which they arrive.
        activity: ActivityId,
    },
    /// The base time of these activities. A sender and a load start by it, a receiver needs it for
    /// live figures.
    Start {
        /// Those that have it.
        activities: Vec<ActivityId>,
        /// Instant of packet 0.
        base: Instant<Tai>,
    },
    /// End the work of these activities: the trial ends with what was done.
    Stop { activities: Vec<ActivityId> },
    /// The sender is done: stop receiving when `expected` packets have arrived, or when `linger`
    /// has passed.
    Finish {
        /// The end that receives.
        activity: ActivityId,
        /// Packets that were sent.
        expected: u64,
        /// Wait at most this long for them.
        linger: Nanos,
    },
    /// Hand over what this activity recorded.
    Collect { activity: ActivityId },
}

/// An end that is ready.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EndReady {
    /// Which activity it is.
    pub activity: ActivityId,
    /// The thread, read back.
    pub thread: ThreadRecord,
    /// Points of this end that were asked for and are not available, with the reason.
    pub absent: Vec<(Point, String)>,
    /// The error queue's size, read back; 0 at a receiver.
    pub error_queue_bytes: u64,
}

/// What an end hands over after its rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EndSummary {
    /// Events of its sending.
    pub sent: Option<SenderCounters>,
    /// Events of its receiving.
    pub arrived: Option<ReceiverCounters>,
    /// Gaps of a spinning loop.
    pub gaps: Option<SpinGaps>,
    /// The thread, read back at the end.
    pub thread: ThreadRecord,
    /// This station's clocks after the trial.
    pub clocks: ClockReading,
    /// What the kernel reports about its TCP connection.
    pub tcp: Option<TcpRecord>,
    /// What its thread did for tardy itself in the trial, and how much of that found no room.
    pub own: OwnNotes,
    /// What its port `xdp` was and saw.
    pub xdp: Option<XdpRecord>,
    /// What the port `xdp` was that it sent through.
    pub xdp_sent: Option<XdpSendRecord>,
}

/// What an activity hands over last, after its pieces.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(clippy::large_enum_variant, reason = "there is one for each activity, and it comes in a box")]
pub enum ActivitySummary {
    /// Of an end of a stream.
    End(EndSummary),
    /// Of a side of a load.
    Load(SideRecord),
}

/// What an agent reports to the coordinator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum FromAgent {
    Ruler(Vec<RulerRecord>),
    Ready {
        /// The ends of streams among the activities.
        ends: Vec<EndReady>,
        /// This station's clocks before the trial.
        clocks: ClockReading,
    },
    Connected,
    /// The devices are being watched.
    Inspecting,
    /// The probe packets are sent.
    Probed {
        /// How many of each the device took, and how many were dropped before it.
        sent: Vec<(u32, u32)>,
    },
    /// What was seen at the devices.
    Inspected {
        /// Without the station's name.
        programs: Vec<ProgramRecord>,
        /// Why what programs do could not be watched.
        unchecked: Option<String>,
        /// What arrived of all that is awaited; `None` where the device could not be listened to.
        arrived: Vec<Option<ArrivedProbes>>,
        /// What the code of each user's own program shows, without the station's name and without
        /// costs; `None` of one that cannot be read.
        objects: Vec<Option<ObjectRecord>>,
    },
    /// What was measured, or a clause that says why it was not.
    Cost(Result<ProgramCost, String>),
    /// The time on this host.
    Time {
        /// By CLOCK_TAI of the host that answers, ns.
        tai_ns: i64,
        /// The processor's counter there, where it can be read.
        counter: Option<CounterReading>,
    },
    Warmed {
        /// The end that sent.
        activity: ActivityId,
        /// Packets for which every stamp that is asked for came back.
        stamped: u32,
    },
    WarmStatus {
        /// The end that was asked.
        activity: ActivityId,
        received: u32,
        /// Those without a stamp of the kernel's, or of the XDP program.
        unstamped: u32,
        /// The latest one had it.
        last_stamped: bool,
        /// NAPI context of the socket, 0 for none.
        napi_id: u32,
        /// Answered so far, by a reflector.
        answered: u32,
        /// Answers for which every tx stamp that is asked for came back.
        answers_stamped: u32,
        /// CPUs that ran the XDP program, on port `xdp`: the first one, and one that differs.
        program_cpus: Vec<u32>,
    },
    Progress {
        /// The activity they are of.
        activity: ActivityId,
        digest: Digest,
    },
    /// An activity's work has ended, unasked for a sender, after `Finish` for a receiver.
    Done {
        activity: ActivityId,
        /// Packets handed to the port, or received.
        packets: u64,
    },
    /// Part of the rows of an end that sends.
    SenderPiece {
        /// The end that recorded it.
        activity: ActivityId,
        rows: SentRows,
    },
    /// Part of what arrived at an end that receives.
    ArrivalPiece {
        /// The end that recorded it.
        activity: ActivityId,
        arrivals: Vec<Arrival>,
    },
    /// Part of what an XDP program wrote before what arrived, in the order of the arrivals.
    XdpPiece {
        /// The end that recorded it.
        activity: ActivityId,
        stamps: Vec<XdpStamp>,
    },
    /// Part of the bytes before the packets that arrived, where a user's own XDP program wrote
    /// them: as many for each arrival as the object's largest struct has.
    AreaPiece {
        /// The end that recorded it.
        activity: ActivityId,
        areas: Vec<u8>,
    },
    /// Part of what a load's program wrote.
    LoadOutput {
        /// The load that ran it.
        activity: ActivityId,
        bytes: Vec<u8>,
    },
    /// All that an activity recorded has been handed over.
    Collected {
        activity: ActivityId,
        /// What comes in addition to its pieces.
        summary: Box<ActivitySummary>,
    },
    /// What was asked cannot be done; the trial is over, the agent lives.
    Failed(String),
    /// An activity cannot go on, unasked: it is still to be collected.
    Broke {
        activity: ActivityId,
        why: String,
    },
}

impl FromAgent {
    /// True if it answers nothing: a live figure, or a piece with nothing in it. An agent that goes
    /// on like this does not do what it was asked to.
    pub fn answers_nothing(&self) -> bool {
        match self {
            FromAgent::Progress { .. } => true,
            FromAgent::SenderPiece { rows, .. } => rows.longest() == 0,
            FromAgent::ArrivalPiece { arrivals, .. } => arrivals.is_empty(),
            FromAgent::XdpPiece { stamps, .. } => stamps.is_empty(),
            FromAgent::AreaPiece { areas, .. } => areas.is_empty(),
            FromAgent::LoadOutput { bytes, .. } => bytes.is_empty(),
            _ => false,
        }
    }

    /// The activities that the message is about.
    pub fn activities(&self) -> Vec<ActivityId> {
        match self {
            FromAgent::Warmed { activity, .. }
            | FromAgent::WarmStatus { activity, .. }
            | FromAgent::Progress { activity, .. }
            | FromAgent::Done { activity, .. }
            | FromAgent::SenderPiece { activity, .. }
            | FromAgent::ArrivalPiece { activity, .. }
            | FromAgent::XdpPiece { activity, .. }
            | FromAgent::AreaPiece { activity, .. }
            | FromAgent::LoadOutput { activity, .. }
            | FromAgent::Collected { activity, .. }
            | FromAgent::Broke { activity, .. } => vec![*activity],
            FromAgent::Ready { ends, .. } => ends.iter().map(|end| end.activity).collect(),
            FromAgent::Ruler(_)
            | FromAgent::Connected
            | FromAgent::Inspecting
            | FromAgent::Probed { .. }
            | FromAgent::Inspected { .. }
            | FromAgent::Cost(_)
            | FromAgent::Time { .. }
            | FromAgent::Failed(_) => Vec::new(),
        }
    }
}

/// Sends the bytes of one message.
pub fn write_frame(to: &mut impl Write, body: &[u8]) -> Result<(), MessageError> {
    let length = u32::try_from(body.len()).map_err(|_| MessageError::Garbled("message too long to send".into()))?;
    to.write_all(&length.to_le_bytes())?;
    to.write_all(body)?;
    to.flush()?;
    Ok(())
}

/// Receives the bytes of one message.
pub fn read_frame(from: &mut impl Read) -> Result<Vec<u8>, MessageError> {
    let mut length = [0; 4];
    match from.read_exact(&mut length) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Err(MessageError::Closed),
        other => other?,
    }
    let length = u32::from_le_bytes(length) as usize;
    if length > LONGEST {
        return Err(MessageError::Garbled(format!("a length of {length} bytes, the longest is {LONGEST}")));
    }
    // Grows with what really comes: a false length costs no memory.
    let mut body = Vec::new();
    from.take(length as u64).read_to_end(&mut body)?;
    if body.len() < length {
        return Err(MessageError::Closed);
    }
    Ok(body)
}

pub fn send<M: Serialize>(to: &mut impl Write, message: &M) -> Result<(), MessageError> {
    let body = postcard::to_stdvec(message).map_err(|error| MessageError::Garbled(error.to_string()))?;
    write_frame(to, &body)
}

pub fn receive<M: DeserializeOwned>(from: &mut impl Read) -> Result<M, MessageError> {
    let body = read_frame(from)?;
    postcard::from_bytes(&body).map_err(|error| MessageError::Garbled(error.to_string()))
}

/// Sends the greeting, which identifies this side.
pub fn greet(to: &mut impl Write, version: &str) -> Result<(), MessageError> {
    let mut body = MAGIC.to_vec();
    body.extend(PROTOCOL.to_le_bytes());
    body.extend(version.as_bytes());
    write_frame(to, &body)
}

/// Hears who they are; returns their version if it speaks this protocol.
pub fn hear(from: &mut impl Read, ours: &str) -> Result<String, MessageError> {
    let body = read_frame(from)?;
    let fixed = MAGIC.len() + 4;
    if body.len() < fixed || &body[..MAGIC.len()] != MAGIC {
        return Err(MessageError::Garbled("no greeting of a tardy agent".into()));
    }
    let protocol = u32::from_le_bytes([body[5], body[6], body[7], body[8]]);
    let theirs = String::from_utf8_lossy(&body[fixed..]).into_owned();
    if protocol != PROTOCOL {
        return Err(MessageError::Version { theirs, protocol, ours: ours.to_owned() });
    }
    Ok(theirs)
}

/// The number of an activity. No two activities of a trial share one, at whatever stations they
/// run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ActivityId(pub u32);

impl fmt::Display for ActivityId {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "activity {}", self.0)
    }
}

/// What an activity is ordered to do in one trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(clippy::large_enum_variant, reason = "a station has a few of them in a trial")]
pub enum ActivityOrder {
    /// To be an end of a stream.
    End(EndOrder),
    /// To be a side of a load.
    Load(LoadOrder),
}

/// The order in which a station makes its activities ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Turn {
    /// A receiver comes first: nothing that is sent may find a closed door.
    Receiver,
    /// An end that sends by itself.
    Sender,
    /// A load comes after all ends.
    Load,
}

impl ActivityOrder {
    /// When a station makes it ready.
    pub(crate) fn turn(&self) -> Turn {
        match self {
            ActivityOrder::End(order) if order.side() == Side::Tx => Turn::Sender,
            ActivityOrder::End(_) => Turn::Receiver,
            ActivityOrder::Load(_) => Turn::Load,
        }
    }
}
