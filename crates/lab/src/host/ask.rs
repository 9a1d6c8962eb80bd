// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a host is asked and what it answers, and how a coordinator and the steward of another host
//! say so: one answer for each order, as JSON in the frames of agents' messages. JSON, because the
//! kernel's answers are kept as the text that they are.

use crate::command::Command;
use crate::machine::Facts;
use crate::run::Event;
use crate::step::{Step, Text};
use crate::undo::PutBack;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use tardy_engine::message::{MessageError, read_frame, write_frame};
use tardy_host::state::{MachineThread, Moment};
use tardy_host::timekeeper::{Kept, PtpSocket, Syncs};
use tardy_model::harmless::Json;
use tardy_model::machine::MachineState;
use tardy_model::manifest::{HostEntry, ReadBack};
use tardy_model::placement::NapiThread;

/// What a plan needs to know of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ask {
    /// Network devices that are to be taken.
    pub devices: Vec<DeviceAsk>,
    /// Programs that loads are to run there, as the experiment names them.
    pub programs: BTreeSet<String>,
    /// A station is the machine's own network: which addresses has it?
    #[serde(default)]
    pub addresses: bool,
    /// Paths are to set whether the kernel compiles BPF programs: other runs may not until the end.
    #[serde(default)]
    pub sets_bpf_jit: bool,
    /// Network devices behind which virtual machines are that the user already has.
    #[serde(default)]
    pub behind: BTreeSet<String>,
}

/// A network device that is to be taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceAsk {
    /// Its name, or another name of it.
    pub device: String,
    /// The greatest packet that it must carry, bytes.
    pub mtu: u32,
    /// It may be taken even if it has addresses.
    pub take: bool,
    /// The kind of path that takes it, as files call it. Where the machine cannot have such a path,
    /// the device is not looked at.
    pub path: String,
    /// The device at the other end of the cable, if that is on this host too. The two must not be
    /// names of one device.
    pub peer: Option<String>,
}

/// What is to be read before a trial, and again behind it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observe {
    /// On which side of the trial.
    pub moment: Moment,
    /// Programs of the user's run in the trial: what they start is theirs, not a disturbance.
    pub programs: bool,
    /// Network devices whose polling kernel threads the host checks.
    pub polled: Vec<String>,
    /// Commands that print JSON: what queue disciplines have counted.
    pub commands: Vec<Command>,
    /// The host is to report what keeps its clock.
    #[serde(default)]
    pub keepers: bool,
    /// Sockets of ptp4l that observes its clock.
    #[serde(default)]
    pub ptp: Vec<PtpSocket>,
}

impl Observe {
    /// The machine's state alone.
    pub fn nothing() -> Observe {
        let (polled, commands) = (Vec::new(), Vec::new());
        Observe { moment: Moment::Before, programs: false, polled, commands, keepers: false, ptp: Vec::new() }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Observed {
    /// What the machine had done until then.
    pub state: MachineState,
    /// The kernel threads that poll each device.
    pub napi: BTreeMap<String, Vec<NapiThread>>,
    /// The threads by which this host runs virtual machines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub machine_threads: Vec<MachineThread>,
    /// What each command printed, or why it did not.
    pub says: Vec<Result<Json, String>>,
    /// What keeps its clock.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<Kept>,
    /// What ptp4l measured that observes its clock.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub syncs: Vec<Syncs>,
}

pub(super) fn send(to: &mut impl Write, message: &impl Serialize) -> Result<(), MessageError> {
    let body = serde_json::to_vec(message).map_err(|error| MessageError::Garbled(error.to_string()))?;
    write_frame(to, &body)
}

pub(super) fn receive<M: DeserializeOwned>(from: &mut impl Read) -> Result<M, MessageError> {
    let body = read_frame(from)?;
    serde_json::from_slice(&body).map_err(|error| MessageError::Garbled(error.to_string()))
}

/// To the steward: the methods of [`super::Host`], but `start`: a program has byte streams of its
/// own, and the steward learns its process from `Note`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Order {
    Look(Ask),
    Describe,
    Claim,
    Apply(Vec<Step>),
    ReadBack(Vec<Command>),
    Now,
    LinkIsUp {
        netns: Option<String>,
        device: String,
    },
    /// The process that was started on its host.
    Note(u32),
    Observe(Observe),
    EndLeftovers,
    Keep,
    PutBack,
    End,
    /// From now on an order comes at least once in this number of seconds, or none will come
    /// any more.
    Watch(u32),
}

/// What the steward answers to an order.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Reply {
    /// Commands that it ran for this order.
    pub(super) ran: Vec<Event>,
    pub(super) answer: Answer,
}

/// What came of an order.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Answer {
    Facts(Box<Facts>),
    Slot(u16),
    Done,
    Read(Vec<ReadBack>),
    Described(Box<HostEntry>),
    /// The time by CLOCK_TAI, ns.
    Now(i64),
    LinkIsUp(bool),
    Observed(Box<Observed>),
    PutBack(PutBack),
    /// A command of a step was refused. The caller may know by `why` what to make of it.
    Failed {
        command: Command,
        why: Text,
        says: String,
    },
    /// Anything else that went wrong, in words for the user.
    Refused(String),
}
