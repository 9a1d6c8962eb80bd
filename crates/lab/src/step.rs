// SPDX-License-Identifier: MIT OR Apache-2.0
//! The least thing that is done to a host and put back as one, as a value. A plan holds steps, a
//! host carries them out, and they can be sent to a host elsewhere.

use crate::command::Command;
use crate::host::HostId;
use crate::host::place::Place;
use crate::inverse::Inverse;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt;
use tardy_model::manifest::QdiscsOf;

/// A text that this program is built with, or that came from another host.
pub type Text = Cow<'static, str>;

/// The least thing that is done and put back as one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// Where: its host carries it out. The commands name the namespace themselves, and some
    /// concern more than one.
    pub place: Place,
    /// What is done, in this order.
    pub does: Vec<Command>,
    /// What takes it back, in this order; empty where it goes away with what an earlier step made.
    pub undoes: Vec<Inverse>,
    /// What it is for.
    pub why: Text,
    /// A complaint with one of these texts is no failure: what was to be switched off is not there.
    pub tolerates: Cow<'static, [Text]>,
}

impl Step {
    /// A step that is done by these commands, for this purpose. It needs no inverse and tolerates
    /// no complaint.
    pub fn new(place: &Place, why: &'static str, does: Vec<Command>) -> Step {
        Step { place: place.clone(), does, undoes: Vec::new(), why: why.into(), tolerates: Cow::Borrowed(&[]) }
    }

    /// The same, taken back by these.
    #[must_use]
    pub fn undone_by(self, undoes: Vec<Inverse>) -> Step {
        Step { undoes, ..self }
    }

    /// The same, with complaints that are no failure.
    #[must_use]
    pub fn tolerating(self, complaints: &'static [Text]) -> Step {
        Step { tolerates: complaints.into(), ..self }
    }
}

/// A command that changes nothing and prints JSON, and the host whose kernel it asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    pub host: HostId,
    pub command: Command,
    /// Whose queue disciplines it asks for; `None` if it asks for something else.
    pub qdiscs_of: Option<QdiscsOf>,
}

impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.command.fmt(f)
    }
}

impl Question {
    /// A question to the host of a place.
    pub fn at(place: &Place, command: Command) -> Question {
        Question { host: place.host, command, qdiscs_of: None }
    }

    /// The same, as one for the queue disciplines of this end.
    #[must_use]
    pub fn for_qdiscs_of(self, end: QdiscsOf) -> Question {
        Question { qdiscs_of: Some(end), ..self }
    }
}
