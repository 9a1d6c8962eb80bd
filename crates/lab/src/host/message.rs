// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a coordinator and the steward of another host say to each other: one answer for each order,
//! as JSON in the frames of agents' messages. JSON, because the kernel's answers are kept as the
//! text that they are.

use super::ask::{Ask, Observe, Observed};
use crate::command::Command;
use crate::machine::Facts;
use crate::run::Event;
use crate::step::{Step, Text};
use crate::undo::PutBack;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{Read, Write};
use tardy_engine::message::{MessageError, read_frame, write_frame};
use tardy_model::manifest::{HostEntry, ReadBack};

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
}

/// From the steward.
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
    /// The slot's number.
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
